//! `agent-batch`: the command line is in the library, so that tests and other programs can use it too.

use std::process::ExitCode;

fn main() -> ExitCode {
    agent_batch::cli::main()
}
