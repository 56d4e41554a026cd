//! What the kernel would let a sandboxed command do to others without files or networks: limits, modes,
//! kinds of sockets, devices, and what services of the same user offer.

use std::process::Command;

use crate::sandbox::{DONE, MODES, assert_refused, each_kind};
use crate::support::processes::UniqueSleep;

#[test]
fn limits_of_other_processes_are_not_changed() {
    let sleep = UniqueSleep::new();
    let mut outside = Command::new("sleep")
        .arg(sleep.to_string().split_once(' ').unwrap().1)
        .spawn()
        .expect("the sleep program");
    let change = |pid: &str| {
        format!(
            "/usr/bin/python3 -c 'import os, resource
print(len(resource.prlimit({pid}, resource.RLIMIT_CORE)))
resource.prlimit({pid}, resource.RLIMIT_CORE, (0, 0))' && echo {DONE}"
        )
    };
    for mode in MODES {
        for (kind, _env, client) in each_kind(mode) {
            let others = client.run(&change(&outside.id().to_string()));
            assert_refused(&others, &format!("{mode}, {kind}"));
            assert!(others.output().contains("Operation not permitted"), "{}", others.text);
            assert_refused(&client.run(&change(&client.server_pid().to_string())), kind);
            let own = client.run(&format!("ulimit -c 0 && {}", change("0")));
            assert!(own.output().contains(DONE), "{mode}, {kind}: {}", own.text);
        }
    }
    outside.kill().expect("it lives");
    outside.wait().expect("its end");
}
