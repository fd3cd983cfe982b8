//! The small languages inside arguments: sed and awk programs, filters of jq and yq.
//!
//! sed is parsed, and only a subset that can neither write, read other files nor run anything is accepted. The others
//! are searched for what reaches outside; a harmless program may be refused, a harmful one may not pass.

use super::operands::written;
use super::options::{Inspection, Line};
use super::words::Word;

/// Reads a whole sed command line.
pub(super) fn sed(line: Line<'_>, found: &mut Inspection) {
    let mut scripts: Vec<(usize, String)> = Vec::new();
    let mut operands: Vec<usize> = Vec::new();
    let mut in_place = false;
    let mut ended = false;
    let mut at = 1;
    while let Some(word) = line.words.get(at) {
        let text = word.text.as_str();
        if ended || !text.starts_with('-') || text == "-" {
            operands.push(at);
        } else if text == "--" {
            ended = true;
        } else if let Some(long) = text.strip_prefix("--") {
            match long.split_once('=').unwrap_or((long, "")) {
                ("expression", _) if long.contains('=') => {
                    scripts.push((at, long["expression=".len()..].to_owned()));
                }
                ("expression", _) => {
                    at += 1;
                    scripts.extend(line.words.get(at).map(|word| (at, word.text.clone())));
                }
                ("in-place", "") => in_place = true,
                (
                    "quiet" | "silent" | "regexp-extended" | "separate" | "null-data"
                    | "unbuffered" | "posix" | "sandbox" | "debug" | "version" | "help",
                    _,
                ) => {}
                _ if at < line.named => {}
                (name, _) => found.refuse(format!("the option `--{name}` of `sed`")),
            }
        } else {
            for (index, letter) in text.char_indices().skip(1) {
                let rest = &text[index + letter.len_utf8()..];
                match letter {
                    'n' | 'E' | 'r' | 's' | 'u' | 'z' => continue,
                    'e' if rest.is_empty() => {
                        at += 1;
                        scripts.extend(line.words.get(at).map(|word| (at, word.text.clone())));
                    }
                    'e' => scripts.push((at, rest.to_owned())),
                    'i' if rest.is_empty() => in_place = true,
                    _ if at < line.named => {}
                    other => found.refuse(format!(
                        "the option `-{other}` of `sed`, or a suffix behind `-i`"
                    )),
                }
                break;
            }
        }
        at += 1;
    }
    // One family of sed takes the word behind `-i` as a suffix, and an empty one is a usual way to say none. The other
    // reads it as an empty script and the next word as a file, which then keeps what it holds.
    let is_empty = |index: &usize| line.words[*index].literal() == Some("");
    if in_place && scripts.is_empty() && operands.first().is_some_and(is_empty) {
        operands.remove(0);
    }
    if scripts.is_empty() && !operands.is_empty() {
        let script = operands.remove(0);
        if line.words[script].literal().is_none() {
            found.refuse("a `sed` script that is not literal");
        }
        scripts.push((script, line.words[script].text.clone()));
    }
    for (index, script) in scripts {
        if index >= line.named && !is_harmless_sed(&script) {
            found.refuse("a `sed` script outside the accepted subset (addresses; p d q = n N h H g G x D P; s with flags g p I and digits)");
        }
    }
    if in_place && !line.names("-i") && !line.names("--in-place") {
        let files = operands.into_iter().filter(|index| *index >= line.named);
        written(files.map(|index| line.words[index].clone()), found);
    }
}

/// Whether a sed script only prints, deletes and substitutes.
fn is_harmless_sed(script: &str) -> bool {
    let mut rest: &[char] = &script.chars().collect::<Vec<char>>();
    loop {
        rest = skip(rest, |c| matches!(c, ' ' | '\t' | '\n' | ';'));
        if rest.is_empty() {
            return true;
        }
        let Some(command) = sed_addresses(rest) else {
            return false;
        };
        let Some((letter, after)) = command.split_first() else {
            return false;
        };
        let after = match letter {
            'p' | 'd' | '=' | 'n' | 'N' | 'h' | 'H' | 'g' | 'G' | 'x' | 'D' | 'P' => Some(after),
            'q' => Some(skip(skip(after, |c| c == ' '), |c| c.is_ascii_digit())),
            's' => sed_substitution(after),
            _ => None,
        };
        let Some(after) = after else {
            return false;
        };
        rest = skip(after, |c| matches!(c, ' ' | '\t'));
        if !matches!(rest.first(), None | Some(';' | '\n')) {
            return false;
        }
    }
}

fn skip(chars: &[char], which: impl Fn(char) -> bool) -> &[char] {
    let end = chars.iter().position(|c| !which(*c)).unwrap_or(chars.len());
    &chars[end..]
}

/// Goes behind up to two addresses and a `!`.
fn sed_addresses(chars: &[char]) -> Option<&[char]> {
    let mut rest = sed_address(chars)?;
    if rest.len() < chars.len() {
        let comma = skip(rest, |c| c == ' ');
        if comma.first() == Some(&',') {
            let second = skip(&comma[1..], |c| c == ' ');
            let relative = skip(second, |c| matches!(c, '+' | '~'));
            rest = sed_address(relative)?;
            if rest.len() == relative.len() {
                return None;
            }
        }
    }
    Some(skip(rest, |c| matches!(c, ' ' | '\t' | '!')))
}

/// Goes behind one address; returns its argument if there is none, `None` if it is broken.
fn sed_address(chars: &[char]) -> Option<&[char]> {
    match chars.first() {
        Some('$') => Some(&chars[1..]),
        Some('/') => {
            let rest = regex(&chars[1..], '/')?;
            Some(skip(rest, |c| matches!(c, 'I' | 'M')))
        }
        Some(c) if c.is_ascii_digit() => {
            let rest = skip(chars, |c| c.is_ascii_digit());
            match rest.first() {
                Some('~') => Some(skip(&rest[1..], |c| c.is_ascii_digit())),
                _ => Some(rest),
            }
        }
        _ => Some(chars),
    }
}

/// Goes behind the next delimiter that no backslash escapes.
fn delimited(chars: &[char], delimiter: char) -> Option<&[char]> {
    let mut at = 0;
    while let Some(&c) = chars.get(at) {
        match c {
            '\\' => at += 2,
            c if c == delimiter => return Some(&chars[at + 1..]),
            '\n' => return None,
            _ => at += 1,
        }
    }
    None
}

/// As [`delimited`] for a regular expression. Versions of sed differ in whether a delimiter inside `[..]` ends it, so
/// such an expression is refused.
fn regex(chars: &[char], delimiter: char) -> Option<&[char]> {
    let rest = delimited(chars, delimiter)?;
    let mut text = chars[..chars.len() - rest.len() - 1].iter().copied();
    while let Some(c) = text.next() {
        match c {
            '\\' => drop(text.next()),
            '[' => {
                let mut first = true;
                loop {
                    match text.next()? {
                        ']' if !first => break,
                        '^' if first => continue,
                        '\\' => drop(text.next().filter(char::is_ascii_alphanumeric)?),
                        _ => {}
                    }
                    first = false;
                }
            }
            _ => {}
        }
    }
    Some(rest)
}

fn sed_substitution(chars: &[char]) -> Option<&[char]> {
    let (&delimiter, rest) = chars.split_first()?;
    if matches!(delimiter, '\\' | '\n' | ' ' | ';' | '[' | ']') || !delimiter.is_ascii_punctuation()
    {
        return None;
    }
    let rest = delimited(regex(rest, delimiter)?, delimiter)?;
    Some(skip(rest, |c| {
        matches!(c, 'g' | 'p' | 'I') || c.is_ascii_digit()
    }))
}

/// Reads a whole awk command line.
pub(super) fn awk(line: Line<'_>, found: &mut Inspection) {
    let mut program = None;
    let mut at = 1;
    while let Some(word) = line.words.get(at) {
        let text = word.text.as_str();
        match text {
            "-F" | "-v" | "--field-separator" | "--assign" => at += 1,
            "--" => {
                program = Some(at + 1);
                break;
            }
            _ if !text.starts_with('-') || text == "-" => {
                program = Some(at);
                break;
            }
            _ if at < line.named => {}
            _ if text.starts_with("-F") || text.starts_with("-v") => {}
            _ if text.starts_with("--field-separator=") || text.starts_with("--assign=") => {}
            "--posix" | "--traditional" | "--re-interval" | "--csv" => {}
            other => found.refuse(format!("the option `{other}` of `awk`")),
        }
        at += 1;
    }
    // gawk reads options behind the program too.
    let behind = program.map_or(line.words.len(), |index| index + 1);
    if let Some(word) = line
        .words
        .iter()
        .skip(behind.max(line.named))
        .find(|word| word.text.starts_with('-') && word.text.len() > 1)
    {
        found.refuse(format!(
            "the option `{}` behind the program of `awk`",
            word.text
        ));
    }
    let Some(index) = program.filter(|index| *index >= line.named) else {
        return;
    };
    let Some(text) = line.words.get(index).and_then(Word::literal) else {
        return found.refuse("an `awk` program that is not literal");
    };
    if let Some(what) = harmful_awk(text) {
        found.refuse(format!("{what} in an `awk` program"));
    }
}

fn harmful_awk(program: &str) -> Option<&'static str> {
    if ["system", "getline", "ENVIRON"]
        .iter()
        .any(|name| program.contains(name))
    {
        return Some("`system`, `getline` or `ENVIRON`");
    }
    if program.contains('@') {
        return Some("`@`");
    }
    if program.replace("||", "").contains('|') {
        return Some("a pipe");
    }
    // Only what is printed goes into a file, and the word for it stands before the `>`.
    let program = program.replace(">=", "");
    let (before, _) = program.rsplit_once('>')?;
    (before.contains("print") || program.contains("\\\n"))
        .then_some("`>` behind a `print` (write `<` or `>=` for a comparison)")
}

/// Searches a filter of jq.
pub(super) fn jq(filter: &str, found: &mut Inspection) {
    // Between `$` and a name some versions let blanks stand.
    if has_token(filter, "ENV") && filter.contains('$')
        || has_token(&filter.replace("$env", "$_env"), "env")
    {
        found.refuse("the environment in a `jq` filter");
    }
    if has_token(filter, "import") || has_token(filter, "include") {
        found.refuse("a module in a `jq` filter");
    }
}

/// Searches an expression of yq. Its lexer knows several spellings of one operator (`load_str`, `strload`), and `eval`
/// takes text that nobody sees here.
pub(super) fn yq(expression: &str, found: &mut Inspection) {
    const LOADED: [&str; 10] = [
        "", "str", "string", "xml", "props", "base64", "yaml", "json", "csv", "toml",
    ];
    let lower = expression.to_lowercase();
    let mut rest = lower.as_str();
    while let Some(start) = rest.find(is_word) {
        let (before, from) = rest.split_at(start);
        let end = from.find(|c| !is_word(c)).unwrap_or(from.len());
        let (name, after) = from.split_at(end);
        let plain = name.replace('_', "");
        let loads = || {
            let kind = plain.strip_prefix("load").or(plain.strip_suffix("load"));
            kind.is_some_and(|kind| LOADED.contains(&kind))
        };
        let reaches = match plain.as_str() {
            "env" | "strenv" | "envsubst" | "system" | "import" | "include" => true,
            "eval" => after.trim_start().starts_with('('),
            _ => loads(),
        };
        let is_field = before.ends_with('.') && !before.ends_with("..");
        if reaches && !is_field {
            return found.refuse("the environment, a file or a program in a `yq` expression");
        }
        rest = after;
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Whether a name stands in a text as a word of its own and not as a field (`.name`).
fn has_token(text: &str, name: &str) -> bool {
    let word = is_word;
    text.match_indices(name).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + name.len()..].chars().next();
        !before.is_some_and(|c| word(c) || c == '.') && !after.is_some_and(word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sed_scripts_that_only_print_delete_and_substitute_pass() {
        for script in [
            "p",
            "1,20p",
            "$d",
            "/^$/d",
            "/a/,/b/p",
            "s/a/b/",
            "s|/a|/b|g2p",
            "1!G;h;$!d",
            "s/a/b/; s/c\\/d/e/I",
            "0~3d",
            "/a/,+2d",
            "10q",
            "q 3",
            "",
            "s/[a-z]*$//",
            "/^[^#]/p",
            "s/[]x]/y/",
        ] {
            assert!(is_harmless_sed(script), "{script}");
        }
    }

    #[test]
    fn sed_scripts_that_reach_out_do_not() {
        for script in [
            "w x",
            "1e id",
            "e",
            "r /x",
            "R x",
            "W x",
            "s/a/b/w x",
            "s/a/b/e",
            "s/a/b/ge",
            "p;w x",
            "/a/w x",
            "$!e id",
            "{p;w x\n}",
            "a\\\nx",
            "s/a/b",
            "y/a/b/",
            "\\,a,w x",
            "/a/Iw x",
            "1,w x",
            "p w",
            "s/[/]/;s/w f/x/",
            "/[/]/;s/w f/x/",
            "s/[\\]/]/;s/w f/x/",
            "s[a[b[",
        ] {
            assert!(!is_harmless_sed(script), "{script}");
        }
    }

    #[test]
    fn operators_of_yq_are_known_in_all_their_spellings() {
        let refused = |expression: &str| {
            let mut found = Inspection::default();
            yq(expression, &mut found);
            found.refused.is_some()
        };
        for expression in [
            "env(X)",
            "strenv(X)",
            "load(\"x\")",
            "str_load(\"x\")",
            "LoadStr(\"x\")",
            "load_base64(\"x\")",
            "eval (.a)",
            ".. env",
            "..env(X)",
            "system(\"id\")",
            "$ENV.X",
        ] {
            assert!(refused(expression), "{expression}");
        }
        for expression in [
            ".env",
            ".a.env[0]",
            ".download",
            "eval",
            ".eval",
            ".payload",
            ".",
        ] {
            assert!(!refused(expression), "{expression}");
        }
    }

    #[test]
    fn a_field_is_no_builtin() {
        let refused = |filter: &str| {
            let mut found = Inspection::default();
            jq(filter, &mut found);
            found.refused.is_some()
        };
        assert!(!refused(".env"));
        assert!(!refused(".environment"));
        assert!(refused("env.X"));
        assert!(refused("[env]"));
        assert!(refused("$ENV.X"));
    }
}
