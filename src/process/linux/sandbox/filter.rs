//! Filters of system calls: what Landlock does not see.
//!
//! A refused call fails as if it were not permitted (`EPERM`), or as if the kernel did not have it
//! (`ENOSYS`) where programs then do without it.
//!
//! Limits: programs for another word size fail at their first system call.

use std::io;
use std::sync::LazyLock;

use libc::sock_filter;

use super::check;
use crate::sandbox::policy::Network;

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
    SYS_KEXEC_FILE_LOAD,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    SYS_OPEN_TREE_ATTR,
    libc::SYS_perf_event_open,
    libc::SYS_pivot_root,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
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

/// Calls that take over other processes, which Landlock allows on a command's own alone.
const OF_OTHERS: &[libc::c_long] = &[
    libc::SYS_pidfd_getfd,
    libc::SYS_process_madvise,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
];

/// Calls that programs do without.
const MISSING: &[libc::c_long] = &[
    // Its flags are in memory, which a filter does not see; programs then use `clone`.
    libc::SYS_clone3,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    // The mode is in memory, too; programs then use `openat`.
    libc::SYS_openat2,
];

/// Set-user-ID and set-group-ID. Outside of the sandbox, a program with one of them runs with the rights
/// of its owner or group, whoever starts it.
const RIGHTS_OF_OWNER: libc::mode_t = libc::S_ISUID | libc::S_ISGID;

/// Flags with which an opened file may be made, so that its mode counts: `O_CREAT`, and `O_TMPFILE`
/// without `O_DIRECTORY`, which alone makes nothing.
const MAKES: libc::c_int = libc::O_CREAT | libc::O_TMPFILE & !libc::O_DIRECTORY;

/// Calls that take a mode, and where. A directory that is made gets none of these bits.
const MODES: &[(libc::c_long, Place)] = &[
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_chmod, Place::SecondMode),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_creat, Place::SecondMode),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mknod, Place::SecondMode),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, Place::Open),
    (libc::SYS_fchmod, Place::SecondMode),
    (libc::SYS_fchmodat, Place::ThirdMode),
    (SYS_FCHMODAT2, Place::ThirdMode),
    (libc::SYS_mknodat, Place::ThirdMode),
    (libc::SYS_openat, Place::OpenAt),
];

/// As in `asm-generic/unistd.h`, which is the same for all processors that are known here.
const SYS_FCHMODAT2: libc::c_long = 452;
const SYS_OPEN_TREE_ATTR: libc::c_long = 467;

/// Not all C libraries know it.
#[cfg(target_arch = "x86_64")]
const SYS_KEXEC_FILE_LOAD: libc::c_long = libc::SYS_kexec_file_load;
#[cfg(not(target_arch = "x86_64"))]
const SYS_KEXEC_FILE_LOAD: libc::c_long = 294;

const CLONE_NEWTIME: libc::c_int = 0x80;

/// Flags of `clone` and `unshare` that make namespaces.
const NAMESPACES: libc::c_int = libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | CLONE_NEWTIME
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWUTS;

/// Make and remove copies of whole directories, in which nothing is denied: what file systems do by
/// themselves, without asking whether a path may be read or written. As in `linux/btrfs.h`,
/// `ocfs2_ioctl.h` and `bcachefs_ioctl.h` of Linux.
const SNAPSHOTS: [u32; 9] = [
    // BTRFS_IOC_SNAP_CREATE, SUBVOL_CREATE, SNAP_DESTROY, SNAP_CREATE_V2, SUBVOL_CREATE_V2 and
    // SNAP_DESTROY_V2.
    0x5000_9401,
    0x5000_940e,
    0x5000_940f,
    0x5000_9417,
    0x5000_9418,
    0x5000_943f,
    // OCFS2_IOC_REFLINK.
    0x4018_6f04,
    // BCH_IOCTL_SUBVOLUME_CREATE and _DESTROY.
    0x4020_bc10,
    0x4020_bc11,
];

/// Types into a terminal. C libraries give it different types.
const TIOCSTI: u32 = 0x5412;
/// Pastes into a console.
const TIOCLINUX: u32 = 0x541C;

/// The value of `seccomp_data.arch` for this processor, from `linux/audit.h`.
const ARCHITECTURE: Option<u32> = if cfg!(target_arch = "x86_64") {
    Some(0xC000_003E)
} else if cfg!(target_arch = "aarch64") {
    Some(0xC000_00B7)
} else if cfg!(target_arch = "riscv64") {
    Some(0xC000_00F3)
} else {
    None
};

/// The program of a sandbox's filter.
#[derive(Debug)]
pub(super) struct Filter(Vec<sock_filter>);

/// Whether this system filters calls, and this processor's calls are known.
pub(super) fn is_supported() -> bool {
    // SAFETY: only reads an attribute of this process.
    let mode = unsafe { libc::prctl(libc::PR_GET_SECCOMP, 0, 0, 0, 0) };
    mode >= 0 && ARCHITECTURE.is_some()
}

/// The filter for commands with this network.
pub(super) fn filter(network: Network) -> &'static Filter {
    static OPEN: LazyLock<Filter> = LazyLock::new(|| Filter::of(Network::On));
    static OWN: LazyLock<Filter> = LazyLock::new(|| Filter::of(Network::Loopback));
    static CLOSED: LazyLock<Filter> = LazyLock::new(|| Filter::of(Network::Off));
    match network {
        Network::On => &OPEN,
        Network::Loopback => &OWN,
        Network::Off => &CLOSED,
    }
}

impl Filter {
    fn of(network: Network) -> Filter {
        let by_landlock = super::abilities().abi > 0;
        Filter(program(network, if by_landlock { &[] } else { OF_OTHERS }))
    }

    /// Applies the filter to this process. Makes only system calls.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub(super) fn install(&self) -> io::Result<()> {
        let program =
            libc::sock_fprog { len: self.0.len() as u16, filter: self.0.as_ptr().cast_mut() };
        let mode = libc::SECCOMP_SET_MODE_FILTER;
        // SAFETY: the kernel only reads the program, which lives as long as `self`.
        check(unsafe { libc::syscall(libc::SYS_seccomp, mode, 0, &raw const program) }).map(|_| ())
    }
}

/// `BPF_LD | BPF_W | BPF_ABS`: loads a part of `seccomp_data`, by its offset.
const LOAD: u16 = 0x20;
/// `BPF_JMP | BPF_JEQ | BPF_K`.
const JUMP_IF_EQUAL: u16 = 0x15;
/// `BPF_JMP | BPF_JGE | BPF_K`.
const JUMP_IF_AT_LEAST: u16 = 0x35;
/// `BPF_JMP | BPF_JSET | BPF_K`.
const JUMP_IF_ANY: u16 = 0x45;
/// `BPF_RET | BPF_K`.
const RETURN: u16 = 0x06;
/// `SECCOMP_RET_ALLOW`.
const ALLOW: u32 = 0x7FFF_0000;
/// `SECCOMP_RET_ERRNO`.
const ERRNO: u32 = 0x0005_0000;

/// The offsets in `seccomp_data`; of the arguments, the lower half, unless it says otherwise.
const NUMBER: u32 = 0;
const ARCH: u32 = 4;
const FIRST_ARGUMENT: u32 = 16;
const SECOND_ARGUMENT: u32 = 24;
const THIRD_ARGUMENT: u32 = 32;
const UPPER_OF_THIRD: u32 = 36;
const FOURTH_ARGUMENT: u32 = 40;

/// The first number of the interface x32, whose calls have the same architecture as the others.
const FIRST_OF_X32: u32 = 0x4000_0000;

/// Places in the program that others jump to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// The next instruction.
    Next,
    Allow,
    /// Fails with `EPERM`.
    Refuse,
    /// Fails with `ENOSYS`.
    Miss,
    Clone,
    Ioctl,
    Limit,
    Open,
    OpenAt,
    /// The mode of a file is an argument of the call.
    SecondMode,
    ThirdMode,
    Socket,
    /// A part of the search for the call.
    Search(usize),
}

/// The whole program, without loops: a search for the number of the call, and what follows it.
///
/// The kernel runs it for every number when it is installed, to know which are always allowed, so the
/// search halves what is left at each step.
fn program(network: Network, refused_too: &[libc::c_long]) -> Vec<sock_filter> {
    use Place::{
        Allow, Clone, Ioctl, Limit, Miss, Next, Open, OpenAt, Refuse, SecondMode, Socket, ThirdMode,
    };
    let mut made = Program::default();
    made.load(ARCH);
    made.add(JUMP_IF_EQUAL, ARCHITECTURE.unwrap_or_default(), Next, Refuse);
    made.load(NUMBER);
    let of_network = [libc::SYS_socket, libc::SYS_socketpair].map(|call| (call, Socket));
    let mut calls: Vec<(u32, Place)> = [(REFUSED, Refuse), (refused_too, Refuse), (MISSING, Miss)]
        .into_iter()
        .flat_map(|(calls, place)| calls.iter().map(move |call| (*call, place)))
        .chain([(libc::SYS_clone, Clone), (libc::SYS_unshare, Clone), (libc::SYS_ioctl, Ioctl)])
        .chain([(libc::SYS_prlimit64, Limit)])
        .chain(MODES.iter().copied())
        .chain(of_network.into_iter().filter(|_| network != Network::On))
        .filter_map(|(call, place)| Some((u32::try_from(call).ok()?, place)))
        .collect();
    calls.sort_by_key(|(call, _)| *call);
    // From which number on the calls go where.
    let mut ranges = vec![(0, Allow)];
    for (call, place) in calls {
        if ranges.last() == Some(&(call, Allow)) {
            ranges.pop();
        }
        if ranges.last().is_none_or(|(_, last)| *last != place) {
            ranges.push((call, place));
        }
        ranges.push((call + 1, Allow));
    }
    ranges.push((FIRST_OF_X32, Miss));
    made.search(&ranges);

    made.place(Clone);
    made.load(FIRST_ARGUMENT);
    made.add(JUMP_IF_ANY, NAMESPACES.unsigned_abs(), Refuse, Allow);
    made.place(Ioctl);
    made.load(SECOND_ARGUMENT);
    made.add(JUMP_IF_EQUAL, TIOCSTI, Refuse, Next);
    for snapshot in SNAPSHOTS {
        made.add(JUMP_IF_EQUAL, snapshot, Refuse, Next);
    }
    made.add(JUMP_IF_EQUAL, TIOCLINUX, Refuse, Allow);
    // No limits for other processes: they would end, or fail at what they need.
    made.place(Limit);
    made.load(FIRST_ARGUMENT);
    made.add(JUMP_IF_EQUAL, 0, Allow, Next);
    made.load(THIRD_ARGUMENT);
    made.add(JUMP_IF_EQUAL, 0, Next, Refuse);
    made.load(UPPER_OF_THIRD);
    made.add(JUMP_IF_EQUAL, 0, Allow, Refuse);
    made.place(SecondMode);
    made.load(SECOND_ARGUMENT);
    made.add(JUMP_IF_ANY, RIGHTS_OF_OWNER, Refuse, Allow);
    made.place(OpenAt);
    made.load(THIRD_ARGUMENT);
    made.add(JUMP_IF_ANY, MAKES.unsigned_abs(), Next, Allow);
    made.load(FOURTH_ARGUMENT);
    made.add(JUMP_IF_ANY, RIGHTS_OF_OWNER, Refuse, Allow);
    made.place(Open);
    made.load(SECOND_ARGUMENT);
    made.add(JUMP_IF_ANY, MAKES.unsigned_abs(), Next, Allow);
    made.place(ThirdMode);
    made.load(THIRD_ARGUMENT);
    made.add(JUMP_IF_ANY, RIGHTS_OF_OWNER, Refuse, Allow);
    // Sockets other than local ones and those that ask the kernel about its routes are refused; an own
    // network namespace closes the usual networks, and not those that know no namespaces.
    made.place(Socket);
    made.load(FIRST_ARGUMENT);
    if network == Network::Loopback {
        made.add(JUMP_IF_EQUAL, libc::AF_INET.unsigned_abs(), Allow, Next);
        made.add(JUMP_IF_EQUAL, libc::AF_INET6.unsigned_abs(), Allow, Next);
    }
    made.add(JUMP_IF_EQUAL, libc::AF_UNIX.unsigned_abs(), Allow, Next);
    made.add(JUMP_IF_EQUAL, libc::AF_NETLINK.unsigned_abs(), Next, Refuse);
    made.load(THIRD_ARGUMENT);
    made.add(JUMP_IF_EQUAL, libc::NETLINK_ROUTE.unsigned_abs(), Allow, Refuse);
    for (place, answer) in [
        (Allow, ALLOW),
        (Refuse, ERRNO | libc::EPERM.unsigned_abs()),
        (Miss, ERRNO | libc::ENOSYS.unsigned_abs()),
    ] {
        made.place(place);
        made.add(RETURN, answer, Next, Next);
    }
    made.finished()
}

/// A program that is being written.
#[derive(Default)]
struct Program {
    /// Each with the places that it jumps to.
    instructions: Vec<(u16, u32, Place, Place)>,
    places: Vec<(Place, usize)>,
}

impl Program {
    fn add(&mut self, code: u16, k: u32, if_true: Place, if_false: Place) {
        self.instructions.push((code, k, if_true, if_false));
    }

    fn load(&mut self, offset: u32) {
        self.add(LOAD, offset, Place::Next, Place::Next);
    }

    /// The next instruction is this place.
    fn place(&mut self, place: Place) {
        self.places.push((place, self.instructions.len()));
    }

    /// Jumps to the place of the range in which the loaded number is.
    fn search(&mut self, ranges: &[(u32, Place)]) {
        let (low, high) = ranges.split_at(ranges.len() / 2);
        let Some((middle, _)) = high.first() else { return };
        let at = self.instructions.len();
        // The lower half follows directly.
        let place = |half: &[(u32, Place)], other| match half {
            [(_, place)] => *place,
            _ => other,
        };
        let (if_high, if_low) = (place(high, Place::Search(at)), place(low, Place::Next));
        self.add(JUMP_IF_AT_LEAST, *middle, if_high, if_low);
        if low.len() > 1 {
            self.search(low);
        }
        if high.len() > 1 {
            self.place(Place::Search(at));
            self.search(high);
        }
    }

    /// The instructions, with the distances of their jumps.
    fn finished(self) -> Vec<sock_filter> {
        let Program { instructions, places } = self;
        let distance = |from: usize, to: Place| {
            let at = places.iter().find(|(place, _)| *place == to);
            // The kernel refuses a program with a jump that is too far.
            at.map_or(0, |(_, at)| u8::try_from(at - from - 1).unwrap_or(u8::MAX))
        };
        let all = instructions.into_iter().enumerate();
        let jumps = |(at, (code, k, if_true, if_false))| {
            let (jt, jf) = (distance(at, if_true), distance(at, if_false));
            sock_filter { code, jt, jf, k }
        };
        all.map(jumps).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the program answers to a call with these arguments: the error, or none.
    fn answer(program: &[sock_filter], number: u32, arguments: [u64; 4]) -> Option<i32> {
        let (mut at, mut value) = (0, 0);
        loop {
            let sock_filter { code, jt, jf, k } = program[at];
            let jump = |holds: bool| usize::from(if holds { jt } else { jf });
            at += 1;
            match code {
                LOAD => {
                    value = match k {
                        NUMBER => number,
                        ARCH => ARCHITECTURE.unwrap(),
                        offset => {
                            let argument = arguments[(offset as usize - 16) / 8];
                            (argument >> (offset % 8 * 8)) as u32
                        }
                    }
                }
                JUMP_IF_EQUAL => at += jump(value == k),
                JUMP_IF_AT_LEAST => at += jump(value >= k),
                JUMP_IF_ANY => at += jump(value & k != 0),
                RETURN => return (k & !0xffff == ERRNO).then_some((k & 0xffff) as i32),
                other => panic!("the instruction {other:#x} is not known"),
            }
        }
    }

    #[test]
    fn each_listed_call_is_refused_and_no_other() {
        for network in [Network::On, Network::Loopback, Network::Off] {
            let program = program(network, OF_OTHERS);
            let refused = |calls: &[libc::c_long], call: u32| calls.contains(&i64::from(call));
            for number in 0..600 {
                let expected = match number {
                    _ if refused(REFUSED, number) || refused(OF_OTHERS, number) => {
                        Some(libc::EPERM)
                    }
                    _ if refused(MISSING, number) => Some(libc::ENOSYS),
                    // Neither AF_UNIX nor AF_NETLINK.
                    _ if refused(&[libc::SYS_socket, libc::SYS_socketpair], number) => {
                        (network != Network::On).then_some(libc::EPERM)
                    }
                    _ => None,
                };
                assert_eq!(answer(&program, number, [0; 4]), expected, "{number}");
            }
            let x32 = answer(&program, FIRST_OF_X32 | 1, [0; 4]);
            assert_eq!(x32, Some(libc::ENOSYS));
        }
    }

    #[test]
    fn arguments_decide_where_a_call_has_harmless_uses() {
        let program = program(Network::Off, &[]);
        let (vm, user) = (libc::CLONE_VM as u64, libc::CLONE_NEWUSER as u64);
        let (unix, netlink, inet) =
            (libc::AF_UNIX as u64, libc::AF_NETLINK as u64, libc::AF_INET as u64);
        for (call, arguments, is_refused) in [
            (libc::SYS_clone, [vm | 17, 0, 0, 0], false),
            (libc::SYS_clone, [vm | user, 0, 0, 0], true),
            (libc::SYS_unshare, [libc::CLONE_FILES as u64, 0, 0, 0], false),
            (libc::SYS_unshare, [CLONE_NEWTIME as u64, 0, 0, 0], true),
            (libc::SYS_ioctl, [0, libc::TIOCGWINSZ, 0, 0], false),
            (libc::SYS_ioctl, [0, TIOCSTI.into(), 0, 0], true),
            (libc::SYS_ioctl, [0, TIOCLINUX.into(), 0, 0], true),
            (libc::SYS_ioctl, [3, 0x5000_9401, 0, 0], true),
            (libc::SYS_ioctl, [3, 0x4020_bc11, 0, 0], true),
            (libc::SYS_prlimit64, [0, 0, 1 << 40, 0], false),
            (libc::SYS_prlimit64, [4711, 0, 1 << 40, 0], true),
            (libc::SYS_prlimit64, [4711, 0, 0, 0], false),
            (libc::SYS_fchmod, [3, 0o1777, 0, 0], false),
            (libc::SYS_fchmod, [3, 0o4755, 0, 0], true),
            (libc::SYS_fchmodat, [3, 0, 0o755, 0], false),
            (libc::SYS_fchmodat, [3, 0, 0o2755, 0], true),
            (libc::SYS_openat, [3, 0, libc::O_RDWR as u64, 0o4755], false),
            (libc::SYS_openat, [3, 0, libc::O_CREAT as u64, 0o755], false),
            (libc::SYS_openat, [3, 0, libc::O_CREAT as u64, 0o4755], true),
            (libc::SYS_openat, [3, 0, libc::O_TMPFILE as u64, 0o4755], true),
            (libc::SYS_openat, [3, 0, libc::O_DIRECTORY as u64, 0o4755], false),
            (libc::SYS_socket, [unix, 1, 0, 0], false),
            (libc::SYS_socket, [netlink, 3, 0, 0], false),
            (libc::SYS_socket, [netlink, 3, 9, 0], true),
            (libc::SYS_socket, [inet, 1, 0, 0], true),
            (libc::SYS_socketpair, [unix, 1, 0, 0], false),
            (libc::SYS_socketpair, [libc::AF_TIPC as u64, 2, 0, 0], true),
        ] {
            let expected = is_refused.then_some(libc::EPERM);
            assert_eq!(answer(&program, call as u32, arguments), expected, "{call} {arguments:?}");
        }
        let loopback = super::program(Network::Loopback, &[]);
        for (family, is_refused) in [(inet, false), (unix, false), (libc::AF_VSOCK as u64, true)] {
            let expected = is_refused.then_some(libc::EPERM);
            let answer = answer(&loopback, libc::SYS_socket as u32, [family, 1, 0, 0]);
            assert_eq!(answer, expected, "{family}");
        }
    }
}
