//! `report.html` as a reader gets it: read more strictly than a browser does, and then in a browser.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests fail as loudly as tests"
)]

mod browser;
mod strict;

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, BufWriter, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use agent_batch::event::{Event, ToolResultKind};
use agent_batch::report::{files, html, run_dir};
use base64::Engine as _;
use proptest::prelude::*;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::report::{
    Link, START, Script, answered, call, decided, finished, fold, hostile, planned, prompt,
    readable, record, replied, started, step,
};
use crate::sandbox::Sandbox;
use agent_batch::outcome::{Outcome, Stop};
use agent_batch::report::RunPlan;
use browser::Browser;

/// The page of a run that lies in a directory.
fn page_of(directory: &Path, plan: &RunPlan, events: &[Event]) -> String {
    let summary = fold(plan.clone(), events);
    let mut page = Vec::new();
    html::write(&mut page, &summary, directory).unwrap();
    String::from_utf8(page).unwrap()
}

/// A run directory with its page.
fn written(plan: &RunPlan, events: &[Event]) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    record(directory.path(), plan, events);
    let path = directory.path().join(files::HTML);
    fs::write(&path, page_of(directory.path(), plan, events)).unwrap();
    (directory, path)
}

#[test]
fn the_page_says_what_a_reviewer_asks_for() {
    let (plan, events) = readable();
    let (directory, path) = written(&plan, &events);
    let page = strict::read(&fs::read_to_string(path).unwrap());
    page.links_lead_somewhere();
    for told in [
        "Failed: 1 of 5 tasks",
        "Fix it.",
        "no allow rule matches ",
        "Smallest rule that allows it: Bash(git push:*)",
        "no answer within 10s",
        "src/a.rs",
        "429: rate limited",
        "attempt 2",
        "529: overloaded",
        "WARNING",
    ] {
        assert!(page.text.contains(told), "{told}: {}", page.text);
    }
    // The denial leads to its step, and the address of a step is what people write down.
    assert!(
        page.links.contains(&"#pushes/1".to_owned()),
        "{:?}",
        page.links
    );
    for id in [
        "good/2",
        "flaky/1",
        "flaky/attempt-1/1",
        "killed/1",
        "never",
    ] {
        assert!(page.ids.contains(&id.to_owned()), "{id}: {:?}", page.ids);
    }
    let transcripts = page.links.iter().filter(|link| link.ends_with(".jsonl"));
    assert_eq!(
        transcripts
            .filter(|link| directory.path().join(link).exists())
            .count(),
        5
    );
    // What failed stands first.
    let order: Vec<&str> = ["pushes", "killed", "never", "good"].to_vec();
    let places: Vec<usize> = order
        .iter()
        .map(|id| page.ids.iter().position(|known| known == id).unwrap())
        .collect();
    assert!(places.is_sorted(), "{places:?}");
}

#[test]
fn the_policy_allows_what_is_embedded_and_nothing_else() {
    let (plan, events) = readable();
    let (_directory, path) = written(&plan, &events);
    let page = strict::read(&fs::read_to_string(path).unwrap());
    page.links_lead_somewhere();
    let hashes: Vec<String> = page
        .embedded
        .iter()
        .map(|text| base64::engine::general_purpose::STANDARD.encode(Sha256::digest(text)))
        .collect();
    assert_eq!(
        page.policy,
        format!(
            "default-src 'none'; style-src 'sha256-{}'; script-src 'sha256-{}'; base-uri 'none'; form-action 'none'",
            hashes[0], hashes[1]
        )
    );
}

#[test]
fn every_run_and_every_report_writes_the_page() {
    let sandbox = Sandbox::new()
        .file("repo/a.txt", "alpha\n")
        .task("prompt: Turn alpha into beta.\npermissions: { allow: [\"Edit(a.txt)\"] }\nchecks:\n  - reply: { contains: done }\n")
        .script(
            "- text: I look.\n  tool_calls: [{ name: Read, input: { file_path: a.txt } }]\n\
             - tool_calls: [{ name: Edit, input: { file_path: a.txt, old_string: alpha, new_string: beta } }]\n\
             - text: all done\n",
        );
    let run = sandbox.run().exit(0);
    let path = run.path("agent-batch-results/report.html");
    let first = fs::read_to_string(&path).unwrap();
    let page = strict::read(&first);
    for told in [
        "Passed: the task",
        "Turn alpha into beta.",
        "I look.",
        "-alpha",
        "+beta",
        "all done",
    ] {
        assert!(page.text.contains(told), "{told}");
    }
    assert!(first.contains("<ins>+beta</ins>"));
    assert!(page.ids.contains(&"task/3".to_owned()), "{:?}", page.ids);
    fs::remove_file(&path).unwrap();
    sandbox.call(&["report", "agent-batch-results"]).exit(0);
    assert_eq!(fs::read_to_string(&path).unwrap(), first);
}

#[test]
fn hostile_text_is_only_ever_text() {
    let (plan, events) = hostile();
    let (_directory, path) = written(&plan, &events);
    let page = strict::read(&fs::read_to_string(path).unwrap());
    page.links_lead_somewhere();
    assert!(page.text.contains("<script>alert(1)</script>"));
    assert!(page.text.contains("javascript:"), "shown, and no link");
}

#[test]
fn whatever_is_missing_or_damaged_leaves_a_page() {
    let (plan, events) = readable();
    let (directory, _) = written(&plan, &events);
    let at = |name: &str| directory.path().join(run_dir::transcript(name, 1));
    let secret = directory.path().join("secret");
    fs::write(&secret, fs::read(at("good")).unwrap()).unwrap();
    fs::remove_file(at("good")).unwrap();
    std::os::unix::fs::symlink(&secret, at("good")).unwrap();
    fs::write(at("pushes"), b"not json\n\xff\xfe\n{\"v\":1}\n").unwrap();
    fs::remove_file(at("killed")).unwrap();
    let page = strict::read(&page_of(directory.path(), &plan, &events));
    assert_eq!(
        page.text
            .matches("The transcript could not be read")
            .count(),
        2
    );
    assert!(
        page.text
            .contains("3 lines of the transcript could not be used.")
    );
    assert!(
        !page.text.contains("I run the tests."),
        "a link is not followed"
    );
}

#[test]
fn a_transcript_that_is_cut_anywhere_leaves_a_page() {
    let (plan, events) = readable();
    let (directory, _) = written(&plan, &events);
    let path = directory.path().join(run_dir::transcript("pushes", 1));
    let whole = fs::read(&path).unwrap();
    for cut in (0..whole.len()).step_by(whole.len() / 40) {
        fs::write(&path, &whole[..cut]).unwrap();
        let summary = run_dir::load(directory.path()).unwrap().summary;
        files::write_all(directory.path(), &summary, files::Forms::default()).unwrap();
        let page = fs::read_to_string(directory.path().join(files::HTML)).unwrap();
        strict::read(&page).links_lead_somewhere();
    }
}

#[test]
fn an_output_is_linked_only_where_the_attempt_has_put_it() {
    let test = call("t1", "Bash", json!({"command": "make"}));
    let mut script = Script::new("task", 1)
        .then(started("a.yaml", "default"))
        .then(step(1));
    script = script.then(replied(1, "x", &vec![test.clone(); 4]));
    let files = [
        "task/1/output/1.txt",
        "/etc/passwd",
        "task/1/output/../../secret",
        "other/1/output/1.txt",
    ];
    for file in files {
        let agent_batch::event::Kind::ToolFinished(mut tool) =
            answered(1, &test, ToolResultKind::Ok, "preview")
        else {
            unreachable!()
        };
        tool.output_file = Some(file.into());
        script = script.then(agent_batch::event::Kind::ToolFinished(tool));
    }
    let plan = RunPlan::new("0", START, 1, vec![planned("task", "a.yaml", 1)]);
    let (_directory, path) = written(&plan, &script.events);
    let page = strict::read(&fs::read_to_string(path).unwrap());
    page.links_lead_somewhere();
    let outputs: Vec<&String> = page
        .links
        .iter()
        .filter(|link| link.ends_with(".txt") || link.contains("passwd"))
        .collect();
    assert_eq!(outputs, ["./task/1/output/1.txt"]);
}

/// Writes a transcript of so many steps with large outputs; one in the middle is denied. Gives the events that count.
fn long(directory: &Path, steps: u32, denied: u32) -> (RunPlan, Vec<Event>) {
    let plan = RunPlan::new("0", START, 1, vec![planned("long", "a.yaml", 1)]);
    let test = call("t1", "Bash", json!({"command": "make"}));
    let mut counted = Script::new("long", 1)
        .then(started("a.yaml", "default"))
        .then(prompt("Go."))
        .events;
    record(directory, &plan, &counted);
    let path = directory.join(run_dir::transcript("long", 1));
    let mut file = BufWriter::new(File::create(path).unwrap());
    let mut chain = Link::default();
    for event in &counted {
        let line = chain.line(&serde_json::to_string(event).unwrap());
        file.write_all(line.as_bytes()).unwrap();
    }
    let output = "a line of output <b> & more\n".repeat(1100);
    let lines = |number: u32, is_denied: bool| {
        let script = Script::new("long", 1)
            .then(step(number))
            .then(replied(number, "I go on.", std::slice::from_ref(&test)))
            .then(decided(number, &test, !is_denied, "no allow rule matches"))
            .then(answered(number, &test, ToolResultKind::Ok, &output));
        let written: Vec<String> = script
            .events
            .iter()
            .map(|event| serde_json::to_string(event).unwrap() + "\n")
            .collect();
        (script.events, written.concat())
    };
    // Written once and copied: the number stands for itself.
    let usual = lines(777_777, false).1;
    for number in 1..=steps {
        let written = if number == denied {
            let (events, written) = lines(number, true);
            counted.extend(events);
            written
        } else {
            usual.replace("777777", &number.to_string())
        };
        for line in written.lines() {
            file.write_all(chain.line(line).as_bytes()).unwrap();
        }
    }
    file.flush().unwrap();
    (plan, counted)
}

#[test]
fn a_transcript_of_fifty_megabytes_gives_a_page_that_opens() {
    let directory = tempfile::tempdir().unwrap();
    let (plan, events) = long(directory.path(), 1_700, 800);
    let transcript = directory.path().join(run_dir::transcript("long", 1));
    assert!(fs::metadata(transcript).unwrap().len() > 50_000_000);
    let page = page_of(directory.path(), &plan, &events);
    assert!(page.len() < 12 * 1024 * 1024, "{}", page.len());
    assert!(page.len() > 4 * 1024 * 1024, "{}", page.len());
    let page = strict::read(&page);
    assert!(page.text.contains("entries left out here for want of room"));
    // First, last, and the one that the page points at.
    for id in ["long/1", "long/1700", "long/800"] {
        assert!(page.ids.contains(&id.to_owned()), "{id}");
    }
    assert!(page.ids.len() < 1_600);
}

#[test]
fn a_line_of_megabytes_is_clipped() {
    let text = "<b>\0".repeat(300_000);
    let odd = call("t1", "Bash", json!({"command": text, "b": {"c": text}}));
    let small = call("t2", "Bash", json!({}));
    let script = Script::new("wide", 1)
        .then(started("a.yaml", "default"))
        .then(prompt(&text))
        .then(step(1))
        .then(replied(1, &text, std::slice::from_ref(&odd)))
        .then(decided(1, &odd, false, &text))
        .then(answered(1, &odd, ToolResultKind::Error, &text))
        .then(step(2))
        .then(replied(2, "", &vec![small; 100]))
        .then(finished(Stop::Completed, Outcome::Denied, &text));
    let plan = RunPlan::new("0", START, 1, vec![planned("wide", "a.yaml", 1)]);
    let (_directory, path) = written(&plan, &script.events);
    let page = fs::read_to_string(path).unwrap();
    assert!(page.len() < 512 * 1024, "{}", page.len());
    let page = strict::read(&page);
    assert!(page.text.contains("bytes cut]"));
    assert!(page.text.contains("40 more calls in the transcript"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_text_becomes_markup(text in "(\\PC|<|>|&|\"|'|`|@@ -1 @@|\n[+-]|</pre>|<!--|-->|]]>|[\\x00-\\x1f]|\u{202e}){0,60}") {
        let odd = call(&text, &text, json!({&text: &text, "command": &text}));
        let script = Script::new(&text, 1)
            .then(started(&text, &text))
            .then(prompt(&text))
            .then(step(1))
            .then(replied(1, &text, std::slice::from_ref(&odd)))
            .then(decided(1, &odd, false, &text))
            .then(answered(1, &odd, ToolResultKind::Ok, &text))
            .then(finished(Stop::Completed, Outcome::Denied, &text));
        let plan = RunPlan::new(&text, START, 1, vec![planned(&text, &text, 1)]);
        let (_directory, path) = written(&plan, &script.events);
        strict::read(&fs::read_to_string(path).unwrap());
    }
}

/// A proxy on loopback that answers nothing and writes down what is asked of it.
fn listener() -> (u16, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&asked);
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let mut line = String::new();
            let _ = BufReader::new(stream).read_line(&mut line);
            seen.lock().unwrap().push(line);
        }
    });
    (port, asked)
}

/// All that stands in the document of a browser: names of elements with their number, and of attributes.
const CENSUS: &str = "(() => { const all = [...document.querySelectorAll('*')]; return { \
    elements: all.length, buttons: document.querySelectorAll('button').length, \
    handlers: all.flatMap(e => [...e.attributes]).filter(a => /^(on|style|src|srcdoc|action)/.test(a.name)).length, \
    odd: [...document.querySelectorAll('img,svg:not(.bar),iframe,form,input,link,object,embed,base,audio,video')].length, \
    scripts: document.scripts.length, canary: typeof window.canary, \
    styled: getComputedStyle(document.querySelector('.facts')).display }; })()";

/// The smallest contrast between a text and what it stands on.
const CONTRAST: &str = r"(() => {
  const parse = c => c.match(/[\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(v => v / 255).map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
  let worst = [99, ''];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const at = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || ['SCRIPT', 'STYLE'].includes(at.tagName)) continue;
    let ground = at;
    while (ground && (parse(getComputedStyle(ground).backgroundColor)[3] ?? 1) === 0) ground = ground.parentElement;
    const a = light(parse(getComputedStyle(at).color)), b = light(parse(getComputedStyle(ground).backgroundColor));
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    if (ratio < worst[0]) worst = [ratio, at.outerHTML.slice(0, 120)];
  }
  return worst;
})()";

/// What a key press can reach and act on.
const REACHABLE: &str = "[...document.querySelectorAll('a[href],summary,button')].filter(e => e.checkVisibility()).length";

#[test]
fn in_a_browser_nothing_runs_and_everything_can_be_reached() {
    let (port, asked) = listener();
    let Some(mut browser) = Browser::start(port) else {
        return;
    };
    control(&mut browser, &asked);
    let (plan, events) = hostile();
    let (_hostile, path) = written(&plan, &events);
    let expected = strict::read(&fs::read_to_string(&path).unwrap()).elements;
    for scripts in [true, false] {
        browser.ask(
            "Emulation.setScriptExecutionDisabled",
            &json!({"value": !scripts}),
        );
        inert(&mut browser, &path, expected, scripts);
    }
    let asked = asked.lock().unwrap();
    let ours: Vec<&String> = asked
        .iter()
        .filter(|line| line.contains("canary"))
        .collect();
    assert_eq!(ours.len(), 1, "only the control's: {ours:?}");
    drop(asked);

    let (plan, events) = readable();
    let (_readable, path) = written(&plan, &events);
    for scripts in [false, true] {
        browser.ask(
            "Emulation.setScriptExecutionDisabled",
            &json!({"value": !scripts}),
        );
        keyboard(&mut browser, &path, scripts);
        deep_links(&mut browser, &path);
    }
    sorting(&mut browser, &path);
    looks(&mut browser, &path);
}

/// The means of the test find what they look for: a page without a policy runs its script and asks for its image.
fn control(browser: &mut Browser, asked: &Mutex<Vec<String>>) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("control.html");
    fs::write(
        &path,
        "<!DOCTYPE html><div class=facts></div><img src=http://canary.invalid/control><script>window.canary=1</script>",
    )
    .unwrap();
    browser.open(&path, "");
    let census = browser.value(CENSUS);
    assert_eq!(
        (census["canary"].as_str(), &census["odd"]),
        (Some("number"), &json!(1))
    );
    assert_eq!(browser.requests.len(), 2, "{:?}", browser.requests);
    assert!(
        asked
            .lock()
            .unwrap()
            .iter()
            .any(|line| line.contains("canary.invalid/control"))
    );
}

/// The hostile page: as many elements as were written, no script of its own, no request.
fn inert(browser: &mut Browser, path: &Path, expected: usize, scripts: bool) {
    browser.open(path, "");
    let census = browser.value(CENSUS);
    let buttons = if scripts { 6 } else { 0 };
    assert_eq!(
        census,
        json!({
            "elements": expected + buttons, "buttons": buttons, "handlers": 0, "odd": 0, "scripts": 1,
            "canary": "undefined", "styled": "grid",
        })
    );
    assert_eq!(
        browser.requests.len(),
        1,
        "only the file itself: {:?}",
        browser.requests
    );
}

/// Tab reaches everything in turn, and is seen to; Enter opens what is folded.
fn keyboard(browser: &mut Browser, path: &Path, scripts: bool) {
    browser.open(path, "");
    let reachable = browser.value(REACHABLE).as_u64().unwrap();
    assert!(reachable > 20, "{reachable}");
    assert_eq!(
        browser.value("document.querySelectorAll('button').length"),
        if scripts { 6 } else { 0 }
    );
    browser.press("Tab");
    assert_eq!(browser.value("document.activeElement.className"), "skip");
    let mut seen = std::collections::HashSet::new();
    for _ in 0..reachable {
        let active = "[[...document.querySelectorAll('*')].indexOf(document.activeElement), \
             getComputedStyle(document.activeElement).outlineStyle, document.activeElement.outerHTML.slice(0, 80)]";
        let at = browser.value(active);
        assert_ne!(at[1], "none", "the focus shows: {at}");
        assert!(seen.insert(at[0].as_u64()), "twice: {at}");
        browser.press("Tab");
    }
    assert_eq!(seen.len() as u64, reachable);
    let folded = "(() => { const f = document.querySelector('details:not([open]) > summary'); f.focus(); window.f = f.parentElement; return f.parentElement.open; })()";
    assert_eq!(browser.value(folded), false);
    browser.press("Enter");
    assert_eq!(browser.value("window.f.open"), true);
}

/// The address of a step opens what it is folded in.
fn deep_links(browser: &mut Browser, path: &Path) {
    browser.open(path, "");
    let visible = "document.getElementById('good/2').checkVisibility()";
    assert_eq!(browser.value(visible), false);
    browser.open(path, "#good/2");
    assert_eq!(browser.value(visible), true);
    assert_eq!(
        browser.value("document.querySelector(':target').id"),
        "good/2"
    );
}

/// A heading's button sorts, first the largest, then the smallest, and says so.
fn sorting(browser: &mut Browser, path: &Path) {
    browser.open(path, "");
    let tokens = "Array.from(document.querySelectorAll('tbody tr'), row => Number(row.cells[3].dataset.value))";
    let order = "document.querySelectorAll('th')[3].getAttribute('aria-sort')";
    browser.value("document.querySelectorAll('th button')[3].focus()");
    for (said, sign) in [("descending", -1.0), ("ascending", 1.0)] {
        browser.press("Enter");
        assert_eq!(browser.value(order), said);
        let values = browser.value(tokens);
        let values: Vec<f64> = values
            .as_array()
            .unwrap()
            .iter()
            .map(|v| v.as_f64().unwrap() * sign)
            .collect();
        assert!(values.is_sorted(), "{values:?}");
        assert_eq!(
            browser.value("document.querySelectorAll('[aria-sort]').length"),
            1
        );
    }
}

/// Legible in both schemes, no sideways scrolling on a phone, and nothing folded on paper.
fn looks(browser: &mut Browser, path: &Path) {
    for scheme in ["light", "dark"] {
        browser.look(390, scheme, "screen");
        browser.open(path, "");
        browser.value("document.querySelectorAll('details').forEach(d => d.open = true)");
        let worst = browser.value(CONTRAST);
        assert!(worst[0].as_f64().unwrap() >= 4.5, "{scheme}: {worst}");
        assert_eq!(browser.value("document.documentElement.scrollWidth"), 390);
    }
    browser.look(1000, "light", "print");
    browser.open(path, "");
    assert_eq!(
        browser.value("document.getElementById('good/2').checkVisibility()"),
        true
    );
}
