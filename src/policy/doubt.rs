//! Rules that say less than they seem to. For whoever reviews a task file: the gate does not care.
//!
//! An allow rule that covers nothing costs a run; a deny rule that covers nothing is a hole that looks closed. What is
//! on the disk is asked of the caller, as the gate does.

use std::path::{Path, PathBuf};

use super::bash::guarded::needs_exact_rule;
use super::bash::wrappers::basename;
use super::pattern::Pattern;
use super::rule::{Effect, Rule, Specifier};
use super::{FileKind, Mode};

/// Directories of the machine that people name with one slash.
const OF_THE_MACHINE: [&str; 20] = [
    "Users", "bin", "boot", "dev", "etc", "home", "lib", "lib64", "media", "mnt", "nix", "opt",
    "proc", "root", "run", "sbin", "srv", "sys", "tmp", "usr",
];

/// What is doubtful about a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Doubt {
    /// Completes "the rule `…`".
    pub reason: String,
    /// What to write instead.
    pub hint: String,
}

impl Doubt {
    pub(super) fn new(reason: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            hint: hint.into(),
        }
    }
}

/// What a rule is looked at beside.
#[derive(Clone, Copy)]
pub struct Surroundings<'a> {
    /// The mode of the task.
    pub mode: Mode,
    /// All deny rules.
    pub deny: &'a [Rule],
    /// The tools that there are.
    pub existing: &'a [&'a str],
    /// Those that the task offers; `None` for rules that stand where they hold for several tasks.
    pub offered: Option<&'a [String]>,
    /// The workspace, if it is known.
    pub workspace: Option<&'a Path>,
    /// What is at a path.
    pub kind_of: &'a dyn Fn(&Path) -> FileKind,
}

impl Rule {
    /// Why a rule covers less than its author may think, if it does.
    #[must_use]
    pub fn narrowness(&self, around: &Surroundings<'_>) -> Option<Doubt> {
        let found = self.without_tool(around);
        let found = found.or_else(|| self.without_effect(around));
        found.or_else(|| match self.specifier() {
            Specifier::Path(pattern) => self.narrow_path(pattern, around),
            Specifier::Words { words, prefix } => self.narrow_command(words, *prefix),
            Specifier::Whole | Specifier::Domain(_) | Specifier::Server(_) => None,
        })
    }

    fn allows(&self) -> bool {
        self.effect() == Effect::Allow
    }

    /// "allows nothing" or "denies nothing".
    fn nothing(&self) -> &'static str {
        if self.allows() {
            "allows nothing"
        } else {
            "denies nothing"
        }
    }

    /// No tool is there that the rule could decide on.
    fn without_tool(&self, around: &Surroundings<'_>) -> Option<Doubt> {
        let tool = self.tool();
        let nothing = self.nothing();
        if tool.starts_with("mcp__") && !around.existing.contains(&tool) {
            return Some(Doubt::new(
                format!("{nothing}: no MCP server is configured"),
                "remove the rule; tools of MCP servers are there only in a program that registers them through the library",
            ));
        }
        if matches!(tool, "WebFetch" | "WebSearch") && !around.existing.contains(&tool) {
            return Some(Doubt::new(
                format!("{nothing}: there is no tool `{tool}`"),
                "remove the rule; what processes reach is said by `network`, as in `network: { hosts: [docs.rs] }`",
            ));
        }
        let offered = around.offered.filter(|_| self.allows())?;
        let decided: &[&str] = match tool {
            "Read" => &["Read", "Glob", "Grep", "Bash"],
            "Edit" => &["Edit", "Write", "Bash"],
            "Write" => &["Write", "Bash"],
            "Glob" | "Grep" | "Bash" => &[tool],
            _ => return None,
        };
        let is_used = decided
            .iter()
            .any(|one| offered.iter().any(|name| name == one));
        (!is_used).then(|| {
            Doubt::new(
                format!("allows nothing: the task does not offer `{tool}`"),
                format!("name `{tool}` under `tools`, or remove the rule"),
            )
        })
    }

    /// Another rule or the mode leaves nothing to it.
    fn without_effect(&self, around: &Surroundings<'_>) -> Option<Doubt> {
        if !self.allows() {
            return None;
        }
        if let Some(rule) = around.deny.iter().find(|rule| rule.swallows(self)) {
            return Some(Doubt::new(
                format!(
                    "allows nothing: the deny rule `{rule}` of {} matches all of it",
                    rule.source().file
                ),
                "remove one of the two, or make the deny rule narrower",
            ));
        }
        let writes = matches!(self.tool(), "Edit" | "Write");
        (writes && around.mode == Mode::Plan).then(|| {
            Doubt::new(
                "allows nothing: no rule opens a write in mode `plan`",
                "remove the rule, or write `mode: default`",
            )
        })
    }

    fn narrow_path(&self, pattern: &Pattern, around: &Surroundings<'_>) -> Option<Doubt> {
        let tool = self.tool();
        let inner = self.inner().unwrap_or_default();
        if self.allows() && matches!(tool, "Edit" | "Write") && !pattern.absolute {
            let names = pattern.literal_start();
            if names.iter().any(|name| name.eq_ignore_ascii_case(".git")) {
                return Some(Doubt::new(
                    "allows nothing: git's own files are never written",
                    "remove the rule; git itself writes there when a Bash rule allows it, as in `Bash(git commit:*)`",
                ));
            }
        }
        if let Some(name) = misplaced(inner, pattern, around) {
            let below = inner.trim_start_matches('/');
            return Some(Doubt::new(
                format!(
                    "{}: one `/` in front means the workspace, and that has no `{name}`",
                    self.nothing()
                ),
                format!(
                    "write `{tool}(//{below})` for what lies on the machine, `{tool}({below})` for the workspace"
                ),
            ));
        }
        if !self.allows() {
            return self.denies_a_search_alone(inner, around);
        }
        if is_directory(pattern, around) && matches!(tool, "Read" | "Edit" | "Write") {
            let path = inner.trim_end_matches('/');
            return Some(Doubt::new(
                format!(
                    "allows nothing: `{path}` is a directory, and the rule means a file of that name"
                ),
                format!("write `{tool}({path}/**)` for what lies in it"),
            ));
        }
        let only_at_the_top = !pattern.absolute && pattern.is_one_wild_name();
        only_at_the_top.then(|| {
            let name = inner.trim_start_matches("./").trim_start_matches('/');
            Doubt::new(
                "matches only directly in the workspace",
                format!("write `{tool}(**/{name})` for any depth, `{tool}(./{name})` if that is meant"),
            )
        })
        .filter(|_| !inner.starts_with("./") && !inner.starts_with('/'))
    }

    /// A deny rule on a tool that searches leaves the reading open.
    fn denies_a_search_alone(&self, inner: &str, around: &Surroundings<'_>) -> Option<Doubt> {
        let tool = self.tool();
        let is_closed = |rule: &Rule| {
            rule.tool() == "Read"
                && (*rule.specifier() == Specifier::Whole || rule.specifier() == self.specifier())
        };
        let alone = matches!(tool, "Glob" | "Grep") && !around.deny.iter().any(is_closed);
        alone.then(|| {
            Doubt::new(
                format!("denies `{tool}` alone: `Read` still opens these files"),
                format!("write `Read({inner})`, which denies Read, Glob, Grep and Edit"),
            )
        })
    }

    fn narrow_command(&self, words: &[String], prefix: bool) -> Option<Doubt> {
        let text = self.inner().unwrap_or_default();
        let text = text
            .strip_suffix(":*")
            .or_else(|| text.strip_suffix(" *"))
            .unwrap_or(text);
        if let Some(doubt) = self.never_matches(text, prefix) {
            return Some(doubt);
        }
        if !self.allows() {
            return (!prefix).then(|| {
                Doubt::new(
                    "denies exactly this command: with one more word it passes",
                    format!("write `Bash({text}:*)`"),
                )
            });
        }
        let head = words.first().filter(|_| prefix)?;
        needs_exact_rule(basename(head), words.get(1).map(String::as_str)).then(|| {
            let command = words.join(" ");
            Doubt::new(
                format!(
                    "covers no arguments: `{command}` writes files or runs programs by its options"
                ),
                format!("write the whole command, as in `Bash({command} the-argument)`"),
            )
        })
    }

    /// Whether no command is one that the rule means: bash reads its words as something else, or no rule can open it.
    fn never_matches(&self, text: &str, prefix: bool) -> Option<Doubt> {
        let longer = format!("{text} x");
        let tries: &[&str] = if prefix { &[text, &longer] } else { &[text] };
        let mut first: Option<String> = None;
        for command in tries {
            match self.trial(command) {
                Err(("shell" | "critical", why)) => _ = first.get_or_insert(why),
                Err(("no_rule", _)) => {
                    first.get_or_insert_with(|| {
                        "bash does not read these words as a command and its arguments".to_owned()
                    });
                }
                // It matches, or the rest of the surroundings decides.
                Ok(()) | Err(_) => return None,
            }
        }
        let why = first?;
        let hint = "`agent-batch explain TASK --tool Bash --input '{\"command\": \"..\"}'` tells what the gate makes of a command";
        Some(Doubt::new(format!("{}: {why}", self.nothing()), hint))
    }

    /// Whether a deny rule matches everything that an allow rule does.
    fn swallows(&self, allow: &Self) -> bool {
        let same_tool = self.tool() == allow.tool();
        match (self.specifier(), allow.specifier()) {
            (Specifier::Whole, _) => same_tool || self.names_tool(allow.tool()),
            (Specifier::Server(_), Specifier::Whole) => self.names_tool(allow.tool()),
            (
                Specifier::Words {
                    words,
                    prefix: true,
                },
                Specifier::Words { words: own, .. },
            ) => same_tool && own.starts_with(words),
            (own, other) => same_tool && own == other,
        }
    }
}

/// The first name of a path that begins with one slash, if it is none of the workspace and may be one of the machine.
fn misplaced(inner: &str, pattern: &Pattern, around: &Surroundings<'_>) -> Option<String> {
    let one_slash = inner.starts_with('/') && !pattern.absolute;
    let workspace = around.workspace.filter(|_| one_slash)?;
    let name = pattern.literal_start().into_iter().next()?;
    let is_there = |path: PathBuf| (around.kind_of)(&path) != FileKind::Missing;
    let elsewhere = OF_THE_MACHINE.contains(&name.as_str()) || is_there(Path::new("/").join(&name));
    (elsewhere && !is_there(workspace.join(&name))).then_some(name)
}

/// Whether a pattern without wildcards names a directory.
fn is_directory(pattern: &Pattern, around: &Surroundings<'_>) -> bool {
    let (Some(names), Some(workspace)) = (pattern.literal(), around.workspace) else {
        return false;
    };
    let root = if pattern.absolute {
        Path::new("/")
    } else {
        workspace
    };
    let path: PathBuf = std::iter::once(root)
        .chain(names.iter().map(Path::new))
        .collect();
    (around.kind_of)(&path) == FileKind::Directory
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `/repo` holds `src/` and `README.md`.
    fn kind_of(path: &Path) -> FileKind {
        match path.to_str().unwrap() {
            "/repo" | "/repo/src" | "/data" | "/usr/share" => FileKind::Directory,
            "/repo/README.md" => FileKind::File,
            _ => FileKind::Missing,
        }
    }

    fn rule(text: &str, effect: Effect) -> Rule {
        Rule::parse_alone(text, effect).unwrap()
    }

    fn doubt(text: &str, effect: Effect, mode: Mode, deny: &[&str]) -> Option<Doubt> {
        let deny: Vec<Rule> = deny.iter().map(|text| rule(text, Effect::Deny)).collect();
        let offered: Vec<String> = ["Read", "Bash", "Edit"].map(str::to_owned).into();
        rule(text, effect).narrowness(&Surroundings {
            mode,
            deny: &deny,
            existing: &["Read", "Glob", "Grep", "Edit", "Write", "Bash"],
            offered: Some(&offered),
            workspace: Some(Path::new("/repo")),
            kind_of: &kind_of,
        })
    }

    fn allow(text: &str, mode: Mode, deny: &[&str]) -> Option<Doubt> {
        doubt(text, Effect::Allow, mode, deny)
    }

    fn deny(text: &str) -> Option<Doubt> {
        doubt(text, Effect::Deny, Mode::Default, &[text])
    }

    #[test]
    fn rules_that_allow_nothing_are_told() {
        for (text, mode, by) in [
            ("Bash(git push:*)", Mode::Default, "Bash(git:*)"),
            ("Bash(git push)", Mode::Default, "Bash(git push:*)"),
            ("Read(src/**)", Mode::Default, "Read"),
            ("mcp__a__b", Mode::Default, "mcp__a"),
            ("Edit(src/**)", Mode::Plan, "Grep"),
            ("Edit(.git/hooks/**)", Mode::Default, "Grep"),
            ("Bash(wget:*)", Mode::Default, "Grep"),
            ("Edit(*.rs)", Mode::Default, "Grep"),
            ("Edit(src)", Mode::Default, "Grep"),
            ("Read(//usr/share)", Mode::Default, "Grep"),
            ("Read(/etc/hosts)", Mode::Default, "Grep"),
            ("Read(/data/**)", Mode::Default, "Grep"),
            ("WebFetch(domain:docs.rs)", Mode::Default, "Grep"),
            ("mcp__a", Mode::Default, "Grep"),
            ("Glob(src/**)", Mode::Default, "Read(x)"),
            ("Bash(rm -rf /)", Mode::Default, "Grep"),
        ] {
            assert!(allow(text, mode, &[by]).is_some(), "{text}");
        }
    }

    #[test]
    fn rules_that_say_what_they_mean_are_not() {
        for (text, by) in [
            ("Bash(git push:*)", "Bash(git push --force:*)"),
            ("Bash(git:*)", "Bash(git push:*)"),
            ("Bash(cd src)", "Read(x)"),
            ("Bash(cd:*)", "Read(x)"),
            ("Bash(test -f x)", "Read(x)"),
            ("Bash(timeout 5 cargo test:*)", "Read(x)"),
            ("Bash(bash scripts/ci.sh:*)", "Read(x)"),
            ("Bash(sed -i s/a/b/ x)", "Read(x)"),
            ("Bash(sed:*)", "Read(x)"),
            ("Bash(rm:*)", "Read(x)"),
            ("Bash(git add -A)", "Read(x)"),
            ("Bash(echo 'a b' \"c\")", "Read(x)"),
            ("Edit(src/**)", "Edit(src/gen/**)"),
            ("Edit(src/)", "Grep"),
            ("Edit(/src/**)", "Grep"),
            ("Edit(./*.rs)", "Grep"),
            ("Edit(/**)", "Grep"),
            ("Edit(**/*.rs)", "Read"),
            ("Edit(README.md)", "Bash"),
            ("Write(out/new.json)", "Grep"),
            ("Read(//etc/hosts)", "Grep"),
            ("Edit(.gitignore)", "Bash"),
            ("Bash(wget -qO- https://example.org)", "WebFetch"),
        ] {
            assert_eq!(allow(text, Mode::Default, &[by]), None, "{text}");
        }
    }

    #[test]
    fn deny_rules_that_deny_less_than_they_seem_to_are_told() {
        for (text, instead) in [
            ("Read(/etc/hosts)", "`Read(//etc/hosts)`"),
            ("Bash(git push)", "`Bash(git push:*)`"),
            ("Grep(secrets/**)", "`Read(secrets/**)`"),
            ("WebFetch(domain:evil.org)", "network"),
            ("mcp__a", "MCP"),
        ] {
            let doubt = deny(text).unwrap_or_else(|| panic!("{text}"));
            assert!(doubt.hint.contains(instead), "{text}: {doubt:?}");
        }
        for text in [
            "Edit(src)",
            "Read(*.pem)",
            "Read(//etc/**)",
            "Bash(git push:*)",
            "Bash(rm -rf /:*)",
            "Bash(sudo:*)",
            "Bash(eval:*)",
            "Bash",
            "Write",
        ] {
            assert_eq!(deny(text), None, "{text}");
        }
        let both = ["Grep(secrets/**)", "Read(secrets/**)"];
        assert_eq!(
            doubt("Grep(secrets/**)", Effect::Deny, Mode::Default, &both),
            None
        );
    }
}
