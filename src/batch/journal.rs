//! What happens to the batch as a whole, in a transcript of its own: `batch.jsonl`, made when there is something to say.

use std::io;
use std::sync::{Mutex, PoisonError};

use super::Batch;
use crate::event::{Emitter, Kind};
use crate::report::{run_dir, transcript};

/// The batch's own transcript.
#[derive(Default)]
pub struct Journal(Mutex<Option<Emitter>>);

impl Batch {
    /// Writes an event of the batch. One that cannot be written is logged: the tasks have transcripts of their own.
    pub fn tell(&self, kind: Kind) {
        let mut journal = self
            .journal
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let told = match &*journal {
            Some(emitter) => emitter.emit(kind),
            None => self.open_journal().and_then(|emitter| {
                let told = emitter.emit(kind);
                *journal = Some(emitter);
                told
            }),
        };
        if let Err(error) = told {
            tracing::error!(%error, "an event of the batch could not be stored");
        }
    }

    fn open_journal(&self) -> io::Result<Emitter> {
        let store = transcript::Writer::create(&self.out.join(run_dir::BATCH))?;
        Ok(Emitter::new(
            "",
            0,
            self.clock,
            self.redactor.clone(),
            Box::new(store),
            self.watchers.clone(),
        ))
    }

    /// Removes the journal of an earlier run that this one goes on with: what was not run then is run now.
    pub(super) fn forget_journal(&self) {
        let path = self.out.join(run_dir::BATCH);
        if let Err(error) = std::fs::remove_file(path)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(%error, "the journal of an earlier run could not be removed");
        }
    }
}
