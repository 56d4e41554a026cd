//! When a command's options are looked up and shown, and in which order.
//!
//! A failure may be chance; the second in a row has the manual page read, the third
//! shows its table. Limits: the table itself is made elsewhere. Pure.

/// So many lines of a table are shown at most.
pub const MOST_LINES: usize = 40;

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
    pub fn is_to_look_up(&self, failures: u32, cached: bool) -> bool {
        self.enabled && !cached && failures >= self.trigger.max(1)
    }

    /// Whether to show them after so many failures in a row, the present one included.
    pub fn is_to_show(&self, failures: u32) -> bool {
        self.enabled && failures >= self.present.max(1)
    }
}

/// The table, options that the failing command used first, cut to [`MOST_LINES`]. An
/// entry is a line that begins with a dash and the lines up to the next such one; what
/// stands before the first entry stays where it is.
pub fn arrange(table: &str, used: &[&str]) -> String {
    let mut title = Vec::new();
    let mut entries: Vec<Vec<&str>> = Vec::new();
    for line in table.lines() {
        match entries.last_mut() {
            _ if line.trim_start().starts_with('-') => entries.push(vec![line]),
            Some(entry) => entry.push(line),
            None => title.push(line),
        }
    }
    let (first, rest): (Vec<_>, Vec<_>) = entries
        .into_iter()
        .partition(|entry| entry.first().is_some_and(|line| names_one_of(line, used)));
    let lines: Vec<&str> = [title]
        .into_iter()
        .chain(first)
        .chain(rest)
        .flatten()
        .collect();
    cut(&lines)
}

/// Whether a line's option names, as in `-o, --output=FILE  …`, hold one of these.
fn names_one_of(line: &str, used: &[&str]) -> bool {
    let names = line
        .split(|c: char| c.is_whitespace() || matches!(c, ',' | '=' | '[' | '|'))
        .filter(|word| !word.is_empty());
    names
        .take_while(|word| word.starts_with('-') || word.chars().all(char::is_uppercase))
        .any(|name| used.contains(&name))
}

fn cut(lines: &[&str]) -> String {
    if lines.len() <= MOST_LINES {
        return lines.join("\n");
    }
    let shown = lines.get(..MOST_LINES - 1).unwrap_or(lines);
    format!(
        "{}\n… {} more lines",
        shown.join("\n"),
        lines.len() - shown.len()
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_second_failure_looks_up_and_the_third_shows() {
        let policy = OptionsPolicy::default();
        let looks_up = |failures| policy.is_to_look_up(failures, false);
        assert_eq!([1, 2, 3].map(looks_up), [false, true, true]);
        assert!(!policy.is_to_look_up(2, true), "cached already");
        assert_eq!([2, 3, 4].map(|n| policy.is_to_show(n)), [false, true, true]);
        let off = OptionsPolicy {
            enabled: false,
            ..policy
        };
        assert!(!off.is_to_look_up(2, false) && !off.is_to_show(3));
    }

    #[test]
    fn used_options_come_first_with_all_their_lines() {
        let table =
            "NAME\n-a, --all  all of it\n-o, --output=FILE  where to\n      write\n-z  last";
        assert_eq!(
            arrange(table, &["--output"]),
            "NAME\n-o, --output=FILE  where to\n      write\n-a, --all  all of it\n-z  last"
        );
        assert_eq!(arrange(table, &["--missing"]), table);
    }

    #[test]
    fn a_long_table_is_cut_and_says_so() {
        let table: String = (0..100).map(|n| format!("-{n}  text\n")).collect();
        let shown = arrange(&table, &["-99"]);
        assert_eq!(shown.lines().count(), MOST_LINES);
        assert!(shown.starts_with("-99  text\n-0  text\n"), "{shown}");
        assert!(shown.ends_with("… 61 more lines"), "{shown}");
    }

    proptest! {
        #[test]
        fn any_table_is_arranged(table in any::<String>(), used in "-{0,2}[a-z]{0,3}") {
            prop_assert!(arrange(&table, &[used.as_str()]).lines().count() <= MOST_LINES);
        }
    }
}
