//! Whose a process is, and whether this one may signal it.
//!
//! Limits: names come from `/etc/passwd` alone; who is known elsewhere has a number.

use rustix::process::Pid;

/// Whether a process lives and is out of this one's reach: the kernel refuses to send it
/// anything.
pub fn is_out_of_reach(pid: i32) -> bool {
    Pid::from_raw(pid)
        .is_some_and(|pid| rustix::process::test_kill_process(pid) == Err(rustix::io::Errno::PERM))
}

/// Whether a process lives, in reach or not.
pub fn lives(pid: i32) -> bool {
    Pid::from_raw(pid)
        .is_some_and(|pid| rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
}

/// Whether a process group has members, in reach or not.
pub fn group_lives(group: i32) -> bool {
    Pid::from_raw(group).is_some_and(|group| {
        rustix::process::test_kill_process_group(group) != Err(rustix::io::Errno::SRCH)
    })
}

/// The name of the user whose rights a process has, or his number.
pub fn user_of(pid: i32) -> Option<String> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let uid = effective_uid(&status)?;
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    Some(name_of(uid, &users).map_or_else(|| format!("uid {uid}"), str::to_owned))
}

/// The second number of the line `Uid:`.
fn effective_uid(status: &str) -> Option<u32> {
    let numbers = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    numbers.split_ascii_whitespace().nth(1)?.parse().ok()
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
        let status = "Name:\tsudo\nUid:\t65534\t0\t0\t0\nGid:\t65534\n";
        assert_eq!(effective_uid(status), Some(0));
        assert_eq!(effective_uid("Name:\tsudo\n"), None);
    }

    #[test]
    fn this_process_is_in_its_own_reach() {
        let own = std::process::id() as i32;
        assert!(!is_out_of_reach(own));
        assert!(user_of(own).is_some());
    }
}
