//! The patch of a workspace, given to the real `git apply`.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use agent_batch::event::{ConcernKind, PatchRecord};
use agent_batch::proc::Launcher;
use agent_batch::redact::{Redactor, Secret};
use agent_batch::workspace::{Git, Isolation, Workspace};
use proptest::prelude::*;

/// What stands at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Node {
    File(Vec<u8>, bool),
    Link(Vec<u8>),
}

type Tree = BTreeMap<PathBuf, Node>;

fn make(root: &Path, tree: &Tree) {
    for (path, node) in tree {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        match node {
            Node::File(content, executable) => {
                fs::write(&path, content).unwrap();
                let mode = if *executable { 0o755 } else { 0o644 };
                fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            }
            Node::Link(target) => symlink(OsStr::from_bytes(target), &path).unwrap(),
        }
    }
}

fn look(root: &Path) -> Tree {
    fn visit(root: &Path, directory: &Path, tree: &mut Tree) {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let found = fs::symlink_metadata(&path).unwrap();
            let name = path.strip_prefix(root).unwrap().to_path_buf();
            if name == Path::new(".git") {
                continue;
            }
            if found.is_symlink() {
                let target = fs::read_link(&path).unwrap();
                tree.insert(name, Node::Link(target.as_os_str().as_bytes().to_vec()));
            } else if found.is_dir() {
                visit(root, &path, tree);
            } else {
                let executable = found.permissions().mode() & 0o111 != 0;
                tree.insert(name, Node::File(fs::read(&path).unwrap(), executable));
            }
        }
    }
    let mut tree = Tree::new();
    visit(root, root, &mut tree);
    tree
}

fn remove_all(root: &Path) {
    for entry in fs::read_dir(root).unwrap() {
        let path = entry.unwrap().path();
        if path.symlink_metadata().unwrap().is_dir() {
            fs::remove_dir_all(path).unwrap();
        } else {
            fs::remove_file(path).unwrap();
        }
    }
}

pub(super) fn git(directory: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .arg("-C")
        .arg(directory)
        .args(["-c", "user.name=T", "-c", "user.email=t@example.org"])
        .args(arguments)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CEILING_DIRECTORIES", directory.parent().unwrap())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "git {arguments:?}: {said}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Our git, and the runtime that its calls need.
fn ours() -> (Git, tokio::runtime::Runtime) {
    let launcher = Launcher::new(env!("CARGO_BIN_EXE_agent-batch").into());
    let git = Git::find(&std::env::var("PATH").unwrap(), &[], launcher).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    (git, runtime)
}

/// The patch of what `edit` does to a workspace, and where it lies.
fn patch(root: &Path, scratch: &Path, edit: impl FnOnce(&Path)) -> (PatchRecord, PathBuf) {
    let workspace = Workspace::prepare(root, Isolation::None, scratch).unwrap();
    edit(workspace.root());
    let (git, runtime) = ours();
    let file = scratch.join("changes.patch");
    let comparison = workspace.compare(&|_| false, &Redactor::default()).unwrap();
    let record = runtime
        .block_on(comparison.write_patch(&git, &file))
        .unwrap();
    (record, file)
}

fn content() -> impl Strategy<Value = Vec<u8>> {
    let line = prop_oneof![
        "[a-c]{0,3}",
        Just("long line that stays".to_owned()),
        "[ \\t]{0,3}"
    ];
    let end = prop_oneof![Just("\n"), Just("\r\n")];
    let text =
        (prop::collection::vec((line, end), 0..12), any::<bool>()).prop_map(|(lines, cut)| {
            let mut text: String = lines.into_iter().map(|(line, end)| line + end).collect();
            if cut {
                text.truncate(text.trim_end().len());
            }
            text.into_bytes()
        });
    prop_oneof![
        4 => text,
        1 => prop::collection::vec(any::<u8>(), 0..300),
    ]
}

fn node() -> impl Strategy<Value = Node> {
    prop_oneof![
        5 => (content(), any::<bool>()).prop_map(|(content, executable)| Node::File(content, executable)),
        1 => prop_oneof![Just("a"), Just("missing"), Just("d/x y")].prop_map(|target| Node::Link(target.into())),
    ]
}

/// Names that are awkward in a patch; none of them is a directory of another one unless it says so.
const NAMES: [&[u8]; 12] = [
    b"a",
    b"d/x y",
    b"d/e/deep",
    b"q\"uote\\",
    b"new\nline",
    b"tab\there",
    b"\xc3\xa4\xe2\x82\xac",
    b"not-utf8-\xff",
    b"-dash",
    b" blank ",
    b"b => c",
    b"e\xcc\x81",
];

fn tree() -> impl Strategy<Value = Tree> {
    let name = (0..NAMES.len()).prop_map(|index| PathBuf::from(OsStr::from_bytes(NAMES[index])));
    prop::collection::btree_map(name, node(), 0..8)
}

/// What happens to a tree: paths set or removed, and some moved to another name.
fn edited(before: &Tree, set: Tree, removed: &[usize], moved: &[(usize, usize)]) -> Tree {
    let mut after = before.clone();
    for (from, to) in moved {
        let name = |index: &usize| PathBuf::from(OsStr::from_bytes(NAMES[index % NAMES.len()]));
        if let Some(node) = after.remove(&name(from)) {
            after.insert(name(to), node);
        }
    }
    for index in removed {
        after.remove(Path::new(OsStr::from_bytes(NAMES[index % NAMES.len()])));
    }
    after.extend(set);
    after
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn a_patch_makes_of_the_old_tree_exactly_the_new_one(
        before in tree(),
        set in tree(),
        removed in prop::collection::vec(0_usize..12, 0..3),
        moved in prop::collection::vec((0_usize..12, 0_usize..12), 0..3),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let (root, clean, scratch) = (dir.path().join("w"), dir.path().join("clean"), dir.path().join("s"));
        for path in [&root, &clean] {
            fs::create_dir(path).unwrap();
            make(path, &before);
        }
        let after = edited(&before, set, &removed, &moved);
        let (record, file) = patch(&root, &scratch, |root| {
            remove_all(root);
            make(root, &after);
        });
        prop_assert!(record.omitted.is_empty(), "{:?}", record.omitted);
        prop_assert_eq!(record.file.is_empty(), before == after);
        if before != after {
            git(&clean, &["init", "-q"]);
            let file = file.to_str().unwrap();
            git(&clean, &["apply", "--check", file]);
            git(&clean, &["apply", file]);
        }
        prop_assert_eq!(look(&clean), after);
    }
}

#[test]
fn files_and_directories_take_each_others_place() {
    let dir = tempfile::tempdir().unwrap();
    let (root, clean, scratch) = (
        dir.path().join("w"),
        dir.path().join("c"),
        dir.path().join("s"),
    );
    let file = |text: &str| Node::File(text.as_bytes().to_vec(), false);
    let before = Tree::from([("a".into(), file("1\n")), ("b/c".into(), file("2\n"))]);
    let after = Tree::from([("a/x".into(), file("3\n")), ("b".into(), file("4\n"))]);
    for path in [&root, &clean] {
        fs::create_dir(path).unwrap();
        make(path, &before);
    }
    let (_, patch) = patch(&root, &scratch, |root| {
        remove_all(root);
        make(root, &after);
    });
    git(&clean, &["init", "-q"]);
    git(&clean, &["apply", patch.to_str().unwrap()]);
    assert_eq!(look(&clean), after);
}

#[test]
fn a_patch_of_a_folder_applies_at_the_top_of_its_repository() {
    let dir = tempfile::tempdir().unwrap();
    let top = dir.path().join("w");
    fs::create_dir_all(top.join("sub/x")).unwrap();
    fs::write(top.join("sub/x/a"), "1\n").unwrap();
    git(&top, &["init", "-q"]);
    git(&top, &["add", "-A"]);
    git(&top, &["commit", "-qm", "one"]);
    let (_, patch) = patch(&top.join("sub"), &dir.path().join("s"), |root| {
        fs::write(root.join("x/a"), "2\n").unwrap();
    });
    git(&top, &["checkout", "-q", "--", "."]);
    git(&top, &["apply", patch.to_str().unwrap()]);
    assert_eq!(fs::read_to_string(top.join("sub/x/a")).unwrap(), "2\n");
}

#[test]
fn a_patch_is_made_without_a_program_that_the_repository_names() {
    let dir = tempfile::tempdir().unwrap();
    let (top, mark) = (dir.path().join("w"), dir.path().join("ran"));
    fs::create_dir_all(&top).unwrap();
    fs::write(top.join("a"), "1\n").unwrap();
    git(&top, &["init", "-q"]);
    git(&top, &["add", "-A"]);
    git(&top, &["commit", "-qm", "one"]);
    let evil = dir.path().join("evil");
    fs::write(
        &evil,
        format!("#!/bin/sh\ntouch '{}'\ncat\n", mark.display()),
    )
    .unwrap();
    fs::set_permissions(&evil, fs::Permissions::from_mode(0o755)).unwrap();
    let program = evil.to_str().unwrap();
    let filter = [
        "filter.x.clean",
        "filter.x.smudge",
        "diff.x.textconv",
        "diff.x.command",
    ];
    for key in ["core.fsmonitor", "core.pager", "diff.external"]
        .into_iter()
        .chain(filter)
    {
        git(&top, &["config", key, program]);
    }
    fs::write(top.join(".gitattributes"), "* filter=x diff=x\n").unwrap();
    let (_, patch) = patch(&top, &dir.path().join("s"), |root| {
        fs::write(root.join("a"), "2\n").unwrap();
    });
    assert!(fs::read_to_string(patch).unwrap().contains("+2"));
    assert!(!mark.exists());
    // What was planted would run.
    git(&top, &["add", "a"]);
    assert!(mark.exists());
}

#[test]
fn what_must_not_leave_in_a_patch_is_left_out_and_what_deserves_a_look_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let (root, scratch) = (dir.path().join("w"), dir.path().join("s"));
    fs::create_dir_all(root.join("lib/.git")).unwrap();
    fs::write(root.join("lib/code"), "1\n").unwrap();
    fs::write(root.join("plain"), "1\n").unwrap();
    fs::write(root.join("agent-batch.yaml"), "version: 1\n").unwrap();
    let workspace = Workspace::prepare(&root, Isolation::None, &scratch).unwrap();
    fs::write(root.join("lib/code"), "2\n").unwrap();
    fs::write(root.join("plain"), "2\n").unwrap();
    fs::write(root.join("agent-batch.yaml"), "version: 2\n").unwrap();
    fs::create_dir_all(root.join(".claude")).unwrap();
    fs::write(root.join(".claude/settings.json"), "{}\n").unwrap();
    fs::create_dir_all(root.join(".github/workflows")).unwrap();
    fs::write(root.join(".github/workflows/ci.yml"), "on: push\n").unwrap();
    fs::write(root.join("bin"), b"\0\x01\x02").unwrap();
    fs::write(root.join("tool"), "#!/bin/sh\n").unwrap();
    fs::set_permissions(root.join("tool"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(root.join("key"), "token=hunter2-hunter2\n").unwrap();
    symlink("/etc/passwd", root.join("out")).unwrap();
    symlink("plain", root.join("in")).unwrap();
    fs::File::create(root.join("huge"))
        .unwrap()
        .set_len(1 << 40)
        .unwrap();
    let (git, runtime) = ours();
    let redactor = Redactor::new(&[Secret::new("hunter2-hunter2".into())]);
    let comparison = workspace
        .compare(&|path| path == Path::new("agent-batch.yaml"), &redactor)
        .unwrap();
    let concerns: Vec<(&str, ConcernKind)> = comparison
        .concerns()
        .iter()
        .map(|concern| (&*concern.path, concern.kind))
        .collect();
    assert_eq!(
        concerns,
        [
            (".claude/settings.json", ConcernKind::Steering),
            (".github/workflows/ci.yml", ConcernKind::Steering),
            ("bin", ConcernKind::Binary),
            ("lib/code", ConcernKind::Repository),
            ("out", ConcernKind::LinkOutside),
            ("tool", ConcernKind::Executable),
        ]
    );
    let file = scratch.join("changes.patch");
    let record = runtime
        .block_on(comparison.write_patch(&git, &file))
        .unwrap();
    let omitted: Vec<&str> = record.omitted.iter().map(|one| &*one.path).collect();
    assert_eq!(
        omitted,
        ["agent-batch.yaml", "huge", "key", "lib/code", "out"]
    );
    let text = fs::read_to_string(&file).unwrap();
    assert_eq!(record.bytes, text.len() as u64);
    assert!(
        text.starts_with("# not in this patch: agent-batch.yaml: no task may write it\n"),
        "{text}"
    );
    assert!(!text.contains("hunter2"), "{text}");
    let clean = dir.path().join("clean");
    fs::create_dir(&clean).unwrap();
    fs::write(clean.join("plain"), "1\n").unwrap();
    let git = |arguments: &[&str]| super::patch::git(&clean, arguments);
    git(&["init", "-q"]);
    git(&["apply", file.to_str().unwrap()]);
    let there: Vec<PathBuf> = look(&clean).into_keys().collect();
    let expected = [
        ".claude/settings.json",
        ".github/workflows/ci.yml",
        "bin",
        "in",
        "plain",
        "tool",
    ];
    assert_eq!(there, expected.map(PathBuf::from));
}
