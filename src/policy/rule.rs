//! Rules as people write them: `Tool` or `Tool(specifier)`.
//!
//! A rule is parsed once, when the task is loaded; what it could mean by mistake is an error with a hint, not a rule
//! that quietly never matches or matches everything. The gate never sees a rule that is not valid.

use std::fmt;

use super::bash::{self, words};
use super::pattern::Pattern;
use super::url::Domain;
use crate::event::RuleRecord;

/// The tools that rules may name without being told.
const BUILT_IN: [&str; 8] = [
    "Read",
    "Glob",
    "Grep",
    "Edit",
    "Write",
    "Bash",
    "WebFetch",
    "WebSearch",
];

/// Where a rule stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// `task`, `policy`, `defaults`, `cli`.
    pub layer: String,
    /// The file, as a person would name it.
    pub file: String,
}

impl fmt::Display for Source {
    /// The layer and the file, as events and answers name it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.layer, self.file)
    }
}

/// Whether a rule allows or denies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Effect {
    /// It allows.
    Allow,
    /// It denies.
    Deny,
    /// It asks a person, in settings written for an interactive tool. Stands among the deny rules, as nobody is there
    /// to be asked: it denies, and the denial says that a person would have been asked.
    Ask,
}

/// A parsed rule. `Rule::parse(text, effect, source)` is the only door; `to_string` gives the text back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    text: String,
    source: Source,
    effect: Effect,
    tool: String,
    specifier: Specifier,
}

/// What stands in the parentheses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Specifier {
    /// Nothing: the whole tool.
    Whole,
    /// A command's words, and whether further words may follow.
    Words { words: Vec<String>, prefix: bool },
    /// A path pattern.
    Path(Pattern),
    /// A domain.
    Domain(Domain),
    /// Every tool of an MCP server.
    Server(String),
}

/// Why a rule is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct RuleError {
    /// What is wrong.
    pub message: String,
    /// What to write instead.
    pub hint: Option<String>,
}

fn error(message: impl Into<String>, hint: impl Into<String>) -> RuleError {
    RuleError {
        message: message.into(),
        hint: Some(hint.into()),
    }
}

impl From<&Rule> for RuleRecord {
    fn from(rule: &Rule) -> Self {
        Self {
            rule: rule.text().to_owned(),
            source: rule.source().to_string(),
        }
    }
}

impl Rule {
    /// Parses `Tool` or `Tool(specifier)` for a built-in or MCP tool.
    pub fn parse(text: &str, effect: Effect, source: Source) -> Result<Self, RuleError> {
        Self::parse_with(text, effect, source, &[])
    }

    /// As [`Rule::parse`]; `known` are further tools, which are named without a specifier.
    pub fn parse_with(
        text: &str,
        effect: Effect,
        source: Source,
        known: &[&str],
    ) -> Result<Self, RuleError> {
        let (tool, inner) = split(text)?;
        let specifier = match tool {
            "Bash" => bash_specifier(inner, effect)?,
            "Read" | "Glob" | "Grep" | "Edit" | "Write" => path_specifier(tool, inner)?,
            "WebFetch" => domain_specifier(inner)?,
            "WebSearch" => without_specifier(tool, inner)?,
            name if name.starts_with("mcp__") => mcp_specifier(name, inner)?,
            name if known.contains(&name) => without_specifier(name, inner)?,
            name => return Err(unknown_tool(name, known)),
        };
        Ok(Self {
            text: text.to_owned(),
            source,
            effect,
            tool: tool.to_owned(),
            specifier,
        })
    }

    /// The rule as written.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Where it stands.
    #[must_use]
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// What it does.
    #[must_use]
    pub fn effect(&self) -> Effect {
        self.effect
    }

    /// The tool it names.
    #[must_use]
    pub fn tool(&self) -> &str {
        &self.tool
    }

    /// What stands in the parentheses, as written.
    pub(super) fn inner(&self) -> Option<&str> {
        let (_, rest) = self.text.split_once('(')?;
        rest.strip_suffix(')')
    }

    pub(super) fn specifier(&self) -> &Specifier {
        &self.specifier
    }

    /// Whether the rule names a tool of this name, when no specifier has to be looked at.
    pub(super) fn names_tool(&self, name: &str) -> bool {
        match &self.specifier {
            Specifier::Whole => self.tool == name,
            Specifier::Server(server) => mcp_server(name) == Some(server.as_str()),
            Specifier::Words { .. } | Specifier::Path(_) | Specifier::Domain(_) => false,
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The server part of an MCP tool's name.
fn mcp_server(tool: &str) -> Option<&str> {
    let (server, name) = tool.strip_prefix("mcp__")?.split_once("__")?;
    let ascii = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_graphic());
    (ascii(server) && ascii(name)).then_some(server)
}

fn split(text: &str) -> Result<(&str, Option<&str>), RuleError> {
    if text.is_empty() {
        return Err(error(
            "the rule is empty",
            "write `Tool` or `Tool(specifier)`",
        ));
    }
    let Some((tool, rest)) = text.split_once('(') else {
        if text.contains(')') {
            return Err(error(
                format!("`{text}` has `)` without `(`"),
                "write `Tool` or `Tool(specifier)`",
            ));
        }
        return Ok((text, None));
    };
    match rest.strip_suffix(')') {
        Some(inner) => Ok((tool, Some(inner))),
        None if rest.contains(')') => Err(error(
            format!("`{text}` has text behind its closing parenthesis"),
            "end the rule with `)`",
        )),
        None => Err(error(
            format!("`{text}` is not closed"),
            "end the rule with `)`",
        )),
    }
}

fn unknown_tool(name: &str, known: &[&str]) -> RuleError {
    let message = format!("`{name}` is no tool that a rule can name");
    if name.to_ascii_lowercase().starts_with("ask") {
        return error(
            message,
            "there is no `ask`: nobody is there to be asked; allow the call or leave it denied",
        );
    }
    let same = BUILT_IN
        .iter()
        .chain(known)
        .find(|tool| tool.eq_ignore_ascii_case(name.trim()));
    match same {
        Some(tool) => error(
            message,
            format!("tool names are case sensitive: write `{tool}`"),
        ),
        None => error(
            message,
            format!(
                "write one of {}, or `mcp__SERVER__TOOL`",
                BUILT_IN.map(|tool| format!("`{tool}`")).join(", ")
            ),
        ),
    }
}

fn without_specifier(tool: &str, inner: Option<&str>) -> Result<Specifier, RuleError> {
    match inner {
        None => Ok(Specifier::Whole),
        Some(_) => Err(error(
            format!("`{tool}` takes no specifier"),
            format!("write `{tool}`"),
        )),
    }
}

fn path_specifier(tool: &str, inner: Option<&str>) -> Result<Specifier, RuleError> {
    let Some(inner) = inner else {
        return Ok(Specifier::Whole);
    };
    Pattern::parse(inner).map(Specifier::Path).map_err(|why| {
        let hint = if inner.starts_with('~') {
            "name the file system's root with two slashes: `//home/ci/..`"
        } else if inner.starts_with('!') {
            "put what must stay closed under `deny`"
        } else {
            "patterns are relative to the workspace: `src/**`, `docs/*.md`; `//` begins an absolute one"
        };
        error(format!("`{tool}({inner})`: {why}"), hint)
    })
}

fn domain_specifier(inner: Option<&str>) -> Result<Specifier, RuleError> {
    let Some(inner) = inner else {
        return Ok(Specifier::Whole);
    };
    Domain::parse(inner).map(Specifier::Domain).map_err(|why| {
        let host = Domain::meant_by(inner).unwrap_or_else(|| "example.org".to_owned());
        error(
            format!("`WebFetch({inner})`: {why}"),
            format!("a rule names a host, without scheme, port and path: write `WebFetch(domain:{host})`, or `WebFetch(domain:*.{host})` for what lies below it"),
        )
    })
}

fn mcp_specifier(name: &str, inner: Option<&str>) -> Result<Specifier, RuleError> {
    let hint = "write `mcp__SERVER`, `mcp__SERVER__*` or `mcp__SERVER__TOOL`";
    if inner.is_some() {
        return Err(error(format!("`{name}` takes no specifier"), hint));
    }
    let part = |text: &str| {
        !text.is_empty()
            && text
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'))
    };
    let body = &name["mcp__".len()..];
    match body.split_once("__") {
        None if part(body) => Ok(Specifier::Server(body.to_owned())),
        Some((server, "*")) if part(server) => Ok(Specifier::Server(server.to_owned())),
        Some((server, tool)) if part(server) && part(tool) => Ok(Specifier::Whole),
        _ => Err(error(format!("`{name}` names no MCP tool"), hint)),
    }
}

fn bash_specifier(inner: Option<&str>, effect: Effect) -> Result<Specifier, RuleError> {
    let Some(inner) = inner else {
        return Ok(Specifier::Whole);
    };
    if inner == "*" {
        return Ok(Specifier::Whole);
    }
    let fail = |why: String, hint: &str| Err(error(format!("`Bash({inner})`: {why}"), hint));
    let prefix = inner
        .strip_suffix(":*")
        .or_else(|| inner.strip_suffix(" *"));
    let text = prefix.unwrap_or(inner);
    if text.contains('*') {
        return fail(
            "a `*` may only stand at the end of a Bash rule".into(),
            "write the words that are fixed, then `:*`, as in `Bash(npm run test:*)`",
        );
    }
    let words = match words::rule_words(text) {
        Ok(words) => words,
        Err(why) => {
            return fail(
                format!("the rule holds {why}"),
                if why == "an assignment" {
                    "write the rule without it: what may be assigned in front of a command is looked at apart"
                } else {
                    "a rule is made of literal words only; quote what is special"
                },
            );
        }
    };
    let Some(head) = words.first() else {
        return fail(
            "the rule names no command".into(),
            "write `Bash` to grant every command",
        );
    };
    if head.is_empty() || !head.is_ascii() {
        return fail(
            "the name of a command is ASCII and not empty".into(),
            "write the command as it is typed",
        );
    }
    if effect == Effect::Allow {
        if bash::wrappers::is_state_builtin(head) {
            return fail(
                format!(
                    "`{head}` changes the shell or evaluates its arguments, so no rule can open it alone"
                ),
                "write `Bash` to grant every command",
            );
        }
        if prefix.is_some() && bash::wrappers::grants_everything(&words) {
            return fail(
                "as a prefix this grants every command".into(),
                "name what it runs, as in `Bash(bash scripts/ci.sh:*)`, or write `Bash`",
            );
        }
    }
    Ok(Specifier::Words {
        words,
        prefix: prefix.is_some(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source() -> Source {
        Source {
            layer: "task".into(),
            file: "task.yaml".into(),
        }
    }

    fn parse(text: &str) -> Result<Rule, RuleError> {
        Rule::parse(text, Effect::Allow, source())
    }

    #[test]
    fn a_rule_gives_its_text_back() {
        for text in [
            "Read",
            "Read(src/**)",
            "Bash(npm run test:*)",
            "WebFetch(domain:*.x.org)",
            "mcp__a__b",
            "mcp__a__*",
        ] {
            assert_eq!(parse(text).unwrap().to_string(), text);
        }
    }

    proptest::proptest! {
        #[test]
        fn a_printed_command_is_a_rule_that_means_it(
            words in proptest::collection::vec("[ -~]{0,12}", 1..6),
            head in "[a-z][a-z0-9./_-]{0,8}",
            prefix: bool,
        ) {
            let words: Vec<String> = std::iter::once(head).chain(words).collect();
            let printed = crate::policy::explain::command(words.iter().map(String::as_str));
            let text = format!("Bash({printed}{})", if prefix { ":*" } else { "" });
            // What is quoted may hold a star; a bare one never stands in a printed command.
            let quotes_no_star = words.iter().all(|word| !word.contains('*'));
            if let (true, Ok(rule)) = (quotes_no_star, parse(&text)) {
                proptest::prop_assert_eq!(&rule.specifier, &Specifier::Words { words, prefix });
                proptest::prop_assert_eq!(parse(&rule.to_string()).unwrap(), rule);
            }
        }

        #[test]
        fn an_escaped_path_is_a_rule_that_means_it(path in "[ -~]{1,20}(/[ -~]{1,20}){0,3}") {
            let text = format!("Read({})", Pattern::escape(&path));
            if let Ok(rule) = parse(&text) {
                let Specifier::Path(pattern) = rule.specifier() else {
                    return Err(proptest::test_runner::TestCaseError::fail("no path"));
                };
                let components: Vec<&str> = path.split('/').filter(|name| !matches!(*name, "" | ".")).collect();
                if !path.starts_with("//") && !path.ends_with('/') {
                    proptest::prop_assert!(pattern.allows(&components), "{}", text);
                }
                proptest::prop_assert_eq!(parse(&rule.to_string()).unwrap(), rule);
            }
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in ".{0,60}") {
            let parsed = parse(&text);
            if let Ok(rule) = parsed {
                proptest::prop_assert_eq!(rule.to_string(), text);
            }
        }
    }

    #[test]
    fn both_spellings_of_a_prefix_are_one() {
        let specifier = |text: &str| parse(text).unwrap().specifier;
        assert_eq!(
            specifier("Bash(npm run test *)"),
            specifier("Bash(npm run test:*)")
        );
        assert_eq!(specifier("Bash(*)"), specifier("Bash"));
    }

    #[test]
    fn what_is_no_rule_is_an_error_with_a_hint() {
        for text in [
            "",
            "Bash()",
            "Bash(:*)",
            "Bash( *)",
            "Bash(a",
            "Bash(a)x",
            "bash(a)",
            "Bash(a * b)",
            "Bash(a*)",
            "Bash(a;b)",
            "Bash(a > b)",
            "Bash($X:*)",
            "Bash(A=1 a)",
            "Bash('a)",
            "Bash(a # b)",
            "Bash(a\nb)",
            "Bash(if a)",
            "Bash(bash:*)",
            "Bash(sh -c *)",
            "Bash(xargs:*)",
            "Bash(env:*)",
            "Bash(eval a)",
            "Bash(export A=1)",
            "Bash(~/x)",
            "Bash({a,b})",
            "Bash('')",
            "Read(~/x)",
            "Read(../x)",
            "Read(!x)",
            "Read([a)",
            "Read()",
            "WebFetch(domain:*)",
            "WebFetch(x)",
            "WebFetch()",
            "WebSearch(x)",
            "mcp__*",
            "mcp__a*",
            "mcp__",
            "mcp__a__b(c)",
            "Ask(Bash)",
            "Task",
            "Read2",
            "*",
            " Read",
            "Read )",
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.hint.is_some(), "{text}");
        }
    }

    #[test]
    fn what_would_grant_everything_may_be_denied() {
        for text in ["Bash(sudo:*)", "Bash(bash:*)", "Bash(eval:*)"] {
            assert!(Rule::parse(text, Effect::Deny, source()).is_ok(), "{text}");
        }
    }

    #[test]
    fn a_registered_tool_is_named_whole() {
        assert!(Rule::parse_with("Deploy", Effect::Allow, source(), &["Deploy"]).is_ok());
        assert!(Rule::parse_with("Deploy(x)", Effect::Allow, source(), &["Deploy"]).is_err());
        let error = parse("read").unwrap_err();
        assert!(error.hint.unwrap().contains("write `Read`"));
    }
}
