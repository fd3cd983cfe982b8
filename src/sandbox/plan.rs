//! Which paths a task's processes may use: one list for all layers.

use std::collections::BTreeMap;
use std::io;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Network;
use super::repository::{git_below, work_tree};
use super::toolchain::{belongings, link_targets};

/// The system: read and run by everybody, written by nobody. Where one of them is a link (`/bin`), the link is kept.
pub(super) const SYSTEM: [&str; 12] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/etc",
    "/opt",
    "/nix",
    "/gnu",
    "/var/lib/dpkg",
];
/// Parts of the system that hold credentials.
const SYSTEM_SECRETS: [&str; 11] = [
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/etc/ssh",
    "/etc/ssl/private",
    "/etc/kubernetes",
    "/etc/docker",
    "/etc/NetworkManager",
];
/// Parts of a home directory that hold credentials. A home is not there unless the workspace lies in it or is it; then
/// these are still not.
const HOME_SECRETS: [&str; 17] = [
    ".ssh",
    ".aws",
    ".azure",
    ".gnupg",
    ".kube",
    ".docker",
    ".netrc",
    ".npmrc",
    ".pypirc",
    ".git-credentials",
    ".config/gh",
    ".config/gcloud",
    ".config/git/credentials",
    ".config/hub",
    ".password-store",
    ".bash_history",
    ".local/share/keyrings",
];
/// Parts of Cargo's home that hold credentials.
const CARGO_SECRETS: [&str; 2] = ["credentials", "credentials.toml"];
/// Names at the root of a workspace that run code, or steer an agent, for whoever opens the directory next.
const STEERING: [&str; 19] = [
    ".claude",
    ".codex",
    ".cursor",
    ".devcontainer",
    ".gemini",
    ".github",
    ".husky",
    ".idea",
    ".vscode",
    ".envrc",
    ".gitattributes",
    ".gitmodules",
    ".mcp.json",
    ".npmrc",
    ".pre-commit-config.yaml",
    "AGENTS.md",
    "CLAUDE.md",
    "GEMINI.md",
    ".gitconfig",
];
/// Which paths a task's processes may use. All paths are absolute and physical.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Read, written and run.
    pub writable: Vec<PathBuf>,
    /// Read and run.
    pub readable: Vec<PathBuf>,
    /// Not there, whatever else is.
    pub hidden: Vec<PathBuf>,
    /// Directories that are there and empty, because a path leads through them: `tasks/../hooks/a.sh`.
    pub passages: Vec<PathBuf>,
    /// Read at most, though they lie in something that is written.
    pub protected: Vec<Protected>,
    /// Whether the network is reached.
    pub network: Network,
    /// What is protected and was a link when the plan was made. A link cannot be pinned; what it leads to is.
    #[serde(default)]
    pub known_links: Vec<PathBuf>,
}

/// A path that stays as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Protected {
    /// Where.
    pub path: PathBuf,
    /// What to do where there is nothing.
    pub missing: Missing,
}

/// What keeps a protected path from being made where there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Missing {
    /// An empty directory, as long as a process runs: nothing can be put in the place of a mount, and `git status` does
    /// not show it, as it would an empty file.
    Placeholder,
    /// Nothing: the path only matters when it is there.
    Leave,
}

/// A part of the sandbox's file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A link to be made, and where it leads.
    Link(PathBuf, PathBuf),
    /// See [`Plan::readable`].
    Readable(PathBuf),
    /// See [`Plan::writable`].
    Writable(PathBuf),
}

impl Place {
    fn path(&self) -> &Path {
        match self {
            Self::Link(path, _) | Self::Readable(path) | Self::Writable(path) => path,
        }
    }
}

impl Plan {
    /// The plan for a workspace: writable with the private home and temporary directory, beside them the system, and the
    /// toolchains that `environment` names, to read. `.git` is protected at every depth that is looked at.
    #[must_use]
    pub fn new(
        workspace: &Path,
        home: &Path,
        tmp: &Path,
        environment: &BTreeMap<String, String>,
    ) -> Self {
        let mut plan = Self {
            writable: vec![
                workspace.to_path_buf(),
                home.to_path_buf(),
                tmp.to_path_buf(),
            ],
            readable: SYSTEM.map(PathBuf::from).to_vec(),
            hidden: SYSTEM_SECRETS.map(PathBuf::from).to_vec(),
            ..Self::default()
        };
        // A part of the system that is a link leads somewhere.
        for part in SYSTEM
            .iter()
            .filter_map(|part| Path::new(part).canonicalize().ok())
        {
            plan.read(&part);
        }
        plan.add_toolchains(environment);
        plan.add_git(workspace);
        plan
    }

    /// Hides the credentials of a home directory, the real one of whoever runs us.
    pub fn hide_home(&mut self, home: &Path) {
        self.hidden
            .extend(HOME_SECRETS.iter().map(|name| home.join(name)));
        self.hidden.extend(
            CARGO_SECRETS
                .iter()
                .map(|name| home.join(".cargo").join(name)),
        );
    }

    /// Protects a path.
    pub fn protect(&mut self, path: PathBuf, missing: Missing) {
        // By bytes: there may be thousands, and to compare paths by their components is slow.
        let is_path = |known: &Protected| known.path.as_os_str() == path.as_os_str();
        if !self.protected.iter().any(is_path) {
            self.protected.push(Protected { path, missing });
        }
    }

    /// Protects the names at the root of the workspace that steer whoever works there next, but for those that `permitted`
    /// says a rule of the task names.
    pub fn protect_steering(&mut self, workspace: &Path, permitted: impl Fn(&str) -> bool) {
        for name in STEERING.into_iter().filter(|name| !permitted(name)) {
            self.protect(workspace.join(name), Missing::Placeholder);
        }
    }

    /// Opens or closes the network; names are resolved as the machine does.
    pub fn set_network(&mut self, network: Network) {
        self.network = network;
        if network == Network::Allow
            && let Ok(resolver) = Path::new("/etc/resolv.conf").canonicalize()
        {
            self.read(&resolver);
        }
    }

    /// Lets a program be found by this path, whatever it leads through, and read with what lies beside it.
    pub fn read_program(&mut self, path: &Path) {
        self.passages.extend(passages(path));
        let Ok(file) = path.canonicalize() else {
            return;
        };
        // Where it can be written it is kept from that: it runs with the next call.
        if self.writable.iter().any(|place| file.starts_with(place)) {
            return self.protect(file, Missing::Leave);
        }
        self.read(&file);
        // A program in a home directory does not open the home.
        if let Some(beside) = file
            .parent()
            .filter(|beside| !self.hidden.iter().any(|hidden| hidden.starts_with(beside)))
        {
            self.read(beside);
        }
    }

    /// Lets a file or a directory be read, unless it holds far more than it can be meant to.
    pub fn read(&mut self, path: &Path) {
        let wide = path
            .components()
            .filter(|part| matches!(part, Component::Normal(_)))
            .count()
            < 2;
        if !wide && self.readable.iter().all(|known| known != path) {
            self.readable.push(path.to_path_buf());
        }
    }

    /// The search path's directories and what belongs to them, and the homes of the Rust toolchain.
    fn add_toolchains(&mut self, environment: &BTreeMap<String, String>) {
        for name in ["CARGO_HOME", "RUSTUP_HOME"] {
            if let Some(home) = environment
                .get(name)
                .map(PathBuf::from)
                .filter(|home| home.is_absolute())
            {
                self.hidden
                    .extend(CARGO_SECRETS.iter().map(|secret| home.join(secret)));
                self.read(&home);
            }
        }
        let search = environment.get("PATH").map_or("", String::as_str);
        for entry in search
            .split(':')
            .map(Path::new)
            .filter(|entry| entry.is_absolute())
        {
            let Ok(entry) = entry.canonicalize() else {
                continue;
            };
            // What the task can write says nothing about what it may read.
            if self.writable.iter().any(|place| entry.starts_with(place)) {
                continue;
            }
            for part in belongings(&entry) {
                self.read(&part);
            }
            // What is started by a link lies where the link leads: `~/.local/bin/tool`.
            for target in link_targets(&entry) {
                self.read(&target);
            }
        }
    }

    /// Protects the repository of a directory that is written beside the workspace.
    pub fn protect_repository(&mut self, directory: &Path) {
        self.add_git(directory);
    }

    /// Protects `.git` in and below the workspace; lets the real one of a work tree be read.
    fn add_git(&mut self, workspace: &Path) {
        let own = workspace.join(".git");
        for found in git_below(workspace) {
            self.protect(found, Missing::Leave);
        }
        if let Ok((directory, common)) = work_tree(&own) {
            for path in [directory, common] {
                self.read(&path);
                self.protect(path, Missing::Leave);
            }
        }
        self.protected.retain(|known| known.path != own);
        self.protect(own, Missing::Placeholder);
        // A workspace in the middle of a repository: history is read, the rest of the tree is not there.
        let around = workspace
            .ancestors()
            .skip(1)
            .map(|above| above.join(".git"));
        if let Some(repository) = around.into_iter().find(|git| git.join("HEAD").is_file()) {
            self.read(&repository);
        }
    }

    /// Leaves out what changes nothing: what does not exist, what lies in something that is read or written anyway, what
    /// would not be seen. Done once, before many processes are held to the plan.
    #[must_use]
    pub fn settled(mut self) -> Self {
        let (links, mut roots): (Vec<PathBuf>, Vec<PathBuf>) = self
            .readable
            .iter()
            .filter(|path| path.exists())
            .cloned()
            .partition(|path| path.is_symlink());
        let outer = roots.clone();
        let written = |path: &Path| self.writable.iter().any(|place| path.starts_with(place));
        roots.retain(|path| {
            !outer
                .iter()
                .any(|outer| outer != path && path.starts_with(outer))
        });
        roots.extend(links);
        roots.retain(|path| !written(path));
        // What a link in the search path leads to does not open what is hidden.
        roots.retain(|path| !self.hidden.iter().any(|hidden| path.starts_with(hidden)));
        self.readable = roots;
        self.hidden = self.hidden_and_visible();
        self.known_links = self
            .protected
            .iter()
            .map(|known| known.path.clone())
            .filter(|path| path.is_symlink())
            .collect();
        self
    }

    /// Looks, before each call, whether every path that is mounted in a writable place still leads where it led: a call
    /// before may have put a link in its way, and mounts follow links.
    ///
    /// # Errors
    /// A path that has become a link; nothing must be started then.
    pub(super) fn check(&self) -> io::Result<()> {
        let protected = self.protected.iter().map(|known| &known.path);
        let above = self.above_protected();
        let hidden = self.hidden_and_visible();
        let mounted = protected
            .chain(&above)
            .chain(&hidden)
            .chain(&self.writable)
            .chain(&self.readable);
        for path in mounted {
            for place in self
                .writable
                .iter()
                .filter(|place| path.starts_with(place) && path != *place)
            {
                let links = path
                    .ancestors()
                    .take_while(|part| part != place)
                    .filter(|part| {
                        part.is_symlink() && !self.known_links.iter().any(|known| known == part)
                    });
                if let Some(link) = links.last() {
                    let message = format!(
                        "`{}` has become a symbolic link, so the sandbox cannot be built",
                        link.display()
                    );
                    return Err(io::Error::other(message));
                }
            }
        }
        Ok(())
    }

    /// What is mounted, outer before inner. What is written stays so, also where it is in the search path.
    pub(super) fn places(&self) -> Vec<Place> {
        let readable = self.readable.iter().map(|path| match path.read_link() {
            Ok(target) => Place::Link(path.clone(), target),
            Err(_) => Place::Readable(path.clone()),
        });
        let writable = self
            .writable
            .iter()
            .map(|path| Place::Writable(path.clone()));
        let mut places: Vec<Place> = readable.chain(writable).collect();
        places.sort_by_key(|place| place.path().components().count());
        let mut seen = std::collections::BTreeSet::new();
        places.retain(|place| seen.insert(place.path().to_path_buf()));
        // A link in a directory that is mounted itself is there already, and cannot be made again.
        let mounted: Vec<PathBuf> = places
            .iter()
            .filter(|place| !matches!(place, Place::Link(..)))
            .map(|place| place.path().to_path_buf())
            .collect();
        places.retain(|place| match place {
            Place::Link(path, _) => !mounted.iter().any(|above| path.starts_with(above)),
            Place::Readable(_) | Place::Writable(_) => true,
        });
        places
    }

    /// Whether the path lies in something that is read or written.
    pub(super) fn is_visible(&self, path: &Path) -> bool {
        self.readable
            .iter()
            .chain(&self.writable)
            .any(|place| path.starts_with(place))
    }

    /// What is hidden, is there, and would be seen.
    pub(super) fn hidden_and_visible(&self) -> Vec<PathBuf> {
        let mut hidden: Vec<PathBuf> = self
            .hidden
            .iter()
            .filter(|path| self.is_visible(path))
            .cloned()
            .collect();
        hidden.retain(|path| {
            path.symlink_metadata()
                .is_ok_and(|found| !found.is_symlink())
        });
        hidden.sort();
        hidden.dedup();
        hidden
    }

    /// The directories that hold something protected, outer before inner, but for those that are protected themselves.
    pub(super) fn above_protected(&self) -> Vec<PathBuf> {
        let mut above: Vec<PathBuf> = self
            .protected
            .iter()
            .flat_map(|protected| self.between(&protected.path))
            .collect();
        above.retain(|path| {
            !self
                .protected
                .iter()
                .any(|protected| path.starts_with(&protected.path))
        });
        above.sort();
        above.dedup();
        above
    }

    /// The directories between the writable place that holds `path`, and `path`.
    pub(super) fn between(&self, path: &Path) -> Vec<PathBuf> {
        let Some(root) = self
            .writable
            .iter()
            .filter(|root| path.starts_with(root))
            .max_by_key(|root| root.as_os_str().len())
        else {
            return Vec::new();
        };
        let mut above: Vec<PathBuf> = path
            .ancestors()
            .skip(1)
            .take_while(|above| *above != root)
            .map(Path::to_path_buf)
            .collect();
        above.reverse();
        above
    }
}

/// The directories that a path enters and leaves again.
fn passages(path: &Path) -> Vec<PathBuf> {
    let (mut found, mut here) = (Vec::new(), PathBuf::new());
    for part in path.components() {
        if part == Component::ParentDir {
            found.push(here.clone());
            here.pop();
        } else {
            here.push(part);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn path(environment: &str) -> BTreeMap<String, String> {
        BTreeMap::from([("PATH".to_owned(), environment.to_owned())])
    }

    #[test]
    fn a_repository_is_protected_where_it_is_and_where_it_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        fs::create_dir_all(root.join("vendor/lib/.git")).unwrap();
        let plan = Plan::new(root, Path::new("/h"), Path::new("/t"), &BTreeMap::new());
        assert_eq!(
            plan.protected,
            [
                Protected {
                    path: root.join("vendor/lib/.git"),
                    missing: Missing::Leave
                },
                Protected {
                    path: root.join(".git"),
                    missing: Missing::Placeholder
                },
            ]
        );
        assert_eq!(
            plan.between(&root.join("vendor/lib/.git")),
            [root.join("vendor"), root.join("vendor/lib")]
        );
        assert_eq!(plan.between(&root.join(".git")), [] as [PathBuf; 0]);
    }

    #[test]
    fn a_work_tree_s_repository_is_read_and_a_file_that_leads_elsewhere_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let (tree, common) = (root.join("tree"), root.join("main/.git"));
        let own = common.join("worktrees/tree");
        for directory in [&tree, &own, &common.join("objects"), &common.join("refs")] {
            fs::create_dir_all(directory).unwrap();
        }
        fs::write(tree.join(".git"), format!("gitdir: {}\n", own.display())).unwrap();
        assert!(
            work_tree(&tree.join(".git")).is_err(),
            "there is no HEAD yet"
        );
        fs::write(own.join("HEAD"), "ref: refs/heads/a\n").unwrap();
        fs::write(own.join("commondir"), "../..\n").unwrap();
        assert_eq!(
            work_tree(&tree.join(".git")).unwrap(),
            (own, common.clone())
        );
        let plan = Plan::new(&tree, Path::new("/h"), Path::new("/t"), &BTreeMap::new());
        assert!(plan.readable.contains(&common));

        let secret = root.join("home/.ssh");
        fs::create_dir_all(&secret).unwrap();
        fs::write(tree.join(".git"), format!("gitdir: {}\n", secret.display())).unwrap();
        let plan = Plan::new(&tree, Path::new("/h"), Path::new("/t"), &BTreeMap::new());
        assert!(!plan.readable.contains(&secret));
    }

    #[test]
    fn a_search_path_opens_toolchains_and_no_home() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().canonicalize().unwrap();
        for part in [
            ".pyenv/shims",
            ".local/bin",
            ".local/share/keyrings",
            ".ssh",
        ] {
            fs::create_dir_all(home.join(part)).unwrap();
        }
        let search = format!(
            "{0}/.pyenv/shims:{0}/.local/bin:relative:/:/gone",
            home.display()
        );
        let plan = Plan::new(
            Path::new("/ws"),
            Path::new("/h"),
            Path::new("/t"),
            &path(&search),
        );
        assert!(plan.readable.contains(&home.join(".pyenv")));
        assert!(plan.readable.contains(&home.join(".local/bin")));
        for closed in [
            &home,
            &home.join(".local"),
            &home.join(".local/share"),
            Path::new("/"),
        ] {
            assert!(
                !plan.readable.iter().any(|path| path == closed),
                "{}",
                closed.display()
            );
        }
    }

    #[test]
    fn a_path_leads_through_what_it_enters_and_leaves() {
        assert_eq!(
            passages(Path::new("/a/b/../c/./d/../e")),
            [Path::new("/a/b"), Path::new("/a/c/d")]
        );
        assert!(passages(Path::new("/a/b")).is_empty());
    }

    #[test]
    fn outer_places_come_first_and_what_is_written_stays_so() {
        let plan = Plan {
            writable: vec!["/usr/share".into()],
            readable: vec![
                "/usr/share/doc".into(),
                "/usr/nothing".into(),
                "/usr".into(),
            ],
            ..Plan::default()
        };
        let places = plan.settled().places();
        assert_eq!(places[0], Place::Readable("/usr".into()));
        assert_eq!(places[1], Place::Writable("/usr/share".into()));
        assert_eq!(
            places.len(),
            2,
            "what does not exist, or is written anyway, is left out"
        );
    }

    #[test]
    fn only_what_would_be_seen_is_hidden() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path();
        fs::create_dir(home.join(".ssh")).unwrap();
        let mut plan = Plan {
            writable: vec![home.join("ws")],
            ..Plan::default()
        };
        plan.hide_home(home);
        assert_eq!(plan.hidden_and_visible(), [] as [PathBuf; 0]);
        plan.writable = vec![home.to_path_buf()];
        assert_eq!(plan.hidden_and_visible(), [home.join(".ssh")]);
    }
}
