//! What a bash command line would do, found out without running it.
//!
//! `lexer` cuts it into `words` as bash would, `parse` builds the tree of the accepted subset (`balance` looks at what it
//! does not read), and [`analyse`] flattens the tree to steps: each simple command with the directories it may run in, each redirection with the file it opens. On the steps
//! work `options` (guarded options, from the table in `guarded`), `wrappers`, `deny_views` (every way in which a
//! command may be meant) and `readonly` (with the options in `harmless`). `judge` puts them together.

mod balance;
mod deny_views;
mod dirs;
pub(super) mod guarded;
mod harmless;
pub(super) mod judge;
pub(super) mod lexer;
mod operands;
mod options;
mod parse;
mod readonly;
mod scripts;
mod touched;
pub(super) mod words;
pub(super) mod wrappers;

use lexer::Refusal;
use parse::{Redirect, Simple, Trouble};
use words::Word;

/// A simple command in its place.
#[derive(Debug)]
pub(super) struct Step {
    /// `NAME=value` before the command.
    pub(super) assignments: Vec<Word>,
    /// The command and its arguments.
    pub(super) words: Vec<Word>,
    /// The directories that it may run in, absolute.
    pub(super) dirs: Vec<String>,
    /// For `cd`: where it leads to, absolute; or why nobody knows.
    pub(super) cd: Option<Result<Vec<String>, String>>,
    /// Its standard input, if it is written on the line.
    stdin: Option<String>,
}

/// A file that a redirection opens.
#[derive(Debug)]
pub(super) struct Target {
    /// The name, literal unless the whole line is not analysed.
    pub(super) word: Word,
    pub(super) writes: bool,
    pub(super) dirs: Vec<String>,
}

/// A line in steps.
#[derive(Debug, Default)]
pub(super) struct Analysis {
    pub(super) steps: Vec<Step>,
    pub(super) targets: Vec<Target>,
    /// The first construct that is not analysed. Then the steps are only good for finding what must not occur.
    pub(super) unknown: Option<String>,
    /// The text inside substitutions.
    nested: Vec<String>,
}

impl Analysis {
    fn unknown(&mut self, construct: impl Into<String>) {
        self.unknown.get_or_insert_with(|| construct.into());
    }
}

/// Why a line must not run under any rule.
#[cfg(test)]
pub(super) fn refusal_of(line: &str) -> Option<String> {
    analyse(line, "/").err().map(|refusal| refusal.construct)
}

/// Analyses a line that starts in `workspace`. The error is a line that must not run under any rule.
pub(super) fn analyse(line: &str, workspace: &str) -> Result<Analysis, Refusal> {
    let lexed = lexer::lex(line)?;
    let mut analysis = Analysis {
        unknown: lexed.soft.clone(),
        nested: lexed.nested.clone(),
        ..Analysis::default()
    };
    let tree = parse::parse(&lexed);
    if matches!(tree, Err(Trouble::Soft(_))) {
        balance::check(&lexed)?;
    }
    match tree {
        Ok(list) => dirs::flatten(&list, &lexed, workspace, &mut analysis),
        // Behind an expansion that is skipped, a syntax error may be one of ours: bash has the last word on it.
        Err(Trouble::Limit(refusal)) => return Err(refusal),
        Err(Trouble::Hard(refusal)) if lexed.soft.is_none() => return Err(refusal),
        Err(trouble @ (Trouble::Hard(_) | Trouble::Soft(_))) => {
            match trouble {
                // A loop says more about the line than the variable in it.
                Trouble::Soft(refusal) => analysis.unknown = Some(refusal.construct),
                Trouble::Hard(refusal) | Trouble::Limit(refusal) => {
                    analysis.unknown(refusal.construct);
                }
            }
            let here = [workspace.to_owned()];
            let scraps = parse::scraps(&lexed);
            if scraps.len() > parse::MAX_COMMANDS {
                return lexer::refuse(format!("more than {} commands", parse::MAX_COMMANDS));
            }
            for simple in scraps {
                add_targets(&simple.redirects, &here, &mut analysis);
                if !simple.words.is_empty() {
                    add_step(&simple, &here, &lexed.bodies, &mut analysis);
                }
            }
        }
    }
    if analysis
        .steps
        .iter()
        .any(|step| wrappers::too_deep(&step.words))
    {
        return lexer::refuse(format!(
            "more than {} commands that run one another",
            wrappers::MAX_NESTED
        ));
    }
    Ok(analysis)
}

/// The simple commands of a line as they could be typed, each alone: without redirections and without assignments. None of
/// a line that is not analysed as a whole, or whose words are not all literal.
#[must_use]
pub fn simple_commands(line: &str) -> Vec<String> {
    let Ok(analysis) = analyse(line, "/") else {
        return Vec::new();
    };
    if analysis.unknown.is_some() {
        return Vec::new();
    }
    let command = |step: &Step| {
        let words: Option<Vec<&str>> = step.words.iter().map(Word::literal).collect();
        Some(super::explain::command(words?.into_iter()))
    };
    let commands: Option<Vec<String>> = analysis.steps.iter().map(command).collect();
    commands.unwrap_or_default()
}

/// Adds a simple command, and notes what makes its words unknown.
fn add_step(simple: &Simple, dirs: &[String], bodies: &[String], analysis: &mut Analysis) {
    if let Some(head) = simple.words.first() {
        if head.dynamic || head.glob {
            analysis.unknown("a command name that is not literal");
        } else if !head.text.is_ascii() {
            analysis.unknown("a command name that is not ASCII");
        }
    }
    for word in simple.words.iter().skip(1) {
        let start = word.text.chars().next();
        if word.glob && (start == Some('-') || word.bare.starts_with(['*', '?', '['])) {
            analysis.unknown(format!(
                "a glob that could match an option (`{0}`; write `./{0}`)",
                word.text
            ));
        }
    }
    if simple.assignments.iter().any(|word| word.dynamic) {
        analysis.unknown("an assignment whose value is not literal");
    }
    let stdin = simple
        .redirects
        .iter()
        .rev()
        .find_map(|redirect| match redirect.operator {
            "<<" | "<<-" => bodies.get(redirect.body?).cloned(),
            "<<<" => Some(redirect.operand.text.clone()),
            _ => None,
        });
    let cd = (simple.words[0].literal() == Some("cd"))
        .then(|| dirs::destination(&simple.words[1..], dirs));
    if let Some(Err(construct)) = &cd {
        analysis.unknown(construct.clone());
    }
    analysis.steps.push(Step {
        assignments: simple.assignments.clone(),
        words: simple.words.clone(),
        dirs: dirs.to_vec(),
        cd,
        stdin,
    });
}

/// Adds the files that redirections open.
fn add_targets(redirects: &[Redirect], dirs: &[String], analysis: &mut Analysis) {
    for redirect in redirects {
        let word = &redirect.operand;
        let is_number = !word.text.is_empty() && word.text.bytes().all(|b| b.is_ascii_digit());
        let duplicates = word.plain().is_some() && (is_number || word.text == "-");
        let writes = match redirect.operator {
            "<<" | "<<-" => continue,
            "<<<" => {
                if word.dynamic {
                    analysis.unknown("an expansion in a here-string");
                }
                continue;
            }
            "<&" | ">&" if duplicates => continue,
            "<&" => {
                analysis.unknown("a redirection `<&` from a word that is no number");
                continue;
            }
            ">&" if redirect.fd.as_deref().is_some_and(|fd| fd != "1") => {
                analysis.unknown("a redirection `N>&` to a word that is no number");
                true
            }
            ">&" if word.text.ends_with('-') => {
                analysis.unknown("a redirection that moves a descriptor");
                true
            }
            "<" => false,
            _ => true,
        };
        if word.literal().is_none() {
            analysis.unknown("an expansion in a redirection's target");
        }
        if word.literal() == Some("/dev/null") {
            continue;
        }
        analysis.targets.push(Target {
            word: word.clone(),
            writes,
            dirs: dirs.to_vec(),
        });
    }
}
