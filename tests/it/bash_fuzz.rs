//! The gate against the real bash: what the gate allows starts only commands that a rule names.
//!
//! Random lines are put together from the tokens that shells stumble over. Each line that the gate allows is run by
//! bash with a PATH of stubs that log their name and arguments. Three things must hold: only the command with a rule
//! was started, nothing was written, bash saw no syntax error. And the arguments that bash computed are the ones the
//! gate computed: exact rules made from the log allow the same line again.
//!
//! The seed is fixed. A long run with another one is the ignored test: see `docs/security.md`.
//!
//! Starting bash costs far more than asking the gate, so many lines share one bash: each is the text of an `eval` in a
//! subshell of its own, with a log of its own, in a directory that is empty again before the next one.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::collections::HashSet;
use std::fs;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;

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

/// A gate with some rules.
fn gate(rules: &[String]) -> Arc<Policy> {
    let source = Source {
        layer: "task".into(),
        file: "task.yaml".into(),
    };
    let allow: Result<Vec<Rule>, _> = rules
        .iter()
        .map(|text| Rule::parse(text, Effect::Allow, source.clone()))
        .collect();
    Arc::new(Policy {
        mode: Mode::Strict,
        allow: allow.unwrap_or_else(|error| panic!("{rules:?}: {error}")),
        deny: Vec::new(),
        roots: Roots {
            workspace: "/srv/ci/repo".into(),
            ..Roots::default()
        },
    })
}

fn allowed(line: &str, gate: &Arc<Policy>) -> bool {
    let call = Call {
        tool: "Bash",
        input: &Value::Null,
        action: Action::Bash {
            command: line.to_owned(),
        },
        read_only: false,
    };
    decide(&call, &Facts::new(), gate).is_ok()
}

/// A place to run in.
struct Lab {
    root: tempfile::TempDir,
}

struct Ran {
    /// Name and arguments of each stub that was started.
    started: Vec<Vec<String>>,
    wrote: bool,
    stderr: String,
}

/// What runs the lines of a batch: `N.line` is read by `eval` in a subshell; what it says goes to `N.err`, what it
/// starts to `N.log`.
///
/// A subshell has nothing but stubs. They are functions, which bash finds before builtins and programs; every builtin has
/// one but `builtin` itself, which the stubs need. The PATH leads nowhere, and what is not found is logged too. A stub
/// logs by one write: the parts of a pipeline run at once, and no record may stand in the middle of another.
const HARNESS: &str = r#"
LAB=$1
RM=/bin/rm
stub() { builtin printf '%s\0' $'\1'"$1" "${@:2}" >>"$LOG"; }
command_not_found_handle() { stub "$@"; }
for name in STUBS $(compgen -b); do
  case $name in
    builtin | '[' | : | .) ;;
    *) builtin eval "function $name { stub $name \"\$@\"; }" ;;
  esac
done
builtin enable -n '[' : .
PATH=/nowhere
for line in "$LAB"/*.line; do
  name=${line%.line}
  builtin mapfile -d '' text <"$line"
  (
    builtin cd "$LAB/scratch" || builtin exit 9
    LOG=$name.log
    builtin eval "${text[0]}"
  ) </dev/null >/dev/null 2>"$name.err"
  for left in "$LAB"/scratch/* "$LAB"/scratch/.[!.]*; do
    if [[ -e $left ]]; then
      >"$name.wrote"
      "$RM" -rf "$LAB"/scratch/* "$LAB"/scratch/.[!.]*
    fi
  done
done
builtin exit 0
"#;

impl Lab {
    fn new() -> Self {
        Self {
            root: tempfile::tempdir().unwrap(),
        }
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the test needs a real bash, not the runner's way to start one"
    )]
    fn run(&self, lines: &[String]) -> Vec<Ran> {
        let lab = self.root.path().join("batch");
        let _ = fs::remove_dir_all(&lab);
        fs::create_dir_all(lab.join("scratch")).unwrap();
        let at = |index: usize, end: &str| lab.join(format!("{index:06}.{end}"));
        for (index, line) in lines.iter().enumerate() {
            fs::write(at(index, "line"), line).unwrap();
        }
        let harness = HARNESS.replace("STUBS", &STUBS.join(" "));
        let output = Command::new("/usr/bin/timeout")
            .args(["300", BASH, "--noprofile", "--norc", "-c", &harness, "lab"])
            .arg(&lab)
            .env_clear()
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(
            output.status.success() && output.stderr.is_empty(),
            "{output:?}"
        );
        let read = |path: PathBuf| fs::read(path).unwrap_or_default();
        (0..lines.len())
            .map(|index| {
                let log = String::from_utf8_lossy(&read(at(index, "log"))).into_owned();
                assert!(at(index, "err").exists(), "{:?} was not run", lines[index]);
                Ran {
                    started: log
                        .split('\u{1}')
                        .filter(|entry| !entry.is_empty())
                        .map(|entry| entry.split_terminator('\0').map(str::to_owned).collect())
                        .collect(),
                    wrote: at(index, "wrote").exists(),
                    stderr: String::from_utf8_lossy(&read(at(index, "err"))).into_owned(),
                }
            })
            .collect()
    }
}

fn exact_rule(words: &[String]) -> String {
    let quoted: Vec<String> = words
        .iter()
        .map(|word| format!("'{}'", word.replace('\'', "'\\''")))
        .collect();
    format!("Bash({})", quoted.join(" "))
}

/// Lines that one bash runs.
const BATCH: usize = 500;

/// How many lines there were, how many were allowed, and how many of those were compared word by word.
#[derive(Debug, Default, Clone, Copy)]
struct Counts {
    generated: usize,
    allowed: usize,
    compared: usize,
}

/// Generates `count` lines on two threads; fails on the first one on which gate and bash disagree.
fn compare(count: usize, seed: u64) {
    assert!(Path::new(BASH).exists(), "this test needs {BASH}");
    let halves = [(count / 2, seed), (count - count / 2, !seed)];
    let counts: Vec<Counts> = thread::scope(|scope| {
        let threads = halves.map(|(count, seed)| scope.spawn(move || compare_some(count, seed)));
        threads
            .map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)))
            .into()
    });
    let sum = |of: fn(&Counts) -> usize| counts.iter().map(of).sum::<usize>();
    let (generated, allowed) = (sum(|counts| counts.generated), sum(|counts| counts.allowed));
    let compared = sum(|counts| counts.compared);
    assert_eq!(generated, count);
    assert!(
        allowed * 100 >= generated,
        "only {allowed} of {generated} lines were allowed: the vocabulary is too wild"
    );
    assert!(
        compared * 4 >= allowed,
        "only {compared} of {allowed} were compared word by word"
    );
}

fn compare_some(count: usize, seed: u64) -> Counts {
    let lab = Lab::new();
    let mut random = Random(seed.max(1));
    let rule = gate(&["Bash(echo:*)".to_owned()]);
    let mut counts = Counts::default();
    let (mut known, mut batch) = (HashSet::new(), Vec::new());
    for number in 1..=count {
        let line = random.line();
        counts.generated += 1;
        if allowed(&line, &rule) {
            counts.allowed += 1;
            // Bash says the same about the same line.
            if known.insert(line.clone()) {
                batch.push(line);
            } else {
                counts.compared += 1;
            }
        }
        if batch.len() == BATCH || number == count {
            for (line, found) in batch.iter().zip(lab.run(&batch)) {
                counts.compared += usize::from(judge(line, &found));
            }
            batch.clear();
        }
    }
    counts
}

/// Whether the words were compared as well.
fn judge(line: &str, found: &Ran) -> bool {
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
        && !found.started.is_empty()
        && !line.contains("&&")
        && !line.contains(['*', '?', '[', '|', '!']);
    if comparable {
        let rules: Vec<String> = found
            .started
            .iter()
            .map(|words| exact_rule(words))
            .collect();
        assert!(
            allowed(line, &gate(&rules)),
            "{line:?} is to bash {:?}, but not to the gate",
            found.started
        );
    }
    comparable
}

#[test]
fn what_the_gate_allows_starts_only_commands_that_a_rule_names() {
    compare(200_000, 0x5eed_1234_9876_abcd);
}

/// As many lines and whatever seed the build was given: `AGENT_BATCH_FUZZ_LINES`, `AGENT_BATCH_FUZZ_SEED`.
#[test]
#[ignore = "takes as long as it is told to"]
fn a_long_run_finds_nothing_either() {
    let number = |text: Option<&str>, default: u64| {
        text.map_or(default, |text| {
            text.parse()
                .unwrap_or_else(|_| panic!("`{text}` is no number"))
        })
    };
    // Read when the test is compiled: a test run depends on nothing outside.
    let lines = number(option_env!("AGENT_BATCH_FUZZ_LINES"), 2_000_000);
    let seed = number(option_env!("AGENT_BATCH_FUZZ_SEED"), 0x0dd5_eed5);
    compare(usize::try_from(lines).unwrap(), seed);
}

/// The harness itself must see what it is there for.
#[test]
fn the_laboratory_sees_commands_files_and_syntax_errors() {
    let lines = [
        "echo a 'b c' | id",
        "echo a > x",
        "echo 'a",
        "nothing-like-this x",
        "echo ok",
        "PATH=/bin ls",
    ]
    .map(str::to_owned);
    let found = Lab::new().run(&lines);
    let started =
        |index: usize, words: &[&str]| found[index].started.iter().any(|entry| entry == words);
    assert!(started(0, &["echo", "a", "b c"]) && started(0, &["id"]));
    assert!(found[1].wrote && !found[0].wrote && !found[4].wrote);
    assert!(
        found[2].stderr.contains("unexpected"),
        "{}",
        found[2].stderr
    );
    assert!(started(3, &["nothing-like-this", "x"]));
    assert!(started(4, &["echo", "ok"]) && found[4].stderr.is_empty());
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
