//! What the table says beside options: operands that are written, small languages, addresses, keys and definitions.

use super::super::url;
use super::guarded::{Extra, Guard};
use super::options::{Inspection, Line, abbreviates, read_bundle};
use super::scripts;
use super::words::Word;

/// Options of `jq` that take no value and reach nothing.
const JQ_FLAGS: [&str; 19] = [
    "--args",
    "--jsonargs",
    "--tab",
    "--seq",
    "--stream",
    "--stream-errors",
    "--null-input",
    "--compact-output",
    "--raw-output",
    "--raw-output0",
    "--slurp",
    "--raw-input",
    "--exit-status",
    "--sort-keys",
    "--join-output",
    "--ascii-output",
    "--color-output",
    "--monochrome-output",
    "--unbuffered",
];

/// Looks at the operands as the row says.
pub(super) fn read_operands(
    guard: &Guard,
    line: Line<'_>,
    operands: &[usize],
    found: &mut Inspection,
) {
    let open = operands
        .iter()
        .filter(|index| **index >= line.named)
        .map(|index| &line.words[*index]);
    match guard.extra {
        Extra::NoOperandWith(part) => {
            if open.clone().any(|word| word.text.contains(part)) {
                found.refuse(format!("an argument with `{part}`"));
            }
        }
        Extra::Web => {
            // The value of `--url=` is none of the operands.
            let values = line.words.iter().skip(line.named);
            let attached = values
                .clone()
                .filter_map(|word| word.text.strip_prefix("--url="));
            let mut addresses = open.clone().map(|word| word.text.as_str()).chain(attached);
            let names_one = (1..line.named).any(|index| operands.contains(&index));
            let further = addresses.clone().find(|address| may_be_address(address));
            if let Some(address) = further.filter(|_| names_one) {
                found.refuse(format!("`{address}`, which may be one more address"));
            }
            if let Some(address) = addresses.find(|address| !is_web(address)) {
                found.refuse(format!("`{address}`, which may be no web address"));
            }
            let mut words =
                values.map(|word| word.text.strip_prefix("--url=").unwrap_or(&word.text));
            if let Some(word) = words.find(|text| url::names_metadata(text)) {
                found.refuse(format!(
                    "`{word}`, which may be an address that hands out credentials of the machine"
                ));
            }
        }
        Extra::NoOperandFrom(start) => {
            if open.clone().any(|word| word.text.starts_with(start)) {
                found.refuse(format!("an argument that begins with `{start}`"));
            }
        }
        Extra::NoWord(words) => {
            let all = line.words.iter().skip(line.named);
            if let Some(word) = all.clone().find(|word| words.contains(&word.text.as_str())) {
                found.refuse(format!("`{}`, which evaluates its operand", word.text));
            }
        }
        Extra::NoVariables => {
            if open
                .clone()
                .any(|word| word.text.contains('=') || word.glob)
            {
                found.refuse("a variable `NAME=value` on the command line of `make`");
            }
        }
        Extra::OperandsWritten => written(open.cloned(), found),
        Extra::OperandsInside => found
            .inside
            .extend(open.filter(|word| may_lead_out(word)).cloned()),
        Extra::SecondOperandWritten => second_written(line, operands, found),
        Extra::BareBundle => {
            let first = line
                .words
                .get(1)
                .filter(|word| line.named < 2 && !word.text.starts_with('-'));
            if let Some(word) = first {
                read_bundle(guard, line, &word.text, None, found);
                // Their values stand behind the bundle, in its order: nobody reads that twice the same way.
                let letters = guard.inside.iter().chain(guard.writes);
                let mut letters = letters.filter_map(|option| option.strip_prefix('-'));
                if letters.any(|letter| letter.len() == 1 && word.text.contains(letter)) {
                    found.refuse(format!("options without a dash (`{}`)", word.text));
                }
            }
            archive(line, open.clone(), found);
        }
        Extra::Archive => archive(line, open.clone(), found),
        Extra::Definitions => definitions(line, found),
        Extra::InPlace(options) => {
            let edits = line
                .words
                .iter()
                .skip(1)
                .any(|word| options.iter().any(|option| is_option(&word.text, option)));
            if edits && !options.iter().any(|option| line.names(option)) {
                written(open.cloned(), found);
            }
        }
        Extra::Jq => jq(line, operands, found),
        Extra::Yq => yq(line, operands, found),
        Extra::GitConfig
        | Extra::WholeInterpreter
        | Extra::Nothing
        | Extra::ExactOnly
        | Extra::Xxd
        | Extra::Subcommands(_)
        | Extra::Interpreter
        | Extra::Sed
        | Extra::Awk => {}
    }
}

/// Whether a word is an option, alone, with a value behind `=`, or in a bundle of letters.
fn is_option(text: &str, option: &str) -> bool {
    let named = text.split('=').next().unwrap_or(text) == option;
    let letter = option.strip_prefix('-').filter(|rest| rest.len() == 1);
    let bundled = letter.is_some_and(|letter| {
        text.strip_prefix('-').is_some_and(|bundle| {
            bundle.bytes().all(|b| b.is_ascii_alphabetic()) && bundle.contains(letter)
        })
    });
    named || bundled
}

/// An archiver asks another host for `host:file`, whatever the option is that names the file.
fn archive<'w>(
    line: Line<'w>,
    mut operands: impl Iterator<Item = &'w Word>,
    found: &mut Inspection,
) {
    let mut options = line.words.iter().skip(line.named).filter(|word| {
        let text = word.text.as_str();
        let long = text
            .split_once('=')
            .is_some_and(|(name, _)| name.len() > 2 && abbreviates(name, "--file"));
        long || !text.starts_with("--")
            && text.starts_with('-')
            && text.contains(['f', 'F', 'I', 'O'])
    });
    if operands.any(|word| word.text.contains(':')) || options.any(|word| word.text.contains(':')) {
        found.refuse("an archive on another host (`host:file`)");
    }
}

/// `-DNAME=VALUE` of build generators: a switch, a number or the kind of a build passes, since any other value may name a
/// program, a flag of the compiler or a place.
fn definitions(line: Line<'_>, found: &mut Inspection) {
    const VALUES: [&str; 10] = [
        "on",
        "off",
        "true",
        "false",
        "yes",
        "no",
        "debug",
        "release",
        "relwithdebinfo",
        "minsizerel",
    ];
    let harmless = |value: &str| {
        let value = value.to_ascii_lowercase();
        VALUES.contains(&value.as_str()) || value.bytes().all(|b| b.is_ascii_digit())
    };
    for (at, word) in line.words.iter().enumerate().skip(line.named) {
        let Some(attached) = word.text.strip_prefix("-D") else {
            continue;
        };
        let next = line.words.get(at + 1).and_then(Word::literal);
        let definition = if attached.is_empty() {
            next
        } else {
            Some(attached)
        };
        let value = definition.and_then(|definition| definition.split_once('='));
        if !value.is_some_and(|(_, value)| harmless(value)) {
            found.refuse(format!(
                "the definition `{}` of `{}`",
                definition.unwrap_or_default(),
                line.words[0].text
            ));
        }
    }
}

/// A rule on an interpreter with options and without a script, such as `php -l`, does not cover further options.
pub(super) fn interpreter(line: Line<'_>, found: &mut Inspection) {
    let mut named = line.rule_words().skip(1);
    if line.named < 2 || named.any(|word| !word.starts_with('-')) || line.names("-m") {
        return;
    }
    let mut open = line.words.iter().skip(line.named);
    if let Some(word) = open.find(|word| word.text.starts_with('-')) {
        found.refuse(format!(
            "the option `{}` of `{}`",
            word.text, line.words[0].text
        ));
    }
}

/// `git config` reads; it writes keys that name no program and no file. What may be said with a key is git's to know, so
/// the list is short, and a rule may name another key.
pub(super) fn git_config(line: Line<'_>, subcommands: &[usize], found: &mut Inspection) {
    const READING: [&str; 16] = [
        "--get",
        "--get-all",
        "--get-regexp",
        "--get-urlmatch",
        "--list",
        "-l",
        "get",
        "list",
        "--show-origin",
        "--show-scope",
        "--name-only",
        "-z",
        "--null",
        "--all",
        "--local",
        "--bool",
    ];
    const KEYS: [&str; 14] = [
        "user.name",
        "user.email",
        "init.defaultbranch",
        "pull.rebase",
        "pull.ff",
        "push.default",
        "merge.conflictstyle",
        "rebase.autostash",
        "rerere.enabled",
        "core.autocrlf",
        "core.eol",
        "core.filemode",
        "core.quotepath",
        "color.ui",
    ];
    let Some(&config) = subcommands.first() else {
        return;
    };
    let words = &line.words[config + 1..];
    let text = |word: &Word| word.text.to_ascii_lowercase();
    let mut options = words
        .iter()
        .enumerate()
        .filter(|(at, word)| config + 1 + at >= line.named && word.text.starts_with('-'));
    if let Some((_, word)) = options.find(|(_, word)| !READING.contains(&word.text.as_str())) {
        return found.refuse(format!("the option `{}` of `git config`", word.text));
    }
    let operands: Vec<String> = words
        .iter()
        .map(text)
        .filter(|word| !word.starts_with('-'))
        .collect();
    let reads = words.iter().any(|word| {
        word.text.starts_with("--get") || matches!(word.text.as_str(), "--list" | "-l")
    }) || operands
        .first()
        .is_some_and(|first| matches!(first.as_str(), "get" | "list"));
    let key = match operands.as_slice() {
        [verb, key, ..] if matches!(verb.as_str(), "set" | "unset") => key,
        [key, _, ..] => key,
        // One key alone is read.
        _ => return,
    };
    let named = line.rule_words().any(|word| word.eq_ignore_ascii_case(key));
    if !reads && !named && !KEYS.contains(&key.as_str()) {
        found.refuse(format!(
            "the key `{key}` of `git config`, which the rule does not name"
        ));
    }
}

/// The filter of `jq` is its first operand; what follows are files. Behind an option that is not known here any operand
/// may be the filter.
fn jq(line: Line<'_>, operands: &[usize], found: &mut Inspection) {
    let mut skipped = 0;
    let mut filter = None;
    let mut sure = true;
    for (at, word) in line.words.iter().enumerate().skip(1) {
        if skipped > 0 {
            skipped -= 1;
            continue;
        }
        match word.text.as_str() {
            "--arg" | "--argjson" => skipped = 2,
            "--indent" => skipped = 1,
            long if JQ_FLAGS.contains(&long) => {}
            text if text.starts_with("--") => sure = false,
            text if text.len() > 1 && text.starts_with('-') => {
                sure &= text[1..].chars().all(|c| "nrsScCMajeRhVbg".contains(c));
            }
            _ => {
                filter.get_or_insert(at);
            }
        }
    }
    let looked_at = operands.iter().filter(|at| **at >= line.named);
    for at in looked_at.filter(|at| !sure || filter == Some(**at)) {
        scripts::jq(&line.words[*at].text, found);
    }
}

/// Operands of `yq` behind the first that look like nothing but a file's name are none of its expressions.
fn yq(line: Line<'_>, operands: &[usize], found: &mut Inspection) {
    let is_file = |text: &str| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
        let ends = [".yaml", ".yml", ".json", ".toml", ".xml"];
        text.chars().all(plain) && ends.iter().any(|end| text.ends_with(end))
    };
    for (place, at) in operands
        .iter()
        .enumerate()
        .filter(|(_, at)| **at >= line.named)
    {
        let text = line.words[*at].text.as_str();
        if place == 0 || !is_file(text) {
            scripts::yq(text, found);
        }
    }
}

/// Notes all operands but the first one.
fn second_written(line: Line<'_>, operands: &[usize], found: &mut Inspection) {
    let named = |index: &&usize| **index >= line.named;
    if operands.iter().any(|index| line.words[*index].glob) && operands.iter().any(|i| named(&i)) {
        found.refuse(format!(
            "a glob among the files of `{}`",
            line.words[0].text
        ));
    }
    let later = operands.iter().skip(1).filter(named);
    written(later.map(|index| line.words[*index].clone()), found);
}

/// Reads a whole command line of `xxd`. It takes the word behind an option as its number without a look, so an option
/// that is not understood leaves open which word is the file that it writes.
pub(super) fn xxd(line: Line<'_>, found: &mut Inspection) {
    const FLAGS: [&str; 25] = [
        "a",
        "b",
        "C",
        "d",
        "e",
        "E",
        "h",
        "i",
        "p",
        "ps",
        "r",
        "u",
        "v",
        "autoskip",
        "bits",
        "capitalize",
        "EBCDIC",
        "help",
        "include",
        "plain",
        "postscript",
        "revert",
        "reverse",
        "uppercase",
        "version",
    ];
    let is_number = |text: &str| {
        let digits = text.trim_start_matches(['-', '+']);
        digits.starts_with(|c: char| c.is_ascii_digit())
            && digits.bytes().all(|b| b.is_ascii_hexdigit() || b == b'x')
    };
    let mut operands = Vec::new();
    let mut at = 1;
    while let Some(word) = line.words.get(at) {
        let option = word.text.strip_prefix('-').filter(|rest| !rest.is_empty());
        let Some(option) = option.map(|rest| rest.strip_prefix('-').unwrap_or(rest)) else {
            operands.push(at);
            at += 1;
            continue;
        };
        let value = line.words.get(at + 1).and_then(Word::literal);
        let understood = match option.get(..1) {
            None => {
                operands.extend(at + 1..line.words.len());
                break;
            }
            Some("c" | "g" | "l" | "o" | "s") if option.len() == 1 => {
                at += 1;
                value.is_some_and(is_number)
            }
            Some("n") if option.len() == 1 => {
                at += 1;
                value.is_some_and(|name| !name.starts_with('-'))
            }
            Some("c" | "g" | "l" | "o" | "s") if is_number(&option[1..]) => true,
            _ => FLAGS.contains(&option),
        };
        if !understood {
            found.refuse(format!("the option `{}` of `xxd`", word.text));
        }
        at += 1;
    }
    second_written(line, &operands, found);
}

/// Whether a word can only be read as an address of the web, or as no address at all: programs expand braces in
/// addresses and guess what a scheme means.
fn is_web(text: &str) -> bool {
    let lower = text.trim_start().to_ascii_lowercase();
    if lower.starts_with('@') {
        return false; // a file of addresses
    }
    let Some((scheme, _)) = lower.split_once(':') else {
        return true;
    };
    let is_host = !scheme.contains(['{', '[']) && lower.split_once("://").is_none();
    matches!(scheme, "http" | "https") || is_host && scheme != "file"
}

/// Whether the tool, which looks at the name alone, could take an operand for a path outside the directory.
fn may_lead_out(operand: &Word) -> bool {
    operand.text.starts_with('/') || operand.text.split('/').any(|part| part == "..")
}

/// Whether an operand, that may be the value of an option too, could be the name of a host or an address.
fn may_be_address(text: &str) -> bool {
    !text.contains(char::is_whitespace) && text.parse::<f32>().is_err()
}

/// Notes files that are written; their names have to be literal.
pub(super) fn written(words: impl Iterator<Item = Word>, found: &mut Inspection) {
    for word in words {
        if word.literal().is_none() {
            found.refuse("a written file whose name is not literal");
        } else if word.text != "/dev/null" && word.text != "-" {
            found.writes.push(word);
        }
    }
}
