//! `Write`: a file created, or replaced as a whole.

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::edit::{FILE_LIMIT, ORIGINAL_LIMIT};
use super::patch::patch;
use super::seen::hash;
use super::{Tool, ToolContext, ToolOutput, input, target};
use crate::policy::{Action, FileKind, Permit};
use crate::workspace::{read_file, replace_file};

/// See the module.
pub(super) struct Write;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// Path of the file: absolute, or relative to the workspace.
    file_path: String,
    /// The whole content.
    content: String,
}

#[async_trait]
impl Tool for Write {
    fn name(&self) -> &'static str {
        "Write"
    }

    fn description(&self) -> &'static str {
        "Creates a file, with missing directories above it, or replaces all of a file that was read before. To change a \
         part of a file, use Edit."
    }

    fn input_schema(&self) -> Value {
        input::schema_of::<Input>()
    }

    fn action(&self, input: &Value) -> Action {
        Action::Write {
            path: input::string(input, "file_path").unwrap_or_default(),
        }
    }

    async fn call(&self, permit: Permit, context: &ToolContext) -> ToolOutput {
        target::blocking(permit, context, |permit, context, _stop| {
            write(permit, context)
        })
        .await
    }
}

fn write(permit: &Permit, context: &ToolContext) -> Result<ToolOutput, String> {
    let input: Input = input::parse(permit.input())?;
    let path = input.file_path.as_str();
    if path.ends_with('/') {
        return Err(format!("`{path}` names a directory, not a file"));
    }
    let facts = target::facts(permit, path)?;
    let old = match facts.kind {
        FileKind::Missing if !facts.dangling => None,
        _ => {
            let facts = target::existing_file(permit, path)?;
            let bytes =
                read_file(&facts.physical, FILE_LIMIT).map_err(|error| error.to_string())?;
            target::demand_current(context, facts, path, &hash(&bytes))?;
            Some(String::from_utf8_lossy(&bytes).into_owned())
        }
    };
    replace_file(&facts.physical, input.content.as_bytes()).map_err(|error| error.to_string())?;
    context
        .seen
        .remember(&facts.physical, hash(input.content.as_bytes()));

    let bytes = input.content.len();
    let text = match &old {
        None => format!("created `{path}` ({bytes} bytes)"),
        Some(_) => format!("replaced `{path}` ({bytes} bytes)"),
    };
    let hunks = old
        .as_ref()
        .map_or(json!([]), |old| patch(old, &input.content).hunks);
    Ok(ToolOutput {
        text,
        response: Some(json!({
            "type": if old.is_some() { "update" } else { "create" },
            "filePath": facts.lexical,
            "content": input.content,
            "structuredPatch": hunks,
            "originalFile": old.filter(|old| old.len() <= ORIGINAL_LIMIT),
        })),
        ..ToolOutput::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::fixture::Fixture;

    async fn write(fixture: &Fixture, path: &str, content: &str) -> ToolOutput {
        fixture
            .call("Write", json!({"file_path": path, "content": content}))
            .await
    }

    #[tokio::test]
    async fn a_file_is_created_with_its_directories() {
        let fixture = Fixture::new();
        let output = write(&fixture, "a/b/c.txt", "x\r\ny").await;
        assert_eq!(output.text, "created `a/b/c.txt` (4 bytes)");
        assert_eq!(fixture.read("a/b/c.txt"), "x\r\ny");
        let output = write(&fixture, "a/b/c.txt", "z").await;
        assert_eq!(output.text, "replaced `a/b/c.txt` (1 bytes)");
        assert_eq!(output.response.unwrap()["originalFile"], "x\r\ny");
    }

    #[tokio::test]
    async fn a_file_that_was_not_read_is_not_replaced() {
        let fixture = Fixture::new();
        fixture.write("a.txt", "mine");
        let output = write(&fixture, "a.txt", "theirs").await;
        assert!(
            output.is_error && output.text.contains("not been read"),
            "{}",
            output.text
        );
        assert_eq!(fixture.read("a.txt"), "mine");
        fixture.call("Read", json!({"file_path": "a.txt"})).await;
        assert!(!write(&fixture, "a.txt", "theirs").await.is_error);
    }

    #[tokio::test]
    async fn only_files_are_written() {
        let fixture = Fixture::new();
        std::fs::create_dir(fixture.path("dir")).unwrap();
        std::os::unix::fs::symlink("/nowhere/x", fixture.path("dangling")).unwrap();
        for path in ["dir", "dir/", "dangling", "new/", "/dev/null", ""] {
            assert!(write(&fixture, path, "x").await.is_error, "{path}");
        }
        assert!(!fixture.path("new").exists());
    }

    #[tokio::test]
    async fn a_directory_swapped_for_a_link_after_the_decision_is_refused() {
        use std::sync::Arc;

        use crate::policy::{Policy, Roots, permit_for_test};
        use crate::tool::builtin;
        use crate::workspace::resolve_all;

        let fixture = Fixture::new();
        let outside = tempfile::tempdir().unwrap();
        std::fs::create_dir(fixture.path("dir")).unwrap();
        let root = fixture.path("");
        let facts = resolve_all(&root, &["dir/file".to_owned()]);
        let policy = Arc::new(Policy {
            roots: Roots {
                workspace: root,
                ..Roots::default()
            },
            ..Policy::default()
        });
        let input = json!({"file_path": "dir/file", "content": "x"});
        let permit = permit_for_test("Write", input, facts, policy);
        std::fs::remove_dir(fixture.path("dir")).unwrap();
        std::os::unix::fs::symlink(outside.path(), fixture.path("dir")).unwrap();
        let output = builtin("Write")
            .unwrap()
            .call(permit, fixture.context())
            .await;
        assert!(output.is_error, "{}", output.text);
        assert!(!outside.path().join("file").exists());
    }
}
