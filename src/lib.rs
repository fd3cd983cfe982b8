//! `agent-batch` runs LLM agents where nobody is watching: in CI.
//!
//! The list of modules below is the architecture. **A module uses only modules that stand before
//! it**; a test reads this list and every `crate::` path and fails when the order is broken.
//!
//! | floor | what it holds |
//! |---|---|
//! | facts | values without I/O: text, secrets, messages, usage, outcomes, events |
//! | reading | files by their name, bounded; events in, bytes out: every report is a fold over the transcript |
//! | deciding | pure decisions: budgets and the permission gate |
//! | doing | sandbox, processes, workspaces, hooks, models, tools, checks |
//! | saying | the task file: `TaskSpec` (what YAML may say) becomes `Task` (everything resolved) |
//! | running | the agent loop and the batch around it |
//! | speaking | the command line |

// facts
pub mod clock;
pub mod text;
pub mod redact;
pub mod message;
pub mod usage;
pub mod outcome;
pub mod event;
// reading
pub mod file;
pub mod report;
// deciding
pub mod budget;
pub mod policy;
// doing
pub mod sandbox;
pub mod egress;
pub mod proc;
pub mod workspace;
pub mod hook;
pub mod model;
pub mod tool;
pub mod check;
// saying
pub mod task;
// running
pub mod agent;
pub mod batch;
// speaking
pub mod cli;
