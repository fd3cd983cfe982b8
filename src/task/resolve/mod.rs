//! From what YAML says to a [`Task`]: the only door. Every part collects all that is wrong and goes on, so that one run
//! shows every mistake. Files are looked up here, nothing is started and nothing is read from the network.
//!
//! A value comes from the command line, the task file, the `defaults` of `agent-batch.yaml` or the program, the first
//! that names it; the `policy` of `agent-batch.yaml` is a ceiling over all of them. [`Origin`] remembers which.

mod checks;
mod files;
mod hooks;
mod identity;
mod limits;
mod model;
mod permissions;
mod prompt;
mod quarantine;
mod repetition;
mod sandbox;
mod tools;
mod workspace;

use std::path::{Path as FilePath, PathBuf};

use super::batch_spec::BatchLimits;
use super::diagnostic::{Diagnostic, Place, Related, Severity};
use super::document::Document;
use super::matrix::Combination;
use super::spec::{ProjectSpec, TaskSpec};
use super::tree::{Half, Path};
use super::{LoadOptions, ModelRef, Task};

pub(super) use identity::full_name;

/// A part of a file whose values have one rank.
#[derive(Debug, Clone)]
pub(super) struct Layer<'a> {
    /// `task`, `defaults` or `policy`, as rules name their source.
    pub(super) name: &'static str,
    pub(super) document: &'a Document,
    /// Where the layer begins in the document.
    pub(super) root: Path,
    /// What paths in it are relative to.
    pub(super) directory: &'a FilePath,
}

impl<'a> Layer<'a> {
    fn origin(&'a self, keys: &[&str]) -> Origin<'a> {
        let path = keys
            .iter()
            .fold(self.root.clone(), |path, key| path.key(key));
        Origin::File { layer: self, path }
    }

    /// Whether the key is there, right or wrong.
    fn mentions(&self, keys: &[&str]) -> bool {
        let mut map = self.root.clone();
        let Some((last, parents)) = keys.split_last() else {
            return true;
        };
        for key in parents {
            if !self.document.mentions(&map, key) {
                return false;
            }
            map = map.key(key);
        }
        self.document.mentions(&map, last)
    }
}

/// Where a value comes from.
#[derive(Debug, Clone)]
pub(super) enum Origin<'a> {
    /// A file.
    File { layer: &'a Layer<'a>, path: Path },
    /// An option of the command line.
    CommandLine(&'static str),
}

impl<'a> Origin<'a> {
    fn key(&self, name: &str) -> Self {
        self.then(|path| path.key(name))
    }

    fn index(&self, index: usize) -> Self {
        self.then(|path| path.index(index))
    }

    fn then(&self, step: impl FnOnce(&Path) -> Path) -> Self {
        match self {
            Self::File { layer, path } => Self::File {
                layer,
                path: step(path),
            },
            Self::CommandLine(option) => Self::CommandLine(option),
        }
    }

    /// Whether something directly in it was wrong and is gone.
    fn lost_part(&self) -> bool {
        match self {
            Self::File { layer, path } => layer.document.lost_part_of(path),
            Self::CommandLine(_) => false,
        }
    }

    fn layer(&self) -> &'static str {
        match self {
            Self::File { layer, .. } => layer.name,
            Self::CommandLine(_) => "cli",
        }
    }

    fn file(&self) -> &'a str {
        match self {
            Self::File { layer, .. } => &layer.document.file,
            Self::CommandLine(_) => "",
        }
    }

    fn place(&self, half: Half) -> Option<Place> {
        match self {
            Self::File { layer, path } => layer.document.place(path, half),
            Self::CommandLine(_) => None,
        }
    }

    /// What a path that comes from here is relative to.
    fn directory(&self, cwd: &'a FilePath) -> &'a FilePath {
        match self {
            Self::File { layer, .. } => layer.directory,
            Self::CommandLine(_) => cwd,
        }
    }

    /// What a path that stands here is relative to, as a hint.
    fn anchor(&self) -> &'static str {
        match self {
            Self::File { .. } => "its path is relative to the file that names it",
            Self::CommandLine(_) => {
                "its path is relative to the directory that the run is started in"
            }
        }
    }

    fn diagnostic(&self, half: Half, message: String) -> Diagnostic {
        let message = match self {
            Self::File { .. } => message,
            Self::CommandLine(option) => format!("`{option}`: {message}"),
        };
        Diagnostic::error(self.file(), message).at(self.place(half))
    }
}

/// A value and where it comes from.
#[derive(Debug, Clone)]
struct At<'a, T> {
    value: T,
    origin: Origin<'a>,
}

/// The most that is said about the meaning of one file; each place costs a parse of it.
const MOST_FINDINGS: usize = 50;

/// What was found out on the way.
#[derive(Debug, Default)]
pub(super) struct Findings {
    pub(super) errors: Vec<Diagnostic>,
    pub(super) warnings: Vec<Diagnostic>,
}

impl Findings {
    fn error(&mut self, origin: &Origin<'_>, message: impl Into<String>, hint: Option<&str>) {
        self.add_error(origin, Half::Value, message.into(), hint, None);
    }

    fn key_error(&mut self, origin: &Origin<'_>, message: impl Into<String>, hint: Option<&str>) {
        self.add_error(origin, Half::Key, message.into(), hint, None);
    }

    /// A value goes beyond what the policy says at `ceiling`.
    fn beyond_policy(&mut self, origin: &Origin<'_>, message: String, ceiling: &Origin<'_>) {
        self.add_error(origin, Half::Value, message, None, Some(ceiling));
    }

    fn add_error(
        &mut self,
        origin: &Origin<'_>,
        half: Half,
        message: String,
        hint: Option<&str>,
        ceiling: Option<&Origin<'_>>,
    ) {
        if self.errors.len() >= MOST_FINDINGS {
            return self.push(Diagnostic::error(
                origin.file(),
                "more problems are not shown",
            ));
        }
        let mut diagnostic = origin.diagnostic(half, message);
        diagnostic.hint = hint.map(str::to_owned);
        diagnostic.related = ceiling.map(|ceiling| Related {
            note: "the policy of the project is here".to_owned(),
            file: ceiling.file().to_owned(),
            place: ceiling.place(Half::Key),
        });
        self.push(diagnostic);
    }

    fn warning(&mut self, origin: &Origin<'_>, half: Half, message: String, hint: Option<String>) {
        if self.warnings.len() >= MOST_FINDINGS {
            return;
        }
        let mut diagnostic = origin.diagnostic(half, message);
        diagnostic.severity = Severity::Warning;
        diagnostic.hint = hint;
        self.push(diagnostic);
    }

    /// The same mistake in `agent-batch.yaml` is met once for each task, and told once.
    pub(super) fn push(&mut self, diagnostic: Diagnostic) {
        let list = match diagnostic.severity {
            Severity::Error => &mut self.errors,
            Severity::Warning => &mut self.warnings,
        };
        if !list.contains(&diagnostic) {
            list.push(diagnostic);
        }
    }
}

/// `agent-batch.yaml`, ready to be looked into.
#[derive(Debug)]
pub(super) struct Project<'a> {
    pub(super) spec: &'a ProjectSpec,
    pub(super) defaults: Layer<'a>,
    pub(super) policy: Layer<'a>,
    /// The file as a whole.
    whole: Layer<'a>,
    pub(super) quarantine: Layer<'a>,
}

impl<'a> Project<'a> {
    pub(super) fn new(
        spec: &'a ProjectSpec,
        document: &'a Document,
        directory: &'a FilePath,
    ) -> Self {
        let layer = |name: &'static str| Layer {
            name,
            document,
            root: Path::root().key(name),
            directory,
        };
        Self {
            spec,
            defaults: layer("defaults"),
            policy: layer("policy"),
            whole: Layer {
                root: Path::root(),
                ..layer("batch")
            },
            quarantine: layer("quarantine"),
        }
    }

    /// What holds for the run as a whole.
    pub(super) fn batch(&self, findings: &mut Findings) -> BatchLimits {
        BatchLimits::of(&self.spec.batch, &self.spec.groups, |keys, message| {
            findings.error(&self.whole.origin(keys), message, None);
        })
    }

    /// What is wrong with the policy itself, whatever the tasks are.
    pub(super) fn check(&self, findings: &mut Findings) {
        limits::check_policy(self, findings);
        model::check_policy(self, findings);
        tools::check_policy(self, findings);
        permissions::check_policy(self, findings);
        sandbox::check_policy(self, findings);
        quarantine::check_list(self, findings);
    }

    /// What is doubtful once the tasks are known; `are_all` says that none was passed over.
    pub(super) fn review(
        &self,
        names: &[&str],
        are_all: &dyn Fn() -> bool,
        today: Option<time::Date>,
        findings: &mut Findings,
    ) {
        quarantine::review(self, names, are_all, today, findings);
    }
}

/// Everything that a task is made from.
pub(super) struct Context<'a> {
    pub(super) spec: &'a TaskSpec,
    pub(super) layer: &'a Layer<'a>,
    pub(super) project: Option<&'a Project<'a>>,
    pub(super) options: &'a LoadOptions,
    /// The task file, absolute and physical.
    pub(super) path: PathBuf,
    /// The values of the task's matrix.
    pub(super) combination: &'a Combination,
    /// See the field of the same name of a task.
    pub(super) definition_sha256: &'a str,
}

impl<'a> Context<'a> {
    /// The task's value, or that of the defaults.
    fn pick<T>(
        &self,
        task: Option<T>,
        defaults: impl FnOnce(&'a super::spec::DefaultsSpec) -> Option<T>,
        keys: &[&str],
    ) -> Option<At<'a, T>> {
        if let Some(value) = task {
            let origin = self.layer.origin(keys);
            return Some(At { value, origin });
        }
        let project = self.project?;
        let value = defaults(&project.spec.defaults)?;
        let origin = project.defaults.origin(keys);
        Some(At { value, origin })
    }

    /// Whether the task or the defaults have the key, right or wrong: then nothing is to be said of its absence.
    fn mentions(&self, keys: &[&str]) -> bool {
        self.layer.mentions(keys)
            || self
                .project
                .is_some_and(|project| project.defaults.mentions(keys))
    }

    /// The task as a whole.
    fn whole(&self) -> Origin<'a> {
        self.layer.origin(&[])
    }
}

/// Resolves a task. `None` when there is an error in `findings`.
pub(super) fn resolve(cx: &Context<'_>, findings: &mut Findings) -> Option<Task> {
    let before = findings.errors.len();
    let name = identity::name(cx, findings);
    let tags = identity::tags(cx, findings);
    let quarantine = quarantine::resolve(cx, &name);
    let (system, turns) = prompt::resolve(cx, findings);
    let model = model::resolve(cx, findings);
    let tools = tools::resolve(cx, findings);
    let workspace = workspace::resolve(cx, findings);
    let permissions = permissions::resolve(cx, &tools, workspace.path.as_deref(), findings);
    let limits = limits::resolve(cx, model.as_ref(), turns.len(), findings);
    let (sandbox, network, hosts) = sandbox::resolve(cx, findings);
    let hooks = hooks::resolve(cx, findings);
    let checks = checks::resolve(cx, findings);
    let mut allow = permissions.allow;
    allow.extend(checks::output_rule(cx, checks.output_schema.as_ref()));
    let repetition = repetition::resolve(cx, findings);
    if findings.errors.len() > before {
        return None;
    }
    let model = model?;
    let scripts = checks.judges.values().chain([&model]);
    let files = scripts.filter_map(ModelRef::script);
    let files = files.chain(hooks.files.iter().map(PathBuf::as_path));
    let definition_sha256 = identity::definition(cx.definition_sha256, files);
    let task = Task {
        name,
        file: cx.layer.document.file.clone(),
        path: cx.path.clone(),
        line: cx.whole().place(Half::Value).map_or(1, |place| place.line),
        description: cx.spec.description.clone().unwrap_or_default(),
        tags,
        model,
        system,
        turns,
        tools,
        mode: permissions.mode,
        allow,
        deny: permissions.deny,
        on_denied: permissions.on_denied,
        additional: permissions.additional,
        limits,
        workspace: workspace.path?,
        isolation: workspace.isolation,
        reference: workspace.reference,
        include_ignored: workspace.include_ignored,
        sandbox,
        network,
        hosts,
        checks: checks.list,
        quarantine,
        output_schema: checks.output_schema,
        judges: checks.judges,
        hooks: hooks.list,
        trials: repetition.trials,
        retries: repetition.retries,
        group: repetition.group,
        matrix: cx.combination.values.clone(),
        definition_sha256,
    };
    sandbox::check_places(cx, &task, findings);
    (findings.errors.len() == before).then_some(task)
}
