//! The gate against the real bash: what the gate allows starts only commands that a rule names.
//!
//! Random lines are put together from the tokens that shells stumble over. Each line that the gate allows is run by
//! bash with a PATH of stubs that log their name and arguments. Three things must hold: only the command with a rule
//! was started, nothing was written, bash saw no syntax error. And the arguments that bash computed are the ones the
//! gate computed: exact rules made from the log allow the same line again. The seed is fixed; set
//! `AGENT_BATCH_FUZZ_LINES` and `AGENT_BATCH_FUZZ_SEED` for a long run.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use agent_batch::policy::{Action, Call, Effect, Facts, Mode, Policy, Roots, Rule, Source, decide};
use serde_json::Value;

const BASH: &str = "/bin/bash";
const STUBS: [&str; 9] = [
    "echo", "id", "a", "b", "test", "printf", "true", "false", "x",
];

const TOKENS: [&str; 93] = [
    "echo",
    "echo",
    "echo ",
    "echo ",
    "echo a",
    "echo b;",
    "id",
    "a",
    "b",
    "test",
    "printf",
    "true",
    "false",
    " ",
    " ",
    " ",
    " ",
    "\t",
    "\n",
    "&&",
    "||",
    ";",
    "|",
    "|&",
    "&",
    "(",
    ")",
    "{ ",
    " }",
    "; }",
    "!",
    "! ",
    "time ",
    "time -p ",
    "coproc ",
    "<",
    ">",
    ">>",
    ">|",
    "<>",
    "&>",
    "&>>",
    ">&",
    "<&",
    "2>&1",
    ">/dev/null",
    "{fd}>",
    "'",
    "'",
    "\"",
    "\"",
    "\\",
    "\\",
    "\\\n",
    "\\\n",
    "#",
    " #",
    "$",
    "`",
    "$(",
    "${",
    "$'",
    "$?",
    "}",
    "[",
    "]",
    "*",
    "?",
    "~",
    "=",
    "A=1 ",
    "CI=1 ",
    "cat <<E\n",
    "<<E",
    "<<'E'",
    "<<-E",
    "\nE\n",
    "E",
    "<<<",
    "if ",
    "then ",
    "fi",
    ",",
    "..",
    "{",
    ":",
    "~+",
    "[[ ",
    "((",
    "-",
    "2",
    "function ",
    "a()",
];

/// A small generator: the same lines on every machine.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(limit).unwrap()).unwrap()
    }

    fn line(&mut self) -> String {
        let mut line = String::from(if self.below(4) == 0 { "" } else { "echo " });
        for _ in 0..=self.below(9) {
            line.push_str(TOKENS[self.below(TOKENS.len())]);
        }
        line
    }
}

fn allowed(line: &str, rules: &[String]) -> bool {
    let source = Source {
        layer: "task".into(),
        file: "task.yaml".into(),
    };
    let allow: Result<Vec<Rule>, _> = rules
        .iter()
        .map(|text| Rule::parse(text, Effect::Allow, source.clone()))
        .collect();
    let policy = Arc::new(Policy {
        mode: Mode::Strict,
        allow: allow.unwrap_or_else(|error| panic!("{rules:?}: {error}")),
        deny: Vec::new(),
        roots: Roots {
            workspace: "/srv/ci/repo".into(),
            ..Roots::default()
        },
    });
    let call = Call {
        tool: "Bash",
        input: &Value::Null,
        action: Action::Bash {
            command: line.to_owned(),
        },
        read_only: false,
    };
    decide(&call, &Facts::new(), &policy).is_ok()
}

/// The stubs, their log, and a place to run in.
struct Lab {
    root: tempfile::TempDir,
}

struct Ran {
    /// Name and arguments of each stub that was started.
    started: Vec<Vec<String>>,
    wrote: bool,
    stderr: String,
}

impl Lab {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let log = root.path().join("log");
        fs::create_dir(root.path().join("bin")).unwrap();
        for name in STUBS {
            let stub = root.path().join("bin").join(name);
            let text = format!(
                "#!{BASH}\nbuiltin printf '%s\\0' \"${{0##*/}}\" \"$@\" >>'{0}'\nbuiltin printf '\\1' >>'{0}'\n",
                log.display()
            );
            fs::write(&stub, text).unwrap();
            fs::set_permissions(&stub, fs::Permissions::from_mode(0o755)).unwrap();
        }
        Self { root }
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the test needs a real bash, not the runner's way to start one"
    )]
    fn run(&self, line: &str) -> Ran {
        let at = |name: &str| self.root.path().join(name);
        let (log, scratch) = (at("log"), at("scratch"));
        let _ = fs::remove_file(&log);
        let _ = fs::remove_dir_all(&scratch);
        fs::create_dir(&scratch).unwrap();
        let prelude = "enable -n echo test [ printf true pwd false\n";
        let output = Command::new("/usr/bin/timeout")
            .args([
                "10",
                BASH,
                "--noprofile",
                "--norc",
                "-c",
                &format!("{prelude}{line}"),
            ])
            .env_clear()
            .env("PATH", at("bin"))
            .current_dir(&scratch)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let log = fs::read_to_string(&log).unwrap_or_default();
        let started = log
            .split('\u{1}')
            .filter(|entry| !entry.is_empty())
            .map(|entry| entry.split_terminator('\0').map(str::to_owned).collect())
            .collect();
        Ran {
            started,
            wrote: fs::read_dir(&scratch).unwrap().next().is_some(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

fn exact_rule(words: &[String]) -> String {
    let quoted: Vec<String> = words
        .iter()
        .map(|word| format!("'{}'", word.replace('\'', "'\\''")))
        .collect();
    format!("Bash({})", quoted.join(" "))
}

fn setting(name: &str, default: u64) -> u64 {
    // `option_env!` reads at compile time: a test run depends on nothing outside.
    match name {
        "lines" => option_env!("AGENT_BATCH_FUZZ_LINES"),
        _ => option_env!("AGENT_BATCH_FUZZ_SEED"),
    }
    .and_then(|value| value.parse().ok())
    .unwrap_or(default)
}

#[test]
fn what_the_gate_allows_starts_only_commands_that_a_rule_names() {
    assert!(Path::new(BASH).exists(), "this test needs {BASH}");
    let lab = Lab::new();
    let mut random = Random(setting("seed", 0x5eed_1234_9876_abcd).max(1));
    let rule = ["Bash(echo:*)".to_owned()];
    let mut ran = 0;
    for _ in 0..setting("lines", 6000) {
        let line = random.line();
        if !allowed(&line, &rule) {
            continue;
        }
        ran += 1;
        let found = lab.run(&line);
        let strangers: Vec<_> = found
            .started
            .iter()
            .filter(|words| words[0] != "echo")
            .collect();
        assert!(strangers.is_empty(), "{line:?} started {strangers:?}");
        assert!(!found.wrote, "{line:?} wrote a file");
        assert!(
            !found.stderr.contains("syntax error") && !found.stderr.contains("unexpected"),
            "bash does not accept {line:?}: {}",
            found.stderr
        );
        // A redirection that fails keeps bash from starting anything.
        let comparable = found.stderr.is_empty()
            && !line.contains("&&")
            && !line.contains(['*', '?', '[', '|', '!']);
        if comparable {
            let rules: Vec<String> = found
                .started
                .iter()
                .map(|words| exact_rule(words))
                .collect();
            assert!(
                allowed(&line, &rules),
                "{line:?} is to bash {:?}, but not to the gate",
                found.started
            );
        }
    }
    assert!(
        ran > 100,
        "only {ran} lines were allowed: the vocabulary is too wild"
    );
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the test needs a real bash, not the runner's way to start one"
)]
fn every_command_of_the_corpus_that_is_allowed_is_good_bash() {
    for case in crate::corpus::cases("bash.jsonl") {
        if case.expect == "allow" {
            let output = Command::new(BASH)
                .args(["--noprofile", "--norc", "-n", "-c", &case.command])
                .env_clear()
                .output()
                .unwrap();
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert!(
                output.status.success() && stderr.is_empty(),
                "{}: {stderr}",
                case.id
            );
        }
    }
}
