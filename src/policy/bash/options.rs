//! Reads a command's options against the table of guarded ones.

use super::super::url;
use super::guarded::{Extra, GIT_GLOBAL_HARMLESS, GIT_GLOBAL_VALUED, Guard, Style, rows};
use super::scripts;
use super::words::Word;
use super::wrappers::{basename, is_wrapper};

/// What a prefix rule leaves open on a command line and has to be looked at.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Inspection {
    /// The first guarded option or argument, named.
    pub(in super::super) refused: Option<String>,
    /// Files that options or operands write.
    pub(in super::super) writes: Vec<Word>,
    /// Paths that have to lie in the workspace.
    pub(in super::super) inside: Vec<Word>,
}

impl Inspection {
    pub(super) fn refuse(&mut self, what: impl Into<String>) {
        self.refused.get_or_insert_with(|| what.into());
    }
}

/// A command and the prefix of it that a rule has fixed.
#[derive(Clone, Copy)]
pub(super) struct Line<'a> {
    pub(super) words: &'a [Word],
    /// How many of the words the rule names, at least the head.
    pub(super) named: usize,
}

impl<'a> Line<'a> {
    fn rule_words(&self) -> impl Iterator<Item = &'a str> {
        self.words[..self.named]
            .iter()
            .map(|word| word.text.as_str())
    }

    /// Whether the rule's own words name an option.
    pub(super) fn names(&self, option: &str) -> bool {
        self.rule_words().any(|word| {
            word == option
                || word
                    .strip_prefix(option)
                    .is_some_and(|rest| rest.starts_with('='))
        })
    }
}

/// Looks at the words behind the first `named` ones.
pub(in super::super) fn inspect(words: &[Word], named: usize) -> Inspection {
    let mut found = Inspection::default();
    let Some(head) = words.first() else {
        return found;
    };
    let line = Line {
        words,
        named: named.clamp(1, words.len()),
    };
    let head = basename(&head.text);
    let subcommands = if head == "git" {
        git_subcommand(line, &mut found).into_iter().collect()
    } else {
        subcommands(words)
    };
    for guard in rows(head) {
        let applies = guard.subcommands.is_empty()
            || subcommands
                .iter()
                .any(|index| guard.subcommands.contains(&words[*index].text.as_str()));
        if applies {
            read(guard, line, &subcommands, &mut found);
        }
    }
    if reads_arguments(head) && line.named < words.len() {
        from_input(words, line.named, &mut found);
    }
    // A rule that names what a wrapper runs is a rule on that command too, its options included.
    for inner in commands_behind(&words[..line.named]) {
        let behind = inspect(&words[inner..], line.named - inner);
        found.writes.extend(behind.writes);
        found.inside.extend(behind.inside);
        if let Some(what) = behind.refused {
            found.refuse(what);
        }
    }
    found
}

/// Where the guarded commands begin that a command runs, of those that its words name: `sudo git`, `python3 -m pytest`,
/// `npx eslint`.
pub(in super::super) fn commands_behind(words: &[Word]) -> Vec<usize> {
    let text = |at: usize| words.get(at).map_or("", |word| word.text.as_str());
    let head = basename(text(0));
    let next = |from: usize| {
        (from..words.len())
            .find(|at| !text(*at).starts_with('-'))
            .into_iter()
            .collect()
    };
    let interpreter = head.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    match (head, text(1)) {
        _ if interpreter == "python" => (1..words.len())
            .find(|at| text(at - 1) == "-m")
            .into_iter()
            .collect(),
        ("npx" | "bunx" | "pnpx" | "uvx", _) => next(1),
        ("npm" | "pnpm" | "yarn", "exec" | "dlx" | "x")
        | ("uv" | "poetry" | "pipenv" | "pdm" | "hatch" | "rye", "run")
        | ("bun", "x")
        | ("bundle", "exec") => next(2),
        _ if is_wrapper(head) => (1..words.len())
            .find(|at| rows(basename(text(*at))).next().is_some())
            .into_iter()
            .collect(),
        _ => Vec::new(),
    }
}

/// The words that may be a tool's subcommand: the first operand, and those before it that may be values of options.
fn subcommands(words: &[Word]) -> Vec<usize> {
    let is_option = |at: usize| words[at].text.starts_with('-');
    let mut found = Vec::new();
    for at in (1..words.len()).filter(|at| !is_option(*at)) {
        found.push(at);
        if at == 1 || !is_option(at - 1) {
            break;
        }
    }
    found
}

/// Whether a wrapper adds words from its input to the command that it runs.
fn reads_arguments(head: &str) -> bool {
    matches!(head, "xargs" | "parallel" | "sem")
}

/// Refuses a command whose options are guarded and whose further words come from an input that nobody sees here, unless
/// `--` stands before them.
fn from_input(words: &[Word], named: usize, found: &mut Inspection) {
    for inner in commands_behind(&words[..named]) {
        let head = basename(&words[inner].text);
        let can_harm = rows(head).any(|guard| {
            guard
                .refused
                .iter()
                .any(|option| *option != "--files0-from")
                || !guard.writes.is_empty()
                || !matches!(guard.extra, Extra::Nothing | Extra::NoWord(_))
        });
        let ended = words[inner..].iter().any(|word| word.text == "--")
            && rows(head).all(|guard| guard.ends && guard.extra == Extra::Nothing);
        if can_harm && !ended {
            found.refuse(format!(
                "options of `{head}` that `{}` may read from its input",
                words[0].text
            ));
        }
    }
}

/// Finds git's subcommand and refuses global options that the rule does not name.
fn git_subcommand(line: Line<'_>, found: &mut Inspection) -> Option<usize> {
    let mut at = 1;
    while let Some(word) = line.words.get(at) {
        let text = word.text.as_str();
        if !text.starts_with('-') {
            return Some(at);
        }
        if at >= line.named && !GIT_GLOBAL_HARMLESS.contains(&text) {
            found.refuse(format!("the global option `{text}` of `git`"));
        }
        at += if GIT_GLOBAL_VALUED.contains(&text) {
            2
        } else {
            1
        };
    }
    None
}

fn read(guard: &Guard, line: Line<'_>, subcommands: &[usize], found: &mut Inspection) {
    match guard.extra {
        Extra::ExactOnly if line.words.len() > line.named => {
            found.refuse(format!("`{}` under a prefix rule", line.words[0].text));
            return;
        }
        Extra::Interpreter if line.rule_words().skip(1).any(|word| !word.starts_with('-')) => {
            return;
        }
        Extra::WholeInterpreter => return interpreter(line, found),
        Extra::GitConfig => return git_config(line, subcommands, found),
        Extra::Xxd => return xxd(line, found),
        Extra::Sed => return scripts::sed(line, found),
        Extra::Awk => return scripts::awk(line, found),
        Extra::Subcommands(names) => {
            for index in subcommands.iter().filter(|index| **index >= line.named) {
                let name = line.words[*index].text.as_str();
                if names.contains(&name) || line.words[*index].glob {
                    found.refuse(format!(
                        "the subcommand `{name}`, which the rule does not name"
                    ));
                }
            }
            return;
        }
        _ => {}
    }
    let operands = read_options(guard, line, found);
    read_operands(guard, line, &operands, found);
}

/// What the word behind an option is.
enum Value {
    None,
    Any,
    /// The option's value if it is a number, an operand otherwise.
    Number,
}

/// Whether two long options are one. Some parsers take `--root-dir` for `--rootDir` and `--env_file` for `--env-file`, so
/// case, dashes and underscores make no difference.
fn same_option(one: &str, other: &str) -> bool {
    letters(one).eq(letters(other))
}

/// Whether a long option could be an abbreviation of another.
fn abbreviates(short: &str, long: &str) -> bool {
    let mut long = letters(long);
    letters(short).all(|letter| long.next() == Some(letter))
}

fn letters(option: &str) -> impl Iterator<Item = u8> + '_ {
    let bytes = option.bytes().filter(|b| !matches!(b, b'-' | b'_'));
    bytes.map(|b| b.to_ascii_lowercase())
}

/// Checks every option; returns the indices of the operands.
fn read_options(guard: &Guard, line: Line<'_>, found: &mut Inspection) -> Vec<usize> {
    let mut operands = Vec::new();
    let mut ended = guard.ends && line.rule_words().any(|word| word == "--");
    let mut value_of_option = Value::None;
    for (index, word) in line.words.iter().enumerate().skip(1) {
        let text = word.text.as_str();
        if ended || !text.starts_with('-') || text.len() == 1 {
            let is_value = match std::mem::replace(&mut value_of_option, Value::None) {
                Value::None => false,
                Value::Any => true,
                Value::Number => text.starts_with(|c: char| c.is_ascii_digit()),
            };
            if !is_value {
                operands.push(index);
            }
            continue;
        }
        value_of_option = Value::None;
        if text == "--" {
            ended = guard.ends;
            continue;
        }
        let next = line.words.get(index + 1);
        if guard.style == Style::Words {
            if index >= line.named {
                read_word(guard, line, text, next, found);
            }
        } else if text.starts_with("--") {
            if index >= line.named {
                read_long(guard, line, text, next, found);
            }
        } else {
            value_of_option = match text[1..].chars().next_back() {
                Some(last) if text.len() == 2 && guard.valued.contains(last) => Value::Any,
                Some(last) if text.len() == 2 && guard.numeric.contains(last) => Value::Number,
                _ => Value::None,
            };
            if index >= line.named {
                read_bundle(guard, line, &text[1..], next, found);
                if guard.style == Style::Either && text.len() > 2 {
                    read_long(guard, line, &format!("-{text}"), next, found);
                }
            }
        }
    }
    operands
}

/// One long option, perhaps abbreviated.
fn read_long(
    guard: &Guard,
    line: Line<'_>,
    text: &str,
    next: Option<&Word>,
    found: &mut Inspection,
) {
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, Some(Word::from_text(value))),
        None => (text, None),
    };
    let value = value.as_ref().or(next);
    if value.is_some_and(|value| is_known_value(guard, name, value)) {
        return;
    }
    let exact = |option: &&&str| match option.strip_suffix('*') {
        Some(prefix) => option.starts_with("--") && abbreviates(prefix, name),
        None => option.starts_with("--") && same_option(option, name),
    };
    let abbreviated = |option: &&&str| {
        option.starts_with("--") && abbreviates(name, option) && !guard.known.contains(&name)
    };
    let (refused, writes, inside) = (
        guard.refused.iter(),
        guard.writes.iter(),
        guard.inside.iter(),
    );
    if let Some(option) = writes.clone().find(exact) {
        value_written(line, option, value, &mut found.writes, &mut found.refused);
    } else if let Some(option) = inside.clone().find(exact) {
        value_written(line, option, value, &mut found.inside, &mut found.refused);
    } else if let Some(option) = refused
        .clone()
        .find(exact)
        .or_else(|| refused.clone().find(abbreviated))
    {
        if !line.names(option) {
            found.refuse(format!("the option `{name}` of `{}`", line.words[0].text));
        }
    } else if let Some(option) = writes.clone().find(abbreviated) {
        value_written(line, option, value, &mut found.writes, &mut found.refused);
    } else if let Some(option) = inside.clone().find(abbreviated) {
        value_written(line, option, value, &mut found.inside, &mut found.refused);
    }
}

/// Whether the table lets an option have this value.
fn is_known_value(guard: &Guard, option: &str, value: &Word) -> bool {
    let Some(value) = value.literal() else {
        return false;
    };
    let mut exceptions = guard.known.iter().filter_map(|known| known.split_once('='));
    exceptions.any(|(known, allowed)| {
        allowed == value
            && if option.starts_with("--") {
                known.starts_with("--") && same_option(known, option)
            } else {
                known == option
            }
    })
}

/// A bundle of short options: every letter may be one, and what follows it may be its value. Behind a letter that the
/// row does not know nobody can tell whether a guarded letter is an option, so it is refused.
fn read_bundle(
    guard: &Guard,
    line: Line<'_>,
    letters: &str,
    next: Option<&Word>,
    found: &mut Inspection,
) {
    let is = |options: &[&str], letter: char| {
        let mut short = options.iter().filter(|option| option.len() == 2);
        short.any(|option| option.ends_with(letter))
    };
    let mut in_number = false;
    for (at, letter) in letters.char_indices() {
        if letter.is_ascii_digit() && !is(guard.refused, letter)
            || in_number && matches!(letter, '.' | '%')
        {
            continue;
        }
        in_number = guard.numeric.contains(letter);
        if in_number || guard.flags.contains(letter) {
            continue;
        }
        if guard.valued.contains(letter) {
            return;
        }
        let option = format!("-{letter}");
        let attached = &letters[at + letter.len_utf8()..];
        if is(guard.refused, letter) {
            let value = (!attached.is_empty()).then(|| Word::from_text(attached));
            let value = value.as_ref().or(next);
            if value.is_some_and(|value| is_known_value(guard, &option, value)) {
                return;
            }
            if !line.names(&option) {
                found.refuse(format!("the option `{option}` of `{}`", line.words[0].text));
            }
            return;
        }
        if is(guard.writes, letter) {
            let value = (!attached.is_empty()).then(|| Word::from_text(attached));
            value_written(
                line,
                &option,
                value.as_ref().or(next),
                &mut found.writes,
                &mut found.refused,
            );
            return;
        }
        if is(guard.inside, letter) {
            let value = (!attached.is_empty()).then(|| Word::from_text(attached));
            let value = value.as_ref().or(next);
            value_written(line, &option, value, &mut found.inside, &mut found.refused);
            return;
        }
        let guarded = |c: char| is(guard.refused, c) || is(guard.writes, c) || is(guard.inside, c);
        if let Some(hidden) = attached.chars().find(|c| guarded(*c)) {
            found.refuse(format!(
                "`-{letters}`, in which `{hidden}` may be an option of `{}` behind the unknown `{option}`",
                line.words[0].text
            ));
        }
        return;
    }
}

/// One option of a tool that spells them as words.
fn read_word(
    guard: &Guard,
    line: Line<'_>,
    text: &str,
    next: Option<&Word>,
    found: &mut Inspection,
) {
    let single = format!("-{}", text.trim_start_matches('-'));
    let (name, value) = match single.split_once('=') {
        Some((name, value)) => (name, Some(Word::from_text(value))),
        None => (single.as_str(), None),
    };
    let means = |option: &&&str| match option.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => **option == name,
    };
    if guard
        .known
        .iter()
        .any(|option| match option.strip_suffix('*') {
            Some(prefix) => single.starts_with(prefix),
            None => single.starts_with(option),
        })
    {
        return;
    }
    if guard.refused.iter().any(|option| means(&option)) && !line.names(name) {
        found.refuse(format!("the option `{name}` of `{}`", line.words[0].text));
    } else if let Some(prefix) = guard
        .writes
        .iter()
        .filter_map(|option| option.strip_suffix('*'))
        .find(|prefix| single.starts_with(prefix))
    {
        let attached = &single[prefix.len()..];
        let value = (!attached.is_empty()).then(|| Word::from_text(attached));
        value_written(
            line,
            prefix,
            value.as_ref().or(next),
            &mut found.writes,
            &mut found.refused,
        );
    } else if guard.writes.iter().any(|option| means(&option)) {
        value_written(
            line,
            name,
            value.as_ref().or(next),
            &mut found.writes,
            &mut found.refused,
        );
    }
}

/// Notes the value of an option that writes (or has to stay inside), unless the rule names the option.
fn value_written(
    line: Line<'_>,
    option: &str,
    value: Option<&Word>,
    into: &mut Vec<Word>,
    refused: &mut Option<String>,
) {
    if line.names(option) {
        return;
    }
    match value {
        Some(value) if value.literal().is_some() => into.push(value.clone()),
        Some(_) => {
            refused.get_or_insert_with(|| format!("the value of `{option}`, which is not literal"));
        }
        None => {
            refused.get_or_insert_with(|| format!("the option `{option}` without a value"));
        }
    }
}

fn read_operands(guard: &Guard, line: Line<'_>, operands: &[usize], found: &mut Inspection) {
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
            if let Some(word) = open.clone().find(|word| !is_web(&word.text)) {
                found.refuse(format!("`{}`, which may be no web address", word.text));
            }
            // The value of `--url` is none of the operands.
            let values = line.words.iter().skip(line.named);
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
fn interpreter(line: Line<'_>, found: &mut Inspection) {
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
fn git_config(line: Line<'_>, subcommands: &[usize], found: &mut Inspection) {
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
        let reads = word.text.starts_with("--get") || matches!(word.text.as_str(), "--list" | "-l");
        reads
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
            "--args" | "--jsonargs" | "--tab" | "--seq" | "--stream" | "--stream-errors" => {}
            "--null-input" | "--compact-output" | "--raw-output" | "--raw-output0" | "--slurp" => {}
            "--raw-input" | "--exit-status" | "--sort-keys" | "--join-output" => {}
            "--ascii-output" | "--color-output" | "--monochrome-output" | "--unbuffered" => {}
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
fn xxd(line: Line<'_>, found: &mut Inspection) {
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

pub(super) fn written(words: impl Iterator<Item = Word>, found: &mut Inspection) {
    for word in words {
        if word.literal().is_none() {
            found.refuse("a written file whose name is not literal");
        } else if word.text != "/dev/null" && word.text != "-" {
            found.writes.push(word);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inspect_line(line: &str, named: usize) -> Inspection {
        let words: Vec<Word> = line.split(' ').map(Word::from_text).collect();
        inspect(&words, named)
    }

    #[test]
    fn abbreviations_and_bundles_are_seen() {
        for line in [
            "sort --compress-p x",
            "rg -nz x",
            "fd -Hx id",
            "git fetch --upload-p id",
            "tar cIf id x",
        ] {
            assert!(inspect_line(line, 1).refused.is_some(), "{line}");
        }
        for line in [
            "rg --pretty x",
            "sort -rn f",
            "git diff --text",
            "git log -c -1",
            "find . -name a -o -name b",
        ] {
            assert_eq!(inspect_line(line, 1), Inspection::default(), "{line}");
        }
    }

    #[test]
    fn the_files_that_options_write_are_found_in_every_spelling() {
        for line in [
            "sort -o x f",
            "sort -ox f",
            "sort -uox f",
            "sort --outp x f",
            "sort --output=x f",
            "uniq -f 1 a x",
            "tee x",
        ] {
            let writes: Vec<String> = inspect_line(line, 1)
                .writes
                .into_iter()
                .map(|word| word.text)
                .collect();
            assert_eq!(writes, ["x"], "{line}");
        }
    }

    #[test]
    fn a_guarded_letter_behind_an_unknown_one_is_refused() {
        for line in [
            "sort -Yo x f",
            "git grep -n3Yl -lYOid x",
            "git diff -U3Oid",
            "git archive -vo x HEAD",
            "make -j4f x",
            "make -Yf x",
            "scp -po x a b:",
            "npm test -script-shell=id",
            "vitest --global-setup x",
            "node --experimental_loader x",
        ] {
            let found = inspect_line(line, 1);
            assert!(
                found.refused.is_some() || !found.writes.is_empty(),
                "{line}"
            );
        }
        for line in [
            "sort -k2,2n -t o f",
            "git grep -n3 -eO",
            "git diff -U3 -M90% -w",
            "make -j4 -k all",
            "git format-patch -v2o HEAD",
            "npm test -w pkg",
            "rg -Yn x",
        ] {
            assert_eq!(inspect_line(line, 1), Inspection::default(), "{line}");
        }
    }

    #[test]
    fn a_number_is_swallowed_only_if_it_is_one() {
        for (line, written) in [
            ("uniq -f 1 a x", Some("x")),
            ("uniq -f1 a", None),
            ("uniq -f a x", Some("x")),
            ("xxd -g 2 a x", Some("x")),
            ("xxd -g2 -l 0x10 a", None),
        ] {
            let writes: Vec<String> = inspect_line(line, 1)
                .writes
                .into_iter()
                .map(|word| word.text)
                .collect();
            assert_eq!(writes.first().map(String::as_str), written, "{line}");
        }
        for line in ["xxd -g -g a x", "xxd -g a x", "xxd -q a"] {
            assert!(inspect_line(line, 1).refused.is_some(), "{line}");
        }
    }

    #[test]
    fn a_rule_that_names_the_option_lifts_the_guard() {
        assert_eq!(inspect_line("git diff --ext-diff HEAD", 3).refused, None);
        assert!(
            inspect_line("git diff HEAD --ext-diff", 2)
                .refused
                .is_some()
        );
    }

    #[test]
    fn nothing_behind_two_dashes_is_an_option() {
        assert_eq!(
            inspect_line("git diff -- --output=x", 2),
            Inspection::default()
        );
        assert_eq!(inspect_line("sort -- -o", 1), Inspection::default());
    }
}
