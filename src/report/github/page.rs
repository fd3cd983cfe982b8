//! The page: `summary.md`, which is also the step summary.
//!
//! GitHub refuses a summary of more than a megabyte as a whole, so the page ends in time and says what it left out. Foreign text
//! stands only in code spans and fences: there it is no link, image, HTML, mention or closing keyword.

use std::time::Duration;

use super::super::account::{self, bypass_warning, cost};
use super::super::summary::{Summary, TaskSummary};
use super::super::{is_bypass, sandbox, verdict_word};
use crate::outcome::Verdict;
use crate::text::{
    self,
    markdown::{code, fence},
};

/// The longest page, in bytes.
const PAGE: usize = 900 * 1024;
/// Room that is kept for the note on what was left out.
const NOTE: usize = 512;
/// The longest section of a task, in bytes.
const SECTION: usize = 16 * 1024;

/// The page as Markdown, at most 900 KiB.
#[must_use]
pub fn step_summary(summary: &Summary) -> String {
    let totals = summary.totals();
    let mut page = Page::default();
    page.add(&format!(
        "## agent-batch: {} of {} passed\n\n",
        totals.passed,
        text::plural(totals.tasks, "task")
    ));
    // Only numbers and our own words.
    page.add(&format!("{}.\n\n", account::totals_line(summary)));
    for task in summary.tasks.iter().filter(|task| is_bypass(&task.mode)) {
        let warning = format!("{}: {}", task.name, bypass_warning(&task.mode));
        page.add(&format!("- ⚠️ {}\n", code(&text::head(&warning, 400))));
    }
    for warning in sandbox::warnings(summary) {
        page.add(&format!("- ⚠️ {}\n", code(&text::head(&warning, 800))));
    }
    for damage in summary.damages.iter().take(20) {
        page.add(&format!("- damaged: {}\n", code(&text::head(damage, 400))));
    }
    page.add(
        "\n| verdict | task | outcome | model | mode | steps | denials | tokens | cost | time |\n",
    );
    page.add("|---|---|---|---|---|---:|---:|---:|---:|---:|\n");
    let rows = summary.tasks.iter().map(row);
    let rows_left_out = rows.filter(|row| !page.add(row)).count();
    page.add("\n");
    let sections = summary.notable().map(|task| section(task, &summary.dir));
    let sections_left_out = sections.filter(|section| !page.add(section)).count();
    page.close(rows_left_out, sections_left_out)
}

/// A page with a bound.
#[derive(Default)]
struct Page(String);

impl Page {
    /// Adds a piece if it fits; says whether it did.
    fn add(&mut self, piece: &str) -> bool {
        let fits = self.0.len() + piece.len() + NOTE <= PAGE;
        if fits {
            self.0.push_str(piece);
        }
        fits
    }

    fn close(mut self, rows: usize, sections: usize) -> String {
        if rows + sections > 0 {
            let rows = text::plural(rows as u64, "row");
            let sections = text::plural(sections as u64, "section");
            self.0.extend([
                "\nLeft out for want of room: ",
                &rows,
                " of the table and ",
                &sections,
                ". They are in the run directory.\n",
            ]);
        }
        self.0
    }
}

fn mark(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Passed => "✅",
        Verdict::Failed => "❌",
        Verdict::Errored => "⚠️",
        Verdict::Skipped => "⏭️",
    }
}

fn row(task: &TaskSummary) -> String {
    let short = |value: &str| code(&text::head(value, 120));
    format!(
        "| {} {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |\n",
        mark(task.verdict()),
        verdict_word(task.verdict()),
        short(&task.name),
        task.outcome.name(),
        short(&task.model),
        short(&task.mode),
        task.steps,
        task.denials.total,
        text::tokens(task.usage.total()),
        cost(task.cost),
        text::duration(Duration::from_millis(task.duration_ms)),
    )
}

fn section(task: &TaskSummary, dir: &str) -> String {
    let details = account::details(task, dir).join("\n");
    let place = if task.file.is_empty() {
        "Not in the plan".to_owned()
    } else {
        let place = format!("{}:{}", text::head(&task.file, 300), task.line);
        // Not at the line's start, where a long run of backticks could be taken for a fence.
        format!("In {}", code(&place))
    };
    format!(
        "### {}: {}\n\n{place}\n\n{}\n",
        verdict_word(task.verdict()),
        code(&text::head(&task.name, 200)),
        fence(&text::ends(&details, SECTION))
    )
}
