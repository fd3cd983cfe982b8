//! `agent-batch show`: a transcript for a person.

use std::io::{self, BufReader, BufWriter};
use std::path::Path;

use crate::cli::args::ShowArgs;
use crate::cli::fail;
use crate::outcome::Exit;
use crate::report::show::{self, Colour};
use crate::report::transcript::{self, Reader};

/// Prints a transcript, as far as it goes.
pub(super) fn show(args: &ShowArgs) -> Exit {
    let mut out = BufWriter::new(io::stdout().lock());
    let shown = if args.file == Path::new("-") {
        show::write(
            &mut out,
            Reader::new(&args.file, BufReader::new(io::stdin())),
            Colour::Off,
        )
    } else if args.file.is_dir() {
        let message = format!(
            "`{}` is a directory; name a transcript in it: TASK/1/transcript.jsonl",
            args.file.display()
        );
        return fail(Exit::Usage, &message);
    } else {
        match transcript::read(&args.file) {
            Ok(events) => show::write(&mut out, events, Colour::Off),
            Err(error) => return fail(Exit::Usage, &format!("`{}`: {error}", args.file.display())),
        }
    };
    match shown {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => fail(
            Exit::Infrastructure,
            &format!("stdout could not be written: {error}"),
        ),
        _ => Exit::Passed,
    }
}
