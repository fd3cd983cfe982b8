//! What GitHub Actions reads of a run beside the [page](super::page): annotations beside files, and the outputs of the step.
//!
//! All are pure functions. The caller writes the files that the runner names, and prints annotations only where it runs
//! in GitHub Actions.

mod annotations;
mod outputs;

pub use annotations::annotations;
pub use outputs::{OutputError, outputs};
