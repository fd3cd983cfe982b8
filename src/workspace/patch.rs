//! What changed, as a patch that `git apply` takes.
//!
//! Both sides of every changed file are read by us, through no link and within bounds, and given to `git fast-import` in an
//! empty repository of our own; `git diff-tree` then writes the patch. Git never looks at the workspace, so nothing that an
//! agent put there can run or mislead it. What must not leave the job in a patch (protected paths, links out of the tree,
//! other repositories, secrets) is left out, with the reason.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use super::base::{Base, LARGEST_KEPT, Original};
use super::git::{Call, Format, Git, create_repository, utf8};
use super::walk::is_sealed;
use super::{at, open_file};
use crate::event::{ChangeKind, Concern, ConcernKind, Omitted, PatchRecord};
use crate::policy::steers;
use crate::redact::Redactor;
use crate::text;

/// Most bytes of contents, both sides together, that go into a patch.
const CONTENTS: usize = 64 * 1024 * 1024;
/// Most changes whose contents are looked at.
const CHANGES: usize = 50_000;
/// How deep a path may be: git refuses a whole patch for one that is deeper than its own limit.
const DEEPEST: usize = 256;
/// How much of a file is looked at to tell text from other content, as git does.
const SNIFFED: usize = 8000;

/// One side of a changed path.
#[derive(Debug, PartialEq, Eq)]
struct Side {
    mode: Mode,
    content: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    File,
    Executable,
    Link,
}

impl Mode {
    fn octal(self) -> &'static str {
        match self {
            Self::File => "100644",
            Self::Executable => "100755",
            Self::Link => "120000",
        }
    }
}

/// A changed path with both sides.
#[derive(Debug)]
struct Entry {
    path: PathBuf,
    before: Option<Side>,
    after: Option<Side>,
}

/// What was found out about changes.
#[derive(Debug, Default)]
pub(super) struct Examined {
    entries: Vec<Entry>,
    concerns: Vec<Concern>,
    omitted: Vec<Omitted>,
}

/// What an examination needs to know.
pub(super) struct Examiner<'a> {
    pub(super) root: &'a Path,
    pub(super) base: &'a Base,
    /// Whether a path relative to the root is one that no task may write.
    pub(super) protected: &'a dyn Fn(&Path) -> bool,
    pub(super) redactor: &'a Redactor,
}

impl Examiner<'_> {
    /// Reads both sides of every change and says what is to be looked at and what cannot go into a patch.
    pub(super) fn examine(&self, changes: &[(PathBuf, ChangeKind)]) -> io::Result<Examined> {
        let repositories = self.repositories(changes);
        let mut examined = Examined::default();
        let mut room = CONTENTS;
        for (index, (path, kind)) in changes.iter().enumerate() {
            let shown = path.to_string_lossy().into_owned();
            let mut concern = |kind, detail: String| {
                examined.concerns.push(Concern {
                    path: shown.clone(),
                    kind,
                    detail,
                });
            };
            if steers(path) && *kind != ChangeKind::Deleted {
                concern(ConcernKind::Steering, String::new());
            }
            let reason = if repositories.iter().any(|inner| path.starts_with(inner)) {
                concern(ConcernKind::Repository, String::new());
                Some("it belongs to another repository inside the tree".to_owned())
            } else if (self.protected)(path) {
                Some("no task may write it".to_owned())
            } else if index >= CHANGES {
                Some(format!("there are more than {CHANGES} changes"))
            } else if path.components().count() > DEEPEST {
                concern(ConcernKind::NotAFile, "too deep".to_owned());
                Some(format!("it lies more than {DEEPEST} directories deep"))
            } else {
                match self.entry(path, *kind, room, &mut concern)? {
                    Ok(entry) => {
                        room -= entry.size();
                        examined.entries.push(entry);
                        None
                    }
                    Err(reason) => Some(reason),
                }
            };
            if let Some(reason) = reason {
                let path = shown;
                examined.omitted.push(Omitted { path, reason });
            }
        }
        Ok(examined)
    }

    /// Directories in which another repository begins, or began.
    fn repositories(&self, changes: &[(PathBuf, ChangeKind)]) -> BTreeSet<PathBuf> {
        let inside = |path: &Path| {
            let parent = path.parent().filter(|parent| *parent != Path::new(""));
            parent
                .filter(|_| path.file_name() == Some(OsStr::new(".git")))
                .map(Path::to_path_buf)
        };
        let now = changes.iter().filter_map(|(path, _)| inside(path));
        self.base.paths().filter_map(inside).chain(now).collect()
    }

    /// Both sides of a change, or why there are none.
    fn entry(
        &self,
        path: &Path,
        kind: ChangeKind,
        room: usize,
        concern: &mut impl FnMut(ConcernKind, String),
    ) -> io::Result<Result<Entry, String>> {
        let before = match self.before(path)? {
            Ok(before) => before,
            Err(reason) => return Ok(Err(reason)),
        };
        let after = match self.after(path, kind)? {
            Ok(after) => after,
            Err(reason) => {
                let found = self.root.join(path).symlink_metadata();
                if found.map_or_else(|error| is_sealed(&error), |found| !found.is_file()) {
                    concern(ConcernKind::NotAFile, String::new());
                }
                return Ok(Err(reason));
            }
        };
        let executable =
            |side: &Option<Side>| side.as_ref().map(|side| side.mode == Mode::Executable);
        match (executable(&before), executable(&after)) {
            (Some(false) | None, Some(true)) => concern(ConcernKind::Executable, "set".to_owned()),
            (Some(true), Some(false)) => concern(ConcernKind::Executable, "removed".to_owned()),
            _ => {}
        }
        if let Some(after) = &after {
            if after.mode == Mode::Link {
                let target = Path::new(OsStr::from_bytes(&after.content));
                if leads_out(path, target) {
                    concern(ConcernKind::LinkOutside, target.display().to_string());
                    return Ok(Err(format!(
                        "it leads out of the tree, to `{}`",
                        target.display()
                    )));
                }
            } else if after.content.iter().take(SNIFFED).any(|byte| *byte == 0) {
                concern(ConcernKind::Binary, text::bytes(after.content.len() as u64));
            }
        }
        let entry = Entry {
            path: path.to_path_buf(),
            before,
            after,
        };
        let secret = |bytes: &[u8]| self.redactor.redact_bytes(bytes) != bytes;
        let sides = || [&entry.before, &entry.after].into_iter().flatten();
        Ok(
            if secret(path.as_os_str().as_bytes()) || sides().any(|side| secret(&side.content)) {
                Err("it holds the value of a secret".to_owned())
            } else if entry.size() > room {
                Err(format!(
                    "the patch would hold more than {}",
                    text::bytes(CONTENTS as u64)
                ))
            } else {
                Ok(entry)
            },
        )
    }

    fn before(&self, path: &Path) -> io::Result<Result<Option<Side>, String>> {
        let side = match self.base.get(path) {
            None => None,
            Some(Original::Other) => return Ok(Err("there was no file before".to_owned())),
            Some(Original::Link(target)) => Some(Side {
                mode: Mode::Link,
                content: target.into_os_string().as_bytes().to_vec(),
            }),
            Some(Original::File { executable, .. }) => match self.base.read(path) {
                Ok(content) => Some(Side {
                    mode: file_mode(executable),
                    content,
                }),
                Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
                    return Ok(Err("its content before was too large to be kept".to_owned()));
                }
                Err(error) => return Err(error),
            },
        };
        Ok(Ok(side))
    }

    fn after(&self, path: &Path, kind: ChangeKind) -> io::Result<Result<Option<Side>, String>> {
        use std::os::unix::fs::PermissionsExt as _;

        let full = self.root.join(path);
        let found = match fs::symlink_metadata(&full) {
            Ok(found) => found,
            Err(error) if is_absent(&error) => return Ok(Ok(None)),
            Err(error) if is_sealed(&error) => {
                return Ok(Err(format!("it could not be read: {}", error.kind())));
            }
            Err(error) => return Err(at(&full, &error)),
        };
        if found.is_symlink() {
            let target = fs::read_link(&full).map_err(|error| at(&full, &error))?;
            let content = target.into_os_string().as_bytes().to_vec();
            let mode = Mode::Link;
            return Ok(Ok(Some(Side { mode, content })));
        }
        if found.is_dir() {
            // What is in one that can be read are changes of their own.
            return Ok(match kind {
                ChangeKind::Deleted => Ok(None),
                _ => {
                    Err("it is a directory that cannot be read, or too deep for a path".to_owned())
                }
            });
        }
        if !found.is_file() {
            return Ok(Err("it is a FIFO, a socket or a device".to_owned()));
        }
        if found.len() > LARGEST_KEPT {
            return Ok(Err(too_large()));
        }
        let mut content = Vec::new();
        let file = match open_file(&full) {
            Ok(file) => file,
            Err(error) => return Ok(Err(format!("it could not be read: {}", error.kind()))),
        };
        let mode = file_mode(file.metadata()?.permissions().mode() & 0o111 != 0);
        file.take(LARGEST_KEPT + 1)
            .read_to_end(&mut content)
            .map_err(|error| at(&full, &error))?;
        if content.len() as u64 > LARGEST_KEPT {
            return Ok(Err(too_large()));
        }
        Ok(Ok(Some(Side { mode, content })))
    }
}

fn too_large() -> String {
    format!("it is larger than {}", text::bytes(LARGEST_KEPT))
}

fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

fn file_mode(executable: bool) -> Mode {
    if executable {
        Mode::Executable
    } else {
        Mode::File
    }
}

/// Whether a link leads, or may lead, out of the tree. A way up after a way down may pass through another link, so it
/// counts as out.
fn leads_out(link: &Path, target: &Path) -> bool {
    let mut above = link.components().count().saturating_sub(1);
    let mut went_down = false;
    for component in target.components() {
        match component {
            Component::CurDir => {}
            Component::Normal(_) => went_down = true,
            Component::ParentDir if above > 0 && !went_down => above -= 1,
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return true,
        }
    }
    // A repository's own directory is out as well.
    target
        .components()
        .any(|component| component.as_os_str().eq_ignore_ascii_case(".git"))
}

impl Entry {
    fn size(&self) -> usize {
        let size = |side: &Option<Side>| side.as_ref().map_or(0, |side| side.content.len());
        size(&self.before) + size(&self.after)
    }
}

impl Examined {
    /// What a person should look at.
    pub(super) fn concerns(&self) -> &[Concern] {
        &self.concerns
    }

    /// Writes the patch to `file`, with the changes that are not in it at its top. `prefix` is where the workspace stands in
    /// its repository, so that the patch applies at the repository's root. Nothing is written when nothing can be.
    pub(super) async fn write(
        self,
        git: &Git,
        place: &Path,
        format: Format,
        prefix: &Path,
        file: &Path,
    ) -> io::Result<PatchRecord> {
        let omitted = self.omitted;
        if self.entries.is_empty() {
            return Ok(PatchRecord {
                omitted,
                ..PatchRecord::default()
            });
        }
        create_repository(place, format, true, "")?;
        let mut call = Call::new(
            place,
            &["fast-import", "--quiet", "--date-format=raw", "--done"],
        );
        call.input = stream(&self.entries, prefix);
        drop(self.entries);
        git.call(call).await?;
        let written = place.join("patch");
        let output = format!("--output={}", utf8(&written)?);
        let arguments = [
            "diff-tree",
            "-r",
            "-M",
            "-l400",
            "--binary",
            "--full-index",
            "--no-ext-diff",
            "--no-textconv",
            "--no-color",
            "--src-prefix=a/",
            "--dst-prefix=b/",
            &output,
            "refs/heads/before",
            "refs/heads/after",
        ];
        git.call(Call::new(place, &arguments)).await?;
        let bytes = finish(&written, &omitted, file).map_err(|error| at(file, &error))?;
        fs::remove_dir_all(place).map_err(|error| at(place, &error))?;
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        Ok(PatchRecord {
            file: if bytes > 0 {
                name.into_owned()
            } else {
                String::new()
            },
            bytes,
            omitted,
        })
    }
}

/// Copies what git wrote to its place, after lines that say what is missing; `git apply` skips those.
fn finish(written: &Path, omitted: &[Omitted], file: &Path) -> io::Result<u64> {
    use std::io::Write as _;

    let mut diff = fs::File::open(written)?;
    if diff.metadata()?.len() == 0 {
        return Ok(0);
    }
    let mut to = fs::File::create_new(file)?;
    for omitted in omitted {
        let path: String = omitted.path.escape_debug().collect();
        let reason: String = omitted.reason.escape_debug().collect();
        writeln!(to, "# not in this patch: {path}: {reason}")?;
    }
    io::copy(&mut diff, &mut to)?;
    Ok(to.metadata()?.len())
}

/// Two commits for `git fast-import`: the sides before, and after.
fn stream(entries: &[Entry], prefix: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    let commit = |name: &str, from: Option<&str>| {
        let head = format!("commit refs/heads/{name}\ncommitter agent-batch <> 0 +0000\ndata 0\n");
        let from = from.map_or_else(String::new, |from| format!("from refs/heads/{from}\n"));
        [head, from].concat().into_bytes()
    };
    let write = |bytes: &mut Vec<u8>, path: &Path, side: &Side| {
        bytes.extend(format!("M {} inline ", side.mode.octal()).bytes());
        bytes.extend(quote(&prefix.join(path)));
        bytes.extend(format!("\ndata {}\n", side.content.len()).bytes());
        bytes.extend(&side.content);
        bytes.push(b'\n');
    };
    bytes.extend(commit("before", None));
    for entry in entries {
        if let Some(before) = &entry.before {
            write(&mut bytes, &entry.path, before);
        }
    }
    bytes.extend(commit("after", Some("before")));
    // A file may have become a directory, so what is gone goes first.
    for entry in entries.iter().filter(|entry| entry.after.is_none()) {
        bytes.extend(b"D ");
        bytes.extend(quote(&prefix.join(&entry.path)));
        bytes.push(b'\n');
    }
    for entry in entries {
        if let Some(after) = &entry.after {
            write(&mut bytes, &entry.path, after);
        }
    }
    bytes.extend(b"done\n");
    bytes
}

/// A path as `git fast-import` reads it.
fn quote(path: &Path) -> Vec<u8> {
    let mut quoted = vec![b'"'];
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'"' | b'\\' => quoted.extend([b'\\', *byte]),
            0x20..=0x7e => quoted.push(*byte),
            _ => quoted.extend(format!("\\{byte:03o}").bytes()),
        }
    }
    quoted.push(b'"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_that_may_lead_out_of_the_tree_does() {
        for (link, target) in [
            ("a", "/etc/passwd"),
            ("a", "../x"),
            ("d/a", "../../x"),
            ("d/a", "sub/../../x"),
            ("d/a", "../.git/hooks"),
            ("a", ".GIT/config"),
        ] {
            assert!(
                leads_out(Path::new(link), Path::new(target)),
                "{link} -> {target}"
            );
        }
        for (link, target) in [
            ("a", "b"),
            ("d/a", "../b"),
            ("d/e/a", "../../b/c"),
            ("a", "./b"),
        ] {
            assert!(
                !leads_out(Path::new(link), Path::new(target)),
                "{link} -> {target}"
            );
        }
    }

    #[test]
    fn every_path_is_quoted_for_git() {
        let path = Path::new(OsStr::from_bytes(b"a \"b\"\\\n\xc3\xa4\xff"));
        assert_eq!(quote(path), br#""a \"b\"\\\012\303\244\377""#);
    }
}
