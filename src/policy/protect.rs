//! Paths that no ordinary rule opens: never-paths (P1), paths written only by a rule that names them (P2), secrets (P3),
//! the kernel's file systems.
//!
//! Names are compared folded, on the lexical and on the physical path; components of the workspace's own path do not
//! count, so a workspace may itself lie in a directory with such a name.

use std::path::Path;

use super::{Roots, fold, paths};

/// Files and directories, at any depth, that are written only by a rule that names them literally: they run code, or
/// steer an agent, for whoever opens the directory next.
const LITERAL_ONLY: [&str; 17] = [
    ".claude",
    ".codex",
    ".gemini",
    ".cursor",
    ".vscode",
    ".idea",
    ".husky",
    ".devcontainer",
    ".mcp.json",
    ".envrc",
    ".npmrc",
    ".gitattributes",
    ".gitmodules",
    ".pre-commit-config.yaml",
    "agents.md",
    "claude.md",
    "gemini.md",
];

/// Where the configuration of CI services stands: it runs code too.
const CI: [&str; 12] = [
    ".github/workflows",
    ".github/actions",
    ".gitea/workflows",
    ".forgejo/workflows",
    ".buildkite",
    ".circleci",
    ".gitlab-ci.yml",
    ".travis.yml",
    ".woodpecker",
    "azure-pipelines.yml",
    "bitbucket-pipelines.yml",
    "jenkinsfile",
];

/// Files whose content is a credential.
const SECRETS: [&str; 5] = [".env", ".netrc", ".npmrc", ".pypirc", ".git-credentials"];

/// The project's own files: configuration with the policy ceiling, and the default run directory.
const OWN: [&str; 2] = ["agent-batch.yaml", "agent-batch-results"];

/// The directory in which a CI runner keeps the command files of a job.
const RUNNER_FILES: &str = "_runner_file_commands";

/// The components that count for protection.
fn counting<'p>(path: &'p Path, roots: &Roots) -> Vec<&'p str> {
    let inside = std::iter::once(&roots.workspace)
        .chain(&roots.additional)
        .filter(|root| !root.as_os_str().is_empty())
        .find_map(|root| paths::below(root, path));
    inside
        .or_else(|| paths::components(path))
        .unwrap_or_default()
}

/// As [`counting`], folded.
fn counted(path: &Path, roots: &Roots) -> Vec<String> {
    paths::folded(&counting(path, roots))
}

/// Whether `path` is `root` or lies in it, after folding; a root that holds the whole workspace does not count inside.
fn covered(path: &Path, root: &Path, roots: &Roots) -> bool {
    if roots.workspace.starts_with(root) && path.starts_with(&roots.workspace) {
        return false;
    }
    let (Some(path), Some(root)) = (paths::components(path), paths::components(root)) else {
        return false;
    };
    path.len() >= root.len()
        && root
            .iter()
            .zip(&path)
            .all(|(own, other)| fold::component(own) == fold::component(other))
}

/// Whether a path, relative to a workspace, runs code or steers an agent for whoever uses the tree next.
#[must_use]
pub fn steers(path: &Path) -> bool {
    let Some(names) = path.to_str().map(|path| {
        let names: Vec<String> = path.split('/').map(fold::component).collect();
        names
    }) else {
        return false;
    };
    let whole = names.join("/");
    let ci = |known: &&str| whole == **known || whole.starts_with(&format!("{known}/"));
    names
        .iter()
        .any(|name| LITERAL_ONLY.contains(&name.as_str()) || is_git(name))
        || CI.iter().any(ci)
}

fn is_git(name: &str) -> bool {
    let short = name
        .strip_prefix("git~")
        .is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit()));
    name == ".git" || name.starts_with(".git:") || short
}

/// P1: never written, whatever the rules and the mode.
pub(super) fn is_never_written(path: &Path, roots: &Roots) -> bool {
    let names = counted(path, roots);
    names.iter().any(|name| is_git(name))
        || paths::below(&roots.workspace, path).is_some()
            && names
                .first()
                .is_some_and(|name| OWN.contains(&name.as_str()))
        || is_closed(path, roots)
        || roots.never_written().any(|root| covered(path, root, roots))
        || roots.output.iter().any(|root| covered(path, root, roots))
}

/// Whether removing or moving `path` would take a never-path with it.
pub(super) fn holds_never_written(path: &Path, roots: &Roots) -> bool {
    roots
        .never_written()
        .chain(&roots.closed)
        .any(|root| root.starts_with(path))
}

/// Whether a path lies in a run directory: below a directory that is never written and does not hold the workspace, or
/// below the default run directory. (A never-path that is a file has nothing below it.)
pub(super) fn is_of_a_run(path: &Path, roots: &Roots) -> bool {
    let default = roots.workspace.join(OWN[1]);
    let own = roots.never_written().chain(std::iter::once(&default));
    own.filter(|root| !roots.workspace.starts_with(root))
        .any(|root| path != root && path.starts_with(root))
}

/// Neither read nor written: the CI runner's command files.
pub(super) fn is_closed(path: &Path, roots: &Roots) -> bool {
    let mut names = counting(path, roots).into_iter();
    names.any(|name| fold::is(name, RUNNER_FILES))
        || roots.closed.iter().any(|root| covered(path, root, roots))
}

/// P2: the index of the deepest component (of the whole path) up to which a rule has to be literal.
pub(super) fn literal_up_to(path: &Path, roots: &Roots) -> Option<usize> {
    let names = counted(path, roots);
    let skipped = paths::components(path)?.len() - names.len();
    names
        .iter()
        .enumerate()
        .rev()
        .find(|(index, name)| {
            let name = name.as_str();
            let in_github = index
                .checked_sub(1)
                .is_some_and(|above| names[above] == ".github");
            LITERAL_ONLY.contains(&name) || in_github && matches!(name, "workflows" | "actions")
        })
        .map(|(index, _)| skipped + index)
}

/// P3: a file whose content is a credential.
pub(super) fn is_secret(path: &Path, roots: &Roots) -> bool {
    let names = counted(path, roots);
    let Some((name, above)) = names.split_last() else {
        return false;
    };
    let name = name.as_str();
    let ends = |end: &str| name.len() > end.len() && name.ends_with(end);
    let in_git = above.last().is_some_and(|directory| is_git(directory));
    SECRETS.contains(&name)
        || name
            .strip_prefix(".env.")
            .is_some_and(|kind| !matches!(kind, "example" | "sample" | "template"))
        || ["id_rsa", "id_ed25519", "id_ecdsa"]
            .iter()
            .any(|key| name.starts_with(key))
        || [".pem", ".key", ".p12", ".pfx"]
            .iter()
            .any(|end| ends(end) || name == *end)
        || in_git && matches!(name, "config" | "credentials")
}

/// The kernel's file systems, where a path is not what it seems.
pub(super) fn is_kernel(path: &Path) -> bool {
    ["/proc", "/sys", "/dev"]
        .iter()
        .any(|root| path.starts_with(root))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roots() -> Roots {
        Roots {
            workspace: "/w/.git/r".into(),
            never_write: vec!["/w/.git/r/task.yaml".into(), "/w".into()],
            ..Roots::default()
        }
    }

    #[test]
    fn a_directory_that_holds_the_workspace_closes_nothing_in_it() {
        assert!(!is_never_written(Path::new("/w/.git/r/src/a"), &roots()));
        assert!(is_never_written(Path::new("/w/other"), &roots()));
        assert!(is_never_written(Path::new("/w/.git/r/Task.yaml"), &roots()));
    }

    #[test]
    fn spellings_of_git_are_never_written() {
        for path in [
            ".git",
            "a/.GIT/x",
            "GIT~1/config",
            ".git::$INDEX_ALLOCATION/x",
            "agent-batch.yaml",
        ] {
            assert!(
                is_never_written(&Path::new("/w/.git/r").join(path), &roots()),
                "{path}"
            );
        }
        assert!(!is_never_written(
            Path::new("/w/.git/r/.gitignore"),
            &roots()
        ));
    }

    #[test]
    fn secrets_are_known_by_name() {
        for name in [".env", ".env.local", "id_rsa", "a.PEM", ".git/config"] {
            assert!(
                is_secret(&Path::new("/w/.git/r").join(name), &roots()),
                "{name}"
            );
        }
        for name in [".env.example", "env.rs", "keyring.rs", "config"] {
            assert!(
                !is_secret(&Path::new("/w/.git/r").join(name), &roots()),
                "{name}"
            );
        }
    }

    #[test]
    fn the_protected_part_of_a_path_ends_at_its_deepest_protected_name() {
        let index = |path: &str| literal_up_to(&Path::new("/w/.git/r").join(path), &roots());
        assert_eq!(index(".github/workflows/ci.yml"), Some(4));
        assert_eq!(index("a/.claude/AGENTS.md"), Some(5));
        assert_eq!(index(".github/CODEOWNERS"), None);
    }
}
