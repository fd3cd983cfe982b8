//! Which directory a command may run in.
//!
//! `cd` may fail, so a line has a set of possible directories: after `cd d && x` it is {d}, after `cd d; x` it is
//! {old, d}. What happens in a pipeline or a subshell does not outlive it.

use std::collections::BTreeSet;

use super::super::paths;
use super::lexer::Lexed;
use super::parse::{AndOr, List, Node, Pipeline};
use super::words::Word;
use super::{Analysis, add_step, add_targets};

/// Most directories that are followed.
const MAX_DIRS: usize = 8;

type Dirs = BTreeSet<String>;

/// The directories after success and after failure.
struct After {
    success: Dirs,
    failure: Dirs,
}

impl After {
    fn both(dirs: &Dirs) -> Self {
        Self {
            success: dirs.clone(),
            failure: dirs.clone(),
        }
    }

    fn either(self) -> Dirs {
        self.success.into_iter().chain(self.failure).collect()
    }
}

/// Walks the tree in the order in which bash runs it and adds every step with its directories.
pub(super) fn flatten(list: &List, lexed: &Lexed, workspace: &str, analysis: &mut Analysis) {
    let mut walk = Walk { lexed, analysis };
    walk.list(list, &Dirs::from([workspace.to_owned()]));
}

/// Where `cd` with these arguments leads from each of the directories.
pub(super) fn destination(arguments: &[Word], dirs: &[String]) -> Result<Vec<String>, String> {
    let operands = match arguments.first().and_then(Word::literal) {
        Some("--") => &arguments[1..],
        Some(option) if option.starts_with('-') => return Err(format!("`cd {option}`")),
        _ => arguments,
    };
    match operands {
        [operand] => match operand.literal() {
            Some(text) if !text.is_empty() && text != "-" => {
                Ok(dirs.iter().map(|dir| paths::lexical(dir, text)).collect())
            }
            _ => Err("`cd` to a directory that is not literal".into()),
        },
        _ => Err("`cd` without exactly one directory".into()),
    }
}

struct Walk<'a> {
    lexed: &'a Lexed,
    analysis: &'a mut Analysis,
}

impl Walk<'_> {
    fn list(&mut self, list: &List, start: &Dirs) -> After {
        let mut after = After::both(start);
        for (index, and_or) in list.iter().enumerate() {
            let dirs = if index == 0 {
                start.clone()
            } else {
                after.either()
            };
            after = self.and_or(and_or, &dirs);
        }
        after
    }

    fn and_or(&mut self, and_or: &AndOr, dirs: &Dirs) -> After {
        let mut after = self.pipeline(&and_or.first, dirs);
        for (on_success, pipeline) in &and_or.rest {
            let (from, skipped) = if *on_success {
                (after.success, after.failure)
            } else {
                (after.failure, after.success)
            };
            let mut next = self.pipeline(pipeline, &from);
            if *on_success {
                next.failure.extend(skipped);
            } else {
                next.success.extend(skipped);
            }
            after = next;
        }
        after
    }

    fn pipeline(&mut self, pipeline: &Pipeline, dirs: &Dirs) -> After {
        let mut after = After::both(dirs);
        for node in &pipeline.parts {
            after = self.node(node, dirs);
        }
        if pipeline.parts.len() > 1 {
            after = After::both(dirs);
        }
        if pipeline.negated {
            std::mem::swap(&mut after.success, &mut after.failure);
        }
        if after.success.len() + after.failure.len() > 2 * MAX_DIRS {
            self.analysis
                .unknown("`cd` to too many possible directories");
            after = After::both(dirs);
        }
        after
    }

    fn node(&mut self, node: &Node, dirs: &Dirs) -> After {
        let here: Vec<String> = dirs.iter().cloned().collect();
        match node {
            Node::Simple(simple) => {
                add_targets(&simple.redirects, &here, self.analysis);
                add_step(simple, &here, &self.lexed.bodies, self.analysis);
                let moved = self.analysis.steps.last().and_then(|step| step.cd.as_ref());
                match moved {
                    Some(Ok(reached)) => After {
                        success: reached.iter().cloned().collect(),
                        failure: dirs.clone(),
                    },
                    _ => After::both(dirs),
                }
            }
            Node::Group {
                list,
                subshell,
                redirects,
            } => {
                add_targets(redirects, &here, self.analysis);
                let after = self.list(list, dirs);
                if *subshell { After::both(dirs) } else { after }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::analyse;

    fn dirs_of_last(line: &str) -> Vec<String> {
        analyse(line, "/w").unwrap().steps.pop().unwrap().dirs
    }

    #[test]
    fn the_set_of_directories_follows_success_and_failure() {
        assert_eq!(dirs_of_last("cd d && x"), ["/w/d"]);
        assert_eq!(dirs_of_last("cd d; x"), ["/w", "/w/d"]);
        assert_eq!(dirs_of_last("cd d || x"), ["/w"]);
        assert_eq!(dirs_of_last("! cd d && x"), ["/w"]);
        assert_eq!(dirs_of_last("cd d && y; x"), ["/w", "/w/d"]);
        assert_eq!(dirs_of_last("{ cd d && y; } && x"), ["/w/d"]);
        assert_eq!(dirs_of_last("cd a && cd ../b && x"), ["/w/b"]);
    }

    #[test]
    fn a_subshell_and_a_pipeline_keep_their_directory_to_themselves() {
        assert_eq!(dirs_of_last("(cd d); x"), ["/w"]);
        assert_eq!(dirs_of_last("cd d | y; x"), ["/w"]);
        assert_eq!(dirs_of_last("(cd d && x)"), ["/w/d"]);
    }

    #[test]
    fn directories_do_not_multiply_without_end() {
        let line = "cd d; ".repeat(30) + "x";
        let analysis = analyse(&line, "/w").unwrap();
        assert!(analysis.unknown.unwrap().contains("too many"));
    }
}
