//! A command line in front of the truth table: each row is a method that returns the refusal it stands for.

use std::collections::BTreeSet;
use std::path::Path;

use super::super::explain::{self, Refused};
use super::super::files::{self, Access, File};
use super::super::rule::Specifier;
use super::super::{Facts, Mode, PathFacts, Policy, Rule, paths};
use super::deny_views::{Views, views};
use super::options::{commands_behind, inspect};
use super::words::Word;
use super::wrappers::{behind_transparent, is_state_builtin};
use super::{Analysis, Step, Target, analyse, readonly, touched};

/// Names that may be assigned for one command: they change how it reports, not what it runs.
const HARMLESS_NAMES: [&str; 13] = [
    "CI",
    "NODE_ENV",
    "RUST_BACKTRACE",
    "RUST_LOG",
    "NO_COLOR",
    "FORCE_COLOR",
    "CLICOLOR",
    "CARGO_TERM_COLOR",
    "LANG",
    "LC_ALL",
    "TZ",
    "PYTHONUNBUFFERED",
    "PYTHONDONTWRITEBYTECODE",
];

/// Most paths that facts are gathered for.
const MAX_QUERIES: usize = 2048;

type Row = Result<(), Box<Refused>>;
/// The allow rules that decided, or why none did.
type Used<'a> = Result<Vec<&'a Rule>, Box<Refused>>;

/// A line that may run under some rule.
pub(in super::super) struct Line<'a> {
    analysis: Analysis,
    views: Views,
    facts: &'a Facts,
    policy: &'a Policy,
}

impl<'a> Line<'a> {
    /// Analyses a line; the refusal is one that no rule lifts.
    pub(in super::super) fn read(
        command: &str,
        facts: &'a Facts,
        policy: &'a Policy,
    ) -> Result<Self, Box<Refused>> {
        let workspace = workspace(policy);
        let analysis = analyse(command, workspace).map_err(|refusal| {
            Refused::new("shell", format!("the command holds {}", refusal.construct))
        })?;
        Ok(Self {
            views: views(&analysis, workspace),
            analysis,
            facts,
            policy,
        })
    }

    /// Every analysed line: this one and those in text for shells.
    fn analyses(&self) -> impl Iterator<Item = &Analysis> {
        std::iter::once(&self.analysis).chain(&self.views.nested)
    }

    /// Row 1 and 2: deny rules on commands, and on the files that the line names.
    pub(in super::super) fn deny(&self) -> Row {
        for rule in self.policy.deny.iter().filter(|rule| rule.tool() == "Bash") {
            let hit = match rule.specifier() {
                Specifier::Whole => Some("every command".to_owned()),
                Specifier::Words { words, prefix } => self
                    .views
                    .all
                    .iter()
                    .find(|view| view.matches(words, *prefix))
                    .map(|view| show(std::iter::once(view.head()).chain(view.arguments()))),
                Specifier::Path(_) | Specifier::Domain(_) | Specifier::Server(_) => None,
            };
            if let Some(what) = hit {
                return Err(files::denied(rule, &what));
            }
        }
        self.deny_paths()?;
        let relevant = self
            .policy
            .deny
            .iter()
            .find(|rule| matches!(rule.tool(), "Bash" | "Read" | "Edit" | "Write"));
        if let (Some(rule), Some(construct)) = (relevant, &self.views.unknown) {
            let mut refused = Refused::new(
                "rule",
                format!(
                    "the command holds {construct}, so a deny rule that matches cannot be ruled out"
                ),
            );
            refused.rule = Some(rule.clone());
            return Err(refused);
        }
        Ok(())
    }

    fn deny_paths(&self) -> Row {
        for target in self.analyses().flat_map(|analysis| &analysis.targets) {
            let access = if target.writes {
                Access::Write
            } else {
                Access::Read
            };
            self.deny_path(access, &target.dirs, &target.word.text)?;
            // Any word that names a file which must not be read is refused, this one too.
            self.deny_named(Access::Read, &target.dirs, &target.word.text)?;
        }
        let has_paths = |rule: &Rule| matches!(rule.specifier(), Specifier::Path(_));
        if !self.policy.deny.iter().any(has_paths) {
            return Ok(());
        }
        for step in self.analyses().flat_map(|analysis| &analysis.steps) {
            let writes = step
                .words
                .iter()
                .any(|word| touched::is_writing(&word.text));
            for word in step.words.iter().filter(|word| word.glob) {
                self.deny_glob(&step.dirs, word)?;
            }
            for part in step.words.iter().flat_map(touched::paths_in) {
                self.deny_named(Access::Read, &step.dirs, part)?;
                if writes {
                    self.deny_named(Access::Write, &step.dirs, part)?;
                }
            }
        }
        Ok(())
    }

    /// A glob that could expand to a file under a deny rule.
    fn deny_glob(&self, dirs: &[String], word: &Word) -> Row {
        for path in dirs.iter().map(|dir| paths::lexical(dir, &word.text)) {
            if let Some(rule) = files::deny_rule_meeting(Path::new(&path), self.policy) {
                return Err(files::denied(
                    rule,
                    &format!("what {} may expand to", explain::quote(&word.text)),
                ));
            }
        }
        Ok(())
    }

    fn deny_path(&self, access: Access, dirs: &[String], path: &str) -> Row {
        for dir in dirs {
            let forms = touched::forms(dir, path, self.facts);
            let forms: Vec<&Path> = forms.iter().map(AsRef::as_ref).collect();
            if let Some(rule) = files::deny_rule(access, &forms, self.policy) {
                return Err(files::denied(rule, &explain::quote(path)));
            }
        }
        Ok(())
    }

    /// As `deny_path` for a word that may be a path: a rule on the whole tool says nothing about words.
    fn deny_named(&self, access: Access, dirs: &[String], path: &str) -> Row {
        match self.deny_path(access, dirs, path) {
            Err(refused)
                if refused
                    .rule
                    .as_ref()
                    .is_some_and(|rule| *rule.specifier() != Specifier::Whole) =>
            {
                Err(refused)
            }
            _ => Ok(()),
        }
    }

    /// Row 4: removal of what must stay.
    pub(in super::super) fn critical(&self) -> Row {
        let roots = &self.policy.roots;
        let mut commands = self.views.commands.iter();
        match commands.find_map(|command| touched::critical_removal(command, self.facts, roots)) {
            Some(word) => Err(Refused::new(
                "critical",
                format!(
                    "removing {} would take the root, a home, the working directory or one above it",
                    explain::quote(&word.text)
                ),
            )),
            None => Ok(()),
        }
    }

    /// Row 5a: never-paths named by redirections and by commands that write.
    pub(in super::super) fn never(&self) -> Row {
        for target in self.analyses().flat_map(|analysis| &analysis.targets) {
            for dir in &target.dirs {
                self.target_never(target, dir)?;
            }
        }
        for command in &self.views.commands {
            let roots = &self.policy.roots;
            let named = touched::never_path(command, self.facts, roots).cloned();
            let named = named.or_else(|| touched::never_by_option(command, self.facts, roots));
            if let Some(word) = named {
                return Err(Refused::new(
                    "protected",
                    format!(
                        "{} names a path that is never written",
                        explain::quote(&word.text)
                    ),
                ));
            }
        }
        Ok(())
    }

    /// Whether the whole shell is granted, by the mode or by a rule.
    pub(in super::super) fn whole_shell(&self) -> Option<&'a Rule> {
        self.policy
            .allow
            .iter()
            .find(|rule| rule.tool() == "Bash" && *rule.specifier() == Specifier::Whole)
    }

    /// A construct that only a grant of the whole shell covers.
    pub(in super::super) fn unknown(&self) -> Row {
        match &self.analysis.unknown {
            Some(construct) => Err(Refused::new(
                "shell",
                format!(
                    "the command holds {construct}, which is not analysed, so no rule can cover it"
                ),
            )),
            None => Ok(()),
        }
    }

    /// Row 6 in mode `plan`: every command in the table of reading ones, no file opened for writing.
    pub(in super::super) fn reads_only(&self) -> Row {
        self.unknown()?;
        if let Some(target) = self.analysis.targets.iter().find(|target| target.writes) {
            let why = format!(
                "the redirection to {} writes a file",
                explain::quote(&target.word.text)
            );
            return Err(Refused::new("mode", why));
        }
        for step in &self.analysis.steps {
            harmless_assignments(step)?;
            let mut words = step.words.as_slice();
            while let Some(inner) = behind_transparent(words) {
                words = &words[inner..];
            }
            readonly::check(words).map_err(|why| Refused::new("mode", why))?;
        }
        Ok(())
    }

    /// Row 8: the rules for every command and every file, in the order of the line.
    pub(in super::super) fn covered(&self) -> Used<'a> {
        self.unknown()?;
        let mut used = Vec::new();
        for step in &self.analysis.steps {
            used.extend(self.covers(step)?);
        }
        for target in &self.analysis.targets {
            let access = if target.writes {
                Access::Write
            } else {
                Access::Read
            };
            let file = self.file(access, &target.word.text, &target.dirs);
            used.extend(file.map_err(|refused| of_redirection(refused, target))?);
        }
        if used.is_empty() {
            return Err(Refused::new("shell", "the command is empty"));
        }
        Ok(used)
    }

    fn covers(&self, step: &Step) -> Used<'a> {
        harmless_assignments(step)?;
        // The reason of the last rule that matches but for what it leaves open beats "no rule".
        let mut reason = None;
        let mut words = step.words.as_slice();
        loop {
            for rule in &self.policy.allow {
                match self.grants(rule, words, step) {
                    Some(Ok(mut used)) => {
                        self.moves(step)?;
                        used.insert(0, rule);
                        return Ok(used);
                    }
                    Some(Err(refused)) => reason = Some(refused),
                    None => {}
                }
            }
            match behind_transparent(words) {
                Some(inner) => words = &words[inner..],
                None => break,
            }
        }
        let head = words.first().map_or("", |word| word.text.as_str());
        if is_state_builtin(head) {
            let why = format!(
                "`{head}` changes the shell or evaluates its arguments, and only a rule for the whole of `Bash` opens it"
            );
            return Err(Refused::new("shell", why));
        }
        Err(reason.unwrap_or_else(|| {
            Refused::uncovered(
                self.policy.mode,
                &show(step.words.iter()),
                exact_rule(&step.words),
            )
        }))
    }

    /// Whether a rule covers a command: not at all, but for something, or wholly.
    fn grants(&self, rule: &Rule, words: &[Word], step: &Step) -> Option<Used<'a>> {
        let Specifier::Words {
            words: fixed,
            prefix,
        } = rule.specifier()
        else {
            return None;
        };
        let same = |(word, fixed): (&Word, &String)| word.literal() == Some(fixed.as_str());
        let matches = words.len() >= fixed.len()
            && (*prefix || words.len() == fixed.len())
            && words.iter().zip(fixed).all(same);
        if !matches || is_state_builtin(&fixed[0]) {
            return None;
        }
        Some(if *prefix {
            self.guarded(rule, words, fixed.len(), step)
        } else {
            Ok(Vec::new())
        })
    }

    /// The rules that cover the files which options write.
    fn guarded(&self, rule: &Rule, words: &[Word], named: usize, step: &Step) -> Used<'a> {
        let found = inspect(words, named);
        if let Some(what) = found.refused {
            let why = format!("the rule `{rule}` does not cover {what}");
            return Err(Refused::new("option", why).with_candidate(exact_rule(words)));
        }
        let mut used = Vec::new();
        for word in &found.writes {
            used.extend(self.file(Access::Write, &word.text, &step.dirs)?);
        }
        for word in &found.inside {
            for dir in &step.dirs {
                let key = paths::join(dir, &word.text);
                let lexical = paths::lexical(dir, &word.text);
                let physical = self.facts.get(&key).map(|facts| facts.physical.as_path());
                let inside = |path: &Path| path.starts_with(&self.policy.roots.workspace);
                if !inside(Path::new(&lexical)) || !physical.is_none_or(inside) {
                    let why = format!(
                        "the rule `{rule}` does not cover {}, which lies outside the workspace",
                        explain::quote(&word.text)
                    );
                    return Err(Refused::new("option", why).with_candidate(exact_rule(words)));
                }
            }
        }
        Ok(used)
    }

    /// `cd` has to stay inside the workspace.
    fn moves(&self, step: &Step) -> Row {
        for reached in step.cd.iter().flatten().flatten() {
            let inside = |path: &Path| self.policy.roots.holds(path);
            let physical = self
                .facts
                .get(reached)
                .map(|facts| facts.physical.as_path());
            if !inside(Path::new(reached)) || !physical.is_none_or(inside) {
                return Err(Refused::new("outside", "`cd` leads outside the workspace"));
            }
        }
        Ok(())
    }

    /// A file that the line opens needs a rule of its own, under every directory it may mean.
    fn file(&self, access: Access, given: &str, dirs: &[String]) -> Used<'a> {
        paths::check(given).map_err(|why| {
            Refused::new("path", format!("the path {} {why}", explain::quote(given)))
        })?;
        let mut used = Vec::new();
        for dir in dirs {
            let Some(facts) = self.facts.get(&paths::join(dir, given)) else {
                let why = format!("nobody could tell where {} leads", explain::quote(given));
                return Err(Refused::new("path", why));
            };
            let file = File {
                access,
                given,
                facts,
                policy: self.policy,
            };
            file.deny()?;
            file.never()?;
            file.kind()?;
            file.protected()?;
            file.outside()?;
            let Some(rule) = file.allow_rule() else {
                return Err(file.uncovered());
            };
            let own = &self.policy.allow;
            used.extend(own.iter().find(|known| std::ptr::eq(*known, rule)));
        }
        Ok(used)
    }

    /// Row 5a for a redirection: by what its text says, and by where it leads if that is known.
    fn target_never(&self, target: &Target, dir: &str) -> Row {
        let given = target.word.text.as_str();
        let lexical = PathFacts::by_text(paths::lexical(dir, given).into());
        let known = self.facts.get(&paths::join(dir, given));
        for facts in std::iter::once(&lexical).chain(known) {
            File {
                access: if target.writes {
                    Access::Write
                } else {
                    Access::Read
                },
                given,
                facts,
                policy: self.policy,
            }
            .never()?;
        }
        Ok(())
    }
}

/// The paths that the decision on a line depends on.
pub(in super::super) fn queries(command: &str, policy: &Policy) -> Vec<String> {
    let Ok(analysis) = analyse(command, workspace(policy)) else {
        return Vec::new();
    };
    let views = views(&analysis, workspace(policy));
    let mut queries = BTreeSet::new();
    let mut add = |dirs: &[String], path: &str| {
        for dir in dirs {
            if queries.len() < MAX_QUERIES && paths::check(path).is_ok() {
                queries.insert(paths::join(dir, path));
            }
        }
    };
    let has_deny_paths = policy
        .deny
        .iter()
        .any(|rule| matches!(rule.specifier(), Specifier::Path(_)));
    for analysis in std::iter::once(&analysis).chain(&views.nested) {
        for target in &analysis.targets {
            add(&target.dirs, &target.word.text);
        }
    }
    for analysis in std::iter::once(&analysis).chain(&views.nested) {
        for step in &analysis.steps {
            for reached in step.cd.iter().flatten().flatten() {
                add(&[String::from("/")], reached);
            }
            let mut words = step.words.as_slice();
            loop {
                let behind = commands_behind(words);
                for start in std::iter::once(0).chain(behind) {
                    let found = inspect(&words[start..], 1);
                    for word in found.writes.iter().chain(&found.inside) {
                        add(&step.dirs, &word.text);
                    }
                }
                match behind_transparent(words) {
                    Some(inner) => words = &words[inner..],
                    None => break,
                }
            }
            if has_deny_paths
                || step
                    .words
                    .iter()
                    .any(|word| touched::is_writing(super::wrappers::basename(&word.text)))
            {
                for part in step.words.iter().flat_map(touched::paths_in) {
                    add(&step.dirs, part);
                }
            }
        }
    }
    queries.into_iter().collect()
}

/// The refusal of a file, told of the redirection that opens it: a rule for the command is no rule for the file.
fn of_redirection(mut refused: Box<Refused>, target: &Target) -> Box<Refused> {
    if refused.class == "no_rule" {
        refused.why = format!(
            "the redirection {} {} needs a rule of its own, and no allow rule covers that file",
            if target.writes { "to" } else { "from" },
            explain::quote(&target.word.text)
        );
    }
    refused
}

/// Assignments before a command may only name what changes its reports.
fn harmless_assignments(step: &Step) -> Row {
    for assignment in &step.assignments {
        let name = assignment
            .name_before("=")
            .map_or("", |length| &assignment.text[..length]);
        if !HARMLESS_NAMES.contains(&name) {
            let why = format!(
                "the assignment of {} may change what a command loads or runs",
                explain::quote(name)
            );
            return Err(Refused::new("shell", why));
        }
    }
    Ok(())
}

fn workspace(policy: &Policy) -> &str {
    policy
        .roots
        .workspace
        .to_str()
        .filter(|path| !path.is_empty())
        .unwrap_or("/")
}

fn show<'w>(words: impl Iterator<Item = &'w Word>) -> String {
    explain::quote(&explain::command(words.map(|word| word.text.as_str())))
}

/// The rule that covers exactly this command.
fn exact_rule(words: &[Word]) -> Option<String> {
    let literal: Option<Vec<&str>> = words.iter().map(Word::literal).collect();
    Some(format!("Bash({})", explain::command(literal?.into_iter())))
}

/// Whether the mode alone grants the whole shell.
pub(in super::super) fn mode_grants_shell(mode: Mode) -> bool {
    mode == Mode::BypassPermissions
}
