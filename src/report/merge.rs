//! Joins the run directories of shards into one that is like the run that was not sharded.
//!
//! Directories come out of artifacts: some are missing, some are there twice, some are of another commit or of no run at
//! all. [`judge`] proves by the plan's hash that every shard, and in it every task, is there once; what is not so is a fault,
//! and a merge with a fault has no verdict. [`copy`] takes what the tasks left; the result is an ordinary run directory.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::event::{Kind, Sink};
use crate::file;
use crate::outcome::Outcome;
use crate::report::baseline::{BaselineError, Snapshot};
use crate::report::plan::{Merge, RunPlan};
use crate::report::{run_dir, seal, transcript};
use crate::text::{self, file_name::file_name};

/// How many tasks are named in one sentence.
const NAMED: usize = 10;
/// How deep a task's directory is copied; a run makes three levels.
const DEEPEST: usize = 8;

/// A run directory that was named.
#[derive(Debug)]
pub struct Member {
    /// As it was named.
    pub shown: String,
    /// Where it is.
    pub path: PathBuf,
    /// Its plan and attempts, or why there are none.
    pub found: Result<Found, String>,
}

/// What a run directory says of itself.
#[derive(Debug)]
pub struct Found {
    /// The plan.
    pub plan: RunPlan,
    /// The attempts by task.
    pub attempts: HashMap<String, Vec<run_dir::Attempt>>,
    /// Transcripts that are not those that its reports were made from, one sentence each.
    pub replaced: Vec<String>,
}

/// What directories come to together.
#[derive(Debug)]
pub struct Joined {
    /// The plan of the whole, with the faults in it.
    pub plan: RunPlan,
    /// For every task that is there, the directory to take it from.
    pub sources: Vec<(String, PathBuf)>,
    /// What is doubtful, and no fault.
    pub warnings: Vec<String>,
}

impl Member {
    /// Looks into a directory.
    #[must_use]
    pub fn read(shown: &str, path: PathBuf) -> Self {
        let found = run_dir::load(&path)
            .map(|loaded| Found {
                replaced: seal::replaced(&loaded.summary, &path),
                plan: loaded.plan,
                attempts: loaded.attempts,
            })
            .map_err(|error| error.to_string());
        Self {
            shown: shown.to_owned(),
            path,
            found,
        }
    }
}

/// A member of the plan that the merge is about.
struct Part<'a> {
    member: &'a Member,
    found: &'a Found,
    index: u32,
    total: u32,
    dealt: Vec<u32>,
}

impl<'a> Part<'a> {
    /// A directory that is no shard is the only one of one.
    fn of(member: &'a Member, found: &'a Found) -> Self {
        let whole = || (1, 1, vec![1; found.plan.tasks.len()]);
        let shard = found.plan.shard.as_ref();
        let (index, total, dealt) = shard.map_or_else(whole, |shard| {
            (shard.index, shard.total, shard.dealt.clone())
        });
        Self {
            member,
            found,
            index,
            total,
            dealt,
        }
    }

    fn name(&self) -> String {
        format!("shard {}/{}", self.index, self.total)
    }
}

/// Proves that all is there once, or says what is not. `None` when no directory holds a plan.
///
/// The plan is the one that most of the directories have, the first of them where several are as frequent; so is the way in
/// which its tasks are dealt out.
#[must_use]
pub fn judge(members: &[Member]) -> Option<Joined> {
    let mut faults = Vec::new();
    let parts = parts(members, &mut faults);
    let first = parts.first()?;
    let mut plan = first.found.plan.clone();
    plan.resumed.clear();
    let mut sources = Vec::new();
    let mut by_index: BTreeMap<u32, Vec<&Part<'_>>> = BTreeMap::new();
    for part in &parts {
        by_index.entry(part.index).or_default().push(part);
    }
    for index in 1..=first.total {
        let tasks: Vec<&str> = plan
            .tasks
            .iter()
            .zip(&first.dealt)
            .filter(|(_, shard)| **shard == index)
            .map(|(task, _)| task.name.as_str())
            .collect();
        let holders = by_index.get(&index).map(Vec::as_slice).unwrap_or_default();
        let Some(part) = holders.first() else {
            faults.push(missing(index, first.total, &tasks));
            continue;
        };
        if holders.len() > 1 {
            let shown: Vec<String> = holders
                .iter()
                .map(|part| format!("`{}`", part.member.shown))
                .collect();
            faults.push(format!(
                "{} is there {} times: {}",
                part.name(),
                shown.len(),
                shown.join(", ")
            ));
        }
        faults.extend(unfinished(part, &tasks));
        let taken = tasks.iter().map(|task| (*task).to_owned());
        sources.extend(taken.map(|task| (task, part.member.path.clone())));
    }
    let mut warnings = Vec::new();
    for part in &parts {
        let (theirs, ours) = (&part.found.plan.program_version, &plan.program_version);
        if theirs != ours {
            warnings.push(format!(
                "`{}` was made by version {theirs}, `{}` by version {ours}",
                part.member.shown, first.member.shown
            ));
        }
        if part.found.plan.config_commit != plan.config_commit {
            warnings.push(format!(
                "`{}` and `{}` did not read their configuration from the same commit",
                part.member.shown, first.member.shown
            ));
        }
        let replaced = part.found.replaced.iter();
        faults.extend(replaced.map(|what| format!("`{}`: {what}", part.member.shown)));
        plan.started_at = plan.started_at.min(part.found.plan.started_at);
        plan.jobs = plan.jobs.max(part.found.plan.jobs);
        plan.superseded.extend(part.found.plan.superseded.clone());
        plan.resumed.extend(&part.found.plan.resumed);
        let earlier = part.found.plan.merge.iter();
        faults.extend(earlier.flat_map(|merge| merge.faults.iter().cloned()));
    }
    plan.resumed.sort_unstable();
    plan.resumed.dedup();
    plan.shard = None;
    plan.merge = Some(Merge {
        directories: members.iter().map(|member| member.shown.clone()).collect(),
        faults,
    });
    Some(Joined {
        plan,
        sources,
        warnings,
    })
}

/// The members that are of one plan, dealt out in one way. What the others are is a fault.
fn parts<'a>(members: &'a [Member], faults: &mut Vec<String>) -> Vec<Part<'a>> {
    let mut readable = Vec::new();
    for member in members {
        match &member.found {
            Ok(found) => readable.push(Part::of(member, found)),
            Err(why) => faults.push(format!("`{}` is no run directory: {why}", member.shown)),
        }
    }
    let hash = most_frequent(readable.iter().map(|part| &part.found.plan.plan_sha256)).cloned();
    let (same, other): (Vec<_>, Vec<_>) = readable
        .into_iter()
        .partition(|part| Some(&part.found.plan.plan_sha256) == hash.as_ref());
    for part in &other {
        faults.push(format!(
            "`{}` is of another plan (`{}`, not `{}`): it ran other tasks, or the same ones as they were at another time",
            part.member.shown,
            text::prefix(&part.found.plan.plan_sha256, 12),
            text::prefix(&hash.clone().unwrap_or_default(), 12),
        ));
    }
    let dealing = most_frequent(same.iter().map(|part| (part.total, part.dealt.clone())));
    let (total, dealt) = dealing.unwrap_or_default();
    let (parts, odd): (Vec<_>, Vec<_>) = same
        .into_iter()
        .partition(|part| part.total == total && part.dealt == dealt);
    for part in &odd {
        let why = if part.total == total {
            "its history was another one"
        } else {
            "it counts another number of shards"
        };
        faults.push(format!(
            "`{}` ({}) dealt the tasks out in another way than the others: {why}",
            part.member.shown,
            part.name()
        ));
    }
    parts
}

fn missing(index: u32, total: u32, tasks: &[&str]) -> String {
    let left = match tasks {
        [] => "it had no tasks".to_owned(),
        tasks => format!("its tasks were {}", text::some(tasks, NAMED)),
    };
    format!("shard {index}/{total} is missing: {left}")
}

/// What a shard that ended early did not get to.
fn unfinished(part: &Part<'_>, tasks: &[&str]) -> Option<String> {
    let last = |task: &str| {
        let attempts = part.found.attempts.get(task)?;
        attempts.last().map(|attempt| attempt.outcome)
    };
    let of = |what: &str, outcome: Option<Outcome>| {
        let names: Vec<&str> = tasks
            .iter()
            .copied()
            .filter(|task| last(task) == outcome)
            .collect();
        (!names.is_empty()).then(|| format!("{what} {}", text::some(&names, NAMED)))
    };
    let left: Vec<String> = [
        of("not started:", None),
        of("not finished:", Some(Outcome::Unfinished)),
    ]
    .into_iter()
    .flatten()
    .collect();
    (!left.is_empty()).then(|| {
        format!(
            "{} (`{}`) did not come to its end; {}",
            part.name(),
            part.member.shown,
            left.join("; ")
        )
    })
}

/// The value that comes most often, the first of several.
fn most_frequent<T: PartialEq>(values: impl Iterator<Item = T>) -> Option<T> {
    let mut counts: Vec<(T, usize)> = Vec::new();
    for value in values {
        match counts.iter_mut().find(|(known, _)| *known == value) {
            Some((_, count)) => *count += 1,
            None => counts.push((value, 1)),
        }
    }
    let most = counts.iter().map(|(_, count)| *count).max()?;
    counts
        .into_iter()
        .find(|(_, count)| *count == most)
        .map(|(value, _)| value)
}

impl Joined {
    /// The directories that tasks are taken from, each with its tasks.
    fn directories(&self) -> BTreeMap<&Path, BTreeSet<&str>> {
        let mut directories: BTreeMap<&Path, BTreeSet<&str>> = BTreeMap::new();
        for (task, directory) in &self.sources {
            directories.entry(directory).or_default().insert(task);
        }
        directories
    }

    /// What the shards were compared with. Where that is not one baseline it is the first one, and a warning for each other.
    ///
    /// # Errors
    /// A baseline that is there cannot be used.
    pub fn baseline(&self) -> Result<(Option<Snapshot>, Vec<String>), BaselineError> {
        let mut found: Option<(&Path, Snapshot)> = None;
        let mut without = Vec::new();
        let mut warnings = Vec::new();
        for directory in self.directories().into_keys() {
            match (Snapshot::stored(directory)?, &found) {
                (Some(snapshot), None) => found = Some((directory, snapshot)),
                (Some(snapshot), Some((first, known))) if snapshot != *known => {
                    warnings.push(differs(directory, first));
                }
                (Some(_), Some(_)) => {}
                (None, _) => without.push(directory),
            }
        }
        if let Some((first, _)) = &found {
            warnings.extend(without.iter().map(|directory| differs(directory, first)));
        }
        Ok((found.map(|(_, snapshot)| snapshot), warnings))
    }

    /// Joins what the batches of the shards say of their own tasks: why some were not run, and how the API's load was borne.
    /// A signal that ended one of the shards is not taken: it did not end the whole. What cannot be used is told.
    ///
    /// # Errors
    /// The joined journal cannot be written.
    pub fn journal(&self, to: &Path) -> io::Result<Vec<String>> {
        let mut writer: Option<transcript::Writer> = None;
        let mut skipped = Vec::new();
        let mut seq = 0;
        for (directory, tasks) in self.directories() {
            let path = directory.join(run_dir::BATCH);
            let reader = match run_dir::regular(&path).and_then(|()| transcript::read(&path)) {
                Ok(reader) => reader,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => {
                    skipped.push(at(&path, &error).to_string());
                    continue;
                }
            };
            for item in reader {
                let mut event = match item {
                    Ok(event) if event.task.is_empty() && event.attempt == 0 => event,
                    Ok(_) => continue,
                    Err(damage) => {
                        if skipped.len() < NAMED {
                            skipped.push(damage.to_string());
                        }
                        continue;
                    }
                };
                match &mut event.kind {
                    Kind::TasksNotRun { tasks: named, .. } => {
                        named.retain(|name| tasks.contains(name.as_str()));
                    }
                    Kind::CallsEased { .. } => {}
                    _ => continue,
                }
                event.seq = seq;
                seq += 1;
                let writer = match &mut writer {
                    Some(writer) => writer,
                    none => none.insert(transcript::Writer::create(&to.join(run_dir::BATCH))?),
                };
                writer.accept(&event)?;
            }
        }
        Ok(skipped)
    }
}

fn differs(directory: &Path, first: &Path) -> String {
    format!(
        "`{}` was not compared with the same baseline as `{}`, whose baseline is taken",
        directory.display(),
        first.display()
    )
}

/// Copies what a task left from one run directory to another: regular files in directories, nothing else. What is skipped is
/// told, since a run writes nothing of that kind.
///
/// # Errors
/// A file cannot be read or written.
pub fn copy(task: &str, from: &Path, to: &Path) -> io::Result<Vec<String>> {
    let name = file_name(task);
    let (from, to) = (from.join(&*name), to.join(&*name));
    let mut skipped = Vec::new();
    match fs::symlink_metadata(&from) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(at(&from, &error)),
        Ok(found) if found.is_dir() => copy_tree(&from, &to, DEEPEST, &mut skipped)?,
        Ok(_) => skipped.push(from.display().to_string()),
    }
    Ok(skipped)
}

fn copy_tree(from: &Path, to: &Path, deepest: usize, skipped: &mut Vec<String>) -> io::Result<()> {
    fs::create_dir_all(to).map_err(|error| at(to, &error))?;
    for entry in fs::read_dir(from).map_err(|error| at(from, &error))? {
        let entry = entry.map_err(|error| at(from, &error))?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type().map_err(|error| at(&source, &error))?;
        if kind.is_dir() && deepest > 0 {
            copy_tree(&source, &target, deepest - 1, skipped)?;
        } else if kind.is_file() {
            let copied = file::open(&source)
                .and_then(|mut source| io::copy(&mut source, &mut fs::File::create_new(&target)?));
            copied.map_err(|error| at(&source, &error))?;
        } else {
            skipped.push(source.display().to_string());
        }
    }
    Ok(())
}

fn at(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("`{}`: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;
    use crate::report::plan::{PlannedTask, Shard};

    const TASKS: [&str; 4] = ["a", "b", "c", "d"];
    const NONE: [&str; 0] = [];

    fn plan(line: u32) -> RunPlan {
        let task = |name: &&str| PlannedTask {
            name: (*name).to_owned(),
            line,
            ..PlannedTask::default()
        };
        let start = datetime!(2026-01-02 03:04:05 UTC);
        RunPlan::new("0.1.0", start, 4, TASKS.iter().map(task).collect())
    }

    /// A shard of two, in which `a` and `b` belong to the first.
    fn member(shown: &str, index: u32, done: &[&str]) -> Member {
        let mut plan = plan(1);
        plan.shard = Some(Shard {
            index,
            total: 2,
            dealt: vec![1, 1, 2, 2],
        });
        of(shown, plan, done)
    }

    fn made(number: u32, outcome: Outcome) -> run_dir::Attempt {
        run_dir::Attempt {
            number,
            trial: 1,
            outcome,
        }
    }

    fn of(shown: &str, plan: RunPlan, done: &[&str]) -> Member {
        let attempts = done
            .iter()
            .map(|task| ((*task).to_owned(), vec![made(1, Outcome::Completed)]));
        Member {
            shown: shown.to_owned(),
            path: PathBuf::from(shown),
            found: Ok(Found {
                plan,
                attempts: attempts.collect(),
                replaced: Vec::new(),
            }),
        }
    }

    fn faults(members: &[Member]) -> Vec<String> {
        judge(members).unwrap().plan.merge.unwrap().faults
    }

    #[test]
    fn shards_that_are_all_there_once_are_the_whole_plan() {
        let joined = judge(&[member("y", 2, &["c", "d"]), member("x", 1, &["a", "b"])]).unwrap();
        assert_eq!(joined.plan.plan_sha256, plan(1).plan_sha256);
        assert_eq!(joined.plan.shard, None);
        assert_eq!(joined.plan.merge.unwrap().faults, NONE);
        let sources: Vec<String> = joined
            .sources
            .iter()
            .map(|(task, path)| format!("{task}:{}", path.display()))
            .collect();
        assert_eq!(sources, ["a:x", "b:x", "c:y", "d:y"]);
        assert_eq!(faults(&[of("whole", plan(1), &TASKS)]), NONE);
    }

    #[test]
    fn what_is_missing_is_named() {
        let one = [member("x", 1, &["a", "b"])];
        assert_eq!(
            faults(&one),
            ["shard 2/2 is missing: its tasks were `c`, `d`"]
        );
        let mut killed = member("y", 2, &["d"]);
        if let Ok(found) = &mut killed.found {
            let attempts = vec![made(1, Outcome::ApiError), made(2, Outcome::Unfinished)];
            found.attempts.insert("d".into(), attempts);
        }
        assert_eq!(
            faults(&[member("x", 1, &["a", "b"]), killed]),
            ["shard 2/2 (`y`) did not come to its end; not started: `c`; not finished: `d`"]
        );
    }

    #[test]
    fn what_is_there_twice_or_of_something_else_is_named() {
        let (one, two) = (member("x", 1, &["a", "b"]), member("y", 2, &["c", "d"]));
        let again = member("x2", 1, &["a", "b"]);
        let foreign = of("old", plan(2), &TASKS);
        let whole = of("whole", plan(1), &TASKS);
        let garbage = Member {
            shown: "log".into(),
            path: "log".into(),
            found: Err("no plan".into()),
        };
        let told = faults(&[one, two, again, foreign, whole, garbage]);
        assert_eq!(told.len(), 4, "{told:?}");
        assert_eq!(told[0], "`log` is no run directory: no plan");
        assert!(told[1].starts_with("`old` is of another plan"), "{told:?}");
        let odd = "`whole` (shard 1/1) dealt the tasks out in another way";
        assert!(told[2].starts_with(odd), "{told:?}");
        assert_eq!(told[3], "shard 1/2 is there 2 times: `x`, `x2`");
    }

    #[test]
    fn another_version_is_a_warning_and_nothing_at_all_is_no_merge() {
        let mut other = member("y", 2, &["c", "d"]);
        if let Ok(found) = &mut other.found {
            found.plan.program_version = "0.2.0".into();
        }
        let joined = judge(&[member("x", 1, &["a", "b"]), other]).unwrap();
        assert_eq!(
            joined.warnings,
            ["`y` was made by version 0.2.0, `x` by version 0.1.0"]
        );
        assert!(joined.plan.merge.unwrap().faults.is_empty());
        assert!(judge(&[]).is_none());
    }

    #[cfg(unix)]
    #[test]
    fn links_of_an_artifact_are_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let (from, to) = (directory.path().join("from"), directory.path().join("to"));
        fs::create_dir_all(from.join("a/1/output")).unwrap();
        fs::write(from.join("a/1/transcript.jsonl"), "x").unwrap();
        fs::write(directory.path().join("secret"), "s").unwrap();
        std::os::unix::fs::symlink("../../../secret", from.join("a/1/output/link")).unwrap();
        std::os::unix::fs::symlink("/", from.join("b")).unwrap();
        fs::create_dir(&to).unwrap();
        let skipped = copy("a", &from, &to).unwrap();
        assert_eq!(skipped.len(), 1, "{skipped:?}");
        let copied = fs::read_to_string(to.join("a/1/transcript.jsonl")).unwrap();
        assert_eq!(copied, "x");
        assert!(!to.join("a/1/output/link").exists());
        assert_eq!(copy("b", &from, &to).unwrap().len(), 1);
        assert!(!to.join("b").exists());
    }
}
