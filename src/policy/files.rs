//! One access to one file, row by row of the truth table.

use std::path::Path;

use super::explain::{self, Refused};
use super::rule::{Effect, Specifier};
use super::{FileKind, PathFacts, Policy, Rule, paths, protect};

/// What a call does with a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Edit,
    Write,
    Glob,
    Grep,
}

impl Access {
    pub(super) fn tool(self) -> &'static str {
        match self {
            Self::Read => "Read",
            Self::Edit => "Edit",
            Self::Write => "Write",
            Self::Glob => "Glob",
            Self::Grep => "Grep",
        }
    }

    pub(super) fn writes(self) -> bool {
        match self {
            Self::Edit | Self::Write => true,
            Self::Read | Self::Glob | Self::Grep => false,
        }
    }

    fn searches(self) -> bool {
        match self {
            Self::Glob | Self::Grep => true,
            Self::Read | Self::Edit | Self::Write => false,
        }
    }

    /// Whether an allow rule on `tool` can cover this access.
    fn allowed_by(self, tool: &str) -> bool {
        match self {
            Self::Read => tool == "Read",
            Self::Glob => matches!(tool, "Read" | "Glob"),
            Self::Grep => matches!(tool, "Read" | "Grep"),
            Self::Edit => tool == "Edit",
            Self::Write => matches!(tool, "Edit" | "Write"),
        }
    }

    /// Whether a deny rule on `tool` closes this access: reading is an oracle for edits.
    pub(super) fn denied_by(self, tool: &str) -> bool {
        match self {
            Self::Read => tool == "Read",
            Self::Glob => matches!(tool, "Read" | "Glob"),
            Self::Grep => matches!(tool, "Read" | "Grep"),
            Self::Edit => matches!(tool, "Read" | "Edit" | "Write"),
            Self::Write => matches!(tool, "Edit" | "Write"),
        }
    }
}

/// The deny rule that closes a path to an access, on any of its forms.
pub(super) fn deny_rule<'p>(
    access: Access,
    forms: &[&Path],
    policy: &'p Policy,
) -> Option<&'p Rule> {
    policy.deny.iter().find(|rule| {
        access.denied_by(rule.tool())
            && match rule.specifier() {
                Specifier::Whole => true,
                Specifier::Path(pattern) => forms.iter().any(|path| {
                    let whole = paths::components(path);
                    let Some(whole) = whole.map(|components| paths::folded(&components)) else {
                        return true; // a name that cannot be compared cannot be ruled out
                    };
                    let whole: Vec<&str> = whole.iter().map(String::as_str).collect();
                    if pattern.absolute {
                        return pattern.denies(&whole);
                    }
                    match paths::below(&policy.roots.workspace, path) {
                        Some(inside) => pattern.denies(&whole[whole.len() - inside.len()..]),
                        None => pattern.denies_anywhere(&whole),
                    }
                }),
                Specifier::Words { .. } | Specifier::Domain(_) | Specifier::Server(_) => false,
            }
    })
}

/// The `Read` deny rule that a path with wildcards could expand into.
pub(super) fn deny_rule_meeting<'p>(glob: &Path, policy: &'p Policy) -> Option<&'p Rule> {
    let whole = paths::folded(&paths::components(glob)?);
    let whole: Vec<&str> = whole.iter().map(String::as_str).collect();
    let inside = paths::below(&policy.roots.workspace, glob).map(|inside| inside.len());
    policy.deny.iter().find(|rule| match rule.specifier() {
        Specifier::Path(pattern) if rule.tool() == "Read" => match inside {
            Some(length) if !pattern.absolute => pattern.meets(&whole[whole.len() - length..]),
            _ => pattern.absolute && pattern.meets(&whole),
        },
        _ => false,
    })
}

/// The refusal of a deny rule.
pub(super) fn denied(rule: &Rule, what: &str) -> Box<Refused> {
    let mut refused = Refused::new("rule", String::new());
    refused.would_ask = rule.effect() == Effect::Ask;
    refused.why = if refused.would_ask {
        format!(
            "the rule `ask: {rule}` of {} matches {what}, and nobody is there to be asked",
            rule.source().file
        )
    } else {
        format!(
            "the deny rule `{rule}` of {} matches {what}",
            rule.source().file
        )
    };
    refused.rule = Some(rule.clone());
    refused
}

/// An access in front of the table. Each row is a method that returns the refusal it stands for.
pub(super) struct File<'a> {
    pub(super) access: Access,
    /// As the model wrote it.
    pub(super) given: &'a str,
    pub(super) facts: &'a PathFacts,
    pub(super) policy: &'a Policy,
}

type Row = Result<(), Box<Refused>>;

impl<'a> File<'a> {
    fn forms(&self) -> [&'a Path; 2] {
        [&self.facts.lexical, &self.facts.physical]
    }

    fn shown(&self) -> String {
        explain::quote(self.given)
    }

    /// Row 1 and 2: deny rules, asks among them.
    pub(super) fn deny(&self) -> Row {
        match deny_rule(self.access, &self.forms(), self.policy) {
            Some(rule) => Err(denied(rule, &self.shown())),
            None => Ok(()),
        }
    }

    /// Row 5a: what nobody writes, and what nobody opens.
    pub(super) fn never(&self) -> Row {
        let roots = &self.policy.roots;
        let forms = self.forms();
        if forms.iter().any(|path| protect::is_closed(path, roots)) {
            let why = format!(
                "{} is a command file of the CI runner or holds a key, closed in every mode",
                self.shown()
            );
            return Err(Refused::new("protected", why));
        }
        if self.access.writes()
            && forms
                .iter()
                .any(|path| protect::is_never_written(path, roots))
        {
            let why = format!(
                "{} is never written, whatever the rules (git data, task files, the runner's configuration and results)",
                self.shown()
            );
            return Err(Refused::new("protected", why));
        }
        Ok(())
    }

    /// What stands at the path: links that mislead, files that are none.
    pub(super) fn kind(&self) -> Row {
        let refuse = |why: &str| Err(Refused::new("path", format!("{} {why}", self.shown())));
        if self.forms().iter().any(|path| path.to_str().is_none()) {
            return refuse("leads to a name that is no UTF-8, which no rule can be compared with");
        }
        if self.facts.dotdot_after_link {
            return refuse("has a `..` behind a symbolic link");
        }
        if self.facts.dangling {
            return refuse("is a symbolic link that leads nowhere");
        }
        if self.forms().iter().any(|path| protect::is_kernel(path)) {
            return refuse("lies in `/proc`, `/sys` or `/dev`");
        }
        match self.facts.kind {
            FileKind::Special => refuse("is a pipe, a socket or a device"),
            FileKind::Directory if !self.access.searches() => refuse("is a directory"),
            FileKind::File if self.access.writes() && self.facts.links > 1 => refuse(
                "has more than one name (hard links), so writing it could change a file elsewhere",
            ),
            FileKind::Missing if self.access == Access::Grep => refuse("does not exist"),
            FileKind::Directory | FileKind::File | FileKind::Missing => Ok(()),
        }
    }

    /// Row 5b: what only a rule that names it opens.
    pub(super) fn protected(&self) -> Row {
        let roots = &self.policy.roots;
        if self.access.writes() {
            for path in self.forms() {
                let Some(index) = protect::literal_up_to(path, roots) else {
                    continue;
                };
                let skipped = paths::below(&roots.workspace, path).map_or(0, |inside| {
                    paths::components(path).map_or(0, |all| all.len() - inside.len())
                });
                let named = self.rules_for(path).any(|(_, pattern)| {
                    pattern.literal_up_to(if pattern.absolute {
                        index
                    } else {
                        index - skipped
                    })
                });
                if !named {
                    let why = format!(
                        "{} runs code or steers agents later, and no allow rule names it without a wildcard",
                        self.shown()
                    );
                    return Err(Refused::new("protected", why).with_candidate(self.candidate()));
                }
            }
        }
        if matches!(self.access, Access::Read | Access::Grep | Access::Edit) {
            let secret = self
                .forms()
                .iter()
                .any(|path| protect::is_secret(path, roots));
            let named = self
                .rules_for(&self.facts.physical)
                .any(|(_, pattern)| pattern.ends_literally());
            if secret && !named {
                let why = format!(
                    "{} may hold a credential, and no allow rule names its file without a wildcard",
                    self.shown()
                );
                return Err(Refused::new("protected", why).with_candidate(self.candidate()));
            }
        }
        Ok(())
    }

    /// Whether the file lies where the mode may free it.
    pub(super) fn is_inside(&self) -> bool {
        self.policy.roots.holds(&self.facts.physical)
    }

    /// Whether the file is output of an earlier call, which may always be read again.
    pub(super) fn is_output(&self) -> bool {
        !self.access.writes()
            && self
                .policy
                .roots
                .output
                .as_ref()
                .is_some_and(|root| self.facts.physical.starts_with(root))
    }

    /// Row 5c: outside of everything, and no absolute rule.
    pub(super) fn outside(&self) -> Row {
        if self.is_inside() || self.is_output() || self.allow_rule().is_some() {
            return Ok(());
        }
        let why = format!(
            "{} leads outside the workspace, and no absolute allow rule (`//..`) covers it",
            self.shown()
        );
        Err(Refused::new("outside", why).with_candidate(self.candidate()))
    }

    /// Row 8: the allow rule that covers the physical path.
    pub(super) fn allow_rule(&self) -> Option<&'a Rule> {
        let inside = paths::below(&self.policy.roots.workspace, &self.facts.physical);
        let whole = || {
            self.policy.allow.iter().find(|rule| {
                *rule.specifier() == Specifier::Whole && self.access.allowed_by(rule.tool())
            })
        };
        if self.access.searches() {
            let all = paths::components(&self.facts.physical)?;
            let overlapping =
                self.path_rules()
                    .find(|(_, pattern)| match (&inside, pattern.absolute) {
                        (_, true) => pattern.overlaps(&all),
                        (Some(inside), false) => pattern.overlaps(inside),
                        (None, false) => false,
                    });
            return overlapping
                .map(|(rule, _)| rule)
                .or_else(|| inside.as_ref().and_then(|_| whole()));
        }
        let matching = self.rules_for(&self.facts.physical).next();
        matching
            .map(|(rule, _)| rule)
            .or_else(|| inside.as_ref().and_then(|_| whole()))
    }

    fn path_rules(&self) -> impl Iterator<Item = (&'a Rule, &'a super::pattern::Pattern)> {
        let access = self.access;
        self.policy
            .allow
            .iter()
            .filter_map(move |rule| match rule.specifier() {
                Specifier::Path(pattern) if access.allowed_by(rule.tool()) => Some((rule, pattern)),
                _ => None,
            })
    }

    /// The allow rules whose pattern covers exactly this path.
    fn rules_for(
        &self,
        path: &'a Path,
    ) -> impl Iterator<Item = (&'a Rule, &'a super::pattern::Pattern)> {
        let all = paths::components(path).unwrap_or_default();
        let inside = paths::below(&self.policy.roots.workspace, path);
        self.path_rules()
            .filter(move |(_, pattern)| match (&inside, pattern.absolute) {
                (_, true) => pattern.allows(&all),
                (Some(inside), false) => pattern.allows(inside),
                (None, false) => false,
            })
    }

    /// The rule that names this file and nothing else.
    pub(super) fn candidate(&self) -> Option<String> {
        let tree = self.access.searches() && self.facts.kind == FileKind::Directory;
        explain::path_rule(self.access.tool(), self.facts, tree, &self.policy.roots)
    }

    /// Row 9.
    pub(super) fn uncovered(&self) -> Box<Refused> {
        Refused::uncovered(self.policy.mode, &self.shown(), self.candidate())
    }
}
