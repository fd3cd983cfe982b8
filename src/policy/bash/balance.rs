//! Whether the compound commands of a line are closed, for lines that are not analysed.
//!
//! A rule for the whole of Bash opens control flow, which `parse` does not read. Input that no shell would accept is
//! refused all the same, so what is opened has to be closed: `if` by `fi`, loops by `done`, `case` by `esac`. Only the
//! pairs are looked at, the grammar between them is bash's affair.

use super::lexer::{Lexed, Refusal, Token};
use super::words::Word;

/// What is open.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Open {
    If,
    Loop,
    Case,
    Brace,
    Parenthesis,
    Test,
}

impl Open {
    fn name(self) -> &'static str {
        match self {
            Self::If => "if",
            Self::Loop => "loop",
            Self::Case => "case",
            Self::Brace => "{",
            Self::Parenthesis => "(",
            Self::Test => "[[",
        }
    }
}

/// What the next word is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// A command could start here.
    Command,
    /// An argument.
    Argument,
    /// A name behind `for`, `select`, `function` or `case`.
    Name,
    /// A pattern of `case`.
    Pattern,
    /// Elements of an array.
    Array,
}

/// Refuses a line with a compound command that is not closed, or closed without being open.
pub(super) fn check(lexed: &Lexed) -> Result<(), Refusal> {
    let mut open: Vec<Open> = Vec::new();
    let mut place = Place::Command;
    let mut operand = false;
    for (at, token) in lexed.tokens.iter().enumerate() {
        let in_test = open.last() == Some(&Open::Test);
        place = match token {
            Token::Redirection(_) => {
                operand = true;
                place
            }
            Token::Word(_) if std::mem::take(&mut operand) && !in_test => place,
            Token::Word(word) if in_test => {
                if word.plain() == Some("]]") {
                    open.pop();
                }
                Place::Argument
            }
            Token::Operator(_) if in_test => place,
            Token::Word(word) => behind(word, place, &mut open)?,
            Token::Operator("(" | "|") if place == Place::Pattern => place,
            Token::Operator("(") => {
                open.push(Open::Parenthesis);
                match at
                    .checked_sub(1)
                    .and_then(|before| lexed.tokens.get(before))
                {
                    Some(Token::Word(word)) if word.text.ends_with('=') => Place::Array,
                    _ => Place::Command,
                }
            }
            Token::Operator(")") => match open.last() {
                Some(Open::Case) => Place::Command,
                Some(Open::Parenthesis) => {
                    open.pop();
                    Place::Command
                }
                _ => return refuse("a syntax error at `)`"),
            },
            Token::Operator("\n") if matches!(place, Place::Pattern | Place::Array) => place,
            Token::Operator(";;" | ";&" | ";;&") if open.last() == Some(&Open::Case) => {
                Place::Pattern
            }
            Token::Operator(_) => Place::Command,
        };
    }
    match open.last() {
        Some(open) => refuse(format!("an unterminated `{}`", open.name())),
        None => Ok(()),
    }
}

/// Opens and closes; returns what stands behind a word.
fn behind(word: &Word, place: Place, open: &mut Vec<Open>) -> Result<Place, Refusal> {
    let text = word.plain().unwrap_or_default();
    let mut close = |what: Open| {
        if open.last() == Some(&what) {
            open.pop();
            Ok(Place::Command)
        } else {
            refuse(format!("a syntax error at `{text}`"))
        }
    };
    Ok(match (place, text) {
        (Place::Command, "fi") => close(Open::If)?,
        (Place::Command, "done") => close(Open::Loop)?,
        (Place::Command | Place::Pattern, "esac") => close(Open::Case)?,
        (Place::Command, "}") => close(Open::Brace)?,
        (Place::Command, "if" | "while" | "until" | "{" | "[[" | "for" | "select" | "case") => {
            open.push(match text {
                "if" => Open::If,
                "{" => Open::Brace,
                "[[" => Open::Test,
                "case" => Open::Case,
                _ => Open::Loop,
            });
            match text {
                "for" | "select" | "case" => Place::Name,
                "[[" => Place::Argument,
                _ => Place::Command,
            }
        }
        (Place::Command, "function" | "coproc") => Place::Name,
        (Place::Command, "then" | "elif" | "else" | "do" | "!" | "time") => Place::Command,
        // `case WORD in`, `for NAME in WORDS`, `for NAME do`, `function NAME {`.
        (Place::Name, "in") if open.last() == Some(&Open::Case) => Place::Pattern,
        (Place::Name, "in") => Place::Argument,
        (Place::Name, "do" | "{") => return behind(word, Place::Command, open),
        (Place::Name | Place::Pattern | Place::Array, _) => place,
        // An assignment stands before a command.
        (Place::Command, _) if word.name_before("=").is_some() => Place::Command,
        (Place::Command | Place::Argument, _) => Place::Argument,
    })
}

fn refuse<T>(construct: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal {
        construct: construct.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::lexer::lex;
    use super::*;

    #[test]
    fn what_is_closed_passes() {
        for line in [
            "if a; then b; elif c; then d; else e; fi",
            "for i in a b; do c; done > x",
            "for ((i = 0; i < 3; i++)); do a; done",
            "while a; do if b; then c; fi; done | d",
            "case $x in a|b) c;; (d) e ;& *) f;; esac",
            "case a in if) b;; esac",
            "case a in\n a)\n b\n ;;\nesac",
            "f() { a; }; function g { b; }; f",
            "function if_any() { a; }",
            "x=(if then) a",
            "x=1; y=2 a",
            "[[ a == b && ( c ) ]] && d",
            "[[ $x =~ ^a+$ ]]",
            "{ a; { b; }; }",
            "(a; (b))",
            "echo if fi done } esac",
            "if { a; }; then (b) fi",
            "select x in a; do b; done",
            "coproc a { b; }",
            "for i do a; done",
            "a > fi",
            "until a\ndo\nb\ndone",
            "a & b &",
            "time if a; then b; fi",
            "! { a; }",
        ] {
            assert_eq!(check(&lex(line).unwrap()), Ok(()), "{line}");
        }
    }

    #[test]
    fn what_is_open_or_closed_twice_is_refused() {
        for line in [
            "if a; then b",
            "for i in a; do b",
            "while a; do b; done; done",
            "case a in b) c;;",
            "fi",
            "a; done",
            "f() { a",
            "[[ a",
            "if a; then b; done",
            "{ if a; then b; }",
            "(if a; then b)",
            "esac",
        ] {
            assert!(check(&lex(line).unwrap()).is_err(), "{line}");
        }
    }
}
