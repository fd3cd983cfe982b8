//! Output that wants to be something else: markup, commands, half a character, fifty megabytes.

use std::process::{Command, Stdio};

use crate::sandbox::{Run, Sandbox};

/// What XML, JSON, terminals and CI systems stumble over.
const NASTY: &[u8] = b"]]> <evil/> \x00 \x1b[31mred\x1b[0m \x1b]8;;http://evil\x07 \xef\xbf\xbe \xed\xa0\x80 \x9b \xe2\x80\xae\n\
::error::forged\n  ::set-output name=a::b\n##[error]old\r::warning::after a return\n::add-mask::a\n[[ATTACHMENT|/etc/passwd]]\n";

fn nasty_run(sandbox: Sandbox) -> Sandbox {
    let text = r#""]]> \0 \e[31m \uFFFE \u202E <evil/>\n::error::forged by the model\n##[error]old\n```\n# not a heading\n@everyone <img src=x>""#;
    sandbox
        .task("tools: [Bash]\npermissions: { allow: [\"Bash(cat:*)\"] }\nchecks:\n  - command: { run: \"cat nasty; exit 1\" }\n")
        .script(&format!("- text: {text}\n  tool_calls: [{{ name: Bash, input: {{ command: cat nasty }} }}]\n- text: {text}\n"))
}

/// Runs a counterpart that reads the JUnit file; says loudly when it is not installed.
fn reads(program: &str, args: &[&str], run: &Run) -> Option<String> {
    let output = Command::new(program)
        .args(args)
        .arg(run.path("agent-batch-results/junit.xml"))
        .stdin(Stdio::null())
        .output();
    let Ok(output) = output else {
        eprintln!("SKIPPED: `{program}` is not installed, so nobody else has read the JUnit file");
        return None;
    };
    assert!(
        output.status.success(),
        "{program}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn no_report_is_broken_and_no_line_is_a_command() {
    let sandbox = nasty_run(Sandbox::new().file("repo/nasty", NASTY)).env("GITHUB_ACTIONS", "true");
    let run = sandbox.run().exit(1);
    assert_eq!(run.outcome("task"), "check_failed");
    run.events("task");
    reads("xmllint", &["--noout"], &run);
    let printed = [run.stdout(), run.stderr()].concat();
    for line in printed.split(['\n', '\r']) {
        let ours = line.starts_with("::error file=tasks/task.yaml,line=1,title=");
        assert!(ours || !line.trim_start().starts_with("::"), "{line:?}");
        assert!(!line.contains("##["), "{line:?}");
        assert!(
            !line.chars().any(|c| c.is_control() && c != '\t'),
            "{line:?}"
        );
    }
    if let Some(count) = reads("xmllint", &["--xpath", "count(//evil)"], &run) {
        assert_eq!(count.trim(), "0", "text became an element");
    }
    assert_eq!(
        run.junit().matches("[[ATTACHMENT|").count(),
        1,
        "the only attachment is the transcript"
    );
}

#[test]
fn python_counts_what_we_counted() {
    let sandbox = nasty_run(Sandbox::new().file("repo/nasty", NASTY));
    let run = sandbox.run().exit(1);
    let script = "import sys, junitparser\nxml = junitparser.JUnitXml.fromfile(sys.argv[1])\nprint(xml.tests, xml.failures, xml.errors, xml.skipped, sum(len(s) for s in xml))";
    let python = concat!(env!("CARGO_MANIFEST_DIR"), "/target/python/bin/python");
    if let Some(counts) = reads(python, &["-c", script], &run) {
        assert_eq!(counts.trim(), "1 1 0 0 1");
    }
}

#[test]
fn fifty_megabytes_are_on_disk_and_not_in_memory() {
    let line = [NASTY, b"0123456789abcdef\n"].concat();
    let size = 50 * 1024 * 1024;
    let mut huge = Vec::with_capacity(size + line.len());
    while huge.len() < size {
        huge.extend_from_slice(&line);
    }
    let sandbox = nasty_run(Sandbox::new().file("repo/nasty", &huge));
    let mut child = sandbox
        .command(&["tasks/task.yaml"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    let code = loop {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let now = text.lines().find_map(|line| {
            line.strip_prefix("VmHWM:")?
                .trim()
                .strip_suffix(" kB")?
                .parse::<u64>()
                .ok()
        });
        peak = peak.max(now.unwrap_or(0));
        if let Some(code) = child.try_wait().unwrap() {
            break code;
        }
        std::thread::park_timeout(std::time::Duration::from_millis(1));
    };
    assert_eq!(code.code(), Some(1));
    assert!(peak > 0 && peak < 100 * 1024, "peak memory: {peak} kB");
    let transcript = std::fs::metadata(
        sandbox
            .path()
            .join("agent-batch-results/task/1/transcript.jsonl"),
    )
    .unwrap();
    assert!(transcript.len() < 1024 * 1024, "{}", transcript.len());
    let output = sandbox.path().join("agent-batch-results/task/1/output");
    let spilled = std::fs::read_dir(output)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .metadata()
        .unwrap();
    assert!(spilled.len() >= size as u64, "{}", spilled.len());
}
