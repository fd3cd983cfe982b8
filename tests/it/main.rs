//! One integration binary: the built program, real files, real processes.

mod architecture;
mod bash_fuzz;
mod corpus;
