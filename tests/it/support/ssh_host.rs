//! A host on loopback: a real sshd with its own keys and port, and a home and a state directory on
//! its far side that no other test has.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Child, Stdio};

use super::env::{Env, MARK_VARIABLE, binary};
use super::processes::{Found, descendants_of, guards_and_guarded, wait_until};
use super::unprivileged::NOBODY;

pub const SSHD: &str = "/usr/sbin/sshd";

pub struct SshHost {
    sshd: Child,
    carrier: String,
}

impl SshHost {
    /// Starts sshd for the user who runs the tests.
    pub fn start(env: &Env) -> SshHost {
        SshHost::start_by(env, &[], "")
    }

    /// The same for a user of this name, who exists there only, with the rights of nobody. Needs
    /// root.
    pub fn start_for(env: &Env, user: &str) -> SshHost {
        let home = far_home(env, "far");
        let entry = format!("{user}:*:{NOBODY}:{NOBODY}::{}:/bin/sh\n", home.display());
        let users = fs::read_to_string("/etc/passwd").expect("the users");
        // Before the entry of nobody, so that its number has this name.
        fs::write(env.path("passwd"), entry + &users).expect("a file");
        let script = format!(
            "mount --make-rprivate /; mount --bind {} /etc/passwd; exec \"$@\"",
            env.path("passwd").display()
        );
        let enter = ["unshare", "--mount", "sh", "-ec", &script, "sh"];
        SshHost::start_by(env, &enter, &format!("User {user}\n"))
    }

    fn start_by(env: &Env, enter: &[&str], login: &str) -> SshHost {
        let folder = env.path("ssh");
        fs::create_dir_all(&folder).expect("a folder");
        for key in ["host", "user"] {
            let made = env
                .command("ssh-keygen")
                .args(["-q", "-t", "ed25519", "-N", "", "-f"])
                .arg(folder.join(key))
                .status();
            assert!(made.expect("ssh-keygen").success());
        }
        // sshd needs this directory of the system's when root starts it.
        let _ = fs::create_dir("/run/sshd");
        let free = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = free.local_addr().expect("an address").port();
        drop(free);
        let path = |name: &str| folder.join(name).display().to_string();
        let settings = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\n\
             UsePAM no\nStrictModes no\nPasswordAuthentication no\nPermitRootLogin yes\n",
            path("host"),
            path("user.pub")
        );
        fs::write(folder.join("sshd_config"), settings).expect("a file");
        let key = fs::read_to_string(folder.join("host.pub")).expect("a key");
        fs::write(folder.join("known"), format!("[127.0.0.1]:{port} {key}")).expect("a file");
        let settings = format!(
            "Host build1\nHostName 127.0.0.1\nPort {port}\nIdentityFile {}\nIdentitiesOnly yes\n\
             UserKnownHostsFile {}\nStrictHostKeyChecking yes\nBatchMode yes\n{login}",
            path("user"),
            path("known")
        );
        fs::write(folder.join("ssh_config"), settings).expect("a file");
        let words = [enter, &[SSHD, "-D", "-e", "-f"]].concat();
        let mut sshd = env
            .command(words[0])
            .args(&words[1..])
            .arg(folder.join("sshd_config"))
            .stderr(Stdio::piped())
            .spawn()
            .expect("sshd");
        let mut log = BufReader::new(sshd.stderr.take().expect("its log"));
        let mut line = String::new();
        while !line.contains("Server listening") {
            line.clear();
            assert!(log.read_line(&mut line).expect("its log") > 0, "sshd has ended");
        }
        std::thread::spawn(move || log.lines().count());
        let carrier = format!(
            "ssh, -F, {}, -T, build1, {}",
            path("ssh_config"),
            far_environment(env, "far").join(", ")
        );
        SshHost { sshd, carrier }
    }

    /// The processes of the host's sessions.
    pub fn session_pids(&self) -> Vec<u32> {
        let below = descendants_of(self.sshd.id()).into_iter();
        let sessions = below.filter(|process| process.arguments.starts_with("sshd"));
        sessions.map(|process| process.pid).collect()
    }

    /// The carrier to the host, as a list of words.
    pub fn carrier(&self) -> &str {
        &self.carrier
    }
}

impl Drop for SshHost {
    fn drop(&mut self) {
        let _ = self.sshd.kill();
        let _ = self.sshd.wait();
    }
}

/// `env` and the far side's variables, as words of a carrier.
pub fn far_environment(env: &Env, name: &str) -> Vec<String> {
    let far = far_home(env, name);
    let state = far.join("state");
    fs::create_dir_all(&far).expect("a home");
    vec![
        "env".to_owned(),
        format!("HOME={}", far.display()),
        format!("ZSH_TOOL_STATE_DIR={}", state.display()),
        format!("{MARK_VARIABLE}={}", env.mark()),
    ]
}

/// The home of the far side.
pub fn far_home(env: &Env, name: &str) -> PathBuf {
    env.path(name)
}

/// The path of the installed program below a far home.
pub fn installed(env: &Env, name: &str) -> PathBuf {
    let place = format!("{}-{}", env!("CARGO_PKG_VERSION"), std::env::consts::ARCH);
    far_home(env, name).join(".local/share/zsh-tool").join(place).join("zsh-tool")
}

/// Installs the program on the far side, since sending a large one takes long.
pub fn install(env: &Env, name: &str) {
    let program = installed(env, name);
    fs::create_dir_all(program.parent().expect("a folder")).expect("a folder");
    symlink(binary(), program).expect("a link");
}

/// The running far sides, without their guards.
pub fn far_sides(env: &Env) -> Vec<Found> {
    guards_and_guarded(env.mark(), "far").1
}

/// Waits until no far side and no guard of one is left.
pub fn await_far_sides_gone(env: &Env) {
    wait_until("no far side is left", || {
        let (guards, far_sides) = guards_and_guarded(env.mark(), "far");
        (guards.is_empty() && far_sides.is_empty()).then_some(())
    });
}
