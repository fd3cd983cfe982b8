//! The page: Markdown for a person who opens the build. [`step_summary`] is `summary.md` and GitHub's step summary, [`comment`]
//! is `comment.md`, the same in the space that a comment on a pull request has.
//!
//! A reader refuses a page that is too long as a whole, so it ends in time and says what it left out. Foreign text
//! stands only in code spans and fences: there it is no link, image, HTML, mention or closing keyword.

use std::time::Duration;

use super::account::{self, bypass_warning, cost};
use super::summary::{Summary, TaskSummary};
use super::{headline, is_bypass, sandbox, verdict_word};
use crate::outcome::Verdict;
use crate::text::{
    self,
    markdown::{code, fence},
};

/// The longest step summary, in bytes: GitHub takes a mebibyte for a step.
const PAGE: usize = 900 * 1024;
/// The longest comment, in bytes: GitHub takes 65,536 characters.
const COMMENT: usize = 60 * 1024;
/// Room that is kept for the note on what was left out.
const NOTE: usize = 512;
/// The longest section of a task, in bytes.
const SECTION: usize = 16 * 1024;
/// The shortest section that is worth its place, in bytes.
const LEAST: usize = 1024;

/// The first line of [`comment`], by which a later run finds the comment that it should replace.
pub const COMMENT_MARK: &str = "<!-- agent-batch -->";

/// The page of a step summary, at most 900 KiB.
#[must_use]
pub fn step_summary(summary: &Summary) -> String {
    write(summary, Page::new(PAGE), |_| true)
}

/// The page of a comment, at most 60 KiB: it begins with [`COMMENT_MARK`], and its table has only tasks that did not pass.
#[must_use]
pub fn comment(summary: &Summary) -> String {
    let mut page = Page::new(COMMENT);
    page.add(&format!("{COMMENT_MARK}\n\n"));
    write(summary, page, |task| task.verdict() != Verdict::Passed)
}

fn write(summary: &Summary, mut page: Page, in_table: fn(&TaskSummary) -> bool) -> String {
    page.add(&format!("## agent-batch — {}\n\n", headline::of(summary)));
    // Only numbers and our own words.
    page.add(&format!("{}.\n\n", account::totals_line(summary)));
    for task in summary.tasks.iter().filter(|task| is_bypass(&task.mode)) {
        let warning = format!("{}: {}", task.name, bypass_warning(&task.mode));
        page.add(&format!("- ⚠️ {}\n", code(&text::head(&warning, 400))));
    }
    for warning in sandbox::warnings(summary) {
        page.add(&format!("- ⚠️ {}\n", code(&text::head(&warning, 800))));
    }
    for aside in account::asides(summary) {
        page.add(&format!("- {}\n", code(&text::head(&aside, 800))));
    }
    for line in account::comparison(summary) {
        page.add(&format!("- {}\n", code(&text::head(&line, 800))));
    }
    for damage in summary.damages.iter().take(20) {
        page.add(&format!("- damaged: {}\n", code(&text::head(damage, 400))));
    }
    let mut rows_left_out = 0;
    if summary.tasks.iter().any(in_table) {
        page.add("\n");
        page.add(
            "| verdict | task | outcome | model | mode | steps | denials | tokens | cost | time |\n",
        );
        page.add("|---|---|---|---|---|---:|---:|---:|---:|---:|\n");
        let rows = summary.ranked().into_iter().filter(|task| in_table(task));
        rows_left_out = rows.filter(|task| !page.add(&row(task))).count();
        page.add("\n");
    }
    // Many tasks share the room, rather than that the first ones take it all.
    let notable = summary.notable();
    let share = page.room() / notable.len().max(1);
    let room = share.saturating_sub(NOTE).clamp(LEAST, SECTION);
    let sections_left_out = notable
        .into_iter()
        .filter(|task| {
            page.add("\n");
            !page.add(&section(task, &summary.dir, room))
        })
        .count();
    page.unused(summary);
    page.close(rows_left_out, sections_left_out)
}

/// A page with a bound.
struct Page {
    text: String,
    most: usize,
}

impl Page {
    fn new(most: usize) -> Self {
        Self {
            text: String::new(),
            most,
        }
    }

    /// How many bytes still fit.
    fn room(&self) -> usize {
        self.most.saturating_sub(self.text.len() + NOTE)
    }

    /// Adds a piece if it fits; says whether it did.
    fn add(&mut self, piece: &str) -> bool {
        // One blank line parts two pieces, however many of them want one.
        let piece = match piece.strip_prefix('\n') {
            Some(rest) if self.text.is_empty() || self.text.ends_with("\n\n") => rest,
            _ => piece,
        };
        let fits = piece.len() <= self.room();
        if fits {
            self.text.push_str(piece);
        }
        fits
    }

    /// The allow rules that tasks which passed did not need. Those of the others stand in their sections.
    fn unused(&mut self, summary: &Summary) {
        let passed = summary
            .tasks
            .iter()
            .filter(|task| task.verdict() == Verdict::Passed);
        let mut lines = passed
            .filter_map(|task| Some((task, account::unused_rules(task)?)))
            .map(|(task, unused)| {
                let name = code(&text::head(&task.name, 120));
                format!("- {name}: {}\n", code(&unused))
            })
            .peekable();
        if lines.peek().is_some() && self.add("\n### Allow rules without use\n\n") {
            for line in lines {
                self.add(&line);
            }
        }
    }

    fn close(mut self, rows: usize, sections: usize) -> String {
        if rows + sections > 0 {
            let rows = text::plural(rows as u64, "row");
            let sections = text::plural(sections as u64, "section");
            self.text.extend([
                "\nLeft out for want of room: ",
                &rows,
                " of the table and ",
                &sections,
                ". They are in the run directory.\n",
            ]);
        }
        self.text
    }
}

fn mark(task: &TaskSummary) -> &'static str {
    match task.verdict() {
        Verdict::Passed => "✅",
        // It does not fail the run.
        Verdict::Failed if task.excuse().is_some() => "🟨",
        Verdict::Failed => "❌",
        Verdict::Errored => "⚠️",
        Verdict::Skipped => "⏭️",
    }
}

fn row(task: &TaskSummary) -> String {
    let short = |value: &str| code(&text::head(value, 120));
    let mut verdict = vec![verdict_word(task.verdict())];
    verdict.extend(account::marks(task));
    format!(
        "| {} {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |\n",
        mark(task),
        verdict.join(", "),
        short(&task.name),
        task.outcome.name(),
        short(&task.model),
        short(&task.mode),
        task.all_steps(),
        task.denials.total,
        text::tokens(task.all_usage().total()),
        cost(task.all_cost()),
        text::duration(Duration::from_millis(task.all_duration_ms())),
    )
}

/// What a person needs to know of one task; what it quotes has `room` bytes.
fn section(task: &TaskSummary, dir: &str, room: usize) -> String {
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
        fence(&text::ends(&details, room))
    )
}
