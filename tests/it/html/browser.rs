//! A headless Chromium, led through its debugging pipe: JSON messages that end with a NUL, no port and no helper.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

/// No answer in this time is a failure.
const PATIENCE: Duration = Duration::from_secs(60);

/// A browser with one page.
pub(crate) struct Browser {
    child: Child,
    to: ChildStdin,
    from: Receiver<Value>,
    session: Value,
    asked: u64,
    /// Addresses that the page asked for since it was opened.
    pub(crate) requests: Vec<String>,
    loaded: u32,
    _profile: TempDir,
}

impl Browser {
    /// Starts a browser whose requests all go to a proxy on loopback. `None`, said loudly, where there is none.
    pub(crate) fn start(proxy: u16) -> Option<Self> {
        let names = ["chromium", "chromium-browser", "google-chrome"];
        let found = names.into_iter().find(|name| {
            let version = Command::new(name).arg("--version").output();
            version.is_ok_and(|output| output.status.success())
        });
        let Some(name) = found else {
            eprintln!("SKIPPED: `chromium` is not installed, so the page was opened in no browser");
            return None;
        };
        let profile = tempfile::tempdir().unwrap();
        // The browser speaks on descriptors 3 and 4; the shell puts our pipe there.
        let mut child = Command::new("sh")
            .args(["-c", "exec \"$@\" 3<&0 4>&1 0</dev/null 1>&2", "sh", name])
            .args([
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-quic",
                "--no-first-run",
            ])
            .args([
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
            ])
            .args(["--disable-dev-shm-usage", "--remote-debugging-pipe"])
            .arg("--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1")
            .arg(format!("--proxy-server=http://127.0.0.1:{proxy}"))
            .arg("--proxy-bypass-list=<-loopback>")
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            .env("HOME", profile.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let to = child.stdin.take().unwrap();
        let mut answers = BufReader::new(child.stdout.take().unwrap());
        let (sender, from) = channel();
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            while answers.read_until(0, &mut bytes).is_ok_and(|read| read > 0) {
                bytes.pop();
                if sender
                    .send(serde_json::from_slice(&bytes).unwrap())
                    .is_err()
                {
                    break;
                }
                bytes.clear();
            }
        });
        let mut browser = Self {
            child,
            to,
            from,
            session: Value::Null,
            asked: 0,
            requests: Vec::new(),
            loaded: 0,
            _profile: profile,
        };
        let target = browser.ask("Target.createTarget", &json!({"url": "about:blank"}));
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        browser.session = browser.ask("Target.attachToTarget", &attach)["sessionId"].take();
        for domain in ["Page.enable", "Network.enable", "Runtime.enable"] {
            browser.ask(domain, &json!({}));
        }
        Some(browser)
    }

    /// Sends a command and waits for its answer.
    pub(crate) fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.asked += 1;
        let mut message = json!({"id": self.asked, "method": method, "params": params});
        if !self.session.is_null() {
            message["sessionId"] = self.session.clone();
        }
        let mut bytes = serde_json::to_vec(&message).unwrap();
        bytes.push(0);
        self.to.write_all(&bytes).unwrap();
        loop {
            let mut answer = self.next();
            if answer["id"] == self.asked {
                assert!(answer["error"].is_null(), "{method}: {answer}");
                return answer["result"].take();
            }
        }
    }

    /// Takes the next message, and notes what it tells.
    fn next(&mut self) -> Value {
        let message = self
            .from
            .recv_timeout(PATIENCE)
            .expect("the browser answers");
        match message["method"].as_str() {
            Some("Page.loadEventFired") => self.loaded += 1,
            Some("Network.requestWillBeSent") => {
                let address = message["params"]["request"]["url"].as_str().unwrap();
                self.requests.push(address.to_owned());
            }
            _ => {}
        }
        message
    }

    /// Opens a file, with a fragment or without, and waits until it is loaded.
    pub(crate) fn open(&mut self, file: &Path, fragment: &str) {
        // From another page, so that a fragment alone is a new load, too.
        for address in [
            "about:blank".to_owned(),
            format!("file://{}{fragment}", file.display()),
        ] {
            self.requests.clear();
            self.loaded = 0;
            self.ask("Page.navigate", &json!({"url": address}));
            while self.loaded == 0 {
                self.next();
            }
        }
    }

    /// The value of an expression in the page.
    pub(crate) fn value(&mut self, expression: &str) -> Value {
        let params = json!({"expression": expression, "returnByValue": true});
        let mut answer = self.ask("Runtime.evaluate", &params);
        assert!(
            answer["exceptionDetails"].is_null(),
            "{expression}: {answer}"
        );
        answer["result"]["value"].take()
    }

    /// Presses a key.
    pub(crate) fn press(&mut self, key: &str) {
        let (code, text) = match key {
            "Tab" => (9, ""),
            "Enter" => (13, "\r"),
            other => panic!("no such key: {other}"),
        };
        let event = |kind: &str, text: &str| json!({"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, "text": text});
        self.ask("Input.dispatchKeyEvent", &event("keyDown", text));
        self.ask("Input.dispatchKeyEvent", &event("keyUp", ""));
    }

    /// Shows the page in this width, in pixels, and colour scheme.
    pub(crate) fn look(&mut self, width: u32, scheme: &str, media: &str) {
        let size =
            json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600});
        self.ask("Emulation.setDeviceMetricsOverride", &size);
        let scheme = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.ask(
            "Emulation.setEmulatedMedia",
            &json!({"media": media, "features": scheme}),
        );
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The browser itself, which ends its own children: the shell has become it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
