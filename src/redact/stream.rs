//! Redaction of what arrives in pieces: a command's output, a streamed answer.
//!
//! A secret may be split over pieces, so the last bytes are held back until it is certain that no secret
//! begins in them. What comes out, put together, is what redacting the whole at once would have given.

use super::{MARK, Matcher};

/// Takes pieces, gives what is certain. From [`Redactor::stream`](super::Redactor::stream).
#[derive(Clone)]
pub struct RedactStream {
    matcher: Matcher,
    held: Vec<u8>,
}

impl std::fmt::Debug for RedactStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RedactStream(***)")
    }
}

impl RedactStream {
    pub(super) fn new(matcher: Matcher) -> Self {
        Self {
            matcher,
            held: Vec::new(),
        }
    }

    /// Takes a piece and returns what can no longer become part of a secret. Holds back less than the longest form.
    pub fn push(&mut self, piece: &[u8]) -> Vec<u8> {
        match &self.matcher {
            Matcher::Nothing => piece.to_vec(),
            Matcher::Everything => {
                // One mark is enough for all of it; `finish` gives it.
                self.held.extend(piece.first());
                self.held.truncate(1);
                Vec::new()
            }
            Matcher::Forms { longest, .. } => {
                self.held.extend_from_slice(piece);
                // A match that begins before this point ends within what is held.
                let certain = (self.held.len() + 1).saturating_sub(*longest);
                self.take(certain)
            }
        }
    }

    /// What is left when no piece follows.
    #[must_use]
    pub fn finish(mut self) -> Vec<u8> {
        match &self.matcher {
            Matcher::Nothing => Vec::new(),
            Matcher::Everything if self.held.is_empty() => Vec::new(),
            Matcher::Everything => MARK.as_bytes().to_vec(),
            Matcher::Forms { .. } => self.take(self.held.len()),
        }
    }

    /// Redacts all matches that begin before `certain`, and gives everything up to there or to their end.
    fn take(&mut self, certain: usize) -> Vec<u8> {
        let Matcher::Forms { automaton, .. } = &self.matcher else {
            return Vec::new();
        };
        if certain == 0 {
            return Vec::new();
        }
        let mut out = Vec::with_capacity(certain);
        let mut done = 0;
        for found in automaton.find_iter(&self.held) {
            if found.start() >= certain {
                break;
            }
            out.extend_from_slice(&self.held[done..found.start()]);
            out.extend_from_slice(MARK.as_bytes());
            done = found.end();
        }
        if done < certain {
            out.extend_from_slice(&self.held[done..certain]);
            done = certain;
        }
        self.held.drain(..done);
        out
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::redact::{Redactor, Secret};

    #[test]
    fn little_is_held_back_and_the_end_comes_out() {
        let redactor = Redactor::new(&[Secret::new("abcdefgh".into())]);
        let mut stream = redactor.stream();
        let first = stream.push(&[b'x'; 1000]);
        assert!(first.len() > 900, "{}", first.len());
        assert_eq!(first.len() + stream.finish().len(), 1000);
    }

    proptest! {
        #[test]
        fn a_secret_split_over_pieces_never_gets_out(
            text in "(a|b|aabbaabb|abababab|aabbaabbabab|YWFiYmFhYmI|\u{fc}){0,30}",
            cuts in proptest::collection::vec(1_usize..9, 0..40),
        ) {
            let secrets = ["aabbaabb", "abababab", "aabbaabbabab"].map(|v| Secret::new(v.into()));
            let redactor = Redactor::new(&secrets);
            let mut stream = redactor.stream();
            let mut out = Vec::new();
            let mut rest = text.as_bytes();
            for cut in cuts {
                let (piece, behind) = rest.split_at(cut.min(rest.len()));
                out.extend(stream.push(piece));
                for secret in &secrets {
                    prop_assert!(!String::from_utf8_lossy(&out).contains(secret.expose()));
                }
                rest = behind;
            }
            out.extend(stream.push(rest));
            out.extend(stream.finish());
            prop_assert_eq!(String::from_utf8(out).unwrap(), redactor.redact(&text));
        }
    }
}
