//! Our own environment, read once, and its secrets taken out of it.
//!
//! What a process was started with stays in its memory, where `/proc/PID/environ` shows it to root and `ps e` prints it,
//! whatever the process does with its variables later. So a program that finds a secret among them starts itself once more
//! without it, as the same process: the secrets go over in a file in memory, which is emptied when it has been read.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;

use crate::cli::say;

/// The variable that says under which number the file with the secrets is open.
const HANDED_OVER: &str = "AGENT_BATCH_HANDED_OVER";

/// Parts of a variable's name that make its value a secret.
const SECRET_PARTS: [&str; 6] = ["KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL"];

/// Whether the value of a variable with this name must never be stored or shown.
pub(super) fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    // It names a file, and who mistypes the name has to read it.
    name != super::settings::KEY_FILE && SECRET_PARTS.iter().any(|part| name.contains(part))
}

/// The environment, values that are no UTF-8 left out. Where that can be done, no secret is in our environment block when
/// this returns: it does not return before the program was started again.
///
/// # Errors
/// The secrets that were handed over cannot be read.
#[expect(
    clippy::disallowed_methods,
    reason = "this file is the one place that reads the environment"
)]
pub(super) fn read() -> io::Result<BTreeMap<String, String>> {
    let text = |value: OsString| value.into_string().ok();
    // A secret leaves the block also when it is no UTF-8 and so nothing that we could use.
    let has_secret = std::env::vars_os().any(|(name, _)| is_secret(&name.to_string_lossy()));
    let mut environment: BTreeMap<String, String> = std::env::vars_os()
        .filter_map(|(name, value)| Some((text(name)?, text(value)?)))
        .collect();
    if let Some(number) = environment.remove(HANDED_OVER) {
        environment.extend(secrets::receive(&number)?);
    } else if has_secret {
        let Err(error) = secrets::hand_over(&environment);
        // Nothing is worse than before, but the operator should not believe otherwise.
        if error.kind() != io::ErrorKind::Unsupported {
            say(&format!(
                "note: secrets stay in the environment block of agent-batch, where root can read them: {error}"
            ));
        }
    }
    Ok(environment)
}

#[cfg(target_os = "linux")]
mod secrets {
    use std::collections::BTreeMap;
    use std::convert::Infallible;
    use std::fs::File;
    use std::io::{self, Read, Write};
    use std::os::fd::AsRawFd;
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    use rustix::fs::{MemfdFlags, memfd_create};

    use super::{HANDED_OVER, is_secret};

    /// Starts the program again in this process, without the secrets of the environment. Returns only if that fails.
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the same process, and the same arguments"
    )]
    pub(super) fn hand_over(environment: &BTreeMap<String, String>) -> io::Result<Infallible> {
        let secrets = environment.iter().filter(|(name, _)| is_secret(name));
        let secrets: BTreeMap<&String, &String> = secrets.collect();
        // Inherited, as it has no flag that would close it.
        let mut file = File::from(memfd_create("secrets", MemfdFlags::empty())?);
        file.write_all(&serde_json::to_vec(&secrets)?)?;
        let mut arguments = std::env::args_os();
        let mut again = Command::new(std::env::current_exe()?);
        if let Some(name) = arguments.next() {
            again.arg0(name);
        }
        again
            .args(arguments)
            .env(HANDED_OVER, file.as_raw_fd().to_string());
        for (name, _) in std::env::vars_os() {
            if is_secret(&name.to_string_lossy()) {
                again.env_remove(name);
            }
        }
        Err(again.exec())
    }

    /// Reads what was handed over, once; no child inherits the file, nor anything else that was left open to us.
    pub(super) fn receive(number: &str) -> io::Result<BTreeMap<String, String>> {
        let number: u32 = number.parse().map_err(io::Error::other)?;
        let path = format!("/proc/self/fd/{number}");
        let mut file = File::options().read(true).write(true).open(path)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        file.set_len(0)?;
        close_fds::set_fds_cloexec(3, &[]);
        Ok(serde_json::from_slice(&bytes)?)
    }
}

/// Other systems show the environment of a process to its user and to root alone, and have no file in memory.
#[cfg(not(target_os = "linux"))]
mod secrets {
    use std::collections::BTreeMap;
    use std::convert::Infallible;
    use std::io;

    pub(super) fn hand_over(_environment: &BTreeMap<String, String>) -> io::Result<Infallible> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn receive(_number: &str) -> io::Result<BTreeMap<String, String>> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

#[cfg(test)]
mod tests {
    use super::is_secret;

    #[test]
    fn a_name_tells_whether_the_value_is_a_secret() {
        for name in [
            "ANTHROPIC_API_KEY",
            "github_token",
            "DB_PASSWD",
            "AWS_CREDENTIALS",
        ] {
            assert!(is_secret(name), "{name}");
        }
        for name in ["PATH", "HOME", "CI", "PASS"] {
            assert!(!is_secret(name), "{name}");
        }
    }
}
