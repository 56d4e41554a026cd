//! Whether a name is that of a secret value: `DB_PASS`, `apiKey`, `spring.mail.password`; and whether
//! a value behind such a name can be one. Pure.
//!
//! A name is read by its words, so that `key` counts and `keyword` or `turkey` does not. What a word
//! after it says is a property of the secret and not the secret: `token_url`, `password_file`.

use std::collections::HashSet;
use std::ops::RangeInclusive;
use std::sync::OnceLock;

/// How sure a name makes it that its value is secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sureness {
    No,
    /// If the value looks drawn at random.
    IfRandom,
    /// If the value looks made by a machine.
    ByValue,
    /// If it looks so or is a code of digits.
    ByValueOrCode,
    /// If the value is no small number, as a count of tests that pass is, and no directory.
    IfNotPlain,
    Yes,
}

impl Sureness {
    /// Whether a value behind such a name is secret.
    pub(super) fn covers(self, value: &str) -> bool {
        let is_number = !value.is_empty() && value.bytes().all(|it| it.is_ascii_digit());
        match self {
            Sureness::No => false,
            Sureness::IfRandom => looks_random(value),
            Sureness::ByValue => looks_made(value),
            Sureness::ByValueOrCode => {
                looks_made(value) || is_number && CODE_DIGITS.contains(&value.len())
            }
            Sureness::IfNotPlain => {
                !(is_directory(value) || is_number && value.len() < *CODE_DIGITS.start())
            }
            Sureness::Yes => true,
        }
    }
}

/// How many digits a code has that a person types: a PIN, a one-time password.
const CODE_DIGITS: RangeInclusive<usize> = 4..=12;

/// Words that make a name that of a secret, also at the end of a longer word: `dbpassword`.
const SECRETS: &[&str] = &[
    "password",
    "passwords",
    "passwd",
    "passphrase",
    "passcode",
    "secret",
    "secrets",
    "token",
    "tokens",
    "apikey",
    "apikeys",
    "mnemonic",
];
/// Short words for a password, of their own or at the end of one: `sshpass`, `dbpwd`.
const SHORT: &[&str] = &["pass", "pwd"];
/// Words that end like those and mean something else.
static OTHER: Words = Words::new(
    "\
    bypass compass encompass surpass trespass underpass overpass oldpwd cwd multipass singlepass \
    onepass twopass firstpass secondpass renderpass rpass askpass",
);
/// Words before `pass` that make it a run of a program over its input.
static RUNS: Words = Words::new("first second last next one two single multi per each render");
/// Words before `key`, also in one word with it, that make it secret.
static SECRET_KEYS: Words = Words::new(
    "\
    access account admin aes api app application auth client consumer crypt decryption deploy \
    dsa ec ed25519 encryption gpg hmac ingest instrumentation integration jwt license licence \
    master openai anthropic pgp private pre rsa secret server service session shared signing ssh \
    storage stripe subscription tls user webhook wallet wep wpa x",
);
/// Words before `key` of keys that everybody may see, or of other things.
static OPEN_KEYS: Words = Words::new(
    "\
    arrow cache candidate composite foreign function group hash host hot i18n idempotency index \
    json lookup map meta natural object partition press primary public pub publishable query \
    range react redis registry row s3 shard shortcut sort surrogate trans translation \
    unique",
);
/// Words before `key` in options that take the key itself. That of another is often a file or a name.
static OPTION_KEYS: Words = Words::new(
    "access account api app application auth encryption license licence master private secret",
);
/// First words of options that take no secret: `--no-password`, `--show-token`.
static SWITCHES: Words = Words::new(
    "\
    ask delete disable edit enable export generate hide import list no print prompt require reset \
    show skip with without",
);
/// Words after the name of a secret that name something about it.
static PROPERTIES: Words = Words::new(
    "\
    address bus sock socket \
    age alg algorithm algorithms allowed arn array attempts backend board bits budget bytes changed \
    chars class code column command confirm cost count counts created days dict dir directory \
    disabled down enabled endpoint env error errors event exchange expiration expire expired expires \
    expiry field fields file files fingerprint format generator header host hours hint id ids index \
    input interval issuer kind label len length lifetime limit limits list location manager map \
    max method min minimum minutes mode model module name names needed number order owner pair pairs \
    parser path paths pattern per placeholder plugin policy position press prompt property \
    protected provider rate ref refresh region regex required requirement requirements reset resets ring rotation rule \
    rules scope seconds server service set size sizes source space status store strategy strength stdin \
    stream test threshold time timeout total ttl type types up updated uri url usage used valid \
    validator validity vault version word words",
);

/// How sure this name makes it that its value is secret.
pub(super) fn sureness(name: &str) -> Sureness {
    let words = words(name);
    let mut found = Sureness::No;
    for (place, word) in words.iter().enumerate() {
        let before = place.checked_sub(1).and_then(|place| words.get(place)).map(String::as_str);
        let of_word = of_word(word, before, name, words.len());
        if of_word != Sureness::No {
            found = of_word;
        } else if found != Sureness::No && PROPERTIES.contains(word) {
            // The half of Vault's AppRole that is secret.
            let is_secret_id =
                word == "id" && words.get(place - 1).is_some_and(|it| it == "secret");
            found = if is_secret_id { Sureness::ByValue } else { Sureness::No };
        }
    }
    found
}

/// How sure the name of an option, without its dashes, makes it that its argument is secret. Only its
/// last word counts: `--password-encryption` is not known to be one.
pub(super) fn sureness_of_option(name: &str) -> Sureness {
    let words = words(name);
    let Some((last, others)) = words.split_last() else { return Sureness::No };
    let before = others.last().map(String::as_str);
    if others.first().is_some_and(|first| SWITCHES.contains(first)) {
        return Sureness::No;
    }
    match last.as_str() {
        "tokens" | "secrets" | "passwords" | "keys" | "session" | "pw" => Sureness::No,
        "bearer" | "passin" | "passout" => Sureness::Yes,
        "jwt" | "otp" | "pin" if others.is_empty() => Sureness::ByValueOrCode,
        "key" if before.is_some_and(|before| OPTION_KEYS.contains(before)) => Sureness::Yes,
        "key" => match before {
            Some(before) if SECRET_KEYS.contains(before) => Sureness::ByValue,
            // `--sign-key` of gpg takes a fingerprint.
            Some(_) => Sureness::No,
            None => Sureness::IfRandom,
        },
        "auth" | "credential" | "credentials" | "signature" | "salt" => Sureness::IfRandom,
        last => of_word(last, before, name, words.len()),
    }
}

fn of_word(word: &str, before: Option<&str>, name: &str, count: usize) -> Sureness {
    let ends = |words: &[&str]| words.iter().any(|end| word.ends_with(end));
    // Helm charts name a Secret of the cluster so.
    // The digest of a .NET assembly's public key is `PublicKeyToken`.
    if OTHER.contains(word)
        || word == "secret" && before == Some("existing")
        || word == "token" && before == Some("key")
    {
        return Sureness::No;
    }
    if SECRETS.contains(&word) || ends(SECRETS) {
        return Sureness::Yes;
    }
    if ends(SHORT) {
        // `PWD` is the shell's own directory.
        let is_directory = word == "pwd" && count == 1 && name == "PWD";
        let is_run = word == "pass" && before.is_some_and(|before| RUNS.contains(before));
        return if is_directory || is_run { Sureness::No } else { Sureness::IfNotPlain };
    }
    match word {
        "key" | "keys" => match before {
            Some(before) if OPEN_KEYS.contains(before) => Sureness::No,
            Some(before) if SECRET_KEYS.contains(before) => Sureness::Yes,
            Some(_) => Sureness::ByValue,
            None if name.starts_with("KEY") => Sureness::Yes,
            None => Sureness::ByValue,
        },
        "psk" | "pw" | "adminpw" | "bindpw" | "rootpw" | "userpw" => Sureness::Yes,
        "auth" if name.eq_ignore_ascii_case("rediscli_auth") => Sureness::Yes,
        "auth" | "credential" | "credentials" | "creds" | "jwt" | "pepper" | "phpsessid"
        | "salt" | "session" | "sessionid" | "signature" => Sureness::ByValue,
        word => match word.strip_suffix("key").or(word.strip_suffix("keys")) {
            Some(before) if before.len() > 1 && SECRET_KEYS.contains(before) => Sureness::Yes,
            _ => Sureness::No,
        },
    }
}

/// A set of words, separated by blanks in a text. A name is looked up in most sets.
struct Words {
    text: &'static str,
    set: OnceLock<HashSet<&'static str>>,
}

impl Words {
    const fn new(text: &'static str) -> Words {
        Words { text, set: OnceLock::new() }
    }

    fn contains(&self, word: &str) -> bool {
        self.set.get_or_init(|| self.text.split(' ').collect()).contains(word)
    }
}

/// The words of a name in lower case: they end at signs, and where a capital follows a small letter
/// or precedes one.
fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut word = String::new();
    let characters: Vec<char> = name.chars().collect();
    for (place, &character) in characters.iter().enumerate() {
        let before = place.checked_sub(1).and_then(|place| characters.get(place));
        let after = characters.get(place + 1);
        let begins = character.is_uppercase()
            && (before.is_some_and(|it| it.is_lowercase() || it.is_ascii_digit())
                || after.is_some_and(|it| it.is_lowercase())
                    && before.is_some_and(|it| it.is_uppercase()));
        if begins || !character.is_alphanumeric() {
            words.extend((!word.is_empty()).then(|| std::mem::take(&mut word)));
        }
        if character.is_alphanumeric() {
            // As the rules fold it.
            word.extend(if character == '\u{17f}' { 's' } else { character }.to_lowercase());
        }
    }
    words.extend((!word.is_empty()).then_some(word));
    // `PASSWORD_2`, `token1`.
    words.retain(|word| !word.chars().all(|it| it.is_ascii_digit()));
    for word in &mut words {
        let kept = word.trim_end_matches(|it: char| it.is_ascii_digit()).len();
        word.truncate(kept);
    }
    words
}

/// Values that say something about a secret, or stand for one.
static STAND_INS: Words = Words::new(
    "\
    read write redacted hidden masked filtered sensitive (sensitive) \
    0 1 y n true false yes no on off none null nil undefined empty required optional string str &str \
    text bytes int integer number bool boolean object any varchar char login plain basic bearer \
    digest oauth oauth2 ntlm peer trust md5 scram-sha-256 enabled disabled changeme? ... value \
    invalid expired missing unknown default via %s %v",
);
/// Objects of programs whose members hold values.
static OBJECTS: Words = Words::new(
    "\
    args argv config context credentials ctx data env form local module options opts os params \
    process props req request secrets self settings state system this user var vars",
);

/// Whether a value is a placeholder, a reference or code, and not a secret.
pub(super) fn is_stand_in(value: &str) -> bool {
    let value = value.trim().trim_end_matches("\\n").trim_end_matches([',', ';']);
    if value == super::PLACEHOLDER {
        return true;
    }
    // `--token TOKEN`, as in a help text.
    if matches!(value, "TOKEN" | "PASSWORD" | "SECRET" | "KEY" | "PASS" | "API_KEY") {
        return true;
    }
    let lower = value.to_ascii_lowercase();
    let bare = lower.trim_end_matches(['?', '!', '>', ']']).trim_start_matches(['[', '<']);
    if bare.is_empty() || STAND_INS.contains(&lower) || STAND_INS.contains(bare) {
        return true;
    }
    // Where a password is to be taken from, in the words of openssl.
    if ["env:", "file:", "fd:"].iter().any(|from| lower.starts_with(from)) || lower == "stdin" {
        return true;
    }
    let is_masked = |mask: char| value.len() >= 3 && value.chars().all(|it| it == mask);
    if is_masked('*') || is_masked('x') || is_masked('X') || is_masked('•') || is_masked('.') {
        return true;
    }
    let is_identifier = |name: &str| {
        name.starts_with(|it: char| it.is_ascii_alphabetic() || it == '_')
            && name.chars().all(|it| it.is_ascii_alphanumeric() || it == '_')
    };
    // `$NAME`, `${NAME}`, `${NAME:?why}`, `%NAME%`, `{{ name }}`, `<name>`, `{name}`.
    let within = |open: &str, close: &str| {
        value.strip_prefix(open).and_then(|rest| rest.strip_suffix(close))
    };
    let names_variable = |name: &str| {
        is_identifier(name.split(":?").next().unwrap_or(name).trim_end_matches([':', '-']))
    };
    value.strip_prefix('$').is_some_and(|name| {
        is_identifier(name) || name.len() == 1 && name.starts_with(|it: char| it.is_ascii_digit())
    }) || within("${{", "}}").is_some()
        || within("{{", "}}").is_some()
        || within("${", "}").is_some_and(names_variable)
        || value.strip_prefix("${").is_some_and(is_identifier)
        || within("%", "%").is_some_and(is_identifier)
        || within("<", ">").is_some()
        || within("(", ")").is_some()
        || within("{", "}").is_some_and(|name| is_identifier(name) || name.contains([':', '"']))
        || within("$(", ")")
            .is_some_and(|command| !command.contains("echo") && !command.contains("printf"))
        || !value.contains(char::is_alphanumeric)
        || value.contains("****")
        || value.starts_with("${") && value.contains(":?")
        || value.starts_with('{') && value.contains(':')
        || value.contains("xxxxxxxx")
        || value.starts_with('`')
        || lower.starts_with("your")
            && lower.chars().all(|it| it.is_ascii_alphanumeric() || "-_. ".contains(it))
        || lower.starts_with("password ")
        || is_version_range(value)
        || lower.contains("placeholder")
        || lower.ends_with(" bytes")
        || is_key_file(&lower)
        || names_place(&lower)
        || is_expression(value.strip_prefix("await ").unwrap_or(value), is_identifier)
        || value.split([';', '|', ',', ')']).next().is_some_and(|first| {
            let first = first.split(" =").next().unwrap_or(first).trim();
            first.len() < value.len()
                && (STAND_INS.contains(first) || is_expression(first, is_identifier))
        })
}

/// Whether a value is a range of versions, as behind `"jsonwebtoken":`.
fn is_version_range(value: &str) -> bool {
    value.strip_prefix(['^', '~']).is_some_and(|version| {
        version.chars().all(|it| it.is_ascii_digit() || it == '.') && version.contains('.')
    })
}

/// Whether a value without quotes is only a name, as of a variable in `self.password = password`.
pub(super) fn is_bare_name(value: &str) -> bool {
    static NAMES: Words = Words::new("password passwd passphrase token secret pwd key api_key");
    NAMES.contains(&value.to_ascii_lowercase())
}

/// Whether a value says where a secret is: a file, or a reference to a store.
fn names_place(lower: &str) -> bool {
    const PLACES: &str = "./ ../ ~/ /run/ /etc/ /var/ /home/ /root/ /usr/ /opt/ /tmp/ /mnt/ /secrets/ op:// \
        vault:// vault: arn: ssm: awssm: keyring: secretref: ref+ projects/";
    PLACES.split(' ').any(|place| lower.starts_with(place))
}

/// Whether a value is the name of a file of keys or certificates.
fn is_key_file(lower: &str) -> bool {
    const ENDS: &str = "pem key crt cer der p8 p12 pfx jks pub asc gpg ppk";
    let end = lower.rsplit_once('.').map(|(_, end)| end);
    end.is_some_and(|end| ENDS.split(' ').any(|it| it == end))
}

/// Whether a value is a path of plain words: `/srv/app`.
fn is_directory(value: &str) -> bool {
    value.starts_with(['/', '.', '~'])
        && value.bytes().all(|it| it.is_ascii_lowercase() || b"/._-~".contains(&it))
}

/// Whether a value is a call, a member or a type of a program: `os.environ["X"]`, `getpass()`,
/// `Option<String>`.
fn is_expression(value: &str, is_identifier: impl Fn(&str) -> bool) -> bool {
    let head = value.split(['(', '[', '<']).next().unwrap_or_default();
    let mut parts = head.split(['.', ':']).filter(|part| !part.is_empty());
    let Some(first) = parts.next() else { return false };
    let is_call = head.len() < value.len() && value.ends_with([')', ']', '>']);
    let names_all = is_identifier(first) && parts.clone().all(&is_identifier);
    let is_member = parts.next().is_some()
        && (OBJECTS.contains(&first.to_ascii_lowercase())
            || !value.contains(|it: char| it.is_ascii_digit()) && value.contains('_'));
    names_all && (is_call || is_member)
}

/// The least length of a value that looks made by a machine, in bytes.
const MIN_MADE: usize = 12;

/// Whether a value looks made by a machine: long, without blanks, of digits and letters.
pub(super) fn looks_made(value: &str) -> bool {
    let is_of_alphabet = |it: u8| it.is_ascii_alphanumeric() || b"+/=_-.~%:".contains(&it);
    let has = |kind: fn(&u8) -> bool| value.as_bytes().iter().any(kind);
    value.len() >= MIN_MADE
        && value.bytes().all(is_of_alphabet)
        && has(u8::is_ascii_digit)
        && has(u8::is_ascii_alphabetic)
        && !value.contains("://")
        && !value.starts_with(['/', '.', '~'])
}

/// The least length of a part of a value that looks drawn at random, in bytes.
const MIN_RANDOM: usize = 12;

/// Whether a part of a value has no pattern: letters and digits alternate, as in no identifier, no
/// version and no path of words.
pub(super) fn looks_random(value: &str) -> bool {
    let kind = |byte: u8| match byte {
        b'0'..=b'9' => 0,
        b'a'..=b'z' => 1,
        _ => 2,
    };
    let is_random = |part: &str| {
        let bytes = part.as_bytes();
        let pairs = || bytes.windows(2).filter_map(<[u8]>::first_chunk);
        let digits = bytes.iter().filter(|byte| byte.is_ascii_digit()).count();
        let changes = pairs().filter(|[one, next]| kind(*one) != kind(*next)).count();
        let runs = pairs().filter(|[one, next]| kind(*one) == 0 && kind(*next) != 0).count();
        let has = |kind: fn(&u8) -> bool| bytes.iter().any(kind);
        let is_mixed = has(u8::is_ascii_lowercase) && has(u8::is_ascii_uppercase);
        bytes.len() >= MIN_RANDOM
            && !part.starts_with("0x")
            && digits < bytes.len()
            && (runs >= 3 || digits > 0 && is_mixed && changes * 5 >= bytes.len() * 2)
    };
    value.split(|it: char| !it.is_ascii_alphanumeric()).any(is_random)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_by_their_words() {
        for name in [
            "apiKey",
            "API_KEY",
            "secretkey",
            "spring.mail.password",
            "clientSecret",
            "AWSSecretAccessKey",
            "accessToken",
            "my_passwd_2",
            "SECRET_KEY_BASE",
            "PASSWORD_HASH",
            "X-Api-Key",
            "wpa_psk",
            "userPassword1",
        ] {
            assert_eq!(sureness(name), Sureness::Yes, "{name}");
        }
        for name in ["DB_PASS", "SMTP_PASS", "DB_PWD", "SSHPASS", "pass", "MYSQL_PWD"] {
            assert_eq!(sureness(name), Sureness::IfNotPlain, "{name}");
        }
        for name in [
            "AUTH",
            "_auth",
            "SMTP_AUTH",
            "key",
            "sentry_key",
            "GOOGLE_CREDENTIALS",
            "creds",
            "jwt",
            "sessionid",
        ] {
            assert_eq!(sureness(name), Sureness::ByValue, "{name}");
        }
        for name in [
            "keyword",
            "turkey",
            "MONKEYPATCH",
            "HostKeyAlgorithms",
            "KEYBOARD",
            "public_key",
            "PWD",
            "OLDPWD",
            "bypass",
            "token_url",
            "password_file",
            "primaryKey",
            "passed",
            "author",
            "PASSWORD_MIN_LENGTH",
            "secret_name",
            "tokenizer",
            "access_key_id",
            "authority",
            "monkey",
            "first_pass",
        ] {
            assert_eq!(sureness(name), Sureness::No, "{name}");
        }
    }

    #[test]
    fn options_are_read_by_their_last_word() {
        for (name, sure) in [
            ("accessToken", Sureness::Yes),
            ("secretKey", Sureness::Yes),
            ("private-key", Sureness::Yes),
            ("oauth2-bearer", Sureness::Yes),
            ("requirepass", Sureness::IfNotPlain),
            ("pwd", Sureness::IfNotPlain),
            ("signing-key", Sureness::ByValue),
            ("otp", Sureness::ByValueOrCode),
            ("pin", Sureness::ByValueOrCode),
            ("key", Sureness::IfRandom),
            ("auth", Sureness::IfRandom),
            ("sign-key", Sureness::No),
            ("export-secret-key", Sureness::No),
            ("xkey", Sureness::No),
            ("no-password", Sureness::No),
            ("password-file", Sureness::No),
            ("token-exchange", Sureness::No),
            ("max-tokens", Sureness::No),
            ("bypass", Sureness::No),
            ("gpio-pin", Sureness::No),
        ] {
            assert_eq!(sureness_of_option(name), sure, "{name}");
        }
    }

    #[test]
    fn a_name_covers_the_values_that_it_makes_secret() {
        for (sure, value, is_secret) in [
            (Sureness::IfNotPlain, "hunter2", true),
            (Sureness::IfNotPlain, "12345", true),
            (Sureness::IfNotPlain, "2", false),
            (Sureness::IfNotPlain, "/srv/app", false),
            (Sureness::IfNotPlain, "/Xk2", true),
            (Sureness::ByValueOrCode, "4711", true),
            (Sureness::ByValueOrCode, "13", false),
            (Sureness::ByValueOrCode, "3.12", false),
            (Sureness::ByValue, "build-2026-01-01", true),
            (Sureness::IfRandom, "build-2026-01-01", false),
            (Sureness::Yes, "", true),
            (Sureness::No, "a1b2c3d4e5f6", false),
        ] {
            assert_eq!(sure.covers(value), is_secret, "{sure:?} of {value}");
        }
    }

    #[test]
    fn values_without_a_pattern_look_random() {
        for value in
            ["encoy0L7XoMF54kUoL45", "f6be6abf0d7c1c1e2186", "x-3tFyDgs9Pqlk2", "k3j9x0a8s7d6f5g4"]
        {
            assert!(looks_random(value), "{value}");
        }
        for value in [
            "",
            "identifier",
            "CamelCaseIdentifier2",
            "sh.helm.release.v1.app.v12",
            "default-token-x7k2p",
            "node-modules-linux-2026",
            "123456789012",
            "aes256gcm",
            "0x1F600A2B3C4D",
            "größe1größe2größe3",
        ] {
            assert!(!looks_random(value), "{value}");
        }
    }

    #[test]
    fn values_that_stand_for_a_secret_are_none() {
        for value in [
            "$PW",
            "$1",
            "%s\\n",
            "${DB_PASS}",
            "${DB_PASS:-}",
            "${{ secrets.TOKEN }}",
            "{{ vault_password }}",
            "true",
            "process.env.API_KEY",
            "os.environ[\"KEY\"]",
            "getpass.getpass()",
            "<your token>",
            "string",
            "********",
            "%PASSWORD%",
            "self.password",
            "Token::new()",
            "string;",
            "null,",
            "certs/client.key",
        ] {
            assert!(is_stand_in(value), "{value}");
        }
        for value in
            ["hunter2", "abc", "$ecr3t!", "p4ss.word", "{\"a\"", "a(b", "user@host", "12345"]
        {
            assert!(!is_stand_in(value), "{value}");
        }
    }
}
