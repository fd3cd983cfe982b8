//! Hooks that are programs: started without a shell, asked with JSON on stdin, under a time limit.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use super::lifecycle::HookEvent;
use super::pin::{Pin, resolve_program};
use super::wire::{self, Opinion};
use crate::proc::{Finished, Launcher, Spec, Stderr};
use crate::redact::Redactor;

/// What an interrupted task still gives each of its `SessionEnd` hooks.
const LAST_WORDS: Duration = Duration::from_millis(1_500);

/// Starts a program. [`Launcher`] does; tests put recorded endings in its place.
#[async_trait::async_trait]
pub(super) trait Start: Send + Sync {
    async fn start(
        &self,
        spec: Spec,
        redactor: Arc<Redactor>,
        cancel: &CancellationToken,
    ) -> std::io::Result<Finished>;
}

#[async_trait::async_trait]
impl Start for Launcher {
    async fn start(
        &self,
        spec: Spec,
        redactor: Arc<Redactor>,
        cancel: &CancellationToken,
    ) -> std::io::Result<Finished> {
        self.run(spec, redactor, cancel).await
    }
}

/// What all command hooks of a task run in.
pub(super) struct Surroundings {
    pub(super) starter: Box<dyn Start>,
    pub(super) environment: BTreeMap<String, String>,
    pub(super) workspace: PathBuf,
    pub(super) redactor: Arc<Redactor>,
    pub(super) cancel: CancellationToken,
}

/// A command hook, pinned.
pub(super) struct Command {
    argv: Vec<String>,
    timeout: Duration,
    pins: Vec<Pin>,
    surroundings: Arc<Surroundings>,
}

impl Command {
    /// Resolves the program and pins its files.
    pub(super) fn new(
        command: &[String],
        timeout: Duration,
        surroundings: Arc<Surroundings>,
    ) -> Result<Self, String> {
        let search = surroundings
            .environment
            .get("PATH")
            .map_or("", String::as_str);
        let name = command.first().map_or("", String::as_str);
        let program = resolve_program(name, search)?;
        let pins = Pin::all(command, &program, &surroundings.workspace)
            .map_err(|error| format!("the files of `{name}` cannot be read: {error}"))?;
        let mut argv = command.to_vec();
        if let Some(first) = argv.first_mut() {
            *first = program
                .into_os_string()
                .into_string()
                .map_err(|path| format!("`{}` is not UTF-8", path.display()))?;
        }
        Ok(Self {
            argv,
            timeout,
            pins,
            surroundings,
        })
    }

    /// File names of the program and its script, for records: a reader looks for `no-rm-rf.sh`, not for its directory.
    pub(super) fn name(&self) -> String {
        let names: Vec<String> = self
            .pins
            .iter()
            .filter(|pin| pin.index <= 1)
            .filter_map(|pin| Path::new(&pin.path).file_name())
            .map(|name| name.to_string_lossy().into_owned())
            .collect();
        names.join(" ")
    }

    /// Whether a file of this hook changed since the start.
    pub(super) fn is_tampered(&self) -> bool {
        self.pins.iter().any(Pin::is_broken)
    }

    /// What the digest covers: the command, the time limit, and the pinned files by place and content.
    pub(super) fn fingerprint(&self) -> impl Iterator<Item = Vec<u8>> {
        let arguments = self
            .argv
            .iter()
            .map(|argument| argument.clone().into_bytes());
        let pins = self.pins.iter().map(|pin| {
            let mut field = pin.index.to_be_bytes().to_vec();
            field.extend(pin.hash);
            field
        });
        let timeout = self.timeout.as_millis().to_be_bytes().to_vec();
        arguments.chain([timeout]).chain(pins)
    }

    /// Asks the program.
    pub(super) async fn ask(&self, event: HookEvent, input: &Map<String, Value>) -> Opinion {
        let pins = self.pins.clone();
        let intact = tokio::task::spawn_blocking(move || !pins.iter().any(Pin::is_broken)).await;
        if !matches!(intact, Ok(true)) {
            return Opinion::failed(
                "it or a file that it is started with changed since the start, so it was not run",
            );
        }
        let stdin = match serde_json::to_vec(input) {
            Ok(stdin) => stdin,
            Err(error) => {
                return Opinion::failed(format!("its input could not be written: {error}"));
            }
        };
        let surroundings = &self.surroundings;
        let (cancel, time_limit) = self.patience(event);
        let spec = Spec {
            argv: self.argv.clone(),
            cwd: surroundings.workspace.clone(),
            env: self.environment(),
            stdin,
            time_limit,
            keep: wire::OUTPUT_LIMIT,
            spill: None,
            stderr: Stderr::Separate,
        };
        let redactor = Arc::clone(&surroundings.redactor);
        match surroundings.starter.start(spec, redactor, &cancel).await {
            Ok(finished) => Opinion {
                leaked: finished.leaked,
                ..wire::interpret(event, &finished)
            },
            Err(error) => Opinion::failed(format!("it could not be started: {error}")),
        }
    }

    fn environment(&self) -> BTreeMap<String, String> {
        let mut environment = self.surroundings.environment.clone();
        environment.insert(
            "CLAUDE_PROJECT_DIR".to_owned(),
            self.surroundings.workspace.to_string_lossy().into_owned(),
        );
        environment
    }

    /// A task that was interrupted ends its hooks at once, but for `SessionEnd`, which is fired because of that.
    fn patience(&self, event: HookEvent) -> (CancellationToken, Duration) {
        let cancel = &self.surroundings.cancel;
        if event == HookEvent::SessionEnd && cancel.is_cancelled() {
            (CancellationToken::new(), self.timeout.min(LAST_WORDS))
        } else {
            (cancel.clone(), self.timeout)
        }
    }
}
