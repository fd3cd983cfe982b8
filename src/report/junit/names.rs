//! Names and paths of cases: what readers group, compare and link by.

use std::collections::HashSet;
use std::path::{Component, Path};

use crate::text::xml;

/// The longest attribute, in bytes. Readers show about this much.
pub(super) const ATTRIBUTE: usize = 250;

/// `tasks/fix.yaml` as `tasks.fix`: readers group by it.
pub(super) fn class_name(file: &str) -> String {
    let path = relative(file);
    let stem = path
        .strip_suffix(".yaml")
        .or_else(|| path.strip_suffix(".yml"))
        .unwrap_or(&path);
    let class = xml::attribute(&stem.replace('/', "."), ATTRIBUTE);
    if class.is_empty() {
        "agent-batch".to_owned()
    } else {
        class
    }
}

/// A path without root, `.` and `..`, with `/`.
pub(in super::super) fn relative(path: &str) -> String {
    let path = path.replace('\\', "/");
    let names: Vec<&str> = Path::new(&path)
        .components()
        .filter_map(|component| match component {
            Component::Normal(name) => name.to_str(),
            Component::Prefix(_)
            | Component::RootDir
            | Component::CurDir
            | Component::ParentDir => None,
        })
        .collect();
    names.join("/")
}

/// A name that no other case of the class has: readers drop the second of two.
pub(super) fn unique(class: &str, name: String, taken: &mut HashSet<(String, String)>) -> String {
    let name = if name.is_empty() {
        "unnamed".to_owned()
    } else {
        name
    };
    let mut candidate = name.clone();
    let mut number = 1_u64;
    while !taken.insert((class.to_owned(), candidate.clone())) {
        number += 1;
        candidate = format!("{name} ({number})");
    }
    candidate
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_relative_and_classes_are_dotted() {
        assert_eq!(relative("./tasks/../a\\b.yaml"), "tasks/a/b.yaml");
        assert_eq!(relative("/etc/passwd"), "etc/passwd");
        assert_eq!(class_name("tasks/fix.v1.yaml"), "tasks.fix.v1");
        assert_eq!(class_name(""), "agent-batch");
    }

    #[test]
    fn two_cases_never_have_one_name() {
        let mut taken = HashSet::new();
        let names = ["a", "a", "a (2)", ""].map(|name| unique("c", name.into(), &mut taken));
        assert_eq!(names, ["a", "a (2)", "a (2) (2)", "unnamed"]);
    }
}
