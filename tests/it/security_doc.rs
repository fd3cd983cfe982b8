//! What `docs/security.md` promises is there.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn sources(directory: &str) -> Vec<(PathBuf, String)> {
    let mut open = vec![root().join(directory)];
    let mut found = Vec::new();
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                found.push((path, text));
            }
        }
    }
    found
}

/// The names of all test functions.
fn tests() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (_, text) in sources("src").into_iter().chain(sources("tests")) {
        let mut is_test = false;
        for line in text.lines().map(str::trim) {
            is_test |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
            // Tests of a property stand in a macro; their attribute is the same.
            let function = line
                .strip_prefix("async ")
                .unwrap_or(line)
                .strip_prefix("fn ");
            if let (true, Some(rest)) = (is_test, function) {
                let name = rest.split('(').next().unwrap_or_default();
                names.insert(name.to_owned());
                is_test = false;
            }
        }
    }
    names
}

#[test]
fn the_table_of_requirements_names_tests_that_exist() {
    let document = fs::read_to_string(root().join("docs/security.md")).unwrap();
    assert!(document.contains("\n## What the gate does not bound\n"));
    let tests = tests();
    assert!(tests.len() > 400, "{} tests were found", tests.len());
    let mut numbers = Vec::new();
    for line in document.lines() {
        let cells: Vec<&str> = line.split(" | ").collect();
        let number = cells[0]
            .strip_prefix("| ")
            .and_then(|number| number.parse::<u32>().ok());
        let Some(number) = number else {
            continue;
        };
        numbers.push(number);
        assert_eq!(cells.len(), 4, "{line}");
        let state = cells[2];
        let test = cells[3]
            .trim_end_matches(" |")
            .trim_matches(['`', '|', ' ']);
        match state.split([':', ';', ' ']).next().unwrap() {
            "holds" => assert!(tests.contains(test), "{number}: there is no test `{test}`"),
            "other" | "not" => assert!(
                test.is_empty() || tests.contains(test),
                "{number}: `{test}`"
            ),
            _ => panic!("{number}: `{state}` is no state"),
        }
    }
    assert_eq!(numbers, (1..=61).collect::<Vec<u32>>());
}

#[test]
fn only_the_gate_makes_a_permit() {
    for (path, text) in sources("src") {
        let makes = text
            .split("Permit {")
            .zip(text.split("Permit {").skip(1))
            .filter(|(before, _)| {
                !before.ends_with("struct ")
                    && !before.ends_with("impl ")
                    && !before.ends_with("-> ")
            })
            .count();
        let gate = path.ends_with("src/policy/decide.rs");
        assert!(makes == 0 || gate, "{} makes a permit", path.display());
    }
}

/// What a program prints.
fn told(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(root())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn every_dependency_has_a_permitted_licence_and_comes_locked_from_the_one_registry() {
    let deny = fs::read_to_string(root().join("deny.toml")).unwrap();
    let (_, allowed) = deny.split_once("\nallow = [\n").unwrap();
    let allowed: Vec<&str> = allowed
        .lines()
        .take_while(|line| *line != "]")
        .map(|line| line.split('"').nth(1).unwrap())
        .collect();
    let version = told("rustc", &["-vV"]);
    let host = version
        .lines()
        .find_map(|line| line.strip_prefix("host: "))
        .unwrap();
    let words = "metadata --locked --offline --format-version 1 --filter-platform";
    let words: Vec<&str> = words.split(' ').chain([host]).collect();
    let metadata: serde_json::Value = serde_json::from_str(&told("cargo", &words)).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    assert!(packages.len() > 50);
    for package in packages {
        let (name, licence) = (&package["name"], package["license"].as_str().unwrap_or(""));
        // Each part of an `AND` needs one that is permitted.
        let is_permitted = licence.split(" AND ").all(|part| {
            part.trim_matches(['(', ')'])
                .split(" OR ")
                .flat_map(|one| one.split('/'))
                .any(|one| allowed.contains(&one.trim()))
        });
        assert!(is_permitted, "{name}: `{licence}` is not in deny.toml");
    }
    let lock = fs::read_to_string(root().join("Cargo.lock")).unwrap();
    let source = "source = \"registry+https://github.com/rust-lang/crates.io-index\"";
    for package in lock.split("[[package]]").skip(1) {
        let is_ours = package.contains("name = \"agent-batch\"");
        assert!(
            is_ours || package.contains(source) && package.contains("checksum = "),
            "{package}"
        );
        for banned in ["openssl-sys", "native-tls"] {
            assert!(
                !package.contains(&format!("name = \"{banned}\"")),
                "{package}"
            );
        }
    }
}

/// A tag can be moved to other code, a hash cannot.
#[test]
fn our_workflows_and_our_action_pin_what_they_use_by_hash() {
    let workflows = fs::read_dir(root().join(".github/workflows")).unwrap();
    let files = workflows
        .map(|entry| entry.unwrap().path())
        .chain([root().join("action.yml")]);
    let mut seen = 0;
    for file in files {
        for line in fs::read_to_string(&file).unwrap().lines() {
            let line = line.trim_start().trim_start_matches("- ");
            let Some(used) = line.strip_prefix("uses:") else {
                continue;
            };
            let used = used.split_whitespace().next().unwrap_or_default();
            if used.starts_with("./") {
                continue;
            }
            let hash = used.split_once('@').map_or("", |(_, hash)| hash);
            let is_hash = hash.len() == 40 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
            assert!(is_hash, "{}: `{used}` is no hash", file.display());
            seen += 1;
        }
    }
    assert!(seen > 3, "{seen}");
}
