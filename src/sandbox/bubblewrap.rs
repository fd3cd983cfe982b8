//! The namespaces: which arguments `bwrap` gets. The root is empty but for what the plan names, so a secret that nobody
//! thought of is not there either.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{Layers, Network, Place, Plan};

/// Where `bwrap` is looked for. Ubuntu's `AppArmor` profile gives user namespaces to the first path only; a search path may
/// lead into the workspace, these do not.
const PATHS: [&str; 2] = ["/usr/bin/bwrap", "/usr/local/bin/bwrap"];
/// Says 1 where Ubuntu (since 24.04) keeps user namespaces from programs without a profile.
const APPARMOR: &str = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns";
/// Says 0 where an administrator has switched user namespaces off.
const USER_NAMESPACES: &str = "/proc/sys/user/max_user_namespaces";

/// Most bytes of `/tmp` and of `/dev/shm`, each. What is large belongs into `$TMPDIR`, which is on the disk.
const TMPFS_SIZE: &str = "2147483648";

/// Namespaces and rights; see the manual of `bwrap`.
const ALWAYS: [&str; 12] = [
    "--unshare-user",
    "--unshare-pid",
    "--unshare-ipc",
    "--unshare-uts",
    "--unshare-cgroup-try",
    "--hostname",
    "sandbox",
    "--new-session",
    "--die-with-parent",
    "--cap-drop",
    "ALL",
    "--clearenv",
];

/// The program, where it is trusted to be.
pub(super) fn find() -> Option<PathBuf> {
    PATHS
        .into_iter()
        .map(PathBuf::from)
        .find(|path| path.is_file())
}

/// What to do on a machine where `bwrap` is missing or fails.
pub(super) fn advice() -> String {
    let says = |file, value: &str| fs::read_to_string(file).is_ok_and(|text| text.trim() == value);
    if says(APPARMOR, "1") {
        return "Ubuntu keeps user namespaces from programs without an AppArmor profile: run \
                `sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0` before the run, or load the profile \
                `bwrap-userns-restrict` of the package `apparmor-profiles` for `/usr/bin/bwrap`; and install bubblewrap \
                (`sudo apt-get install -y bubblewrap`) where it is missing"
            .to_owned();
    }
    if says(USER_NAMESPACES, "0") {
        return "user namespaces are switched off: run `sudo sysctl -w user.max_user_namespaces=10000`".to_owned();
    }
    if find().is_none() {
        return "install bubblewrap (`sudo apt-get install -y bubblewrap`)".to_owned();
    }
    "in a container, user namespaces and a fresh `/proc` must be permitted (`--security-opt seccomp=unconfined \
     --security-opt systempaths=unconfined` for Docker)"
        .to_owned()
}

/// `bwrap` with its arguments up to `--`.
pub(super) fn command_line(
    bwrap: &Path,
    plan: &Plan,
    cwd: &Path,
    layers: &Layers,
) -> Vec<OsString> {
    let mut line = Line(vec![bwrap.into()]);
    line.words(&ALWAYS);
    if !layers.old_bubblewrap {
        line.words(&["--disable-userns"]);
    }
    if plan.network == Network::Deny {
        line.words(&["--unshare-net"]);
    }
    if layers.loose_mounts {
        line.mount("--bind", Path::new("/"), Path::new("/"));
        line.words(&["--dev", "/dev", "--proc", "/proc"]);
    } else {
        mounts(&mut line, plan, layers);
    }
    line.words(&["--chdir"]);
    line.0.push(cwd.into());
    line.words(&["--"]);
    line.0
}

fn mounts(line: &mut Line, plan: &Plan, layers: &Layers) {
    line.words(&["--proc", "/proc", "--dev", "/dev"]);
    line.small_tmpfs("/dev/shm", layers);
    line.words(&["--remount-ro", "/dev", "--dir", "/run", "--dir", "/var/tmp"]);
    // New for each call: what a call leaves in it could otherwise be the way that the next one's mounts take.
    line.small_tmpfs("/tmp", layers);
    for place in plan.places() {
        match place {
            Place::Link(path, target) => {
                line.words(&["--symlink"]);
                line.0.extend([target.into(), path.into()]);
            }
            Place::Readable(path) => line.mount("--ro-bind-try", &path, &path),
            Place::Writable(path) => line.mount("--bind", &path, &path),
        }
    }
    for path in plan.passages.iter().filter(|path| !plan.is_visible(path)) {
        line.words(&["--dir"]);
        line.0.push(path.into());
    }
    // A directory that is a mount point cannot be renamed, so what is protected or hidden in it stays where it is. Each is
    // mounted once and before everything that is in it: a later mount would cover that.
    for above in plan.above_pinned() {
        line.mount("--bind", &above, &above);
    }
    // What is there is mounted, or the sandbox is not built. What is not there cannot be made: `Held` has seen to that.
    for protected in &plan.protected {
        let found = protected.path.symlink_metadata();
        if !found.is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
            line.mount("--ro-bind", &protected.path, &protected.path);
        }
    }
    for path in plan.hidden_and_visible() {
        if path.is_dir() {
            line.words(&["--tmpfs"]);
            line.0.push(path.clone().into());
            line.words(&["--remount-ro"]);
            line.0.push(path.into());
        } else {
            line.mount("--ro-bind", Path::new("/dev/null"), &path);
        }
    }
    for socket in plan.listeners() {
        line.mount("--ro-bind", Path::new("/dev/null"), &socket);
    }
    line.words(&["--remount-ro", "/"]);
}

/// A command line in the making.
struct Line(Vec<OsString>);

impl Line {
    fn words(&mut self, words: &[&str]) {
        self.0.extend(words.iter().map(OsString::from));
    }

    /// A file system in memory that cannot take all of it.
    fn small_tmpfs(&mut self, at: &str, layers: &Layers) {
        if !layers.old_bubblewrap {
            self.words(&["--size", TMPFS_SIZE]);
        }
        self.words(&["--tmpfs", at]);
    }

    fn mount(&mut self, how: &str, from: &Path, to: &Path) {
        self.0.extend([how.into(), from.into(), to.into()]);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Missing, Protected};
    use super::*;

    fn line(plan: &Plan) -> String {
        let line = command_line(
            Path::new("/usr/bin/bwrap"),
            plan,
            Path::new("/ws"),
            &Layers::default(),
        );
        let words: Vec<_> = line.iter().map(|word| word.to_str().unwrap()).collect();
        words.join(" ")
    }

    fn plan() -> Plan {
        Plan {
            writable: vec!["/ws".into(), "/private/home".into()],
            readable: vec!["/usr".into()],
            hidden: Vec::new(),
            passages: vec!["/tasks".into(), "/ws/in".into()],
            protected: vec![Protected {
                path: "/ws/a/b".into(),
                missing: Missing::Placeholder,
            }],
            network: Network::Deny,
            ..Plan::default()
        }
    }

    #[test]
    fn every_namespace_is_asked_for_and_all_rights_are_dropped() {
        let line = line(&plan());
        assert!(
            line.contains("--dir /tasks") && !line.contains("--dir /ws/in"),
            "{line}"
        );
        for word in ALWAYS
            .iter()
            .chain(&["--disable-userns", "--unshare-net", "--remount-ro /"])
        {
            assert!(line.contains(word), "{word}: {line}");
        }
        assert!(line.ends_with("--remount-ro / --chdir /ws --"), "{line}");
        assert!(!line.contains(" / / "), "{line}");
    }

    #[test]
    fn the_network_is_shared_only_when_the_plan_says_so() {
        let open = Plan {
            network: Network::Allow,
            ..plan()
        };
        assert!(!line(&open).contains("--unshare-net"));
    }

    #[test]
    fn what_is_pinned_comes_after_the_workspace_and_a_source_that_is_there_must_be_bound() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        for part in ["a/.git", "a/b/secret"] {
            fs::create_dir_all(root.join(part)).unwrap();
        }
        let protected = |name: &str| Protected {
            path: root.join(name),
            missing: Missing::Leave,
        };
        let plan = Plan {
            writable: vec![root.clone()],
            hidden: vec![root.join("a/b/secret")],
            protected: vec![protected("a/.git"), protected("a/missing")],
            ..Plan::default()
        };
        let line = line(&plan);
        let place = |how: &str, name: &str| {
            let path = root.join(name).display().to_string();
            let path = path.trim_end_matches('/');
            line.find(&format!("{how} {path} "))
                .unwrap_or_else(|| panic!("{how} {name}: {line}"))
        };
        let order = [
            place("--bind", ""),
            place("--bind", "a"),
            place("--bind", "a/b"),
            place("--ro-bind", "a/.git"),
            place("--tmpfs", "a/b/secret"),
            line.find("--remount-ro / ").unwrap(),
        ];
        assert!(order.is_sorted(), "{order:?}: {line}");
        assert!(
            !line.contains("missing") && !line.contains("-try a"),
            "{line}"
        );
    }

    #[test]
    fn advice_is_never_empty() {
        assert!(!advice().is_empty());
    }
}
