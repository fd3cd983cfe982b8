//! One transcript, for a person who reads it on a terminal.
//!
//! The text is written event by event, so the size of a transcript does not matter. Everything foreign is shown with its controls
//! escaped; colour is only ever ours. A [`Filter`] picks events; [`write_json`] prints them as they are stored.

mod filter;

use std::io::{self, Write};
use std::time::Duration;

use super::account::{bypass_warning, cost};
use super::transcript::{Damage, Ending};
use super::{is_bypass, sandbox, verdict_word};
use crate::event::{
    AssistantReplied, CallCut, CheckResult, ConnectionFinished, ConnectionResult, Event,
    HookFinished, HookResult, Kind, TaskFinished, TaskStarted, ToolDecided, ToolFinished,
    ToolResultKind,
};
use crate::outcome::{Verdict, signal_name};
use crate::text::{self, workflow};

pub use filter::{Filter, Filtering};

/// How many lines of a text are shown, and how many of them are its end.
const LINES: usize = 30;
/// The longest text that is looked at, in bytes.
const TEXT: usize = 16 * 1024;

/// The longest line, in bytes.
const LINE: usize = 4000;

/// Whether to mark words with colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colour {
    /// Plain text.
    Off,
    /// ANSI colours.
    On,
}

/// Writes what the events say that `filter` takes, and the damages; says how the transcript ended.
///
/// # Errors
/// Those of `out`.
pub fn write(
    out: &mut impl Write,
    events: impl IntoIterator<Item = Result<Event, Damage>>,
    filter: &Filter,
    colour: Colour,
) -> io::Result<Ending> {
    let mut screen = Screen {
        out,
        colour,
        with_inputs: filter.is_any(),
    };
    let mut filtering = Filtering::new(filter);
    let mut ending = Ending::default();
    for item in events {
        ending.note(&item);
        match item {
            Ok(event) if filtering.takes(&event) => {
                ending.taken += 1;
                screen.event(&event)?;
            }
            Ok(_) => {}
            Err(damage) => screen.say(Paint::Bad, &format!("damaged: {damage}"))?,
        }
    }
    if let Some(fault) = ending.fault() {
        screen.say(Paint::Bad, &fault)?;
    }
    screen.out.flush()?;
    Ok(ending)
}

/// Writes the events that `filter` takes as they are stored, one JSON object a line; says how the transcript ended.
///
/// # Errors
/// Those of `out`.
pub fn write_json(
    out: &mut impl Write,
    events: impl IntoIterator<Item = Result<Event, Damage>>,
    filter: &Filter,
) -> io::Result<Ending> {
    let mut filtering = Filtering::new(filter);
    let mut ending = Ending::default();
    for item in events {
        ending.note(&item);
        if let Ok(event) = item
            && filtering.takes(&event)
        {
            ending.taken += 1;
            let line = serde_json::to_string(&event)?;
            writeln!(out, "{}", text::json::inert(&line))?;
        }
    }
    out.flush()?;
    Ok(ending)
}

/// What a line means.
#[derive(Clone, Copy)]
enum Paint {
    Plain,
    Head,
    Good,
    Bad,
    Dim,
}

struct Screen<'a, W> {
    out: &'a mut W,
    colour: Colour,
    /// Whether decisions show their input, since the reply that asked may not be shown.
    with_inputs: bool,
}

impl<W: Write> Screen<'_, W> {
    /// One line.
    fn say(&mut self, paint: Paint, line: &str) -> io::Result<()> {
        let line = workflow::inert_line(&text::strip_ansi(&text::head(line, LINE)));
        let code = match (self.colour, paint) {
            (Colour::Off, _) | (_, Paint::Plain) => return writeln!(self.out, "{line}"),
            (Colour::On, Paint::Head) => "1",
            (Colour::On, Paint::Good) => "32",
            (Colour::On, Paint::Bad) => "31",
            (Colour::On, Paint::Dim) => "2",
        };
        writeln!(self.out, "\u{1b}[{code}m{line}\u{1b}[0m")
    }

    /// A text of several lines, indented; in the middle of a long one, lines are left out.
    fn quote(&mut self, paint: Paint, indent: &str, foreign: &str) -> io::Result<()> {
        let shown = text::plain(&text::ends(foreign, TEXT));
        let lines: Vec<&str> = shown.trim_end().lines().collect();
        let left_out = lines.len().saturating_sub(LINES);
        let (first, last) = if left_out > 0 {
            (&lines[..LINES / 2], &lines[lines.len() - LINES / 2..])
        } else {
            (&lines[..], &lines[..0])
        };
        for line in first {
            self.say(paint, &format!("{indent}{}", line.replace('\t', "    ")))?;
        }
        if left_out > 0 {
            let lines = text::plural(left_out as u64, "line");
            self.say(Paint::Dim, &format!("{indent}[{lines} left out]"))?;
        }
        for line in last {
            self.say(paint, &format!("{indent}{}", line.replace('\t', "    ")))?;
        }
        Ok(())
    }

    fn event(&mut self, event: &Event) -> io::Result<()> {
        match &event.kind {
            Kind::TaskStarted(started) => self.started(event, started),
            Kind::Warned { code, message } => {
                self.say(Paint::Bad, &format!("warning {code}: {message}"))
            }
            Kind::PromptAppended { turn, origin, text } => {
                self.say(Paint::Plain, "")?;
                self.say(Paint::Head, &format!("turn {turn} ({origin})"))?;
                self.quote(Paint::Plain, "  > ", text)
            }
            Kind::NoteAppended { origin, text, .. } => {
                self.say(Paint::Head, &format!("note ({origin})"))?;
                self.quote(Paint::Plain, "  > ", text)
            }
            Kind::TasksNotRun { tasks, reason } => {
                let names = text::one_line(&tasks.join(", "), 600);
                self.say(Paint::Bad, &format!("not run: {names}: {reason}"))
            }
            Kind::RunInterrupted { signal } => self.say(
                Paint::Bad,
                &format!("interrupted by {}", signal_name(*signal)),
            ),
            Kind::CallsEased { window, .. } => self.say(
                Paint::Dim,
                &format!("the API refused for load: at most {window} at the same time"),
            ),
            Kind::ModelRetried {
                attempt,
                delay_ms,
                reason,
                ..
            } => {
                let delay = text::duration(Duration::from_millis(*delay_ms));
                let reason = text::one_line(reason, 600);
                self.say(
                    Paint::Bad,
                    &format!("  try {attempt} failed, next in {delay}: {reason}"),
                )
            }
            Kind::CallCut(cut) => self.cut(cut),
            Kind::AssistantReplied(replied) => self.replied(replied),
            Kind::HookFinished(hook) => self.hook(hook),
            Kind::ToolDecided(decided) => self.decided(decided),
            Kind::ToolFinished(finished) => self.tool(finished),
            Kind::ConnectionFinished(connection) => self.connection(connection),
            Kind::WorkspaceCompared(compared) => {
                let changes = &compared.changes;
                self.say(Paint::Plain, "")?;
                let count = text::plural(changes.len() as u64, "change");
                self.say(Paint::Head, &format!("{count} in the workspace"))?;
                for change in changes.iter().take(200) {
                    let line = format!("  {} {}", change.kind.name(), change.path);
                    self.say(Paint::Plain, &line)?;
                }
                for concern in compared.concerns.iter().take(200) {
                    let why = concern.kind.meaning();
                    let line = format!("  look at {}: {why} {}", concern.path, concern.detail);
                    self.say(Paint::Bad, line.trim_end())?;
                }
                for omitted in compared
                    .patch
                    .iter()
                    .flat_map(|patch| &patch.omitted)
                    .take(200)
                {
                    let line = format!("  not in the patch: {}: {}", omitted.path, omitted.reason);
                    self.say(Paint::Plain, &line)?;
                }
                Ok(())
            }
            Kind::CheckFinished(check) => {
                let (paint, did) = match check.result {
                    CheckResult::Passed => (Paint::Good, "passed"),
                    CheckResult::Failed => (Paint::Bad, "failed"),
                    CheckResult::Errored => (Paint::Bad, "could not be run"),
                };
                self.say(
                    paint,
                    &format!("check {} {did}: {}", check.check, check.title),
                )?;
                self.quote(Paint::Plain, "  | ", &check.message)?;
                self.quote(Paint::Plain, "  | ", &check.details)
            }
            Kind::TaskFinished(finished) => self.finished(finished),
            Kind::Unknown => self.say(
                Paint::Dim,
                &format!(
                    "event {} is of a kind that this version does not know",
                    event.seq
                ),
            ),
            Kind::StepStarted { .. } | Kind::TextStreamed { .. } | Kind::ResultsAppended { .. } => {
                Ok(())
            }
        }
    }

    fn started(&mut self, event: &Event, started: &TaskStarted) -> io::Result<()> {
        let attempt = event.attempt;
        self.say(
            Paint::Head,
            &format!(
                "{} (attempt {attempt}), {}:{}",
                event.task, started.file, started.line
            ),
        )?;
        if !started.description.is_empty() {
            self.quote(Paint::Plain, "  ", &started.description)?;
        }
        for line in [
            format!("  model {}, mode {}", started.model, started.mode),
            format!("  workspace {} ({})", started.workspace, started.isolation),
            format!("  sandbox {}", sandbox::in_short(&started.sandbox)),
            format!("  limits {}", started.limits),
        ] {
            self.say(Paint::Plain, &line)?;
        }
        for (word, rules) in [("allow", &started.allow), ("deny", &started.deny)] {
            for rule in rules.iter().take(100) {
                self.say(
                    Paint::Plain,
                    &format!("  {word} {} ({})", rule.rule, rule.source),
                )?;
            }
        }
        if is_bypass(&started.mode) {
            self.say(Paint::Bad, &bypass_warning(&started.mode))?;
        }
        if let Some(warning) = sandbox::warning(&started.sandbox) {
            self.say(Paint::Bad, &warning)?;
        }
        Ok(())
    }

    fn cut(&mut self, cut: &CallCut) -> io::Result<()> {
        let line = format!(
            "  cut off, booked with {}{} tokens: {}",
            if cut.is_estimate { "at most " } else { "" },
            text::tokens(cut.usage.total()),
            text::one_line(&cut.reason, 600)
        );
        self.say(Paint::Bad, &line)
    }

    fn replied(&mut self, replied: &AssistantReplied) -> io::Result<()> {
        self.say(Paint::Plain, "")?;
        let reason = replied.stop_reason.as_deref().unwrap_or("no stop reason");
        self.say(
            Paint::Head,
            &format!(
                "step {}: {reason}, {} in, {} out, {}, {}",
                replied.step,
                text::tokens(replied.usage.input()),
                text::tokens(replied.usage.output_tokens),
                cost(replied.cost),
                text::duration(Duration::from_millis(replied.duration_ms)),
            ),
        )?;
        self.quote(Paint::Plain, "  ", &replied.message.text())?;
        for call in replied.message.tool_calls() {
            let call = format!(
                "  call {} {}",
                call.name,
                text::head(&call.input.to_string(), 600)
            );
            self.say(Paint::Plain, &call)?;
        }
        Ok(())
    }

    fn connection(&mut self, connection: &ConnectionFinished) -> io::Result<()> {
        let (paint, did) = match connection.result {
            ConnectionResult::Allowed => (Paint::Dim, "connected to"),
            ConnectionResult::Refused => (Paint::Bad, "refused the network to"),
            ConnectionResult::Failed => (Paint::Bad, "not connected to"),
        };
        let reason = if connection.reason.is_empty() {
            String::new()
        } else {
            format!(": {}", text::one_line(&connection.reason, 600))
        };
        let line = format!(
            "  {did} {}: {} sent, {} received{reason}",
            text::one_line(&connection.host, 300),
            text::bytes(connection.sent_bytes),
            text::bytes(connection.received_bytes)
        );
        self.say(paint, &line)
    }

    fn hook(&mut self, hook: &HookFinished) -> io::Result<()> {
        let (paint, did) = match hook.result {
            HookResult::Passed => (Paint::Dim, "passed"),
            HookResult::Blocked => (Paint::Bad, "blocked"),
            HookResult::Failed => (Paint::Bad, "failed"),
        };
        self.say(
            paint,
            &format!("  {} hook `{}` {did}", hook.event, hook.hook),
        )?;
        self.quote(Paint::Plain, "    ", &hook.message)?;
        if let Some(rewrite) = &hook.rewrite {
            let before = rewrite.before.to_string();
            let after = rewrite.after.to_string();
            self.say(
                Paint::Bad,
                &format!("    rewrote {}", text::head(&before, 600)),
            )?;
            self.say(
                Paint::Bad,
                &format!("    to      {}", text::head(&after, 600)),
            )?;
        }
        Ok(())
    }

    fn decided(&mut self, decided: &ToolDecided) -> io::Result<()> {
        let rule = decided.rule.as_ref().map_or(String::new(), |rule| {
            format!(", rule {} ({})", rule.rule, rule.source)
        });
        let (paint, word) = if decided.allowed {
            (Paint::Good, "allowed")
        } else {
            (Paint::Bad, "denied")
        };
        self.say(
            paint,
            &format!(
                "  {word} {} in mode {} by {}{rule}: {}",
                decided.name, decided.mode, decided.class, decided.reason
            ),
        )?;
        if self.with_inputs {
            let input = decided.input.to_string();
            self.say(
                Paint::Plain,
                &format!("    input {}", text::head(&input, 600)),
            )?;
        }
        match &decided.suggestion {
            Some(suggestion) if !decided.allowed => {
                self.say(Paint::Plain, &format!("    to allow it: {suggestion}"))
            }
            _ => Ok(()),
        }
    }

    fn tool(&mut self, finished: &ToolFinished) -> io::Result<()> {
        let (paint, did) = match finished.result {
            ToolResultKind::Ok => (Paint::Dim, "answered"),
            ToolResultKind::Error => (Paint::Bad, "failed"),
            ToolResultKind::Denied => (Paint::Bad, "denied"),
            ToolResultKind::UnknownTool => (Paint::Bad, "no such tool"),
            ToolResultKind::InvalidInput => (Paint::Bad, "invalid input"),
            ToolResultKind::TimedOut => (Paint::Bad, "timed out"),
            ToolResultKind::Panicked => (Paint::Bad, "panicked"),
            ToolResultKind::NotRun => (Paint::Bad, "not run"),
        };
        let span = text::duration(Duration::from_millis(finished.duration_ms));
        let size = text::bytes(finished.output_bytes);
        self.say(paint, &format!("  {} {did}: {size}, {span}", finished.name))?;
        self.quote(Paint::Plain, "    | ", &finished.content)?;
        match &finished.output_file {
            Some(file) => self.say(Paint::Dim, &format!("    whole output: {file}")),
            None => Ok(()),
        }
    }

    fn finished(&mut self, finished: &TaskFinished) -> io::Result<()> {
        let row = finished.outcome.row();
        let paint = match row.verdict {
            Verdict::Passed => Paint::Good,
            Verdict::Failed | Verdict::Errored | Verdict::Skipped => Paint::Bad,
        };
        let span = text::duration(Duration::from_millis(finished.duration_ms));
        self.say(Paint::Plain, "")?;
        self.say(
            paint,
            &format!(
                "{} ({}) after {span}: {}",
                verdict_word(row.verdict),
                row.name,
                finished.message
            ),
        )
    }
}
