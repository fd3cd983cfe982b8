//! The environment that child processes get: built from nothing, never inherited.

use std::collections::BTreeMap;
use std::path::Path;

/// Taken over from the parent when set there.
const INHERITED: [&str; 5] = ["PATH", "LANG", "LANGUAGE", "TZ", "CI"];
/// A name with one of these words is a secret until somebody says otherwise.
const SECRET_WORDS: [&str; 6] = ["KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL"];
/// Where programs are found when the parent does not say.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Git configuration that a repository under test cannot loosen: no helper programs that it names are run. There is no
/// pin for `diff.external`: git takes an empty value for the name of a program.
const GIT_PINS: [(&str, &str); 6] = [
    ("core.fsmonitor", "false"),
    ("core.hooksPath", "/dev/null"),
    ("core.pager", "cat"),
    ("credential.helper", ""),
    ("protocol.ext.allow", "never"),
    ("safe.bareRepository", "explicit"),
];

/// The whole environment of tools, hooks and checks.
///
/// An allow-list decides what is taken from `parent`: the search path, language, time zone and `CI`. `HOME` is `home`
/// and `TMPDIR` is `tmp`, both private to the attempt. Since a private home hides the Rust toolchain, `CARGO_HOME` and
/// `RUSTUP_HOME` name the parent's. Git gets pins through `GIT_CONFIG_COUNT`, and neither pager, editor nor prompt.
/// Anything else is for the operator to add by name.
#[must_use]
pub fn child_environment(
    parent: impl Iterator<Item = (String, String)>,
    home: &Path,
    tmp: &Path,
) -> BTreeMap<String, String> {
    let parent: BTreeMap<String, String> = parent.collect();
    let mut environment: BTreeMap<String, String> = parent
        .iter()
        .filter(|(name, _)| is_inherited(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    let mut set = |name: &str, value: &str| {
        environment.insert(name.to_owned(), value.to_owned());
    };
    let path = parent.get("PATH").map(|path| absolute_entries(path));
    set(
        "PATH",
        path.filter(|path| !path.is_empty())
            .as_deref()
            .unwrap_or(DEFAULT_PATH),
    );
    if !parent.contains_key("LANG") {
        set("LANG", "C.UTF-8");
    }
    set("HOME", &home.to_string_lossy());
    set("TMPDIR", &tmp.to_string_lossy());
    set("TERM", "dumb");
    set("NO_COLOR", "1");
    for (name, folder) in [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")] {
        if let Some(path) = toolchain_home(&parent, name, folder) {
            set(name, &path);
        }
    }

    set("GIT_CONFIG_NOSYSTEM", "1");
    set("GIT_CONFIG_GLOBAL", "/dev/null");
    set("GIT_CONFIG_COUNT", &GIT_PINS.len().to_string());
    for (index, (key, value)) in GIT_PINS.iter().enumerate() {
        set(&format!("GIT_CONFIG_KEY_{index}"), key);
        set(&format!("GIT_CONFIG_VALUE_{index}"), value);
    }
    set("GIT_PAGER", "cat");
    set("GIT_EDITOR", "true");
    set("GIT_TERMINAL_PROMPT", "0");
    environment
}

/// Lets git work in a repository that belongs to somebody else, as the checkout of a container's job often does: what it
/// names would run in the sandbox, where everything of the workspace may run. To be called where there is one.
pub fn trust_repository(environment: &mut BTreeMap<String, String>, workspace: &Path) {
    let count = environment.get("GIT_CONFIG_COUNT");
    let (Some(index), Some(workspace)) = (
        count.and_then(|count| count.parse::<usize>().ok()),
        workspace.to_str(),
    ) else {
        return;
    };
    let set = [
        ("GIT_CONFIG_COUNT".to_owned(), (index + 1).to_string()),
        (
            format!("GIT_CONFIG_KEY_{index}"),
            "safe.directory".to_owned(),
        ),
        (format!("GIT_CONFIG_VALUE_{index}"), workspace.to_owned()),
    ];
    environment.extend(set);
}

fn is_inherited(name: &str) -> bool {
    let listed = INHERITED.contains(&name) || name.starts_with("LC_");
    listed
        && !SECRET_WORDS
            .iter()
            .any(|word| name.to_ascii_uppercase().contains(word))
}

/// What the parent's variable says, or the usual folder in the parent's home if it is there.
fn toolchain_home(parent: &BTreeMap<String, String>, name: &str, folder: &str) -> Option<String> {
    let set = parent.get(name).filter(|value| !value.is_empty()).cloned();
    set.or_else(|| {
        let usual = Path::new(parent.get("HOME")?).join(folder);
        usual.is_dir().then(|| usual.to_string_lossy().into_owned())
    })
}

/// A search path without the entries that are relative or empty: those mean the current directory, where the agent's own
/// files lie.
fn absolute_entries(path: &str) -> String {
    let absolute: Vec<&str> = path
        .split(':')
        .filter(|entry| entry.starts_with('/'))
        .collect();
    absolute.join(":")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built(parent: &[(&str, &str)]) -> BTreeMap<String, String> {
        let parent = parent
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        child_environment(
            parent,
            Path::new("/private/home"),
            Path::new("/private/tmp"),
        )
    }

    #[test]
    fn secrets_and_levers_of_the_parent_do_not_pass() {
        let hostile = [
            "ANTHROPIC_API_KEY",
            "GITHUB_TOKEN",
            "GITHUB_ENV",
            "ACTIONS_RUNTIME_URL",
            "AWS_PROFILE",
            "SSH_AUTH_SOCK",
            "LD_PRELOAD",
            "BASH_ENV",
            "BASH_FUNC_ls%%",
            "ENV",
            "NODE_OPTIONS",
            "GIT_DIR",
            "GIT_SSH_COMMAND",
            "LC_TOKEN",
            "LC_Password",
            "PYTHONPATH",
            "EDITOR",
        ];
        let parent: Vec<_> = hostile.iter().map(|name| (*name, "hostile")).collect();
        let environment = built(&parent);
        for name in hostile {
            assert!(!environment.contains_key(name), "{name}");
        }
        assert!(!environment.values().any(|value| value == "hostile"));
    }

    #[test]
    fn the_current_directory_is_no_place_for_programs() {
        for (given, kept) in [
            (".:/bin::node_modules/.bin:/usr/bin:", "/bin:/usr/bin"),
            (":.", DEFAULT_PATH),
        ] {
            assert_eq!(built(&[("PATH", given)])["PATH"], kept, "{given}");
        }
    }

    #[test]
    fn what_is_listed_passes_and_the_rest_is_ours() {
        let environment = built(&[
            ("PATH", "/opt/bin:/bin"),
            ("HOME", "/home/somebody"),
            ("TMPDIR", "/tmp"),
            ("LC_ALL", "de_DE.UTF-8"),
            ("TZ", "UTC"),
            ("CI", "true"),
            ("TERM", "xterm"),
            ("CARGO_HOME", "/opt/cargo"),
        ]);
        let expected = [
            ("PATH", "/opt/bin:/bin"),
            ("HOME", "/private/home"),
            ("TMPDIR", "/private/tmp"),
            ("LANG", "C.UTF-8"),
            ("LC_ALL", "de_DE.UTF-8"),
            ("TZ", "UTC"),
            ("CI", "true"),
            ("TERM", "dumb"),
            ("NO_COLOR", "1"),
            ("CARGO_HOME", "/opt/cargo"),
            ("GIT_PAGER", "cat"),
            ("GIT_EDITOR", "true"),
            ("GIT_TERMINAL_PROMPT", "0"),
        ];
        for (name, value) in expected {
            assert_eq!(
                environment.get(name).map(String::as_str),
                Some(value),
                "{name}"
            );
        }
        assert!(!environment.contains_key("RUSTUP_HOME"));
    }

    #[test]
    fn the_usual_toolchain_folders_are_named_when_they_are_there() {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join(".rustup")).unwrap();
        let environment = built(&[("HOME", home.path().to_str().unwrap())]);
        assert_eq!(
            environment.get("RUSTUP_HOME").map(Path::new),
            Some(home.path().join(".rustup").as_path())
        );
        assert!(!environment.contains_key("CARGO_HOME"));
    }

    #[test]
    fn every_git_pin_is_counted() {
        let mut environment = built(&[]);
        trust_repository(&mut environment, Path::new("/w"));
        let count: usize = environment["GIT_CONFIG_COUNT"].parse().unwrap();
        assert_eq!(count, GIT_PINS.len() + 1);
        for index in 0..count {
            assert!(environment.contains_key(&format!("GIT_CONFIG_KEY_{index}")));
            assert!(environment.contains_key(&format!("GIT_CONFIG_VALUE_{index}")));
        }
    }
}
