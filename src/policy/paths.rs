//! Paths as text: which input is refused before anybody looks at a disk, and how text becomes components.

use std::path::Path;

use unicode_normalization::UnicodeNormalization as _;

use super::fold;

/// Longest path, in bytes.
const MAX_BYTES: usize = 4096;
/// Longest component, in bytes.
const MAX_COMPONENT: usize = 255;
/// Most components.
const MAX_COMPONENTS: usize = 256;

/// Refuses a path whose text alone is a trick or a mistake; the error completes "the path ..".
pub(super) fn check(path: &str) -> Result<(), String> {
    if path.is_empty() {
        return Err("is empty".into());
    }
    if path.len() > MAX_BYTES {
        return Err(format!("is longer than {MAX_BYTES} bytes"));
    }
    for c in path.chars() {
        if c.is_control() || fold::is_invisible(c) {
            return Err(format!(
                "holds the invisible character U+{:04X}",
                u32::from(c)
            ));
        }
        if c == '\\' {
            return Err("holds a backslash; components are separated by `/`".into());
        }
        if !c.is_ascii() {
            let normal: String = std::iter::once(c).nfkc().collect();
            if normal.contains(['/', '\\']) || normal.contains("..") {
                return Err(format!(
                    "holds U+{:04X}, which some programs take for a separator",
                    u32::from(c)
                ));
            }
        }
    }
    if path.contains("://") {
        return Err("looks like a URL".into());
    }
    if path.starts_with('~') {
        return Err("begins with `~`, which is not expanded".into());
    }
    let mut count = 0;
    for component in path.split('/') {
        match component {
            "" | "." | ".." => continue,
            name if name.len() > MAX_COMPONENT => {
                return Err(format!("has a component longer than {MAX_COMPONENT} bytes"));
            }
            name if !name.is_ascii() && {
                let normal: String = name.nfkc().collect();
                normal.ends_with('.') || normal.contains(['/', '\\'])
            } =>
            {
                return Err(
                    "has a component that some programs take for dots or a separator".into(),
                );
            }
            name if name.starts_with(char::is_whitespace)
                || name.ends_with(|c: char| c == '.' || c.is_whitespace()) =>
            {
                return Err(
                    "has a component that begins or ends with a blank or ends with a dot".into(),
                );
            }
            _ => count += 1,
        }
        if count > MAX_COMPONENTS {
            return Err(format!("has more than {MAX_COMPONENTS} components"));
        }
    }
    Ok(())
}

/// The directory in which a glob searches: its components before the first wildcard and before its last component.
pub(super) fn glob_base(pattern: &str) -> String {
    let mut base: Vec<&str> = Vec::new();
    let components: Vec<&str> = pattern.split('/').collect();
    for component in &components[..components.len() - 1] {
        if component.contains(['*', '?', '[', '{']) {
            break;
        }
        base.push(component);
    }
    match base.as_slice() {
        [] => ".".to_owned(),
        [""] => "/".to_owned(),
        _ => base.join("/"),
    }
}

/// `path` below `base`, unless it is absolute; nothing is removed.
pub(super) fn join(base: &str, path: &str) -> String {
    if path.starts_with('/') {
        return path.to_owned();
    }
    format!("{}/{path}", base.trim_end_matches('/'))
}

/// Absolute and without `.`, `..` and doubled slashes, by text alone.
pub(super) fn lexical(base: &str, path: &str) -> String {
    let joined = join(base, path);
    let mut components: Vec<&str> = Vec::new();
    for component in joined.split('/') {
        match component {
            "" | "." => {}
            ".." => drop(components.pop()),
            name => components.push(name),
        }
    }
    format!("/{}", components.join("/"))
}

/// The components of an absolute path without its root; `None` if they are no UTF-8.
pub(super) fn components(path: &Path) -> Option<Vec<&str>> {
    Some(
        path.to_str()?
            .split('/')
            .filter(|name| !name.is_empty())
            .collect(),
    )
}

/// The components of `path` below `root`, if it lies there (or is the root itself).
pub(super) fn below<'a>(root: &Path, path: &'a Path) -> Option<Vec<&'a str>> {
    if root.as_os_str().is_empty() {
        return None;
    }
    components(path.strip_prefix(root).ok()?)
}

/// All components in their folded form.
pub(super) fn folded(components: &[&str]) -> Vec<String> {
    components
        .iter()
        .map(|name| fold::component(name))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tricks_in_the_text_of_a_path_are_refused() {
        for path in [
            "",
            "a\0b",
            "a\tb",
            "a\u{85}",
            "a\u{200b}",
            "a\\b",
            "file:///x",
            "~/x",
            " a",
            "a /b",
            "a./b",
            "a...",
            "a\u{ff0f}b",
            "a/\u{2025}/b",
        ] {
            assert!(check(path).is_err(), "{path:?}");
        }
        assert!(check(&"a".repeat(256)).is_err());
        assert!(check(&"é".repeat(128)).is_err());
        assert!(check(&"a/".repeat(300)).is_err());
    }

    #[test]
    fn characters_that_mean_something_elsewhere_are_literal() {
        for path in [
            "src/$id.tsx",
            "a~",
            "*",
            "[id]",
            "-rf",
            "%2f",
            ".hidden",
            "../x",
            "a/./b",
            "(a)",
            "{b}",
        ] {
            assert_eq!(check(path), Ok(()), "{path}");
        }
    }

    #[test]
    fn the_base_of_a_glob_ends_before_its_first_wildcard() {
        assert_eq!(glob_base("src/**/*.rs"), "src");
        assert_eq!(glob_base("**/*.rs"), ".");
        assert_eq!(glob_base("/etc/*"), "/etc");
        assert_eq!(glob_base("/*"), "/");
        assert_eq!(glob_base("a"), ".");
    }

    #[test]
    fn lexical_paths_never_rise_above_the_root() {
        assert_eq!(lexical("/w/r", "a/../../b"), "/w/b");
        assert_eq!(lexical("/w", "../../../x"), "/x");
        assert_eq!(lexical("/w", "/a/./b//c"), "/a/b/c");
    }
}
