//! Our own calls of git: one program, named by its absolute path, that obeys nobody's configuration.
//!
//! The repository under test may be hostile: its configuration, attributes, hooks, filters and file system monitor are
//! programs that git would run. So the environment is built from nothing, system and user configuration are not read,
//! what a repository can name is overridden, and the repository is always named (`GIT_DIR`), never searched for.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::at;
use crate::proc::{Ending, Launcher, Spec, Stderr};
use crate::redact::Redactor;
use crate::text;

/// How long one call may take.
const TIME_LIMIT: Duration = Duration::from_secs(600);
/// Most bytes of an answer.
const ANSWER_LIMIT: usize = 8 * 1024 * 1024;

/// The environment of every call.
const ENVIRONMENT: [(&str, &str); 15] = [
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_CONFIG_SYSTEM", "/dev/null"),
    ("GIT_CONFIG_GLOBAL", "/dev/null"),
    ("GIT_ATTR_NOSYSTEM", "1"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_ASKPASS", "/bin/false"),
    ("GIT_SSH_COMMAND", "/bin/false"),
    ("GIT_ALLOW_PROTOCOL", "none"),
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_NO_REPLACE_OBJECTS", "1"),
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_PAGER", "cat"),
    ("HOME", "/nonexistent"),
    ("LC_ALL", "C"),
    ("PATH", "/usr/local/bin:/usr/bin:/bin"),
];

/// What no configuration of a repository may say otherwise.
const PINS: [&str; 15] = [
    "core.fsmonitor=false",
    "core.untrackedCache=false",
    "core.hooksPath=/dev/null",
    "core.attributesFile=/dev/null",
    "core.excludesFile=/dev/null",
    "core.pager=cat",
    "core.sshCommand=/bin/false",
    "core.alternateRefsCommand=/bin/false",
    "credential.helper=",
    "diff.external=",
    "protocol.allow=never",
    "protocol.ext.allow=never",
    "safe.bareRepository=explicit",
    "submodule.recurse=false",
    "gc.auto=0",
];

/// A git that can be called.
#[derive(Debug, Clone)]
pub struct Git {
    program: PathBuf,
    launcher: Launcher,
    cancel: CancellationToken,
}

/// One call.
#[derive(Debug)]
pub(super) struct Call<'a> {
    /// `GIT_DIR`.
    pub(super) repository: &'a Path,
    /// `GIT_WORK_TREE`; also where the call runs.
    pub(super) work_tree: Option<&'a Path>,
    /// `GIT_INDEX_FILE`.
    pub(super) index: Option<&'a Path>,
    /// After the pins.
    pub(super) arguments: &'a [&'a str],
    /// Given on standard input.
    pub(super) input: Vec<u8>,
}

impl<'a> Call<'a> {
    /// A call in a repository, without a work tree.
    pub(super) fn new(repository: &'a Path, arguments: &'a [&'a str]) -> Self {
        Self {
            repository,
            work_tree: None,
            index: None,
            arguments,
            input: Vec::new(),
        }
    }

    /// The name of git's command.
    fn name(&self) -> &'a str {
        let mut words = self.arguments.iter();
        loop {
            match words.next() {
                Some(&"-c") => drop(words.next()),
                word => break word.copied().unwrap_or_default(),
            }
        }
    }
}

impl Git {
    /// Finds git in a search path. Entries that are relative, or that lie in one of the directories to `avoid`
    /// (workspaces: what is there belongs to the task), do not count.
    ///
    /// # Errors
    /// There is none.
    pub fn find(search: &str, avoid: &[&Path], launcher: Launcher) -> io::Result<Self> {
        let program = search
            .split(':')
            .map(Path::new)
            .filter(|entry| entry.is_absolute())
            .filter_map(|entry| entry.canonicalize().ok())
            .filter(|entry| !avoid.iter().any(|place| entry.starts_with(place)))
            .map(|entry| entry.join("git"))
            .find(|program| program.is_file())
            .ok_or_else(|| {
                let message = "there is no `git` in PATH; install it";
                io::Error::new(io::ErrorKind::NotFound, message)
            })?;
        Ok(Self {
            program,
            launcher,
            cancel: CancellationToken::new(),
        })
    }

    /// The same, ended when `cancel` is.
    #[must_use]
    pub fn until(&self, cancel: &CancellationToken) -> Self {
        Self {
            cancel: cancel.clone(),
            ..self.clone()
        }
    }

    /// Runs one command to its end and gives what it printed.
    ///
    /// # Errors
    /// It could not be started, or did not exit with 0; the error says what git said.
    pub(super) async fn call(&self, call: Call<'_>) -> io::Result<String> {
        let name = call.name().to_owned();
        let no = || io::Error::other(format!("`git {name}` failed with exit code 1"));
        self.ask(call).await?.ok_or_else(no)
    }

    /// The same for a command that can also answer no, which is `None`: it exits with 1 and says nothing.
    ///
    /// # Errors
    /// Those of [`Git::call`], without this one.
    pub(super) async fn ask(&self, call: Call<'_>) -> io::Result<Option<String>> {
        let mut env: BTreeMap<String, String> = ENVIRONMENT
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        env.insert("GIT_DIR".to_owned(), utf8(call.repository)?.to_owned());
        if let Some(work_tree) = call.work_tree {
            env.insert("GIT_WORK_TREE".to_owned(), utf8(work_tree)?.to_owned());
        }
        if let Some(index) = call.index {
            env.insert("GIT_INDEX_FILE".to_owned(), utf8(index)?.to_owned());
        }
        let mut argv = vec![utf8(&self.program)?.to_owned(), "--no-pager".to_owned()];
        for pin in PINS {
            argv.extend(["-c".to_owned(), pin.to_owned()]);
        }
        argv.extend(call.arguments.iter().map(|argument| (*argument).to_owned()));
        let name = call.name().to_owned();
        let spec = Spec {
            argv,
            cwd: call.work_tree.unwrap_or(call.repository).to_path_buf(),
            env,
            stdin: call.input,
            time_limit: TIME_LIMIT,
            keep: ANSWER_LIMIT,
            spill: None,
            stderr: Stderr::Separate,
        };
        // What git prints is read by us alone; what is told to others is redacted where it is told.
        let run = self
            .launcher
            .run(spec, Arc::new(Redactor::default()), &self.cancel);
        let finished = run
            .await
            .map_err(|error| io::Error::new(error.kind(), format!("`git {name}`: {error}")))?;
        let failed = |what: String| Err(io::Error::other(format!("`git {name}` {what}")));
        match finished.ending {
            Ending::Exited(0) if finished.stdout.bytes > ANSWER_LIMIT as u64 => {
                failed(format!("printed more than {ANSWER_LIMIT} bytes"))
            }
            Ending::Exited(0) => Ok(Some(finished.stdout.text)),
            Ending::Exited(1) if finished.stderr.text.trim().is_empty() => Ok(None),
            Ending::Exited(code) => {
                let said = finished.stderr.text.split_whitespace();
                let said = said.collect::<Vec<_>>().join(" ");
                failed(format!(
                    "failed with exit code {code}: {}",
                    text::head(&said, 500)
                ))
            }
            Ending::Signaled(signal) => failed(format!("was ended by signal {signal}")),
            Ending::TimedOut => failed(format!("took longer than {} s", TIME_LIMIT.as_secs())),
            Ending::Cancelled => failed("was cancelled".to_owned()),
        }
    }
}

/// How a repository names its objects.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Format {
    #[default]
    Sha1,
    Sha256,
}

/// Makes an empty repository of our own: no templates, no hooks, nothing that anybody else configured. `config` is added to
/// its configuration.
pub(super) fn create_repository(
    directory: &Path,
    format: Format,
    bare: bool,
    config: &str,
) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;

    let (version, extensions) = match format {
        Format::Sha1 => (0, ""),
        Format::Sha256 => (1, "[extensions]\n\tobjectFormat = sha256\n"),
    };
    let config = format!(
        "[core]\n\trepositoryFormatVersion = {version}\n\tbare = {bare}\n\tlogAllRefUpdates = false\n{extensions}[gc]\n\tauto = \
         0\n{config}"
    );
    for part in ["", "objects/info", "objects/pack", "refs/heads", "info"] {
        let part = directory.join(part);
        std::fs::DirBuilder::new()
            .mode(0o700)
            .recursive(true)
            .create(&part)
            .map_err(|error| at(&part, &error))?;
    }
    for (name, content) in [
        ("config", config.as_str()),
        ("HEAD", "ref: refs/heads/main\n"),
    ] {
        let file = directory.join(name);
        std::fs::write(&file, content).map_err(|error| at(&file, &error))?;
    }
    Ok(())
}

/// A path for an argument or a variable of git.
pub(super) fn utf8(path: &Path) -> io::Result<&str> {
    path.to_str().ok_or_else(|| {
        let message = "the path is not UTF-8";
        at(path, &io::Error::new(io::ErrorKind::InvalidInput, message))
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_git_of_the_workspace_or_of_a_relative_entry_is_not_ours() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        for place in ["work/bin", "system"] {
            fs::create_dir_all(root.join(place)).unwrap();
            fs::write(root.join(place).join("git"), "").unwrap();
        }
        let (work, system) = (root.join("work"), root.join("system"));
        let search = format!("bin::{}/bin:{}", work.display(), system.display());
        let found = Git::find(&search, &[&work], Launcher::new("/nowhere".into())).unwrap();
        assert_eq!(found.program, system.join("git"));
        assert!(Git::find("bin", &[], Launcher::new("/nowhere".into())).is_err());
    }
}
