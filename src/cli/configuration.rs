//! Where configuration is read: the work tree, or a commit of its repository (`--config-from`), so that a contribution is not
//! judged by task files that it wrote itself.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use crate::batch::Scratch;
use crate::cli::args::TaskArgs;
use crate::cli::say;
use crate::cli::settings::Settings;
use crate::clock::Clock;
use crate::task::{Mirror, PROJECT_FILE};
use crate::workspace::Snapshot;

/// A place to read configuration from. What it had to write is removed with it.
pub(super) struct Configuration {
    /// What the paths of the command line are relative to.
    pub(super) base: PathBuf,
    /// What stands for what, if the place is not the work tree.
    pub(super) mirror: Option<Mirror>,
    /// The project's file, whether it is there or not.
    project: PathBuf,
    pub(super) commit: Option<String>,
    _scratch: Option<Scratch>,
}

/// The files of a run's configuration.
pub(super) struct Files {
    /// What was read; it is to stay as it was.
    pub(super) read: Vec<PathBuf>,
    /// What no task writes.
    pub(super) never_write: Vec<PathBuf>,
    /// The commit that they are from, if they are not the work tree's.
    pub(super) commit: Option<String>,
}

impl Configuration {
    /// Opens the place that the arguments name, and says which commit it is, if it is one.
    ///
    /// # Errors
    /// One line for a person.
    pub(super) fn open(args: &TaskArgs, settings: &Settings) -> Result<Self, String> {
        let project = args.project.as_deref();
        let project = project.unwrap_or(Path::new(PROJECT_FILE));
        let Some(revision) = &args.config_from else {
            return Ok(Self {
                base: settings.base.clone(),
                mirror: None,
                project: settings.base.join(project),
                commit: None,
                _scratch: None,
            });
        };
        let told = |error: std::io::Error| format!("--config-from: {error}");
        for path in args.tasks.iter().map(Path::new).chain([project]) {
            if !stays_below(path) {
                return Err(format!(
                    "--config-from: `{}` leads out of the current directory; name files of the commit, relative to it",
                    path.display()
                ));
            }
        }
        let now = Clock::system().now().unix_timestamp_nanos();
        let name = format!("{revision} {} {now}", std::process::id());
        let scratch = Scratch::create(&settings.temp, Path::new(&name), false).map_err(told)?;
        let snapshot = write(revision, &scratch.root().join("configuration"), settings);
        let Snapshot { root, top, commit } = snapshot.map_err(told)?;
        say(&format!(
            "note: configuration is read from commit {commit} (`{revision}`), not from the work tree"
        ));
        let prefix = settings.base.strip_prefix(&top).unwrap_or(Path::new(""));
        let base = root.join(prefix);
        Ok(Self {
            project: base.join(project),
            base,
            commit: Some(commit),
            mirror: Some(Mirror {
                copy: root,
                original: top,
            }),
            _scratch: Some(scratch),
        })
    }

    /// The files of a run with these task files.
    pub(super) fn files(&self, tasks: impl Iterator<Item = PathBuf>) -> Files {
        // The tasks of a matrix have one file.
        let read: BTreeSet<PathBuf> = tasks.chain([self.project.clone()]).collect();
        // What the work tree has of them is the configuration of the next run.
        let mirror = self.mirror.iter();
        let originals = mirror.flat_map(|mirror| read.iter().map(|path| mirror.original(path)));
        Files {
            never_write: originals.chain(read.iter().cloned()).collect(),
            read: read.into_iter().collect(),
            commit: self.commit.clone(),
        }
    }
}

/// Whether a path, or a glob, names something below where it is relative to.
fn stays_below(path: &Path) -> bool {
    path.components()
        .all(|component| matches!(component, Component::Normal(_) | Component::CurDir))
}

fn write(revision: &str, target: &Path, settings: &Settings) -> std::io::Result<Snapshot> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let git = settings.git(&settings.base)?;
    runtime.block_on(Snapshot::write(&git, &settings.base, revision, target))
}
