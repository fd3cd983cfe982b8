//! Laws of the house that the compiler does not know.

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn rust_files(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The modules in the order of `src/lib.rs`.
fn modules() -> Vec<String> {
    let lib = fs::read_to_string(root().join("src/lib.rs")).unwrap();
    lib.lines()
        .filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';'))
        .map(str::to_owned)
        .collect()
}

/// The top-level module that a file of `src` belongs to.
fn module_of(path: &Path) -> String {
    let inside = path.strip_prefix(root().join("src")).unwrap();
    let first = inside
        .components()
        .next()
        .unwrap()
        .as_os_str()
        .to_str()
        .unwrap();
    first.trim_end_matches(".rs").to_owned()
}

#[test]
fn a_module_uses_only_modules_that_stand_before_it() {
    let order = modules();
    assert!(
        order.len() >= 15,
        "the list of modules in src/lib.rs was not understood: {order:?}"
    );
    let mut files = Vec::new();
    rust_files(&root().join("src"), &mut files);
    let mut broken = Vec::new();
    for file in files {
        let module = module_of(&file);
        let Some(place) = order.iter().position(|known| *known == module) else {
            continue;
        };
        let source = fs::read_to_string(&file).unwrap();
        for used in source.split("crate::").skip(1).map(|rest| {
            rest.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
                .next()
                .unwrap()
        }) {
            if order
                .iter()
                .position(|known| known == used)
                .is_some_and(|other| other > place)
            {
                broken.push(format!(
                    "{}: `{module}` uses `{used}`, which stands after it in src/lib.rs",
                    file.display()
                ));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn every_built_in_tool_is_there_under_its_name() {
    for name in agent_batch::tool::BUILTIN {
        assert_eq!(agent_batch::tool::builtin(name).unwrap().name(), name);
    }
}

#[test]
fn only_the_agent_calls_tools() {
    let mut files = Vec::new();
    rust_files(&root().join("src"), &mut files);
    let calls: Vec<String> = files
        .iter()
        .map(|file| (file, fs::read_to_string(file).unwrap()))
        .filter(|(_, source)| {
            source
                .split("#[cfg(test)]")
                .next()
                .unwrap()
                .contains(".call(permit")
        })
        .map(|(file, _)| file.strip_prefix(root()).unwrap().display().to_string())
        .filter(|path| !path.ends_with("fixture.rs"))
        .collect();
    assert_eq!(
        calls,
        ["src/agent/perform.rs"],
        "a tool is called in one place, with the permit of the gate"
    );
}

#[test]
fn files_are_read_by_name_in_the_one_bounded_way() {
    // They read what stands in a directory that they opened, what the kernel writes, or what nobody named.
    const OTHERS: [&str; 5] = ["file", "workspace", "sandbox", "proc", "tool"];
    let mut files = Vec::new();
    rust_files(&root().join("src"), &mut files);
    let reads: Vec<String> = files
        .iter()
        .filter(|file| !OTHERS.contains(&module_of(file).as_str()))
        .filter(|file| {
            let source = fs::read_to_string(file).unwrap();
            let code = source.split("#[cfg(test)]").next().unwrap();
            ["fs::read(", "fs::read_to_string(", "File::open("]
                .iter()
                .any(|call| code.contains(call))
        })
        .map(|file| file.strip_prefix(root()).unwrap().display().to_string())
        .filter(|path| !path.contains("tests"))
        .collect();
    assert!(reads.is_empty(), "use `crate::file`: {reads:?}");
}
