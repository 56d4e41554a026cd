//! What a socket is used for, from the tables of `/proc/<pid>/net`, and the peer of a local socket,
//! from the kernel's `unix_diag` over a netlink socket.
//!
//! Limits: a socket of a network namespace other than its process's is not found, nor the peer of a
//! local one in a namespace other than this process's. Without `CONFIG_UNIX_DIAG` the peer is
//! unknown, and is guessed from the consecutive numbers of a pair.

use std::collections::{HashMap, HashSet};
use std::fs::DirEntry;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use procfs::net::{TcpNetEntries, TcpNetEntry, TcpState};
use procfs::{FromReadSI, current_system_info};
use rustix::net::netlink::SOCK_DIAG;
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use rustix::process::{Pid, PidfdGetfdFlags};

use super::calls::Awaited;
use crate::process::{ends, processes};
use crate::text::foreign::{Foreign, Phrase};

/// What a socket is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Socket {
    /// Accepts connections at this address.
    Listening(Phrase),
    /// Connected to this address, or connecting to it.
    Connected(Phrase),
    /// Receives datagrams or events from any sender.
    Datagrams(Phrase),
    /// A local socket with its name, if it has one.
    Local(Option<Phrase>),
}

/// The sockets of network namespaces, by their inodes.
#[derive(Debug, Default)]
pub(super) struct Sockets {
    known: HashMap<u64, Socket>,
    /// TCP connections within this machine, by their own address and that of their other end.
    within: HashMap<(SocketAddr, SocketAddr), u64>,
    addresses: HashMap<u64, (SocketAddr, SocketAddr)>,
    /// The addresses of TCP sockets that listen.
    listening: HashMap<u64, SocketAddr>,
    /// Established TCP connections: their own address, that of their other end and their socket.
    established: Vec<(SocketAddr, SocketAddr, u64)>,
    /// Accepted local sockets by the name of their listener, which they share.
    accepted: HashMap<Phrase, Vec<u64>>,
    /// The namespaces whose tables have been read.
    read: HashSet<PathBuf>,
}

/// How a local socket without a name is shown.
pub(super) const LOCAL: &str = "a local socket";
/// Tables of internet sockets, and their protocols.
const INTERNET: [(&str, &str); 4] =
    [("tcp", "tcp"), ("tcp6", "tcp"), ("udp", "udp"), ("udp6", "udp")];
/// Tables of sockets without a peer: the column of the inode and what they receive.
const OTHERS: [(&str, usize, &str); 5] = [
    ("raw", 9, "raw packets"),
    ("raw6", 9, "raw packets"),
    ("icmp", 9, "icmp"),
    ("packet", 8, "packets"),
    ("netlink", 9, "kernel events"),
];

impl Sockets {
    /// Looks up a socket of a process, if its namespace's tables list it.
    pub(crate) fn look_up(&mut self, pid: i32, inode: u64) -> Option<Socket> {
        if !self.known.contains_key(&inode) {
            let namespace = std::fs::read_link(processes::proc_directory(pid).join("ns/net"));
            if self.read.insert(namespace.unwrap_or_default()) {
                self.read(pid);
            }
        }
        self.known.get(&inode).cloned()
    }

    /// The inode of the socket at the other end of a TCP connection within this machine. The
    /// connection has been looked up before.
    pub(crate) fn other_end(&self, inode: u64) -> Option<u64> {
        let (local, remote) = self.addresses.get(&inode)?;
        self.within.get(&(*remote, *local)).copied()
    }

    /// The ends of clients of a TCP server, by the socket at which it listens: connections to it from
    /// within this machine, each with the socket of the server's end, or 0 if that waits to be
    /// accepted.
    pub(crate) fn clients_of(&self, listener: u64) -> Vec<(u64, u64)> {
        let Some(at) = self.listening.get(&listener) else { return Vec::new() };
        let is_of = |remote: &SocketAddr| {
            remote.port() == at.port() && (at.ip().is_unspecified() || remote.ip() == at.ip())
        };
        let clients = self.established.iter().filter(|(_, remote, _)| is_of(remote));
        let ends = clients.filter_map(|(local, remote, client)| {
            Some((*client, *self.within.get(&(*remote, *local))?))
        });
        ends.collect()
    }

    /// The sockets that a local server has accepted by this name.
    pub(crate) fn accepted_at(&self, name: &Phrase) -> &[u64] {
        self.accepted.get(name).map(Vec::as_slice).unwrap_or_default()
    }

    fn read(&mut self, pid: i32) {
        let directory = processes::proc_directory(pid).join("net");
        let table = |name: &str| {
            let text = std::fs::read_to_string(directory.join(name));
            text.unwrap_or_default()
        };
        for (name, protocol) in INTERNET {
            let table = TcpNetEntries::from_file(directory.join(name), current_system_info());
            for socket in table.into_iter().flat_map(|table| table.0) {
                self.known.insert(socket.inode, internet(&socket, protocol));
                if protocol == "tcp" && socket.state == TcpState::Listen {
                    self.listening.insert(socket.inode, canonical(socket.local_address));
                }
                if protocol == "tcp" && socket.state != TcpState::Listen {
                    let ends = (canonical(socket.local_address), canonical(socket.remote_address));
                    self.within.insert(ends, socket.inode);
                    self.addresses.insert(socket.inode, ends);
                    if socket.state == TcpState::Established {
                        self.established.push((ends.0, ends.1, socket.inode));
                    }
                }
            }
        }
        for (name, column, what) in OTHERS {
            let table = table(name);
            let inodes = table.lines().filter_map(|line| number(line, column));
            let socket = |inode| (inode, Socket::Datagrams(what.into()));
            self.known.extend(inodes.map(socket));
        }
        for (inode, socket) in table("unix").lines().filter_map(local) {
            if let Socket::Local(Some(name)) = &socket {
                self.accepted.entry(name.clone()).or_default().push(inode);
            }
            self.known.insert(inode, socket);
        }
    }
}

/// The number in `socket:[12345]`.
pub(super) fn inode_of(name: &str) -> Option<u64> {
    name.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

fn number(line: &str, column: usize) -> Option<u64> {
    line.split_ascii_whitespace().nth(column)?.parse().ok()
}

/// An IPv4 address that is written as an IPv6 one, as the former.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// A line of `tcp` or `udp`; both tables have the same form.
fn internet(socket: &TcpNetEntry, protocol: &str) -> Socket {
    let (local, remote) = (canonical(socket.local_address), canonical(socket.remote_address));
    match protocol {
        "tcp" if socket.state == TcpState::Listen => Socket::Listening(place(local)),
        "tcp" => Socket::Connected(Phrase::new(format_args!("{remote}"))),
        _ if remote.port() == 0 => {
            Socket::Datagrams(Phrase::new(format_args!("{protocol} {}", local.port())))
        }
        _ => Socket::Connected(Phrase::new(format_args!("{remote} ({protocol})"))),
    }
}

/// A line of `unix`: `Num RefCount Protocol Flags Type St Inode Path`.
fn local(line: &str) -> Option<(u64, Socket)> {
    /// `__SO_ACCEPTCON` of the kernel's `net.h`.
    const ACCEPTS: u32 = 1 << 16;
    /// `SOCK_DGRAM`.
    const DATAGRAM: &str = "0002";
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let flags = u32::from_str_radix(words.get(3)?, 16).ok()?;
    let inode = words.get(6)?.parse().ok()?;
    let path = words.get(7).map(|path| Phrase::from(Foreign::from(*path)));
    let socket = match (flags & ACCEPTS, *words.get(4)?, path) {
        (0, DATAGRAM, Some(path)) => Socket::Datagrams(path),
        (0, _, path) => Socket::Local(path),
        (_, _, path) => Socket::Listening(path.unwrap_or_else(|| LOCAL.into())),
    };
    Some((inode, socket))
}

/// `port 3000`; with the address, if that is of one interface.
fn place(local: SocketAddr) -> Phrase {
    if local.ip().is_unspecified() || local.ip().is_loopback() {
        Phrase::new(format_args!("port {}", local.port()))
    } else {
        Phrase::new(format_args!("{local}"))
    }
}

/// Whether a transfer of bytes through a socket of a process ends by itself in time, by
/// `SO_RCVTIMEO` or `SO_SNDTIMEO`; `None` if the kernel refuses to tell. A copy of the descriptor is
/// open meanwhile.
pub(super) fn has_time_limit(pid: i32, awaited: Awaited) -> Option<bool> {
    let socket = copy_of(pid, awaited.number)?;
    let side = if awaited.input { Timeout::Recv } else { Timeout::Send };
    Some(sockopt::socket_timeout(&socket, side).ok()?.is_some())
}

/// A copy of a process's descriptor for a socket.
fn copy_of(pid: i32, descriptor: i32) -> Option<OwnedFd> {
    let process = ends::open(Pid::from_raw(pid)?).ok()?;
    rustix::process::pidfd_getfd(&process, descriptor, PidfdGetfdFlags::empty()).ok()
}

/// Whether a client's TCP connection has no answer to what it has sent last, or has never received
/// anything; true if the kernel refuses to tell.
pub(super) fn awaits_answer(pid: i32, inode: u64) -> bool {
    let seen = descriptor_of(pid, inode).and_then(|descriptor| copy_of(pid, descriptor));
    seen.and_then(|socket| tcp_info(&socket)).is_none_or(|info| info.awaits_answer())
}

/// What the kernel knows of a TCP connection, as far as it matters here.
#[derive(Debug, Clone, Copy)]
struct TcpInfo {
    /// How long ago data was sent and received, in milliseconds.
    sent: u32,
    received: u32,
    received_bytes: u64,
}

impl TcpInfo {
    fn awaits_answer(&self) -> bool {
        self.received_bytes == 0 || self.sent < self.received
    }
}

/// Reads `struct tcp_info` of `linux/tcp.h`, which only grows at its end.
fn tcp_info(socket: &OwnedFd) -> Option<TcpInfo> {
    const LAST_DATA_SENT: usize = 44;
    const LAST_DATA_RECV: usize = 52;
    const BYTES_RECEIVED: usize = 128;
    let mut bytes = [0_u8; BYTES_RECEIVED + 8];
    let mut length = bytes.len() as libc::socklen_t;
    // SAFETY: writes at most `length` bytes to `bytes`.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            bytes.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if result != 0 || length as usize != bytes.len() {
        return None;
    }
    let word = |at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let long = |at: usize| Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    Some(TcpInfo {
        sent: word(LAST_DATA_SENT)?,
        received: word(LAST_DATA_RECV)?,
        received_bytes: long(BYTES_RECEIVED)?,
    })
}

/// A descriptor of a process for this socket.
fn descriptor_of(pid: i32, inode: u64) -> Option<i32> {
    let name = format!("socket:[{inode}]");
    let directory = processes::proc_directory(pid).join("fd");
    let mut entries = std::fs::read_dir(directory).ok()?.flatten();
    let is_it = |entry: &DirEntry| {
        std::fs::read_link(entry.path()).is_ok_and(|link| link == Path::new(&name))
    };
    entries.find(is_it)?.file_name().to_str()?.parse().ok()
}

/// `SOCK_DIAG_BY_FAMILY` of `linux/sock_diag.h`.
const SOCK_DIAG_BY_FAMILY: u16 = 20;
/// `UDIAG_SHOW_PEER` and `UNIX_DIAG_PEER` of `linux/unix_diag.h`.
const SHOW_PEER: u32 = 4;
const PEER: u16 = 2;
/// Lengths of `struct nlmsghdr`, of `struct unix_diag_msg` and of `struct rtattr`.
const HEADER: usize = 16;
const MESSAGE: usize = 16;
const ATTRIBUTE: usize = 4;
/// How long to wait for the kernel, which usually answers at once.
const PATIENCE: Duration = Duration::from_millis(20);

/// The other end of a local socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LocalPeer {
    Inode(u64),
    None,
    /// The kernel does not report it.
    Unknown,
}

pub(super) fn peer_of_local(inode: u64) -> LocalPeer {
    let answer = u32::try_from(inode).ok().and_then(|inode| ask(inode).ok());
    match answer.filter(|answer| is_about_a_socket(answer)) {
        Some(answer) => {
            parse(&answer).map_or(LocalPeer::None, |inode| LocalPeer::Inode(inode.into()))
        }
        None => LocalPeer::Unknown,
    }
}

/// Whether an answer is no error message.
fn is_about_a_socket(answer: &[u8]) -> bool {
    let kind = answer.get(4..6).and_then(|kind| kind.try_into().ok());
    kind.map(u16::from_ne_bytes) == Some(SOCK_DIAG_BY_FAMILY)
}

fn ask(inode: u32) -> io::Result<Vec<u8>> {
    let socket = rustix::net::socket_with(
        AddressFamily::NETLINK,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        Some(SOCK_DIAG),
    )?;
    sockopt::set_socket_timeout(&socket, Timeout::Recv, Some(PATIENCE))?;
    rustix::net::send(&socket, &request(inode), SendFlags::empty())?;
    let mut answer = vec![0; 512];
    let (read, _) = rustix::net::recv(&socket, &mut answer[..], RecvFlags::empty())?;
    answer.truncate(read);
    Ok(answer)
}

/// `struct nlmsghdr`, then `struct unix_diag_req`.
fn request(inode: u32) -> Vec<u8> {
    const LENGTH: u32 = 16 + 24;
    let family = libc::AF_UNIX as u8;
    let mut bytes = Vec::with_capacity(LENGTH as usize);
    bytes.extend(LENGTH.to_ne_bytes());
    bytes.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    bytes.extend((libc::NLM_F_REQUEST as u16).to_ne_bytes());
    bytes.extend([0; 8]);
    bytes.extend([family, 0, 0, 0]);
    // Every state; this inode; its peer; whatever its cookie is.
    for word in [u32::MAX, inode, SHOW_PEER, u32::MAX, u32::MAX] {
        bytes.extend(word.to_ne_bytes());
    }
    bytes
}

/// The inode in the attribute `UNIX_DIAG_PEER` of an answer.
fn parse(answer: &[u8]) -> Option<u32> {
    let mut rest = answer.get(HEADER + MESSAGE..)?;
    while let (Some(length), Some(kind)) = (rest.get(..2), rest.get(2..4)) {
        let length = usize::from(u16::from_ne_bytes(length.try_into().ok()?));
        let value = rest.get(ATTRIBUTE..length)?;
        if u16::from_ne_bytes(kind.try_into().ok()?) == PEER {
            return Some(u32::from_ne_bytes(value.get(..4)?.try_into().ok()?));
        }
        rest = rest.get(length.next_multiple_of(ATTRIBUTE)..)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::os::unix::net::UnixStream;

    use super::*;

    fn inode_of(socket: &impl AsRawFd) -> Option<u64> {
        let name = std::fs::read_link(format!("/proc/self/fd/{}", socket.as_raw_fd())).ok()?;
        super::inode_of(name.to_str()?)
    }

    /// The socket of one line of a table.
    fn socket_in(line: &str, protocol: &str) -> Option<(u64, Socket)> {
        let table = format!("  sl  local_address rem_address   st\n{line}\n");
        let table = TcpNetEntries::from_read(table.as_bytes(), current_system_info()).ok()?.0;
        table.first().map(|socket| (socket.inode, internet(socket, protocol)))
    }

    #[test]
    fn streams_listen_or_have_another_end() {
        let listens = "   0: 0100007F:8A2B 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4242 1 0 100 0 0 10 0";
        let port = Socket::Listening("port 35371".into());
        assert_eq!(socket_in(listens, "tcp"), Some((4242, port)));
        let connected = "   1: 0100007F:8A2C 0100007F:1538 01 00000000:00000000 00:00000000 00000000     0        0 4243 1 0 20 4 30 10 -1";
        let peer = Socket::Connected("127.0.0.1:5432".into());
        assert_eq!(socket_in(connected, "tcp"), Some((4243, peer)));
        let six = "   0: 00000000000000000000000001000000:0BB8 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 51 1 0";
        let port = Socket::Listening("port 3000".into());
        assert_eq!(socket_in(six, "tcp"), Some((51, port)));
        assert_eq!(socket_in("", "tcp"), None);
        let elsewhere = "   0: 0200000A:1F90 00000000:0000 0A 0:0 0:0 0 0 0 52 1";
        let place = Socket::Listening("10.0.0.2:8080".into());
        assert_eq!(socket_in(elsewhere, "tcp"), Some((52, place)));
    }

    #[test]
    fn datagrams_come_from_anywhere_unless_connected() {
        let free = "  12: 00000000:0202 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 61 2 0 0";
        let port = Socket::Datagrams("udp 514".into());
        assert_eq!(socket_in(free, "udp"), Some((61, port)));
        let connected = "  12: 0100007F:0202 0100007F:0035 01 00000000:00000000 00:00000000 00000000     0        0 62 2 0 0";
        let peer = Socket::Connected("127.0.0.1:53 (udp)".into());
        assert_eq!(socket_in(connected, "udp"), Some((62, peer)));
    }

    #[test]
    fn local_sockets_are_known_by_their_flags() {
        let listens = "000000008e87b9b9: 00000002 00000000 00010000 0001 01 1059 /run/x.sock";
        let at = Socket::Listening("/run/x.sock".into());
        assert_eq!(local(listens), Some((1059, at)));
        let pair = "0000000019410b0c: 00000003 00000000 00000000 0001 03  1058";
        assert_eq!(local(pair), Some((1058, Socket::Local(None))));
    }

    #[test]
    fn a_socket_of_this_process_is_found() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let own = std::process::id() as i32;
        let found = Sockets::default().look_up(own, inode_of(&listener).expect("an inode"));
        assert_eq!(found, Some(Socket::Listening(Phrase::new(format_args!("port {port}")))));
    }

    #[test]
    fn each_end_of_a_pair_names_the_other() {
        let (one, other) = UnixStream::pair().expect("a pair of sockets");
        let (one, other) = (inode_of(&one), inode_of(&other));
        let other = LocalPeer::Inode(other.expect("an inode"));
        assert_eq!(peer_of_local(one.expect("an inode")), other);
        assert_eq!(peer_of_local(u64::MAX), LocalPeer::Unknown);
    }

    #[test]
    fn a_client_awaits_an_answer_until_it_comes() {
        let own = std::process::id() as i32;
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let mut client = TcpStream::connect(listener.local_addr().expect("an address"));
        let client = client.as_mut().expect("a connection");
        let (listens, asks) = (inode_of(&listener), inode_of(client));
        let (listens, asks) = (listens.expect("an inode"), asks.expect("an inode"));
        let clients = || {
            let mut sockets = Sockets::default();
            sockets.look_up(own, listens);
            sockets.clients_of(listens)
        };
        assert_eq!(clients(), [(asks, 0)], "not accepted");
        let (mut server, _) = listener.accept().expect("a client");
        assert_eq!(clients(), [(asks, inode_of(&server).expect("an inode"))]);
        assert!(awaits_answer(own, asks));
        assert!(awaits_answer(own, u64::MAX), "not known");
        client.write_all(b"question").expect("the question is sent");
        server.write_all(b"answer").expect("the answer is sent");
        client.read_exact(&mut [0; 6]).expect("the answer comes");
        let is_told = descriptor_of(own, asks).and_then(|it| copy_of(own, it)).is_some();
        assert_eq!(awaits_answer(own, asks), !is_told);
        drop(server);
        assert_eq!(clients(), []);
    }

    #[test]
    fn a_time_limit_of_a_socket_is_seen() {
        let (one, _other) = UnixStream::pair().expect("a pair of sockets");
        let limits = || {
            let limit = |input| {
                let awaited = Awaited { number: one.as_raw_fd(), input };
                has_time_limit(std::process::id() as i32, awaited)
            };
            [limit(true), limit(false)]
        };
        // A container may forbid it.
        if limits() == [None, None] {
            return;
        }
        assert_eq!(limits(), [Some(false), Some(false)]);
        one.set_read_timeout(Some(Duration::from_secs(200))).expect("a limit");
        assert_eq!(limits(), [Some(true), Some(false)]);
        one.set_write_timeout(Some(Duration::from_secs(200))).expect("a limit");
        assert_eq!(limits(), [Some(true), Some(true)]);
    }

    proptest::proptest! {
        #[test]
        fn no_line_panics(line in ".{0,200}") {
            let _ = socket_in(&line, "tcp");
            let _ = socket_in(&line, "udp");
            let _ = local(&line);
        }

        #[test]
        fn no_answer_panics(answer in proptest::collection::vec(0u8.., 0..120)) {
            let _ = parse(&answer);
        }
    }
}
