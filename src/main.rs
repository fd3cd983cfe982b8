//! The program.

use std::process::ExitCode;

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some("supervise") {
        return ExitCode::from(agent_batch::proc::supervise());
    }
    ExitCode::SUCCESS
}
