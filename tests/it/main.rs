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
mod report;
mod run;
mod sandbox;
mod task_file;
mod tools;
