//! Command lines: what they are, what they ask for, and what of them may be remembered.

use zsh_tool::testing::alan::fingerprint::of_failure;
use zsh_tool::testing::shell::command_line::CommandLine;
use zsh_tool::testing::shell::lexer::lex;
use zsh_tool::testing::shell::lint::lints;
use zsh_tool::testing::shell::normalise::{hash, normalise};
use zsh_tool::testing::shell::ssh::ssh_of_segment;
use zsh_tool::testing::shell::syntax::last_pipeline_segments;
use zsh_tool::testing::shell::template::{template, with_subcommands};
use zsh_tool::testing::text::keys;
use zsh_tool::testing::text::redact::Redactor;

/// Checks what this input leads to.
pub fn check(data: &[u8]) {
    let command = &*String::from_utf8_lossy(data);
    let redactor = Redactor::new(["hunter22".to_owned()]);
    let redacted = redactor.redact(command).into_owned();
    assert!(!redacted.contains("hunter22"));
    assert_eq!(redactor.redact(&redacted), redacted);
    let normal = normalise(&CommandLine::parse(command));
    assert_eq!(normalise(&CommandLine::parse(&normal)), normal);
    assert_eq!(hash(&CommandLine::parse(&normal)), hash(&CommandLine::parse(command)));
    let _ = (
        template(&CommandLine::parse(command)),
        template(&CommandLine::parse(&redacted)),
        lex(command),
    );
    let _ = with_subcommands(&CommandLine::parse(command));
    // A failure's output comes from anywhere as well.
    let _ = of_failure(command, 1, &redactor);
    for has_terminal in [false, true] {
        for lint in lints(&CommandLine::parse(command), has_terminal) {
            assert!(!lint.to_string().is_empty());
        }
    }
    for segment in last_pipeline_segments(&CommandLine::parse(command)) {
        let _ = ssh_of_segment(&segment);
    }
    let _ = keys::Key::parse(command);
}
