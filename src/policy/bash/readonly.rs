//! Commands that only read, for mode `plan`.
//!
//! Being in this table grants nothing: an allow rule is needed as well. Guarded options count against a command here
//! even if a rule names them, and so does every file that an option would write.

use super::harmless::strange_option;
use super::options::inspect;
use super::words::Word;

/// Commands that only read, whatever their arguments, guarded options apart.
const COMMANDS: [&str; 72] = [
    "[",
    "awk",
    "base32",
    "base64",
    "basename",
    "b2sum",
    "cat",
    "cd",
    "cksum",
    "cmp",
    "column",
    "comm",
    "cut",
    "date",
    "df",
    "diff",
    "dirname",
    "du",
    "echo",
    "egrep",
    "expand",
    "expr",
    "false",
    "fd",
    "fdfind",
    "fgrep",
    "file",
    "find",
    "fmt",
    "fold",
    "gawk",
    "grep",
    "head",
    "hexdump",
    "id",
    "join",
    "jq",
    "ls",
    "mawk",
    "md5sum",
    "nl",
    "nproc",
    "od",
    "paste",
    "printf",
    "pwd",
    "readlink",
    "realpath",
    "rev",
    "rg",
    "sed",
    "seq",
    "sha1sum",
    "sha256sum",
    "sha512sum",
    "sleep",
    "sort",
    "stat",
    "strings",
    "tac",
    "tail",
    "test",
    "tr",
    "true",
    "uname",
    "uniq",
    "wc",
    "which",
    "whoami",
    "xxd",
    "yq",
    ":",
];

/// Subcommands of git that only read.
const GIT: [&str; 22] = [
    "blame",
    "cat-file",
    "describe",
    "diff",
    "diff-files",
    "diff-index",
    "diff-tree",
    "for-each-ref",
    "grep",
    "log",
    "ls-files",
    "ls-tree",
    "merge-base",
    "name-rev",
    "rev-list",
    "rev-parse",
    "shortlog",
    "show",
    "show-ref",
    "status",
    "var",
    "whatchanged",
];

/// Subcommands of git that only read in one form.
const GIT_FORMS: [(&str, &[&str]); 4] = [
    ("branch", &["--show-current", "--list"]),
    ("stash", &["list", "show"]),
    ("tag", &["--list", "-l"]),
    ("reflog", &["show"]),
];

/// Whether an option of `git branch` or `git tag` does more than choose and show. What is not literal may be one.
fn changes_refs(word: &str) -> bool {
    const SHOWING: [&str; 12] = [
        "--all",
        "--remotes",
        "--verbose",
        "--list",
        "--patch",
        "--stat",
        "--column",
        "--color",
        "--ignore-case",
        "--merged",
        "--no-merged",
        "--contains",
    ];
    const VALUED: [&str; 4] = ["--sort=", "--format=", "--points-at=", "--contains="];
    let short = || matches!(word, "-a" | "-r" | "-v" | "-vv" | "-l" | "-i" | "-p" | "-n");
    word.is_empty()
        || word.starts_with('-')
            && !(short()
                || SHOWING.contains(&word)
                || VALUED.iter().any(|start| word.starts_with(start)))
}

/// Why a command does not count as reading, if it does not.
pub(super) fn check(words: &[Word]) -> Result<(), String> {
    let text = |index: usize| words.get(index).and_then(Word::literal).unwrap_or_default();
    let name = text(0);
    let reads = if name == "git" {
        let mut at = 1;
        while text(at) == "--no-pager" || text(at) == "--no-optional-locks" {
            at += 1;
        }
        let form = GIT_FORMS.iter().any(|(command, forms)| {
            *command == text(at)
                && forms.contains(&text(at + 1))
                && (at + 2..words.len()).all(|later| !changes_refs(text(later)))
        });
        GIT.contains(&text(at)) || form
    } else {
        COMMANDS.contains(&name)
    };
    if !reads {
        return Err(format!(
            "`{name}` is not in the table of read-only commands"
        ));
    }
    let found = inspect(words, 1);
    if let Some(what) = found.refused {
        return Err(format!("{what} may do more than read"));
    }
    if let Some(option) = strange_option(name, words) {
        return Err(format!(
            "`{option}` of `{name}` is not known to do no more than read"
        ));
    }
    match found.writes.first() {
        Some(file) => Err(format!("it would write `{}`", file.text)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reads(line: &str) -> bool {
        check(&line.split(' ').map(Word::from_text).collect::<Vec<_>>()).is_ok()
    }

    #[test]
    fn reading_commands_are_told_from_writing_ones() {
        for line in [
            "ls -la",
            "git log --oneline",
            "git branch --show-current",
            "rg -n x src",
            "sed -n 1p f",
            "find . -name x",
            "find src -type f -mtime -7 -size +10k -perm -u+x -print0",
            "sort -t : -k2,2n -ru f",
            "jq -r --arg a b .x f",
            "yq -o=json .x f",
            "date -u -d yesterday +%F",
            "fd -e rs -d 2",
            "rg -n -tpy -A3 x",
            "file -b --mime-type f",
            "base64 -w0 f",
            "git tag -l",
        ] {
            assert!(reads(line), "{line}");
        }
        for line in [
            "rm x",
            "git commit",
            "git branch x",
            "git diff --output=x",
            "find . -delete",
            "sed -i s/a/b/ f",
            "sort -o x f",
            "uniq a b",
            "/bin/ls",
            "tee x",
            "yq --in-place -y . f.yml",
            "yq -yi . f.yml",
            "git branch --list --no-list evil",
            "git branch --show-current --no-show-current -D evil",
            "find . -fprintf x y",
            "find . -name -new",
            "date 01010000",
            "date -us now",
            "file -C -m x",
            "fd -Hx id",
            "rg --pre id x",
            "sort --outp=x f",
            "jq -rf x",
            "uniq -f -f a b",
            "xxd -g -g a b",
        ] {
            assert!(!reads(line), "{line}");
        }
    }
}
