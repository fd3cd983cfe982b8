//! From a filter's text to its tree, by recursive descent: `or` binds loosest, then `and`, then `not`.

use std::ops::Range;

use globset::GlobBuilder;

use super::lexer::{Lexer, Token};
use super::{Expr, Field, Predicate};
use crate::text;

/// The longest expression, in bytes.
const LONGEST: usize = 16 * 1024;
/// How deep parentheses and negations may be nested.
const DEEPEST: usize = 64;
/// The most operators and predicates: the tree is walked recursively, and its left arm is as long as the expression.
const MOST: usize = 500;
/// The words that look at a task.
const FIELDS: [(&str, Field); 5] = [
    ("name", Field::Name),
    ("tag", Field::Tag),
    ("file", Field::File),
    ("model", Field::Model),
    ("mode", Field::Mode),
];

/// What is wrong, and where.
#[derive(Debug)]
pub(super) struct Error {
    pub(super) span: Range<usize>,
    pub(super) message: String,
    pub(super) hint: Option<String>,
}

fn error<T>(
    span: Range<usize>,
    message: impl Into<String>,
    hint: Option<&str>,
) -> Result<T, Error> {
    Err(Error {
        span,
        message: message.into(),
        hint: hint.map(str::to_owned),
    })
}

pub(super) fn parse(text: &str) -> Result<Expr, Error> {
    if text.len() > LONGEST {
        return error(
            0..0,
            format!("the filter is longer than {LONGEST} bytes"),
            None,
        );
    }
    let mut parser = Parser {
        lexer: Lexer::new(text),
        depth: 0,
        count: 0,
    };
    let expr = parser.or()?;
    match parser.lexer.next() {
        (Token::End, _) => Ok(expr),
        (Token::Close, span) => error(span, "nothing was opened that this closes", None),
        (found, span) => {
            let message = format!("expected `&`, `|` or the end, found {}", shown(found));
            error(span, message, Some("put `&` or `|` between two conditions"))
        }
    }
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    depth: usize,
    count: usize,
}

impl Parser<'_> {
    fn or(&mut self) -> Result<Expr, Error> {
        let mut left = self.and()?;
        while self.lexer.peek().0 == Token::Or {
            self.lexer.next();
            left = Expr::Or(Box::new(left), Box::new(self.and()?));
        }
        Ok(left)
    }

    fn and(&mut self) -> Result<Expr, Error> {
        let mut left = self.not()?;
        while self.lexer.peek().0 == Token::And {
            self.lexer.next();
            left = Expr::And(Box::new(left), Box::new(self.not()?));
        }
        Ok(left)
    }

    fn not(&mut self) -> Result<Expr, Error> {
        let (token, span) = self.lexer.peek();
        self.count += 1;
        self.depth += 1;
        if self.depth > DEEPEST || self.count > MOST {
            return error(span, "the filter is too large to be meant", None);
        }
        let expr = if token == Token::Not {
            self.lexer.next();
            Expr::Not(Box::new(self.not()?))
        } else {
            self.atom()?
        };
        self.depth -= 1;
        Ok(expr)
    }

    fn atom(&mut self) -> Result<Expr, Error> {
        match self.lexer.next() {
            (Token::Open, open) => {
                let inner = self.or()?;
                match self.lexer.next() {
                    (Token::Close, _) => Ok(inner),
                    (Token::End, _) => error(open, "nothing closes this parenthesis", None),
                    (found, span) => {
                        error(span, format!("expected `)`, found {}", shown(found)), None)
                    }
                }
            }
            (Token::Word(word), span) => self.word(word, span),
            (found, span) => {
                let message = format!("expected a condition, found {}", shown(found));
                error(
                    span,
                    message,
                    Some("conditions are as in `tag(nightly)` or `name(fix-*)`"),
                )
            }
        }
    }

    fn word(&mut self, word: &str, span: Range<usize>) -> Result<Expr, Error> {
        let field = FIELDS.iter().find(|(name, _)| *name == word);
        if field.is_none() && !matches!(word, "all" | "none") {
            let message = format!("there is no condition `{}`", text::head(word, 80));
            let hint = "the conditions are `name(…)`, `tag(…)`, `file(…)`, `model(…)`, `mode(…)`, `all()` and `none()`";
            return error(span, message, Some(hint));
        }
        if self.lexer.peek().0 != Token::Open {
            let hint = match field {
                Some(_) => format!("write `{word}(GLOB)`"),
                None => format!("write `{word}()`"),
            };
            return error(span, format!("expected `(` behind `{word}`"), Some(&hint));
        }
        let (_, open) = self.lexer.next();
        let Some((argument, place)) = self.lexer.argument() else {
            return error(open, "nothing closes this parenthesis", None);
        };
        let Some((_, field)) = field else {
            return match argument {
                "" if word == "all" => Ok(Expr::All),
                "" => Ok(Expr::None),
                _ => error(place, format!("`{word}()` takes nothing"), None),
            };
        };
        if argument.is_empty() {
            let hint = format!("write `{word}(*)` for any");
            return error(open, format!("`{word}` needs a glob"), Some(&hint));
        }
        let glob = GlobBuilder::new(argument)
            .literal_separator(*field == Field::File)
            .build();
        match glob {
            Ok(glob) => Ok(Expr::Is(Predicate {
                field: *field,
                glob: glob.compile_matcher(),
                span: span.start..self.lexer.position(),
            })),
            Err(wrong) => error(place, format!("this is no glob: {}", wrong.kind()), None),
        }
    }
}

fn shown(token: Token<'_>) -> String {
    match token {
        Token::And => "`&`".to_owned(),
        Token::Or => "`|`".to_owned(),
        Token::Not => "`!`".to_owned(),
        Token::Open => "`(`".to_owned(),
        Token::Close => "`)`".to_owned(),
        Token::Word(word) => format!("`{}`", text::head(word, 80)),
        Token::Stray(c) => format!("`{}`", c.escape_debug()),
        Token::End => "the end".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The tree with parentheses around everything.
    fn tree(text: &str) -> String {
        fn write(expr: &Expr, text: &str) -> String {
            match expr {
                Expr::All => "all".to_owned(),
                Expr::None => "none".to_owned(),
                Expr::Is(predicate) => text[predicate.span.clone()].to_owned(),
                Expr::Not(inner) => format!("!{}", write(inner, text)),
                Expr::And(one, other) => format!("({}&{})", write(one, text), write(other, text)),
                Expr::Or(one, other) => format!("({}|{})", write(one, text), write(other, text)),
            }
        }
        match parse(text) {
            Ok(expr) => write(&expr, text),
            Err(error) => format!("{}: {}", error.span.start, error.message),
        }
    }

    #[test]
    fn operators_bind_as_everybody_expects() {
        assert_eq!(tree("tag(a) & !name(b*)"), "(tag(a)&!name(b*))");
        assert_eq!(tree("tag(a) | tag(b) & tag(c)"), "(tag(a)|(tag(b)&tag(c)))");
        assert_eq!(
            tree("tag(a) or tag(b) and not tag(c)"),
            "(tag(a)|(tag(b)&!tag(c)))"
        );
        assert_eq!(tree("(tag(a)||tag(b))&&tag(c)"), "((tag(a)|tag(b))&tag(c))");
        assert_eq!(tree("!!all() & none( )"), "(!!all&none)");
        assert_eq!(tree("not (all())"), "!all");
    }

    #[test]
    fn arguments_may_hold_blanks_braces_parentheses_and_quotes() {
        assert_eq!(tree("name( a b )"), "name( a b )");
        assert_eq!(
            tree("file(tasks/**/{a,b}.yaml)"),
            "file(tasks/**/{a,b}.yaml)"
        );
        assert_eq!(tree("name(a(b)c)&all()"), "(name(a(b)c)&all)");
        assert_eq!(tree("name('a)')&all()"), "(name('a)')&all)");
    }

    #[test]
    fn a_mistake_is_told_at_its_place() {
        for (text, expected) in [
            ("", "0: expected a condition, found the end"),
            (
                "tag(a) tag(b)",
                "7: expected `&`, `|` or the end, found `tag`",
            ),
            ("tag(a", "3: nothing closes this parenthesis"),
            ("(tag(a)", "0: nothing closes this parenthesis"),
            ("tag(a))", "6: nothing was opened that this closes"),
            ("tag", "0: expected `(` behind `tag`"),
            ("tags(a)", "0: there is no condition `tags`"),
            ("tag()", "3: `tag` needs a glob"),
            ("all(x)", "4: `all()` takes nothing"),
            ("tag(a) &", "8: expected a condition, found the end"),
            (
                "tag([a)",
                "4: this is no glob: unclosed character class; missing ']'",
            ),
            ("%", "0: expected a condition, found `%`"),
        ] {
            assert_eq!(tree(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_too_large_is_refused() {
        let deep = "(".repeat(100_000);
        for text in [
            "!".repeat(10_000),
            "(".repeat(10_000),
            vec!["all()"; 2000].join("|"),
            deep,
        ] {
            assert!(parse(&text).is_err());
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in r"(name|tag|all|\(|\)|&|\||!|not|or| |'|\*|é|\PC){0,30}") {
            let _ = parse(&text);
        }
    }
}
