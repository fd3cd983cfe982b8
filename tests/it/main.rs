//! One integration binary: the built program, real files, real processes.
#![cfg(unix)]
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::unnecessary_literal_bound,
    clippy::items_after_statements,
    clippy::case_sensitive_file_extension_comparisons,
    clippy::disallowed_methods,
    reason = "what helps a test fails as a test does, and starts the program as a shell does"
)]

mod action;
mod architecture;
mod baseline;
mod bash_fuzz;
mod batch;
mod ci;
mod configuration;
mod checks;
mod corpus;
mod documents;
mod egress;
mod endings;
mod escapes;
mod examples;
mod export;
mod explain;
mod governor;
mod hooks;
mod hostile;
mod html;
mod isolation;
mod library;
mod live;
mod model;
mod pages;
mod plan;
mod proc;
mod race;
mod readers;
mod replay;
mod report;
mod run;
mod sandbox;
mod sandboxed;
mod secrets;
mod security_doc;
mod task_file;
mod tools;
