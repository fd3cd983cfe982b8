//! Goes once over what junit-report wrote, and adds what it cannot write but readers trust: totals on `testsuites`,
//! `skipped` on `testsuite`, properties, `line` on `testcase`, earlier attempts. Times get three decimals, timestamps lose
//! fraction and zone (they are UTC), and CDATA sections become escaped text, of which no reader joins the pieces wrongly.

use std::io;
use std::slice::Iter;

use junit_report::TestSuite;
use quick_xml::events::{BytesEnd, BytesStart, BytesText, Event};
use quick_xml::{Reader, Writer};

use super::content::escape;
use super::{Dialect, Extra, Rerun, Suite};

/// The finished document.
pub(super) fn complete(raw: &[u8], suites: &[Suite], dialect: Dialect) -> io::Result<String> {
    let mut reader = Reader::from_reader(raw);
    let mut pass = Pass {
        suites,
        dialect,
        next: suites.iter(),
        cases: [].iter(),
        reruns: &[],
        out: Writer::new(Vec::with_capacity(raw.len() + 1024)),
    };
    loop {
        match reader.read_event().map_err(io::Error::other)? {
            Event::Eof => break,
            Event::Start(start) => pass.open(&start)?,
            Event::Empty(start) => {
                pass.open(&start)?;
                pass.close(start.to_end())?;
            }
            Event::End(end) => pass.close(end)?,
            Event::CData(data) => {
                let text = data.decode().map_err(io::Error::other)?;
                pass.text(&text)?;
            }
            other => pass.out.write_event(other)?,
        }
    }
    let mut bytes = pass.out.into_inner();
    bytes.push(b'\n');
    String::from_utf8(bytes).map_err(io::Error::other)
}

/// Where the pass over the document is.
struct Pass<'a> {
    suites: &'a [Suite],
    dialect: Dialect,
    /// The suites that are still to come.
    next: Iter<'a, Suite>,
    /// The cases of the suite that are still to come.
    cases: Iter<'a, Extra>,
    /// The earlier attempts of the case that is open.
    reruns: &'a [Rerun],
    out: Writer<Vec<u8>>,
}

impl Pass<'_> {
    /// Begins an element, with the attributes and first children that it lacks.
    fn open(&mut self, start: &BytesStart<'_>) -> io::Result<()> {
        match start.name().as_ref() {
            b"testsuites" => {
                let root = self.totals(start);
                self.out.write_event(Event::Start(root))
            }
            b"testsuite" => {
                let suite = self.next.next().ok_or_else(unexpected)?;
                self.cases = suite.cases.iter();
                let mut new = plain_times(start)?;
                new.push_attribute(("skipped", suite.written.skipped().to_string().as_str()));
                self.out.write_event(Event::Start(new))?;
                self.properties(&suite.properties)
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

    fn totals(&self, start: &BytesStart<'_>) -> BytesStart<'static> {
        let sum = |count: fn(&TestSuite) -> usize| {
            let total: usize = self.suites.iter().map(|suite| count(&suite.written)).sum();
            total.to_string()
        };
        let times = self.suites.iter().map(|suite| suite.written.time());
        let time = times.sum::<junit_report::Duration>().as_seconds_f64();
        let mut new = start.to_owned();
        new.extend_attributes([
            ("name", "agent-batch"),
            ("tests", &sum(TestSuite::tests)),
            ("failures", &sum(TestSuite::failures)),
            ("errors", &sum(TestSuite::errors)),
            ("time", &format!("{time:.3}")),
        ]);
        if self.dialect == Dialect::Common {
            new.push_attribute(("skipped", sum(TestSuite::skipped).as_str()));
        }
        new
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
