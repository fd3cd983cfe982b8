//! What the runner itself costs: whole processes of the release binary against a fake Messages API on loopback that
//! answers at once. Prints minimum, median and maximum of each figure, and for the ratio a process that does nothing.
//!
//! `cargo bench` runs it; `cargo bench -- --rounds 50` takes more rounds.

#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a bench measures, starts processes and prints, and may fail loudly"
)]

use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

const STEPS: u32 = 100;

fn main() {
    let rounds = std::env::args()
        .skip_while(|arg| arg != "--rounds")
        .nth(1)
        .and_then(|n| n.parse().ok())
        .unwrap_or(15);
    let address = serve();
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("repo")).unwrap();
    fs::write(dir.path().join("repo/a.txt"), "alpha\n".repeat(20)).unwrap();
    let task = |name: &str, tools: &str| {
        let yaml = format!(
            "model: anthropic/bench-{name}\nprompt: go\nworkspace: {{ path: repo }}\n{tools}\n\
             limits: {{ max_steps: 200, max_tokens: 100000000 }}\n"
        );
        fs::write(dir.path().join(format!("{name}.yaml")), yaml).unwrap();
    };
    task("one", "tools: [Read]");
    task("read", "tools: [Read]");
    task(
        "bash",
        "tools: [Bash]\npermissions: { allow: [\"Bash(true:*)\"] }",
    );

    let mut figures: [(&str, Vec<f64>); 6] = [
        ("a process that does nothing (`--version`), ms", vec![]),
        ("one-step task, whole process, ms", vec![]),
        ("added by each further step with Read, ms", vec![]),
        ("added by each further step with Bash(true), ms", vec![]),
        ("peak memory of a one-step task, MB", vec![]),
        ("peak memory at 100 steps, MB", vec![]),
    ];
    for _ in 0..rounds {
        let nothing = measure(dir.path(), address, &["--version"]);
        let one = measure(dir.path(), address, &["one.yaml"]);
        let read = measure(dir.path(), address, &["read.yaml"]);
        let bash = measure(dir.path(), address, &["bash.yaml"]);
        let added =
            |many: Duration| (many.as_secs_f64() - one.0.as_secs_f64()) * 1e3 / f64::from(STEPS);
        let values = [
            nothing.0.as_secs_f64() * 1e3,
            one.0.as_secs_f64() * 1e3,
            added(read.0),
            added(bash.0),
            one.1,
            read.1,
        ];
        for ((_, all), value) in figures.iter_mut().zip(values) {
            all.push(value);
        }
    }
    println!(
        "{rounds} rounds, {STEPS} steps\n\n{:<50} {:>8} {:>8} {:>8}",
        "", "min", "median", "max"
    );
    for (name, values) in &mut figures {
        values.sort_by(f64::total_cmp);
        println!(
            "{name:<50} {:>8.2} {:>8.2} {:>8.2}",
            values[0],
            values[values.len() / 2],
            values[values.len() - 1]
        );
    }
}

/// Runs the program once: wall-clock time and peak memory in MB.
fn measure(dir: &Path, address: std::net::SocketAddr, args: &[&str]) -> (Duration, f64) {
    let began = Instant::now();
    let mut child = Command::new(env!("CARGO_BIN_EXE_agent-batch"))
        .args(args)
        .current_dir(dir)
        .env("ANTHROPIC_API_KEY", "bench-key-0123456789")
        .env("ANTHROPIC_BASE_URL", format!("http://{address}"))
        .env_remove("GITHUB_ACTIONS")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let status = format!("/proc/{}/status", child.id());
    let mut peak: f64 = 0.0;
    let code = loop {
        peak = peak.max(high_water_mark(&status));
        if let Some(code) = child.try_wait().unwrap() {
            break code;
        }
        thread::sleep(Duration::from_micros(200));
    };
    assert!(code.success(), "{args:?} ended with {code}");
    (began.elapsed(), peak)
}

/// `VmHWM`, the largest resident size so far, in MB.
fn high_water_mark(status: &str) -> f64 {
    let text = fs::read_to_string(status).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok())
        .unwrap_or(0.0)
        / 1024.0
}

/// A Messages API that answers at once. The step is the number of tool results in the request; a model named `...-one`
/// ends at once, the others after [`STEPS`] calls.
fn serve() -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || answer(&stream));
        }
    });
    address
}

fn answer(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream);
    let mut writer = stream;
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap_or(0);
            }
            if line == "\r\n" {
                break;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let text = String::from_utf8_lossy(&body);
        let step = text.matches("\"tool_result\"").count();
        let body = events(
            step,
            text.contains("bench-one") || step >= STEPS as usize,
            text.contains("bench-bash"),
        );
        write!(
            writer,
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )?;
    }
}

fn events(done: usize, last: bool, bash: bool) -> String {
    let mut out = String::new();
    let mut event = |kind: &str, data: &str| {
        let _ = write!(
            out,
            "event: {kind}\ndata: {{\"type\":\"{kind}\"{data}}}\n\n"
        );
    };
    event(
        "message_start",
        r#","message":{"id":"m","type":"message","role":"assistant","content":[],"usage":{"input_tokens":10,"output_tokens":1}}"#,
    );
    if last {
        event(
            "content_block_start",
            r#","index":0,"content_block":{"type":"text","text":""}"#,
        );
        event(
            "content_block_delta",
            r#","index":0,"delta":{"type":"text_delta","text":"done"}"#,
        );
    } else {
        let (name, input) = if bash {
            ("Bash", format!("{{\\\"command\\\": \\\"true {done}\\\"}}"))
        } else {
            (
                "Read",
                format!(
                    "{{\\\"file_path\\\": \\\"a.txt\\\", \\\"offset\\\": {}}}",
                    done % 10 + 1
                ),
            )
        };
        event(
            "content_block_start",
            &format!(
                r#","index":0,"content_block":{{"type":"tool_use","id":"t{done}","name":"{name}","input":{{}}}}"#
            ),
        );
        event(
            "content_block_delta",
            &format!(
                r#","index":0,"delta":{{"type":"input_json_delta","partial_json":"{input}"}}"#
            ),
        );
    }
    event("content_block_stop", r#","index":0"#);
    let stop = if last { "end_turn" } else { "tool_use" };
    event(
        "message_delta",
        &format!(r#","delta":{{"stop_reason":"{stop}"}},"usage":{{"output_tokens":20}}"#),
    );
    event("message_stop", "");
    out
}
