//! Tables of rules that recognise a secret: shapes, names, options of programs. Pure.

/// Matches what may be the name of a secret value, in lower case; its users add `(?i)`, and
/// [`super::names`] judges it.
pub(super) const SECRET_NAME: &str = r"[\w.-]*(?:key|token|secret|pass|pwd|pw|psk|auth|cred|signature|salt|sess|mnemonic|jwt|pepper)[\w.-]*";
/// Matches what may be the name of an option that takes a secret.
pub(super) const OPTION_NAME: &str = r"[\w.-]*(?:key|token|secret|pass|pwd|psk|auth|credential|signature|salt|mnemonic|bearer|\bjwt|\botp|\bpin)[\w.-]*";
pub(super) const OPTION_NAME_WORDS: Needles = &[
    "key",
    "token",
    "secret",
    "pass",
    "pwd",
    "psk",
    "auth",
    "credential",
    "signature",
    "salt",
    "mnemonic",
    "bearer",
    "-jwt",
    "-otp",
    "-pin",
];
/// Matches the start of a line that a command writes: text in quotes, or what `sed` puts into one.
pub(super) const WRITTEN_LINE: &str = r#"(?:\b(?:echo|printf)[ \t]+(?:-\w+[ \t]+)*["']|<<<[ \t]*["']|\bs/[^/\n]*/|\bs\|[^|\n]*\||\bs#[^#\n]*#)"#;
/// Options whose argument selects tests or lines by a pattern.
pub(super) const PATTERN_OPTIONS: &[&str] =
    &["-run", "-skip", "-bench", "--run", "--grep", "--filter", "--tests"];
/// Options whose argument is a message for people.
pub(super) const MESSAGE_OPTIONS: &[&str] = &[
    "-m",
    "-am",
    "-sm",
    "-asm",
    "-t",
    "-b",
    "--message",
    "--title",
    "--body",
    "--subject",
    "--notes",
    "--description",
];
pub(super) const SECRET_NAME_WORDS: Needles = &[
    "key",
    "token",
    "secret",
    "pass",
    "pwd",
    "pw",
    "psk",
    "auth",
    "cred",
    "signature",
    "salt",
    "sess",
    "mnemonic",
    "jwt",
    "pepper",
];

/// Matches names of counts, which are no secrets: `max_tokens`, `tokenCount`.
pub(super) const COUNTING_NAME: &str = r"(?i)tokens|keys(?:[^a-z]|$)|secrets|(?:token|key|secret)s?[_.-]?(?:count|limit|budget|size|len)";

/// Lower-case words; each text that a rule matches contains at least one of them.
pub(super) type Needles = &'static [&'static str];

/// The words of [`READERS`].
const READERS_WORDS: Needles = &[
    "stdin",
    "--with-token",
    "--passphrase-fd",
    "--data-file=-",
    "sudo",
    "passwd",
    "kinit",
    "cryptsetup",
    "gocryptfs",
    "sshpass",
    "restic",
    "borg",
    "openconnect",
    "ssh-add",
    "argon2",
    "kubeseal",
    "grub-",
    "elasticsearch-keystore",
    "secret",
    "insert",
    "signin",
    "unlock",
    "hcloud",
    "login",
    "adduser",
    "keyring",
    "pubkey",
    "load-key",
    "systemd-creds",
    "su ",
    "su\n",
    "su\t",
    "| su",
    "|su",
];

/// Programs, with their options, that read a secret from their input; `{readers}` in a rule.
pub(super) const READERS: &str = r"(?:--pass(?:word|wd)?(?:-on)?-stdin|--with-token|--passphrase-fd|--stdin\b|--data-file=-|/dev/stdin|\bsudo[ \t](?:[^|;&\n<]*[ \t])?-[A-Za-z]*S\b|[ \t]-pass(?:in|out)? stdin\b|\b(?:chpasswd|passwd|smbpasswd|vncpasswd|kinit|cryptsetup|gocryptfs|sshpass|restic|borg|openconnect|ssh-add|argon2|kubeseal|slappasswd|grub-mkpasswd-pbkdf2|elasticsearch-keystore)(?:[\s'\x22`)]|\z)|\b(?:secrets?[ \t]+(?:put|set|create|versions[ \t]+add)|g?o?pass[ \t]+insert|op[ \t]+signin|bw[ \t]+unlock|hcloud[ \t]+context[ \t]+create|(?:terraform|p4|cargo|npm|lpass)[ \t]+(?:login|adduser)|keyring[ \t]+set|secret-tool[ \t]+store|wg[ \t]+pubkey|zfs[ \t]+load-key|systemd-creds[ \t]+encrypt)\b|\bsu(?:[ \t]|\n|\z))";

/// A word of a command, of which `$NAME` is no secret.
macro_rules! word {
    () => {
        r#"(?:'([^']+)'|"([^"$]+)"|([^\s$'"|;&()][^'"|;&()\n]*?))"#
    };
}

/// A program that writes a text, before the text; `{writer}` in a rule.
pub(super) const WRITER: &str =
    r#"\b(?:echo|printf)[ \t]+(?:-[neE]+[ \t]+|['"]?%s(?:\\n)?['"]?[ \t]+)*"#;

/// Secrets with their own shape. If there is a capture group, it is the secret.
pub(super) const PATTERNS: &[(Needles, &str)] = &[
    // AWS access key ids; those of users and roles (AIDA, AROA) open nothing.
    (&["akia", "asia", "abia", "acca"], r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b"),
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
    (&["sk-"], r"\bsk-(?:proj|svcacct|admin|ant|or|lf)-[A-Za-z0-9_-]{16,}"),
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
    (&["cookie"], r#"(?i)\bcookie:[ \t]*([^\r\n"'=;]+=[^;\s"'][^\r\n"']*)"#),
    (
        &["curl"],
        r#"\bcurl\b[^\n]*?\s(?:-b[ \t]*|--cookie[ \t=]+)(?:"([^"\n=]+=[^"\n]+)"|'([^'\n=]+=[^'\n]+)')"#,
    ),
    // A header that is an argument, as httpie takes it.
    (
        &["key:", "token:", "secret:"],
        r#"(?i)\s["']?x-(?:[\w-]*-)?(?:key|token|secret):([^\s"':=$][^\s"']+)"#,
    ),
    // Input of a program that reads a password from stdin.
    (READERS_WORDS, concat!("{writer}", word!(), r"[ \t]*\|[^|;&\n]*{readers}")),
    (
        &["<<<"],
        concat!("{readers}", r#"[^|;&\n<]*<<<[ \t]*(?:'([^']+)'|"([^"$]+)"|([^\s$'"]\S*))"#),
    ),
    (
        &["<<<"],
        r#"\bpsql[ \t][^|;&\n<]*-W\b[^|;&\n<]*<<<[ \t]*(?:'([^\s']+)'|"([^\s"$]+)"|([^\s'"$;]+))"#,
    ),
    (
        &["<<<"],
        r#"\bread[ \t][^|;&\n<]*(?i:pw|pass|secret|token|key)\w*[^|;&\n<]*<<<[ \t]*(?:'([^']+)'|"([^"$]+)"|([^\s$'"]\S*))"#,
    ),
    (
        &["<<"],
        concat!(
            "(?s)",
            "{readers}",
            r#"[^\n<]*<<-?[ \t]*['"]?\w+['"]?[^\n]*\n(.+?)(?:\n[ \t]*[A-Z_]+[ \t]*(?:\n|\z)|\z)"#
        ),
    ),
    // What a program reads as a file of a secret, and the command that prints one.
    (
        &["<(echo", "<(printf"],
        concat!(r"(?i)(?:pass|key|secret|token)[^|;&\n<]*[ \t=]<\(", "{writer}", word!(), r"\)"),
    ),
    (
        &["command", "eval", "cmd"],
        concat!(r#"(?i)\bpass\w*-?(?:command|eval|cmd)[ \t=]+["']?"#, r"echo[ \t]+([^\s'\x22$]+)"),
    ),
    (
        &["bundle"],
        r"\bbundle[ \t]+config[ \t]+(?:set[ \t]+)?(?:--\w+[ \t]+)?\S+[ \t]+[^\s:]+:(\S+)",
    ),
    // What an installer prints once, with a digit in it.
    (
        &["password", "api key", "token", "secret"],
        r#"(?i)\b(?:(?:your|new|temporary|initial|generated|default|root|admin) (?:api key|access key|secret key|password|token|secret)|password for (?:the )?(?:user )?[\w@.-]+(?: user)?)(?: for (?:the )?(?:user )?[\w@.-]+)?(?: is)?:\s+([^\s"'<$]*[0-9][^\s"']{4,}|[^\s"'<$]{5,}[0-9][^\s"']{0,3})"#,
    ),
    (
        &["access key", "secret key", "api key", "auth token", "access token"],
        r"(?i)\b(?:secret (?:access )?key|access key secret|api key|auth token|access token)[ \t]*[:=][ \t]*([A-Za-z0-9+/=_.-]{20,})",
    ),
    // What a program says of an account that it has made, with a digit in it.
    (&["with password"], r#"(?i)\bwith password:?\s+["']?([^\s"'(<$]*[0-9][^\s"'(]*)"#),
    // What a person or a program says a password is: of capital and small letters with a digit.
    (
        &["password is", "password w", "passphrase is", "passphrase w"],
        r#"\b[Pp]ass(?:word|phrase) (?:is|was|will be|would be)(?:[ \t]+now)?:?[ \t]+["'`]?([A-Za-z][^\s"'`<$]*[0-9][^\s"'`,;]*|[0-9]+[A-Za-z][^\s"'`,;]{4,})"#,
    ),
    (
        &["following password", "following token"],
        r"(?i)following (?:password|token)[^\n:]{0,60}:\s*\n\s*(\S{8,})",
    ),
    // What programs print that make random values.
    (
        &["openssl rand", "pwgen", "urandom", "token_hex", "token_urlsafe", "mkpasswd"],
        r"(?:openssl rand|pwgen|/dev/urandom|token_(?:hex|urlsafe)|mkpasswd)\b[^\n]*\n([A-Za-z0-9+/=_!@#%^&*-]{12,})[ \t]*(?:\n|\z)",
    ),
    (&["bearer"], r"(?i)\bbearer\s+([A-Za-z0-9_.~+/=-]{16,})"),
    // Tokens with a prefix, as the documentation of each service shows them; also listed by gitleaks
    // and trufflehog, which scan for them.
    // HashiCorp Vault and Terraform.
    (&["hvs.", "hvb.", "hvr."], r"\bhv[sbr]\.[A-Za-z0-9_-]{20,}"),
    (&["s."], r"(?i)\b(?:vault[^\n]{0,40}?|token\s+)\b(s\.[A-Za-z0-9]{24})\b"),
    (&[".atlasv1."], r"\b[A-Za-z0-9]{10,20}\.atlasv1\.[A-Za-z0-9_=-]{40,}"),
    // Docker, Tailscale, Age.
    (&["dckr_pat_", "dckr_oat_"], r"\bdckr_[po]at_[A-Za-z0-9_-]{20,}"),
    (&["tskey-"], r"\btskey-[a-z]+-[A-Za-z0-9]+(?:-[A-Za-z0-9]+)?"),
    (&["age-secret-key-"], r"(?i)\bAGE-SECRET-KEY-1[A-Z0-9]{58}"),
    // Models: Groq, xAI, Replicate, Perplexity, NVIDIA, Fireworks, Cerebras, LangSmith, Tavily,
    // ElevenLabs, Hugging Face organisations.
    (&["gsk_"], r"\bgsk_[A-Za-z0-9]{20,}"),
    (&["xai-"], r"\bxai-[A-Za-z0-9]{20,}"),
    (&["r8_"], r"\br8_[A-Za-z0-9]{20,}"),
    (&["pplx-"], r"\bpplx-[A-Za-z0-9]{20,}"),
    (&["nvapi-"], r"\bnvapi-[A-Za-z0-9_-]{20,}"),
    (&["fw_"], r"\bfw_[A-Za-z0-9]{22,}"),
    (&["csk-"], r"\bcsk-[a-z0-9]{40,}"),
    (&["lsv2_"], r"\blsv2_(?:pt|sk)_[a-f0-9]{32}_[a-f0-9]{10}"),
    (&["tvly-"], r"\btvly-[A-Za-z0-9-]{20,}"),
    (&["sk_"], r"\bsk_[a-f0-9]{40,}"),
    (&["api_org_"], r"\bapi_org_[A-Za-z]{30,}"),
    // Databricks, Shopify, Sentry, Grafana, Atlassian, New Relic, Dynatrace, PostHog.
    (&["dapi"], r"\bdapi[a-f0-9]{32}(?:-\d)?\b"),
    (&["shpat_", "shpca_", "shppa_", "shpss_"], r"\bshp(?:at|ca|pa|ss)_[A-Fa-f0-9]{32}"),
    (&["sntrys_", "sntryu_", "sntrya_"], r"\bsntry[sua]_[A-Za-z0-9+/=_-]{20,}"),
    (&["glc_", "glsa_"], r"\bgl(?:c|sa)_[A-Za-z0-9+/=_-]{20,}"),
    (&["atatt3", "atctt3", "atbb"], r"\b(?:AT[AC]TT3[A-Za-z0-9_=-]{20,}|ATBB[A-Za-z0-9]{20,})"),
    (&["nrak-", "nrii-", "nrra-", "nrjs-"], r"\bNR(?:AK|II|RA|JS)-[A-Za-z0-9-]{19,}"),
    (&["dt0c01.", "dt0s"], r"\bdt0[cs]\d\d\.[A-Z0-9]{8,}\.[A-Z0-9]{32,}"),
    (&["phx_", "phc_"], r"\bph[xc]_[A-Za-z0-9]{30,}"),
    // Linear, Notion, Figma, Airtable, Asana, Postman, Typeform, Contentful, Intercom.
    (&["lin_api_", "lin_oauth_"], r"\blin_(?:api|oauth)_[A-Za-z0-9]{32,}"),
    (&["ntn_"], r"\bntn_[A-Za-z0-9]{40,}"),
    (&["secret_"], r"\bsecret_[A-Za-z0-9]{43}\b"),
    (&["figd_"], r"\bfigd_[A-Za-z0-9_-]{30,}"),
    (&["pat"], r"\bpat[A-Za-z0-9]{14}\.[a-f0-9]{64}\b"),
    (&["pmak-"], r"\bPMAK-[A-Fa-f0-9]{24}-[A-Fa-f0-9]{34}"),
    (&["tfp_"], r"\btfp_[A-Za-z0-9_.=-]{30,}"),
    (&["cfpat-"], r"\bCFPAT-[A-Za-z0-9_-]{43}"),
    // Databases and hosting: PlanetScale, Supabase, Neon, Doppler, Fly, Pulumi, Render, Heroku, Railway.
    (&["pscale_"], r"\bpscale_(?:tkn|pw|oauth)_[A-Za-z0-9_.=-]{30,}"),
    (&["sbp_", "sb_secret_"], r"\b(?:sbp_[a-f0-9]{40}|sb_secret_[A-Za-z0-9_-]{20,})"),
    (&["napi_"], r"\bnapi_[a-z0-9]{40,}"),
    (&["dp.pt.", "dp.st.", "dp.ct.", "dp.sa."], r"\bdp\.(?:pt|st|ct|sa)\.[A-Za-z0-9_.-]{40,}"),
    (&["fo1_", "fm1", "fm2_"], r"\b(?:fo1_[A-Za-z0-9_-]{40,}|fm[12][ar]?_[A-Za-z0-9+/=]{40,})"),
    (&["pul-"], r"\bpul-[a-f0-9]{40}"),
    (&["rnd_"], r"\brnd_[A-Za-z0-9]{28,}"),
    (&["hrku-"], r"\bHRKU-[A-Za-z0-9_-]{30,}"),
    (&["v1.0-"], r"\bv1\.0-[a-f0-9]{24}-[a-f0-9]{100,}"),
    // Registries: RubyGems, NuGet, crates.io, Clojars, JFrog, Cloudsmith.
    (&["rubygems_"], r"\brubygems_[a-f0-9]{48}"),
    (&["oy2"], r"\boy2[a-z0-9]{43}\b"),
    (&["cio"], r"\bcio[A-Za-z0-9]{32}\b"),
    (&["clojars_"], r"\bCLOJARS_[a-f0-9]{60}"),
    (&["akcp", "cmvmd"], r"\b(?:AKCp[A-Za-z0-9]{60,}|cmVmd[A-Za-z0-9+/=]{50,})"),
    // CI: Buildkite, CircleCI, GitLab's other tokens, Sourcegraph, SonarQube, Codecov.
    (&["bkua_"], r"\bbkua_[a-f0-9]{40}"),
    (&["ccipat_"], r"\bCCIPAT_[A-Za-z0-9]{22}_[a-f0-9]{40}"),
    (
        &["glft-", "glsoat-", "glimt-", "gloas-", "glffct-"],
        r"\bgl(?:ft|soat|imt|oas|ffct)-[A-Za-z0-9_-]{20,}",
    ),
    (&["sgp_"], r"\bsgp_(?:[A-Fa-f0-9]{16}_|local_)?[A-Fa-f0-9]{40}"),
    (&["squ_", "sqp_", "sqa_"], r"\bsq[upa]_[a-f0-9]{40}"),
    // Mail and messages: Mailgun, Mailchimp, Brevo, Postmark, Resend, Twilio, Telegram, Discord, Teams.
    (&["key-"], r"\bkey-[a-f0-9]{32}\b"),
    (&["-us"], r"\b[a-f0-9]{32}-us\d{1,2}\b"),
    (&["xkeysib-", "xsmtpsib-"], r"\bx(?:key|smtp)sib-[a-f0-9]{64}-[A-Za-z0-9]{16}"),
    (&["re_"], r"\bre_[A-Za-z0-9]{8}_[A-Za-z0-9]{20,}"),
    (&["sk"], r"\bSK[a-f0-9]{32}\b"),
    (&[":aa"], r"(?:\b|bot)\d{8,10}:(AA[A-Za-z0-9_-]{32,33})"),
    (&["webhooks"], r"discord(?:app)?\.com/api/webhooks/\d+/([A-Za-z0-9_-]{20,})"),
    (
        &["discord", "client.run(", "bot.run("],
        r"\b[MNO][A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,40}",
    ),
    (&["api.telegram.org"], r"api\.telegram\.org/(?:file/)?bot\d+:([^\s/\x22']+)"),
    (&["office"], r"\boffice(?:365)?\.com/webhook(?:b2)?/([^\s\x22']+)"),
    // Payments: Square, PayPal, Razorpay, Plaid, Flutterwave, Adyen, Coinbase.
    (
        &["sq0atp-", "sq0csp-", "eaaa"],
        r"\b(?:sq0(?:atp|csp)-[A-Za-z0-9_-]{22,}|EAAA[A-Za-z0-9_-]{60})",
    ),
    (&["access_token$"], r"\baccess_token\$(?:production|sandbox)\$[A-Za-z0-9]{16}\$[a-f0-9]{32}"),
    (&["rzp_"], r"\brzp_(?:live|test)_[A-Za-z0-9]{14}"),
    (&["flwseck"], r"\bFLWSECK(?:_TEST)?-[A-Za-z0-9]{12,}(?:-X)?"),
    (&["access-"], r"\baccess-(?:sandbox|development|production)-[a-f0-9-]{36}"),
    // Clouds: Google's refresh tokens, Alibaba, Tencent, Yandex, IBM, Scaleway, Linode, Dropbox, Box.
    (&["1//0"], r"\b1//0[A-Za-z0-9_-]{30,}"),
    (&["ltai"], r"\bLTAI[A-Za-z0-9]{12,20}\b"),
    (&["akid"], r"\bAKID[A-Za-z0-9]{32}\b"),
    (
        &["y0_", "aqvn", "t1."],
        r"\b(?:y0_[A-Za-z0-9_-]{50,}|AQVN[A-Za-z0-9_-]{35,}|t1\.[A-Za-z0-9_-]{80,})",
    ),
    (&["sl."], r"\bsl\.[A-Za-z0-9_-]{100,}"),
    (&["amzn.mws."], r"\bamzn\.mws\.[a-f0-9-]{36}"),
    (&["ops_eyj"], r"\bops_eyJ[A-Za-z0-9_-]{100,}"),
    // HubSpot, 1Password, Jina, MailerSend, Amazon Bedrock, Infracost, GitLab's runners, Gemini.
    (&["pat-"], r"\bpat-[a-z]{2,4}\d-[a-f0-9]{8}-[a-f0-9-]{27}"),
    (&["a3-"], r"\bA3-[A-Z0-9]{6}(?:-[A-Z0-9]{5,11}){4,5}\b"),
    (&["jina_"], r"\bjina_[A-Za-z0-9_-]{40,}"),
    (&["mlsn."], r"\bmlsn\.[a-f0-9]{64}"),
    (&["absk"], r"\bABSK[A-Za-z0-9+/]{100,}=*"),
    (&["ico-"], r"\bico-[A-Za-z0-9]{32}\b"),
    (&["gr1348941"], r"\bGR1348941[A-Za-z0-9_-]{20,}"),
    (&["aq."], r"\bAQ\.[A-Za-z0-9_-]{40,}"),
    // OpenShift, Prefect, ReadMe, Shippo, Duffel, EasyPost, Harness, Defined Networking, Octopus.
    (&["sha256~"], r"\bsha256~[A-Za-z0-9_-]{43}"),
    (&["pnu_", "rdme_"], r"\b(?:pnu_[A-Za-z0-9]{36}|rdme_[a-z0-9]{70})\b"),
    (&["shippo_"], r"\bshippo_(?:live|test)_[a-f0-9]{40}"),
    (&["duffel_"], r"\bduffel_(?:live|test)_[A-Za-z0-9_=-]{43}"),
    (&["ezak", "eztk"], r"\bEZ[AT]K[A-Za-z0-9]{54}"),
    (&["pat.", "sat."], r"\b[ps]at\.[A-Za-z0-9_-]{22}\.[a-f0-9]{24}\.[A-Za-z0-9]{20}"),
    (&["dnkey-"], r"\bdnkey-[A-Za-z0-9=_-]{26}-[A-Za-z0-9=_-]{52}"),
    (&["api-"], r"\bAPI-[A-Z0-9]{26}\b"),
    (&["eaac"], r"\bEAAC[A-Za-z0-9]{30,}"),
    // Codes that are exchanged for tokens, and signatures of URLs.
    (
        &["code=", "assertion="],
        r"(?:[?&]|[\s\x22'])(?:code|(?:client_)?assertion)=([A-Za-z0-9_%./~-]{20,})",
    ),
    (&["signature="], r"(?i)[?&;](?:X-(?:Amz|Goog|Oss)-)?Signature=([A-Za-z0-9_%+/=~-]{20,})"),
    (&["x-amz-security-token="], r"(?i)X-Amz-Security-Token=([A-Za-z0-9_%+/=-]{20,})"),
    // Hashes of passwords, as in `/etc/shadow` and `.htpasswd`; see crypt(5).
    (
        &["$1$", "$5$", "$6$", "$y$", "$7$", "$gy$", "$sha1$", "$apr1$", "$argon2", "$scrypt$"],
        r"(\$(?:1|5|6|7|y|gy|sha1|apr1|argon2(?:id|i|d)|scrypt)\$[^\s:'\x22]{16,})",
    ),
    (&["$2a$", "$2b$", "$2y$", "$2x$"], r"(\$2[abxy]\$\d\d\$[A-Za-z0-9./]{53})"),
    // Files: .netrc, .pgpass, .my.cnf has names.
    (
        &["machine", "default"],
        r"(?:\bmachine\s+\S+|\bdefault)\s+(?:login\s+\S+\s+)?password\s+(\S+)",
    ),
    (
        &[":*:", ":5432:", ":5433:", ":6432:"],
        r#"(?m)(?:^|["'])[\w.*-]+:(?:\d{4,5}|\*):[\w*.-]+:[\w*.-]+:([^\s:"'\\]+)(?:["'\\]|$)"#,
    ),
    // SQL.
    (
        &["password", "secret", "identified"],
        r"(?i)\b(?:password|secret|identified\s+(?:with\s+\S+\s+)?(?:by|as))(?:\s+|\s*[=(]\s*)N?\\?'([^'\\]+)",
    ),
    (&["password", "secret", "identified"], r#"(?i)\bidentified\s+by\s+\\?"([^"\\]+)"#),
    (
        &["password'", "passwd'", "secret'", "token'", "key'"],
        r"(?i)'[\w.-]*(?:password|passwd|secret|token|api_?key)'\s*,\s*'([^'\n]+)'",
    ),
    // PHP's constants.
    (
        &["define"],
        r#"(?i)\bdefine\(\s*['"]\w*(?:pass|pwd|key|salt|secret|token)\w*['"]\s*,\s*['"]([^'"]+)"#,
    ),
    // XML: an element, an entry of a list.
    (
        &["pass", "token", "secret", "key"],
        r"(?i)<(?:[\w.-]+:)?[\w.-]*(?:password|passwd|passphrase|secret|token|api-?key|private-?key|access-?key)(?:\s[^<>]*)?>\s*([^<\s][^<]*?)\s*</",
    ),
    (
        &["pass", "token", "secret", "key"],
        r#"(?i)\b(?:key|name)=["'][\w:.-]*(?:password|passwd|passphrase|secret|token|api-?key|pwd)[\w:.-]*["']\s+value=["']([^"']+)"#,
    ),
    // A variable of Terraform, and one of .NET.
    (
        &["variable"],
        r#"(?i)\bvariable[ \t]+"[\w-]*(?:password|passwd|secret|token|api_?key)"[ \t]*\{[^}]*?\bdefault[ \t]*=[ \t]*"([^"\n]+)""#,
    ),
    (
        &["user-secrets"],
        r#"(?i)user-secrets[ \t]+set[ \t]+["']?[\w:.-]*(?:password|secret|token|key)["']?[ \t]+["']?([^\s"']+)"#,
    ),
    // What was typed at a question, as the only word behind it.
    (
        &["enter password", "enter passphrase", "[sudo] password", "'s password"],
        r"(?im)^(?:enter (?:password|passphrase)[^:\n]*|\[sudo\] password for \S+|\S+'s password):[ \t]+(\S+)[ \t]*$",
    ),
    (&["new value"], r"(?i)password[^\n]{0,80}\n[ \t]*new value:[ \t]*(\S+)"),
    (&["key content"], r"(?m)Key Content[ \t]*:[ \t]*(\S+)"),
    // A variable of a container, with its value behind its name.
    (
        &["value"],
        r#"(?i)\bname["']?:[ \t]*["']?[\w.-]*(?:password|passwd|passphrase|pass|secret|secret_?key|token|api_?key|access_?key|pwd)["']?,?\s+(?:- )?["']?value["']?:[ \t]*(?:"([^"\n]+)"|'([^'\n]+)'|([^\s"'#{][^"'\n]*))"#,
    ),
    // What programs say of a secret that they have made.
    (
        &["unseal", "root token", "secret id", "password"],
        r"(?i)\b(?:unseal key \d+|root token|secret id|(?:new|initial|generated|temporary|root|admin|your|default)(?: \w+)? password(?: is(?: generated for \S+)?)?|password is)[ \t]*[:=][ \t]*(\S+)",
    ),
    (&["genkey"], r"genkey[^\n]*\n([A-Za-z0-9+/]{43}=)"),
    (&["private-lines"], r"Private-Lines: \d+\n((?:[A-Za-z0-9+/=]+\n?)+)"),
    // NATS' seeds, verifiers of PostgreSQL, Packagist, Netlify.
    (&["nats", "nkey", "seed"], r"\bS[UANOCX][A-Z2-7]{56}\b"),
    (&["md5"], r#""(md5[a-f0-9]{32})""#),
    (&["scram-sha-256$"], r"(SCRAM-SHA-256\$\d+:[A-Za-z0-9+/=]+\$[A-Za-z0-9+/=]+:[A-Za-z0-9+/=]+)"),
    (&["packagist_"], r"\bpackagist_[a-z]+_[a-f0-9]{40,}"),
    (&["nfp_"], r"\bnfp_[A-Za-z0-9]{30,}"),
    // Keys in the paths and queries of services.
    (
        &["alchemy.com", "infura.io", "quiknode.pro"],
        r"(?:alchemy\.com/v2|infura\.io/v3|quiknode\.pro)/([A-Za-z0-9_-]{20,})",
    ),
    (&["appid="], r"[?&]appid=([a-f0-9]{32})"),
    // Directives with a value after a blank: redis, keepalived, mosquitto, fetchmail, kickstart, dhcpd.
    (
        &["pass", "auth", "secret", "psk", "rootpw", "bindpw"],
        r#"(?im)^[ \t]*(?:requirepass|masterauth|bindpw|rootpw(?:[ \t]+--[\w-]+)*|password|secret|psk|passphrase|auth_pass)[ \t]+(?:\d[ \t]+)?["']?([^\s"';=:]+)["']?[ \t]*;?[ \t]*$"#,
    ),
    (
        &["echo", "printf"],
        concat!(
            "(?i)",
            "{writer}",
            r#"["'][ \t]*(?:(?:requirepass|masterauth|bindpw|rootpw|auth_pass)[ \t]+([^\s"';=:$\\]+)|(?:password|secret|psk|passphrase)[ \t]+([^\s"';=:$\\]*[0-9][^\s"';=:$\\]*))"#,
            r#"(?:\\n)?["'][ \t]*(?:>|\|[ \t]*(?:sudo[ \t]+)?tee\b)"#
        ),
    ),
    // A line of a text that a command writes.
    (
        &["\\n"],
        concat!(
            "(?i)",
            "{writer}",
            r#"["'$][^\n]*?\\n[ \t]*(?:- )?[\w.-]*(?:password|passwd|secret|token|api_?key)[ \t]*(?::|=)[ \t]+([^\s"'\\$<]+)"#
        ),
    ),
    (&["password", "psk"], r#"(?i)\b(?:password|psk)[ \t]+"([^"\n]+)""#),
    (&["auth "], r"(?m)(?:^|>[ \t]*)AUTH[ \t]+(?:[\w-]+[ \t]+)?(\S+)$"),
    (&["user "], r"(?m)^user[ \t]+\S+[ \t][^\n]*?>(\S+)"),
    (&["]:", "] "], r"(?m)^\[[\w.-]+\](?::\d+)?[ \t]+[^\s:]+:(\S+)$"),
    (&[" * "], r"(?m)^\S+[ \t]+\*[ \t]+(\S+)[ \t]+\*$"),
    (&["username"], r"(?i)\busername[ \t]+\S+[^\n]*?[ \t](?:password|secret)[ \t]+\d[ \t]+(\S+)"),
    (&["passwd/"], r"passwd/\S*password\S*[ \t]+password[ \t]+(\S+)"),
    // Arguments of calls in programs: connections, logins, signatures, hashes.
    (
        &["pdo", "mysqli", "getconnection", "pg_connect"],
        r#"(?i)(?:\bPDO|\bmysqli(?:_connect)?|getConnection)\(\s*(?:["'][^"'\n]*["']|[\w.$]+)\s*,\s*["'][^"'\n]*["']\s*,\s*["']([^"'\n]+)"#,
    ),
    (
        &["auth", "login(", "credentials"],
        r#"(?i)(?:auth\s*=\s*\(|basicauth\(|basic_auth\(|\.(?:login|auth)\(|credentials\.new\()\s*["'][^"'\n]+["']\s*,\s*(?:Some\(\s*)?["']([^"'\n]+)"#,
    ),
    (
        &["jwt."],
        r#"\bjwt\.(?:sign|verify|encode|decode)\((?:\{[^}]*\}|[^,"'\n]+),\s*["']([^"'\n]+)"#,
    ),
    (
        &["superuser", "hash::make", "securestring", "_password", "crypt", "hashpw"],
        r#"(?i)(?:create_superuser\(\s*["'][^"'\n]*["']\s*,\s*["'][^"'\n]*["']\s*,\s*|Hash::make\(|\b(?:b?crypt(?:\.\w+)?|hashpw|(?:set|make)_password)\(b?|ConvertTo-SecureString[ \t]+(?:-String[ \t]+)?)\\?["']([^"'\n]+)"#,
    ),
    (&["networkcredential"], r#"NetworkCredential\(\s*(?:"[^"\n]*"|[\w.]+)\s*,\s*"([^"\n]+)""#),
    (&["login("], r#"\.login\(\s*["']([A-Za-z0-9_.-]{40,})["']\s*\)"#),
    // A personal access token.
    (&["pat=", "pat =", "pat:"], r#"(?:\b|_)PAT["']?[ \t]*[=:][ \t]*["']?([A-Za-z0-9_-]{20,})"#),
    (&["client("], r#"\bAC[a-f0-9]{32}["'],\s*["']([a-f0-9]{32})"#),
    // A format of a URL or a data source, and the password that it takes.
    (
        &[":%s@"],
        r#"(?:%[sv][^"'\n]*:%[sv]@[^"'\n]*["']\s*[,%]\s*\(?\s*["'][^"'\n]+["']\s*,\s*|[^%\s"']:%[sv]@[^"'\n]*["']\s*[,%]\s*\(?\s*)["']([^"'\n]+)"#,
    ),
    (&["@tcp(", "@unix("], r"\b[\w.-]+:([^\s:@/\x22']+)@(?:tcp|unix)\("),
    // A user with a password in one argument, and an account with one.
    (
        &["auth", "creds", "credentials"],
        r#"(?:^|\s)--?(?:basic-)?(?:auth|(?:src-|dest-)?creds|credentials)[ =]["']?[\w.@-]+:([^\s"']+)"#,
    ),
    (&["http"], r#"\bhttps?[ \t]+(?:\S+[ \t]+)*?-a[ \t]+["']?[\w.@-]+:([^\s"']+)"#),
    (&["etcdctl"], r"\betcdctl\b[^\n|;&]*?--user[ =][\w.-]+:(\S+)"),
    (&["impacket-"], r#"\bimpacket-\w+[ \t]+["']?[^\s/]+/[^\s:]+:([^\s"'@]+)@"#),
    (
        &["value="],
        r#"(?i)\bname=[\w.-]*(?:password|passwd|pwd|secret|token|key),value=([^\s,"'{}\]]+)"#,
    ),
    (
        &["sops"],
        r#"(?i)\bsops\b[^\n]*\[\\?"[\w.-]*(?:pass|password|pwd|secret|token|key)\\?"\][ \t]+\\?"([^"\\\n]+)"#,
    ),
    (&["setuser"], r#"(?i)\bsetuser\b[^\n|;&]*?["'][ \t]*>([^\s"'<>]+)"#),
    (&["sonar.login="], r#"sonar\.login=([^\s"']+)"#),
    (&["db2"], r#"(?i)\bdb2\b[^\n]*[ \t]using[ \t]+([^\s"';]+)"#),
    (&["iwconfig"], r"\biwconfig\b[^\n|;&]*[ \t](?:key|enc)[ \t]+(?:s:)?([^\s|;&]{5,})"),
    (&["_pw "], r"\b(?:user|owner)_pw[ \t]+([^\s]+)"),
    (
        &["rclone"],
        r"\brclone[ \t]+config[ \t]+(?:create|update)\b[^\n|;&]*?[ \t](?:pass|password|secret_access_key|token|client_secret|key)[ =]([^\s]+)",
    ),
    (&["net use"], r"(?i)\bnet[ \t]+use\b[^\n]*?/user:\S+[ \t]+([^\s/]\S*)"),
    (&["net use"], r"(?i)\bnet[ \t]+use[ \t]+(?:\S+:[ \t]+)?\\\\\S+[ \t]+([^\s/]\S*)[ \t]+/user:"),
    (
        &["/pass", "/p ", "/rp "],
        r"(?i)(?:cmdkey|signtool|psexec|runas|schtasks)\b[^\n]*?[ \t]/(?:pass:|r?p[ \t]+)(\S+)",
    ),
    (
        &["send"],
        r#"(?i)(?:assword|passphrase)[^\n]{0,40}?(?:\n[ \t]*)?\bsend[ \t]+(?:--[ \t]+)?\\?["']([^"'\\\n]+)"#,
    ),
    (&["basic"], r"(?i)authorization[^\n]{0,6}?basic[ \t]+([A-Za-z0-9+/=_-]{8,})"),
    // A value that goes into a file of secrets, or to a program that stores one.
    (
        &["pass", "secret", "token", "credential"],
        concat!(
            "{writer}",
            r#"(?:'([^']+)'|"([^"$]+)")[ \t]*>{1,2}[ \t]*[^\s|;&]*(?:pass|secret|token|credential)"#
        ),
    ),
    (
        &["pass", "token", "secret", "key"],
        r#"(?i)\bname=["'][\w:.-]*(?:password|passwd|passphrase|secret|token|api-?key|pwd)[\w:.-]*["'][^<>]*>\s*([^<\s][^<]*?)\s*<"#,
    ),
    // URLs: the password, or a user name as long as a token.
    (&["@"], r#"://[^\s/@:"'?#]*:([^\s/"'?#]+)@"#),
    (&["@"], r#"(?i)https?://([^\s/@:"'?#]{20,})(?::[^\s/@"'?#]*)?@"#),
    (&["x-oauth-basic"], r#"://([^\s/@:"'?#]+):x-oauth-basic@"#),
    // The same without a scheme, for programs that take it so.
    (
        &["ssh", "sftp", "govc", "cvs", "mysqlsh"],
        r#"\b(?:ssh|sftp|mysqlsh|govc|cvs)[ \t](?:[^\n|;&"']*?[\s"'])?(?::pserver:)?[\w.-]+:([^\s:@/,"']+)@[\w.-]"#,
    ),
];

/// Texts that a secret directly follows, as one shell word.
pub(super) const BEFORE_A_WORD: &[(Needles, &str)] = &[
    // sshpass takes its options before the program that it runs (`ssh -p PORT`).
    (&["sshpass"], r"\bsshpass\s+(?:-[vPe]\S*\s+)*-p[ \t]*"),
    // Variables and macros that are set by a word after their name.
    (
        &["define", "setx", "setenv", "set -"],
        r"(?i)(?:#[ \t]*define|\bsetx|\bsetenv|\bset[ \t]+-[gxu]+)[ \t]+\w*(?:password|passwd|passphrase|pass|pwd|secret|token|api_?key)[ \t]+",
    ),
    (
        &["encrypt_string"],
        r#"\bansible-vault[ \t]+encrypt_string[ \t]+(?:--?[\w-]+(?:=\S+|[ \t]+[^\s'"-]\S*)?[ \t]+)*"#,
    ),
    // Subcommands that set a password.
    (&["-password"], r"(?:^|[ \t])(?:re)?set-(?:initial|admin|default|root|user)-password[ \t]+"),
    (&["set_password"], r"[ .]set_password[ \t]+[\w.@-]+[ \t]+"),
    // Redis, after its prompt.
    (&["auth "], r">[ \t]*AUTH[ \t]+"),
    (
        &["--arg"],
        r"(?i)\s--arg(?:str)?[ \t]+\w*(?:pass|passwd|password|pw|pwd|secret|token|key)[ \t]+",
    ),
    // A store of names and values.
    (
        &["kv put", "etcdctl", "redis-cli"],
        r"(?i)\b(?:kv[ \t]+put|etcdctl[ \t]+put|redis-cli[^\n|;&]*[ \t]set)[ \t]+\S*(?:pass|passwd|password|pw|pwd|secret|token|api_?key)[ \t]+",
    ),
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
        r"\b(?:docker|podman|nerdctl|buildah|skopeo|helm|oc|az|cf|crane|oras|ko|regctl|twilio|expo|eas|jf)\s+(?:(?:registry|auth)\s+)?login\s",
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
    (&["redis-cli"], r"\bredis-cli\s", r"(?:^|\s)-a[ \t]*", Extent::Word),
    (&["redis-cli"], r"\bredis-cli\s", r"(?:^auth|(?:^|\s)AUTH)[ \t]+", Extent::Word),
    (
        &["redis-cli"],
        r"\bredis-cli\s",
        r"(?:^auth|(?:^|\s)AUTH)[ \t]+[^\s'\x22]+[ \t]+",
        Extent::Word,
    ),
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
    // A cookie that curl sends, unless it is a file; its form for a token without a password is
    // [`Extent::AfterColon`].
    (
        &["curl"],
        r"\bcurl\s",
        r#"(?:^|\s)(?:-b[ \t]*|--cookie[ \t=]+)(?:['"])?[\w.-]+="#,
        Extent::Word,
    ),
    (
        &[
            "twine",
            "cqlsh",
            "poetry",
            "supabase",
            "sql",
            "postgres",
            "mariadb",
            "youtube-dl",
            "yt-dlp",
            "gallery-dl",
            "couchbase-cli",
            "cbq",
            "hdbsql",
            "racadm",
            "doveadm",
            "beeline",
            "altool",
            "ncftp",
            "rabbitmqadmin",
            "cypher-shell",
            "hydra",
            "medusa",
            "ncrack",
            "useradd",
            "usermod",
            "elasticsearch-users",
        ],
        program!(
            r"twine(?:\s+upload)?|cqlsh|poetry\s+publish|supabase\s+(?:link|db)|az\s+(?:sql|postgres|mysql|mariadb)|youtube-dl|yt-dlp|gallery-dl|couchbase-cli|cbq|hdbsql|racadm|doveadm\s+pw|beeline|altool|ncftp(?:put|get|ls)?|rabbitmqadmin|cypher-shell|hydra|medusa|ncrack|user(?:add|mod)|elasticsearch-users"
        ),
        r"(?:^|\s)-p[ \t]+",
        Extent::Word,
    ),
    (&["mycli"], program!("mycli"), r"(?:^|\s)-p[ \t]*", Extent::Word),
    (
        &["mosquitto", "sqlcmd", "bcp", "ipmitool", "tsql", "knife"],
        program!(r"mosquitto_(?:pub|sub|rr)|sqlcmd|bcp|ipmitool|tsql|knife"),
        r"(?:^|\s)-P[ \t]*",
        Extent::Word,
    ),
    (
        &["vercel", "codecov", "publish", "glab", "slackcat", "influx", "doctl", "login"],
        program!(
            r"vercel|codecov(?:cli)?|uv\s+publish|glab\s+auth\s+login|slackcat|influx|doctl|tea\s+login\s+add"
        ),
        r"(?:^|\s)(?:-t|--access-token)[ \t=]+",
        Extent::Word,
    ),
    (&["hatch"], r"\bhatch\s+publish\s", r"(?:^|\s)-a[ \t]+", Extent::Word),
    (
        &["nuget", "set-key-partition-list"],
        r"\b(?:nuget\s+push|security\s+set-key-partition-list)\s",
        r"(?:^|\s)-k[ \t]+",
        Extent::Word,
    ),
    (
        &["plink", "putty", "pscp", "psftp", "addprinc", "cpw", "swaks"],
        program!(r"plink|putty|pscp|psftp|addprinc|cpw|swaks"),
        r"(?:^|\s)-(?:pw|ap)[ \t]+",
        Extent::Word,
    ),
    (
        &["kadmin", "vsql", "slappasswd", "pk12util"],
        program!(r"kadmin|vsql|slappasswd|pk12util"),
        r"(?:^|\s)-[wsW][ \t]+",
        Extent::Word,
    ),
    (&["transmission-remote"], r"\btransmission-remote\s", r"(?:^|\s)-n[ \t]+", Extent::AfterColon),
    // Programs that take it behind the name of what it belongs to.
    (
        &["rabbitmqctl", "samba-tool", "secret-set-value", "bw ", "drush"],
        r"\b(?:rabbitmqctl\s+(?:add_user|change_password|authenticate_user)|samba-tool\s+user\s+(?:create|add)|virsh\s+secret-set-value|bw\s+login|drush\s+(?:user:password|user-password|upwd))\s",
        r"^(?:-\S+[ \t]+)*[^\s-]\S*[ \t]+",
        Extent::Word,
    ),
    (&["smbclient"], r"\bsmbclient\s", r"(?:^|\s)['\x22]?//\S+[ \t]+", Extent::Word),
    (
        &["mosquitto_passwd", "airportnetwork", "isql"],
        r"\b(?:mosquitto_passwd\s+(?:-\w+\s+)*-\w*b|networksetup\s+-setairportnetwork|isql)\s",
        r"^(?:-\S+[ \t]+)*[^\s-]\S*[ \t]+[^\s-]\S*[ \t]+",
        Extent::Word,
    ),
    (
        &["bcrypt-tool", "hash-password"],
        r"\b(?:bcrypt-tool\s+hash|caddy\s+hash-password)\s",
        r"^(?:-\S+[ \t]+)*",
        Extent::Word,
    ),
    // Programs that set a value by its name.
    (
        &["config", "crudini", "dvc", "variable", "chamber", "set_network"],
        r"\b(?:git\s+config|crudini\s+--set|dvc\s+remote\s+modify|(?:glab|gh)\s+variable\s+set|chamber\s+write|wpa_cli\s+set_network)\s",
        r"(?i)(?:^|[ \t])(?:--?[\w-]+[ \t]+)*[\w./:@-]*(?:password|passwd|token|secret|secret_access_key|api_?key|psk)[ \t]+",
        Extent::Word,
    ),
    (
        &["snmp"],
        program!(r"snmp(?:walk|get|set|bulkwalk|getnext|table)"),
        r"(?:^|\s)-[cAX][ \t]+",
        Extent::Word,
    ),
    (
        &["config set", "config:set"],
        program!(
            r"(?:npm|pnpm|yarn|pip|pip3|poetry|composer|gem|bundle|cargo|gh|glab|heroku|conan|helm)\b[^\n;&|]*?\bconfig[ :]set"
        ),
        r"(?i)(?:^|\s)\S*(?:_auth\w*|_password|auth-?token|password|passwd|token|secret)(?:[ \t]+|=)",
        Extent::Word,
    ),
    (
        &["poetry", "bundle", "composer"],
        program!(r"poetry|bundle|composer"),
        r"(?:^|\s)(?:(?:pypi-token|github-oauth|gitlab-token|bearer)\.\S+|http-basic\.\S+[ \t]+\S+)[ \t]+",
        Extent::Word,
    ),
    (&["vault"], r"\bvault\s+(?:login|operator\s+unseal)\s", r"^(?:-\S+\s+)*", Extent::Word),
    (&["wpa_passphrase"], r"\bwpa_passphrase\s", r"^(?:'[^']*'|\S+)[ \t]+", Extent::Word),
    (
        &["rclone", "bw "],
        r"\b(?:rclone\s+obscure|bw\s+unlock)\s",
        r"^(?:--\S+[ \t]+)*",
        Extent::Word,
    ),
    (
        &["gh ", "glab"],
        r"\b(?:gh|glab)\s+(?:secret|variable)\s+set\s",
        r"(?:^|\s)(?:-b|--body|-v|--value)[ \t=]+",
        Extent::Word,
    ),
    (
        &["nmcli"],
        r"\bnmcli\s",
        r"(?:^|\s)(?:password|wifi-sec\.psk|802-11-wireless-security\.psk)[ \t]+",
        Extent::Word,
    ),
    (
        &["security "],
        r"\bsecurity\s+(?:import|(?:add|find|unlock|set|create)-\S+)\s",
        r"(?:^|\s)-[wpP][ \t]+",
        Extent::Word,
    ),
    (
        &["freerdp", "rdesktop"],
        r"\b(?:[wx]l?freerdp3?|rdesktop)\s",
        r"(?:^|\s)(?:/p:|-p[ \t]*)",
        Extent::Word,
    ),
    (&["lftp", "ncftp"], r"\b(?:lftp|ncftp)\s", r"(?:^|\s)-u[ \t]*[^\s,]+,", Extent::Word),
    (
        &["sqlplus", "impdp", "expdp"],
        r"\b(?:sqlplus|impdp|expdp)\s",
        r"(?:^|\s)[\w$#]+/",
        Extent::Word,
    ),
    (&["rman"], r"\brman\s", r"(?:target|catalog|auxiliary)[ \t=]+[\w$#]+/", Extent::Word),
    (&["mount"], r"\bmount(?:\.cifs)?\s", r"(?:[\s,])pass(?:word)?=", Extent::Word),
    (&["adduser", "chpass", "net user"], r"\bnet\s+user\s", r"^[\w.-]+[ \t]+", Extent::Word),
    (&["keyctl"], r"\bkeyctl\s+add\s", r"^\S+[ \t]+\S+[ \t]+", Extent::Word),
    (
        &["echo", "expect", "send"],
        r"\bexpect\s",
        r#"(?i)(?:assword|passphrase)[^\n;]*?\bsend[ \t]+(?:--[ \t]+)?\\?["']"#,
        Extent::Item,
    ),
    (
        &["snyk", "wandb", "ngrok", "cargo login"],
        r"\b(?:snyk\s+auth|wandb\s+login|ngrok\s+(?:config\s+add-)?authtoken|cargo\s+login)\s",
        r"^(?:-\S+[ \t]+)*",
        Extent::Word,
    ),
    (
        &["ssm", "secretsmanager", "keyvault", "secret"],
        r"\b(?:aws\s+(?:ssm|secretsmanager)|az\s+keyvault|eas\s+secret|infisical\s+secrets|fly(?:ctl)?\s+secrets|vercel\s+env)\S*\s",
        r"(?:^|\s)--(?:value|secret-string)[ \t=]+",
        Extent::Word,
    ),
    (&["pulumi"], r"\bpulumi\s+config\s+set\s", r"(?:^|\s)--secret[ \t]+\S+[ \t]+", Extent::Word),
    (&["mc "], program!("mc"), r"^alias[ \t]+set[ \t]+\S+[ \t]+\S+[ \t]+\S+[ \t]+", Extent::Word),
    (&["oathtool"], r"\boathtool\s", r"(?:^|\s)-b[ \t]+", Extent::Word),
    (
        &["winrm", "nxc", "netexec", "crackmapexec"],
        program!("evil-winrm|nxc|netexec|crackmapexec|cme"),
        r"(?:^|\s)-[pH][ \t]+",
        Extent::Word,
    ),
    // Programs that hash a password, or close a file with the user's and the owner's.
    (
        &["mkpasswd"],
        r"\bmkpasswd\s",
        r"^(?:-m[ \t]+\S+[ \t]+|-[\w-]+(?:=\S+)?[ \t]+)*",
        Extent::Word,
    ),
    (&["qpdf"], r"\bqpdf\s", r"(?:^|\s)--encrypt[ \t]+", Extent::Word),
    (&["qpdf"], r"\bqpdf\s", r"(?:^|\s)--encrypt[ \t]+\S+[ \t]+", Extent::Word),
    // Programs that set passwords of accounts.
    (&["htpasswd"], r"\bhtpasswd\s", htpasswd!(""), Extent::Word),
    (&["htpasswd"], r"\bhtpasswd\s", htpasswd!(r#"(?:"[^"]*"|'[^']*'|[^\s"'])+\s+"#), Extent::Word),
    (
        &["smbclient", "rpcclient", "net ", "winexe", "wmic", "samba-tool"],
        r"\b(?:(?:smb|rpc)client|net|winexe|wmic|samba-tool)\s",
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
    /// Up to this character, or to the end of the line.
    Until(u8),
    /// To the end of the quote that opens just before the name (`-e "NAME=a b"`).
    Enclosed(u8),
    /// A string, or the rest of the line.
    Line,
    /// A string, or all text up to the next `,` or `}`.
    Item,
}
