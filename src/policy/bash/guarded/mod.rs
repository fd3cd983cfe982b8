//! Options that a prefix rule does not cover although the tool looks harmless, as data.
//!
//! An option is *refused* if it runs a program, loads configuration or reaches elsewhere; it *writes* if its value is a
//! file that an Edit or Write rule has to cover; it stays *inside* if its value has to lie in the workspace. A rule
//! that is exact, or whose own words name the option, lifts the guard. The table is read by `options`, which knows
//! about abbreviations and bundles.

mod git;
mod javascript;
mod managed;
mod native;
mod net;
mod python;
mod scripting;
mod text;

/// How a tool reads its options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// `--long[=value]`, abbreviations, bundles of short options.
    Long,
    /// As `Long`, and one dash does for a long option too (npm).
    Either,
    /// Words with one or two dashes, no bundles (`find`, `go`).
    Words,
}

/// What else has to be looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extra {
    Nothing,
    /// No prefix rule at all.
    ExactOnly,
    /// No operand may contain the text.
    NoOperandWith(&'static str),
    /// No URL but of HTTP, in whatever spelling.
    Web,
    /// No operand may begin with the text.
    NoOperandFrom(&'static str),
    /// No argument word may be one of these.
    NoWord(&'static [&'static str]),
    /// All operands are written.
    OperandsWritten,
    /// All operands have to lie in the workspace.
    OperandsInside,
    /// The second operand is written: `uniq`, whose options take numbers.
    SecondOperandWritten,
    /// As before, for `xxd` with its options of its own kind.
    Xxd,
    /// No `NAME=value` operand.
    NoVariables,
    /// Only `-DNAME=VALUE` with a value that can be no program and no path.
    Definitions,
    /// All operands are written if one of these options is there.
    InPlace(&'static [&'static str]),
    /// Keys are read, or written if they can name no program: `git config`.
    GitConfig,
    /// No archive on another host (`host:file`).
    Archive,
    /// As `Archive`, and options may be bundled in the first word without a dash.
    BareBundle,
    /// Subcommands that run what they are told, unless the rule names them.
    Subcommands(&'static [&'static str]),
    /// Options belong to the script once the rule names one.
    Interpreter,
    /// As `Interpreter` for a tool that a rule on its name alone grants whole: options are open only then.
    WholeInterpreter,
    Sed,
    Awk,
    Jq,
    Yq,
}

/// One row: some heads, perhaps only some of their subcommands.
#[derive(Debug, Clone, Copy)]
pub(super) struct Guard {
    pub(super) heads: &'static [&'static str],
    /// Empty: all.
    pub(super) subcommands: &'static [&'static str],
    pub(super) style: Style,
    /// An entry that ends in `*` is a prefix.
    pub(super) refused: &'static [&'static str],
    pub(super) writes: &'static [&'static str],
    pub(super) inside: &'static [&'static str],
    /// Long options that look like abbreviations of the others and are none. `--option=value`, and `-o=value` for a short
    /// one, is an exception for this value. In rows of words an entry that ends in `*` is a prefix, and an exception too.
    pub(super) known: &'static [&'static str],
    /// Short options without a value. One that is in none of the three lists may take the rest of its bundle or not:
    /// then no guarded letter may follow.
    pub(super) flags: &'static str,
    /// Short options that cannot be without a value: the rest of their bundle is no option. An option that some
    /// subcommand or some version of the tool reads otherwise has no place here.
    pub(super) valued: &'static str,
    /// Short options that take a number, or perhaps none: only digits of their bundle are no options.
    pub(super) numeric: &'static str,
    /// Whether `--` ends the options.
    pub(super) ends: bool,
    /// Whether no option takes `--` as its value: so npm, and Python's and Rust's usual parsers. `getopt`, git, curl, Go and
    /// many others take whatever the next word is.
    pub(super) firm: bool,
    pub(super) extra: Extra,
}

const NONE: Guard = Guard {
    heads: &[],
    subcommands: &[],
    style: Style::Long,
    refused: &[],
    writes: &[],
    inside: &[],
    known: &[],
    flags: "",
    valued: "",
    numeric: "",
    ends: true,
    firm: false,
    extra: Extra::Nothing,
};

/// Global options of git that take a value as a word of their own.
pub(super) const GIT_GLOBAL_VALUED: [&str; 8] = [
    "-C",
    "-c",
    "--git-dir",
    "--work-tree",
    "--namespace",
    "--exec-path",
    "--config-env",
    "--attr-source",
];

/// Global options of git that a prefix rule may leave open.
pub(super) const GIT_GLOBAL_HARMLESS: [&str; 7] = [
    "--no-pager",
    "--version",
    "--help",
    "--no-optional-locks",
    "--literal-pathspecs",
    "--no-replace-objects",
    "--no-lazy-fetch",
];

/// The table. Rows of one head add up.
const TABLES: [&[Guard]; 8] = [
    git::TABLE,
    text::TABLE,
    net::TABLE,
    native::TABLE,
    javascript::TABLE,
    python::TABLE,
    managed::TABLE,
    scripting::TABLE,
];

fn table() -> impl Iterator<Item = &'static Guard> {
    TABLES.into_iter().flatten()
}

/// The rows that concern a command.
pub(super) fn rows(head: &str) -> impl Iterator<Item = &'static Guard> + '_ {
    table().filter(move |guard| guard.heads.contains(&head))
}

/// Whether a prefix rule on a tool covers nothing but the rule's own words.
pub(in super::super) fn needs_exact_rule(head: &str, subcommand: Option<&str>) -> bool {
    rows(head).any(|guard| {
        let applies = guard.subcommands.is_empty()
            || subcommand.is_some_and(|name| guard.subcommands.contains(&name));
        applies && guard.extra == Extra::ExactOnly
    })
}

/// The table as a person reads it: the tools, and the options that a prefix rule on them does not cover.
#[must_use]
pub fn guarded_options() -> Vec<(String, Vec<&'static str>)> {
    table()
        .map(|guard| {
            let tools = [guard.heads.join(", "), guard.subcommands.join(", ")];
            let options = [guard.refused, guard.writes, guard.inside].concat();
            (tools.join(" ").trim_end().to_owned(), options)
        })
        .filter(|(_, options)| !options.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_row_lists_options_that_nobody_looks_at() {
        for guard in table() {
            let lists = [guard.refused, guard.writes, guard.inside, guard.known];
            let letters = [guard.flags, guard.valued, guard.numeric];
            let is_read_by_itself = matches!(
                guard.extra,
                Extra::Subcommands(_)
                    | Extra::GitConfig
                    | Extra::Xxd
                    | Extra::Sed
                    | Extra::Awk
                    | Extra::WholeInterpreter
            );
            let is_empty = lists.iter().all(|list| list.is_empty())
                && letters.iter().all(|letters| letters.is_empty());
            assert!(!is_read_by_itself || is_empty, "{:?}", guard.heads);
        }
    }

    #[test]
    fn every_entry_is_an_option_and_every_row_has_a_head() {
        for guard in table() {
            assert!(!guard.heads.is_empty());
            for option in guard.refused.iter().chain(guard.writes).chain(guard.inside) {
                assert!(option.starts_with('-') && option.len() > 1, "{option}");
            }
            for option in guard.known {
                let short = option.len() > 3 && option[2..].starts_with('=');
                assert!(
                    option.starts_with("--") || short || guard.style == Style::Words,
                    "{option}"
                );
            }
            for letter in guard.flags.chars().chain(guard.valued.chars()) {
                let option = format!("-{letter}");
                let guarded = [guard.refused, guard.writes, guard.inside].concat();
                assert!(
                    !guarded.contains(&option.as_str()),
                    "{option} of {:?}",
                    guard.heads
                );
            }
        }
    }
}
