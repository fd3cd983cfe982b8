//! Paths in task files: relative to the file that names them, resolved to what is really there.

use std::path::{Component, Path, PathBuf};

use super::super::diagnostic::quoted;
use super::{At, Context, Findings};

/// An existing directory, absolute and physical.
pub(super) fn directory(
    cx: &Context<'_>,
    named: &At<'_, &String>,
    findings: &mut Findings,
) -> Option<PathBuf> {
    let shown = quoted(named.value);
    if named.value.is_empty() {
        findings.error(
            &named.origin,
            "the path is empty",
            Some("write `.` for the file's own directory"),
        );
        return None;
    }
    if named.value.starts_with('~') {
        let message = format!("`~` has no meaning in the path {shown}");
        findings.error(
            &named.origin,
            message,
            Some("write the path out, or relative to this file"),
        );
        return None;
    }
    let base = named.origin.directory(&cx.options.cwd);
    let path = match &cx.options.mirror {
        Some(mirror) => lexical(&mirror.original(base).join(named.value)),
        None => base.join(named.value),
    };
    match std::fs::canonicalize(path) {
        Ok(path) if path.parent().is_none() => {
            let message = format!("the path {shown} is the root of the file system");
            findings.error(&named.origin, message, None);
            None
        }
        Ok(path) if path.is_dir() => Some(path),
        Ok(_) => {
            findings.error(&named.origin, format!("{shown} is not a directory"), None);
            None
        }
        Err(error) => {
            let message = format!("the directory {shown} cannot be used: {}", reason(&error));
            findings.error(
                &named.origin,
                message,
                Some("a path is relative to the file that names it"),
            );
            None
        }
    }
}

/// A path without `.` and `..`: a directory that it only passes through need not be there.
fn lexical(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => _ = plain.pop(),
            Component::CurDir => {}
            other => plain.push(other),
        }
    }
    plain
}

/// Why a file cannot be used, in the same words on every system.
pub(super) fn reason(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "it does not exist".to_owned(),
        std::io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        _ => error.to_string(),
    }
}

/// A program as an absolute path: one with a `/` relative to `base`, any other by the `PATH` in `environment`.
pub(super) fn program(name: &str, base: &Path, search: Option<&str>) -> Result<PathBuf, String> {
    if name.contains('/') {
        let path: PathBuf = base
            .join(name)
            .components()
            .filter(|component| *component != Component::CurDir)
            .collect();
        return match std::fs::metadata(&path) {
            Err(error) => Err(format!(
                "the program {} cannot be used: {}",
                quoted(name),
                reason(&error)
            )),
            Ok(_) if is_executable(&path) => Ok(path),
            Ok(_) => Err(format!("{} is not an executable file", quoted(name))),
        };
    }
    // A relative entry would look in whatever directory the run was started in.
    search
        .unwrap_or_default()
        .split(':')
        .map(Path::new)
        .filter(|directory| directory.is_absolute())
        .map(|directory| directory.join(name))
        .find(|path| is_executable(path))
        .ok_or_else(|| format!("the program {} is not in `PATH`", quoted(name)))
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(path)
        .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn programs_are_found_beside_the_file_or_by_path() {
        let directory = tempfile::tempdir().unwrap();
        let base = directory.path();
        std::fs::create_dir(base.join("hooks")).unwrap();
        let hook = base.join("hooks/check.sh");
        std::fs::write(&hook, "#!/bin/sh\n").unwrap();
        let not_yet = program("./hooks/check.sh", base, None).unwrap_err();
        assert!(not_yet.contains("not an executable file"), "{not_yet}");
        std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(program("./hooks/check.sh", base, None).unwrap(), hook);
        let search = format!("relative:{}/hooks", base.display());
        assert_eq!(
            program("check.sh", Path::new("/"), Some(&search)).unwrap(),
            hook
        );
        assert!(program("check.sh", base, Some("hooks")).is_err());
        assert!(program("./hooks", base, None).is_err());
    }
}
