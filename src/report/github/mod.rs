//! What GitHub shows of a run: the step summary, annotations beside files, and the outputs of the step.
//!
//! All are pure functions. The caller writes the files that the runner names, and prints annotations only where it runs
//! in GitHub Actions.

mod annotations;
mod outputs;
mod page;

pub use annotations::annotations;
pub use outputs::{OutputError, outputs};
pub use page::step_summary;
