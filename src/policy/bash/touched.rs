//! Which paths a command's words may name, and the two checks that need no rule: never-paths and critical removal.

use std::path::Path;

use super::super::pattern::Pattern;
use super::super::{Facts, Roots, paths, protect};
use super::deny_views::Command;
use super::guarded::rows;
use super::options::inspect;
use super::words::Word;
use super::wrappers::basename;

/// Commands that change the files that their arguments name.
const WRITING: [&str; 77] = [
    "cp",
    "mv",
    "ln",
    "rm",
    "rmdir",
    "mkdir",
    "install",
    "touch",
    "truncate",
    "dd",
    "chmod",
    "chown",
    "chgrp",
    "tee",
    "sed",
    "gsed",
    "patch",
    "tar",
    "gtar",
    "bsdtar",
    "unzip",
    "rsync",
    "shred",
    "unlink",
    "link",
    "split",
    "csplit",
    "zip",
    "sponge",
    "fallocate",
    "mkfifo",
    "mknod",
    "mktemp",
    "rename",
    "gzip",
    "gunzip",
    "bzip2",
    "bunzip2",
    "xz",
    "unxz",
    "zstd",
    "unzstd",
    "cpio",
    "ar",
    "pax",
    "7z",
    "setfacl",
    "chattr",
    "ed",
    "ex",
    "vi",
    "vim",
    "nvim",
    "emacs",
    "nano",
    "scp",
    "wget",
    "ssh-keygen",
    "curl",
    "objcopy",
    "strip",
    "prettier",
    "black",
    "isort",
    "autopep8",
    "yapf",
    "rustfmt",
    "gofmt",
    "goimports",
    "clang-format",
    "shfmt",
    "stylua",
    "biome",
    "dprint",
    "taplo",
    "markdownlint",
    "codespell",
];

/// Archivers with an option `--exclude` that takes a pattern.
const PACKING: [&str; 4] = ["tar", "gtar", "bsdtar", "rsync"];

/// Subcommands of git that change the files of the work tree, or any, that their arguments name.
const GIT_WRITING: [&str; 16] = [
    "am",
    "apply",
    "archive",
    "bundle",
    "checkout",
    "checkout-index",
    "clean",
    "clone",
    "format-patch",
    "init",
    "merge-file",
    "mv",
    "restore",
    "rm",
    "stash",
    "worktree",
];

/// How many commands of one line are asked which files their options write.
const MAX_INSPECTED: usize = 16;
/// The longest file name that may stand behind the letters of a bundle without a word before it.
const MAX_ATTACHED: usize = 64;

/// Commands that take away what lies below their arguments.
const REMOVING: [&str; 7] = ["rm", "rmdir", "mv", "unlink", "shred", "chmod", "chown"];

/// Whether a command changes the files that its arguments name.
pub(super) fn is_writing(name: &str) -> bool {
    WRITING.contains(&name)
}

/// Everything in a word that may be a path: the word, the value behind `=`, behind `@`, behind a short option.
pub(super) fn paths_in(word: &Word) -> Vec<&str> {
    let text = word.text.as_str();
    let mut parts = Vec::new();
    let value = text.split_once('=').map(|(_, value)| value);
    if !text.starts_with('-') {
        parts.push(text);
    } else if !text.starts_with("--") {
        // `-t` in `-vtNAME` takes the rest: the value may begin behind any letter of the bundle.
        let run = text[1..]
            .find(|c: char| !c.is_ascii_alphanumeric())
            .map_or(text.len(), |end| end + 1);
        let first = run.saturating_sub(MAX_ATTACHED).max(2);
        parts.extend((first..=run).filter_map(|at| text.get(at..)));
    }
    parts.extend(value);
    for part in parts.clone() {
        parts.extend(part.split_once('@').map(|(_, path)| path));
        parts.extend(part.split_once(':').map(|(_, path)| path));
    }
    parts.retain(|part| !part.is_empty() && part.len() <= 4096);
    parts
}

/// The forms of a path under one directory: by text, and where it leads if that is known.
pub(super) fn forms(dir: &str, path: &str, facts: &Facts) -> Vec<std::path::PathBuf> {
    let mut forms: Vec<std::path::PathBuf> = vec![paths::lexical(dir, path).into()];
    if let Some(facts) = facts.get(&paths::join(dir, path)) {
        for form in [&facts.lexical, &facts.physical] {
            if !forms.contains(form) {
                forms.push(form.clone());
            }
        }
    }
    forms
}

/// The word with which a command names a never-path, if it is one that writes; or a closed path, whatever it does.
pub(super) fn never_path<'v>(
    command: &'v Command,
    facts: &Facts,
    roots: &Roots,
) -> Option<&'v Word> {
    let names = |words: &'v [Word], closes: &dyn Fn(&Path, &Word) -> bool| {
        let closed = |word: &Word| {
            paths_in(word).into_iter().any(|part| {
                let mut forms = command.dirs.iter().flat_map(|dir| forms(dir, part, facts));
                forms.any(|path| closes(&path, word))
            })
        };
        let mut named = words.iter().enumerate();
        let named = named.find(|(at, word)| !is_left_out(command, words, *at) && closed(word));
        named.map(|(_, word)| word)
    };
    names(&command.words, &|path, _| protect::is_closed(path, roots))
        .or_else(|| {
            names(command.arguments_of(&WRITING), &|path, word| {
                protect::is_never_written(path, roots) || word.glob && glob_may_hit(path, roots)
            })
        })
        .or_else(|| {
            names(git_arguments(command), &|path, word| {
                protect::is_never_written(path, roots) || word.glob && glob_may_hit(path, roots)
            })
        })
        .or_else(|| {
            let arguments = command.arguments_of(&["find"]);
            let prints = |word: &Word| word.text.starts_with("-fprint") || word.text == "-fls";
            let mut files = arguments.windows(2).filter(|pair| prints(&pair[0]));
            files.find_map(|pair| {
                names(&pair[1..], &|path, _| {
                    protect::is_never_written(path, roots)
                })
            })
        })
        .or_else(|| {
            names(command.arguments_of(&REMOVING), &|path, _| {
                protect::holds_never_written(path, roots)
            })
        })
}

/// Whether a word of an archiver is the pattern of what it leaves out, and surely no value of the option before.
fn is_left_out(command: &Command, words: &[Word], at: usize) -> bool {
    const FLAGS: &str = "avzrlptgoDhPncuxHASqWikj";
    let text = |back: usize| {
        at.checked_sub(back)
            .map_or("", |at| words[at].text.as_str())
    };
    let packs = command
        .words
        .first()
        .is_some_and(|head| PACKING.contains(&basename(&head.text)));
    let no_value = match text(2) {
        "--delete" => true,
        text if text.starts_with("--") => text.contains('='),
        text => {
            text.trim_start_matches('-')
                .chars()
                .all(|c| FLAGS.contains(c))
                || !text.starts_with('-')
        }
    };
    packs && (text(0).starts_with("--exclude=") || text(1) == "--exclude" && no_value)
}

/// The words behind a subcommand of git that writes files.
fn git_arguments(command: &Command) -> &[Word] {
    let arguments = command.arguments_of(&["git"]);
    let writes = |word: &Word| GIT_WRITING.contains(&word.text.as_str());
    let subcommand = arguments.iter().position(writes);
    subcommand.map_or(&[], |at| &arguments[at + 1..])
}

/// The never-path that an option of a command writes, also one that no rule has to cover.
pub(super) fn never_by_option(command: &Command, facts: &Facts, roots: &Roots) -> Option<Word> {
    let heads = command
        .heads
        .iter()
        .filter(|head| rows(basename(&command.words[**head].text)).next().is_some());
    let mut written = heads
        .take(MAX_INSPECTED)
        .flat_map(|head| inspect(&command.words[*head..], 1).writes);
    written.find(|word| {
        let mut forms = command
            .dirs
            .iter()
            .flat_map(|dir| forms(dir, &word.text, facts));
        forms.any(|path| protect::is_never_written(&path, roots))
    })
}

/// Whether a path with wildcards could name a never-path.
fn glob_may_hit(path: &Path, roots: &Roots) -> bool {
    let Some(own) = paths::components(path) else {
        return true;
    };
    if own
        .iter()
        .any(|name| is_wild(name) && glob_matches(name, ".git"))
    {
        return true;
    }
    roots
        .never_written()
        .filter(|root| !roots.workspace.starts_with(root))
        .any(|root| match paths::components(root) {
            None => true,
            Some(theirs) => own
                .iter()
                .zip(&theirs)
                .all(|(own, other)| own == other || is_wild(own) && glob_matches(own, other)),
        })
}

fn is_wild(name: &str) -> bool {
    name.contains(['*', '?', '['])
}

/// Whether bash would expand a component to a name; a leading dot has to be written.
fn glob_matches(glob: &str, name: &str) -> bool {
    if name.starts_with('.') && !glob.starts_with('.') {
        return false;
    }
    Pattern::parse(glob).map_or(true, |pattern| pattern.allows(&[name]))
}

/// What an `rm` would remove that must stay: the root, a home, the working directory or what lies above it.
pub(super) fn critical_removal<'v>(
    command: &'v Command,
    facts: &Facts,
    roots: &Roots,
) -> Option<&'v Word> {
    let arguments = command.arguments_of(&["rm", "rmdir", "unlink", "shred"]);
    arguments.iter().find(|word| {
        let Some(text) = removed(word) else {
            return false;
        };
        if matches!(text, "~" | "$HOME" | "${HOME}" | "$PWD" | "${PWD}")
            || text.starts_with('~') && !text.contains('/')
        {
            return word.dynamic;
        }
        command.dirs.iter().any(|dir| {
            let here = Path::new(dir);
            forms(dir, text, facts).iter().any(|path| {
                roots.workspace.starts_with(path) || here.starts_with(path) || is_vital(path)
            })
        })
    })
}

/// The directory that an operand of `rm` would empty or remove.
fn removed(word: &Word) -> Option<&str> {
    let mut text = word.text.as_str();
    if text.is_empty() || text.starts_with('-') {
        return None;
    }
    text = text.trim_end_matches('/');
    if word.glob {
        text = ["/*", "/.*"]
            .iter()
            .find_map(|end| text.strip_suffix(end))
            .unwrap_or(text);
        if matches!(text, "*" | ".*") {
            return Some(".");
        }
    }
    Some(if text.is_empty() { "/" } else { text })
}

/// Directories of the system, and homes.
fn is_vital(path: &Path) -> bool {
    const SYSTEM: [&str; 11] = [
        "/root", "/home", "/Users", "/etc", "/usr", "/bin", "/sbin", "/lib", "/var", "/boot",
        "/opt",
    ];
    let above = path.parent().and_then(Path::to_str);
    matches!(above, Some("/home" | "/Users"))
        || SYSTEM.iter().any(|system| path == Path::new(system))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_may_begin_behind_any_letter_of_a_bundle() {
        let named = |text: &str, path: &str| {
            let word = Word::from_text(text);
            paths_in(&word).contains(&path)
        };
        assert!(named("-vt.git/hooks", ".git/hooks"));
        assert!(named("-vtsub/.git", "sub/.git"));
        assert!(named(&format!("-{}t.git", "v".repeat(500)), ".git"));
        assert!(named("--target-directory=.git", ".git"));
        assert!(!named("-vt.git", "vt.git"));
    }

    #[test]
    fn a_long_bundle_has_few_readings() {
        let word = Word::from_text(&format!("-{}", "v".repeat(4000)));
        assert!(paths_in(&word).len() <= 2 * MAX_ATTACHED);
        assert!(paths_in(&Word::from_text("-\u{e9}\u{e9}x")).len() < 4);
    }
}
