//! Tables of programs: which of their words are subcommands, and which programs are zsh builtins.
//! To add a program, add a line. Pure.

use super::options::{Values, is_listed, values};

/// How many of a program's first words are subcommands.
#[derive(Debug, Clone, Copy)]
pub(super) struct Program {
    /// Its names, separated by blanks.
    names: &'static str,
    /// How many words are always subcommands.
    pub(crate) depth: usize,
    /// First words, separated by blanks, that another subcommand follows.
    deeper: &'static str,
    /// Options before a subcommand that take a value.
    pub(crate) values: Values,
}

const fn program(names: &'static str, depth: usize) -> Program {
    Program { names, depth, deeper: "", values: values("", "") }
}

impl Program {
    const fn deeper_after(self, words: &'static str) -> Program {
        Program { deeper: words, ..self }
    }

    /// The options that take a value: see [`values`].
    const fn options(self, letters: &'static str, long: &'static str) -> Program {
        Program { values: values(letters, long), ..self }
    }

    /// The program with this name; an unknown program has no subcommands.
    pub(super) fn named(name: &str) -> Program {
        PROGRAMS
            .iter()
            .find(|program| is_listed(name, program.names))
            .copied()
            .unwrap_or(program("", 0))
    }

    /// How many more subcommands follow this first one. `yarn workspace` also takes a name.
    pub(super) fn deeper(&self, first: &str) -> usize {
        if self.names == "yarn" && first == "workspace" {
            return 2;
        }
        usize::from(is_listed(first, self.deeper))
    }
}

const SCRIPTS: &str = "run run-script config cache pkg";

const PROGRAMS: &[Program] = &[
    program("git", 1)
        .deeper_after(
            "remote stash submodule worktree bisect lfs flow reflog sparse-checkout maintenance",
        )
        .options(
            "CcosXj",
            "--git-dir --work-tree --namespace --push-option --receive-pack --upload-pack \
             --depth --deepen --shallow-since --jobs --strategy --strategy-option",
        ),
    program("docker podman nerdctl", 1)
        .deeper_after(
            "compose container image volume network system buildx builder context manifest pod \
             machine",
        )
        .options(
            "Hcfpl",
            "--host --context --config --log-level --file --project-name --project-directory \
             --profile --env-file",
        ),
    program("docker-compose podman-compose", 1)
        .options("fp", "--file --project-name --profile --env-file"),
    program("kubectl oc k3s microk8s", 1)
        .deeper_after(
            "get describe delete create edit scale patch label annotate expose set top config \
             rollout auth",
        )
        .options("ns", "--namespace --context --kubeconfig --cluster --user --server --as"),
    program("npm", 1).deeper_after(SCRIPTS).options("w", "--prefix --workspace --loglevel"),
    program("pnpm bun", 1).deeper_after(SCRIPTS).options("CF", "--filter --dir --cwd"),
    program("yarn", 1).deeper_after("run workspace config cache global").options("", "--cwd"),
    program("deno", 1).deeper_after("run task"),
    program("cargo", 1)
        .deeper_after("nextest xtask llvm-cov fuzz make")
        .options("CZ", "--config --color --manifest-path"),
    program("rustup", 1).deeper_after("toolchain target component override self"),
    program("pip pip3", 1)
        .deeper_after("config cache index")
        .options("", "--python --log --proxy --retries --timeout"),
    program("uv", 1)
        .deeper_after("pip tool python cache self")
        .options("", "--directory --project --config-file --cache-dir"),
    program("poetry conda mamba micromamba pipenv pdm pipx hatch rye", 1)
        .deeper_after("env self cache"),
    program("apt apt-get apt-cache aptitude dnf yum zypper apk", 1)
        .options("otc", "--option --target-release --config-file"),
    program("brew snap flatpak port gem composer bundle", 1).deeper_after("services bundle"),
    program("systemctl loginctl machinectl networkctl hostnamectl timedatectl", 1)
        .options("HMtpn", "--host --machine --type --property --lines"),
    program("go", 1).deeper_after("mod tool work").options("C", "-C"),
    program("terraform tofu terragrunt pulumi packer", 1).deeper_after("state workspace providers"),
    program("helm", 1)
        .deeper_after("repo dependency plugin get")
        .options("n", "--namespace --kube-context --kubeconfig"),
    program("gh glab", 2).options("R", "--repo"),
    program("aws", 2).options("", "--profile --region --output --endpoint-url --query"),
    program("gcloud az supabase firebase nmcli", 2)
        .options("", "--project --account --format --configuration"),
    program(
        "\
            mvn mvnw gradle gradlew dotnet flutter dart mix rails rake swift stack cabal zig \
            lerna nx turbo ng vite next hugo jekyll bazel just ollama heroku fly flyctl \
            vercel netlify wrangler hg svn jj vagrant minikube kind pre-commit alembic \
            manage.py artisan tmux launchctl ufw nix openssl pm2 virsh rbenv pyenv nvm asdf \
            mise zsh-tool",
        1,
    ),
    program("make gmake", 0).options("CfIoW", "--directory --file --makefile --include-dir"),
    program("ip", 1).deeper_after("addr address link route neigh netns rule"),
];

/// Builtins of zsh that run no program: a manual page with their name describes another program.
const BUILTINS: &str = "\
    - . : [ alias autoload bg bindkey break builtin bye cd chdir command compadd \
    comparguments compcall compctl compdescribe compfiles compgroups compquote compset \
    comptags comptry compvalues continue declare dirs disable disown echo echotc echoti \
    emulate enable eval exec exit export false fc fg float functions getln getopts hash \
    history integer jobs kill let limit local log logout noglob popd print printf private \
    pushd pushln pwd r read readonly rehash return sched set setopt shift source suspend \
    test times trap true ttyctl type typeset ulimit umask unalias unfunction unhash unlimit \
    unset unsetopt vared wait whence where which zcompile zformat zle zmodload zparseopts \
    zregexparse zstyle";

/// Programs whose first operand is a file, a pattern, a text or a host. Some programs with other
/// first operands are in no list: `tar xf`, `ps aux`, `service nginx restart`, `make test`.
const WITH_OPERANDS: &str = "\
    ack ag awk base64 basename bat batcat bc bunzip2 bzip2 cat cc chgrp chmod chown clang \
    clang++ cksum cmp column comm cp csplit curl cut date df diff dig dirname du egrep emacs \
    env expand expr fd fdfind fgrep file find fmt fold fping g++ gawk gcc getent grep groups \
    gunzip gzip head hexdump host hostname id iconv install join jq kill killall ld less link \
    ln locate logger look ls lsof man md5sum mkdir mkfifo mktemp more mv nano nc nl nm nohup \
    nproc nslookup objdump od open paste patch pgrep pidof ping pkill pr printenv pwgen \
    readelf readlink realpath rev rg rm rmdir rsync scp sd sed seq sftp sha1sum sha256sum \
    sha512sum shred shuf sleep sort split ssh stat strings strip sum tac tail tee telnet touch \
    tr traceroute tree truncate tsort uniq unlink unxz unzip users vi view vim wc wget whatis \
    whereis which who whois xdg-open xxd xz yes yq zcat zgrep zip zstd";

/// Whether the first operand of the program with this name is not a subcommand.
pub(super) fn takes_operand_first(name: &str) -> bool {
    name.is_empty() || is_builtin(name) || is_listed(name, WITH_OPERANDS)
}

/// The names of zsh's builtins.
pub(crate) fn builtins() -> impl Iterator<Item = &'static str> {
    BUILTINS.split_whitespace()
}

/// Whether this name is a zsh builtin.
pub(super) fn is_builtin(name: &str) -> bool {
    is_listed(name, BUILTINS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builtins_are_found_by_their_whole_name() {
        assert!(is_builtin("cd") && is_builtin("[") && is_builtin("zstyle"));
        assert!(!is_builtin("grep") && !is_builtin("") && !is_builtin("c"));
    }

    #[test]
    fn programs_with_operands_have_no_subcommands() {
        for name in ["", "cd", "grep", "zstd", "ack"] {
            assert!(takes_operand_first(name), "{name}");
        }
        for name in ["tailscale", "make", "tar", "zst"] {
            assert!(!takes_operand_first(name), "{name}");
        }
    }
}
