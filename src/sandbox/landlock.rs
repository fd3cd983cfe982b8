//! The same file rules once more, by the kernel's own access control: holds where a mount is wrong or mounts cannot be
//! had. It permits by hierarchy and cannot take a part of a writable directory out again; that is what mounts are for.

use std::io;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, LandlockStatus, Ruleset,
    RulesetAttr, RulesetCreatedAttr, RulesetStatus, Scope, path_beneath_rules,
};

use super::{Layers, Network, Plan};

/// The ABI from which on signals and abstract sockets are scoped.
pub(super) const SCOPES: u32 = 6;
/// The newest ABI whose rights are all handled. From 9 on, connecting to a Unix socket by its path is one of them, and
/// what is only read does not give it.
const NEWEST: ABI = ABI::V9;
/// Devices that programs write to.
const DEVICES: [&str; 8] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/tty",
    "/dev/random",
    "/dev/urandom",
    "/dev/ptmx",
    "/dev/pts",
];

/// The ABI of the running kernel, if Landlock is enabled there. The kernel tells whoever restricts itself, so a thread that
/// ends at once gives up nothing.
pub(super) fn abi() -> Option<u32> {
    let ask = || {
        let everything = path_beneath_rules(["/"], AccessFs::Execute);
        let ruleset = Ruleset::default()
            .handle_access(AccessFs::Execute)
            .ok()?
            .create()
            .ok()?;
        match ruleset
            .add_rules(everything)
            .ok()?
            .restrict_self()
            .ok()?
            .landlock
        {
            LandlockStatus::Available { effective_abi, .. } => {
                u32::try_from(effective_abi as i32).ok()
            }
            LandlockStatus::NotEnabled | LandlockStatus::NotImplemented => None,
        }
    };
    std::thread::spawn(ask).join().ok().flatten()
}

/// Restricts the calling thread and what it starts.
///
/// # Errors
/// The rules could not be made, or the kernel does not enforce them.
pub(super) fn restrict(plan: &Plan, layers: &Layers) -> io::Result<()> {
    let namespaces = layers.bubblewrap.is_some();
    let is_mounted = namespaces && !layers.loose_mounts;
    let all = AccessFs::from_all(NEWEST);
    let read = AccessFs::from_read(NEWEST);
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(all)
        .and_then(|rules| rules.scope(Scope::from_all(NEWEST)))
        .map_err(io::Error::other)?;
    // A network namespace has a loopback device of its own, which tests of servers need.
    if plan.network == Network::Deny && !namespaces {
        rules = rules
            .handle_access(AccessNet::from_all(NEWEST))
            .map_err(io::Error::other)?;
    }
    let own: &[&str] = if is_mounted {
        &["/tmp", "/dev/shm"]
    } else {
        &[]
    };
    let writable = plan
        .writable
        .iter()
        .map(PathBuf::as_path)
        .chain(own.iter().map(Path::new));
    let devices = DEVICES.iter().map(Path::new);
    // What is hidden is taken out of what is read: its directories are only listed. That takes a rule for each of their
    // entries, and where mounts hide it already, it is not there.
    let hidden = if is_mounted {
        Vec::new()
    } else {
        plan.hidden_and_visible()
    };
    let mut listed = Vec::new();
    let mut readable: Vec<PathBuf> = vec!["/proc".into(), "/dev".into()];
    for path in &plan.readable {
        split(path, &hidden, &mut readable, &mut listed);
    }
    let status = rules
        .create()
        .and_then(|rules| rules.add_rules(path_beneath_rules(readable, read)))
        .and_then(|rules| rules.add_rules(path_beneath_rules(listed, AccessFs::ReadDir)))
        .and_then(|rules| rules.add_rules(path_beneath_rules(writable, all)))
        .and_then(|rules| rules.add_rules(path_beneath_rules(devices, all)))
        .and_then(landlock::RulesetCreated::restrict_self)
        .map_err(io::Error::other)?;
    if status.ruleset == RulesetStatus::NotEnforced {
        return Err(io::Error::other(
            "the kernel does not enforce Landlock's rules",
        ));
    }
    Ok(())
}

/// Puts the path among those that are read or, where something in it is hidden, its entries without that.
fn split(path: &Path, hidden: &[PathBuf], readable: &mut Vec<PathBuf>, listed: &mut Vec<PathBuf>) {
    if hidden.iter().any(|hidden| path.starts_with(hidden)) {
        return;
    }
    if !hidden.iter().any(|hidden| hidden.starts_with(path)) {
        return readable.push(path.to_path_buf());
    }
    listed.push(path.to_path_buf());
    for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
        split(&entry.path(), hidden, readable, listed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_hidden_is_taken_out_of_its_directories_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        std::fs::write(root.join("a/secret"), "").unwrap();
        std::fs::write(root.join("c"), "").unwrap();
        let parts = |path: &Path, hidden: &[PathBuf]| {
            let (mut readable, mut listed) = (Vec::new(), Vec::new());
            split(path, hidden, &mut readable, &mut listed);
            readable.sort();
            (readable, listed)
        };
        let (readable, listed) = parts(root, &[root.join("a/secret")]);
        assert_eq!(readable, [root.join("a/b"), root.join("c")]);
        assert_eq!(listed, [root.to_path_buf(), root.join("a")]);
        assert_eq!(parts(root, &[]).0, [root]);
        assert!(
            parts(&root.join("a/secret"), &[root.join("a")])
                .0
                .is_empty()
        );
    }
}
