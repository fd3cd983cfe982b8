//! `agent-batch explain --cases FILE`: a file of calls, each with its own mode, rules and expected answer.
//!
//! Users keep the tests of their policy in such files. One JSON object a line; nothing of the surroundings counts: the
//! files that a case speaks of are made below a scratch directory ([`World`]), and the gate that answers is the one of a
//! run.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};

use super::world::{WORKSPACE, World};
use crate::cli::settings::Settings;
use crate::cli::{fail, print};
use crate::file;
use crate::outcome::Exit;
use crate::policy::{
    self, Action, Call, Denial, Effect, Mode, Permit, Policy, Roots, Rule, Source,
};

/// The largest file of cases, in bytes.
const LARGEST_FILE: u64 = 16 * 1024 * 1024;
/// The longest line of one, in bytes: a command may have 16 KiB, and each byte of it six as an escape.
const LONGEST_LINE: usize = 256 * 1024;

/// One line of the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    /// The name of the case, unique in its file.
    id: String,
    /// The property that it belongs to.
    #[serde(default)]
    class: String,
    /// The permission mode; a mode that does not exist is denied.
    #[serde(default = "default_mode")]
    mode: String,
    #[serde(default)]
    allow: Vec<String>,
    #[serde(default)]
    deny: Vec<String>,
    /// The tool of the call.
    #[serde(default = "bash")]
    tool: String,
    /// Bash: the command line.
    command: Option<String>,
    /// Read, Edit, Write: the path. Glob: the pattern. Grep: where the search starts.
    path: Option<String>,
    /// `WebFetch`: the URL.
    input: Option<String>,
    /// The files to make.
    #[serde(default)]
    setup: String,
    expect: Expected,
    /// For whoever reads a failure.
    #[serde(default)]
    why: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Expected {
    Allow,
    Deny,
}

impl Expected {
    fn name(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
        }
    }
}

fn default_mode() -> String {
    Mode::default().name().to_owned()
}

fn bash() -> String {
    "Bash".to_owned()
}

/// The gate's answer to a case. Rules that are none leave no gate: in a run that is an error before the first call.
enum Answer {
    Allowed(Permit),
    Denied(Box<Denial>),
    Invalid(String),
}

/// Prints one JSON line per case. Exit 1 when an answer is not the expected one, 2 when the file cannot be read.
pub(super) fn cases(file: &Path, settings: &Settings) -> Exit {
    let shown = file.display();
    let read = if file == Path::new("-") {
        file::read_stream(io::stdin().lock(), LARGEST_FILE)
    } else {
        file::read_text(&settings.base.join(file), LARGEST_FILE)
    };
    let text = match read {
        Ok(text) => text,
        Err(error) => {
            return fail(
                Exit::Usage,
                &format!("`{shown}` could not be read: {error}"),
            );
        }
    };
    let cases = match parse(&text) {
        Ok(cases) => cases,
        Err(error) => return fail(Exit::Usage, &format!("{shown}:{error}")),
    };
    match answers(&cases, &settings.temp) {
        Ok((lines, exit)) => match print(&lines) {
            Exit::Passed => exit,
            failed => failed,
        },
        Err((line, error)) => fail(Exit::Usage, &format!("{shown}:{line}: {error}")),
    }
}

/// The cases with the numbers of their lines. The error begins with the number of its line.
fn parse(text: &str) -> Result<Vec<(usize, Case)>, String> {
    let mut ids: BTreeMap<String, usize> = BTreeMap::new();
    let mut cases = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim().is_empty() {
            continue;
        }
        if line.len() > LONGEST_LINE {
            return Err(format!(
                "{number}: the line is longer than {LONGEST_LINE} bytes, which is the most that a case may have"
            ));
        }
        let case: Case =
            serde_json::from_str(line).map_err(|error| format!("{number}: no case: {error}"))?;
        if let Some(first) = ids.insert(case.id.clone(), number) {
            return Err(format!(
                "{number}: the id `{}` is taken by line {first}; ids are unique",
                case.id
            ));
        }
        cases.push((number, case));
    }
    if cases.is_empty() {
        return Err("1: the file holds no case; expected one JSON object a line".to_owned());
    }
    Ok(cases)
}

/// The lines to print, and whether all is as expected.
fn answers(cases: &[(usize, Case)], temp: &Path) -> Result<(String, Exit), (usize, String)> {
    let mut lines = String::new();
    let mut exit = Exit::Passed;
    let mut ordinary: Option<World> = None;
    for (number, case) in cases {
        let at = |error| (*number, error);
        let own = match case.setup.as_str() {
            "" => None,
            setup => Some(World::build(setup, temp).map_err(at)?),
        };
        let world = match (&own, &ordinary) {
            (Some(own), _) => own,
            (None, Some(ordinary)) => ordinary,
            (None, None) => ordinary.insert(World::build("", temp).map_err(at)?),
        };
        let answer = answer(case, world).map_err(at)?;
        let line = line(case, &answer);
        if line["as_expected"] == false {
            exit = Exit::Failed;
        }
        lines.push_str(&format!("{line}\n"));
    }
    Ok((lines, exit))
}

fn line(case: &Case, answer: &Answer) -> Value {
    let allowed = matches!(answer, Answer::Allowed(_));
    let found = if allowed {
        Expected::Allow
    } else {
        Expected::Deny
    };
    let mut line = json!({
        "id": case.id,
        "class": case.class,
        "decision": found.name(),
        "expected": case.expect.name(),
        "as_expected": found == case.expect,
    });
    match answer {
        Answer::Allowed(permit) => {
            line["reason"] = permit.reason().into();
            line["rule"] = permit.rule().map(Rule::text).into();
        }
        Answer::Denied(denial) => {
            line["reason"] = denial.reason.as_str().into();
            line["rule"] = denial.rule.as_ref().map(Rule::text).into();
            line["suggestion"] = denial.suggestion.as_deref().into();
        }
        Answer::Invalid(reason) => line["reason"] = reason.as_str().into(),
    }
    if found != case.expect && !case.why.is_empty() {
        line["why"] = case.why.as_str().into();
    }
    line
}

/// The answer; the error is a case that is no call.
fn answer(case: &Case, world: &World) -> Result<Answer, String> {
    let action = action(case)?;
    let policy = match policy_of(case) {
        Ok(policy) => Arc::new(policy),
        Err(error) => return Ok(Answer::Invalid(format!("no gate to ask: {error}"))),
    };
    let facts = world.facts(policy::queries(&action, &policy));
    let call = Call {
        tool: &case.tool,
        input: &Value::Null,
        read_only: matches!(
            action,
            Action::Read { .. } | Action::Glob { .. } | Action::Grep { .. }
        ),
        action,
    };
    Ok(match policy::decide(&call, &facts, &policy) {
        Ok(permit) => Answer::Allowed(permit),
        Err(denial) => Answer::Denied(denial),
    })
}

fn action(case: &Case) -> Result<Action, String> {
    let needed = |field: &Option<String>, name: &str| {
        // A case that is about a tool's name may say `input` whatever the tool takes.
        let given = field.as_ref().or(case.input.as_ref());
        given
            .cloned()
            .ok_or_else(|| format!("a case of `{}` needs `{name}`", case.tool))
    };
    let path = || needed(&case.path, "path");
    Ok(match case.tool.as_str() {
        "Bash" => Action::Bash {
            command: needed(&case.command, "command")?,
        },
        "Read" => Action::Read { path: path()? },
        "Edit" => Action::Edit { path: path()? },
        "Write" => Action::Write { path: path()? },
        "Glob" => Action::Glob {
            root: None,
            pattern: path()?,
        },
        "Grep" => Action::Grep {
            root: Some(path()?),
        },
        "WebFetch" => Action::Fetch {
            url: needed(&case.input, "input")?,
        },
        _ => Action::Other,
    })
}

fn policy_of(case: &Case) -> Result<Policy, String> {
    Ok(Policy {
        mode: case
            .mode
            .parse()
            .map_err(|error: policy::UnknownMode| error.to_string())?,
        allow: rules(&case.allow, Effect::Allow)?,
        deny: rules(&case.deny, Effect::Deny)?,
        roots: Roots {
            workspace: WORKSPACE.into(),
            never_write: ["task.yaml", "agent-batch.yaml", "agent-batch-results"]
                .map(|name| Path::new(WORKSPACE).join(name))
                .into(),
            ..Roots::default()
        },
    })
}

fn rules(texts: &[String], effect: Effect) -> Result<Vec<Rule>, String> {
    let source = Source {
        layer: "case".into(),
        file: "the case".into(),
    };
    texts
        .iter()
        .map(|text| Rule::parse(text, effect, source.clone()).map_err(|error| error.to_string()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(text: &str) -> Result<(Vec<Value>, Exit), String> {
        let temp = tempfile::tempdir().unwrap();
        let cases = parse(text)?;
        let (lines, exit) =
            answers(&cases, temp.path()).map_err(|(line, error)| format!("{line}: {error}"))?;
        let lines = lines
            .lines()
            .map(|line| serde_json::from_str(line).unwrap());
        Ok((lines.collect(), exit))
    }

    #[test]
    fn each_case_has_its_own_mode_rules_and_files() {
        let (lines, exit) = run(concat!(
            r#"{"id":"a","allow":["Bash(npm test)"],"command":"npm test","expect":"allow"}"#,
            "\n\n",
            r#"{"id":"b","command":"npm test","expect":"allow","why":"no rule"}"#,
            "\n",
            r#"{"id":"c","tool":"Read","path":"link/secret.txt","setup":"symlink link -> /srv/ci/outside","expect":"deny"}"#,
            "\n",
            r#"{"id":"d","mode":"auto","command":"a","expect":"deny"}"#,
        ))
        .unwrap();
        assert_eq!(exit, Exit::Failed);
        let decisions: Vec<_> = lines.iter().map(|line| &line["decision"]).collect();
        assert_eq!(decisions, ["allow", "deny", "deny", "deny"]);
        let expected: Vec<_> = lines.iter().map(|line| &line["as_expected"]).collect();
        assert_eq!(expected, [true, false, true, true]);
        assert_eq!(lines[1]["suggestion"], "Bash(npm test)");
        assert_eq!(lines[1]["why"], "no rule");
    }

    #[test]
    fn a_line_that_is_no_case_is_told_with_its_number() {
        let good = r#"{"id":"a","command":"a","expect":"deny"}"#;
        for (bad, told) in [
            ("{", "2: no case"),
            (r#"{"id":"b","command":"a","expect":"maybe"}"#, "maybe"),
            (r#"{"id":"b","comand":"a","expect":"deny"}"#, "comand"),
            (good, "taken by line 1"),
            (
                r#"{"id":"b","tool":"Read","expect":"deny"}"#,
                "2: a case of `Read` needs `path`",
            ),
            (
                r#"{"id":"b","command":"a","expect":"deny","setup":"x y"}"#,
                "2: the setup step `x y`",
            ),
        ] {
            let error = run(&format!("{good}\n{bad}\n")).unwrap_err();
            assert!(error.contains(told), "{bad}: {error}");
        }
        assert!(run("\n").unwrap_err().contains("holds no case"));
    }
}
