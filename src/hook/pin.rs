//! The files that a hook is made of, pinned by their hash at the start.
//!
//! The agent may be able to write where a hook's script lies. So the program and every argument that is a file are
//! hashed before the first model call and again before each run; a hook that changed does not run. The hash is compared
//! in place, and no copy is run, because scripts look for their neighbours through `$0`.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

/// A SHA-256.
pub(super) type Hash = [u8; 32];

/// One file of a hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pin {
    /// Its place in the command: 0 is the program.
    pub(super) index: usize,
    pub(super) path: PathBuf,
    pub(super) hash: Hash,
}

impl Pin {
    /// Pins the program, which has to be there, and every argument that is a file. Relative arguments are meant from
    /// `workspace`, where the hook runs.
    pub(super) fn all(
        command: &[String],
        program: &Path,
        workspace: &Path,
    ) -> io::Result<Vec<Self>> {
        let mut pins = vec![Self {
            index: 0,
            path: program.to_path_buf(),
            hash: hash(program)?,
        }];
        for (index, argument) in command.iter().enumerate().skip(1) {
            let path = workspace.join(argument);
            if path.is_file() {
                let hash = hash(&path)?;
                pins.push(Self { index, path, hash });
            }
        }
        Ok(pins)
    }

    /// Whether the file is not what it was, or cannot be read any more.
    pub(super) fn is_broken(&self) -> bool {
        hash(&self.path).map_or(true, |now| now != self.hash)
    }
}

/// The hash of a regular file. Anything else is refused: a FIFO or a device would be read without end.
fn hash(path: &Path) -> io::Result<Hash> {
    let mut file = crate::file::open(path)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(hasher.finalize().into()),
            Ok(count) => hasher.update(buffer.get(..count).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Hashes a list of fields so that no two lists look alike: each field goes in with its length.
#[derive(Default)]
pub(super) struct Fingerprint(Sha256);

impl Fingerprint {
    pub(super) fn add(&mut self, field: &[u8]) {
        self.0.update((field.len() as u64).to_be_bytes());
        self.0.update(field);
    }

    /// In lower-case hexadecimal.
    pub(super) fn finish(self) -> String {
        use std::fmt::Write as _;
        let mut text = String::with_capacity(64);
        for byte in self.0.finalize() {
            let _ = write!(text, "{byte:02x}");
        }
        text
    }
}

/// Finds a program as it will be started: a bare name on `search` (a `PATH`), anything else has to be absolute, so that
/// it means the same whatever the working directory is. An executable, regular file.
pub(super) fn resolve_program(program: &str, search: &str) -> Result<PathBuf, String> {
    let path = Path::new(program);
    if path.is_absolute() {
        return if is_executable(path) {
            Ok(path.to_path_buf())
        } else if path.is_file() {
            Err(format!(
                "`{program}` is not executable; run `chmod +x` on it"
            ))
        } else {
            Err(format!("`{program}` is not a file"))
        };
    }
    if program.is_empty() {
        return Err("the command is empty; give a program and its arguments".to_owned());
    }
    if program.contains('/') {
        return Err(format!(
            "`{program}` is relative; expected an absolute path or a name on PATH"
        ));
    }
    std::env::split_paths(search)
        .filter(|directory| directory.is_absolute())
        .map(|directory| directory.join(program))
        .find(|candidate| is_executable(candidate))
        .ok_or_else(|| format!("no program `{program}` on PATH `{search}`"))
}

#[cfg(unix)]
fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata()
        .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_executable(path: &Path) -> bool {
    path.is_file()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_program_and_arguments_that_are_files_are_pinned() {
        let directory = tempfile::tempdir().unwrap();
        let script = directory.path().join("guard.sh");
        fs::write(&script, "exit 0").unwrap();
        fs::write(directory.path().join("list.txt"), "a").unwrap();
        let command: Vec<String> = ["sh", script.to_str().unwrap(), "-x", "list.txt", "/"]
            .map(str::to_owned)
            .to_vec();
        let pins = Pin::all(&command, &script, directory.path()).unwrap();
        let indices: Vec<usize> = pins.iter().map(|pin| pin.index).collect();
        assert_eq!(indices, [0, 1, 3]);
        assert!(pins.iter().all(|pin| !pin.is_broken()));

        fs::write(directory.path().join("list.txt"), "b").unwrap();
        assert!(pins[2].is_broken());
        fs::remove_file(&script).unwrap();
        assert!(pins[0].is_broken());
    }

    #[test]
    fn a_file_that_became_something_else_is_broken() {
        let directory = tempfile::tempdir().unwrap();
        let script = directory.path().join("guard.sh");
        fs::write(&script, "exit 0").unwrap();
        let pins = Pin::all(&["x".to_owned()], &script, directory.path()).unwrap();
        fs::remove_file(&script).unwrap();
        fs::create_dir(&script).unwrap();
        assert!(pins[0].is_broken());
    }

    #[test]
    fn fields_do_not_run_into_each_other() {
        let of = |fields: &[&str]| {
            let mut fingerprint = Fingerprint::default();
            for field in fields {
                fingerprint.add(field.as_bytes());
            }
            fingerprint.finish()
        };
        assert_ne!(of(&["ab", "c"]), of(&["a", "bc"]));
        assert_eq!(of(&["ab"]), of(&["ab"]));
        assert_eq!(of(&[]).len(), 64);
    }

    #[cfg(unix)]
    #[test]
    fn programs_are_found_on_path_or_by_an_absolute_path() {
        use std::os::unix::fs::PermissionsExt as _;
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("guard");
        fs::write(&program, "").unwrap();
        let search = format!(":relative:{}", directory.path().display());

        let absolute = program.to_str().unwrap();
        let not_executable = resolve_program(absolute, "").unwrap_err();
        assert!(not_executable.contains("chmod +x"), "{not_executable}");
        assert!(resolve_program("guard", &search).is_err());

        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(resolve_program(absolute, "").unwrap(), program);
        assert_eq!(resolve_program("guard", &search).unwrap(), program);
        for bad in [
            "",
            "./guard",
            "hooks/guard",
            "guard2",
            "/",
            "/no/such/program",
        ] {
            assert!(resolve_program(bad, &search).is_err(), "{bad}");
        }
    }
}
