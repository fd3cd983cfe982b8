//! What the benches of whole processes share: a fake Messages API on loopback, and the program measured against it.

use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

/// What one run of the program took.
pub(crate) struct Measured {
    /// From its start to its end.
    #[allow(dead_code, reason = "not every bench looks at it")]
    pub(crate) wall: Duration,
    /// Processor time, with that of its children, in steps of 10 ms.
    #[allow(dead_code, reason = "not every bench looks at it")]
    pub(crate) cpu: Duration,
    /// The largest resident size, in MB; 0 if nobody looked.
    #[allow(dead_code, reason = "not every bench looks at it")]
    pub(crate) peak: f64,
}

/// Runs the program once, to an end with code 0. `look` is how often its memory is looked at: that takes the program time, so
/// short runs are timed without it.
pub(crate) fn measure(
    dir: &Path,
    address: SocketAddr,
    args: &[&str],
    look: Option<Duration>,
) -> Measured {
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
    let place = format!("/proc/{}", child.id());
    let mut peak: f64 = 0.0;
    let pid = Pid::from_child(&child);
    if let Some(pause) = look {
        while !has_ended(pid, WaitIdOptions::NOHANG) {
            peak = peak.max(high_water_mark(&place));
            thread::sleep(pause);
        }
    } else {
        has_ended(pid, WaitIdOptions::empty());
    }
    // It is not reaped yet, so that the kernel still tells what it took.
    let (wall, cpu) = (began.elapsed(), processor_time(&place));
    let code = child.wait().unwrap();
    assert!(code.success(), "{args:?} ended with {code}");
    Measured { wall, cpu, peak }
}

fn has_ended(pid: Pid, how: WaitIdOptions) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | how;
    waitid(WaitId::Pid(pid), options).unwrap().is_some()
}

/// `VmHWM`, the largest resident size so far, in MB.
fn high_water_mark(place: &str) -> f64 {
    let text = fs::read_to_string(format!("{place}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok())
        .unwrap_or(0.0)
        / 1024.0
}

/// User and system time of the process and of its reaped children, which the kernel counts in hundredths of a second.
fn processor_time(place: &str) -> Duration {
    let text = fs::read_to_string(format!("{place}/stat")).unwrap_or_default();
    // The name before the last parenthesis may hold anything.
    let fields = text.rsplit_once(')').map_or("", |(_, fields)| fields);
    let ticks = fields.split_whitespace().skip(11).take(4);
    Duration::from_millis(
        10 * ticks
            .filter_map(|ticks| ticks.parse::<u64>().ok())
            .sum::<u64>(),
    )
}

/// A Messages API that answers each request after `latency`. The step is the number of tool results in the request; a
/// model named `...-one` ends at once, the others after `steps` calls.
pub(crate) fn serve(latency: Duration, steps: usize) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || answer(&stream, latency, steps));
        }
    });
    address
}

fn answer(stream: &TcpStream, latency: Duration, steps: usize) -> io::Result<()> {
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
        thread::sleep(latency);
        let text = String::from_utf8_lossy(&body);
        let step = text.matches("\"tool_result\"").count();
        let body = events(
            step,
            text.contains("bench-one") || step >= steps,
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
