//! A transcript on its way from its file to the page: written while it is read.
//!
//! The first steps go to the page at once. When half of the room is used, the rest is kept back and the oldest of it dropped, so that at the
//! end the first and the last steps are there and memory was never more than the room. A dropped step in which
//! something was denied leaves a line, because the page points at it.

use std::collections::VecDeque;
use std::io::{self, BufRead, Write};
use std::path::Path;

use maud::{Markup, html};

use super::record::{Entry, Fold};
use super::{Page, step};
use crate::event::{Event, Kind, TaskStarted};
use crate::report::{run_dir, transcript};
use crate::text::{self, html::address, html::line};

/// How many dropped steps leave a line.
const STUBS: usize = 100;

/// Where a timeline belongs.
pub(super) struct Place<'a> {
    /// The beginning of the ids of its steps.
    pub(super) id: &'a str,
    /// The task's name.
    pub(super) task: &'a str,
    /// The attempt.
    pub(super) attempt: u32,
}

/// What stands at the beginning of a transcript.
#[derive(Default)]
pub(super) struct Opening {
    pub(super) started: Option<Box<TaskStarted>>,
    pub(super) prompt: Option<String>,
}

/// Opens the transcript of an attempt. A link or a device in its place is not followed.
fn open(
    directory: &Path,
    place: &Place<'_>,
) -> io::Result<transcript::Reader<impl BufRead + use<>>> {
    let path = directory.join(run_dir::transcript(place.task, place.attempt));
    run_dir::regular(&path)?;
    transcript::read(&path)
}

/// What a transcript begins with, as far as it can be read.
pub(super) fn opening(directory: &Path, place: &Place<'_>) -> Opening {
    let mut opening = Opening::default();
    let Ok(events) = open(directory, place) else {
        return opening;
    };
    // The prompt comes before the first step; hooks and warnings may come before it.
    for event in events.take(100).flatten() {
        match event.kind {
            Kind::TaskStarted(started) => opening.started = Some(started),
            Kind::PromptAppended { origin, text, .. } if origin == "prompt" => {
                opening.prompt = Some(text);
                break;
            }
            Kind::StepStarted { .. } => break,
            _ => {}
        }
    }
    opening
}

/// Writes the steps of an attempt in about `room` bytes.
///
/// # Errors
/// Those of the page. A transcript that cannot be read is told on it.
pub(super) fn write(
    page: &mut Page<impl Write>,
    directory: &Path,
    place: &Place<'_>,
    room: u64,
) -> io::Result<()> {
    let events = match open(directory, place) {
        Ok(events) => events,
        Err(error) => {
            let why = line(&error.to_string(), 400);
            return page.add(&html! { p.note { "The transcript could not be read: " (why) } });
        }
    };
    page.raw("<ol class=\"timeline\">")?;
    let mut room = Room::new(place, room);
    let mut fold = Fold::default();
    let mut damaged = 0_u64;
    for item in events {
        match item {
            Ok(event) if belongs(&event, place) => {
                for entry in fold.take(&event) {
                    room.entry(page, &entry)?;
                }
            }
            Ok(_) | Err(_) => damaged += 1,
        }
    }
    for entry in fold.end() {
        room.entry(page, &entry)?;
    }
    room.close(page)?;
    page.raw("</ol>")?;
    if damaged > 0 {
        let lines = text::plural(damaged, "line");
        page.add(&html! { p.note { (lines) " of the transcript could not be used." } })?;
    }
    Ok(())
}

fn belongs(event: &Event, place: &Place<'_>) -> bool {
    event.task == place.task && event.attempt == place.attempt
}

/// A bounded list: its beginning is written, its end is kept.
struct Room<'a> {
    place: &'a Place<'a>,
    /// For the beginning, and again for the end, in bytes.
    half: usize,
    used: usize,
    last: VecDeque<Rendered>,
    last_bytes: usize,
    dropped: u64,
    stubs: Vec<Markup>,
    /// The highest step that has got an id.
    highest: u32,
}

/// An entry as markup, and what is left of it when it is dropped.
struct Rendered {
    markup: String,
    stub: Option<Markup>,
}

impl<'a> Room<'a> {
    fn new(place: &'a Place<'a>, room: u64) -> Self {
        Self {
            place,
            half: usize::try_from(room / 2).unwrap_or(usize::MAX),
            used: 0,
            last: VecDeque::new(),
            last_bytes: 0,
            dropped: 0,
            stubs: Vec::new(),
            highest: 0,
        }
    }

    fn entry(&mut self, page: &mut Page<impl Write>, entry: &Entry) -> io::Result<()> {
        let (markup, stub) = match entry {
            // It stands at the head of the section.
            Entry::Prompt {
                turn: 1, origin, ..
            } if origin == "prompt" => return Ok(()),
            Entry::Prompt { turn, origin, text } => (step::prompt(*turn, origin, text), None),
            Entry::Hook(hook) => (html! { li.aside { (step::hook(hook)) } }, None),
            Entry::Step(shown) => {
                // Numbers only rise; in a record that somebody made up, only the first of a number gets the id.
                let id = (shown.number > self.highest)
                    .then(|| format!("{}/{}", self.place.id, shown.number));
                self.highest = self.highest.max(shown.number);
                let stub = shown.is_marked().then(|| step::stub(shown, id.as_deref()));
                (step::step(shown, id.as_deref(), self.place), stub)
            }
        };
        let markup = markup.into_string();
        let is_first = self.last.is_empty() && self.used + markup.len() <= self.half;
        if is_first {
            self.used += markup.len();
            return page.raw(&markup);
        }
        self.last_bytes += markup.len();
        self.last.push_back(Rendered { markup, stub });
        // The very last one always stays.
        while self.last_bytes > self.half && self.last.len() > 1 {
            if let Some(oldest) = self.last.pop_front() {
                self.last_bytes -= oldest.markup.len();
                self.dropped += 1;
                if self.stubs.len() < STUBS {
                    self.stubs.extend(oldest.stub);
                }
            }
        }
        Ok(())
    }

    fn close(self, page: &mut Page<impl Write>) -> io::Result<()> {
        if self.dropped > 0 {
            let transcript = run_dir::transcript(self.place.task, self.place.attempt);
            let dropped = text::plural(self.dropped, "entry");
            page.add(&html! {
                li.gap {
                    (dropped) " left out here for want of room. All are in the "
                    (step::link(address(&transcript), "transcript")) "."
                }
            })?;
        }
        for stub in &self.stubs {
            page.add(stub)?;
        }
        for rendered in &self.last {
            page.raw(&rendered.markup)?;
        }
        Ok(())
    }
}
