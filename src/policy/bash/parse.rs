//! Tokens to a tree of lists, pipelines, groups and simple commands.
//!
//! Recursive descent over the accepted subset; the depth of groups is bounded, so the stack is too. Constructs that
//! bash has and the gate does not analyse are reported by name, as [`Trouble::Soft`]; what bash would call a syntax
//! error is [`Trouble::Hard`].

use super::lexer::{Lexed, Redirection, Refusal, Token};
use super::words::Word;

/// Most simple commands on a line.
pub(in super::super) const MAX_COMMANDS: usize = 64;
/// Deepest nesting of groups.
pub(in super::super) const MAX_DEPTH: usize = 8;

/// Words that have a meaning of their own where a command could start.
const RESERVED: [&str; 21] = [
    "if", "then", "elif", "else", "fi", "for", "while", "until", "do", "done", "case", "esac",
    "select", "function", "coproc", "[[", "]]", "time", "!", "{", "}",
];

/// Why there is no tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Trouble {
    /// A syntax error.
    Hard(Refusal),
    /// A construct that is not analysed.
    Soft(Refusal),
    /// Too much of something: never run, whatever else the line holds.
    Limit(Refusal),
}

/// A simple command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in super::super) struct Simple {
    pub(in super::super) assignments: Vec<Word>,
    pub(in super::super) words: Vec<Word>,
    pub(super) redirects: Vec<Redirect>,
}

/// A redirection with its operand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct Redirect {
    pub(in super::super) fd: Option<String>,
    pub(in super::super) operator: &'static str,
    pub(in super::super) operand: Word,
    pub(in super::super) body: Option<usize>,
}

#[derive(Debug)]
pub(super) enum Node {
    Simple(Simple),
    Group {
        list: List,
        subshell: bool,
        redirects: Vec<Redirect>,
    },
}

#[derive(Debug)]
pub(super) struct Pipeline {
    pub(super) negated: bool,
    pub(super) parts: Vec<Node>,
}

/// Pipelines joined by `&&` (true) and `||` (false).
#[derive(Debug)]
pub(super) struct AndOr {
    pub(super) first: Pipeline,
    pub(super) rest: Vec<(bool, Pipeline)>,
}

pub(super) type List = Vec<AndOr>;

/// Parses a whole line.
pub(super) fn parse(lexed: &Lexed) -> Result<List, Trouble> {
    let mut parser = Parser {
        tokens: &lexed.tokens,
        at: 0,
        commands: 0,
    };
    let list = parser.list(End::Input, 0)?;
    Ok(list)
}

/// The commands of a line that has no tree, roughly: cut at every operator, reserved words dropped.
/// Only good for looking for words that must not occur.
pub(super) fn scraps(lexed: &Lexed) -> Vec<Simple> {
    let mut scraps = vec![Simple::default()];
    let mut operand_of: Option<&Redirection> = None;
    for token in &lexed.tokens {
        let Some(current) = scraps.last_mut() else {
            break;
        };
        match token {
            Token::Operator(_) => scraps.push(Simple::default()),
            Token::Redirection(redirection) => operand_of = Some(redirection),
            Token::Word(word) => {
                if let Some(redirection) = operand_of.take() {
                    current.redirects.push(redirect(redirection, word.clone()));
                } else if current.words.is_empty() && is_assignment(word) {
                    current.assignments.push(word.clone());
                } else if !(current.words.is_empty() && word.plain().is_some_and(is_reserved)) {
                    current.words.push(word.clone());
                }
            }
        }
    }
    scraps.retain(|simple| *simple != Simple::default());
    scraps
}

pub(super) fn is_reserved(text: &str) -> bool {
    RESERVED.contains(&text)
}

fn is_assignment(word: &Word) -> bool {
    ["=", "+=", "["]
        .iter()
        .any(|end| word.name_before(end).is_some())
}

fn redirect(redirection: &Redirection, operand: Word) -> Redirect {
    Redirect {
        fd: redirection.fd.clone(),
        operator: redirection.operator,
        operand,
        body: redirection.body,
    }
}

fn hard<T>(what: impl Into<String>) -> Result<T, Trouble> {
    Err(Trouble::Hard(Refusal {
        construct: what.into(),
    }))
}

fn soft<T>(what: impl Into<String>) -> Result<T, Trouble> {
    Err(Trouble::Soft(Refusal {
        construct: what.into(),
    }))
}

/// What a reserved word begins, named as people call it.
fn construct_of(word: &str) -> String {
    match word {
        "if" | "for" | "while" | "until" | "case" | "select" => format!("control flow (`{word}`)"),
        _ => format!("the reserved word `{word}`"),
    }
}

fn limit<T>(what: impl Into<String>) -> Result<T, Trouble> {
    Err(Trouble::Limit(Refusal {
        construct: what.into(),
    }))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Input,
    Parenthesis,
    Brace,
}

struct Parser<'a> {
    tokens: &'a [Token],
    at: usize,
    commands: usize,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<&'a Token> {
        self.tokens.get(self.at)
    }

    fn operator(&self) -> Option<&'static str> {
        match self.peek() {
            Some(Token::Operator(operator)) => Some(operator),
            _ => None,
        }
    }

    fn plain(&self) -> Option<&'a str> {
        match self.peek() {
            Some(Token::Word(word)) => word.plain(),
            _ => None,
        }
    }

    fn newlines(&mut self) {
        while self.operator() == Some("\n") {
            self.at += 1;
        }
    }

    fn at_end(&self, end: End) -> bool {
        match end {
            End::Input => self.peek().is_none(),
            End::Parenthesis => self.operator() == Some(")"),
            End::Brace => self.plain() == Some("}"),
        }
    }

    fn list(&mut self, end: End, depth: usize) -> Result<List, Trouble> {
        if depth > MAX_DEPTH {
            return limit(format!("groups nested deeper than {MAX_DEPTH}"));
        }
        let mut list = Vec::new();
        self.newlines();
        while !self.at_end(end) {
            if self.peek().is_none() {
                return hard("an unterminated group");
            }
            list.push(self.and_or(depth)?);
            match self.operator() {
                Some(";" | "\n") => {
                    self.at += 1;
                    self.newlines();
                }
                Some("&") => return soft("a background job `&`"),
                // `}` is a word: it closes a group behind `;`, a newline or another group only.
                _ if self.at_end(end) && end != End::Brace => {}
                Some(operator) => return hard(format!("a syntax error at `{operator}`")),
                None if self.peek().is_none() && end == End::Input => {}
                None if self.peek().is_none() => return hard("an unterminated group"),
                None => return hard("a syntax error behind a group"),
            }
        }
        if list.is_empty() {
            return hard("an empty command");
        }
        Ok(list)
    }

    fn and_or(&mut self, depth: usize) -> Result<AndOr, Trouble> {
        let first = self.pipeline(depth)?;
        let mut rest = Vec::new();
        while let Some(operator @ ("&&" | "||")) = self.operator() {
            self.at += 1;
            self.newlines();
            rest.push((operator == "&&", self.pipeline(depth)?));
        }
        Ok(AndOr { first, rest })
    }

    fn pipeline(&mut self, depth: usize) -> Result<Pipeline, Trouble> {
        let mut negated = false;
        let mut timed = false;
        loop {
            match self.plain() {
                Some("!") if !negated && !timed => negated = true,
                Some("time") if !timed => {
                    timed = true;
                    if let Some(Token::Word(next)) = self.tokens.get(self.at + 1) {
                        match next.plain() {
                            Some("-p") => self.at += 1,
                            _ if next.text.starts_with('-') => {
                                return soft("options of `time` other than `-p`");
                            }
                            _ => {}
                        }
                    }
                }
                Some(word @ ("!" | "time")) => return soft(format!("another `{word}`")),
                _ => break,
            }
            self.at += 1;
        }
        let mut parts = vec![self.command(depth)?];
        while let Some("|" | "|&") = self.operator() {
            self.at += 1;
            self.newlines();
            parts.push(self.command(depth)?);
        }
        Ok(Pipeline { negated, parts })
    }

    fn command(&mut self, depth: usize) -> Result<Node, Trouble> {
        match (self.operator(), self.plain()) {
            (Some("("), _) => self.group(End::Parenthesis, depth),
            (_, Some("{")) => self.group(End::Brace, depth),
            (None, None) if self.peek().is_none() => {
                hard("a syntax error at the end: a command is missing")
            }
            (Some(operator), _) => hard(format!(
                "a syntax error at `{}`",
                if operator == "\n" {
                    "newline"
                } else {
                    operator
                }
            )),
            (_, Some("}")) => hard("a syntax error at `}`"),
            (_, Some(word)) if is_reserved(word) => soft(construct_of(word)),
            _ => self.simple(),
        }
    }

    fn group(&mut self, end: End, depth: usize) -> Result<Node, Trouble> {
        self.at += 1;
        let list = self.list(end, depth + 1)?;
        self.at += 1;
        let mut redirects = Vec::new();
        while let Some(Token::Redirection(redirection)) = self.peek() {
            redirects.push(self.redirect(redirection)?);
        }
        if matches!(self.peek(), Some(Token::Word(word)) if word.plain() != Some("}")) {
            return hard("a word behind a group");
        }
        if self.plain() == Some("}") {
            // `{ (a) }` is one of bash's looser corners: write `{ (a); }`.
            return soft("`}` right behind a group");
        }
        Ok(Node::Group {
            list,
            subshell: end == End::Parenthesis,
            redirects,
        })
    }

    fn redirect(&mut self, redirection: &Redirection) -> Result<Redirect, Trouble> {
        self.at += 1;
        let Some(Token::Word(word)) = self.peek() else {
            return hard(format!(
                "a redirection `{}` without a target",
                redirection.operator
            ));
        };
        self.at += 1;
        Ok(redirect(redirection, word.clone()))
    }

    fn simple(&mut self) -> Result<Node, Trouble> {
        self.commands += 1;
        if self.commands > MAX_COMMANDS {
            return limit(format!("more than {MAX_COMMANDS} commands"));
        }
        let mut simple = Simple::default();
        loop {
            match self.peek() {
                Some(Token::Word(word)) => {
                    if simple.words.is_empty() && is_assignment(word) {
                        if word.name_before("=").is_none() {
                            return soft("an array or `+=` assignment");
                        }
                        simple.assignments.push(word.clone());
                    } else if simple.words.is_empty() && word.plain().is_some_and(is_reserved) {
                        return soft(construct_of(&word.text));
                    } else {
                        simple.words.push(word.clone());
                    }
                    self.at += 1;
                }
                Some(Token::Redirection(redirection)) => {
                    let redirect = self.redirect(redirection)?;
                    simple.redirects.push(redirect);
                }
                Some(Token::Operator("(")) => {
                    let closes = self.tokens.get(self.at + 1) == Some(&Token::Operator(")"));
                    return if simple.words.len() == 1 && closes {
                        soft("a function definition")
                    } else if simple.words.is_empty() && !simple.assignments.is_empty() {
                        soft("an array or `+=` assignment")
                    } else {
                        hard("a syntax error at `(`")
                    };
                }
                _ => break,
            }
        }
        if simple.words.is_empty() {
            return soft(if simple.assignments.is_empty() {
                "a redirection without a command"
            } else {
                "an assignment without a command"
            });
        }
        Ok(Node::Simple(simple))
    }
}

#[cfg(test)]
mod tests {
    use super::super::lexer::lex;
    use super::*;

    fn trouble(line: &str) -> String {
        match parse(&lex(line).unwrap()).unwrap_err() {
            Trouble::Hard(refusal) => format!("hard: {}", refusal.construct),
            Trouble::Soft(refusal) => format!("soft: {}", refusal.construct),
            Trouble::Limit(refusal) => format!("limit: {}", refusal.construct),
        }
    }

    #[test]
    fn the_accepted_grammar_is_accepted() {
        for line in [
            "a && b || c; d | e |& f\ng",
            "! a | b",
            "time -p a",
            "( a; b )",
            "{ a; b; } > x",
            "( ( a ) )",
            "a &&\n\n b;",
            "A=1 B=2 c > d 2>&1",
            "echo a } b",
        ] {
            assert!(parse(&lex(line).unwrap()).is_ok(), "{line}");
        }
    }

    #[test]
    fn what_bash_rejects_is_hard() {
        for line in [
            "", ";", "a ;; b", "&& a", "a &&", "(a", "a)", "{ a", "( )", "a | | b", "echo (a)",
            "a >", "(a) b",
        ] {
            assert!(
                trouble(line).starts_with("hard"),
                "{line}: {}",
                trouble(line)
            );
        }
    }

    #[test]
    fn what_is_not_analysed_is_named() {
        assert_eq!(trouble("if a; then b; fi"), "soft: control flow (`if`)");
        assert_eq!(trouble("a & b"), "soft: a background job `&`");
        assert_eq!(trouble("f() { a; }"), "soft: a function definition");
        assert_eq!(trouble("x=(1 2)"), "soft: an array or `+=` assignment");
        assert_eq!(trouble("X=1"), "soft: an assignment without a command");
    }

    #[test]
    fn thousands_of_openers_do_not_overflow_the_stack() {
        assert!(trouble(&"( ".repeat(8000)).contains("deeper than 8"));
        assert!(trouble(&"{ ".repeat(8000)).contains("deeper than 8"));
    }
}
