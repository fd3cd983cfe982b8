//! The truth table cell by cell, and properties that hold for every input.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::Value;

use super::*;

const WORKSPACE: &str = "/w";

fn rule(text: &str, effect: Effect) -> Rule {
    let source = Source {
        layer: "task".into(),
        file: "task.yaml".into(),
    };
    Rule::parse(text, effect, source).unwrap()
}

fn policy(mode: Mode, allow: &[&str], deny: &[&str]) -> Arc<Policy> {
    Arc::new(Policy {
        mode,
        allow: allow.iter().map(|text| rule(text, Effect::Allow)).collect(),
        deny: deny.iter().map(|text| rule(text, Effect::Deny)).collect(),
        roots: Roots {
            workspace: WORKSPACE.into(),
            additional: vec!["/more".into()],
            output: Some("/out/output".into()),
            never_write: Vec::new(),
            never_write_in_run: ["/w/task.yaml".into()].into(),
            closed: vec!["/runner".into()],
        },
    })
}

/// Facts that say what the text of a path says: a regular file, or a directory for a search.
fn facts(action: &Action, policy: &Policy) -> Facts {
    let kind = match action {
        Action::Glob { .. } | Action::Grep { .. } => FileKind::Directory,
        _ => FileKind::File,
    };
    queries(action, policy)
        .into_iter()
        .map(|query| {
            let mut facts = PathFacts::by_text(paths::lexical(WORKSPACE, &query).into());
            facts.kind = kind;
            (query, facts)
        })
        .collect()
}

fn ask(
    tool: &str,
    action: Action,
    read_only: bool,
    policy: &Arc<Policy>,
) -> Result<Permit, Box<Denial>> {
    let facts = facts(&action, policy);
    let call = Call {
        tool,
        input: &Value::Null,
        action,
        read_only,
    };
    decide(&call, &facts, policy)
}

fn read(path: &str) -> (&'static str, Action) {
    ("Read", Action::Read { path: path.into() })
}

fn edit(path: &str) -> (&'static str, Action) {
    ("Edit", Action::Edit { path: path.into() })
}

fn write(path: &str) -> (&'static str, Action) {
    ("Write", Action::Write { path: path.into() })
}

fn grep(root: &str) -> (&'static str, Action) {
    (
        "Grep",
        Action::Grep {
            root: Some(root.into()),
        },
    )
}

fn glob(pattern: &str) -> (&'static str, Action) {
    let pattern = pattern.into();
    (
        "Glob",
        Action::Glob {
            root: None,
            pattern,
        },
    )
}

fn bash(command: &str) -> (&'static str, Action) {
    (
        "Bash",
        Action::Bash {
            command: command.into(),
        },
    )
}

fn fetch(url: &str) -> (&'static str, Action) {
    ("WebFetch", Action::Fetch { url: url.into() })
}

/// What a cell of the table holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cell {
    Allow,
    Deny,
    WouldAsk,
}

use Cell::{Allow as A, Deny as D, WouldAsk as W};

/// One line of the table: strict, default, acceptEdits, plan, bypassPermissions.
fn row(
    call: &(&'static str, Action),
    read_only: bool,
    allow: &[&str],
    deny: &[&str],
    class: &str,
    cells: [Cell; 5],
) {
    let modes = [
        Mode::Strict,
        Mode::Default,
        Mode::AcceptEdits,
        Mode::Plan,
        Mode::BypassPermissions,
    ];
    for (mode, expected) in modes.into_iter().zip(cells) {
        let answer = ask(
            call.0,
            call.1.clone(),
            read_only,
            &policy(mode, allow, deny),
        );
        let found = match &answer {
            Ok(_) => A,
            Err(denial) if denial.would_ask => W,
            Err(_) => D,
        };
        assert_eq!(found, expected, "{call:?} in {mode}: {answer:?}");
        if let Err(denial) = answer {
            let fits = if expected == W {
                denial.class == "no_rule"
            } else {
                class.split('|').any(|class| class == denial.class)
            };
            assert!(fits, "{}: {}", denial.class, denial.reason);
            assert!(denial.reason.contains(mode.name()), "{}", denial.reason);
        }
    }
}

const EVERYTHING: [&str; 7] = [
    "Read(//**)",
    "Edit(//**)",
    "Bash",
    "WebFetch",
    "mcp__a",
    "Read",
    "Edit",
];

#[test]
fn row_1_a_deny_rule_wins_over_everything() {
    for (call, deny) in [
        (read("src/a"), "Read(src/**)"),
        (edit("src/a"), "Read(src/**)"),
        (edit("src/a"), "Edit(src/**)"),
        (write("src/a"), "Edit(src/**)"),
        (grep("src"), "Read(src/**)"),
        (glob("src/*"), "Read(src)"),
        (bash("rm x"), "Bash(rm:*)"),
        (bash("cat src/a"), "Read(src/**)"),
        (bash("ls"), "Bash"),
        (fetch("https://a.evil.org/"), "WebFetch(domain:evil.org)"),
        (("mcp__a__b", Action::Other), "mcp__a"),
    ] {
        row(&call, true, &EVERYTHING, &[deny], "rule", [D; 5]);
    }
}

#[test]
fn row_2_an_ask_denies_and_says_that_a_person_would_have_been_asked() {
    for mode in Mode::ALL {
        let mut policy = Policy::clone(&policy(mode, &EVERYTHING, &[]));
        policy.deny.push(rule("Bash(npm publish)", Effect::Ask));
        let (tool, action) = bash("npm publish");
        let denial = ask(tool, action, false, &Arc::new(policy)).unwrap_err();
        assert!(denial.would_ask && denial.class == "rule", "{denial:?}");
        assert!(
            denial.reason.contains("ask: Bash(npm publish)"),
            "{}",
            denial.reason
        );
    }
}

#[test]
fn row_3_what_needs_a_person_is_denied() {
    for mode in Mode::ALL {
        let denial = ask(
            "mcp__a__b",
            Action::Human,
            true,
            &policy(mode, &EVERYTHING, &[]),
        )
        .unwrap_err();
        assert!(denial.class == "human" && denial.would_ask);
    }
}

#[test]
fn row_4_critical_removals_are_denied() {
    for command in [
        "rm -rf /",
        "rm -rf .",
        "rm -rf ..",
        "rm -r /w",
        "sudo rm -rf /*",
        "rm -rf ~",
        "rm -rf \"$HOME\"",
        "rm -rf ./*",
        "cd src && rm -rf ../../w",
        "rm -rf /home/x",
        "sh -c 'rm -rf /'",
    ] {
        row(&bash(command), false, &EVERYTHING, &[], "critical", [D; 5]);
    }
}

#[test]
fn row_5a_never_paths_are_not_written() {
    for call in [
        write(".git/config"),
        edit("task.yaml"),
        write("agent-batch.yaml"),
        write("agent-batch-results/x"),
        write("/out/output/x"),
        read("/runner/set_env"),
        bash("echo x > .git/config"),
        bash("cp x sub/.git/hooks/y"),
        bash("echo $(rm .git/config)"),
        bash("if true; then echo x > task.yaml; fi"),
        bash("cat /runner/set_env"),
        bash("rm ./*.yaml"),
        bash("bash -c 'rm .git/x'"),
    ] {
        row(&call, false, &EVERYTHING, &[], "protected", [D; 5]);
    }
}

#[test]
fn row_5b_protected_paths_and_secrets_need_a_literal_rule() {
    for call in [
        write(".github/workflows/ci.yml"),
        edit(".claude/x"),
        read(".env"),
        grep("certs/a.pem"),
        edit(".env.local"),
    ] {
        row(&call, false, &EVERYTHING, &[], "protected", [D; 5]);
    }
    row(&read(".env"), false, &["Read(.env)"], &[], "", [A; 5]);
    row(
        &write(".claude/x"),
        false,
        &["Edit(.claude/**)"],
        &[],
        "mode",
        [A, A, A, D, A],
    );
}

#[test]
fn row_5c_outside_only_an_absolute_rule_counts() {
    row(
        &read("/etc/hosts"),
        true,
        &["Read(**)", "Read"],
        &[],
        "outside",
        [D; 5],
    );
    row(
        &write("/etc/hosts"),
        false,
        &["Edit(**)"],
        &[],
        "outside",
        [D; 5],
    );
    row(&grep("/etc"), true, &["Read"], &[], "outside", [D; 5]);
    row(
        &read("/etc/hosts"),
        true,
        &["Read(//etc/hosts)"],
        &[],
        "",
        [A; 5],
    );
    row(
        &write("/srv/x"),
        false,
        &["Edit(//srv/**)"],
        &[],
        "mode",
        [A, A, A, D, A],
    );
}

#[test]
fn row_6_acceptedits_frees_edits_and_plan_forbids_them() {
    for call in [edit("src/a"), write("src/new"), write("/more/a")] {
        row(&call, false, &[], &[], "no_rule|mode", [D, W, A, D, A]);
    }
}

#[test]
fn row_7_reading_tools_are_free_inside_but_not_in_strict() {
    for call in [
        read("src/a"),
        glob("**/*.rs"),
        grep("."),
        grep("src"),
        read("/more/a"),
    ] {
        row(&call, true, &[], &[], "no_rule|outside", [D, A, A, A, A]);
    }
    // Never Bash, whatever it says about itself.
    row(&bash("ls"), true, &[], &[], "mode|no_rule", [D, W, W, W, A]);
}

#[test]
fn spilled_output_is_readable_in_every_mode() {
    for call in [read("/out/output/1.txt"), grep("/out/output")] {
        row(&call, true, &[], &[], "", [A; 5]);
    }
}

#[test]
fn row_8_an_allow_rule_allows() {
    for (call, rules) in [
        (read("src/a"), ["Read(src/**)", "Read"]),
        (glob("src/*"), ["Glob(src/**)", "Read(src/a)"]),
        (bash("git log -3"), ["Bash(git log:*)", "Bash"]),
        (
            fetch("https://example.org/"),
            ["WebFetch(domain:example.org)", "WebFetch"],
        ),
        (("mcp__a__b", Action::Other), ["mcp__a__b", "mcp__a"]),
        (("WebSearch", Action::Other), ["WebSearch", "WebSearch"]),
    ] {
        for rule in rules {
            row(&call, true, &[rule], &[], "", [A; 5]);
        }
    }
    // In `plan` only reading calls get here.
    row(
        &edit("src/a"),
        false,
        &["Edit(src/**)"],
        &[],
        "mode",
        [A, A, A, D, A],
    );
    row(
        &bash("npm test"),
        false,
        &["Bash(npm test)"],
        &[],
        "mode",
        [A, A, A, D, A],
    );
    row(
        &bash("git diff --output=x"),
        false,
        &["Bash(git diff --output=x)"],
        &[],
        "mode",
        [A, A, A, D, A],
    );
    row(
        &bash("echo a > x"),
        false,
        &["Bash(echo:*)", "Edit(x)"],
        &[],
        "mode",
        [A, A, A, D, A],
    );
    row(
        &bash("echo $(id)"),
        false,
        &["Bash"],
        &[],
        "shell",
        [A, A, A, D, A],
    );
    row(
        &("mcp__a__b", Action::Other),
        false,
        &["mcp__a"],
        &[],
        "mode",
        [A, A, A, D, A],
    );
}

#[test]
fn row_9_everything_else_is_denied() {
    row(
        &bash("npm test"),
        false,
        &[],
        &[],
        "no_rule|mode",
        [D, W, W, D, A],
    );
    row(
        &fetch("https://example.org/"),
        true,
        &[],
        &[],
        "no_rule",
        [D, W, W, W, A],
    );
    row(
        &("mcp__a__b", Action::Other),
        false,
        &[],
        &[],
        "no_rule|mode",
        [D, W, W, D, A],
    );
    row(
        &("Unknown", Action::Other),
        false,
        &[],
        &[],
        "no_rule|mode",
        [D, W, W, D, A],
    );
    row(
        &write("src/a"),
        false,
        &[],
        &[],
        "no_rule|mode",
        [D, W, A, D, A],
    );
}

#[test]
fn what_no_rule_opens_is_denied_in_every_mode() {
    for (call, class) in [
        (read(""), "path"),
        (read("a\0b"), "path"),
        (read("/proc/self/environ"), "path"),
        (glob("../*"), "path"),
        (bash("echo 'a"), "shell"),
        (bash("echo a\rb"), "shell"),
        (bash(""), "shell"),
        (fetch("http://example.org/"), "url"),
        (fetch("https://127.0.0.1/"), "url"),
    ] {
        row(&call, true, &EVERYTHING, &[], class, [D; 5]);
    }
}

fn reason(call: (&'static str, Action), mode: Mode, allow: &[&str]) -> String {
    ask(call.0, call.1, false, &policy(mode, allow, &[]))
        .unwrap_err()
        .reason
}

#[test]
fn a_denial_reads_well_at_two_in_the_morning() {
    for (call, allow, sentence) in [
        (
            bash("rm -rf target"),
            vec![],
            "`Bash` denied in mode `default`: no allow rule covers `rm -rf target`; `Bash(rm -rf target)` would",
        ),
        (
            bash("npm test; rm x"),
            vec!["Bash(npm test)"],
            "`Bash` denied in mode `default`: no allow rule covers `rm x`; `Bash(rm x)` would",
        ),
        (
            bash("a; b"),
            vec![],
            "`Bash` denied in mode `default`: no allow rule covers `a`",
        ),
        (
            bash("echo $(id)"),
            vec!["Bash(echo:*)"],
            "`Bash` denied in mode `default`: the command holds a command substitution `$(..)`, which is not analysed, so no rule can cover it",
        ),
        (
            bash("echo $HOME"),
            vec!["Bash(echo:*)"],
            "`Bash` denied in mode `default`: the command holds a parameter expansion `$HOME`, which is not analysed, so no rule can cover it",
        ),
        (
            bash("echo ${a[0]}"),
            vec!["Bash(echo:*)"],
            "`Bash` denied in mode `default`: the command holds a parameter expansion `${..}`, which is not analysed, so no rule can cover it",
        ),
        (
            bash("for i in 1 2; do echo $i; done"),
            vec!["Bash(echo:*)"],
            "`Bash` denied in mode `default`: the command holds control flow (`for`), which is not analysed, so no rule can cover it",
        ),
        (
            bash("echo hi > x.txt"),
            vec!["Bash(echo:*)"],
            "`Bash` denied in mode `default`: the redirection to `x.txt` needs a rule of its own, and no allow rule covers that file; `Write(x.txt)` would",
        ),
        (
            bash("sort -o x y"),
            vec!["Bash(sort:*)"],
            "`Bash` denied in mode `default`: no allow rule covers `x`; `Write(x)` would",
        ),
        (
            bash("find . -delete"),
            vec!["Bash(find:*)"],
            "`Bash` denied in mode `default`: the rule `Bash(find:*)` does not cover the option `-delete` of `find`; `Bash(find . -delete)` would allow it",
        ),
        (
            edit("src/[id].ts"),
            vec![],
            "`Edit` denied in mode `default`: no allow rule covers `src/[id].ts`; `Edit(src/\\[id\\].ts)` would",
        ),
        (
            read("/etc/hosts"),
            vec![],
            "`Read` denied in mode `default`: `/etc/hosts` leads outside the workspace, and no absolute allow rule (`//..`) covers it; `Read(//etc/hosts)` would allow it",
        ),
        (
            fetch("https://Example.org/x"),
            vec![],
            "`WebFetch` denied in mode `default`: no allow rule covers `example.org`; `WebFetch(domain:example.org)` would",
        ),
    ] {
        assert_eq!(reason(call, Mode::Default, &allow), sentence);
    }
}

#[test]
fn a_search_shows_only_what_the_read_rules_show() {
    let shows = |mode: Mode, allow: &[&str], deny: &[&str], path: &str| {
        let (tool, action) = grep(".");
        let permit = ask(tool, action, true, &policy(mode, allow, deny)).unwrap();
        let mut facts = PathFacts::by_text(path.into());
        facts.kind = FileKind::File;
        permit.may_show(&facts)
    };
    assert!(shows(Mode::Default, &[], &[], "/w/src/a"));
    assert!(shows(Mode::Default, &[], &[], "/more/a"));
    assert!(!shows(Mode::Default, &[], &[], "/w/.env"));
    assert!(shows(Mode::Default, &["Read(.env)"], &[], "/w/.env"));
    assert!(!shows(Mode::Default, &[], &["Read(*.pem)"], "/w/a/b.pem"));
    assert!(!shows(Mode::Default, &[], &["Grep(src)"], "/w/src/a"));
    assert!(!shows(Mode::Default, &[], &[], "/etc/passwd"));
    assert!(!shows(Mode::Default, &[], &[], "/runner/x"));
    assert!(shows(Mode::Strict, &["Read(src/**)"], &[], "/w/src/a"));
    assert!(!shows(Mode::Strict, &["Read(src/**)"], &[], "/w/docs/a"));
    assert!(!shows(Mode::Strict, &["Read(src/a)"], &[], "/w/src/ab"));
}

#[test]
fn a_search_does_not_find_the_run_that_it_is_part_of() {
    let mut policy = Policy::clone(&policy(Mode::Default, &["Read(**)"], &[]));
    policy.roots.never_write = vec!["/w/task.yaml".into(), "/w/runs".into(), "/w".into()];
    policy.roots.output = Some("/w/runs/1/output".into());
    let (tool, action) = grep(".");
    let permit = ask(tool, action, true, &Arc::new(policy)).unwrap();
    let shows = |path: &str| {
        let mut facts = PathFacts::by_text(path.into());
        facts.kind = FileKind::File;
        permit.may_show(&facts)
    };
    assert!(!shows("/w/runs/1/events.jsonl"));
    assert!(!shows("/w/agent-batch-results/1/events.jsonl"));
    assert!(shows("/w/runs/1/output/2.txt"));
    assert!(shows("/w/src/a") && shows("/w/task.yaml") && shows("/w/runs.txt"));
}

#[test]
fn a_hostile_mebibyte_is_refused_by_its_length() {
    for command in [
        "( ".repeat(1 << 19),
        "$(".repeat(1 << 19),
        "a;".repeat(1 << 19),
        "{ ".repeat(8000),
        "$((".repeat(5000),
        "sudo ".repeat(3200),
    ] {
        let (tool, action) = bash(&command);
        assert!(
            ask(
                tool,
                action,
                false,
                &policy(Mode::Default, &["Bash(a:*)"], &["Bash(rm:*)", "Read(x)"])
            )
            .is_err()
        );
    }
}

/// Texts that are more likely than random ones to mean something.
fn shellish() -> impl Strategy<Value = String> {
    let token = prop_oneof![
        Just("echo ".to_owned()),
        Just("cd src".to_owned()),
        Just(" && ".to_owned()),
        Just("; ".to_owned()),
        Just(" | ".to_owned()),
        Just(" > out".to_owned()),
        Just("rm -rf ".to_owned()),
        Just("sudo ".to_owned()),
        Just("bash -c '".to_owned()),
        Just("'".to_owned()),
        Just("\"".to_owned()),
        Just("$(".to_owned()),
        Just(")".to_owned()),
        Just("<<E\n".to_owned()),
        Just("\nE\n".to_owned()),
        Just("{ ".to_owned()),
        Just("git -c a=b ".to_owned()),
        Just("sed -i s/a/b/ ".to_owned()),
        Just("find . -exec ".to_owned()),
        Just("*".to_owned()),
        Just("/".to_owned()),
        Just(".git".to_owned()),
        Just("sort -o".to_owned()),
        Just("awk ".to_owned()),
        Just("tar x".to_owned()),
        Just("é\u{200b}".to_owned()),
        any::<String>(),
    ];
    prop::collection::vec(token, 0..12).prop_map(|tokens| tokens.concat())
}

fn action_of(kind: usize, text: String) -> (&'static str, Action) {
    match kind {
        0 => ("Read", Action::Read { path: text }),
        1 => ("Edit", Action::Edit { path: text }),
        2 => ("Write", Action::Write { path: text }),
        3 => (
            "Glob",
            Action::Glob {
                root: None,
                pattern: text,
            },
        ),
        4 => ("Grep", Action::Grep { root: Some(text) }),
        5 => ("WebFetch", Action::Fetch { url: text }),
        6 => ("mcp__a__b", Action::Other),
        _ => ("Bash", Action::Bash { command: text }),
    }
}

proptest! {
    #[test]
    fn decide_never_panics_and_strict_without_rules_allows_nothing(kind in 0_usize..16, text in shellish(), read_only: bool) {
        let (tool, action) = action_of(kind, text);
        prop_assert!(ask(tool, action.clone(), read_only, &policy(Mode::Strict, &[], &[])).is_err() || in_output(&action));
        for mode in Mode::ALL {
            let _ = ask(tool, action.clone(), read_only, &policy(mode, &["Bash(echo:*)", "Edit(**)"], &["Bash(rm:*)", "Read(*.pem)"]));
            let _ = ask(tool, action.clone(), read_only, &policy(mode, &EVERYTHING, &[]));
        }
    }

    #[test]
    fn no_command_is_free_of_rules_but_in_bypass(command in shellish(), read_only: bool) {
        let (tool, action) = bash(&command);
        for mode in Mode::ALL.into_iter().filter(|mode| *mode != Mode::BypassPermissions) {
            prop_assert!(ask(tool, action.clone(), read_only, &policy(mode, &[], &[])).is_err());
        }
    }

    #[test]
    fn a_suggested_rule_allows_just_that_call(command in "[a-z*'\" =.>/-]{1,24}") {
        let (tool, action) = bash(&command);
        let denied = ask(tool, action.clone(), false, &policy(Mode::Strict, &[], &[])).err();
        if let Some(text) = denied.and_then(|denial| denial.suggestion) {
            prop_assert!(ask(tool, action, false, &policy(Mode::Strict, &[&text], &[])).is_ok());
            let (tool, other) = bash(&format!("{command} -x"));
            prop_assert!(ask(tool, other, false, &policy(Mode::Strict, &[&text], &[])).is_err());
        }
    }

    #[test]
    fn a_deny_rule_only_takes_away(kind in 0_usize..16, text in shellish()) {
        let (tool, action) = action_of(kind, text);
        for mode in Mode::ALL {
            if ask(tool, action.clone(), false, &policy(mode, &EVERYTHING, &[])).is_err() {
                prop_assert!(ask(tool, action.clone(), false, &policy(mode, &EVERYTHING, &["Bash(rm:*)"])).is_err());
            }
        }
    }
}

/// The spilled output is readable without rules, even in `strict`.
fn in_output(action: &Action) -> bool {
    let (Action::Read { path }
    | Action::Grep { root: Some(path) }
    | Action::Glob { pattern: path, .. }) = action
    else {
        return false;
    };
    paths::lexical(WORKSPACE, path).starts_with("/out/output")
}

#[test]
fn a_deny_rule_of_any_source_wins_over_allow_rules_of_every_source() {
    let sources = ["policy", "defaults", "task", "cli"];
    let rule = |effect, layer: &str| {
        let source = Source {
            layer: layer.to_owned(),
            file: layer.to_owned(),
        };
        Rule::parse("Bash(ls:*)", effect, source).unwrap()
    };
    let allow: Vec<Rule> = sources.map(|layer| rule(Effect::Allow, layer)).into();
    for denying in sources {
        for mode in Mode::ALL {
            for reversed in [false, true] {
                let mut allow = allow.clone();
                if reversed {
                    allow.reverse();
                }
                let policy = Arc::new(Policy {
                    mode,
                    allow,
                    deny: vec![rule(Effect::Deny, denying)],
                    roots: Roots {
                        workspace: "/ws".into(),
                        ..Roots::default()
                    },
                });
                let call = Call {
                    tool: "Bash",
                    input: &Value::Null,
                    action: Action::Bash {
                        command: "ls -l".to_owned(),
                    },
                    read_only: false,
                };
                let denial = decide(&call, &Facts::new(), &policy).unwrap_err();
                assert_eq!(denial.class, "rule");
                let named = denial.rule.unwrap();
                assert_eq!(named.source().layer, denying);
                assert!(denial.reason.contains(denying), "{}", denial.reason);
            }
        }
    }
}

#[test]
fn the_length_is_checked_before_anything_is_read() {
    // A line that is too long and wrong in every other way is refused for its length, and at once.
    let line = format!("{}\u{0}$( `'\"", "( ".repeat(600_000));
    let refusal = super::bash::refusal_of(&line).unwrap();
    assert!(
        refusal.contains("16384") || refusal.contains("16,384"),
        "{refusal}"
    );
    assert_eq!(
        super::decide::queries(&Action::Bash { command: line }, &Policy::default()),
        Vec::<String>::new()
    );
}
