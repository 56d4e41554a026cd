//! Tables of rules that recognise a secret: shapes, names, options of programs. Pure.

/// Matches the name of a secret value in lower case; its users add `(?i)`.
pub(super) const SECRET_NAME: &str =
    r"[\w.-]*(?:key|token|secret|passw(?:or)?d|passphrase|mysql_pwd|rediscli_auth)[\w.-]*";
pub(super) const SECRET_NAME_WORDS: Needles =
    &["key", "token", "secret", "passw", "passphrase", "mysql_pwd", "rediscli_auth"];

/// Matches names of counts, which are no secrets: `max_tokens`, `tokenCount`.
pub(super) const COUNTING_NAME: &str =
    r"(?i)tokens|keys|secrets|(?:token|key|secret)[_.-]?(?:count|limit|budget|size|len)";

/// Lower-case words; each text that a rule matches contains at least one of them.
pub(super) type Needles = &'static [&'static str];

/// Secrets with their own shape. If there is a capture group, it is the secret.
pub(super) const PATTERNS: &[(Needles, &str)] = &[
    // AWS access key ids.
    (
        &["akia", "asia", "abia", "acca", "aroa", "aida"],
        r"\b(?:AKIA|ASIA|ABIA|ACCA|AROA|AIDA)[A-Z0-9]{16}\b",
    ),
    // Google: API keys, access tokens, client secrets.
    (&["aiza"], r"AIza[A-Za-z0-9_-]{35}"),
    (&["ya29."], r"\bya29\.[A-Za-z0-9_-]{20,}"),
    (&["gocspx-"], r"GOCSPX-[A-Za-z0-9_-]{20,}"),
    // Azure: client secrets, the signature of a shared access URL.
    (&["8q~"], r"\b[A-Za-z0-9_]{3}8Q~[A-Za-z0-9_.~-]{31,}"),
    (&["sig="], r"[?&]sig=([A-Za-z0-9_%+/=-]{20,})"),
    // GitHub, GitLab.
    (&["ghp_", "gho_", "ghu_", "ghs_", "ghr_"], r"gh[pousr]_[A-Za-z0-9]{20,}"),
    (&["github_pat_"], r"github_pat_[A-Za-z0-9_]{20,}"),
    (
        &["glpat-", "gldt-", "glrt-", "glptt-", "glcbt-", "glagent-"],
        r"gl(?:pat|dt|rt|ptt|cbt|agent)-[A-Za-z0-9_-]{20,}",
    ),
    // Slack: tokens and webhooks.
    (&["xox"], r"xox[a-z](?:\.[a-z]+)?-[A-Za-z0-9-]{10,}"),
    (&["xapp-"], r"xapp-[A-Za-z0-9-]{10,}"),
    (&["hooks.slack.com"], r"hooks\.slack\.com/services/([A-Za-z0-9_/]+)"),
    // Stripe.
    (&["k_live_", "k_test_"], r"\b[srp]k_(?:live|test)_[A-Za-z0-9]{10,}"),
    (&["whsec_"], r"\bwhsec_[A-Za-z0-9+/=]{20,}"),
    // Package registries.
    (&["npm_"], r"\bnpm_[A-Za-z0-9]{30,}"),
    (&["pypi-"], r"\bpypi-[A-Za-z0-9_-]{50,}"),
    // OpenAI, Anthropic and others with the same prefix; Hugging Face.
    (&["sk-"], r"\bsk-(?:proj|svcacct|admin|ant|or)-[A-Za-z0-9_-]{16,}"),
    (&["sk-"], r"\bsk-[A-Za-z0-9]{20,}"),
    (&["hf_"], r"\bhf_[A-Za-z0-9]{20,}"),
    (&["sg."], r"\bSG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}"),
    (&["_v1_"], r"\bdo[opr]_v1_[a-f0-9]{32,}"),
    // JSON web tokens: base64 of `{"`, then one to four more parts.
    (&["eyj"], r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*){0,3}"),
    // Private key blocks, including cut ones.
    (
        &["private key"],
        r"(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----(.*?)(?:-----END [A-Z0-9 ]*-----|\z)",
    ),
    // Headers: one word for a known scheme, otherwise all text up to the quote or the end of the
    // line.
    (
        &["authorization"],
        r#"(?i)authorization\\?["']?\s*[:=](?:\s|\\ )*\\?["']?(?:(?:bearer|basic|token|apikey|negotiate)(?:\s|\\ )+([^\s"'\\]+)|(?:digest|aws4-hmac-sha256)\s+([^\r\n']+)|([^\s"'\\][^\r\n"'\\]*))"#,
    ),
    (&["cookie"], r#"(?i)\bcookie:[ \t]*([^\r\n"']+)"#),
    // Input of a program that reads a password from stdin.
    (
        &["--password-stdin", "--with-token", "sudo", "chpasswd"],
        r#"\b(?:echo|printf)[ \t]+(?:-[neE]+[ \t]+|['"]?%s(?:\\n)?['"]?[ \t]+)*(?:'([^']+)'|"([^"$]+)"|([^\s$'"|;&][^'"|;&\n]*?))[ \t]*\|[^|;&\n]*(?:--password-stdin|--with-token|\bchpasswd(?:[\s'"`)]|\z)|\bsudo[ \t](?:[^|;&\n]*[ \t])?-[A-Za-z]*S\b)"#,
    ),
    (&["bearer"], r"(?i)\bbearer\s+([A-Za-z0-9_.~+/=-]{16,})"),
    // URLs: the password, or a user name as long as a token.
    (&["@"], r#"://[^\s/@:"'?#]*:([^\s/"'?#]+)@"#),
    (&["@"], r#"(?i)https?://([^\s/@:"'?#]{20,})@"#),
];

/// Texts that a secret directly follows, as one shell word.
pub(super) const BEFORE_A_WORD: &[(Needles, &str)] = &[
    // `=value` may be anything; a value after a blank is not another option.
    (
        &["pass", "token", "secret", "key", "oauth2-bearer"],
        r"(?i)(?:^|[\s\x22'`(])--?(?:[a-z0-9]+[-_.])*(?:password|passwd|passphrase|pass|passin|passout|(?:src|dest)?(?:store|key)pass|token|secret|api-?key|auth-?key|(?:access|secret|account|encryption|master|license)-key|oauth2-bearer)(?:=|\s+\\?\s*)",
    ),
    // sshpass takes its options before the program that it runs (`ssh -p PORT`).
    (&["sshpass"], r"\bsshpass\s+(?:-[vPe]\S*\s+)*-p[ \t]*"),
    (&["openssl"], r"\bopenssl\s+passwd\s+(?:-salt\s+\S+\s+|-\S+\s+)*"),
];

/// The rest of a command, including quoted operators and continued lines.
pub(super) const ARGUMENTS: &str = r#"(?:\\\n|"(?:[^"\\]|\\(?s:.))*"|'[^']*'|[^;&|\n"'])*"#;

/// The name of a program, after a path, a quote or another command.
macro_rules! program {
    ($names:literal) => {
        concat!(r"(?:^|[\s;&|(/\x22'`])(?:", $names, r")\s")
    };
}

/// `htpasswd -b` takes FILE USER PASSWORD, or with `-n` USER PASSWORD. The second and the third
/// argument are replaced, so that the user is too where there is a file.
macro_rules! htpasswd {
    ($words:literal) => {
        concat!(
            r"(?:^|\s)-[a-zA-Z0-9]*b[a-zA-Z0-9]*\s+(?:-\S+\s+(?:\d+\s+)?)*",
            r#"(?:(?:"[^"]*"|'[^']*'|[^\s"'])+\s+)"#,
            $words
        )
    };
}

/// Programs whose short options take a secret: the program, the option among its [`ARGUMENTS`], and
/// the extent of the secret after it.
pub(super) const OPTIONS_OF: &[(Needles, &str, &str, Extent)] = &[
    (
        &["mysql", "mariadb"],
        program!(r"mysql(?:dump|admin|import|show|check)?|mariadb(?:-\w+)?"),
        r"(?:^|\s)-p",
        Extent::AttachedWord,
    ),
    (
        &["curl"],
        r"\bcurl\s",
        r"(?:^|\s)(?:-[a-zA-Z]*[uU][ \t]*|--(?:proxy-)?user[ \t=]+)",
        Extent::AfterColon,
    ),
    (
        &["login"],
        r"\b(?:docker|podman|nerdctl|buildah|skopeo|helm|oc|az|cf)\s+(?:registry\s+)?login\s",
        r"(?:^|\s)-p[ \t=]*",
        Extent::Word,
    ),
    (
        &["aws"],
        r"\baws\s+configure\s+set\s",
        r"(?i)(?:^|\s)\S*(?:secret|token)\S*[ \t]+",
        Extent::Word,
    ),
    (
        &["--from-literal"],
        r"\b(?:kubectl|oc)\s",
        r"(?:^|\s)--from-literal[= \t]+[\w.-]+=",
        Extent::Word,
    ),
    (&["redis-cli"], r"\bredis-cli\s", r"(?:^|\s)-a[ \t]+", Extent::Word),
    (
        &["mongo"],
        program!(r"mongo(?:sh|dump|restore|import|export|stat)?"),
        r"(?:^|\s)-p[ \t]*",
        Extent::Word,
    ),
    // Archivers: `-p` without a value prompts.
    (&["zip"], program!(r"zip|unzip|zipcloak"), r"(?:^|\s)-[a-zA-Z]*P[ \t]*", Extent::Word),
    (&["7z", "rar"], program!(r"7z[arz]?|p7zip|rar|unrar"), r"(?:^|\s)-h?p", Extent::AttachedWord),
    // Programs that take a key or its passphrase.
    (&["openssl"], r"\bopenssl\s", r"(?:^|\s)-(?:k|K|hmac|psk)[ \t]+", Extent::Word),
    (&["ssh-keygen"], r"\bssh-keygen\s", r"(?:^|\s)-[a-zA-Z]*[NP][ \t]+", Extent::Word),
    // LDAP: in a group of short options, those before `w` take no value.
    (
        &["ldap"],
        program!(r"ldap(?:search|add|modify|modrdn|delete|compare|whoami|passwd|exop)"),
        r"(?:^|\s)-[vnxuLZcCIQ]*w[ \t]*",
        Extent::Word,
    ),
    (&["ldappasswd"], r"\bldappasswd\s", r"(?:^|\s)-[vnxuLZcCIQ]*[as][ \t]+", Extent::Word),
    // Programs that set passwords of accounts.
    (&["htpasswd"], r"\bhtpasswd\s", htpasswd!(""), Extent::Word),
    (&["htpasswd"], r"\bhtpasswd\s", htpasswd!(r#"(?:"[^"]*"|'[^']*'|[^\s"'])+\s+"#), Extent::Word),
    (&["useradd", "usermod"], r"\buser(?:add|mod)\s", r"(?:^|\s)-p[ \t]+", Extent::Word),
    (
        &["smbclient", "rpcclient"],
        r"\b(?:smb|rpc)client\s",
        r"(?:^|\s)(?:-U[ \t]*|--user[= \t])[^\s%]*%",
        Extent::Word,
    ),
];

/// How far a value extends from its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Extent {
    /// One shell word.
    Word,
    /// One shell word that must follow directly (`-pX`, not `-p X`).
    AttachedWord,
    /// The part after the first colon of a shell word (`user:password`).
    AfterColon,
    /// To the end of the quote that opens just before the name (`-e "NAME=a b"`).
    Enclosed(u8),
    /// A string, or the rest of the line.
    Line,
    /// A string, or all text up to the next `,` or `}`.
    Item,
}
