//! Unix sockets that somebody listens on, by the kernel's own list: the door to a daemon may stand in any directory that is
//! read, and a network namespace does not close it.

use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use super::Plan;

/// The sockets of our network namespace. One of another namespace is not in it; where those usually are (`/run`), nothing
/// is mounted.
const LIST: &str = "/proc/net/unix";
/// Most bytes of the list that are read, and most sockets that are hidden.
const MOST_BYTES: u64 = 4 * 1024 * 1024;
const MOST: usize = 500;

impl Plan {
    /// The sockets by their physical paths that would be seen, and are not hidden otherwise.
    pub(super) fn listeners(&self) -> Vec<PathBuf> {
        let mut list = Vec::new();
        let read = File::open(LIST).and_then(|file| file.take(MOST_BYTES).read_to_end(&mut list));
        if read.is_err() {
            return Vec::new();
        }
        let hidden = self.hidden_and_visible();
        let mut found: Vec<PathBuf> = paths(&String::from_utf8_lossy(&list))
            .filter_map(|path| path.canonicalize().ok())
            .filter(|path| self.is_visible(path))
            .filter(|path| !hidden.iter().any(|hidden| path.starts_with(hidden)))
            .filter(|path| fs::metadata(path).is_ok_and(|found| found.file_type().is_socket()))
            .take(MOST)
            .collect();
        found.sort();
        found.dedup();
        found
    }
}

/// The paths in a list, abstract names left out.
fn paths(list: &str) -> impl Iterator<Item = &Path> {
    list.lines().skip(1).filter_map(|line| {
        // Seven columns, then the path with whatever is in it.
        let at = line.find(" /")?;
        line.get(at + 1..).map(Path::new)
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn paths_may_hold_spaces_and_abstract_names_are_no_paths() {
        let list = "Num       RefCount Protocol Flags    Type St Inode Path\n\
                    ffff: 00000002 00000000 00010000 0001 01 12 /run/a b.sock\n\
                    ffff: 00000002 00000000 00010000 0001 01 13 @/tmp/abstract\n\
                    ffff: 00000003 00000000 00000000 0001 03 14\n";
        assert_eq!(
            paths(list).collect::<Vec<_>>(),
            [Path::new("/run/a b.sock")]
        );
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_listener_in_a_directory_that_is_read_is_found_and_no_other_one() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        for part in ["read", "other", "hidden"] {
            fs::create_dir(root.join(part)).unwrap();
        }
        let listen = |name: &str| UnixListener::bind(root.join(name)).unwrap();
        let _kept = [listen("read/s"), listen("other/s"), listen("hidden/s")];
        let plan = Plan {
            readable: vec![root.join("read"), root.join("hidden")],
            hidden: vec![root.join("hidden")],
            ..Plan::default()
        };
        assert_eq!(plan.listeners(), [root.join("read/s")]);
    }
}
