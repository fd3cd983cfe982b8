//! `agent-batch schema`: the JSON Schemas of task files, for editors, and of what a run leaves, for programs.

use crate::cli::args::SchemaArgs;
use crate::cli::print;
use crate::outcome::Exit;
use crate::report::schema;
use crate::task;

/// Prints a schema.
pub(super) fn schema(args: &SchemaArgs) -> Exit {
    let schema = if args.project {
        task::project_schema()
    } else if args.transcript {
        schema::transcript()
    } else if args.summary {
        schema::summary()
    } else {
        task::schema()
    };
    print(&format!("{schema:#}\n"))
}
