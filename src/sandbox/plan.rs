//! Which paths a task's processes may use: one list for all layers.

use std::collections::BTreeMap;
use std::io;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Network;
use super::closed::closed;
use super::links::Link;
use super::repository::work_tree;
use super::survey::Survey;
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
/// Parts of the system that hold credentials, whatever their modes say.
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
/// The runner's own names at the root of a workspace.
const OWN: [&str; 3] = [".git", "agent-batch.yaml", "agent-batch-results"];
/// How deep repositories below the workspace are read-only, and the most of them: each is a mount of every call. What
/// comes to be, or changes, beyond that is told when the task ends.
const GIT_DEPTH: usize = 4;
const MOST_REPOSITORIES: usize = 200;

/// The names at the root of a workspace that placeholders may stand for.
pub(super) fn own_names() -> impl Iterator<Item = &'static str> {
    OWN.into_iter().chain(STEERING)
}

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
    /// What is protected and was a link when the plan was made.
    #[serde(default)]
    pub(super) links: Vec<Link>,
    /// Names that would be protected, and are not because a rule names them.
    #[serde(skip)]
    pub(super) permitted: Vec<PathBuf>,
    /// The directories that are written, and what lay in them.
    #[serde(skip)]
    pub surveyed: Vec<(PathBuf, Survey)>,
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
        plan.hidden.extend_from_slice(closed());
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
        for name in STEERING {
            let path = workspace.join(name);
            if permitted(name) {
                self.permitted.push(path);
            } else {
                self.protect(path, Missing::Placeholder);
            }
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
        // Links on the way are made again, unless they are there anyway.
        let links = path.ancestors().filter(|part| part.is_symlink());
        for link in links
            .filter_map(physical)
            .flat_map(|link| Link::chain(&link))
        {
            if !self.is_visible(&link.path) {
                self.read(&link.path);
            }
        }
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
        let survey = Survey::of(workspace);
        for found in survey.near(GIT_DEPTH).take(MOST_REPOSITORIES) {
            self.protect(found.clone(), Missing::Leave);
        }
        // Whoever listens there is outside of the sandbox, whatever the network is.
        self.hidden.extend(survey.sockets.iter().cloned());
        self.surveyed.push((workspace.to_path_buf(), survey));
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
        self.pin_links();
        self
    }

    /// Takes links out of what is protected by mounts; what they lead to comes in.
    fn pin_links(&mut self) {
        let (links, mut kept): (Vec<Protected>, Vec<Protected>) =
            std::mem::take(&mut self.protected)
                .into_iter()
                .filter(|known| {
                    known.missing != Missing::Leave || known.path.symlink_metadata().is_ok()
                })
                .partition(|known| known.path.is_symlink());
        for link in links.into_iter().map(|known| known.path) {
            self.links.extend(Link::chain(&link));
            let Ok(target) = link.canonicalize() else {
                continue;
            };
            let holds_a_place = self.writable.iter().any(|place| place.starts_with(&target));
            if self.writable_place(&target).is_some()
                && !holds_a_place
                && !self.permitted.contains(&target)
                && kept.iter().all(|known| known.path != target)
            {
                kept.push(Protected {
                    path: target,
                    missing: Missing::Leave,
                });
            }
        }
        self.protected = kept;
    }

    /// Looks, before each call, whether every path that is mounted in a writable place still leads where it led: a call
    /// before may have put a link in its way, and mounts follow links.
    ///
    /// # Errors
    /// A path that has become a link; nothing must be started then.
    pub(super) fn check(&self) -> io::Result<()> {
        let protected = self.protected.iter().map(|known| &known.path);
        let above = self.above_pinned();
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
                    .filter(|part| part.is_symlink());
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

    /// The directories that hold something protected or hidden, outer before inner, but for those that are protected
    /// themselves. A directory that is a mount point cannot be renamed, so what is in it keeps its name.
    pub(super) fn above_pinned(&self) -> Vec<PathBuf> {
        let protected = self.protected.iter().map(|known| &known.path);
        let links = self.links.iter().map(|link| &link.path);
        let hidden = self.hidden_and_visible();
        let mut above: Vec<PathBuf> = protected
            .chain(links)
            .chain(&hidden)
            .flat_map(|path| self.between(path))
            .collect();
        above.retain(|path| {
            let mut fixed = self.protected.iter().map(|known| &known.path);
            !fixed.any(|known| path.starts_with(known))
                && !hidden.iter().any(|hidden| path.starts_with(hidden))
        });
        above.sort();
        above.dedup();
        above
    }

    /// The innermost directory that is written and holds `path`, or is it.
    pub(super) fn writable_place(&self, path: &Path) -> Option<&Path> {
        let places = self.writable.iter().map(PathBuf::as_path);
        places
            .filter(|place| path.starts_with(place))
            .max_by_key(|place| place.as_os_str().len())
    }

    /// The directories between the writable place that holds `path`, and `path`.
    pub(super) fn between(&self, path: &Path) -> Vec<PathBuf> {
        let Some(root) = self.writable_place(path) else {
            return Vec::new();
        };
        let mut above: Vec<PathBuf> = path
            .ancestors()
            .skip(1)
            .take_while(|above| *above != root && above.starts_with(root))
            .map(Path::to_path_buf)
            .collect();
        above.reverse();
        above
    }
}

/// The path with its directory resolved.
fn physical(path: &Path) -> Option<PathBuf> {
    Some(path.parent()?.canonicalize().ok()?.join(path.file_name()?))
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
    fn a_path_that_has_become_a_link_stops_the_next_call() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().canonicalize().unwrap().join(name);
        for part in [
            "ws/a/b/.git",
            "ws/lib/secret",
            "elsewhere/b/.git",
            "other/home",
        ] {
            fs::create_dir_all(at(part)).unwrap();
        }
        let plan = Plan {
            writable: vec![at("ws"), at("other"), at("other/home")],
            readable: vec![at("ws/lib")],
            hidden: vec![at("ws/lib/secret")],
            protected: vec![Protected {
                path: at("ws/a/b/.git"),
                missing: Missing::Leave,
            }],
            ..Plan::default()
        };
        plan.check().unwrap();
        for (path, link) in [
            ("ws/a/b/.git", "ws/a"),
            ("ws/lib", "ws/lib"),
            ("other/home", "other/home"),
        ] {
            let (link, moved) = (at(link), at("moved"));
            fs::rename(&link, &moved).unwrap();
            std::os::unix::fs::symlink(&moved, &link).unwrap();
            assert!(at(path).exists());
            let error = plan.check().unwrap_err().to_string();
            let expected = format!("`{}` has become a symbolic link", link.display());
            assert!(error.contains(&expected), "{error}");
            fs::remove_file(&link).unwrap();
            fs::rename(&moved, &link).unwrap();
        }
        plan.check().unwrap();
    }

    #[test]
    fn a_protected_link_is_watched_and_what_it_leads_to_is_protected() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        for name in ["AGENTS.md", "open.md"] {
            fs::write(root.join(name), "").unwrap();
        }
        for (link, target) in [
            ("CLAUDE.md", "AGENTS.md"),
            ("GEMINI.md", "open.md"),
            (".claude", "."),
            (".mcp.json", "/etc/hostname"),
            (".envrc", "gone"),
        ] {
            std::os::unix::fs::symlink(target, root.join(link)).unwrap();
        }
        let mut plan = Plan {
            writable: vec![root.clone()],
            permitted: vec![root.join("open.md")],
            ..Plan::default()
        };
        let links = ["CLAUDE.md", "GEMINI.md", ".claude", ".mcp.json", ".envrc"];
        for name in links {
            plan.protect(root.join(name), Missing::Placeholder);
        }
        let plan = plan.settled();
        let protected: Vec<_> = plan.protected.iter().map(|known| &known.path).collect();
        assert_eq!(protected, [&root.join("AGENTS.md")]);
        let watched: Vec<_> = plan.links.iter().map(|link| link.path.clone()).collect();
        assert_eq!(watched, links.map(|name| root.join(name)));
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
    fn what_is_closed_in_the_system_is_hidden() {
        let plan = Plan::new(
            Path::new("/ws"),
            Path::new("/h"),
            Path::new("/t"),
            &BTreeMap::new(),
        );
        let mut hidden = SYSTEM_SECRETS.map(PathBuf::from).to_vec();
        hidden.extend_from_slice(closed());
        assert_eq!(plan.hidden, hidden);
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
