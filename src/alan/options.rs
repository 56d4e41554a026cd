//! When a command's options are looked up and shown.
//!
//! A failure may be chance; the second in a row has the manual page read, the third
//! shows its table. Limits: the table itself is made elsewhere. Pure.

/// When options are looked up and shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OptionsPolicy {
    /// Whether at all.
    pub enabled: bool,
    /// The failure in a row that has them looked up.
    pub trigger: u32,
    /// The failure in a row from which on they are shown.
    pub present: u32,
}

impl Default for OptionsPolicy {
    fn default() -> Self {
        OptionsPolicy {
            enabled: true,
            trigger: 2,
            present: 3,
        }
    }
}

impl OptionsPolicy {
    /// Whether to look them up after so many failures in a row; a look-up that came to
    /// nothing is tried again at the next failure.
    pub fn is_to_look_up(&self, failures: u32) -> bool {
        self.enabled && failures >= self.trigger.max(1)
    }

    /// Whether to show them after so many failures in a row, the present one included.
    pub fn is_to_show(&self, failures: u32) -> bool {
        self.enabled && failures >= self.present.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_failure_looks_up_and_the_third_shows() {
        let policy = OptionsPolicy::default();
        let looks_up = |failures| policy.is_to_look_up(failures);
        assert_eq!([1, 2, 3].map(looks_up), [false, true, true]);
        assert_eq!([2, 3, 4].map(|n| policy.is_to_show(n)), [false, true, true]);
        let off = OptionsPolicy {
            enabled: false,
            ..policy
        };
        assert!(!off.is_to_look_up(2) && !off.is_to_show(3));
    }
}
