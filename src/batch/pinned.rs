//! The files that say what a run may do, pinned by their hash before the first model call.
//!
//! Task files and the project's file are read once, so a change has no effect on the run; but somebody who changes them
//! meanwhile has got somewhere where nobody should, or prepares the next run. Such a run is not to be trusted.
//!
//! Every attempt looks at all of them when it ends, so in a batch of a thousand files that is a million looks. A look is
//! cheap: a file whose stamp is the one under which its contents were last found right is not read again, and attempts that
//! end while others look share the next look. A stamp can be outwitted (memory that is mapped from a file of tmpfs is
//! written without one), so an attempt reads its own task file in any case.

use std::collections::BTreeSet;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use sha2::{Digest, Sha256};
use tokio::sync::Mutex;
use tokio::task::block_in_place;

use crate::clock::Clock;
use crate::file;

/// The largest file that is pinned: a task file cannot be larger.
const MOST: u64 = crate::task::LARGEST_FILE;

/// How many seconds old the last change of a file has to be for its stamp to be believed: two changes within one tick of the
/// file system's clock leave the same stamp.
const SETTLED: i64 = 1;

/// Files with the hashes that they had.
#[derive(Debug, Default)]
pub struct Pinned {
    clock: Clock,
    /// How many looks have begun.
    begun: AtomicU64,
    state: Mutex<State>,
    program: Option<(PathBuf, Option<Identity>)>,
}

/// Device, inode, size and time of the last change of a program. A program that runs cannot be written, only replaced.
type Identity = [u64; 4];

#[derive(Debug, Default)]
struct State {
    files: Vec<Pin>,
    /// The number of the last look, and what it found.
    look: u64,
    changed: Vec<PathBuf>,
}

#[derive(Debug)]
struct Pin {
    path: PathBuf,
    hash: Option<[u8; 32]>,
    /// The settled stamp under which the contents were found to be the pinned ones.
    right: Option<Stamp>,
}

/// What the file system says of a file. The change time cannot be set by a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    changed: (i64, i64),
    modified: (i64, i64),
}

impl Pinned {
    /// Pins files as they are now. One that does not exist has to stay away.
    #[must_use]
    pub fn new(files: impl IntoIterator<Item = PathBuf>, clock: Clock) -> Self {
        let files: BTreeSet<PathBuf> = files.into_iter().collect();
        let pin = |path: PathBuf| Pin {
            hash: hash(&path).ok(),
            path,
            right: None,
        };
        Self {
            clock,
            begun: AtomicU64::new(0),
            state: Mutex::new(State {
                files: files.into_iter().map(pin).collect(),
                look: 0,
                changed: Vec::new(),
            }),
            program: None,
        }
    }

    /// Pins our own program too: it starts every process of the run once more, as their supervisor.
    #[must_use]
    pub fn with_program(mut self, program: &Path) -> Self {
        self.program = Some((program.to_path_buf(), identity(program)));
        self
    }

    /// The files that are not what they were, and our own program behind them: found by a look that began after this
    /// was called. `own` is read even if it seems untouched. Needs a runtime of several threads, as it reads files.
    pub async fn changed(&self, own: &Path) -> Vec<PathBuf> {
        let arrived = self.begun.load(Ordering::SeqCst);
        let mut state = self.state.lock().await;
        if state.look <= arrived {
            // Looks follow each other, so the one that begins now is the only one.
            state.look = self.begun.fetch_add(1, Ordering::SeqCst) + 1;
            let now = self.clock.now().unix_timestamp();
            state.changed = block_in_place(|| {
                let files = state.files.iter_mut().filter_map(|pin| pin.look(now));
                let files = files.map(Path::to_path_buf);
                let program = self.program.iter();
                let program = program.filter(|(path, before)| identity(path) != *before);
                files.chain(program.map(|(path, _)| path.clone())).collect()
            });
        }
        let mut changed = state.changed.clone();
        let own = state.files.iter().find(|pin| pin.path == own);
        if let Some(own) = own
            && !changed.contains(&own.path)
            && block_in_place(|| hash(&own.path)).ok() != own.hash
        {
            changed.insert(0, own.path.clone());
        }
        changed
    }
}

impl Pin {
    /// Its path, if it is not what it was.
    fn look(&mut self, now: i64) -> Option<&Path> {
        let before = Stamp::of(&self.path);
        if before.is_some() && before == self.right {
            return None;
        }
        self.right = None;
        if hash(&self.path).ok() != self.hash {
            return Some(&self.path);
        }
        let settled = |stamp: &Stamp| stamp.changed.0.saturating_add(SETTLED) < now;
        self.right = before.filter(settled);
        None
    }
}

impl Stamp {
    fn of(path: &Path) -> Option<Self> {
        let found = std::fs::metadata(path).ok()?;
        Some(Self {
            device: found.dev(),
            inode: found.ino(),
            size: found.len(),
            changed: (found.ctime(), found.ctime_nsec()),
            modified: (found.mtime(), found.mtime_nsec()),
        })
    }
}

fn identity(path: &Path) -> Option<Identity> {
    let found = std::fs::metadata(path).ok()?;
    let changed = found.mtime().cast_unsigned();
    Some([found.dev(), found.ino(), found.size(), changed])
}

fn hash(path: &Path) -> io::Result<[u8; 32]> {
    Ok(Sha256::digest(file::read(path, MOST)?).into())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use time::OffsetDateTime;

    use super::*;

    /// Every stamp is settled for somebody who lives so much later.
    fn later() -> Clock {
        Clock::fixed(OffsetDateTime::from_unix_timestamp(1 << 37).unwrap())
    }

    async fn change_is_told(clock: Clock) {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        for name in ["same", "edited", "gone", "replaced"] {
            fs::write(path(name), name).unwrap();
        }
        let names = [
            "same", "edited", "gone", "new", "absent", "replaced", "same",
        ];
        let pinned = Pinned::new(names.map(path), clock);
        for _ in 0..2 {
            assert!(pinned.changed(Path::new("")).await.is_empty());
        }
        // Of the same length, and with the time of the last change set back.
        let modified = fs::metadata(path("edited")).unwrap().modified().unwrap();
        fs::write(path("edited"), "Edited").unwrap();
        let edited = fs::File::options()
            .write(true)
            .open(path("edited"))
            .unwrap();
        edited.set_modified(modified).unwrap();
        fs::remove_file(path("gone")).unwrap();
        fs::write(path("new"), "").unwrap();
        fs::write(path("other"), "Replaced").unwrap();
        fs::rename(path("other"), path("replaced")).unwrap();
        let told = ["edited", "gone", "new", "replaced"].map(path);
        assert_eq!(pinned.changed(Path::new("")).await, told);
        assert_eq!(pinned.changed(Path::new("")).await, told);
        fs::write(path("edited"), "edited").unwrap();
        assert_eq!(pinned.changed(Path::new("")).await, told[1..]);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_file_that_changes_comes_or_goes_is_told() {
        change_is_told(Clock::system()).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_file_is_not_read_again_while_its_settled_stamp_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("task.yaml");
        fs::write(&path, "a").unwrap();
        for (clock, is_believed) in [
            (later(), true),
            (Clock::fixed(OffsetDateTime::UNIX_EPOCH), false),
        ] {
            let pinned = Pinned::new([path.clone()], clock);
            assert!(pinned.changed(Path::new("")).await.is_empty());
            let right = pinned.state.lock().await.files[0].right;
            assert_eq!(right, Stamp::of(&path).filter(|_| is_believed));
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn an_attempt_reads_its_own_file_whatever_the_stamp_says() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("task.yaml");
        fs::write(&path, "a").unwrap();
        let pinned = Pinned::new([path.clone()], Clock::system());
        fs::write(&path, "b").unwrap();
        pinned.state.lock().await.files[0].right = Stamp::of(&path);
        assert!(pinned.changed(Path::new("other.yaml")).await.is_empty());
        assert_eq!(pinned.changed(&path).await, [path]);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn those_who_come_while_others_look_share_the_next_look() {
        let pinned = Pinned::default();
        let looking = pinned.state.lock().await;
        let all = futures_util::future::join_all((0..50).map(|_| pinned.changed(Path::new(""))));
        tokio::pin!(all);
        assert!(futures_util::poll!(&mut all).is_pending());
        drop(looking);
        all.await;
        assert_eq!(pinned.begun.load(Ordering::SeqCst), 1);
        pinned.changed(Path::new("")).await;
        assert_eq!(pinned.begun.load(Ordering::SeqCst), 2);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_program_that_is_replaced_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let (program, other) = (dir.path().join("program"), dir.path().join("other"));
        fs::write(&program, "one").unwrap();
        let pinned = Pinned::new([], Clock::system()).with_program(&program);
        assert!(pinned.changed(Path::new("")).await.is_empty());
        fs::write(&other, "two").unwrap();
        fs::rename(&other, &program).unwrap();
        assert_eq!(pinned.changed(Path::new("")).await, [program]);
    }
}
