//! Characters to tokens, as bash would cut them, for the subset of the shell that the gate understands.
//!
//! Two kinds of refusal leave this file. A *hard* one ends the analysis: bash itself would not run the line, or nobody
//! can say what it means. A *soft* one names a construct whose words are not known before it runs (`$(..)`, `$x`,
//! `{a,b}` ...); lexing goes on behind it, because under a rule for the whole shell the line still has to be searched
//! for never-paths. Every decision about quoting is made here and kept in [`Word::bare`]; later stages never look at
//! the text of the line again.

use super::super::fold;
use super::words::Word;

/// Longest command line, in bytes.
pub(in super::super) const MAX_BYTES: usize = 16_384;
/// How many brackets of skipped constructs may be open at a time.
const MAX_OPEN: usize = 64;
/// How many characters of a parameter's name a reason shows.
const MAX_SHOWN: usize = 40;

/// Why a line is not analysed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct Refusal {
    /// Names the construct.
    pub(in super::super) construct: String,
}

pub(super) fn refuse<T>(construct: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal {
        construct: construct.into(),
    })
}

/// A redirection operator with what stands before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Redirection {
    pub(super) fd: Option<String>,
    pub(super) operator: &'static str,
    /// Index into [`Lexed::bodies`].
    pub(super) body: Option<usize>,
}

/// A token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token {
    Word(Word),
    /// A control operator or a newline.
    Operator(&'static str),
    Redirection(Redirection),
}

/// A line in tokens.
#[derive(Debug, Default)]
pub(super) struct Lexed {
    pub(super) tokens: Vec<Token>,
    /// Bodies of here-documents.
    pub(super) bodies: Vec<String>,
    /// The first construct whose outcome is not known.
    pub(super) soft: Option<String>,
    /// The text inside substitutions.
    pub(super) nested: Vec<String>,
}

/// Cuts a line into tokens.
pub(super) fn lex(line: &str) -> Result<Lexed, Refusal> {
    check_characters(line)?;
    let mut lexer = Lexer {
        chars: line.chars().collect(),
        at: 0,
        out: Lexed::default(),
        pending: Vec::new(),
        expects_delimiter: false,
    };
    lexer.run()?;
    Ok(lexer.out)
}

/// Refuses what has no place in a command line at all.
fn check_characters(line: &str) -> Result<(), Refusal> {
    if line.len() > MAX_BYTES {
        return refuse(format!("a command line longer than {MAX_BYTES} bytes"));
    }
    for c in line.chars() {
        let invisible = c.is_control() && c != '\t' && c != '\n' || fold::is_invisible(c);
        if invisible {
            return refuse(format!("the invisible character U+{:04X}", u32::from(c)));
        }
    }
    Ok(())
}

struct Heredoc {
    body: usize,
    delimiter: String,
    quoted: bool,
    strips_tabs: bool,
}

struct Lexer {
    chars: Vec<char>,
    at: usize,
    out: Lexed,
    pending: Vec<Heredoc>,
    expects_delimiter: bool,
}

const OPERATORS: [&str; 10] = ["&&", "||", ";;&", ";;", ";&", "|&", "|", ";", "(", ")"];
const REDIRECTIONS: [&str; 12] = [
    "&>>", "&>", "<<<", "<<-", "<<", "<>", "<&", "<", ">>", ">|", ">&", ">",
];

impl Lexer {
    fn peek(&self, offset: usize) -> Option<char> {
        self.chars.get(self.at + offset).copied()
    }

    fn starts_with(&self, text: &str) -> bool {
        text.chars()
            .enumerate()
            .all(|(i, c)| self.peek(i) == Some(c))
    }

    fn soft(&mut self, construct: &str) {
        self.out.soft.get_or_insert_with(|| construct.to_owned());
    }

    fn run(&mut self) -> Result<(), Refusal> {
        while let Some(c) = self.peek(0) {
            match c {
                ' ' | '\t' => self.at += 1,
                '\n' => {
                    if self.expects_delimiter {
                        return refuse("a here-document without a delimiter");
                    }
                    self.at += 1;
                    self.out.tokens.push(Token::Operator("\n"));
                    self.bodies()?;
                }
                '\\' if self.peek(1) == Some('\n') => {
                    self.at += 2;
                    if !self.pending.is_empty() || self.expects_delimiter {
                        self.soft("a line continuation beside a here-document");
                    }
                    if self.peek(0) == Some('#') {
                        self.soft("a comment behind a line continuation");
                    }
                }
                '#' => {
                    while self.peek(0).is_some_and(|c| c != '\n') {
                        self.at += 1;
                    }
                }
                '|' | '&' | ';' | '(' | ')' | '<' | '>' => self.operator(None)?,
                c if c.is_whitespace() => {
                    return refuse(format!("the blank U+{:04X} outside quotes", u32::from(c)));
                }
                _ => self.word()?,
            }
        }
        if self.pending.is_empty() && !self.expects_delimiter {
            return Ok(());
        }
        refuse("a here-document without its end")
    }

    fn operator(&mut self, fd: Option<String>) -> Result<(), Refusal> {
        if fd.is_none() && (self.starts_with("<(") || self.starts_with(">(")) {
            self.soft("a process substitution `<(..)`");
            self.at += 2;
            self.skip(')')?;
            let word = Word {
                text: "<(..)".into(),
                bare: "\0\0\0\0\0".into(),
                dynamic: true,
                ..Word::default()
            };
            self.out.tokens.push(Token::Word(word));
            return Ok(());
        }
        if let Some(operator) = REDIRECTIONS
            .into_iter()
            .find(|operator| self.starts_with(operator))
        {
            self.at += operator.len();
            if self.starts_with("\\\n") {
                self.soft("a line continuation right after a redirection operator");
            }
            if self.expects_delimiter {
                return refuse("a here-document without a delimiter");
            }
            self.expects_delimiter = matches!(operator, "<<" | "<<-");
            self.out.tokens.push(Token::Redirection(Redirection {
                fd,
                operator,
                body: None,
            }));
            return Ok(());
        }
        if self.expects_delimiter {
            return refuse("a here-document without a delimiter");
        }
        let operator = OPERATORS
            .into_iter()
            .find(|operator| self.starts_with(operator))
            .unwrap_or("&");
        if operator == "(" && self.peek(1) == Some('(') {
            self.soft(
                "an arithmetic command `((..))`, or parentheses without a blank between them",
            );
        }
        self.at += operator.len();
        let mut behind = 0;
        while self.peek(behind) == Some('\\') && self.peek(behind + 1) == Some('\n') {
            behind += 2;
        }
        if behind > 0 && self.peek(behind).is_some_and(|c| "|&;()<>".contains(c)) {
            self.soft("a line continuation inside an operator");
        }
        self.out.tokens.push(Token::Operator(operator));
        Ok(())
    }

    fn word(&mut self) -> Result<(), Refusal> {
        let mut word = Word::default();
        let mut split = false;
        while let Some(c) = self.peek(0) {
            match c {
                ' ' | '\t' | '\n' | '|' | '&' | ';' | '(' | ')' | '<' | '>' => break,
                '\\' => match self.peek(1) {
                    None => return refuse("a backslash at the end"),
                    Some('\n') => {
                        split = true;
                        self.at += 2;
                    }
                    Some(next) => {
                        word.push_quoted(next);
                        self.at += 2;
                    }
                },
                '\'' => {
                    self.at += 1;
                    word.quoted = true;
                    loop {
                        match self.peek(0) {
                            None => return refuse("an unterminated single quote"),
                            Some('\'') => break,
                            Some(c) => self.quoted_character(&mut word, c),
                        }
                    }
                    self.at += 1;
                }
                '"' => {
                    self.at += 1;
                    self.double_quoted(&mut word)?;
                }
                '$' => self.dollar(&mut word, false)?,
                '`' => self.backticks(&mut word)?,
                c if c.is_whitespace() => {
                    return refuse(format!("the blank U+{:04X} outside quotes", u32::from(c)));
                }
                c => {
                    word.push(c);
                    self.at += 1;
                }
            }
        }
        if matches!(self.peek(0), Some('<' | '>')) {
            if self.peek(1) == Some('(') {
                self.soft("a process substitution `<(..)`");
            }
            let is_number = !word.bare.is_empty() && word.bare.bytes().all(|b| b.is_ascii_digit());
            let is_variable = word.bare.starts_with('{') && word.bare.ends_with('}');
            if (is_number || is_variable) && split {
                self.soft("a line continuation inside a redirection");
            }
            if is_variable {
                self.soft("a redirection to a variable `{fd}>`");
            }
            if is_number && !self.expects_delimiter {
                return self.operator(Some(word.text));
            }
        }
        self.finish(word, split)
    }

    /// Marks what an unquoted word would expand to, and starts a here-document if one waits for its delimiter.
    fn finish(&mut self, mut word: Word, split: bool) -> Result<(), Refusal> {
        if std::mem::take(&mut self.expects_delimiter) {
            return self.delimiter(word, split);
        }
        if word.has_tilde() {
            self.soft("a tilde expansion `~`");
            word.dynamic = true;
        } else if word.has_braces() {
            self.soft("a brace expansion `{a,b}`");
            word.dynamic = true;
        }
        word.glob = word.has_glob();
        self.out.tokens.push(Token::Word(word));
        Ok(())
    }

    fn delimiter(&mut self, word: Word, split: bool) -> Result<(), Refusal> {
        if word.dynamic || split || !word.quoted && word.text.contains('$') {
            return refuse("an expansion in a here-document's delimiter");
        }
        if word.text.contains('\n') {
            return refuse("a newline in a here-document's delimiter");
        }
        let body = self.out.bodies.len();
        self.out.bodies.push(String::new());
        if let Some(Token::Redirection(redirection)) = self.out.tokens.last_mut() {
            redirection.body = Some(body);
            self.pending.push(Heredoc {
                body,
                delimiter: word.text.clone(),
                quoted: word.quoted,
                strips_tabs: redirection.operator == "<<-",
            });
        }
        self.out.tokens.push(Token::Word(word));
        Ok(())
    }

    /// Reads the bodies of the here-documents whose operators stand on the line that has just ended.
    fn bodies(&mut self) -> Result<(), Refusal> {
        for heredoc in std::mem::take(&mut self.pending) {
            let mut expands = false;
            loop {
                if self.at >= self.chars.len() {
                    return refuse("a here-document without its end");
                }
                let rest = &self.chars[self.at..];
                let length = rest.iter().position(|c| *c == '\n').unwrap_or(rest.len());
                let line: String = rest[..length].iter().collect();
                self.at = (self.at + length + 1).min(self.chars.len());
                let line = if heredoc.strips_tabs {
                    line.trim_start_matches('\t').to_owned()
                } else {
                    line
                };
                if line == heredoc.delimiter {
                    break;
                }
                if !heredoc.quoted && line.contains(['$', '`', '\\']) {
                    self.soft("an expansion in a here-document (quote its delimiter: `<<'EOF'`)");
                    expands = true;
                }
                let body = &mut self.out.bodies[heredoc.body];
                body.push_str(&line);
                body.push('\n');
            }
            if expands {
                // Such a body is read as a double-quoted string is.
                let body = self.out.bodies[heredoc.body].replace('"', "\\\"");
                match lex(&format!("\"{body}\"")) {
                    Ok(inner) => self.out.nested.extend(inner.nested),
                    Err(refusal) => return Err(refusal),
                }
            }
        }
        Ok(())
    }

    fn quoted_character(&mut self, word: &mut Word, c: char) {
        if c == '\n' && (!self.pending.is_empty() || self.expects_delimiter) {
            self.soft("a quoted newline beside a here-document");
        }
        word.push_quoted(c);
        self.at += 1;
    }

    fn double_quoted(&mut self, word: &mut Word) -> Result<(), Refusal> {
        word.quoted = true;
        loop {
            match self.peek(0) {
                None => return refuse("an unterminated double quote"),
                Some('"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some('\\') => match self.peek(1) {
                    None => return refuse("an unterminated double quote"),
                    Some('\n') => self.at += 2,
                    Some(c @ ('$' | '`' | '"' | '\\')) => {
                        word.push_quoted(c);
                        self.at += 2;
                    }
                    Some(_) => self.quoted_character(word, '\\'),
                },
                Some('$') => self.dollar(word, true)?,
                Some('`') => self.backticks(word)?,
                Some(c) => self.quoted_character(word, c),
            }
        }
    }

    fn dollar(&mut self, word: &mut Word, in_quotes: bool) -> Result<(), Refusal> {
        let start = self.at;
        let next = self.peek(1);
        let construct = match next {
            Some('?') => {
                self.at += 2;
                return {
                    self.expansion(word, start);
                    Ok(())
                };
            }
            Some('\\') if self.peek(2) == Some('\n') => "a line continuation right after `$`",
            Some('(') if self.peek(2) == Some('(') => "an arithmetic expansion `$((..))`",
            Some('(') => "a command substitution `$(..)`",
            Some('{') => "a parameter expansion",
            Some('[') => "an arithmetic expansion `$[..]`",
            Some('\'') if !in_quotes => "ANSI-C quoting `$'..'`",
            Some('"') if !in_quotes => "a translated string `$\"..\"`",
            Some(c) if c.is_ascii_alphanumeric() || "_@*#-$!".contains(c) => {
                "a parameter expansion"
            }
            _ => {
                word.push_opaque('$');
                self.at += 1;
                return Ok(());
            }
        };
        if construct == "a parameter expansion" && self.out.soft.is_none() {
            self.out.soft = Some(format!("{construct} `{}`", self.parameter(next)));
        } else {
            self.soft(construct);
        }
        self.at += 2;
        match next {
            Some('(') => self.skip(')')?,
            Some('{') => self.skip('}')?,
            Some('[') => self.skip(']')?,
            Some('\'') => loop {
                match self.peek(0) {
                    None => return refuse("an unterminated single quote"),
                    Some('\'') => {
                        self.at += 1;
                        break;
                    }
                    Some('\\') => self.at += 2,
                    Some(_) => self.at += 1,
                }
            },
            Some('"') => {
                word.dynamic = true;
                return self.double_quoted(word);
            }
            Some('\\') => self.at -= 1, // the backslash is read again as a continuation
            _ => {
                while next.is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
                    && self
                        .peek(0)
                        .is_some_and(|c| c.is_ascii_alphanumeric() || c == '_')
                {
                    self.at += 1;
                }
            }
        }
        self.expansion(word, start);
        Ok(())
    }

    /// How a parameter is shown whose `$` comes next: `$HOME`, `${HOME}`, `${..}` for more than a name.
    fn parameter(&self, next: Option<char>) -> String {
        let is_name = |c: &&char| c.is_ascii_alphanumeric() || **c == '_';
        let braced = next == Some('{');
        let rest = self.chars.get(self.at + 1 + usize::from(braced)..);
        let rest = rest.unwrap_or_default();
        let name: String = rest.iter().take_while(is_name).take(MAX_SHOWN).collect();
        let closed = rest.get(name.len()) == Some(&'}') && !name.is_empty();
        match next {
            _ if braced && closed => format!("${{{name}}}"),
            _ if braced => "${..}".into(),
            Some(c) if name.is_empty() || c.is_ascii_digit() => format!("${c}"),
            _ => format!("${name}"),
        }
    }

    fn backticks(&mut self, word: &mut Word) -> Result<(), Refusal> {
        let start = self.at;
        self.soft("a command substitution in backticks");
        self.at += 1;
        self.skip('`')?;
        self.expansion(word, start);
        Ok(())
    }

    /// Takes the characters since `start` into the word as they are.
    fn expansion(&mut self, word: &mut Word, start: usize) {
        let end = self.at.min(self.chars.len());
        word.dynamic = true;
        for c in &self.chars[start..end] {
            word.push_opaque(*c);
        }
    }

    /// Goes behind the end of a bracketed construct, without recursion.
    fn skip(&mut self, end: char) -> Result<(), Refusal> {
        let start = self.at;
        let mut open = vec![end];
        while let Some(&closer) = open.last() {
            let Some(c) = self.peek(0) else {
                return refuse(format!("an unterminated substitution (`{end}` is missing)"));
            };
            self.at += 1;
            match (closer, c) {
                ('\'', '\'') => drop(open.pop()),
                ('\'', _) | ('"', '\'') => {}
                (_, '\\') => self.at += 1,
                (closer, c) if closer == c => drop(open.pop()),
                (_, '`') => open.push('`'),
                (_, '$') if matches!(self.peek(0), Some('(' | '{')) => {
                    open.push(if self.peek(0) == Some('(') { ')' } else { '}' });
                    self.at += 1;
                }
                ('"', _) => {}
                (_, '(') => open.push(')'),
                (_, '\'') => open.push('\''),
                (_, '"') => open.push('"'),
                _ => {}
            }
            if open.len() > MAX_OPEN {
                return refuse(format!("substitutions nested deeper than {MAX_OPEN}"));
            }
        }
        let end = (self.at - 1).min(self.chars.len());
        self.out
            .nested
            .push(self.chars[start..end].iter().collect());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        lex(line)
            .unwrap()
            .tokens
            .into_iter()
            .map(|token| match token {
                Token::Word(word) => word.text,
                Token::Operator(operator) => operator.to_owned(),
                Token::Redirection(redirection) => redirection.operator.to_owned(),
            })
            .collect()
    }

    #[test]
    fn quotes_and_continuations_are_removed_as_bash_does() {
        assert_eq!(
            words("g''it di\"ff\" a\\ b te\\\nst"),
            ["git", "diff", "a b", "test"]
        );
        assert_eq!(words(r#"echo "a\"\$\x" 'a\'"#), ["echo", "a\"$\\x", "a\\"]);
    }

    #[test]
    fn a_comment_starts_at_a_word_only() {
        assert_eq!(words("echo a#b # c\nid"), ["echo", "a#b", "\n", "id"]);
    }

    #[test]
    fn the_body_of_a_here_document_is_no_command() {
        let lexed = lex("cat <<'A' <<-B; x\n$(id)\nA\n\tb\n\tB\ny").unwrap();
        assert_eq!(lexed.bodies, ["$(id)\n", "b\n"]);
        assert_eq!(lexed.soft, None);
    }

    #[test]
    fn an_unterminated_line_is_refused_and_named() {
        for (line, name) in [
            ("echo 'a", "single quote"),
            ("echo \"a", "double quote"),
            ("echo $(a", "unterminated substitution"),
            ("cat <<E\na", "without its end"),
            ("echo \\", "backslash"),
        ] {
            let construct = lex(line).unwrap_err().construct;
            assert!(construct.contains(name), "{line}: {construct}");
        }
    }

    #[test]
    fn a_construct_is_named_and_lexing_goes_on() {
        let lexed = lex("echo $(rm x) > .git/config").unwrap();
        assert_eq!(
            lexed.soft.as_deref(),
            Some("a command substitution `$(..)`")
        );
        assert_eq!(lexed.nested, ["rm x"]);
        assert_eq!(lexed.tokens.len(), 4);
    }

    proptest::proptest! {
        #[test]
        fn lexing_never_panics(line in "[ a-c'\"\\\\$(){}`<>|&;#~=*\n\\[\\]0-9?]{0,80}") {
            let _ = lex(&line);
        }
    }
}
