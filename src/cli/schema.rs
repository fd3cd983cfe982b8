//! `agent-batch schema`: the JSON Schema of task files, for editors.

use crate::cli::args::SchemaArgs;
use crate::cli::print;
use crate::outcome::Exit;
use crate::task;

/// Prints a schema.
pub(super) fn schema(args: &SchemaArgs) -> Exit {
    let schema = if args.project {
        task::project_schema()
    } else {
        task::schema()
    };
    print(&format!("{schema:#}\n"))
}
