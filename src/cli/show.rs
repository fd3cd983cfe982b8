//! `agent-batch show`: a transcript for a person, or events of it for a program.

use std::io::{self, BufRead, BufReader, BufWriter};
use std::path::{Path, PathBuf};

use crate::cli::args::{ShowArgs, ShowFormat, TranscriptArgs};
use crate::cli::{fail, say};
use crate::outcome::Exit;
use crate::report::run_dir::TRANSCRIPT;
use crate::report::show::{self, Colour, Filter};
use crate::report::transcript::{self, Ending, Reader};

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
        path.push(TRANSCRIPT);
        if !path.is_file() {
            let message = format!(
                "`{}` has no transcript; name one, or the directory of an attempt: TASK/1",
                args.file.display()
            );
            return Err(fail(Exit::Usage, &message));
        }
    }
    match transcript::read(&path) {
        Ok(reader) => Ok(reader.boxed()),
        Err(error) => Err(fail(Exit::Usage, &error.to_string())),
    }
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
