//! Goes once over what junit-report wrote of a suite, and adds what it cannot write but readers trust: totals on `testsuites`,
//! `skipped` on `testsuite`, properties, `line` on `testcase`, earlier attempts. Times get three decimals, timestamps lose
//! fraction and zone (they are UTC), and CDATA sections become escaped text, of which no reader joins the pieces wrongly.

use std::io::{self, Write};
use std::slice::Iter;

use junit_report::Report;
use quick_xml::events::{BytesDecl, BytesEnd, BytesStart, BytesText, Event};
use quick_xml::{Reader, Writer};

use super::content::escape;
use super::{Dialect, Extra, Rerun, Suite, Totals};

const ROOT: &str = "testsuites";

/// The document as it is written, one suite after the other.
pub(super) struct Document<W: Write> {
    out: Writer<W>,
    dialect: Dialect,
    /// How many suites it has.
    suites: usize,
}

impl<W: Write> Document<W> {
    /// Begins it with what is said of all suites together.
    pub(super) fn begin(out: W, totals: &Totals, dialect: Dialect) -> io::Result<Self> {
        let mut out = Writer::new(out);
        out.write_event(Event::Decl(BytesDecl::new("1.0", Some("utf-8"), None)))?;
        let mut root = BytesStart::new(ROOT);
        root.extend_attributes([
            ("name", "agent-batch"),
            ("tests", &totals.tests.to_string()),
            ("failures", &totals.failures.to_string()),
            ("errors", &totals.errors.to_string()),
            ("time", &format!("{:.3}", totals.time.as_seconds_f64())),
        ]);
        if dialect == Dialect::Common {
            root.push_attribute(("skipped", totals.skipped.to_string().as_str()));
        }
        out.write_event(Event::Start(root))?;
        Ok(Self {
            out,
            dialect,
            suites: 0,
        })
    }

    /// Adds a suite.
    pub(super) fn add(&mut self, suite: Suite) -> io::Result<()> {
        let skipped = suite.written.skipped();
        let mut report = Report::new();
        report.add_testsuite(suite.written);
        let mut raw = Vec::new();
        report.write_xml(&mut raw).map_err(io::Error::other)?;
        drop(report);
        let mut pass = Pass {
            id: self.suites,
            skipped,
            properties: &suite.properties,
            dialect: self.dialect,
            cases: suite.cases.iter(),
            reruns: &[],
            out: &mut self.out,
        };
        pass.run(&raw)?;
        self.suites += 1;
        Ok(())
    }

    /// Ends it.
    pub(super) fn end(mut self) -> io::Result<()> {
        self.out.write_event(Event::End(BytesEnd::new(ROOT)))?;
        self.out.get_mut().write_all(b"\n")
    }
}

/// Where the pass over a suite is.
struct Pass<'a, W> {
    /// The place of the suite in the document, from 0.
    id: usize,
    skipped: usize,
    properties: &'a [(&'static str, String)],
    dialect: Dialect,
    /// The cases that are still to come.
    cases: Iter<'a, Extra>,
    /// The earlier attempts of the case that is open.
    reruns: &'a [Rerun],
    out: &'a mut Writer<W>,
}

impl<W: Write> Pass<'_, W> {
    /// Goes over a document of one suite; its root and declaration are ours to write.
    fn run(&mut self, raw: &[u8]) -> io::Result<()> {
        let mut reader = Reader::from_reader(raw);
        loop {
            match reader.read_event().map_err(io::Error::other)? {
                Event::Eof => return Ok(()),
                Event::Decl(_) => {}
                Event::Start(start) if start.name().as_ref() == ROOT.as_bytes() => {}
                Event::End(end) if end.name().as_ref() == ROOT.as_bytes() => {}
                Event::Start(start) => self.open(&start)?,
                Event::Empty(start) => {
                    self.open(&start)?;
                    self.close(start.to_end())?;
                }
                Event::End(end) => self.close(end)?,
                Event::CData(data) => {
                    let text = data.decode().map_err(io::Error::other)?;
                    self.text(&text)?;
                }
                other => self.out.write_event(other)?,
            }
        }
    }

    /// Begins an element, with the attributes and first children that it lacks.
    fn open(&mut self, start: &BytesStart<'_>) -> io::Result<()> {
        match start.name().as_ref() {
            b"testsuite" => {
                let mut new = BytesStart::new("testsuite");
                new.push_attribute(("id", self.id.to_string().as_str()));
                for attribute in without(&plain_times(start)?, b"id")?.attributes() {
                    new.push_attribute(attribute.map_err(io::Error::other)?);
                }
                new.push_attribute(("skipped", self.skipped.to_string().as_str()));
                self.out.write_event(Event::Start(new))?;
                self.properties(self.properties)
            }
            b"testcase" => {
                let extra = self.cases.next().ok_or_else(unexpected)?;
                self.reruns = &extra.reruns;
                let mut new = plain_times(start)?;
                if self.dialect == Dialect::Strict {
                    new = without(&new, b"file")?;
                } else {
                    new.push_attribute(("line", extra.line.to_string().as_str()));
                }
                self.out.write_event(Event::Start(new))
            }
            _ => self.out.write_event(Event::Start(start.to_owned())),
        }
    }

    /// Ends an element; a case with its earlier attempts before that.
    fn close(&mut self, end: BytesEnd<'_>) -> io::Result<()> {
        if end.name().as_ref() == b"testcase" {
            for rerun in std::mem::take(&mut self.reruns) {
                let attributes = [("type", rerun.kind), ("message", &rerun.message)];
                let start = BytesStart::new(rerun.element).with_attributes(attributes);
                self.out.write_event(Event::Start(start))?;
                self.out
                    .write_event(Event::Start(BytesStart::new("stackTrace")))?;
                self.text(&rerun.trace)?;
                self.out
                    .write_event(Event::End(BytesEnd::new("stackTrace")))?;
                self.out
                    .write_event(Event::End(BytesEnd::new(rerun.element)))?;
            }
        }
        self.out.write_event(Event::End(end))
    }

    fn text(&mut self, text: &str) -> io::Result<()> {
        let text = BytesText::from_escaped(escape(text));
        self.out.write_event(Event::Text(text))
    }

    fn properties(&mut self, properties: &[(&str, String)]) -> io::Result<()> {
        self.out
            .write_event(Event::Start(BytesStart::new("properties")))?;
        for (name, value) in properties {
            let attributes = [("name", *name), ("value", value.as_str())];
            let property = BytesStart::new("property").with_attributes(attributes);
            self.out.write_event(Event::Empty(property))?;
        }
        self.out
            .write_event(Event::End(BytesEnd::new("properties")))
    }
}

/// The element with times in the form that every reader takes.
fn plain_times(start: &BytesStart<'_>) -> io::Result<BytesStart<'static>> {
    let mut new = start.to_owned();
    new.clear_attributes();
    for attribute in start.attributes() {
        let attribute = attribute.map_err(io::Error::other)?;
        let value = String::from_utf8_lossy(&attribute.value);
        let value = match attribute.key.as_ref() {
            b"time" => {
                let seconds: f64 = value.parse().map_err(io::Error::other)?;
                format!("{seconds:.3}")
            }
            // `2026-01-02T03:04:05`
            b"timestamp" => value.chars().take(19).collect(),
            _ => value.into_owned(),
        };
        // Raw: the value is escaped already.
        new.push_attribute((attribute.key.as_ref(), value.as_bytes()));
    }
    Ok(new)
}

/// The element without one of its attributes.
fn without(start: &BytesStart<'_>, name: &[u8]) -> io::Result<BytesStart<'static>> {
    let mut new = start.to_owned();
    new.clear_attributes();
    for attribute in start.attributes() {
        let attribute = attribute.map_err(io::Error::other)?;
        if attribute.key.as_ref() != name {
            new.push_attribute(attribute);
        }
    }
    Ok(new)
}

fn unexpected() -> io::Error {
    io::Error::other("the JUnit document has more elements than the report")
}
