//! `agent-batch show`: a transcript for a person, or events of it for a program.

use std::fs;
use std::io::{self, BufRead, BufReader, BufWriter};
use std::path::{Path, PathBuf};

use crate::cli::args::{ShowArgs, ShowFormat, TranscriptArgs};
use crate::cli::{fail, say};
use crate::outcome::Exit;
use crate::report::run_dir::{self, TRANSCRIPT};
use crate::report::show::{self, Colour, Filter};
use crate::report::transcript::{self, Ending, Reader};
use crate::text;

/// How many attempts are listed where one was to be named.
const LISTED: usize = 20;
/// How many entries of a directory are looked at for them.
const ENTRIES: usize = 10_000;

/// Prints a transcript, as far as it goes.
pub(super) fn show(args: &ShowArgs) -> Exit {
    let filter = Filter {
        steps: args.step.clone(),
        tool: args.tool.clone(),
        denied: args.denied,
        errors: args.errors,
    };
    let events = match open(&args.transcript) {
        Ok(events) => events,
        Err(exit) => return exit,
    };
    let mut out = BufWriter::new(io::stdout().lock());
    let shown = match args.format {
        ShowFormat::Text => show::write(&mut out, events, &filter, Colour::Off),
        ShowFormat::Json => show::write_json(&mut out, events, &filter),
    };
    if let Ok(ending) = &shown
        && ending.taken == 0
        && filter.is_any()
    {
        say("note: nothing in the transcript is what was looked for");
    }
    conclude(shown)
}

/// The events of a transcript that was named.
pub(super) fn open(args: &TranscriptArgs) -> Result<Reader<Box<dyn BufRead>>, Exit> {
    if args.file == Path::new("-") {
        return Ok(Reader::new(&args.file, BufReader::new(io::stdin())).boxed());
    }
    let mut path: PathBuf = args.file.clone();
    if path.is_dir() {
        if !path.join(TRANSCRIPT).is_file() {
            path = only_attempt(&path).map_err(|message| fail(Exit::Usage, &message))?;
        }
        path.push(TRANSCRIPT);
    }
    match transcript::read(&path) {
        Ok(reader) => Ok(reader.boxed()),
        Err(error) => Err(fail(Exit::Usage, &error.to_string())),
    }
}

/// The one attempt of a task's directory. Of another directory, the error has the attempts that lie in it.
fn only_attempt(directory: &Path) -> Result<PathBuf, String> {
    let own = attempts(directory);
    if let [attempt] = own.as_slice() {
        return Ok(attempt.clone());
    }
    let found = if own.is_empty() {
        attempts_of_run(directory)
    } else {
        own
    };
    let shown = text::visible_line(&directory.display().to_string());
    if found.is_empty() {
        return Err(format!(
            "`{shown}` has no transcript; name one, or the directory of an attempt: TASK/1"
        ));
    }
    let names: Vec<String> = found
        .iter()
        .take(LISTED)
        .map(|attempt| text::visible_line(&attempt.display().to_string()))
        .collect();
    let more = match found.len() - names.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let count = text::plural(found.len() as u64, "attempt");
    Err(format!(
        "`{shown}` is not the directory of one attempt, it has {count}; name one: `{}`{more}",
        names.join("`, `")
    ))
}

/// The attempts with a transcript below a task's directory.
fn attempts(directory: &Path) -> Vec<PathBuf> {
    let numbers = run_dir::attempts(directory).unwrap_or_default();
    numbers
        .into_iter()
        .map(|number| directory.join(number.to_string()))
        .filter(|attempt| attempt.join(TRANSCRIPT).is_file())
        .collect()
}

/// Those of all tasks below a run directory, by name.
fn attempts_of_run(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else {
        return Vec::new();
    };
    let mut tasks: Vec<PathBuf> = entries
        .flatten()
        .take(ENTRIES)
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect();
    tasks.sort();
    tasks.iter().flat_map(|task| attempts(task)).collect()
}

/// A transcript that is not whole proves nothing: that is said, and is infrastructure.
pub(super) fn conclude(written: io::Result<Ending>) -> Exit {
    match written.map(|ending| ending.fault()) {
        Ok(None) => Exit::Passed,
        Ok(Some(fault)) => {
            say(&format!("warning: {fault}"));
            Exit::Infrastructure
        }
        // A reader that went away (`| head`) is no failure.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Exit::Passed,
        Err(error) => fail(
            Exit::Infrastructure,
            &format!("stdout could not be written: {error}"),
        ),
    }
}
