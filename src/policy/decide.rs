//! The truth table: the first row that matches wins.
//!
//! | row | condition | answer |
//! |---|---|---|
//! | 0 | the input itself is a trick or cannot be read | deny |
//! | 1, 2 | a deny rule matches, or an ask with nobody to ask | deny |
//! | 3 | the call needs a person | deny |
//! | 4 | critical removal | deny |
//! | 5a | a never-path | deny |
//! | 5b | a protected path or a secret that no rule names literally | deny |
//! | 5c | a file outside, and no absolute rule | deny |
//! | 6 | the mode allows the class (`acceptEdits`, `bypassPermissions`) or forbids it (`plan`) | allow / deny |
//! | 7 | a reading tool inside the workspace, but not in `strict` | allow |
//! | 8 | an allow rule matches | allow |
//! | 9 | otherwise | deny |
//!
//! This file is the only place that can make a [`Permit`].

use std::path::Path;
use std::sync::Arc;

use serde_json::Value;

use super::bash::judge::{self, Line};
use super::explain::{self, Refused};
use super::files::{self, Access, File};
use super::rule::{Effect, Source, Specifier};
use super::{Action, Call, Denial, Facts, Mode, PathFacts, Policy, Rule, paths, protect, url};

/// The right to run one call. Only [`decide`] makes one; a tool takes its input from here, so what runs is what was decided on.
#[derive(Debug, Clone)]
pub struct Permit {
    tool: String,
    input: Value,
    facts: Facts,
    policy: Arc<Policy>,
    rules: Vec<Rule>,
    reason: String,
    search: Option<Access>,
}

impl Permit {
    /// The tool it was given for.
    #[must_use]
    pub fn tool(&self) -> &str {
        &self.tool
    }

    /// The input that was decided on.
    #[must_use]
    pub fn input(&self) -> &Value {
        &self.input
    }

    /// The facts that were decided on, for a path of the input.
    #[must_use]
    pub fn path(&self, query: &str) -> Option<&PathFacts> {
        self.facts.get(query)
    }

    /// Whether a search may show a file, by the Read rules; `facts` are the file's. A file under a deny rule, a secret
    /// that no rule names, a file outside or one that no rule covers in mode `strict` is left out, and so is the run
    /// directory: it holds the transcript of the very search.
    #[must_use]
    pub fn may_show(&self, facts: &PathFacts) -> bool {
        // A file is shown as if it had been read: a search rule covers what it finds, a Read rule too.
        let file = File {
            access: self.search.unwrap_or(Access::Read),
            given: "",
            facts,
            policy: &self.policy,
        };
        if protect::is_of_a_run(&facts.physical, &self.policy.roots) && !file.is_output() {
            return false;
        }
        let closed = || file.deny().and_then(|()| file.never());
        if closed().is_err() || file.kind().is_err() || secret(&file).is_err() {
            return false;
        }
        let freed = self.policy.mode.frees_reads() && file.is_inside();
        freed || file.is_output() || shown_by_rule(facts, self.search, &self.policy)
    }

    /// The workspace.
    #[must_use]
    pub fn workspace(&self) -> &Path {
        &self.policy.roots.workspace
    }

    /// The allow rule that decided, if one did: the first one for a command line of several.
    #[must_use]
    pub fn rule(&self) -> Option<&Rule> {
        self.rules.first()
    }

    /// Every allow rule that was needed, each once: a command line needs one for each command and each file.
    #[must_use]
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Why the call is allowed, in one sentence.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

/// A found file is a file: rules that merely overlap its directory do not show it.
fn shown_by_rule(facts: &PathFacts, search: Option<Access>, policy: &Policy) -> bool {
    let whole = paths::components(&facts.physical);
    let inside = paths::below(&policy.roots.workspace, &facts.physical);
    policy.allow.iter().any(|rule| {
        let covers =
            rule.tool() == "Read" || search.is_some_and(|access| access.tool() == rule.tool());
        covers
            && match rule.specifier() {
                Specifier::Whole => inside.is_some(),
                Specifier::Path(pattern) if pattern.absolute => whole
                    .as_ref()
                    .is_some_and(|components| pattern.allows(components)),
                Specifier::Path(pattern) => inside
                    .as_ref()
                    .is_some_and(|components| pattern.allows(components)),
                Specifier::Words { .. } | Specifier::Domain(_) | Specifier::Server(_) => false,
            }
    })
}

fn secret(file: &File<'_>) -> Result<(), Box<Refused>> {
    // Listing a secret's name is left out as well: the name is of no use without the content.
    File {
        access: Access::Read,
        ..*file
    }
    .protected()
}

/// Decides on a call. Total, pure, and never panics.
///
/// # Errors
/// The denial, with a rule that would allow just this call if there is one.
pub fn decide(call: &Call<'_>, facts: &Facts, policy: &Arc<Policy>) -> Result<Permit, Box<Denial>> {
    match table(call, facts, policy) {
        Ok(grounds) => Ok(Permit {
            tool: call.tool.to_owned(),
            input: call.input.clone(),
            facts: facts.clone(),
            policy: Arc::clone(policy),
            reason: grounds.sentence(policy.mode),
            rules: grounds.rules(),
            search: match call.action {
                Action::Glob { .. } => Some(Access::Glob),
                Action::Grep { .. } => Some(Access::Grep),
                _ => None,
            },
        }),
        Err(refused) => Err(Box::new(denial(call, facts, policy, *refused))),
    }
}

/// Why a call is allowed.
enum Grounds<'a> {
    Rule(&'a Rule),
    /// For a command line; at least one.
    Rules(Vec<&'a Rule>),
    Mode,
    Output,
}

impl Grounds<'_> {
    fn rules(&self) -> Vec<Rule> {
        match self {
            Self::Rule(rule) => vec![(*rule).clone()],
            Self::Rules(rules) => {
                let mut each: Vec<Rule> = Vec::new();
                for rule in rules {
                    if !each.contains(rule) {
                        each.push((*rule).clone());
                    }
                }
                each
            }
            Self::Mode | Self::Output => Vec::new(),
        }
    }

    fn sentence(&self, mode: Mode) -> String {
        match self {
            Self::Rules(_) => match self.rules().as_slice() {
                [rule] => Grounds::Rule(rule).sentence(mode),
                rules => {
                    let named: Vec<String> = rules.iter().map(|rule| format!("`{rule}`")).collect();
                    format!("the allow rules {} cover it", named.join(", "))
                }
            },
            Self::Rule(rule) => format!(
                "the allow rule `{rule}` of {} covers it",
                rule.source().file
            ),
            Self::Mode => format!("mode `{mode}` needs no rule for it"),
            Self::Output => "it is output of an earlier call of this attempt".to_owned(),
        }
    }
}

/// What the table is asked about.
enum Subject<'a> {
    File(File<'a>),
    Line(Box<Line<'a>>),
    Host(String),
    Human,
    Other,
}

type Row = Result<(), Box<Refused>>;

fn table<'a>(
    call: &'a Call<'_>,
    facts: &'a Facts,
    policy: &'a Policy,
) -> Result<Grounds<'a>, Box<Refused>> {
    whole_tool_denied(call, policy)?; // 1, before the input is looked at
    let subject = Subject::of(call, facts, policy)?; // 0
    subject.deny(policy)?; // 1, 2
    subject.human()?; // 3
    subject.critical()?; // 4
    subject.never()?; // 5a
    subject.protected()?; // 5b
    subject.outside()?; // 5c
    if policy.mode == Mode::Plan {
        subject.reads_only(call)?; // 6, forbidding
    }
    if subject.freed_by_mode(policy) {
        return Ok(Grounds::Mode); // 6 and 7
    }
    subject.allowed(call, policy) // 8 and 9
}

fn whole_tool_denied(call: &Call<'_>, policy: &Policy) -> Row {
    let rule = policy.deny.iter().find(|rule| rule.names_tool(call.tool));
    match rule {
        Some(rule) => Err(files::denied(rule, "every call of the tool")),
        None => Ok(()),
    }
}

impl<'a> Subject<'a> {
    /// Reads the action; refuses input that no rule could open.
    fn of(call: &'a Call<'_>, facts: &'a Facts, policy: &'a Policy) -> Result<Self, Box<Refused>> {
        let file = |access: Access, given: &'a str, query: &str| {
            let refuse = |why: &str| {
                Refused::new("path", format!("the path {} {why}", explain::quote(given)))
            };
            paths::check(given).map_err(|why| refuse(&why))?;
            let facts = facts
                .get(query)
                .ok_or_else(|| refuse("leads nobody could tell where"))?;
            Ok(Self::File(File {
                access,
                given,
                facts,
                policy,
            }))
        };
        match &call.action {
            Action::Read { path } => file(Access::Read, path, path),
            Action::Edit { path } => file(Access::Edit, path, path),
            Action::Write { path } => file(Access::Write, path, path),
            Action::Grep { root } => {
                let root = root.as_deref().unwrap_or(".");
                file(Access::Grep, root, root)
            }
            Action::Glob { root, pattern } => {
                if let Some(root) = root {
                    paths::check(root).map_err(|why| {
                        Refused::new("path", format!("the path {} {why}", explain::quote(root)))
                    })?;
                }
                // Alternatives too: a brace may hold a component.
                let mut components = pattern.split(['/', '{', '}', ',']);
                if components.any(|component| component == "..") {
                    return Err(Refused::new(
                        "path",
                        format!("the glob {} holds `..`", explain::quote(pattern)),
                    ));
                }
                if protect::is_kernel(Path::new(&paths::lexical("/", pattern)))
                    && pattern.starts_with('/')
                {
                    let why = format!(
                        "{} lies in `/proc`, `/sys` or `/dev`",
                        explain::quote(pattern)
                    );
                    return Err(Refused::new("path", why));
                }
                file(Access::Glob, pattern, &glob_query(root.as_deref(), pattern))
            }
            Action::Bash { command } => {
                Ok(Self::Line(Box::new(Line::read(command, facts, policy)?)))
            }
            Action::Fetch { url } => match url::host(url) {
                Ok(host) => Ok(Self::Host(host)),
                Err(why) => Err(Refused::new(
                    "url",
                    format!("the URL {} {why}", explain::quote(url)),
                )),
            },
            Action::Human => Ok(Self::Human),
            Action::Other => Ok(Self::Other),
        }
    }

    fn deny(&self, policy: &Policy) -> Row {
        match self {
            Self::File(file) => file.deny(),
            Self::Line(line) => line.deny(),
            Self::Host(host) => {
                let hit = policy.deny.iter().find(
                    |rule| matches!(rule.specifier(), Specifier::Domain(domain) if domain.denies(host)),
                );
                match hit {
                    Some(rule) => Err(files::denied(rule, &explain::quote(host))),
                    None => Ok(()),
                }
            }
            Self::Human | Self::Other => Ok(()),
        }
    }

    fn human(&self) -> Row {
        match self {
            Self::Human => {
                let mut refused = Refused::new("human", "it needs a person, and nobody is there");
                refused.would_ask = true;
                Err(refused)
            }
            Self::File(_) | Self::Line(_) | Self::Host(_) | Self::Other => Ok(()),
        }
    }

    fn critical(&self) -> Row {
        match self {
            Self::Line(line) => line.critical(),
            Self::File(_) | Self::Host(_) | Self::Human | Self::Other => Ok(()),
        }
    }

    fn never(&self) -> Row {
        match self {
            Self::File(file) => file.never().and_then(|()| file.kind()),
            Self::Line(line) => line.never(),
            Self::Host(_) | Self::Human | Self::Other => Ok(()),
        }
    }

    fn protected(&self) -> Row {
        match self {
            Self::File(file) => file.protected(),
            // A line's files are looked at with the rules that cover them.
            Self::Line(_) | Self::Host(_) | Self::Human | Self::Other => Ok(()),
        }
    }

    fn outside(&self) -> Row {
        match self {
            Self::File(file) => file.outside(),
            Self::Line(_) | Self::Host(_) | Self::Human | Self::Other => Ok(()),
        }
    }

    fn reads_only(&self, call: &Call<'_>) -> Row {
        match self {
            Self::Line(line) => line.reads_only(),
            Self::File(file) if !file.access.writes() => Ok(()),
            Self::Host(_) | Self::Other if call.read_only => Ok(()),
            Self::File(_) | Self::Host(_) | Self::Human | Self::Other => {
                Err(Refused::new("mode", "the call does more than read"))
            }
        }
    }

    fn freed_by_mode(&self, policy: &Policy) -> bool {
        let mode = policy.mode;
        match self {
            Self::File(file) => {
                let free = if file.access.writes() {
                    mode.frees_edits()
                } else {
                    mode.frees_reads()
                };
                free && file.is_inside()
            }
            Self::Line(_) => judge::mode_grants_shell(mode),
            Self::Host(_) | Self::Other => mode == Mode::BypassPermissions,
            Self::Human => false,
        }
    }

    fn allowed(&self, call: &Call<'_>, policy: &'a Policy) -> Result<Grounds<'a>, Box<Refused>> {
        let uncovered = |what: String, candidate: String| {
            Err(Refused::uncovered(policy.mode, &what, Some(candidate)))
        };
        match self {
            Self::File(file) if file.is_output() => Ok(Grounds::Output),
            Self::File(file) => file
                .allow_rule()
                .map(Grounds::Rule)
                .ok_or_else(|| file.uncovered()),
            Self::Line(line) => match line.whole_shell() {
                Some(rule) => Ok(Grounds::Rule(rule)),
                None => line.covered().map(Grounds::Rules),
            },
            Self::Host(host) => {
                let rule = policy.allow.iter().find(|rule| match rule.specifier() {
                    Specifier::Domain(domain) => domain.allows(host),
                    Specifier::Whole | Specifier::Server(_) => rule.names_tool(call.tool),
                    Specifier::Words { .. } | Specifier::Path(_) => false,
                });
                match rule {
                    Some(rule) => Ok(Grounds::Rule(rule)),
                    None => uncovered(explain::quote(host), format!("WebFetch(domain:{host})")),
                }
            }
            Self::Other => match policy.allow.iter().find(|rule| rule.names_tool(call.tool)) {
                Some(rule) => Ok(Grounds::Rule(rule)),
                None => uncovered(explain::quote(call.tool), call.tool.to_owned()),
            },
            Self::Human => Err(Refused::new(
                "human",
                "it needs a person, and nobody is there",
            )),
        }
    }
}

/// The directory that a glob starts in, as it is queried.
fn glob_query(root: Option<&str>, pattern: &str) -> String {
    let base = paths::glob_base(pattern);
    match root {
        Some(root) if base == "." => root.to_owned(),
        Some(root) => paths::join(root, &base),
        None => base,
    }
}

/// The paths that [`decide`] needs facts for, as the resolver has to look them up.
#[must_use]
pub fn queries(action: &Action, policy: &Policy) -> Vec<String> {
    let mut queries = match action {
        Action::Read { path } | Action::Edit { path } | Action::Write { path } => {
            vec![path.clone()]
        }
        Action::Grep { root } => vec![root.clone().unwrap_or_else(|| ".".to_owned())],
        Action::Glob { root, pattern } => {
            let mut queries = vec![root.clone().unwrap_or_else(|| ".".to_owned())];
            let base = glob_query(root.as_deref(), pattern);
            if !queries.contains(&base) {
                queries.push(base);
            }
            queries
        }
        Action::Bash { command } => judge::queries(command, policy),
        Action::Fetch { .. } | Action::Human | Action::Other => Vec::new(),
    };
    queries.retain(|path| paths::check(path).is_ok());
    queries
}

/// Makes the sentence, and proposes the candidate only if it would really do.
fn denial(call: &Call<'_>, facts: &Facts, policy: &Arc<Policy>, refused: Refused) -> Denial {
    let suggestion = refused
        .candidate
        .filter(|text| would_allow(text, call, facts, policy));
    let mut reason = format!(
        "{} denied in mode `{}`: {}",
        explain::quote(call.tool),
        policy.mode,
        refused.why
    );
    if let Some(rule) = &suggestion {
        reason.push_str("; ");
        reason.push_str(&explain::quote(rule));
        reason.push_str(" would");
        if refused.class != "no_rule" {
            reason.push_str(" allow it");
        }
    }
    Denial {
        class: refused.class,
        reason,
        rule: refused.rule,
        would_ask: refused.would_ask,
        suggestion,
    }
}

fn would_allow(text: &str, call: &Call<'_>, facts: &Facts, policy: &Arc<Policy>) -> bool {
    let source = Source {
        layer: "suggestion".to_owned(),
        file: "suggestion".to_owned(),
    };
    let Ok(rule) = Rule::parse_with(text, Effect::Allow, source, &[call.tool]) else {
        return false;
    };
    let mut wider = Policy::clone(policy);
    wider.allow.push(rule);
    table(call, facts, &wider).is_ok()
}

/// A permit that no gate has given, for the unit tests of tools.
#[cfg(test)]
pub(crate) fn permit_for_test(
    tool: &str,
    input: Value,
    facts: Facts,
    policy: Arc<Policy>,
) -> Permit {
    let search = match tool {
        "Glob" => Some(Access::Glob),
        "Grep" => Some(Access::Grep),
        _ => None,
    };
    Permit {
        tool: tool.to_owned(),
        input,
        facts,
        policy,
        rules: Vec::new(),
        reason: "a test says so".to_owned(),
        search,
    }
}
