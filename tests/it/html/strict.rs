//! Reads the page more strictly than any browser: everything that is not exactly what the template writes is an error.

use std::collections::BTreeSet;

/// The elements of the template.
const ELEMENTS: &[&str] = &[
    "a", "body", "caption", "code", "dd", "del", "details", "div", "dl", "dt", "footer", "h1",
    "h2", "head", "header", "html", "ins", "li", "main", "meta", "ol", "p", "pre", "rect",
    "script", "section", "span", "strong", "style", "summary", "svg", "table", "tbody", "td", "th",
    "thead", "title", "tr", "ul",
];

/// The attributes of the template. None of them runs, loads or styles anything.
const ATTRIBUTES: &[&str] = &[
    "aria-hidden",
    "aria-label",
    "aria-sort",
    "charset",
    "class",
    "content",
    "data-sort",
    "data-value",
    "focusable",
    "height",
    "href",
    "http-equiv",
    "id",
    "lang",
    "name",
    "open",
    "preserveAspectRatio",
    "role",
    "scope",
    "tabindex",
    "viewBox",
    "width",
];

/// What may stand in an element that a parser closes when anything else comes.
const PHRASES: &[&str] = &["a", "code", "span", "strong"];

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Document {
    /// How many elements there are.
    pub(crate) elements: usize,
    pub(crate) ids: Vec<String>,
    pub(crate) links: Vec<String>,
    /// Contents of `style` and `script`.
    pub(crate) embedded: Vec<String>,
    /// The content of the policy.
    pub(crate) policy: String,
    /// All text, unescaped.
    pub(crate) text: String,
}

impl Document {
    /// Every address of a place on the page is one.
    pub(crate) fn links_lead_somewhere(&self) {
        for id in self.links.iter().filter_map(|link| link.strip_prefix('#')) {
            assert!(
                self.ids.iter().any(|known| known == id),
                "#{id} leads nowhere"
            );
        }
    }
}

/// Reads a page.
pub(crate) fn read(page: &str) -> Document {
    let mut document = Document::default();
    let mut open: Vec<String> = Vec::new();
    let mut rest = page.strip_prefix("<!DOCTYPE html>").expect("a doctype");
    while let Some(place) = rest.find('<') {
        document.text.push_str(&unescape(&rest[..place]));
        let end = place + rest[place..].find('>').expect("a tag ends");
        let tag = &rest[place + 1..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(name), "wrong end");
            continue;
        }
        let name = start(tag, &mut document);
        assert!(ELEMENTS.contains(&name), "an element of nobody: <{tag}>");
        let parent = open.last().map_or("", String::as_str);
        if matches!(
            parent,
            "p" | "h1" | "h2" | "summary" | "caption" | "a" | "code"
        ) {
            assert!(PHRASES.contains(&name), "<{name}> in <{parent}>");
        }
        document.elements += 1;
        if matches!(name, "style" | "script") {
            let close = format!("</{name}>");
            let (content, after) = rest.split_once(&close).expect("an end");
            document.embedded.push(content.to_owned());
            rest = after;
        } else if name != "meta" {
            open.push(name.to_owned());
        }
    }
    assert_eq!(rest.trim(), "", "text behind the end");
    assert!(open.is_empty(), "left open: {open:?}");
    let unique: BTreeSet<&String> = document.ids.iter().collect();
    assert_eq!(unique.len(), document.ids.len(), "ids are unique");
    for link in &document.links {
        let stays = link.starts_with('#')
            || (link.starts_with("./") && !link.contains("..") && !link.contains(':'));
        assert!(stays, "{link} leads out");
    }
    document
}

/// Reads a start tag without its brackets.
fn start<'a>(tag: &'a str, document: &mut Document) -> &'a str {
    let (name, mut rest) = tag.split_once(' ').unwrap_or((tag, ""));
    let mut seen = BTreeSet::new();
    while !rest.is_empty() {
        let end = rest.find(['=', ' ']).unwrap_or(rest.len());
        let attribute = &rest[..end];
        assert!(
            ATTRIBUTES.contains(&attribute),
            "an attribute of nobody: <{tag}>"
        );
        assert!(seen.insert(attribute), "twice {attribute}: <{tag}>");
        rest = &rest[end..];
        if let Some(quoted) = rest.strip_prefix("=\"") {
            let (value, after) = quoted.split_once('"').expect("a quoted value");
            let value = unescape(value);
            match attribute {
                "id" => document.ids.push(value),
                "href" => document.links.push(value),
                "content" if value.contains("default-src") => document.policy = value,
                _ => {}
            }
            rest = after;
        } else {
            assert_eq!(attribute, "open", "no value: <{tag}>");
        }
        rest = rest.strip_prefix(' ').unwrap_or_else(|| {
            assert_eq!(rest, "", "<{tag}>");
            rest
        });
    }
    name
}

/// A text without its escapes. Nothing that acts may be left in it.
fn unescape(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(place) = rest.find(['&', '<', '>', '"']) {
        out.push_str(&rest[..place]);
        rest = &rest[place..];
        let entities = [
            ("&amp;", '&'),
            ("&lt;", '<'),
            ("&gt;", '>'),
            ("&quot;", '"'),
        ];
        let (entity, plain) = entities
            .into_iter()
            .find(|(entity, _)| rest.starts_with(entity))
            .unwrap_or_else(|| {
                panic!("not escaped: {}", rest.chars().take(40).collect::<String>())
            });
        out.push(plain);
        rest = &rest[entity.len()..];
    }
    out.push_str(rest);
    let acts = |c: char| {
        (c.is_control() && !matches!(c, '\n' | '\t')) || ('\u{202a}'..='\u{202e}').contains(&c)
    };
    assert!(!out.contains(acts), "{:?}", out.chars().find(|c| acts(*c)));
    out
}
