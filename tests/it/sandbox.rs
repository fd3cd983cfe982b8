//! The world of a test: a directory with a workspace, task files and scripts, and the built program to run in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::rc::Rc;

use serde_json::Value;
use tempfile::TempDir;

/// A directory to run in. `repo/` is the workspace of its tasks.
pub(crate) struct Sandbox {
    dir: Rc<TempDir>,
    env: Vec<(String, String)>,
    args: Vec<String>,
}

/// What a run of the program left.
pub(crate) struct Run {
    /// Kept as long as somebody looks into it.
    dir: Rc<TempDir>,
    pub(crate) output: Output,
}

impl Sandbox {
    pub(crate) fn new() -> Self {
        let dir = Rc::new(tempfile::tempdir().unwrap());
        fs::create_dir(dir.path().join("repo")).unwrap();
        fs::create_dir(dir.path().join("tasks")).unwrap();
        Self {
            dir,
            env: Vec::new(),
            args: Vec::new(),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// A file, relative to the sandbox.
    pub(crate) fn file(self, path: &str, content: impl AsRef<[u8]>) -> Self {
        let path = self.dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
        self
    }

    /// An executable file.
    pub(crate) fn program(self, path: &str, content: &str) -> Self {
        use std::os::unix::fs::PermissionsExt;
        let sandbox = self.file(path, content);
        let path = sandbox.dir.path().join(path);
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        sandbox
    }

    /// `tasks/task.yaml`: the given lines after a model (`tasks/script.yaml`), a prompt and the workspace `repo/`.
    pub(crate) fn task(self, yaml: &str) -> Self {
        self.named_task("task", yaml)
    }

    /// Like [`Sandbox::task`], in `tasks/NAME.yaml`, with the script `tasks/script.yaml`.
    pub(crate) fn named_task(self, name: &str, yaml: &str) -> Self {
        let mut text = String::new();
        for (key, line) in [
            ("model", "model: scripted/script.yaml"),
            ("prompt", "prompt: Do it."),
            ("workspace", "workspace: { path: ../repo }"),
        ] {
            let given = yaml.lines().any(|found| {
                found.starts_with(&format!("{key}:"))
                    || (key == "prompt" && found.starts_with("turns:"))
            });
            if !given {
                text.push_str(line);
                text.push('\n');
            }
        }
        text.push_str(yaml);
        self.file(&format!("tasks/{name}.yaml"), text)
    }

    /// `tasks/script.yaml`: the replies of the scripted model.
    pub(crate) fn script(self, yaml: &str) -> Self {
        self.file("tasks/script.yaml", yaml)
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Lets runs find the Rust toolchain, although their HOME is another.
    pub(crate) fn with_toolchain(self) -> Self {
        let home = std::env::var("HOME").unwrap();
        let place = |name: &str, directory: &str| {
            std::env::var(name).unwrap_or_else(|_| format!("{home}/{directory}"))
        };
        let (cargo, rustup) = (
            place("CARGO_HOME", ".cargo"),
            place("RUSTUP_HOME", ".rustup"),
        );
        self.env("CARGO_HOME", &cargo).env("RUSTUP_HOME", &rustup)
    }

    /// More arguments for every run.
    pub(crate) fn args(mut self, args: &[&str]) -> Self {
        self.args.extend(args.iter().map(|arg| (*arg).to_owned()));
        self
    }

    /// Without the arguments of [`Sandbox::args`].
    pub(crate) fn without_args(mut self) -> Self {
        self.args.clear();
        self
    }

    /// The program with these arguments, not yet started: no terminal, no input, a small environment.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_agent-batch"));
        command
            .current_dir(self.dir.path())
            .args(args)
            .args(&self.args);
        command
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", self.dir.path());
        command.env("TMPDIR", self.dir.path().join("tmp"));
        fs::create_dir_all(self.dir.path().join("tmp")).unwrap();
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Runs a line of bash in the sandbox.
    pub(crate) fn shell(&self, line: &str) -> Run {
        let output = self
            .shell_environment(Path::new("bash"))
            .args(["-c", line])
            .output()
            .unwrap();
        Run {
            dir: Rc::clone(&self.dir),
            output,
        }
    }

    /// Another program in the sandbox and its environment.
    pub(crate) fn shell_environment(&self, program: &Path) -> Command {
        let own = self.command(&[]);
        let mut command = Command::new(program);
        command
            .current_dir(self.dir.path())
            .env_clear()
            .stdin(Stdio::null());
        command.envs(
            own.get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        );
        command
    }

    /// Runs `tasks/task.yaml`.
    pub(crate) fn run(&self) -> Run {
        self.call(&["tasks/task.yaml"])
    }

    /// Runs the program to its end.
    pub(crate) fn call(&self, args: &[&str]) -> Run {
        Run {
            dir: Rc::clone(&self.dir),
            output: self.command(args).output().unwrap(),
        }
    }
}

impl Run {
    /// Asserts the exit code; shows what was printed when it is another.
    #[track_caller]
    pub(crate) fn exit(self, code: i32) -> Self {
        assert_eq!(
            self.output.status.code(),
            Some(code),
            "\nstdout:\n{}\nstderr:\n{}",
            self.stdout(),
            self.stderr()
        );
        self
    }

    pub(crate) fn stdout(&self) -> String {
        String::from_utf8(self.output.stdout.clone()).unwrap()
    }

    pub(crate) fn stderr(&self) -> String {
        String::from_utf8(self.output.stderr.clone()).unwrap()
    }

    /// A path, relative to the sandbox.
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    /// A file, relative to the sandbox.
    pub(crate) fn read(&self, path: &str) -> String {
        let path = self.path(path);
        fs::read_to_string(&path)
            .unwrap_or_else(|error| panic!("{}: {error}\n{}", path.display(), self.stderr()))
    }

    /// All that was printed, and all files of the run directory.
    pub(crate) fn everything(&self) -> String {
        let mut all = String::from_utf8_lossy(
            &[self.output.stdout.clone(), self.output.stderr.clone()].concat(),
        )
        .into_owned();
        let mut waiting = vec![self.path("agent-batch-results")];
        while let Some(path) = waiting.pop() {
            if path.is_dir() {
                waiting.extend(
                    fs::read_dir(&path)
                        .unwrap()
                        .map(|entry| entry.unwrap().path()),
                );
            } else {
                all.push_str(&path.display().to_string());
                all.push_str(&String::from_utf8_lossy(&fs::read(&path).unwrap()));
            }
        }
        all
    }

    pub(crate) fn junit(&self) -> String {
        self.read("agent-batch-results/junit.xml")
    }

    pub(crate) fn summary(&self) -> Value {
        serde_json::from_str(&self.read("agent-batch-results/summary.json")).unwrap()
    }

    /// The outcome of a task, from the summary.
    pub(crate) fn outcome(&self, task: &str) -> String {
        let summary = self.summary();
        let tasks = summary["tasks"].as_array().unwrap();
        let found = tasks
            .iter()
            .find(|one| one["name"] == task)
            .unwrap_or_else(|| panic!("no task {task} in {summary:#}"));
        found["outcome"].as_str().unwrap().to_owned()
    }

    /// The transcript's events.
    pub(crate) fn events(&self, task: &str) -> Vec<Value> {
        let text = self.read(&format!("agent-batch-results/{task}/1/transcript.jsonl"));
        text.lines()
            .map(|line| {
                serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
            })
            .collect()
    }

    /// The events of one type.
    pub(crate) fn events_of(&self, task: &str, kind: &str) -> Vec<Value> {
        self.events(task)
            .into_iter()
            .filter(|event| event["type"] == kind)
            .collect()
    }
}
