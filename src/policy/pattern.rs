//! Globs on paths, as rules write them.
//!
//! `*` and `?` stay inside one component, `**` crosses components, `[..]` is a class, `\` escapes, a trailing `/`
//! means the tree. Patterns are relative to the workspace (`src/**`, `./src/**` and `/src/**` are one); two leading
//! slashes make a pattern absolute. Allow patterns are anchored and compare characters as they are; deny patterns
//! without an inner slash match at any depth, a directory covers its tree, and names are compared after folding
//! (`fold`). Matching never recurses and costs at most pattern times path.

use super::fold;

/// A pattern in its parsed form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pattern {
    /// Whether it starts at the root of the file system instead of the workspace.
    pub(super) absolute: bool,
    /// No slash but a trailing one: as a deny pattern it matches at any depth.
    floating: bool,
    parts: Vec<Part>,
    folded: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    /// `**`
    Any,
    /// One component.
    Name(Vec<Atom>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Atom {
    Char(char),
    One,
    Star,
    Class {
        negated: bool,
        ranges: Vec<(char, char)>,
    },
}

impl Atom {
    fn accepts(&self, c: char) -> bool {
        match self {
            Self::Char(own) => *own == c,
            Self::One | Self::Star => true,
            Self::Class { negated, ranges } => {
                ranges.iter().any(|&(low, high)| low <= c && c <= high) != *negated
            }
        }
    }
}

impl Pattern {
    /// The names before the first wildcard.
    pub(super) fn literal_start(&self) -> Vec<String> {
        let name = |part: &Part| match part {
            Part::Any => None,
            Part::Name(atoms) => atoms
                .iter()
                .map(|atom| match atom {
                    Atom::Char(c) => Some(*c),
                    _ => None,
                })
                .collect::<Option<String>>(),
        };
        self.parts.iter().map_while(name).collect()
    }

    /// The names, if there is no wildcard.
    pub(super) fn literal(&self) -> Option<Vec<String>> {
        let names = self.literal_start();
        (names.len() == self.parts.len()).then_some(names)
    }

    /// One component with a wildcard in it and something literal, as in `*.rs`.
    pub(super) fn is_one_wild_name(&self) -> bool {
        match self.parts.as_slice() {
            [Part::Name(atoms)] => {
                let literal = |atom: &Atom| matches!(atom, Atom::Char(_));
                atoms.iter().any(literal) && !atoms.iter().all(literal)
            }
            _ => false,
        }
    }

    /// Parses a pattern; the error is a sentence.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("the pattern is empty".into());
        }
        if text.starts_with('!') {
            return Err("`!` does not negate a pattern here".into());
        }
        if text.starts_with('~') {
            return Err("`~` is not expanded in a pattern".into());
        }
        if let Some(c) = text
            .chars()
            .find(|c| c.is_control() || fold::is_invisible(*c))
        {
            return Err(format!(
                "the pattern holds the invisible character U+{:04X}",
                u32::from(c)
            ));
        }
        let absolute = text.starts_with("//");
        let body = text.trim_start_matches('/');
        let tree = body.ends_with('/');
        let body = body.trim_end_matches('/');
        let mut parts = Vec::new();
        for component in split(body)? {
            match component.as_str() {
                "" | "." => {}
                ".." => return Err("`..` is not allowed in a pattern".into()),
                "**" => parts.push(Part::Any),
                name => parts.push(Part::Name(atoms(name)?)),
            }
        }
        if parts.is_empty() && !absolute && !text.starts_with("./") {
            return Err("the pattern names no path".into());
        }
        let floating = !text.starts_with('/') && !text.starts_with("./") && parts.len() == 1;
        if tree || parts.is_empty() {
            parts.push(Part::Any);
        }
        let folded = parts.iter().map(fold_part).collect();
        Ok(Self {
            absolute,
            floating,
            parts,
            folded,
        })
    }

    /// Whether an allow rule with this pattern covers the path: anchored, whole, character by character.
    pub(super) fn allows(&self, path: &[&str]) -> bool {
        // A closing `**` stands for something below, not for the directory itself.
        match (self.parts.last(), path.split_last()) {
            (Some(Part::Any), Some((_, above))) => matches(&self.parts, above),
            (Some(Part::Any), None) => false,
            _ => matches(&self.parts, path),
        }
    }

    /// Whether a deny rule with this pattern covers the path or a directory above it. The components are folded.
    pub(super) fn denies(&self, folded: &[&str]) -> bool {
        let starts = if self.floating { folded.len() } else { 1 };
        (0..starts.max(1)).any(|start| {
            let rest = folded.get(start..).unwrap_or_default();
            (0..=rest.len()).any(|end| {
                // The empty prefix is the root itself: only a pattern of nothing but `**` means it.
                (end > 0 || self.parts.iter().all(|part| *part == Part::Any))
                    && matches(&self.folded, &rest[..end])
            })
        })
    }

    /// As [`Pattern::denies`], for a path outside the workspace: only a floating pattern reaches there.
    pub(super) fn denies_anywhere(&self, folded: &[&str]) -> bool {
        self.floating && self.denies(folded)
    }

    /// Whether a deny rule with this pattern could cover something that a shell's glob expands to. Both sides may hold
    /// wildcards, so only what is literal at the ends of a component is compared. The components are folded.
    pub(super) fn meets(&self, glob: &[&str]) -> bool {
        if self.floating {
            return self.folded.first().is_some_and(|part| match part {
                Part::Any => true,
                Part::Name(name) => glob.iter().any(|other| names_meet(name, other)),
            });
        }
        let mut rest = glob.iter();
        for part in &self.folded {
            match (part, rest.next()) {
                (Part::Any, _) => return true,
                (Part::Name(name), Some(other)) if names_meet(name, other) => {}
                _ => return false,
            }
        }
        true
    }

    /// Whether the pattern could match the directory, or something below it.
    pub(super) fn overlaps(&self, root: &[&str]) -> bool {
        let mut rest = root;
        for part in &self.parts {
            let Part::Name(name) = part else { return true };
            let Some((first, after)) = rest.split_first() else {
                return true;
            };
            if !name_matches(name, first) {
                return false;
            }
            rest = after;
        }
        rest.is_empty()
    }

    /// Whether the components up to and including `index` are written out without a wildcard.
    pub(super) fn literal_up_to(&self, index: usize) -> bool {
        self.parts.len() > index && self.parts[..=index].iter().all(is_literal)
    }

    /// Whether the last component is written out without a wildcard.
    pub(super) fn ends_literally(&self) -> bool {
        self.parts.last().is_some_and(is_literal)
    }

    /// Whether the pattern covers whole trees from their root on (`**`, `//**`).
    pub(super) fn is_everything(&self) -> bool {
        self.parts.iter().all(|part| *part == Part::Any)
    }

    /// The text that matches exactly this path, for suggestions.
    pub(super) fn escape(path: &str) -> String {
        let mut text = String::with_capacity(path.len());
        for c in path.chars() {
            if matches!(c, '*' | '?' | '[' | ']' | '\\')
                || (text.is_empty() && matches!(c, '!' | '~'))
            {
                text.push('\\');
            }
            text.push(c);
        }
        text
    }
}

fn is_literal(part: &Part) -> bool {
    match part {
        Part::Any => false,
        Part::Name(atoms) => atoms.iter().all(|atom| matches!(atom, Atom::Char(_))),
    }
}

/// Splits at slashes that stand neither in a class nor behind a backslash; components stay raw.
fn split(text: &str) -> Result<Vec<String>, String> {
    let mut components = vec![String::new()];
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        let current = components.len() - 1;
        match c {
            '/' => components.push(String::new()),
            '\\' => {
                let Some(next) = chars.next() else {
                    return Err("the pattern ends in a lone `\\`".into());
                };
                if next == '/' {
                    return Err("`/` cannot be escaped".into());
                }
                components[current].push('\\');
                components[current].push(next);
            }
            other => components[current].push(other),
        }
    }
    Ok(components)
}

fn atoms(component: &str) -> Result<Vec<Atom>, String> {
    let chars: Vec<char> = component.chars().collect();
    let mut atoms = Vec::new();
    let mut at = 0;
    while let Some(&c) = chars.get(at) {
        at += 1;
        match c {
            '*' if atoms.last() == Some(&Atom::Star) => {
                return Err(format!(
                    "`**` stands for whole components, but is a part of `{component}`"
                ));
            }
            '*' => atoms.push(Atom::Star),
            '?' => atoms.push(Atom::One),
            '\\' => {
                atoms.extend(chars.get(at).map(|&next| Atom::Char(next)));
                at += 1;
            }
            '[' => {
                let (class, end) = class(&chars, at)
                    .ok_or_else(|| format!("the class in `{component}` is not closed with `]`"))?;
                atoms.push(class);
                at = end;
            }
            other => atoms.push(Atom::Char(other)),
        }
    }
    Ok(atoms)
}

/// The class that starts behind `[`, and the index behind its `]`.
fn class(chars: &[char], start: usize) -> Option<(Atom, usize)> {
    let negated = matches!(chars.get(start), Some('!' | '^'));
    let first = start + usize::from(negated);
    let mut at = first;
    let mut ranges = Vec::new();
    loop {
        let mut low = *chars.get(at)?;
        if low == ']' && at > first {
            return Some((Atom::Class { negated, ranges }, at + 1));
        }
        if low == '\\' {
            at += 1;
            low = *chars.get(at)?;
        }
        at += 1;
        if chars.get(at) == Some(&'-') && chars.get(at + 1).is_some_and(|&c| c != ']') {
            let mut high = *chars.get(at + 1)?;
            at += 2;
            if high == '\\' {
                high = *chars.get(at)?;
                at += 1;
            }
            ranges.push((low, high));
        } else {
            ranges.push((low, low));
        }
    }
}

fn fold_part(part: &Part) -> Part {
    let Part::Name(atoms) = part else {
        return Part::Any;
    };
    let mut folded = Vec::new();
    let mut literal = String::new();
    for atom in atoms {
        if let Atom::Char(c) = atom {
            literal.push(*c);
            continue;
        }
        folded.extend(
            fold::characters(&std::mem::take(&mut literal))
                .chars()
                .map(Atom::Char),
        );
        folded.push(match atom {
            Atom::Class { negated, ranges } => Atom::Class {
                negated: *negated,
                ranges: fold_ranges(ranges, *negated),
            },
            other => other.clone(),
        });
    }
    // The end is cut as the end of a path's component is.
    folded.extend(fold::component(&literal).chars().map(Atom::Char));
    Part::Name(folded)
}

/// A class of a deny pattern: as written, and its ASCII letters in the other case too. A negated class keeps only what
/// is excluded in both cases, so that folding never makes a deny rule narrower.
fn fold_ranges(ranges: &[(char, char)], negated: bool) -> Vec<(char, char)> {
    if negated {
        let holds = |c: char| ranges.iter().any(|&(low, high)| low <= c && c <= high);
        return ('a'..='z')
            .filter(|c| holds(*c) && holds(c.to_ascii_uppercase()))
            .map(|c| (c, c))
            .chain(
                ranges
                    .iter()
                    .copied()
                    .filter(|(low, high)| low == high && !low.is_alphabetic()),
            )
            .collect();
    }
    let mut all = ranges.to_vec();
    for c in 'A'..='Z' {
        if ranges.iter().any(|&(low, high)| low <= c && c <= high) {
            all.push((c.to_ascii_lowercase(), c.to_ascii_lowercase()));
        }
    }
    all
}

/// Matches components; `**` backtracks to its last occurrence only, which suffices as every other part takes exactly one.
fn matches(parts: &[Part], path: &[&str]) -> bool {
    let (mut p, mut c) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    while c < path.len() {
        match parts.get(p) {
            Some(Part::Any) => {
                retry = Some((p + 1, c));
                p += 1;
            }
            Some(Part::Name(name)) if name_matches(name, path[c]) => {
                p += 1;
                c += 1;
            }
            _ => {
                let Some((part, from)) = retry else {
                    return false;
                };
                retry = Some((part, from + 1));
                p = part;
                c = from + 1;
            }
        }
    }
    parts[p..].iter().all(|part| *part == Part::Any)
}

fn names_meet(atoms: &[Atom], glob: &str) -> bool {
    const WILD: [char; 3] = ['*', '?', '['];
    let char_of = |atom: &Atom| match atom {
        Atom::Char(c) => Some(*c),
        Atom::One | Atom::Star | Atom::Class { .. } => None,
    };
    if !glob.contains(WILD) {
        return name_matches(atoms, glob);
    }
    // A shell's wildcard does not stand for a leading dot.
    if atoms.first().and_then(char_of) == Some('.') && !glob.starts_with('.') {
        return false;
    }
    let start = glob.chars().take_while(|c| !WILD.contains(c));
    let end = glob
        .chars()
        .rev()
        .take_while(|c| !WILD.contains(c) && *c != ']');
    let same = |pair: (char, Option<char>)| pair.1.is_none_or(|own| own == pair.0);
    let starts = start
        .zip(atoms.iter().map_while(|atom| char_of(atom).map(Some)))
        .all(same);
    let ends = end
        .zip(atoms.iter().rev().map_while(|atom| char_of(atom).map(Some)))
        .all(same);
    starts && ends
}

fn name_matches(atoms: &[Atom], name: &str) -> bool {
    let chars: Vec<char> = name.chars().collect();
    let (mut a, mut c) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    while c < chars.len() {
        match atoms.get(a) {
            Some(Atom::Star) => {
                retry = Some((a + 1, c));
                a += 1;
            }
            Some(atom) if atom.accepts(chars[c]) => {
                a += 1;
                c += 1;
            }
            _ => {
                let Some((atom, from)) = retry else {
                    return false;
                };
                retry = Some((atom, from + 1));
                a = atom;
                c = from + 1;
            }
        }
    }
    atoms[a..].iter().all(|atom| *atom == Atom::Star)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(pattern: &str, path: &str) -> bool {
        let components: Vec<&str> = path.split('/').collect();
        Pattern::parse(pattern).unwrap().allows(&components)
    }

    fn denies(pattern: &str, path: &str) -> bool {
        let folded: Vec<String> = path.split('/').map(fold::component).collect();
        let components: Vec<&str> = folded.iter().map(String::as_str).collect();
        Pattern::parse(pattern).unwrap().denies(&components)
    }

    #[test]
    fn an_allow_pattern_is_anchored_and_whole() {
        assert!(allows("src/**", "src/a/b.rs"));
        assert!(allows("/src/*.rs", "src/a.rs"));
        assert!(allows("./src/", "src/a.rs"));
        assert!(allows("**/*.rs", "top.rs"));
        assert!(allows("src/[a-c]?.rs", "src/bx.rs"));
        assert!(allows(r"src/\[id\].tsx", "src/[id].tsx"));
        assert!(!allows("src/**", "src"));
        assert!(!allows("src/*", "src/a/b"));
        assert!(!allows("*.rs", "src/a.rs"));
        assert!(!allows("src", "src/a.rs"));
        assert!(!allows("src/**", "Src/a.rs"));
    }

    #[test]
    fn a_deny_pattern_is_wide() {
        assert!(denies(".env", "a/b/.ENV"));
        assert!(denies("secrets/", "secrets/a"));
        assert!(denies("secrets/**", "Secrets"));
        assert!(denies("*.pem", "x/y.PEM"));
        assert!(denies("a/b", "a/b/c/d"));
        assert!(denies("[A-C]x", "bx/y"));
        assert!(denies("secrets/k", "ｓecrets/k"));
        assert!(!denies("a/b", "x/a/b"));
        assert!(!denies("/env", "a/env"));
        assert!(!denies(".env", "src/env.rs"));
    }

    #[test]
    fn a_pattern_that_would_surprise_is_refused() {
        for text in [
            "",
            "/",
            "!a",
            "~/x",
            "a/../b",
            "[a",
            "a/[b",
            "src/**.rs",
            "a\\",
            "a\u{200b}",
        ] {
            assert!(Pattern::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_glob_meets_a_pattern_unless_their_ends_differ() {
        let meets = |pattern: &str, glob: &str| {
            let components: Vec<&str> = glob.split('/').collect();
            Pattern::parse(pattern).unwrap().meets(&components)
        };
        assert!(meets(".env", ".e*") && meets(".env", "sub/.[e]nv") && meets("*.pem", "src/*"));
        assert!(meets("secrets/**", "sec*/k") && meets("src/a*", "src/*b"));
        assert!(
            !meets(".env", "src/*") && !meets("*.pem", "src/*.rs") && !meets("secrets/**", "src/*")
        );
    }

    #[test]
    fn many_stars_do_not_explode() {
        let pattern = "*a".repeat(200) + "b";
        assert!(!allows(&pattern, &"a".repeat(4000)));
        assert!(!allows(&("**/a/".repeat(60) + "b"), &"a/".repeat(2000)));
    }

    proptest::proptest! {
        #[test]
        fn an_escaped_path_matches_itself(name in "[a-z*?!~.\\[\\]-]{1,12}") {
            proptest::prop_assume!(name != "." && name != "..");
            let pattern = Pattern::parse(&Pattern::escape(&name)).unwrap();
            proptest::prop_assert!(pattern.allows(&[name.as_str()]));
            proptest::prop_assert!(pattern.ends_literally());
        }
    }
}
