//! Options with which a command only reads, for mode `plan`.
//!
//! The other way round than `guarded`: what is not listed counts against the command. The list is long and plain, and
//! so is the file. Commands without an option that writes or runs something need no row; which commands read at all
//! stands in `readonly`.

use super::words::Word;

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
pub(super) fn strange_option<'w>(head: &str, words: &'w [Word]) -> Option<&'w str> {
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
