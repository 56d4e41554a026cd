//! The syntax of git's configuration files, as far as it is needed to find what they name. Pure.

/// A variable with its section, both in lower case.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Variable {
    pub(crate) section: String,
    pub(crate) name: String,
    pub(crate) value: String,
}

/// All variables of a file that have a value, of whatever subsection.
pub(crate) fn variables(text: &str) -> Vec<Variable> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut section = String::new();
    let mut found = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let mut rest = line.trim_start();
        while let Some((name, after)) = header(rest) {
            section = name.to_ascii_lowercase();
            rest = after.trim_start();
        }
        if rest.starts_with(['#', ';']) {
            continue;
        }
        let Some((name, first)) = rest.split_once('=') else { continue };
        let value = value(first, &mut lines);
        if !value.is_empty() {
            let name = name.trim_end().to_ascii_lowercase();
            found.push(Variable { section: section.clone(), name, value });
        }
    }
    found
}

/// The section that a line opens, without its subsection, and what follows in the line.
fn header(line: &str) -> Option<(&str, &str)> {
    let inside = line.strip_prefix('[')?;
    let (mut is_quoted, mut is_escaped) = (false, false);
    let (end, _) = inside.char_indices().find(|&(_, c)| {
        let is_plain = !std::mem::take(&mut is_escaped);
        match c {
            '\\' => is_escaped = is_plain,
            '"' if is_plain => is_quoted = !is_quoted,
            _ => {}
        }
        c == ']' && !is_quoted
    })?;
    let (name, rest) = (inside.get(..end)?, inside.get(end + 1..)?);
    Some((name.split([' ', '\t', '"']).find(|part| !part.is_empty())?, rest))
}

/// The value that begins after `=`: unquoted, without its comment, and with continued lines joined.
fn value<'a>(first: &'a str, lines: &mut impl Iterator<Item = &'a str>) -> String {
    let (mut is_quoted, mut text) = (false, String::new());
    let mut all = first.trim_start().chars();
    while let Some(c) = all.next() {
        match c {
            '\\' => match all.next() {
                Some(c) => text.push(c),
                None => all = lines.next().unwrap_or_default().chars(),
            },
            '"' => is_quoted = !is_quoted,
            '#' | ';' if !is_quoted => break,
            c => text.push(c),
        }
    }
    text.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_read_however_it_is_written() {
        for (text, values) in [
            ("[core]\n\thooksPath = hooks\n", &["core.hookspath=hooks"][..]),
            ("[core] HooksPath=b # why\n", &["core.hookspath=b"]),
            ("[core]\n a = ./\"a b\" ; why\n", &["core.a=./a b"]),
            ("[core]\n a = \"a#b\"\n[other]\n a = c\n", &["core.a=a#b", "other.a=c"]),
            ("[core]\n a = one\\\ntwo\n b = c\\\\\n", &["core.a=onetwo", "core.b=c\\"]),
            ("[core]\n# a = b \\\n a = c\n", &["core.a=c"]),
            ("[core]\n a = b # why \\\n b = c\n", &["core.a=b", "core.b=c"]),
            ("\u{feff}[a] [core] a = b\r\n", &["core.a=b"]),
            ("[core]\n a\n a =\n", &[]),
            ("[includeIf \"gitdir:~/[ab]/\\\"]\"] path = x\n", &["includeif.path=x"]),
            ("[core\n a = b\n", &[".a=b"]),
            ("[]\n[\"\"]\n=\n\\", &[]),
        ] {
            let found = variables(text);
            let found: Vec<String> =
                found.iter().map(|it| format!("{}.{}={}", it.section, it.name, it.value)).collect();
            assert_eq!(found, values, "{text}");
        }
    }
}
