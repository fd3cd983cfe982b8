//! Reads a command's options against the table of guarded ones.

use super::guarded::{Extra, GIT_GLOBAL_HARMLESS, GIT_GLOBAL_VALUED, Guard, Style, rows};
use super::operands::{git_config, interpreter, read_operands, xxd};
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
    pub(super) fn rule_words(&self) -> impl Iterator<Item = &'a str> {
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
            // `git a/b` runs the file `git-a/b`.
            if at >= line.named && text.contains('/') {
                found.refuse(format!(
                    "the subcommand `{text}` of `git`, which may be a file"
                ));
            }
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
            let head = basename(&line.words[0].text);
            for index in subcommands.iter().filter(|index| **index >= line.named) {
                let name = line.words[*index].text.as_str();
                let means = |listed: &&str| *listed == name || may_be_short_for(head, name, listed);
                if names.iter().any(means) || line.words[*index].glob {
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

/// Tools that take the beginning of a subcommand for the whole.
const SHORTENING: [&str; 3] = ["npm", "composer", "ip"];
/// What they have names of their own for that would be such a beginning: `npm i` installs.
const OWN_NAMES: [&str; 10] = ["i", "in", "t", "s", "se", "un", "add", "r", "n", "ne"];

/// Whether a word could be short for a subcommand: `npm exe` is `npm exec`.
pub(super) fn may_be_short_for(head: &str, name: &str, subcommand: &str) -> bool {
    SHORTENING.contains(&head)
        && !name.is_empty()
        && !OWN_NAMES.contains(&name)
        && subcommand.starts_with(name)
}

/// What the word behind an option is.
enum Value {
    None,
    Any,
    /// The option's value if it is a number, an operand otherwise.
    Number,
}

/// Whether the word may be an option whose value is the next word, whatever that is: `git grep -e -- -O` looks for `--`.
fn may_take_next(guard: &Guard, word: &str) -> bool {
    if word.starts_with("--") || guard.style != Style::Long {
        return word.starts_with('-') && word != "--" && !word.contains('=');
    }
    let Some(letters) = word.strip_prefix('-') else {
        return false;
    };
    let mut letters = letters
        .chars()
        .skip_while(|letter| letter.is_ascii_digit() || guard.flags.contains(*letter));
    match letters.next() {
        Some(letter) if guard.valued.contains(letter) => letters.next().is_none(),
        first => first.is_some(),
    }
}

/// Whether two long options are one. Some parsers take `--root-dir` for `--rootDir` and `--env_file` for `--env-file`, so
/// case, dashes and underscores make no difference.
fn same_option(one: &str, other: &str) -> bool {
    letters(one).eq(letters(other))
}

/// Whether a long option could be an abbreviation of another.
pub(super) fn abbreviates(short: &str, long: &str) -> bool {
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
    // Behind a `--` that may be the value of the option before it, a word is an option and an operand alike.
    let mut in_doubt = false;
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
            let before = line.words[index - 1].text.as_str();
            let is_value = !guard.firm && may_take_next(guard, before);
            ended = guard.ends && !is_value;
            in_doubt |= guard.ends && is_value;
            continue;
        }
        if in_doubt {
            operands.push(index);
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
        let is_allowed = match allowed.strip_suffix('*') {
            Some(prefix) => value.starts_with(prefix),
            None => allowed == value,
        };
        is_allowed
            && if option.starts_with("--") {
                known.starts_with("--") && same_option(known, option)
            } else {
                known == option
            }
    })
}

/// A bundle of short options: every letter may be one, and what follows it may be its value. Behind a letter that the
/// row does not know nobody can tell whether a guarded letter is an option, so it is refused.
pub(super) fn read_bundle(
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
    } else {
        let value = value.as_ref().or(next);
        if guard.writes.iter().any(|option| means(&option)) {
            value_written(line, name, value, &mut found.writes, &mut found.refused);
        } else if guard.inside.iter().any(|option| means(&option)) {
            value_written(line, name, value, &mut found.inside, &mut found.refused);
        }
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
    fn the_beginning_of_a_subcommand_is_read_as_the_tool_does() {
        for line in [
            "npm exe id",
            "npm expl x -- id",
            "npm conf set a b",
            "npm -s ini x",
            "composer exe id",
            "composer glob require x",
            "ip net exec a id",
        ] {
            assert!(inspect_line(line, 1).refused.is_some(), "{line}");
        }
        for line in [
            "npm i",
            "npm t",
            "npm add x",
            "npm un x",
            "npm s x",
            "npm ci",
            "npm audit",
            "npm test",
            "npm pack",
            "composer i",
            "composer r x",
            "ip n show",
            "pip conf",
        ] {
            assert_eq!(inspect_line(line, 1).refused, None, "{line}");
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
        for line in [
            "git diff -- --output=x",
            "git grep -n -ex -- -O",
            "git log --format=x -- --output=x",
            "sort -- -o",
            "sort -rk2 -- -o",
            "npm run build --silent -- --prefix x",
            "pytest -k x -- -p",
        ] {
            assert_eq!(inspect_line(line, 2), Inspection::default(), "{line}");
        }
    }

    #[test]
    fn two_dashes_that_may_be_the_value_of_an_option_end_nothing() {
        for line in [
            "git grep -e -- -Oid",
            "git grep -ne -- --open-files-in-pager=id",
            "git log --since -- --output=x",
            "sort -T -- -o x f",
            "sort -rT -- -o x f",
            "rg -e -- --pre=id",
            "make -o -- -f x",
            "make -W -- SHELL=id",
            "curl -A -- -o x u",
            "tar -f -- --to-command=id -x",
            "uniq -f -- a b",
        ] {
            let found = inspect_line(line, 1);
            assert!(
                found.refused.is_some() || !found.writes.is_empty(),
                "{line}"
            );
        }
    }
}
