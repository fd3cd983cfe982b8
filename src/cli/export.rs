//! `agent-batch export`: a transcript in a format of others.

use std::io::{self, BufWriter};

use crate::cli::args::ExportArgs;
use crate::cli::show;
use crate::outcome::Exit;
use crate::report::export;

/// Prints a transcript in a format, as far as it goes.
pub(super) fn export(args: &ExportArgs) -> Exit {
    match show::open(&args.transcript) {
        Ok(events) => {
            let mut out = BufWriter::new(io::stdout().lock());
            show::conclude(export::write(&mut out, events, args.format.into()))
        }
        Err(exit) => exit,
    }
}
