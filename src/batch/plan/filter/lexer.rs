//! A filter's text as words and signs, each with its place.

use std::ops::Range;

/// A word or a sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Token<'a> {
    And,
    Or,
    Not,
    Open,
    Close,
    /// A word before an opening parenthesis, or alone.
    Word(&'a str),
    /// Anything else.
    Stray(char),
    End,
}

/// The rest of a text.
#[derive(Debug, Clone)]
pub(super) struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    /// The next token, which is passed by.
    pub(super) fn next(&mut self) -> (Token<'a>, Range<usize>) {
        let rest = &self.text[self.at..];
        let blank = rest.len() - rest.trim_start().len();
        let start = self.at + blank;
        let rest = &self.text[start..];
        let (token, length) = token(rest);
        self.at = start + length;
        (token, start..self.at)
    }

    /// How far the text was read, in bytes.
    pub(super) fn position(&self) -> usize {
        self.at
    }

    /// The next token, which stays.
    pub(super) fn peek(&self) -> (Token<'a>, Range<usize>) {
        self.clone().next()
    }

    /// What stands between a parenthesis that was just opened and the one that closes it, without blanks around it, with
    /// its place. Quotes may stand around it; in quotes, parentheses are text. `None` when nothing closes it.
    pub(super) fn argument(&mut self) -> Option<(&'a str, Range<usize>)> {
        let rest = &self.text[self.at..];
        let blank = rest.len() - rest.trim_start().len();
        let start = self.at + blank;
        let rest = &self.text[start..];
        if let Some(quote) = rest.chars().next().filter(|c| matches!(c, '"' | '\'')) {
            let inside = &rest[1..];
            let end = inside.find(quote)?;
            let behind = inside[end + 1..].trim_start();
            let close = self.text.len() - behind.len();
            self.at = close + behind.strip_prefix(')').map(|_| 1)?;
            return Some((&inside[..end], start + 1..start + 1 + end));
        }
        let mut depth = 0_usize;
        for (place, c) in rest.char_indices() {
            match c {
                '(' => depth += 1,
                ')' if depth == 0 => {
                    let inside = rest[..place].trim_end();
                    self.at = start + place + 1;
                    return Some((inside, start..start + inside.len()));
                }
                ')' => depth -= 1,
                _ => {}
            }
        }
        None
    }
}

fn token(rest: &str) -> (Token<'_>, usize) {
    let Some(first) = rest.chars().next() else {
        return (Token::End, 0);
    };
    let doubled = |sign: &str| if rest.starts_with(sign) { 2 } else { 1 };
    match first {
        '&' => (Token::And, doubled("&&")),
        '|' => (Token::Or, doubled("||")),
        '!' => (Token::Not, 1),
        '(' => (Token::Open, 1),
        ')' => (Token::Close, 1),
        c if c.is_ascii_alphabetic() => {
            let end = rest
                .find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '-')
                .unwrap_or(rest.len());
            let word = &rest[..end];
            let token = match word {
                "and" => Token::And,
                "or" => Token::Or,
                "not" => Token::Not,
                _ => Token::Word(word),
            };
            (token, end)
        }
        c => (Token::Stray(c), c.len_utf8()),
    }
}
