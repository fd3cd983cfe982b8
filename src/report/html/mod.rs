//! `report.html`: the page that a person reads.
//!
//! One file that needs nothing beside it: no network, no script (the one that sorts the table is a convenience), no font. Its policy
//! lets a browser load nothing and run nothing but the style and the script that stand in [`document`], by their hashes. The markup is
//! [`maud`]'s: the template is checked by the compiler, and whatever is spliced into it is escaped, so foreign text is only ever a
//! text node or one of the few attribute values that are made here (`id`, `href`, numbers).
//!
//! | chapter | holds |
//! |---|---|
//! | [`document`] | head, policy, style, script, foot |
//! | `overview` | the verdict, what to know before reading on, the table of tasks |
//! | `task` | the section of a task: asked, denied, checks, changes, reply, cost |
//! | `record` | what of a transcript is kept to be shown: one step at a time, clipped |
//! | `timeline` | a transcript from its file to the page, first and last steps |
//! | `step` | the markup of a step |
//! | `diff` | a coloured diff |
//!
//! The summary is bounded and holds no conversation, so the page reads the transcripts a second time and writes while it
//! reads: one step is in memory, and the last steps of a long transcript. The page is bounded too; what it leaves out it says, with a
//! link to the file that has it.

mod diff;
pub mod document;
mod overview;
mod record;
mod step;
mod task;
mod timeline;

use std::collections::HashSet;
use std::io::{self, Write};
use std::path::Path;

use maud::{Markup, html};

use super::summary::{Summary, TaskSummary};
use crate::text;
use crate::text::file_name::file_name;

/// The size from which on no further section of a task is written, in bytes.
const PAGE: u64 = 16 * 1024 * 1024;
/// What all timelines may take together, in bytes.
const TIMELINES: u64 = 8 * 1024 * 1024;

/// Writes the page of a run. `directory` is where its transcripts lie; the page is meant to lie there, too.
///
/// A transcript that is missing or damaged leaves a gap in the page and is no error.
///
/// # Errors
/// Those of `out`.
pub fn write(out: impl Write, summary: &Summary, directory: &Path) -> io::Result<()> {
    let mut page = Page { out, written: 0 };
    let tasks = in_order(summary);
    page.raw(&document::head(summary).into_string())?;
    page.add(&overview::top(summary))?;
    overview::table(&mut page, &tasks)?;
    let mut room = TIMELINES;
    for (index, entry) in tasks.iter().enumerate() {
        if page.written > PAGE {
            let left = text::plural((tasks.len() - index) as u64, "task");
            page.add(&html! { p.note { "For want of room " (left) " without a section; each has its transcript in the run directory." } })?;
            break;
        }
        let fair = room / (tasks.len() - index) as u64;
        let before = page.written;
        task::section(&mut page, entry, directory, fair)?;
        room = room.saturating_sub((page.written - before).min(room));
    }
    page.raw(&document::foot(summary, directory).into_string())?;
    page.out.flush()
}

/// A task and the name of its section.
struct Entry<'a> {
    task: &'a TaskSummary,
    /// Unique on the page and safe in an address.
    id: String,
}

/// What a person has to look at comes first; otherwise the order of the plan.
fn in_order(summary: &Summary) -> Vec<Entry<'_>> {
    let mut taken = HashSet::new();
    let mut entries: Vec<Entry<'_>> = summary
        .tasks
        .iter()
        .map(|task| Entry {
            task,
            id: unique(&file_name(&task.name), &mut taken),
        })
        .collect();
    entries.sort_by_key(|entry| entry.task.rank());
    entries
}

/// A name that no other section has. Our own ids begin with a capital, which a file name never does.
fn unique(name: &str, taken: &mut HashSet<String>) -> String {
    let mut id = name.to_owned();
    let mut more = 1_u32;
    while !taken.insert(id.clone()) {
        more += 1;
        id = format!("{name}-{more}");
    }
    id
}

/// The page as it is written.
struct Page<W> {
    out: W,
    written: u64,
}

impl<W: Write> Page<W> {
    fn add(&mut self, markup: &Markup) -> io::Result<()> {
        self.raw(&markup.0)
    }

    /// Writes markup that was rendered before.
    fn raw(&mut self, markup: &str) -> io::Result<()> {
        self.written += markup.len() as u64;
        self.out.write_all(markup.as_bytes())?;
        self.out.write_all(b"\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_tasks_never_share_a_section() {
        let mut taken = HashSet::new();
        let names = ["a", "a-2", "a", "a", "a-2"];
        let ids: HashSet<String> = names.map(|name| unique(name, &mut taken)).into();
        assert_eq!(ids.len(), names.len(), "{ids:?}");
    }
}
