//! What of the system not everybody may read: passwords, keys and tokens of services, whatever their names are
//! (`/etc/gitlab-runner/config.toml`, `/etc/krb5.keytab`). The owner of such a file is mostly root, and inside of the
//! sandbox a runner that is root still owns it, so it is taken away by its mode.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Where services keep their configuration.
const CONFIGURATION: &str = "/etc";
/// Most entries that are looked at, and how deep.
const MOST: usize = 100_000;
const DEPTH: usize = 16;
/// Most places that are hidden one by one: each is a mount of every call. Of more, what holds them is hidden.
const MOST_CLOSED: usize = 256;

/// What everybody needs of a directory: to list it and to go through; of a file: to read it.
const OPEN_DIRECTORY: u32 = 0o005;
const OPEN_FILE: u32 = 0o004;

/// The closed part of the system, looked for once.
pub(super) fn closed() -> &'static [PathBuf] {
    static CLOSED: OnceLock<Vec<PathBuf>> = OnceLock::new();
    CLOSED.get_or_init(|| {
        let root = Path::new(CONFIGURATION);
        let root = root.canonicalize().unwrap_or_else(|_| root.to_path_buf());
        closed_below(&root, MOST, MOST_CLOSED)
    })
}

/// The files and directories below `root` that not everybody may read. What could not be looked at counts as closed.
fn closed_below(root: &Path, most: usize, most_closed: usize) -> Vec<PathBuf> {
    let mut closed = Vec::new();
    let mut open = vec![(root.to_path_buf(), 0)];
    let mut looked = 0;
    while let Some((directory, depth)) = open.pop() {
        if looked > most || depth > DEPTH {
            closed.push(directory);
            continue;
        }
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            looked += 1;
            let Ok(found) = entry.metadata() else {
                continue;
            };
            let lacks = |bits: u32| found.mode() & bits != bits;
            if found.is_dir() && !lacks(OPEN_DIRECTORY) {
                open.push((entry.path(), depth + 1));
            } else if found.is_dir() || found.is_file() && lacks(OPEN_FILE) {
                closed.push(entry.path());
            }
        }
    }
    if closed.len() > most_closed {
        let holds = |path: &PathBuf| {
            let first = path.strip_prefix(root).ok()?.components().next()?;
            Some(root.join(first))
        };
        closed = closed.iter().filter_map(holds).collect();
    }
    closed.sort();
    closed.dedup();
    closed
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn what_not_everybody_may_read_is_found_by_its_mode() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        for (name, mode) in [
            ("runner/config.toml", 0o600),
            ("runner/open.toml", 0o644),
            ("vault/inner/key", 0o644),
            ("hosts", 0o644),
            ("keytab", 0o640),
            ("through/key", 0o644),
        ] {
            let path = root.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        }
        symlink("keytab", root.join("link")).unwrap();
        for (name, mode) in [("vault", 0o750), ("through", 0o711)] {
            fs::set_permissions(root.join(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        let names = |found: &[PathBuf]| -> Vec<String> {
            let name = |path: &PathBuf| path.strip_prefix(root).unwrap().display().to_string();
            found.iter().map(name).collect()
        };
        let found = closed_below(root, 100, 100);
        assert_eq!(
            names(&found),
            ["keytab", "runner/config.toml", "through", "vault"]
        );
        let found = closed_below(root, 100, 3);
        assert_eq!(names(&found), ["keytab", "runner", "through", "vault"]);
        let found = closed_below(root, 1, 100);
        assert!(names(&found).contains(&"runner".to_owned()), "{found:?}");
    }
}
