//! Takes the run directory for a run: empties it for a new one, or reads what is there for one that goes on.
//!
//! A runner can be killed at any moment, so every state on the way is one that the next run understands: the plan's file
//! is there, whole, from the first moment at which anything else is, and says `being emptied` while it is.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::batch::EarlierAttempt;
use crate::batch::plan::resume;
use crate::cli::say;
use crate::clock::Clock;
use crate::file;
use crate::outcome::{Exit, Outcome};
use crate::report::run_dir::Attempt;
use crate::report::{PlannedTask, RunPlan, Summary, files, plan, run_dir, seal};
use crate::text;

/// The plan's file while the directory is being emptied: no plan, and still the mark of a run directory.
const EMPTYING: &str = "{\"v\":0,\"emptying\":true}\n";
/// How long a lock is waited for.
const PATIENCE: Duration = Duration::from_secs(1);
/// How many tasks are named in one sentence.
const NAMED: usize = 10;

/// What is wrong, and the exit code for it.
pub(super) type Refusal = (Exit, String);

/// A run directory that nobody else uses until this is dropped.
pub(super) struct Claimed {
    _lock: File,
    out: PathBuf,
    /// As a person named it.
    shown: String,
}

/// What an earlier run in the directory has left.
pub(super) struct Before {
    /// Its plan; none when it was killed before it had one.
    pub(super) plan: Option<RunPlan>,
    /// The attempts of every task of its plan, by number.
    attempts: HashMap<String, Vec<Attempt>>,
}

/// What a run that goes on starts from.
pub(super) struct Resumed {
    /// The earlier attempts by task. One that is of a task as it was before it was changed came to no verdict on it.
    pub(super) earlier: HashMap<String, Vec<EarlierAttempt>>,
    /// All that happened so far.
    pub(super) summary: Summary,
}

/// Refuses to go on in a directory in which no run has begun: a name with a mistake in it would be a new run of everything,
/// paid for once more.
///
/// # Errors
/// There is no such directory, or none with the traces of a run.
pub(super) fn begun(out: &Path, shown: &Path) -> Result<(), Refusal> {
    let what = match fs::metadata(out) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => "does not exist",
        Err(error) => return Err(io_refusal(out, &error)),
        Ok(found) if !found.is_dir() => "is no directory",
        Ok(_) if !out.join(run_dir::PLAN).exists() && !out.join(run_dir::LOCK).exists() => {
            "is no run directory"
        }
        Ok(_) => return Ok(()),
    };
    let shown = shown.display();
    let message = format!(
        "--resume: `{shown}` {what}, so there is no run to go on with; name the run directory of the earlier run, or begin a \
         new one without `--resume`"
    );
    Err((Exit::Usage, message))
}

/// Refuses to make a merge of a directory that holds a run of its own: it would be emptied, and a run costs money.
///
/// # Errors
/// There is a plan in it that is not that of a merge, or that cannot be read.
pub(super) fn replaceable(out: &Path, shown: &Path) -> Result<(), Refusal> {
    let what = match file::read(&out.join(run_dir::PLAN), run_dir::LARGEST_PLAN) {
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => return Ok(()),
            _ => format!("has a `{}` that cannot be read ({error})", run_dir::PLAN),
        },
        Ok(text) if text == EMPTYING.as_bytes() => return Ok(()),
        Ok(text) => match RunPlan::from_json(&text) {
            Ok(plan) if plan.merge.is_some() => return Ok(()),
            Ok(_) => "holds a run of its own".to_owned(),
            Err(error) => format!("has a `{}` that is none ({error})", run_dir::PLAN),
        },
    };
    let message = format!(
        "`{}` {what}, and not a merge; a merge empties its directory, so remove it first, or name another one with `--out`",
        shown.display()
    );
    Err((Exit::Usage, message))
}

/// Locks the directory, made if it does not exist.
///
/// # Errors
/// It is something else than a run directory, another run uses it, or the file system refuses.
pub(super) fn claim(out: &Path, shown: &Path) -> Result<Claimed, Refusal> {
    let is_ours = |name: &std::ffi::OsStr| {
        name == run_dir::LOCK || name == run_dir::IGNORE || is_unfinished_write(name)
    };
    let only_ours = |out: &Path| -> io::Result<bool> {
        let mut entries = out.read_dir()?;
        Ok(entries.all(|entry| entry.is_ok_and(|entry| is_ours(&entry.file_name()))))
    };
    let refused = |error: io::Error| io_refusal(out, &error);
    let is_foreign =
        out.is_dir() && !out.join(run_dir::PLAN).is_file() && !only_ours(out).map_err(refused)?;
    if is_foreign || (out.exists() && !out.is_dir()) {
        let message = format!(
            "`{}` exists and is not a run directory: it has no `{}`; name another one with `--out`",
            out.display(),
            run_dir::PLAN
        );
        return Err((Exit::Usage, message));
    }
    fs::create_dir_all(out).map_err(refused)?;
    let lock = lock_file(&out.join(run_dir::LOCK)).map_err(refused)?;
    if !locked(&lock) {
        let message = format!(
            "another run is using `{}`; name another one with `--out`",
            out.display()
        );
        return Err((Exit::Infrastructure, message));
    }
    Ok(Claimed {
        _lock: lock,
        out: out.to_owned(),
        shown: shown.to_string_lossy().into_owned(),
    })
}

/// Takes the lock. One that is held gets a moment: when a run was killed while it started a process, that process holds
/// the lock until it has become another program.
fn locked(lock: &File) -> bool {
    let began = Clock::system().start();
    loop {
        if lock.try_lock().is_ok() {
            return true;
        }
        if began.elapsed() >= PATIENCE {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

impl Claimed {
    /// Begins a new run: empties the directory and writes the plan.
    ///
    /// # Errors
    /// The file system refuses.
    pub(super) fn begin(&self, plan: &RunPlan) -> Result<(), Refusal> {
        self.empty()
            .and_then(|()| fs::write(self.out.join(run_dir::IGNORE), "*\n"))
            .map_err(|error| io_refusal(&self.out, &error))?;
        self.write(plan)
    }

    /// What an earlier run has left.
    ///
    /// # Errors
    /// The plan's file cannot be read.
    pub(super) fn before(&self) -> Result<Before, Refusal> {
        let nothing = Before {
            plan: None,
            attempts: HashMap::new(),
        };
        let path = self.out.join(run_dir::PLAN);
        match file::read(&path, run_dir::LARGEST_PLAN) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(nothing),
            Ok(text) if text == EMPTYING.as_bytes() => return Ok(nothing),
            _ => {}
        }
        let loaded = run_dir::load(&self.out)
            .map_err(|error| (Exit::Usage, format!("--resume: {error}")))?;
        let replaced = seal::replaced(&loaded.summary, &self.out);
        if !replaced.is_empty() {
            let message = format!(
                "--resume: `{}` is not as its run left it: {}; begin a new run",
                self.shown,
                replaced.join("; ")
            );
            return Err((Exit::Usage, message));
        }
        Ok(Before {
            plan: Some(loaded.plan),
            attempts: loaded.attempts,
        })
    }

    /// Goes on with an earlier run: compares the plans, removes reports that are not true any more, writes the plan, and
    /// reads everything that happened.
    ///
    /// # Errors
    /// The plan is not that of the earlier run, unless `changed` permits it; or the file system refuses.
    pub(super) fn go_on(
        &self,
        mut plan: RunPlan,
        before: Before,
        changed: bool,
    ) -> Result<Resumed, Refusal> {
        let Some(old) = before.plan else {
            self.begin(&plan)?;
            say(&format!(
                "note: nothing was begun in `{}`; all tasks are run",
                self.shown
            ));
            return Ok(Resumed {
                earlier: HashMap::new(),
                summary: Summary::new(plan, self.shown.as_str()),
            });
        };
        let differences = differences(&old, &plan);
        if !differences.is_empty() && !changed {
            let message = format!(
                "--resume: the plan is not the one that `{}` was begun with: {}; `--resume-changed` goes on all the same, and runs what was changed again",
                self.shown,
                differences.join("; ")
            );
            return Err((Exit::Usage, message));
        }
        if old.program_version != plan.program_version {
            say(&format!(
                "warning: `{}` was begun by version {}, and this is version {}",
                self.shown, old.program_version, plan.program_version
            ));
        }
        plan.resumed.clone_from(&old.resumed);
        plan.resumed.push(plan::Resumed {
            at: plan.started_at,
        });
        plan.started_at = old.started_at;
        if differences.is_empty() {
            // Dealt out as at first, whatever the history says by now.
            plan.shard.clone_from(&old.shard);
        }
        plan.superseded = superseded(&old, &plan, &before.attempts);
        let refused = |error: io::Error| io_refusal(&self.out, &error);
        remove_reports(&self.out).map_err(refused)?;
        fs::write(self.out.join(run_dir::IGNORE), "*\n").map_err(refused)?;
        self.write(&plan)?;
        let loaded =
            run_dir::load(&self.out).map_err(|error| (Exit::Infrastructure, error.to_string()))?;
        tell_lost(&loaded);
        let mut summary = loaded.summary;
        summary.dir.clone_from(&self.shown);
        // What was killed in the middle of a line is run again, so nothing hangs on that line. Is it not, it is unfinished.
        let cut = |task: &str, attempts: &[Attempt]| {
            attempts
                .last()
                .filter(|attempt| attempt.outcome == Outcome::Unfinished)
                .map(|attempt| self.out.join(run_dir::transcript(task, attempt.number)))
        };
        let cut: HashSet<PathBuf> = loaded
            .attempts
            .iter()
            .filter_map(|(task, attempts)| cut(task, attempts))
            .collect();
        let excused: HashSet<String> = loaded
            .damages
            .iter()
            .filter(|damage| cut.contains(&damage.path))
            .map(ToString::to_string)
            .collect();
        summary.damages.retain(|damage| !excused.contains(damage));
        let earlier = loaded.attempts.into_iter().map(|(name, attempts)| {
            let last = plan.superseded.get(&name).copied().unwrap_or(0);
            let attempts = attempts.into_iter().map(|made| EarlierAttempt {
                number: made.number,
                trial: made.trial,
                outcome: if made.number <= last {
                    Outcome::NotRun
                } else {
                    resume::as_earlier(made.outcome)
                },
            });
            (name, attempts.collect())
        });
        Ok(Resumed {
            earlier: earlier.collect(),
            summary,
        })
    }

    fn write(&self, plan: &RunPlan) -> Result<(), Refusal> {
        let text = plan
            .to_json()
            .map_err(|error| io_refusal(&self.out, &error.into()))?;
        files::write(&self.out.join(run_dir::PLAN), text.as_bytes())
            .map_err(|error| (Exit::Infrastructure, error.to_string()))
    }

    /// Removes what an earlier run left. The mark stays, so that a run that is killed in between leaves a directory that
    /// is still known as a run's, and nothing in it is taken for a result.
    fn empty(&self) -> io::Result<()> {
        if self.out.join(run_dir::PLAN).symlink_metadata().is_ok() {
            files::write(&self.out.join(run_dir::PLAN), EMPTYING.as_bytes())
                .map_err(|error| error.source)?;
        }
        for entry in self.out.read_dir()? {
            let entry = entry?;
            let name = entry.file_name();
            if name == run_dir::LOCK || name == run_dir::PLAN {
                continue;
            }
            if entry.file_type()?.is_dir() {
                fs::remove_dir_all(entry.path())?;
            } else {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }
}

/// Says which attempts the run cannot use, and why: their tasks are run and paid for once more.
fn tell_lost(loaded: &run_dir::Loaded) {
    let is_last = |lost: &&run_dir::Lost| {
        let attempts = loaded.attempts.get(&lost.task);
        attempts
            .and_then(|attempts| attempts.last())
            .is_some_and(|last| last.number == lost.attempt)
    };
    let lost: Vec<&run_dir::Lost> = loaded.lost.iter().filter(is_last).collect();
    for run_dir::Lost { task, attempt, why } in lost.iter().take(NAMED) {
        say(&format!(
            "warning: attempt {attempt} of `{task}` does not count and is made up for: its transcript could not be read: {why}"
        ));
    }
    if lost.len() > NAMED {
        let more = text::plural((lost.len() - NAMED) as u64, "other task");
        say(&format!("warning: and so it is with {more}"));
    }
}

/// In what two plans differ, for a person; empty when they are the same.
fn differences(old: &RunPlan, new: &RunPlan) -> Vec<String> {
    if old.plan_sha256 == new.plan_sha256 {
        return Vec::new();
    }
    let by_name = |plan: &RunPlan| -> BTreeMap<String, PlannedTask> {
        let tasks = plan.tasks.iter();
        tasks
            .map(|task| (task.name.clone(), task.comparable()))
            .collect()
    };
    let (before, now) = (by_name(old), by_name(new));
    let of = |what: &str, names: Vec<&str>| {
        (!names.is_empty()).then(|| format!("{what} {}", text::some(&names, NAMED)))
    };
    let names = |from: &'_ BTreeMap<String, PlannedTask>, keep: &dyn Fn(&str) -> bool| {
        let names = from.keys().filter(|name| keep(name.as_str()));
        names.cloned().collect::<Vec<String>>()
    };
    let changed = names(&now, &|name| {
        before
            .get(name)
            .is_some_and(|task| now.get(name) != Some(task))
    });
    let added = names(&now, &|name| !before.contains_key(name));
    let removed = names(&before, &|name| !now.contains_key(name));
    let mut found: Vec<String> = [
        ("changed:", changed),
        ("added:", added),
        ("removed:", removed),
    ]
    .iter()
    .filter_map(|(what, names)| of(what, names.iter().map(String::as_str).collect()))
    .collect();
    if found.is_empty() {
        found.push("the order of the tasks is another one".to_owned());
    }
    found
}

/// For every task that is not what it was, its last attempt as it was.
fn superseded(
    old: &RunPlan,
    new: &RunPlan,
    attempts: &HashMap<String, Vec<Attempt>>,
) -> BTreeMap<String, u32> {
    let before: HashMap<&str, &PlannedTask> = old
        .tasks
        .iter()
        .map(|task| (task.name.as_str(), task))
        .collect();
    let mut superseded = old.superseded.clone();
    for task in &new.tasks {
        let is_same = before
            .get(task.name.as_str())
            .is_some_and(|old| old.comparable() == task.comparable());
        let last = attempts
            .get(&task.name)
            .and_then(|attempts| attempts.iter().map(|attempt| attempt.number).max());
        if let (false, Some(last)) = (is_same, last) {
            superseded.insert(task.name.clone(), last);
        }
    }
    superseded
}

/// Removes the files beside the plan: reports of the run so far, which a killed run must not leave behind as if they were
/// true, and what writing them left. What the run is compared with stays.
fn remove_reports(out: &Path) -> io::Result<()> {
    for entry in out.read_dir()? {
        let entry = entry?;
        let name = entry.file_name();
        let stays = [
            run_dir::LOCK,
            run_dir::PLAN,
            run_dir::IGNORE,
            run_dir::BASELINE,
        ];
        let stays = stays.iter().any(|kept| name == *kept);
        if !stays && !entry.file_type()?.is_dir() {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

fn is_unfinished_write(name: &std::ffi::OsStr) -> bool {
    name.to_string_lossy().starts_with(files::WRITING)
}

fn io_refusal(out: &Path, error: &io::Error) -> Refusal {
    (
        Exit::Infrastructure,
        format!("the run directory `{}`: {error}", out.display()),
    )
}

/// The lock's file, made if there is none. The directory may come from a checkout: nothing behind a link is opened, and a
/// pipe is not waited for.
fn lock_file(path: &Path) -> io::Result<File> {
    use rustix::fs::{Mode, OFlags};
    let flags =
        OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::from_raw_mode(0o666))?);
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::Error::other(format!(
            "`{}` is no regular file",
            run_dir::LOCK
        )))
    }
}
