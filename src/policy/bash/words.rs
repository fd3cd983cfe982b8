//! Words of the shell: what a command gets, and which parts of it were quoted.

use super::lexer::{Token, lex};
use super::parse::is_reserved;

/// Stands in [`Word::bare`] for a quoted character.
const QUOTED: char = '\0';

/// A shell word.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in super::super) struct Word {
    /// What the command gets, quotes removed; an expansion stands as it was written.
    pub(in super::super) text: String,
    /// As `text`, a NUL in place of every quoted character.
    pub(super) bare: String,
    /// Some part was quoted or escaped.
    pub(super) quoted: bool,
    /// Holds an expansion (`$?` included).
    pub(in super::super) dynamic: bool,
    /// Holds an unquoted glob.
    pub(in super::super) glob: bool,
}

impl Word {
    /// The text, if it is known before the line runs.
    pub(in super::super) fn literal(&self) -> Option<&str> {
        (!self.dynamic && !self.glob).then_some(self.text.as_str())
    }

    /// The word as a reserved word could be: nothing quoted, nothing expanded.
    pub(super) fn plain(&self) -> Option<&str> {
        (!self.quoted && !self.dynamic).then_some(self.text.as_str())
    }

    /// A word that is written out.
    pub(in super::super) fn from_text(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            bare: QUOTED.to_string().repeat(text.chars().count()),
            quoted: true,
            dynamic: false,
            glob: false,
        }
    }

    /// Takes an unquoted character.
    pub(super) fn push(&mut self, c: char) {
        self.text.push(c);
        self.bare.push(c);
    }

    /// Takes a quoted character.
    pub(super) fn push_quoted(&mut self, c: char) {
        self.quoted = true;
        self.push_opaque(c);
    }

    /// Takes a character that stands for itself without a quote: a part of an expansion, a lone `$`.
    pub(super) fn push_opaque(&mut self, c: char) {
        self.text.push(c);
        self.bare.push(QUOTED);
    }

    /// Whether bash would expand a tilde: at the start, or where an assignment's value could hold one.
    pub(super) fn has_tilde(&self) -> bool {
        let bare = &self.bare;
        bare.starts_with('~') || bare.contains("=~") || bare.contains('=') && bare.contains(":~")
    }

    /// Whether bash could expand braces.
    pub(super) fn has_braces(&self) -> bool {
        self.bare.find('{').is_some_and(|open| {
            let inside = &self.bare[open..];
            inside.rfind('}').is_some_and(|close| {
                inside[..close].contains(',') || inside[..close].contains("..")
            })
        })
    }

    /// Whether bash would take the word for a glob.
    pub(super) fn has_glob(&self) -> bool {
        let bracket = self.bare.chars().position(|c| c == '[');
        self.bare.contains(['*', '?'])
            || bracket.is_some_and(|open| self.text.chars().skip(open + 1).any(|c| c == ']'))
    }

    /// The length of an identifier that an unquoted `=`, `+=` or `[` follows.
    pub(super) fn name_before(&self, end: &str) -> Option<usize> {
        let length = self
            .bare
            .bytes()
            .take_while(|b| b.is_ascii_alphanumeric() || *b == b'_')
            .count();
        let starts_well = self
            .bare
            .bytes()
            .next()
            .is_some_and(|b| !b.is_ascii_digit());
        (length > 0 && starts_well && self.bare[length..].starts_with(end)).then_some(length)
    }
}

/// The words of a rule: literal, and nothing but words.
pub(in super::super) fn rule_words(text: &str) -> Result<Vec<String>, String> {
    let lexed = lex(text).map_err(|refusal| refusal.construct)?;
    if let Some(construct) = lexed.soft {
        return Err(construct);
    }
    let mut words = Vec::new();
    for token in lexed.tokens {
        match token {
            Token::Word(word) if word.glob => return Err("a glob".into()),
            Token::Word(word) if word.dynamic => return Err("an expansion `$?`".into()),
            Token::Word(word) if words.is_empty() && word.name_before("=").is_some() => {
                return Err("an assignment".into());
            }
            Token::Word(word) if words.is_empty() && word.plain().is_some_and(is_reserved) => {
                return Err(format!("the reserved word `{}`", word.text));
            }
            Token::Word(word) => words.push(word.text),
            Token::Operator(operator) => {
                return Err(format!("the operator `{}`", operator.escape_debug()));
            }
            Token::Redirection(redirection) => {
                return Err(format!("the redirection `{}`", redirection.operator));
            }
        }
    }
    // A comment would be dropped without a word.
    let marked = lex(&format!("{text} x")).map_or(0, |lexed| lexed.tokens.len());
    if marked != words.len() + 1 {
        return Err("a comment".into());
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_a_rule_are_literal() {
        assert_eq!(
            rule_words("git commit -m 'a b'"),
            Ok(vec![
                "git".into(),
                "commit".into(),
                "-m".into(),
                "a b".into()
            ])
        );
        for (text, why) in [
            ("a b*", "glob"),
            ("a $?", "`$?`"),
            ("A=1 a", "assignment"),
            ("if a", "reserved"),
            ("a|b", "operator"),
            ("a <b", "redirection"),
            ("a # b", "comment"),
        ] {
            assert!(rule_words(text).unwrap_err().contains(why), "{text}");
        }
    }

    #[test]
    fn quoting_takes_the_meaning_from_characters() {
        let word = |line: &str| match lex(line).unwrap().tokens.remove(0) {
            Token::Word(word) => word,
            other => panic!("{other:?}"),
        };
        assert!(word("a*").glob && !word("'a*'").glob && !word("a\\*").glob);
        assert!(word("{a,b}").has_braces() && !word("{a\\,b}").has_braces());
        assert!(
            word("x=~/y").has_tilde() && !word("x='~'").has_tilde() && !word("HEAD~1").has_tilde()
        );
        assert_eq!(word("A=1").name_before("="), Some(1));
        assert_eq!(word("'A'=1").name_before("="), None);
    }
}
