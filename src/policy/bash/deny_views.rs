//! Every way in which a command may be meant, for deny rules.
//!
//! A deny rule has to see `rm` in `/bin/rm`, `sudo -u root rm`, `find -exec rm`, `sh -c 'rm x'` and `env -S 'rm x'`.
//! So views are taken widely: behind a wrapper every later word may be the command, text for a shell is analysed
//! again, options between a command and its subcommand are left out. A view too many costs a refusal; what cannot be
//! viewed at all is reported, and then no deny rule can be ruled out. A deny rule is no boundary all the same: a
//! script can do what it denies, and that is the sandbox's task.

use std::rc::Rc;

use super::options::may_be_short_for;
use super::words::Word;
use super::wrappers::{basename, is_shell, is_state_builtin, runs_arguments};
use super::{Analysis, Step, analyse};

/// Subcommands of one tool that are the same: a deny rule on one is a rule on all.
const SYNONYMS: [(&str, &[&str]); 20] = [
    (
        "npm",
        &[
            "install", "i", "in", "ins", "inst", "insta", "instal", "isnt", "isnta", "isntal",
            "isntall", "add",
        ],
    ),
    (
        "npm",
        &[
            "ci",
            "clean-install",
            "ic",
            "install-clean",
            "isntall-clean",
        ],
    ),
    ("npm", &["uninstall", "unlink", "remove", "rm", "r", "un"]),
    ("npm", &["run", "run-script", "rum", "urn"]),
    ("npm", &["test", "t", "tst"]),
    ("npm", &["exec", "x"]),
    ("npm", &["config", "c"]),
    ("npm", &["update", "up", "upgrade", "udpate"]),
    ("npm", &["init", "create", "innit"]),
    ("npm", &["link", "ln"]),
    ("npm", &["login", "adduser", "add-user"]),
    ("pnpm", &["install", "i"]),
    ("pnpm", &["remove", "rm", "uninstall", "un"]),
    ("cargo", &["build", "b"]),
    ("cargo", &["check", "c"]),
    ("cargo", &["doc", "d"]),
    ("cargo", &["run", "r"]),
    ("cargo", &["test", "t"]),
    ("cargo", &["remove", "rm"]),
    ("composer", &["install", "i"]),
];

/// Whether a word is the subcommand, or another name of it.
fn is_subcommand(head: &str, word: &str, subcommand: &str) -> bool {
    word == subcommand
        || may_be_short_for(head, word, subcommand)
        || SYNONYMS.iter().any(|(tool, names)| {
            *tool == head && names.contains(&word) && names.contains(&subcommand)
        })
}

/// Deepest nesting of text for shells.
const MAX_DEPTH: usize = 4;
/// Most texts that are analysed again.
const MAX_TEXTS: usize = 64;

/// One way to read a command: its head, and its arguments from some word on.
pub(super) struct View {
    words: Rc<[Word]>,
    head: usize,
    arguments: usize,
}

impl View {
    pub(super) fn head(&self) -> &Word {
        &self.words[self.head]
    }

    pub(super) fn name(&self) -> &str {
        basename(&self.words[self.head].text)
    }

    pub(super) fn arguments(&self) -> &[Word] {
        self.words.get(self.arguments..).unwrap_or_default()
    }

    /// Whether a deny rule's words match.
    pub(super) fn matches(&self, rule: &[String], prefix: bool) -> bool {
        let Some((head, rest)) = rule.split_first() else {
            return false;
        };
        let own = self.head();
        if !(own.text == *head || self.name() == head || own.glob || own.dynamic) {
            return false;
        }
        let arguments = self.arguments();
        let open = |word: &Word| word.glob || word.dynamic;
        let is = |at: usize, rule: &str, word: &str| {
            word == rule || at == 0 && is_subcommand(self.name(), word, rule)
        };
        rest.iter()
            .zip(arguments)
            .enumerate()
            .all(|(at, (rule, word))| open(word) || is(at, rule, &word.text))
            && (arguments.len() == rest.len()
                || prefix && arguments.len() > rest.len()
                || arguments.iter().any(open))
    }
}

/// A command with everything that it may run, for questions about its words.
pub(super) struct Command {
    pub(super) words: Rc<[Word]>,
    pub(super) dirs: Vec<String>,
    /// The names of the commands that it may be, with the place of each.
    pub(super) heads: Vec<usize>,
}

impl Command {
    /// The words behind the first head with one of these names.
    pub(super) fn arguments_of(&self, names: &[&str]) -> &[Word] {
        let first = self
            .heads
            .iter()
            .filter(|head| names.contains(&basename(&self.words[**head].text)))
            .min();
        first.map_or(&[], |head| &self.words[head + 1..])
    }
}

/// The views of a line.
#[derive(Default)]
pub(super) struct Views {
    pub(super) all: Vec<View>,
    pub(super) commands: Vec<Command>,
    /// Lines found in text for shells.
    pub(super) nested: Vec<Analysis>,
    /// What could not be viewed.
    pub(super) unknown: Option<String>,
    texts: usize,
}

/// Takes all views of an analysed line.
pub(super) fn views(analysis: &Analysis, workspace: &str) -> Views {
    let mut views = Views {
        unknown: analysis.unknown.clone(),
        ..Views::default()
    };
    for step in &analysis.steps {
        views.step(step, &[], workspace, 0);
    }
    for text in &analysis.nested {
        views.text(text, &[], workspace, 0);
    }
    views
}

impl Views {
    fn cannot(&mut self, what: impl Into<String>) {
        self.unknown.get_or_insert_with(|| what.into());
    }

    /// Views of one command; `outer` are the directories of the command whose text it stands in.
    fn step(&mut self, step: &Step, outer: &[String], workspace: &str, depth: usize) {
        let words: Rc<[Word]> = step.words.clone().into();
        let dirs = [&step.dirs, outer].concat();
        let mut heads = vec![0];
        let mut wrapped = false;
        let mut at = 0;
        // Heads are added in rising order; once one is a wrapper, every word behind it is a head.
        while let Some(&head) = heads.get(at) {
            at += 1;
            self.command(&words, head);
            let name = basename(&words[head].text);
            let arguments = &words[head + 1..];
            if name == "find" && !wrapped {
                let runs =
                    |word: &Word| word.text.starts_with("-exec") || word.text.starts_with("-ok");
                heads.extend((head + 1..words.len()).filter(|at| runs(&words[at - 1])));
            } else if matches!(name, "fd" | "fdfind") && !wrapped {
                let runs = |word: &Word| {
                    matches!(word.text.as_str(), "-x" | "-X" | "--exec" | "--exec-batch")
                };
                heads.extend((head + 1..words.len()).filter(|at| runs(&words[at - 1])));
            } else if name == "git" && !wrapped {
                for text in texts_of_git(arguments) {
                    self.text(&text, &dirs, workspace, depth);
                }
            } else if runs_arguments(name) && !wrapped {
                wrapped = true;
                heads.retain(|known| *known <= head);
                at = heads.len();
                heads.extend(head + 1..words.len());
                for text in arguments.iter().filter_map(text_of_option) {
                    self.text(text, &dirs, workspace, depth);
                }
            } else if is_shell(name) {
                self.shell(arguments, step.stdin.as_deref(), &dirs, workspace, depth);
            } else if name == "eval" {
                let texts: Vec<&str> = arguments.iter().map(|word| word.text.as_str()).collect();
                self.text(&texts.join(" "), &dirs, workspace, depth);
            } else if name == "trap" {
                for word in arguments.iter().take(2) {
                    self.text(&word.text, &dirs, workspace, depth);
                }
            } else if is_state_builtin(name) && !runs_arguments(name) {
                self.cannot(format!("`{name}`, which changes the shell"));
            }
        }
        self.commands.push(Command { words, dirs, heads });
    }

    /// A command as written, and without the options (and their values) between it and a later word.
    fn command(&mut self, words: &Rc<[Word]>, head: usize) {
        if words[head].text.starts_with('-') {
            return;
        }
        let is_option = |at: usize| words[at].text.starts_with('-');
        let mut arguments = head + 1;
        loop {
            self.all.push(View {
                words: Rc::clone(words),
                head,
                arguments,
            });
            let goes_on = arguments < words.len()
                && (is_option(arguments) || arguments > head + 1 && is_option(arguments - 1));
            if !goes_on {
                break;
            }
            arguments += 1;
        }
    }

    fn shell(
        &mut self,
        arguments: &[Word],
        stdin: Option<&str>,
        dirs: &[String],
        workspace: &str,
        depth: usize,
    ) {
        let runs_text = |word: &Word| {
            word.text.starts_with('-') && !word.text.starts_with("--") && word.text.contains('c')
        };
        if let Some(option) = arguments.iter().position(runs_text) {
            for word in &arguments[option + 1..] {
                if !word.text.starts_with('-') {
                    self.text(&word.text, dirs, workspace, depth);
                }
            }
            return;
        }
        let takes_value = |word: &Word| {
            matches!(
                word.text.as_str(),
                "-o" | "-O" | "+o" | "+O" | "--rcfile" | "--init-file"
            )
        };
        let script = arguments.iter().enumerate().any(|(at, word)| {
            !(word.text.starts_with(['-', '+']) || at > 0 && takes_value(&arguments[at - 1]))
        });
        match stdin {
            Some(text) => self.text(text, dirs, workspace, depth),
            None if !script => self.cannot("a shell that reads its commands from somewhere else"),
            None => {}
        }
    }

    fn text(&mut self, text: &str, dirs: &[String], workspace: &str, depth: usize) {
        self.texts += 1;
        if depth >= MAX_DEPTH || self.texts > MAX_TEXTS {
            return self.cannot("text for a shell, nested too deep");
        }
        if text.trim().is_empty() {
            return;
        }
        match analyse(text, workspace) {
            Err(refusal) => self.cannot(refusal.construct),
            Ok(analysis) => {
                if let Some(construct) = &analysis.unknown {
                    self.cannot(construct.clone());
                }
                for step in &analysis.steps {
                    self.step(step, dirs, workspace, depth + 1);
                }
                for inner in &analysis.nested {
                    self.text(inner, dirs, workspace, depth + 1);
                }
                self.nested.push(analysis);
            }
        }
    }
}

/// What a wrapper may hand to a shell: text with blanks, as a word or as the value of an option.
fn text_of_option(word: &Word) -> Option<&str> {
    let text = word.text.as_str();
    let value = text
        .split_once('=')
        .filter(|(name, _)| name.starts_with("--"));
    let text = value.map_or(text, |(_, value)| value);
    let text = text.strip_prefix("-S").unwrap_or(text);
    text.contains(|c: char| c.is_whitespace() || c == ';')
        .then_some(text)
}

/// What git gives to a shell: `rebase -x TEXT`, `submodule foreach TEXT`, `bisect run COMMAND`, an alias.
fn texts_of_git(arguments: &[Word]) -> Vec<String> {
    let mut texts = Vec::new();
    for (at, word) in arguments.iter().enumerate() {
        let text = word.text.as_str();
        let behind = &arguments[at + 1..];
        match text {
            "-x" | "--exec" | "--extcmd" | "--tree-filter" | "--index-filter" | "--msg-filter"
            | "--env-filter" | "--tag-name-filter" => {
                texts.extend(behind.first().map(|word| word.text.clone()));
            }
            "foreach" | "run" => {
                let words = behind.iter().map(|word| word.text.as_str());
                let words: Vec<&str> = words.filter(|word| !word.starts_with("--")).collect();
                if !words.is_empty() {
                    texts.push(words.join(" "));
                }
            }
            _ => {
                let option = text
                    .strip_prefix("--exec=")
                    .or(text.strip_prefix("--extcmd="));
                let alias = || text.split_once("=!").map(|(_, text)| text);
                texts.extend(option.or_else(alias).map(str::to_owned));
            }
        }
    }
    texts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sees(line: &str, rule: &str) -> bool {
        let words: Vec<String> = rule.split(' ').map(str::to_owned).collect();
        let analysis = analyse(line, "/w").unwrap();
        views(&analysis, "/w")
            .all
            .iter()
            .any(|view| view.matches(&words, true))
    }

    #[test]
    fn a_command_is_seen_behind_everything_that_runs_it() {
        for line in [
            "rm x",
            "/bin/rm x",
            "./rm",
            "sudo -u root rm x",
            "env A=1 rm x",
            "timeout 5 rm",
            "xargs -0 rm",
            "nice -n 5 rm x",
            "find . -execdir rm {} \\;",
            "bash -lc 'echo a; rm x'",
            "eval 'rm x'",
            "env -S 'rm x'",
            "env --split-string='rm x'",
            "watch 'rm x'",
            "trap 'rm x' EXIT",
            "bash <<'E'\nrm x\nE",
            "sudo bash -c 'sudo rm x'",
            "echo $(rm x)",
            "su -c 'rm x' root",
        ] {
            assert!(sees(line, "rm"), "{line}");
        }
        for line in ["ls rm", "git rm x", "echo 'rm x'", "rmdir x"] {
            assert!(!sees(line, "rm"), "{line}");
        }
        for line in [
            "git -c a=b push",
            "git --no-pager push",
            "git -C x push -f",
            "git push",
        ] {
            assert!(sees(line, "git push"), "{line}");
        }
        assert!(!sees("git pushx", "git push"));
    }

    #[test]
    fn what_cannot_be_seen_is_reported() {
        for line in ["cat x | sh", "source x", "alias a=b", "bash -c 'echo $X'"] {
            assert!(
                views(&analyse(line, "/w").unwrap(), "/w").unknown.is_some(),
                "{line}"
            );
        }
        assert_eq!(
            views(&analyse("bash scripts/ci.sh", "/w").unwrap(), "/w").unknown,
            None
        );
    }
}
