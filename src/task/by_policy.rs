//! What is kept apart for commands in different sandboxes. Pure.

use crate::sandbox::policy::Policy;

/// For how many sandboxes something is kept; what was not used for the longest time is forgotten.
const MAX_POLICIES: usize = 8;

/// One value for each sandbox, the most recently used last.
#[derive(Debug)]
pub(super) struct ByPolicy<T>(Vec<(Policy, T)>);

impl<T> Default for ByPolicy<T> {
    fn default() -> ByPolicy<T> {
        ByPolicy(Vec::new())
    }
}

impl<T: Clone> ByPolicy<T> {
    pub(super) fn get(&mut self, policy: &Policy) -> Option<T> {
        let position = self.0.iter().position(|(of, _)| of == policy)?;
        // Moves nothing where one policy is in use.
        let tail = self.0.get_mut(position..)?;
        tail.rotate_left(1);
        self.0.last().map(|(_, value)| value.clone())
    }

    pub(super) fn put(&mut self, policy: &Policy, value: T) {
        self.remove(policy);
        if self.0.len() >= MAX_POLICIES {
            self.0.remove(0);
        }
        self.0.push((policy.clone(), value));
    }

    pub(super) fn remove(&mut self, policy: &Policy) {
        self.0.retain(|(of, _)| of != policy);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::policy::{Mode, Network};

    #[test]
    fn each_sandbox_has_its_own_and_the_least_used_is_forgotten() {
        let policy = |number: usize| Policy {
            mode: Mode::Workspace,
            write: vec![format!("/{number}").into()],
            network: Network::Off,
            ..Policy::off()
        };
        let mut kept = ByPolicy::default();
        for number in 0..MAX_POLICIES {
            kept.put(&policy(number), number);
        }
        assert_eq!(kept.get(&policy(0)), Some(0));
        kept.put(&policy(MAX_POLICIES), MAX_POLICIES);
        assert_eq!((kept.get(&policy(0)), kept.get(&policy(1))), (Some(0), None));
        kept.put(&policy(0), 7);
        assert_eq!((kept.get(&policy(0)), kept.0.len()), (Some(7), MAX_POLICIES));
        kept.remove(&policy(0));
        assert_eq!(kept.get(&policy(0)), None);
    }
}
