//! Commands that only read, for mode `plan`.
//!
//! Being in this table grants nothing: an allow rule is needed as well. Guarded options count against a command here
//! even if a rule names them, and so does every file that an option would write.

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

/// The options with which a command only reads. Every other option of it counts as one that may write or run something:
/// these commands have such options, or versions that differ in what a letter means.
struct Harmless {
    heads: &'static [&'static str],
    /// Without a value, or with digits.
    flags: &'static str,
    /// With a value that cannot be left out.
    valued: &'static str,
    /// Without dashes.
    long: &'static [&'static str],
}

const HARMLESS: [Harmless; 9] = [
    Harmless {
        heads: &["fd", "fdfind"],
        flags: "HIuasigFlLpqh01V",
        valued: "tedEScjo",
        long: &[
            "absolute-path",
            "changed-before",
            "changed-within",
            "color",
            "exclude",
            "extension",
            "fixed-strings",
            "follow",
            "full-path",
            "glob",
            "help",
            "hidden",
            "ignore-case",
            "max-depth",
            "max-results",
            "min-depth",
            "no-ignore",
            "no-ignore-vcs",
            "print0",
            "quiet",
            "size",
            "strip-cwd-prefix",
            "threads",
            "type",
            "version",
        ],
    },
    Harmless {
        heads: &["rg"],
        flags: "aiSswxvnNcloqupPUFLHIhb0V",
        valued: "efgtTABCmMrjEd",
        long: &[
            "after-context",
            "before-context",
            "binary",
            "case-sensitive",
            "color",
            "colors",
            "column",
            "context",
            "context-separator",
            "count",
            "count-matches",
            "debug",
            "encoding",
            "engine",
            "file",
            "files",
            "files-with-matches",
            "files-without-match",
            "fixed-strings",
            "follow",
            "glob",
            "glob-case-insensitive",
            "heading",
            "help",
            "hidden",
            "iglob",
            "ignore-case",
            "include-zero",
            "invert-match",
            "json",
            "line-buffered",
            "line-number",
            "line-regexp",
            "max-columns",
            "max-count",
            "max-depth",
            "max-filesize",
            "multiline",
            "multiline-dotall",
            "no-config",
            "no-filename",
            "no-heading",
            "no-ignore",
            "no-ignore-parent",
            "no-ignore-vcs",
            "no-line-number",
            "no-messages",
            "null",
            "only-matching",
            "passthru",
            "path-separator",
            "pcre2",
            "pretty",
            "quiet",
            "regexp",
            "replace",
            "smart-case",
            "sort",
            "sortr",
            "stats",
            "text",
            "threads",
            "trim",
            "type",
            "type-list",
            "type-not",
            "unrestricted",
            "version",
            "vimgrep",
            "with-filename",
            "word-regexp",
        ],
    },
    Harmless {
        heads: &["sort"],
        flags: "bdfgiMhnRrVcCmsuz",
        valued: "ktS",
        long: &[
            "buffer-size",
            "check",
            "debug",
            "dictionary-order",
            "field-separator",
            "general-numeric-sort",
            "help",
            "human-numeric-sort",
            "ignore-case",
            "ignore-leading-blanks",
            "ignore-nonprinting",
            "key",
            "merge",
            "month-sort",
            "numeric-sort",
            "parallel",
            "random-sort",
            "reverse",
            "sort",
            "stable",
            "unique",
            "version",
            "version-sort",
            "zero-terminated",
        ],
    },
    Harmless {
        heads: &["jq"],
        flags: "cnesrRSCMajbhV",
        valued: "",
        long: &[
            "arg",
            "argjson",
            "args",
            "ascii-output",
            "color-output",
            "compact-output",
            "exit-status",
            "help",
            "indent",
            "join-output",
            "jsonargs",
            "monochrome-output",
            "null-input",
            "raw-input",
            "raw-output",
            "raw-output0",
            "seq",
            "slurp",
            "sort-keys",
            "stream",
            "stream-errors",
            "tab",
            "unbuffered",
            "version",
        ],
    },
    Harmless {
        heads: &["yq"],
        flags: "rPyYcCMnejNSEvVh",
        valued: "opIw",
        long: &[
            "colors",
            "compact-output",
            "exit-status",
            "help",
            "indent",
            "input-format",
            "no-colors",
            "no-doc",
            "null-input",
            "output-format",
            "prettyPrint",
            "raw-output",
            "sort-keys",
            "unwrapScalar",
            "verbose",
            "version",
            "width",
            "yaml-output",
            "yaml-roundtrip",
            "yml-output",
            "yml-roundtrip",
        ],
    },
    Harmless {
        heads: &["file"],
        flags: "bikLhNnrsv0",
        valued: "eFP",
        long: &[
            "brief",
            "dereference",
            "exclude",
            "extension",
            "keep-going",
            "mime",
            "mime-encoding",
            "mime-type",
            "no-buffer",
            "no-dereference",
            "no-pad",
            "print0",
            "raw",
            "separator",
            "special-files",
            "version",
        ],
    },
    Harmless {
        heads: &["date"],
        flags: "uRh",
        valued: "dr",
        long: &[
            "date",
            "help",
            "iso-8601",
            "reference",
            "rfc-3339",
            "rfc-email",
            "universal",
            "utc",
            "version",
        ],
    },
    Harmless {
        heads: &["base64", "base32"],
        flags: "diD",
        valued: "w",
        long: &["decode", "help", "ignore-garbage", "version", "wrap"],
    },
    Harmless {
        heads: &["column"],
        flags: "tnexLJV",
        valued: "scNHRTOo",
        long: &[
            "columns",
            "help",
            "json",
            "output-separator",
            "output-width",
            "separator",
            "table",
            "table-columns",
            "version",
        ],
    },
];

/// The primaries of find that only look and print.
const FIND: [&str; 70] = [
    "-H",
    "-L",
    "-P",
    "-O1",
    "-O2",
    "-O3",
    "-a",
    "-amin",
    "-and",
    "-anewer",
    "-atime",
    "-cmin",
    "-cnewer",
    "-ctime",
    "-d",
    "-daystart",
    "-depth",
    "-empty",
    "-executable",
    "-false",
    "-follow",
    "-fstype",
    "-gid",
    "-group",
    "-help",
    "-ignore_readdir_race",
    "-ilname",
    "-iname",
    "-inum",
    "-ipath",
    "-iregex",
    "-iwholename",
    "-links",
    "-lname",
    "-ls",
    "-maxdepth",
    "-mindepth",
    "-mmin",
    "-mount",
    "-mtime",
    "-name",
    "-newer",
    "-newerct",
    "-newermt",
    "-nogroup",
    "-noleaf",
    "-not",
    "-nouser",
    "-nowarn",
    "-o",
    "-or",
    "-path",
    "-perm",
    "-print",
    "-print0",
    "-printf",
    "-prune",
    "-quit",
    "-readable",
    "-regex",
    "-regextype",
    "-samefile",
    "-size",
    "-true",
    "-type",
    "-uid",
    "-used",
    "-user",
    "-wholename",
    "-xtype",
];

/// The first option that is not known to be harmless.
fn strange_option<'w>(head: &str, words: &'w [Word]) -> Option<&'w str> {
    let texts = words.iter().skip(1).map(|word| word.text.as_str());
    let mut options = texts.filter(|text| text.len() > 1 && text.starts_with('-'));
    if head == "find" {
        return options.find(|text| {
            let number = text[1..].starts_with(|c: char| c.is_ascii_digit());
            let rights = words
                .windows(2)
                .any(|pair| pair[0].text == "-perm" && std::ptr::eq(pair[1].text.as_str(), *text));
            let is_mode = text.bytes().all(|b| b"-+=,ugoarwxXst01234567".contains(&b));
            !(number || rights && is_mode || FIND.contains(text) || *text == "-xdev")
        });
    }
    let row = HARMLESS.iter().find(|row| row.heads.contains(&head))?;
    if head == "date" {
        let sets = |word: &&Word| !word.text.starts_with(['-', '+']);
        let before = |at: usize| words[at].text.as_str();
        let value = |at: usize| matches!(before(at), "-d" | "-r" | "--date" | "--reference");
        let mut later = words.iter().enumerate().skip(1);
        if let Some((_, word)) = later.find(|(at, word)| sets(word) && !value(at - 1)) {
            return Some(&word.text);
        }
    }
    let mut at = 1;
    while let Some(word) = words.get(at) {
        at += 1;
        let text = word.text.as_str();
        if text == "--" {
            return None;
        }
        if let Some(long) = text.strip_prefix("--") {
            let name = long.split('=').next().unwrap_or(long);
            if !row.long.contains(&name) {
                return Some(text);
            }
        } else if let Some(bundle) = text.strip_prefix('-') {
            for (index, letter) in bundle.char_indices() {
                if row.valued.contains(letter) {
                    // Its value is the rest, or the next word.
                    at += usize::from(index + letter.len_utf8() == bundle.len());
                    break;
                }
                if !row.flags.contains(letter) && !letter.is_ascii_digit() {
                    return Some(text);
                }
            }
        }
    }
    None
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
