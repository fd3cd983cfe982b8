//! The seal of a run directory: `summary.json` keeps the hash that ends the chain of each finished attempt's transcript.
//!
//! A chain has no key, so a transcript that somebody writes anew as a whole has a whole chain, and ends in another hash. Whoever can
//! rewrite the transcript and `summary.json` is found by neither; then only what was told of `summary.json` elsewhere helps, an
//! attestation for example.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use serde::Deserialize;

use super::summary::Summary;
use super::{files, run_dir, transcript};
use crate::file;
use crate::outcome::Outcome;
use crate::text;

/// The largest `summary.json` that is read, in bytes.
const LARGEST: u64 = 256 * 1024 * 1024;
/// How many transcripts are told.
const TOLD: usize = 100;

/// What is read of a `summary.json`.
#[derive(Deserialize)]
struct Document {
    #[serde(default)]
    chains: BTreeMap<String, String>,
}

/// Notes in the summary how the transcripts of its finished attempts end, and as damage what is not as the `summary.json`
/// says that lies there from before. That one's word stays: a report that is made again finds the same.
pub fn seal(summary: &mut Summary, directory: &Path) {
    let (chains, replaced) = compare(summary, directory, true);
    summary.chains = chains;
    summary.damages.extend(replaced);
}

/// What is not as the directory's `summary.json` says, one sentence each; without what has no end and so counts for nothing.
#[must_use]
pub fn replaced(summary: &Summary, directory: &Path) -> Vec<String> {
    compare(summary, directory, false).1
}

type Chains = BTreeMap<String, String>;

fn compare(summary: &Summary, directory: &Path, with_endless: bool) -> (Chains, Vec<String>) {
    let mut told = Vec::new();
    let recorded = recorded(directory).unwrap_or_else(|why| {
        told.push(format!(
            "`{}` cannot be read, so nobody knows whether a transcript was replaced: {why}",
            files::JSON
        ));
        Chains::new()
    });
    let mut chains = Chains::new();
    let attempts = summary.tasks.iter().flat_map(|task| {
        let earlier = task.earlier.iter().cloned();
        earlier.chain(task.last_attempt())
    });
    for attempt in attempts {
        let path = attempt.transcript;
        let found = transcript::last_chain(&directory.join(&path));
        match recorded.get(&path) {
            Some(expected) => {
                let counts = with_endless || attempt.outcome != Outcome::Unfinished;
                if counts && found.as_ref() != Some(expected) {
                    told.push(format!(
                        "`{path}` is not the transcript of which `{}` tells: it was replaced",
                        files::JSON
                    ));
                }
                chains.insert(path, expected.clone());
            }
            // One that is still written ends in another way each time.
            None if attempt.outcome == Outcome::Unfinished => {}
            None => chains.extend(found.map(|found| (path, found))),
        }
    }
    let gone: Chains = recorded
        .into_iter()
        .filter(|(path, _)| !chains.contains_key(path))
        .collect();
    told.extend(gone.keys().map(|path| {
        let shown = text::one_line(path, 300);
        format!(
            "`{shown}` is gone, a transcript of which `{}` tells",
            files::JSON
        )
    }));
    chains.extend(gone);
    told.truncate(TOLD);
    (chains, told)
}

/// What the `summary.json` of a directory says; nothing where there is none.
fn recorded(directory: &Path) -> io::Result<Chains> {
    let path = directory.join(files::JSON);
    let read = run_dir::regular(&path).and_then(|()| file::read(&path, LARGEST));
    let text = match read {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Chains::new()),
        Err(error) => return Err(error),
    };
    let document: Document = serde_json::from_slice(&text)?;
    Ok(document.chains)
}
