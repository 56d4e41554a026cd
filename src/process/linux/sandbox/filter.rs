//! Filters of system calls: what Landlock does not see.
//!
//! A refused call fails as if it were not permitted (`EPERM`), or as if the kernel did not have it
//! (`ENOSYS`) where programs then do without it.
//!
//! Limits: programs for another word size fail at their first system call.

use std::collections::BTreeMap;
use std::io;
use std::sync::OnceLock;

use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch, sock_filter,
};

use super::check;

/// The conditions under which calls are refused, by their numbers; no condition: always.
type Refused = BTreeMap<i64, Vec<SeccompRule>>;

/// Calls that change or observe the whole system, or that open files in ways that no other part of the
/// sandbox sees.
const REFUSED: &[libc::c_long] = &[
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_bpf,
    libc::SYS_clock_settime,
    libc::SYS_delete_module,
    libc::SYS_finit_module,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_init_module,
    libc::SYS_kexec_file_load,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_perf_event_open,
    libc::SYS_pivot_root,
    libc::SYS_quotactl,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_setns,
    libc::SYS_settimeofday,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_umount2,
    libc::SYS_userfaultfd,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
];

/// Calls that programs do without.
const MISSING: &[libc::c_long] = &[
    // Its flags are in memory, which a filter does not see; programs then use `clone`.
    libc::SYS_clone3,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
];

const CLONE_NEWTIME: libc::c_int = 0x80;

/// Flags of `clone` and `unshare` that make namespaces.
const NAMESPACES: [libc::c_int; 8] = [
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    CLONE_NEWTIME,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWUTS,
];

/// Types into a terminal. C libraries give it different types.
const TIOCSTI: u32 = 0x5412;
/// Pastes into a console.
const TIOCLINUX: u32 = 0x541C;

/// The compiled filter of a sandbox.
#[derive(Debug)]
pub(super) struct Filters(BpfProgram);

/// Whether this system filters calls, and this processor's calls are known.
pub(super) fn are_supported() -> bool {
    // SAFETY: only reads an attribute of this process.
    let mode = unsafe { libc::prctl(libc::PR_GET_SECCOMP, 0, 0, 0, 0) };
    mode >= 0 && TargetArch::try_from(std::env::consts::ARCH).is_ok()
}

/// The filters, with or without the network.
///
/// # Errors
/// This processor's calls are not known.
pub(super) fn filters(closes_network: bool) -> io::Result<&'static Filters> {
    static OPEN: OnceLock<Filters> = OnceLock::new();
    static CLOSED: OnceLock<Filters> = OnceLock::new();
    let kept = if closes_network { &CLOSED } else { &OPEN };
    if let Some(known) = kept.get() {
        return Ok(known);
    }
    let made = Filters::compile(closes_network).map_err(io::Error::other)?;
    Ok(kept.get_or_init(|| made))
}

impl Filters {
    fn compile(closes_network: bool) -> Result<Filters, BackendError> {
        let mut refused = Refused::new();
        let any = NAMESPACES.iter().map(|flag| {
            let flag = u64::from(flag.unsigned_abs());
            rule(&[condition(0, SeccompCmpOp::MaskedEq(flag), flag)?])
        });
        let any = any.collect::<Result<Vec<_>, _>>()?;
        refused.insert(libc::SYS_clone, any.clone());
        refused.insert(libc::SYS_unshare, any);
        let typing = [TIOCSTI, TIOCLINUX]
            .map(|request| rule(&[condition(1, SeccompCmpOp::Eq, request.into())?]));
        refused.insert(libc::SYS_ioctl, typing.into_iter().collect::<Result<_, _>>()?);
        if closes_network {
            refused.insert(libc::SYS_socket, no_network()?);
        }
        program(refused).map(Filters)
    }

    /// Applies the filters to this process. Makes only system calls.
    ///
    /// # Errors
    /// The kernel refuses them.
    pub(super) fn install(&self) -> io::Result<()> {
        let program = libc::sock_fprog {
            len: self.0.len() as u16,
            filter: self.0.as_ptr().cast_mut().cast(),
        };
        let mode = libc::SECCOMP_SET_MODE_FILTER;
        // SAFETY: the kernel only reads the program, which lives as long as `self`; both crates lay out
        // an instruction as the kernel does.
        check(unsafe { libc::syscall(libc::SYS_seccomp, mode, 0, &raw const program) }).map(|_| ())
    }
}

fn rule(conditions: &[SeccompCondition]) -> Result<SeccompRule, BackendError> {
    SeccompRule::new(conditions.to_vec())
}

/// A condition on an argument of 32 bits.
fn condition(
    argument: u8,
    operation: SeccompCmpOp,
    value: u64,
) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operation, value)
}

/// Refuses sockets other than local ones and those that ask the kernel about its routes.
fn no_network() -> Result<Vec<SeccompRule>, BackendError> {
    let family =
        |operation, family: libc::c_int| condition(0, operation, u64::from(family.unsigned_abs()));
    let routes = u64::from(libc::NETLINK_ROUTE.unsigned_abs());
    Ok(vec![
        rule(&[
            family(SeccompCmpOp::Ne, libc::AF_UNIX)?,
            family(SeccompCmpOp::Ne, libc::AF_NETLINK)?,
        ])?,
        rule(&[
            family(SeccompCmpOp::Eq, libc::AF_NETLINK)?,
            condition(2, SeccompCmpOp::Ne, routes)?,
        ])?,
    ])
}

/// The whole program: first the calls that are refused whatever their arguments, then the others.
///
/// The kernel runs it for every number when it is installed, to know which are always allowed. So the
/// first part has one instruction for each call, where the crate's programs have several.
fn program(calls: Refused) -> Result<BpfProgram, BackendError> {
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    let refuse = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    let filter = SeccompFilter::new(calls, SeccompAction::Allow, refuse, arch)?;
    let mut program = BpfProgram::try_from(filter)?;
    for instruction in &mut program {
        // Calls of another word size are refused, instead of ending the process.
        if instruction.code == RETURN && instruction.k == KILL {
            instruction.k = ERRNO | libc::EPERM.unsigned_abs();
        }
    }
    program.splice(ARCHITECTURE_CHECK..ARCHITECTURE_CHECK, always());
    Ok(program)
}

/// How many instructions the crate puts first: they refuse other architectures.
const ARCHITECTURE_CHECK: usize = 3;
/// `BPF_LD | BPF_W | BPF_ABS`; the number of the call is at the beginning.
const LOAD: u16 = 0x20;
/// `BPF_JMP | BPF_JA`.
const JUMP: u16 = 0x05;
/// `BPF_JMP | BPF_JEQ | BPF_K`.
const JUMP_IF_EQUAL: u16 = 0x15;
/// `BPF_JMP | BPF_JGE | BPF_K`.
const JUMP_IF_AT_LEAST: u16 = 0x35;
/// `BPF_RET | BPF_K`.
const RETURN: u16 = 0x06;
/// `SECCOMP_RET_KILL_PROCESS`.
const KILL: u32 = 0x8000_0000;
/// `SECCOMP_RET_ERRNO`.
const ERRNO: u32 = 0x0005_0000;
/// The first number of the interface x32, whose calls have the same architecture as the others.
const FIRST_OF_X32: u32 = 0x4000_0000;

/// How many calls are compared one after the other.
const COMPARED: usize = 8;

/// Instructions that refuse the calls of [`REFUSED`] and [`MISSING`], and those of the interface x32.
fn always() -> Vec<sock_filter> {
    let plain = |code, k| sock_filter { code, jt: 0, jf: 0, k };
    // The next instruction is skipped unless the condition holds.
    let unless = |code, k| sock_filter { code, jt: 0, jf: 1, k };
    let fail = |error: libc::c_int| plain(RETURN, ERRNO | error.unsigned_abs());
    let mut calls: Vec<(u32, libc::c_int)> = [(REFUSED, libc::EPERM), (MISSING, libc::ENOSYS)]
        .into_iter()
        .flat_map(|(calls, error)| calls.iter().map(move |call| (*call, error)))
        .filter_map(|(call, error)| Some((u32::try_from(call).ok()?, error)))
        .collect();
    calls.sort_unstable();
    // From the last on, as each part jumps over all that follow it.
    let mut parts: Vec<sock_filter> = Vec::new();
    let mut next = None;
    for part in calls.chunks(COMPARED).rev() {
        let mut program = Vec::new();
        if let Some(next) = next {
            let over = part.len() * 2 + 1;
            program.push(sock_filter { code: JUMP_IF_AT_LEAST, jt: over as u8, jf: 0, k: next });
        }
        let compared = |(call, error): &(u32, _)| [unless(JUMP_IF_EQUAL, *call), fail(*error)];
        program.extend(part.iter().flat_map(compared));
        if next.is_some() {
            program.push(plain(JUMP, parts.len() as u32));
        }
        next = part.first().map(|(call, _)| *call);
        program.append(&mut parts);
        parts = program;
    }
    let x32 = [unless(JUMP_IF_AT_LEAST, FIRST_OF_X32), fail(libc::ENOSYS)];
    [vec![plain(LOAD, 0)], x32.into(), parts].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the program answers to a call whose arguments are all zero: the error, or none.
    fn answer(program: &[sock_filter], number: u32) -> Option<u32> {
        let arch = match std::env::consts::ARCH {
            "x86_64" => 0xC000_003E,
            _ => 0xC000_00B7,
        };
        let (mut at, mut value) = (0, 0);
        loop {
            let sock_filter { code, jt, jf, k } = program[at];
            let jump = |holds: bool| usize::from(if holds { jt } else { jf });
            at += 1;
            match code {
                LOAD => {
                    value = match k {
                        0 => number,
                        4 => arch,
                        _ => 0,
                    }
                }
                JUMP => at += k as usize,
                JUMP_IF_EQUAL => at += jump(value == k),
                JUMP_IF_AT_LEAST => at += jump(value >= k),
                0x54 => value &= k,
                RETURN => return (k & !0xffff == ERRNO).then_some(k & 0xffff),
                other => panic!("the instruction {other:#x} is not known"),
            }
        }
    }

    #[test]
    fn each_listed_call_is_refused_and_no_other() {
        let Filters(program) = Filters::compile(true).unwrap();
        let refused = |calls: &[libc::c_long], call: u32| calls.contains(&i64::from(call));
        for number in 0..600 {
            let expected = match number {
                _ if refused(REFUSED, number) => Some(libc::EPERM),
                _ if refused(MISSING, number) => Some(libc::ENOSYS),
                // Neither AF_UNIX nor AF_NETLINK.
                _ if i64::from(number) == libc::SYS_socket => Some(libc::EPERM),
                _ => None,
            };
            let expected = expected.map(i32::unsigned_abs);
            assert_eq!(answer(&program, number), expected, "{number}");
        }
        #[cfg(target_arch = "x86_64")]
        assert_eq!(answer(&program, FIRST_OF_X32 | 1), Some(libc::ENOSYS.unsigned_abs()));
    }
}
