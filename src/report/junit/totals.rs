//! Goes once over what junit-report wrote, and adds what it cannot write but readers trust: totals on `testsuites`,
//! `skipped` on `testsuite`, `line` on `testcase`. Times get three decimals, timestamps lose fraction and zone (they are UTC).

use std::io;

use junit_report::TestSuite;
use quick_xml::events::{BytesStart, Event};
use quick_xml::{Reader, Writer};

use super::Suite;

/// The finished document.
pub(super) fn add(raw: &[u8], suites: &[Suite]) -> io::Result<String> {
    let mut reader = Reader::from_reader(raw);
    let mut writer = Writer::new(Vec::with_capacity(raw.len() + 256));
    let mut pass = Pass {
        suites,
        next_suite: 0,
        lines: &[],
    };
    loop {
        let event = match reader.read_event().map_err(io::Error::other)? {
            Event::Eof => break,
            Event::Start(start) => Event::Start(pass.rewrite(&start)?),
            Event::Empty(start) => Event::Empty(pass.rewrite(&start)?),
            other => other,
        };
        writer.write_event(event)?;
    }
    let mut bytes = writer.into_inner();
    bytes.push(b'\n');
    String::from_utf8(bytes).map_err(io::Error::other)
}

/// Where the pass over the document is.
struct Pass<'a> {
    suites: &'a [Suite],
    next_suite: usize,
    /// The lines of the cases that are still to come in the suite.
    lines: &'a [u32],
}

impl Pass<'_> {
    fn rewrite(&mut self, start: &BytesStart<'_>) -> io::Result<BytesStart<'static>> {
        let mut new = start.to_owned();
        match start.name().as_ref() {
            b"testsuites" => {
                let sum = |count: fn(&TestSuite) -> usize| {
                    let total: usize = self.suites.iter().map(|suite| count(&suite.suite)).sum();
                    total.to_string()
                };
                let times = self.suites.iter().map(|suite| suite.suite.time());
                let time = times.sum::<junit_report::Duration>().as_seconds_f64();
                new.extend_attributes([
                    ("name", "agent-batch"),
                    ("tests", &sum(TestSuite::tests)),
                    ("failures", &sum(TestSuite::failures)),
                    ("errors", &sum(TestSuite::errors)),
                    ("skipped", &sum(TestSuite::skipped)),
                    ("time", &format!("{time:.3}")),
                ]);
            }
            b"testsuite" => {
                let suite = self.suites.get(self.next_suite).ok_or_else(unexpected)?;
                self.next_suite += 1;
                self.lines = &suite.lines;
                plain_times(start, &mut new)?;
                new.push_attribute(("skipped", suite.suite.skipped().to_string().as_str()));
            }
            b"testcase" => {
                let (line, rest) = self.lines.split_first().ok_or_else(unexpected)?;
                self.lines = rest;
                plain_times(start, &mut new)?;
                new.push_attribute(("line", line.to_string().as_str()));
            }
            _ => {}
        }
        Ok(new)
    }
}

/// Copies the attributes, with times in the form that every reader takes.
fn plain_times(start: &BytesStart<'_>, new: &mut BytesStart<'_>) -> io::Result<()> {
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
    Ok(())
}

fn unexpected() -> io::Error {
    io::Error::other("the JUnit document has more elements than the report")
}
