//! One integration binary: the built program, real files, real processes.
#![cfg(unix)]

mod architecture;
mod bash_fuzz;
mod corpus;
mod endings;
mod explain;
mod hooks;
mod library;
mod model;
mod proc;
mod race;
mod report;
mod run;
mod sandbox;
mod secrets;
mod security_doc;
mod task_file;
mod tools;
