//! One integration binary: the built program, real files, real processes.
#![cfg(unix)]

mod architecture;
mod endings;
mod hooks;
mod library;
mod model;
mod proc;
mod report;
mod run;
mod sandbox;
mod task_file;
