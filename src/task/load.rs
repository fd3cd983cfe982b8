//! From files to tasks: reads all of them, and answers with all the tasks or with everything that is wrong.

use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use sha2::{Digest as _, Sha256};

use super::Task;
use super::batch_spec::BatchLimits;
use super::diagnostic::{Diagnostic, Related, Severity};
use super::document::Document;
use super::expand::expand;
use super::matrix::{self, Combination};
use super::resolve::{Context, Findings, Layer, Project, resolve};
use super::spec::{ProjectSpec, TaskSpec};
use super::tree::{Half, Path as TreePath};
use crate::model::scripted::Script;

/// A file to load.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TaskFile {
    /// As a person named it; reports show this.
    pub display: String,
    /// Where it is, absolute.
    pub absolute: PathBuf,
}

/// What the caller knows and a task file does not.
#[derive(Debug, Clone, Default)]
pub struct LoadOptions {
    /// The environment that `${NAME}` and `PATH` refer to.
    pub env: BTreeMap<String, String>,
    /// The directory in which the run is started, absolute: the workspace of tasks that name none.
    pub cwd: PathBuf,
    /// Where the files come from, if not from where they say that they are.
    pub mirror: Option<Mirror>,
    /// The day in UTC, by which a quarantine ends; `None`: none ends.
    pub today: Option<time::Date>,
    /// The operator switches on `bypassPermissions` for tasks that ask for it.
    pub allow_bypass: bool,
    /// Allow rules of the operator.
    pub extra_allow: Vec<String>,
    /// Deny rules of the operator.
    pub extra_deny: Vec<String>,
    /// Values of the operator that stand above those of the files, and below the policy.
    pub overrides: Overrides,
}

/// A directory with the configuration of another one: of a commit that somebody agreed to, beside the checkout under test.
/// All that task files name comes from there, but for the directories that a task works in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mirror {
    /// Where the configuration is read, absolute and physical.
    pub copy: PathBuf,
    /// What it stands for.
    pub original: PathBuf,
}

impl Mirror {
    /// The path for which one in the copy stands; any other stands for itself.
    #[must_use]
    pub fn original(&self, path: &Path) -> PathBuf {
        path.strip_prefix(&self.copy)
            .map_or_else(|_| path.to_path_buf(), |rest| self.original.join(rest))
    }
}

/// See [`LoadOptions::overrides`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Overrides {
    /// `provider/model`; a script is relative to the current directory.
    pub model: Option<String>,
    /// Model calls per turn.
    pub max_steps: Option<u32>,
    /// Tokens of the task.
    pub max_tokens: Option<u64>,
    /// Dollars of the task.
    pub max_cost_usd: Option<f64>,
    /// Wall clock of the task.
    pub timeout: Option<Duration>,
    /// How processes are held.
    pub sandbox: Option<crate::sandbox::Mode>,
}

/// What came of it.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The tasks, in the order of the files.
    pub tasks: Vec<Task>,
    /// What holds for the run as a whole.
    pub batch: BatchLimits,
    /// What is doubtful, and stops nothing.
    pub warnings: Vec<Diagnostic>,
    /// The tasks of the files that a caller left out afterwards: name and file. Loading itself leaves none out.
    pub left_out: BTreeMap<String, String>,
}

/// Loads task files, with `agent-batch.yaml` if there is one. Nothing is started and the network is not used.
///
/// # Errors
/// Everything that is wrong in any of the files, in the order of the files and of their lines. Never empty.
pub fn load(
    paths: &[TaskFile],
    project: Option<&TaskFile>,
    options: &LoadOptions,
) -> Result<Loaded, Vec<Diagnostic>> {
    let mut findings = Findings::default();
    let project_path = project.map(physical);
    let opened = project.map(|file| open_project(file, options, &mut findings));
    let is_readable = !matches!(opened, Some(None));
    let opened = opened.flatten();
    let project = opened
        .as_ref()
        .map(|(spec, document, directory)| Project::new(spec, document, directory));
    let mut batch = BatchLimits::default();
    if let Some(project) = &project {
        project.check(&mut findings);
        batch = project.batch(&mut findings);
    }
    let everything = Everything {
        project: project.as_ref(),
        is_readable,
        options,
        beside: opened
            .as_ref()
            .map_or("", |(_, document, _)| document.text()),
    };
    let mut tasks = Vec::new();
    let mut names = Names::default();
    let mut seen = HashSet::new();
    for file in paths {
        let path = physical(file);
        let left_out = if project_path.as_ref() == Some(&path) {
            Some("the project's own file is no task; it is left out")
        } else if !seen.insert(path.clone()) {
            Some("the file is named twice; it is run once")
        } else {
            None
        };
        if let Some(reason) = left_out {
            let mut diagnostic = Diagnostic::error(&file.display, reason);
            diagnostic.severity = Severity::Warning;
            findings.push(diagnostic);
            continue;
        }
        let loaded = everything.tasks(file, &path, &mut names, &mut findings);
        if loaded.is_empty() && findings.errors.is_empty() {
            // Cannot happen as far as we know; and a task that is silently left out would look like one that passed.
            findings.push(Diagnostic::error(
                &file.display,
                "the task could not be resolved",
            ));
        }
        tasks.extend(loaded);
    }
    if let Some(project) = project.as_ref().filter(|_| findings.errors.is_empty()) {
        let names: Vec<&str> = tasks.iter().map(|task| task.name.as_str()).collect();
        seen.extend(project_path);
        // Only an entry that matches nothing asks.
        let are_all = LazyCell::new(|| are_all_beside_one_another(&seen));
        project.review(&names, &|| *are_all, options.today, &mut findings);
    }
    if findings.errors.is_empty() {
        Ok(Loaded {
            tasks,
            batch,
            warnings: findings.warnings,
            left_out: BTreeMap::new(),
        })
    } else {
        Err(findings.errors)
    }
}

type OpenedProject = (ProjectSpec, Document, PathBuf);

fn open_project(
    file: &TaskFile,
    options: &LoadOptions,
    findings: &mut Findings,
) -> Option<OpenedProject> {
    let mut document = open(file, findings)?;
    let problems = expand(
        &mut document.tree,
        &TreePath::root().key("defaults"),
        &options.env,
    );
    document.report(problems);
    let spec = document.decode();
    for diagnostic in document.diagnostics() {
        findings.push(diagnostic);
    }
    Some((spec?, document, directory_of(&physical(file))))
}

fn open(file: &TaskFile, findings: &mut Findings) -> Option<Document> {
    Document::open(file)
        .map_err(|diagnostic| findings.push(*diagnostic))
        .ok()
}

/// Whether somebody's pattern took a file of scripted replies for a task.
fn is_script(file: &TaskFile, document: &Document) -> bool {
    let names_model = document.tree.get(&TreePath::root().key("model")).is_some();
    !names_model && Script::parse(&file.display, document.text()).is_ok()
}

/// Whether no task file lies beside these that is none of them. Where some were chosen, nothing can be said of tasks that are
/// not among them.
fn are_all_beside_one_another(files: &HashSet<PathBuf>) -> bool {
    let directories: BTreeSet<&Path> = files.iter().filter_map(|file| file.parent()).collect();
    directories.iter().all(|directory| {
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
        let mut beside = entries.map(|entry| entry.path()).filter(|path| {
            let ending = path.extension().and_then(|ending| ending.to_str());
            matches!(ending, Some("yaml" | "yml")) && path.is_file()
        });
        beside.all(|path| std::fs::canonicalize(&path).is_ok_and(|path| files.contains(&path)))
    })
}

/// The file itself, behind whatever links lead to it.
fn physical(file: &TaskFile) -> PathBuf {
    std::fs::canonicalize(&file.absolute).unwrap_or_else(|_| file.absolute.clone())
}

/// Without links in it, because paths in the file are relative to where it really is.
fn directory_of(file: &Path) -> PathBuf {
    let directory = file.parent().unwrap_or(file);
    std::fs::canonicalize(directory).unwrap_or_else(|_| directory.to_path_buf())
}

/// What all files have in common.
struct Everything<'a> {
    project: Option<&'a Project<'a>>,
    is_readable: bool,
    options: &'a LoadOptions,
    /// The text of the project's file.
    beside: &'a str,
}

/// After so many combinations of one matrix with mistakes, the others are not looked at: they would tell the same.
const MOST_WRONG: usize = 3;

impl Everything<'_> {
    /// The tasks of one file: one, or one for each combination of its matrix.
    fn tasks(
        &self,
        file: &TaskFile,
        path: &Path,
        names: &mut Names,
        findings: &mut Findings,
    ) -> Vec<Task> {
        let Some(mut document) = open(file, findings) else {
            return Vec::new();
        };
        if is_script(file, &document) {
            let message = "this is a script for a scripted model, no task";
            let hint = "keep scripts in a directory of their own, or name tasks by a pattern that leaves them out";
            findings.push(Diagnostic::error(&file.display, message).with_hint(hint));
            return Vec::new();
        }
        let spec = document.decode_key("matrix");
        let (combinations, problems) = matrix::combinations(&document.tree, spec.as_ref());
        document.report(problems);
        let definition = self.definition(&document);
        let Some(combinations) = combinations else {
            // What stands in the texts instead of values is not known; only the form of the rest can be looked at.
            let _: Option<TaskSpec> = document.decode();
            for diagnostic in document.diagnostics() {
                findings.push(diagnostic);
            }
            return Vec::new();
        };
        let (mut tasks, mut used, mut wrong) = (Vec::new(), BTreeSet::new(), 0);
        for (index, combination) in combinations.iter().enumerate() {
            let mut document = document.clone();
            let substituted = matrix::substitute(&mut document.tree, combination);
            used.extend(substituted.used);
            document.report(substituted.problems);
            match self.one(document, path, combination, &definition, names, findings) {
                Some(task) => tasks.push(task),
                None => wrong += 1,
            }
            let left = combinations.len() - index - 1;
            if wrong == MOST_WRONG && left > 0 {
                let left = crate::text::plural(left as u64, "combination");
                let message = format!(
                    "{MOST_WRONG} combinations of the matrix have mistakes; {left} more of it were not looked at"
                );
                findings.push(Diagnostic::error(&file.display, message));
                break;
            }
        }
        for (axis, _) in spec.iter().flat_map(|spec| &spec.0) {
            if wrong == 0 && !used.contains(axis) {
                let message = format!(
                    "no text of the task uses `{{{{ matrix.{axis} }}}}`; its tasks differ in nothing but their names"
                );
                let place = document.place(&TreePath::root().key("matrix").key(axis), Half::Key);
                let mut diagnostic = Diagnostic::error(&file.display, message).at(place);
                diagnostic.severity = Severity::Warning;
                findings.push(diagnostic);
            }
        }
        tasks
    }

    fn one(
        &self,
        mut document: Document,
        path: &Path,
        combination: &Combination,
        definition_sha256: &str,
        names: &mut Names,
        findings: &mut Findings,
    ) -> Option<Task> {
        let problems = expand(&mut document.tree, &TreePath::root(), &self.options.env);
        document.report(problems);
        let spec: Option<TaskSpec> = document.decode();
        // Errors of form and of meaning are found apart, and told together, by line.
        let mut own = Findings::default();
        let directory = directory_of(path);
        let layer = Layer {
            name: "task",
            document: &document,
            root: TreePath::root(),
            directory: &directory,
        };
        // Without the project's defaults and ceilings, what would be said about a task is not true.
        let task = spec.filter(|_| self.is_readable).and_then(|spec| {
            names.claim(&spec, &layer, &combination.suffix, &mut own);
            let cx = Context {
                spec: &spec,
                layer: &layer,
                project: self.project,
                options: self.options,
                path: path.to_path_buf(),
                combination,
                definition_sha256,
            };
            resolve(&cx, &mut own)
        });
        own.errors.extend(document.diagnostics());
        let is_right = own.errors.is_empty();
        for mut list in [own.errors, own.warnings] {
            // What is about no line is about the file, or says that there is more: it comes last.
            list.sort_by_key(|found| (found.line().wrapping_sub(1), found.column()));
            for found in list {
                findings.push(found);
            }
        }
        task.filter(|_| is_right)
    }

    /// See [`Task::definition_sha256`]. Line ends do not count: a checkout may change them.
    fn definition(&self, document: &Document) -> String {
        let mut hasher = Sha256::new();
        for text in [document.text(), self.beside] {
            hasher.update(text.replace("\r\n", "\n"));
            hasher.update([0]);
        }
        let LoadOptions {
            env: _,
            cwd: _,
            mirror: _,
            today: _,
            allow_bypass,
            extra_allow,
            extra_deny,
            overrides,
        } = self.options;
        let words = format!("{allow_bypass} {extra_allow:?} {extra_deny:?} {overrides:?}");
        hasher.update(words);
        crate::text::hex(&hasher.finalize())
    }
}

/// The names so far, and where each stands.
#[derive(Default)]
struct Names(BTreeMap<String, Related>);

impl Names {
    fn claim(&mut self, spec: &TaskSpec, layer: &Layer<'_>, suffix: &str, findings: &mut Findings) {
        let document = layer.document;
        let name = super::resolve::full_name(spec.name.as_deref(), &document.file, suffix);
        let path = match &spec.name {
            Some(_) => TreePath::root().key("name"),
            None => TreePath::root(),
        };
        let place = document.place(&path, Half::Value);
        // A directory of the run has this name, and some file systems take `a` and `A` for one.
        let folded = name.to_lowercase();
        if let Some(first) = self.0.get(&folded) {
            let message = format!(
                "another task is called {} too",
                super::diagnostic::quoted(&name)
            );
            let is_own = first.file == document.file && !suffix.is_empty();
            let hint = match spec.name {
                _ if is_own => {
                    "a name is made of the values of `matrix`, with dots between them: change one of the values"
                }
                Some(_) => "give one of them another `name`",
                None => "without a `name` a task is called like its file: give this one a `name`",
            };
            let mut diagnostic = Diagnostic::error(&document.file, message)
                .at(place)
                .with_hint(hint);
            diagnostic.related = Some(first.clone());
            findings.push(diagnostic);
            return;
        }
        let related = Related {
            note: "the first one is here".to_owned(),
            file: document.file.clone(),
            place,
        };
        self.0.insert(folded, related);
    }
}
