//! One integration binary: the built program, real files, real processes.
#![cfg(unix)]

mod architecture;
mod bash_fuzz;
mod corpus;
mod endings;
mod hooks;
mod library;
mod model;
mod proc;
mod report;
mod run;
mod sandbox;
#[cfg(target_os = "linux")]
mod sandboxed;
mod task_file;
mod tools;
