//! Whose a process is.
//!
//! Limits: names come from `/etc/passwd` alone; who is known elsewhere has a number.

use super::processes;

pub use super::signals::{group_lives, is_out_of_reach, lives};

/// The name of the user whose rights a process has, or his number.
pub fn user_of(pid: i32) -> Option<String> {
    let uid = processes::user_number(pid)?;
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    Some(name_of(uid, &users).map_or_else(|| format!("uid {uid}"), str::to_owned))
}

/// The name of a number in lines such as `root:x:0:0:…`.
fn name_of(uid: u32, users: &str) -> Option<&str> {
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        let number: u32 = fields.nth(1)?.parse().ok()?;
        (number == uid).then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_named_where_they_have_a_name() {
        let users = "root:x:0:0:root:/root:/bin/bash\nbroken\nwww-data:x:33:33::/:/bin/false\n";
        assert_eq!(name_of(33, users), Some("www-data"));
        assert_eq!(name_of(34, users), None);
    }

    #[test]
    fn this_process_is_in_its_own_reach() {
        let own = std::process::id() as i32;
        assert!(!is_out_of_reach(own));
        assert!(user_of(own).is_some());
    }
}
