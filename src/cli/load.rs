//! From what was typed to tasks and their models. Everything that is wrong is said at once, before the first model call.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use globset::GlobBuilder;

use crate::batch::Job;
use crate::batch::plan::filter::Filter;
use crate::cli::args::{RunArgs, TaskArgs};
use crate::cli::configuration::Configuration;
use crate::cli::settings::{KEY, KEY_FILE, Settings};
use crate::cli::{fail, say};
use crate::clock::Clock;
use crate::file;
use crate::model::anthropic::{self, Anthropic};
use crate::model::gate::Gate;
use crate::model::http::{self, Connection};
use crate::model::scripted::{Script, ScriptError, Scripted};
use crate::model::{Model, ModelError, ModelErrorKind};
use crate::outcome::Exit;
use crate::task::{
    self, Diagnostic, LoadOptions, Loaded, ModelRef, Overrides, PROJECT_FILE, Place, Task, TaskFile,
};
use crate::text;

/// The variable that names another address of it.
const BASE_URL: &str = "ANTHROPIC_BASE_URL";

/// How many tasks and tags are named in one sentence.
const NAMED: usize = 20;

/// The largest script whose lines are shown, in bytes.
const LARGEST_SCRIPT: u64 = 4 * 1024 * 1024;

/// The largest file of extra root certificates, in bytes.
const LARGEST_ROOTS: u64 = 16 * 1024 * 1024;

/// The tasks, or the exit code after everything that is wrong was said.
pub(super) fn load(
    configuration: &Configuration,
    args: &TaskArgs,
    settings: &Settings,
) -> Result<Loaded, Exit> {
    let base = &configuration.base;
    let files = expand(&args.tasks, base).map_err(|error| fail(Exit::Usage, &error))?;
    let options = LoadOptions {
        env: settings.environment.clone(),
        cwd: settings.base.clone(),
        mirror: configuration.mirror.clone(),
        today: Some(Clock::system().now().date()),
        allow_bypass: args.allow_bypass,
        extra_allow: Vec::new(),
        extra_deny: args.deny.clone(),
        overrides: Overrides {
            model: args.model.clone(),
            max_steps: args.max_steps,
            sandbox: args.sandbox.map(Into::into),
            ..Overrides::default()
        },
    };
    match task::load(&files, project(args, base).as_ref(), &options) {
        Ok(loaded) => {
            if !loaded.warnings.is_empty() {
                say(&(task::render_all(&loaded.warnings, false)
                    .trim_end()
                    .to_owned()
                    + "\n"));
            }
            read_scripts(&loaded.tasks, base)?;
            match &args.filter {
                Some(filter) => chosen(loaded, filter),
                None => Ok(loaded),
            }
        }
        Err(diagnostics) => {
            say(&(task::render_all(&diagnostics, false).trim_end().to_owned() + "\n"));
            let files = diagnostics.iter().map(|one| one.file.as_str());
            // What was typed is in no file.
            let files: BTreeSet<&str> = files.filter(|file| !file.is_empty()).collect();
            let count = |count: usize, word| text::plural(count as u64, word);
            let errors = count(diagnostics.len(), "error");
            let place = match files.len() {
                0 => String::new(),
                files => format!(" in {}", count(files, "file")),
            };
            Err(fail(
                Exit::Usage,
                &format!("{errors}{place}; no model was called"),
            ))
        }
    }
}

/// The tasks that a filter chooses. One that chooses none is a mistake, and so, most of the time, is a condition that is true
/// of no task.
fn chosen(mut loaded: Loaded, filter: &str) -> Result<Loaded, Exit> {
    let filter = Filter::parse(filter).map_err(|diagnostic| {
        say(&(diagnostic.render(false) + "\n"));
        fail(
            Exit::Usage,
            "the filter was not understood; no model was called",
        )
    })?;
    for condition in filter.idle(&loaded.tasks) {
        say(&format!(
            "warning: --filter: `{condition}` is true of no task"
        ));
    }
    let names: Vec<String> = loaded.tasks.iter().map(|task| task.name.clone()).collect();
    let tags: BTreeSet<String> = loaded
        .tasks
        .iter()
        .flat_map(|task| task.tags.iter().cloned())
        .collect();
    let (chosen, others) = loaded
        .tasks
        .into_iter()
        .partition(|task| filter.chooses(task));
    loaded.tasks = chosen;
    let others: Vec<Task> = others;
    loaded.left_out = others
        .into_iter()
        .map(|task| (task.name, task.file))
        .collect();
    if loaded.tasks.is_empty() {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let tags: Vec<&str> = tags.iter().map(String::as_str).collect();
        let tags = match tags.as_slice() {
            [] => "they have no tags".to_owned(),
            tags => format!("their tags are {}", text::some(tags, NAMED)),
        };
        let message = format!(
            "the filter chooses no task; there are {}; {tags}",
            text::some(&names, NAMED)
        );
        return Err(fail(Exit::Usage, &message));
    }
    Ok(loaded)
}

/// A scripted model's file is part of what can be wrong before a run. All broken ones are said at once.
fn read_scripts(tasks: &[Task], base: &Path) -> Result<(), Exit> {
    let mut result = Ok(());
    let mut whole = HashSet::new();
    for task in tasks {
        for model in task.judges.values().chain([&task.model]) {
            let ModelRef::Scripted { path, .. } = model else {
                continue;
            };
            if whole.contains(path) {
                continue;
            }
            match Script::load(path) {
                Ok(_) => {
                    whole.insert(path);
                }
                Err(error) => {
                    whole.insert(path);
                    say(&(script_error(path, base, error).render(false) + "\n"));
                    let message = format!(
                        "the script of the task in `{}` cannot be used; no model was called",
                        task.file
                    );
                    result = Err(fail(Exit::Usage, &message));
                }
            }
        }
    }
    result
}

/// The error of a script at its line, named as a person would name the file.
fn script_error(path: &Path, base: &Path, error: ScriptError) -> Diagnostic {
    let shown = path.strip_prefix(base).unwrap_or(path).display();
    let diagnostic = Diagnostic::error(&shown.to_string(), error.message);
    let Some((line, column)) = error.place else {
        return diagnostic;
    };
    let Ok(text) = file::read_text(path, LARGEST_SCRIPT) else {
        return diagnostic;
    };
    let before: usize = text
        .split_inclusive('\n')
        .take(line.saturating_sub(1))
        .map(str::len)
        .sum();
    let rest = text[before..].lines().next().unwrap_or_default();
    let within: usize = rest
        .chars()
        .take(column.saturating_sub(1))
        .map(char::len_utf8)
        .sum();
    let end = rest[within..].chars().next().map_or(0, char::len_utf8);
    let start = before + within;
    diagnostic.at(Some(Place::new(text.into(), start..start + end)))
}

/// The project's file: the one that was named, or the one in the directory where the run was started. Nothing else in a
/// checkout is configuration.
fn project(args: &TaskArgs, base: &Path) -> Option<TaskFile> {
    let named = args.project.as_ref().map(|path| base.join(path));
    // An empty directory of this name stands there while a sandbox keeps the file from being made.
    let is_placeholder = |path: &Path| {
        path.read_dir()
            .is_ok_and(|mut entries| entries.next().is_none())
    };
    let here = || {
        let path = base.join(PROJECT_FILE);
        (path.symlink_metadata().is_ok() && !is_placeholder(&path)).then_some(path)
    };
    let absolute = named.or_else(here)?;
    let display = args.project.as_ref().map_or_else(
        || PROJECT_FILE.to_owned(),
        |path| path.display().to_string(),
    );
    Some(TaskFile { display, absolute })
}

/// The files that the arguments mean: a file is itself, a directory its YAML files, a glob what it matches. In the order of
/// the arguments, each sorted by name.
fn expand(arguments: &[String], base: &Path) -> Result<Vec<TaskFile>, String> {
    let mut files: Vec<TaskFile> = Vec::new();
    let mut known: HashSet<TaskFile> = HashSet::new();
    for argument in arguments {
        let path = base.join(argument);
        if argument.bytes().all(|byte| byte.is_ascii_lowercase())
            && path.symlink_metadata().is_err()
        {
            let commands = "check, explain, report, show, export and schema";
            return Err(format!(
                "there is no command or file `{argument}`; tasks are run by `agent-batch TASK...`, and the commands are {commands}"
            ));
        }
        // On Windows a backslash separates; elsewhere it does when nothing is found otherwise.
        let slashed = argument.replace('\\', "/");
        let is_windows_like = argument.contains('\\')
            && path.symlink_metadata().is_err()
            && matches(argument, base).is_ok_and(|found| found.is_empty());
        let (argument, path) = if is_windows_like {
            (&slashed, base.join(&slashed))
        } else {
            (argument, path)
        };
        let found = if path.is_dir() {
            yaml_files(Path::new(argument), base)?
        } else if path.symlink_metadata().is_ok() || !argument.contains(['*', '?', '[', '{']) {
            vec![PathBuf::from(argument)]
        } else {
            matches(argument, base)?
        };
        if found.is_empty() {
            return Err(format!(
                "nothing matches `{argument}`; expected task files (`*.yaml`)"
            ));
        }
        for display in found {
            let extension = display.extension().and_then(|extension| extension.to_str());
            let is_other = extension.is_some_and(|one| !["yaml", "yml", "json"].contains(&one));
            if is_other && base.join(&display).is_file() {
                return Err(format!(
                    "`{}` is no task file: expected YAML (`*.yaml`, `*.yml`)",
                    text::visible_line(&display.display().to_string())
                ));
            }
            let file = TaskFile {
                absolute: base.join(&display),
                display: text::visible_line(&display.display().to_string()),
            };
            if known.insert(file.clone()) {
                files.push(file);
            }
        }
    }
    Ok(files)
}

fn yaml_files(directory: &Path, base: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = base
        .join(directory)
        .read_dir()
        .map_err(|error| format!("`{}`: {error}", directory.display()))?;
    let mut found: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| directory.join(entry.file_name()))
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "yaml" || extension == "yml")
        })
        .filter(|path| base.join(path).is_file())
        .collect();
    found.sort();
    Ok(found)
}

/// The files that a glob matches, for shells that did not expand it. `*` stays in one directory, `**` crosses.
fn matches(pattern: &str, base: &Path) -> Result<Vec<PathBuf>, String> {
    matching(pattern, base, Path::is_file)
}

/// What a glob matches and `is_meant`.
pub(super) fn matching(
    pattern: &str,
    base: &Path,
    is_meant: fn(&Path) -> bool,
) -> Result<Vec<PathBuf>, String> {
    let glob = GlobBuilder::new(pattern).literal_separator(true).build();
    let matcher = glob
        .map_err(|error| format!("`{pattern}` is no glob: {}", error.kind()))?
        .compile_matcher();
    let fixed: PathBuf = Path::new(pattern)
        .components()
        .take_while(|part| {
            !part
                .as_os_str()
                .to_string_lossy()
                .contains(['*', '?', '[', '{'])
        })
        .collect();
    let mut walk = ignore::WalkBuilder::new(base.join(&fixed));
    walk.standard_filters(false).follow_links(false);
    if !pattern.contains("**") {
        walk.max_depth(Some(
            Path::new(pattern)
                .components()
                .count()
                .saturating_sub(fixed.components().count()),
        ));
    }
    let mut found: Vec<PathBuf> = walk
        .build()
        .flatten()
        .filter(|entry| is_meant(entry.path()))
        .map(|entry| {
            // What an absolute pattern matches is absolute, also below the base.
            let inside = entry.path().strip_prefix(base).ok();
            let inside = inside.filter(|_| Path::new(pattern).is_relative());
            inside.unwrap_or(entry.path()).to_path_buf()
        })
        .filter(|path| matcher.is_match(path))
        .collect();
    found.sort();
    Ok(found)
}

/// The tasks with their models, or the exit code after what is missing was said. Makes no call.
pub(super) fn jobs(
    tasks: Vec<Task>,
    args: &RunArgs,
    settings: &Settings,
    gate: &Arc<Gate>,
) -> Result<Vec<Job>, Exit> {
    let mut client: Option<reqwest::Client> = None;
    // A model keeps nothing between calls, so tasks share it.
    let mut shared: HashMap<ModelRef, Arc<dyn Model>> = HashMap::new();
    let mut jobs = Vec::with_capacity(tasks.len());
    for task in tasks {
        let mut named = |reference: &ModelRef| -> Result<Arc<dyn Model>, Exit> {
            if let Some(known) = shared.get(reference) {
                return Ok(Arc::clone(known));
            }
            let new = model(reference, &mut client, args, settings, gate)
                .map_err(|(exit, message)| fail(exit, &format!("{}: {message}", task.file)))?;
            shared.insert(reference.clone(), Arc::clone(&new));
            Ok(new)
        };
        let model = named(&task.model)?;
        let mut judges = BTreeMap::new();
        for (name, reference) in &task.judges {
            judges.insert(name.clone(), named(reference)?);
        }
        if task.limits.max_cost.is_some() && model.facts().is_none() {
            let message = format!(
                "`max_cost_usd` needs a model with a known price, and `{}` is not listed",
                model.name()
            );
            return Err(fail(
                Exit::Usage,
                &format!("{}: {message}; use `max_tokens`", task.file),
            ));
        }
        jobs.push(Job {
            task: Arc::new(task),
            model,
            judges,
            earlier: Vec::new(),
        });
    }
    Ok(jobs)
}

/// The model that a task names, or why there is none.
fn model(
    reference: &ModelRef,
    client: &mut Option<reqwest::Client>,
    args: &RunArgs,
    settings: &Settings,
    gate: &Arc<Gate>,
) -> Result<Arc<dyn Model>, (Exit, String)> {
    match reference {
        ModelRef::Scripted { name, path } => Script::load(path)
            .map(|script| Arc::new(Scripted::new(name, script)) as Arc<dyn Model>)
            .map_err(|error| (Exit::Usage, error.to_string())),
        ModelRef::Anthropic { id } => anthropic(id, client, args, settings, gate)
            .map(|model| Arc::new(model) as Arc<dyn Model>)
            .map_err(|error| (Exit::Infrastructure, error.message)),
    }
}

/// One HTTP client is shared by all tasks.
fn anthropic(
    id: &str,
    client: &mut Option<reqwest::Client>,
    args: &RunArgs,
    settings: &Settings,
    gate: &Arc<Gate>,
) -> Result<Anthropic, ModelError> {
    let auth = |message| ModelError {
        kind: ModelErrorKind::Auth,
        message,
    };
    let key = settings.api_key().map_err(auth)?.ok_or_else(|| {
        auth(format!(
            "`anthropic/{id}` needs an API key: set {KEY}, or let {KEY_FILE} name a file that holds it"
        ))
    })?;
    let mut wanted = anthropic::Settings::new(key);
    if let Some(base_url) = settings.variable(BASE_URL) {
        base_url.clone_into(&mut wanted.base_url);
    }
    wanted.streaming = !args.no_stream;
    wanted.idle_timeout = args.idle_timeout;
    wanted.progress_timeout = wanted
        .progress_timeout
        .min(args.idle_timeout.saturating_mul(5));
    wanted.retry.max_tries = args.max_tries.into();
    wanted.gate = Some(Arc::clone(gate));
    let shared = if let Some(shared) = client {
        shared.clone()
    } else {
        let tls = !wanted.base_url.starts_with("http:");
        let new = http::client(&connection(settings, tls)?)?;
        client.insert(new).clone()
    };
    Anthropic::new(id, wanted, shared)
}

/// With extra root certificates, for networks that open TLS.
fn connection(settings: &Settings, tls: bool) -> Result<Connection, ModelError> {
    let plain = Connection {
        tls,
        ..Connection::default()
    };
    let Some(roots) = settings.file("NODE_EXTRA_CA_CERTS").filter(|_| tls) else {
        return Ok(plain);
    };
    let extra_roots = file::read(roots, LARGEST_ROOTS).map_err(|error| ModelError {
        kind: ModelErrorKind::Api,
        message: format!(
            "NODE_EXTRA_CA_CERTS: `{}` could not be read: {error}",
            roots.display()
        ),
    })?;
    Ok(Connection {
        extra_roots: Some(extra_roots),
        ..plain
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    #[test]
    fn arguments_are_files_directories_and_globs() {
        let dir = tempfile::tempdir().unwrap();
        for path in [
            "tasks/b.yaml",
            "tasks/a.yml",
            "tasks/deep/c.yaml",
            "tasks/notes.txt",
        ] {
            fs::create_dir_all(dir.path().join(path).parent().unwrap()).unwrap();
            fs::write(dir.path().join(path), "").unwrap();
        }
        let expand = |arguments: &[&str]| {
            let arguments: Vec<String> = arguments.iter().map(|one| (*one).to_owned()).collect();
            super::expand(&arguments, dir.path()).map(|files| {
                files
                    .into_iter()
                    .map(|file| file.display)
                    .collect::<Vec<_>>()
            })
        };
        assert_eq!(expand(&["tasks"]).unwrap(), ["tasks/a.yml", "tasks/b.yaml"]);
        assert_eq!(expand(&["tasks/*.yaml"]).unwrap(), ["tasks/b.yaml"]);
        assert_eq!(
            expand(&["tasks/**/*.yaml", "tasks/b.yaml"]).unwrap(),
            ["tasks/b.yaml", "tasks/deep/c.yaml"]
        );
        assert!(
            expand(&["none/*.yaml"])
                .unwrap_err()
                .contains("none/*.yaml")
        );
    }
}
