//! What is known of programs: which of their words are subcommands, and which of them
//! zsh runs itself. Adding one is adding a line.

use super::options::Values;

/// How many of a program's first words are subcommands.
#[derive(Debug, Clone, Copy)]
pub(super) struct Program {
    /// Its names, parted by blanks.
    names: &'static str,
    /// How many in any case.
    depth: usize,
    /// Behind which first word there are how many more.
    deeper: &'static [(&'static str, usize)],
    /// Options in front of a subcommand that take a value.
    pub values: Values,
}

const fn program(names: &'static str, depth: usize) -> Program {
    Program {
        names,
        depth,
        deeper: &[],
        values: Values::NONE,
    }
}

impl Program {
    /// The program of this name; one that nothing is known of has no subcommands.
    pub fn named(name: &str) -> Program {
        PROGRAMS
            .iter()
            .find(|program| program.names.split(' ').any(|known| known == name))
            .copied()
            .unwrap_or(program("", 0))
    }

    /// How many of its first words are subcommands.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// How many more there are behind this first one.
    pub fn deeper(&self, first: &str) -> usize {
        self.deeper
            .iter()
            .find(|(name, _)| *name == first)
            .map_or(0, |(_, more)| *more)
    }
}

const KUBERNETES: &[(&str, usize)] = &[
    ("get", 1),
    ("describe", 1),
    ("delete", 1),
    ("create", 1),
    ("edit", 1),
    ("scale", 1),
    ("patch", 1),
    ("label", 1),
    ("annotate", 1),
    ("expose", 1),
    ("set", 1),
    ("top", 1),
    ("config", 1),
    ("rollout", 1),
    ("auth", 1),
];

const SCRIPTS: &[(&str, usize)] = &[
    ("run", 1),
    ("run-script", 1),
    ("config", 1),
    ("cache", 1),
    ("pkg", 1),
];

const CONTAINERS: &[(&str, usize)] = &[
    ("compose", 1),
    ("container", 1),
    ("image", 1),
    ("volume", 1),
    ("network", 1),
    ("system", 1),
    ("buildx", 1),
    ("builder", 1),
    ("context", 1),
    ("manifest", 1),
    ("pod", 1),
    ("machine", 1),
];

const PROGRAMS: &[Program] = &[
    Program {
        deeper: &[
            ("remote", 1),
            ("stash", 1),
            ("submodule", 1),
            ("worktree", 1),
            ("bisect", 1),
            ("lfs", 1),
            ("flow", 1),
            ("reflog", 1),
            ("sparse-checkout", 1),
            ("maintenance", 1),
        ],
        values: Values {
            letters: "CcosXj",
            long: &[
                "--git-dir",
                "--work-tree",
                "--namespace",
                "--push-option",
                "--receive-pack",
                "--upload-pack",
                "--depth",
                "--deepen",
                "--shallow-since",
                "--jobs",
                "--strategy",
                "--strategy-option",
            ],
        },
        ..program("git", 1)
    },
    Program {
        deeper: CONTAINERS,
        values: Values {
            letters: "Hcfpl",
            long: &[
                "--host",
                "--context",
                "--config",
                "--log-level",
                "--file",
                "--project-name",
                "--project-directory",
                "--profile",
                "--env-file",
            ],
        },
        ..program("docker podman nerdctl", 1)
    },
    Program {
        values: Values {
            letters: "fp",
            long: &["--file", "--project-name", "--profile", "--env-file"],
        },
        ..program("docker-compose podman-compose", 1)
    },
    Program {
        deeper: KUBERNETES,
        values: Values {
            letters: "ns",
            long: &[
                "--namespace",
                "--context",
                "--kubeconfig",
                "--cluster",
                "--user",
                "--server",
                "--as",
            ],
        },
        ..program("kubectl oc k3s microk8s", 1)
    },
    Program {
        deeper: SCRIPTS,
        values: Values {
            letters: "w",
            long: &["--prefix", "--workspace", "--loglevel"],
        },
        ..program("npm", 1)
    },
    Program {
        deeper: SCRIPTS,
        values: Values {
            letters: "CF",
            long: &["--filter", "--dir", "--cwd"],
        },
        ..program("pnpm bun", 1)
    },
    Program {
        deeper: &[
            ("run", 1),
            ("workspace", 2),
            ("config", 1),
            ("cache", 1),
            ("global", 1),
        ],
        values: Values {
            letters: "",
            long: &["--cwd"],
        },
        ..program("yarn", 1)
    },
    Program {
        deeper: &[("run", 1), ("task", 1)],
        ..program("deno", 1)
    },
    Program {
        deeper: &[
            ("nextest", 1),
            ("xtask", 1),
            ("llvm-cov", 1),
            ("fuzz", 1),
            ("make", 1),
        ],
        values: Values {
            letters: "CZ",
            long: &["--config", "--color", "--manifest-path"],
        },
        ..program("cargo", 1)
    },
    Program {
        deeper: &[
            ("toolchain", 1),
            ("target", 1),
            ("component", 1),
            ("override", 1),
            ("self", 1),
        ],
        ..program("rustup", 1)
    },
    Program {
        deeper: &[("config", 1), ("cache", 1), ("index", 1)],
        values: Values {
            letters: "",
            long: &["--python", "--log", "--proxy", "--retries", "--timeout"],
        },
        ..program("pip pip3", 1)
    },
    Program {
        deeper: &[
            ("pip", 1),
            ("tool", 1),
            ("python", 1),
            ("cache", 1),
            ("self", 1),
        ],
        values: Values {
            letters: "",
            long: &["--directory", "--project", "--config-file", "--cache-dir"],
        },
        ..program("uv", 1)
    },
    Program {
        deeper: &[("env", 1), ("self", 1), ("cache", 1), ("config", 0)],
        ..program("poetry conda mamba micromamba pipenv pdm pipx hatch rye", 1)
    },
    Program {
        values: Values {
            letters: "otc",
            long: &["--option", "--target-release", "--config-file"],
        },
        ..program("apt apt-get apt-cache aptitude dnf yum zypper apk", 1)
    },
    Program {
        deeper: &[("services", 1), ("bundle", 1)],
        ..program("brew snap flatpak port gem composer bundle", 1)
    },
    Program {
        values: Values {
            letters: "HMtpn",
            long: &["--host", "--machine", "--type", "--property", "--lines"],
        },
        ..program(
            "systemctl loginctl machinectl networkctl hostnamectl timedatectl",
            1,
        )
    },
    Program {
        deeper: &[("mod", 1), ("tool", 1), ("work", 1)],
        values: Values {
            letters: "C",
            long: &["-C"],
        },
        ..program("go", 1)
    },
    Program {
        deeper: &[("state", 1), ("workspace", 1), ("providers", 1)],
        ..program("terraform tofu terragrunt pulumi packer", 1)
    },
    Program {
        deeper: &[("repo", 1), ("dependency", 1), ("plugin", 1), ("get", 1)],
        values: Values {
            letters: "n",
            long: &["--namespace", "--kube-context", "--kubeconfig"],
        },
        ..program("helm", 1)
    },
    Program {
        values: Values {
            letters: "R",
            long: &["--repo"],
        },
        ..program("gh glab", 2)
    },
    Program {
        values: Values {
            letters: "",
            long: &[
                "--profile",
                "--region",
                "--output",
                "--endpoint-url",
                "--query",
            ],
        },
        ..program("aws", 2)
    },
    Program {
        values: Values {
            letters: "",
            long: &["--project", "--account", "--format", "--configuration"],
        },
        ..program("gcloud az supabase firebase nmcli", 2)
    },
    program(
        "\
            mvn mvnw gradle gradlew dotnet flutter dart mix rails rake swift stack cabal zig \
            lerna nx turbo ng vite next hugo jekyll bazel just ollama heroku fly flyctl \
            vercel netlify wrangler hg svn jj vagrant minikube kind pre-commit alembic \
            manage.py artisan tmux launchctl ufw nix openssl pm2 virsh rbenv pyenv nvm asdf \
            mise zsh-tool",
        1,
    ),
    Program {
        deeper: &[
            ("addr", 1),
            ("address", 1),
            ("link", 1),
            ("route", 1),
            ("neigh", 1),
            ("netns", 1),
            ("rule", 1),
        ],
        ..program("ip", 1)
    },
];

/// Builtins of zsh that run no program: a man page of their name is another program's.
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

/// The names of zsh's builtins.
pub fn builtins() -> impl Iterator<Item = &'static str> {
    BUILTINS.split_whitespace()
}

/// Whether zsh itself is what runs under this name.
pub(super) fn is_builtin(name: &str) -> bool {
    BUILTINS.split(' ').any(|builtin| builtin == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builtins_are_found_by_their_whole_name() {
        assert!(is_builtin("cd") && is_builtin("[") && is_builtin("zstyle"));
        assert!(!is_builtin("grep") && !is_builtin("") && !is_builtin("c"));
    }
}
