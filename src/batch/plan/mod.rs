//! What a run does, before anything is started. Pure: everything that is decided here is decided again, and equally, by
//! every shard and by a run that goes on with an earlier one.
//!
//! `filter` chooses tasks, `shard` deals them out, `detect` finds out which shard a CI system means, `history` knows how long
//! tasks took, `resume` knows which tasks are done.

pub mod detect;
pub mod filter;
pub mod history;
pub mod resume;
pub mod shard;
