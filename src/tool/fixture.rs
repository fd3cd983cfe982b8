//! A workspace and a context for the tests of tools.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::{Seen, ToolContext, ToolOutput, builtin};
use crate::policy::{Facts, Policy, Roots, permit_for_test};
use crate::proc::Launcher;
use crate::redact::Redactor;
use crate::workspace::resolve;

/// An empty workspace in which every call is permitted.
pub(super) struct Fixture {
    _directory: tempfile::TempDir,
    root: PathBuf,
    context: ToolContext,
}

impl Fixture {
    pub(super) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let base = directory.path().canonicalize().unwrap();
        let root = base.join("workspace");
        std::fs::create_dir(&root).unwrap();
        let context = ToolContext {
            launcher: Launcher::new("/nowhere/supervisor".into()),
            environment: BTreeMap::new(),
            output_dir: base.join("output"),
            output_stem: "call-1".to_owned(),
            output_limit: 20_000,
            time_limit: Duration::from_secs(60),
            cancel: CancellationToken::new(),
            redactor: Arc::new(Redactor::default()),
            seen: Arc::new(Seen::default()),
        };
        Self {
            _directory: directory,
            root,
            context,
        }
    }

    pub(super) fn context(&self) -> &ToolContext {
        &self.context
    }

    pub(super) fn path(&self, relative: &str) -> PathBuf {
        self.root.join(relative)
    }

    pub(super) fn write(&self, relative: &str, text: &str) {
        let path = self.path(relative);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    pub(super) fn read(&self, relative: &str) -> String {
        std::fs::read_to_string(self.path(relative)).unwrap()
    }

    /// Runs a call with the facts of the paths in its input.
    pub(super) async fn call(&self, tool: &str, input: Value) -> ToolOutput {
        let facts: Facts = ["file_path", "path"]
            .iter()
            .filter_map(|field| input.get(field)?.as_str())
            .filter_map(|path| Some((path.to_owned(), resolve(&self.root, path)?)))
            .collect();
        let policy = Arc::new(Policy {
            roots: Roots {
                workspace: self.root.clone(),
                ..Roots::default()
            },
            ..Policy::default()
        });
        let permit = permit_for_test(tool, input, facts, policy);
        builtin(tool).unwrap().call(permit, &self.context).await
    }
}
