//! What the surroundings say, read once into plain values.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

use crate::cli::args::{FormArgs, When};
use crate::cli::environment;
use crate::file;
use crate::proc::Launcher;
use crate::redact::{Redactor, Secret};
use crate::report::Forms;
use crate::workspace::Git;

/// What the surroundings say.
pub(super) struct Settings {
    /// The environment, values that are no UTF-8 left out.
    pub(super) environment: BTreeMap<String, String>,
    /// The directory that the run was started in, physical.
    pub(super) base: PathBuf,
    /// Our own program.
    pub(super) program: PathBuf,
    /// Where private files go.
    pub(super) temp: PathBuf,
    /// Whether stderr is a terminal.
    pub(super) terminal: bool,
    /// Whether stdout is a terminal.
    pub(super) stdout_terminal: bool,
}

/// The variable that holds the key of the Messages API.
pub(super) const KEY: &str = "ANTHROPIC_API_KEY";
/// The variable that names a file with the key.
pub(super) const KEY_FILE: &str = "ANTHROPIC_API_KEY_FILE";
/// The largest file with a key, in bytes.
const LARGEST_KEY: u64 = 64 * 1024;

/// Variables that name a file which the CI runner executes or shows afterwards.
const RUNNER_FILES: [&str; 5] = [
    "GITHUB_ENV",
    "GITHUB_PATH",
    "GITHUB_OUTPUT",
    "GITHUB_STATE",
    "GITHUB_STEP_SUMMARY",
];

impl Settings {
    /// Reads the surroundings.
    ///
    /// # Errors
    /// The current directory or our own program cannot be found.
    #[expect(
        clippy::disallowed_methods,
        reason = "the command line alone asks where it is"
    )]
    pub(super) fn read() -> io::Result<Self> {
        Ok(Self {
            environment: environment::read()?,
            base: std::env::current_dir()?.canonicalize()?,
            program: program()?,
            temp: std::env::temp_dir(),
            terminal: io::stderr().is_terminal(),
            stdout_terminal: io::stdout().is_terminal(),
        })
    }

    /// Finds git in `PATH`, but not in `avoid`: what lies there belongs to tasks.
    ///
    /// # Errors
    /// There is none.
    pub(super) fn git(&self, avoid: &Path) -> io::Result<Git> {
        let search = self.environment.get("PATH").map_or("", String::as_str);
        Git::find(search, &[avoid], Launcher::new(self.program.clone()))
    }

    /// A variable that is set and not empty.
    pub(super) fn variable(&self, name: &str) -> Option<&str> {
        self.environment
            .get(name)
            .map(String::as_str)
            .filter(|value| !value.is_empty())
    }

    /// A file that a variable names.
    pub(super) fn file(&self, name: &str) -> Option<&Path> {
        self.variable(name).map(Path::new)
    }

    /// The key of the Messages API: what the file that `ANTHROPIC_API_KEY_FILE` names holds, or the variable itself.
    ///
    /// # Errors
    /// The file cannot be read, or is empty.
    pub(super) fn api_key(&self) -> Result<Option<Secret>, String> {
        let Some(path) = self.file(KEY_FILE) else {
            return Ok(self.variable(KEY).map(|key| Secret::new(key.to_owned())));
        };
        let told = |why: &dyn std::fmt::Display| format!("{KEY_FILE}: `{}` {why}", path.display());
        let text = file::read_text(&self.base.join(path), LARGEST_KEY)
            .map_err(|error| told(&format_args!("could not be read: {error}")))?;
        match text.trim() {
            "" => Err(told(&"is empty")),
            key => Ok(Some(Secret::new(key.to_owned()))),
        }
    }

    /// Values that must never be stored or shown.
    pub(super) fn secrets(&self) -> Vec<Secret> {
        let secrets = self.environment.iter();
        let secrets = secrets.filter(|(name, _)| environment::is_secret(name));
        secrets
            .map(|(_, value)| Secret::new(value.clone()))
            .chain(self.api_key().ok().flatten())
            .collect()
    }

    /// The names of those that are too short to be removed from what is stored.
    pub(super) fn short_secrets(&self) -> Vec<String> {
        let variables = self.environment.iter();
        let secrets = variables.filter(|(name, _)| environment::is_secret(name));
        secrets
            .filter(|(_, value)| Redactor::new(&[Secret::new((*value).clone())]).refused() > 0)
            .map(|(name, _)| name.clone())
            .collect()
    }

    /// Files that are closed to every task: the CI runner's command files, and the one with our key.
    pub(super) fn closed_files(&self) -> Vec<PathBuf> {
        let key = self.file(KEY_FILE).map(|path| self.base.join(path));
        self.runner_files().into_iter().chain(key).collect()
    }

    /// The CI runner's command files.
    fn runner_files(&self) -> Vec<PathBuf> {
        let files = RUNNER_FILES.iter().filter_map(|name| self.file(name));
        let directory = |file: &Path| {
            let parent = file
                .parent()
                .filter(|parent| parent.ends_with("_runner_file_commands"));
            parent.map(Path::to_path_buf)
        };
        files
            .flat_map(|file| [Some(file.to_path_buf()), directory(file)])
            .flatten()
            .collect()
    }

    /// Whether to speak to GitHub Actions.
    pub(super) fn github(&self, when: When) -> bool {
        decide(when, self.variable("GITHUB_ACTIONS") == Some("true"))
    }

    /// The forms of the reports, for whoever reads them here.
    pub(super) fn forms(&self, args: &FormArgs) -> Forms {
        Forms {
            junit: args.junit_dialect.into(),
            gitlab: decide(args.gitlab, self.variable("GITLAB_CI") == Some("true")),
        }
    }

    /// Whether to draw live progress instead of lines.
    pub(super) fn draws_progress(&self) -> bool {
        self.terminal && self.variable("CI").is_none()
    }
}

/// Our own program, absolute.
///
/// # Errors
/// The system does not tell.
#[expect(
    clippy::disallowed_methods,
    reason = "the command line alone asks where it is"
)]
pub(super) fn program() -> io::Result<PathBuf> {
    std::env::current_exe()
}

fn decide(when: When, auto: bool) -> bool {
    match when {
        When::Auto => auto,
        When::Always => true,
        When::Never => false,
    }
}
