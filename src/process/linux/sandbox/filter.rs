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
    SeccompFilter, SeccompRule, TargetArch,
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

/// Pastes into a console.
const TIOCLINUX: u32 = 0x541C;

/// The compiled filters of a sandbox.
#[derive(Debug)]
pub(super) struct Filters(Vec<BpfProgram>);

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
        let always = |calls: &[libc::c_long]| -> Refused {
            calls.iter().map(|call| (*call, Vec::new())).collect()
        };
        let mut refused = always(REFUSED);
        let any = NAMESPACES.iter().map(|flag| {
            let flag = u64::from(flag.unsigned_abs());
            rule(&[condition(0, SeccompCmpOp::MaskedEq(flag), flag)?])
        });
        let any = any.collect::<Result<Vec<_>, _>>()?;
        refused.insert(libc::SYS_clone, any.clone());
        refused.insert(libc::SYS_unshare, any);
        let typing = [libc::TIOCSTI, TIOCLINUX.into()]
            .map(|request| rule(&[condition(1, SeccompCmpOp::Eq, request)?]));
        refused.insert(libc::SYS_ioctl, typing.into_iter().collect::<Result<_, _>>()?);
        if closes_network {
            refused.insert(libc::SYS_socket, no_network()?);
        }
        let programs = [program(refused, libc::EPERM)?, program(always(MISSING), libc::ENOSYS)?];
        Ok(Filters(programs.into()))
    }

    /// Applies the filters to this process. Makes only system calls.
    ///
    /// # Errors
    /// The kernel refuses them.
    pub(super) fn install(&self) -> io::Result<()> {
        for program in &self.0 {
            let program = libc::sock_fprog {
                len: program.len() as u16,
                filter: program.as_ptr().cast_mut().cast(),
            };
            let mode = libc::SECCOMP_SET_MODE_FILTER;
            // SAFETY: the kernel only reads the program, which lives as long as `self`; both crates lay
            // out an instruction as the kernel does.
            check(unsafe { libc::syscall(libc::SYS_seccomp, mode, 0, &raw const program) })?;
        }
        Ok(())
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
    let family = |operation, family: libc::c_int| {
        condition(0, operation, u64::from(family.unsigned_abs()))
    };
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

fn program(calls: Refused, error: libc::c_int) -> Result<BpfProgram, BackendError> {
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    let refuse = SeccompAction::Errno(error.unsigned_abs());
    let filter = SeccompFilter::new(calls, SeccompAction::Allow, refuse, arch)?;
    let mut program = BpfProgram::try_from(filter)?;
    for instruction in &mut program {
        // Calls of another word size are refused, instead of ending the process.
        if instruction.code == RETURN && instruction.k == KILL {
            instruction.k = ERRNO | libc::EPERM.unsigned_abs();
        }
    }
    // The calls of the interface x32 have the same architecture and other numbers.
    #[cfg(target_arch = "x86_64")]
    program.splice(0..0, no_x32());
    Ok(program)
}

/// `BPF_RET | BPF_K`.
const RETURN: u16 = 0x06;
/// `SECCOMP_RET_KILL_PROCESS`.
const KILL: u32 = 0x8000_0000;
/// `SECCOMP_RET_ERRNO`.
const ERRNO: u32 = 0x0005_0000;

/// Instructions that refuse every call of the interface x32.
#[cfg(target_arch = "x86_64")]
fn no_x32() -> [seccompiler::sock_filter; 3] {
    use seccompiler::sock_filter;
    const LOAD_NUMBER: u16 = 0x20;
    const JUMP_IF_AT_LEAST: u16 = 0x35;
    const FIRST_OF_X32: u32 = 0x4000_0000;
    [
        sock_filter { code: LOAD_NUMBER, jt: 0, jf: 0, k: 0 },
        sock_filter { code: JUMP_IF_AT_LEAST, jt: 0, jf: 1, k: FIRST_OF_X32 },
        sock_filter { code: RETURN, jt: 0, jf: 0, k: ERRNO | libc::ENOSYS.unsigned_abs() },
    ]
}
