//! Text made safe for where it goes.
//!
//! What a model, a tool, a hook or the repository under test says is hostile: it may hold escape
//! sequences, look like a workflow command of the CI system, end a CDATA section or never end at
//! all. Nothing in this module knows about agents; each chapter knows one place where text goes:
//!
//! | chapter | place |
//! |---|---|
//! | [`clip`] | a bounded space |
//! | [`terminal`] | a terminal or a log that a person reads |
//! | [`workflow`] | the log of a CI system that obeys lines |
//! | [`xml`] | an XML 1.0 document |
//! | [`json`] | JSON that is printed |
//! | [`markdown`] | a Markdown page |
//! | [`html`] | an HTML page |
//! | [`file_name`] | a file system, and the artifact store of a CI system |
//! | [`quantity`] | a sentence with a number in it |
//!
//! The order that every report follows: drop escape sequences, settle line ends, clip by bytes at
//! a character boundary, replace what the place forbids, escape.

pub mod clip;
pub mod file_name;
pub mod html;
pub mod json;
pub mod markdown;
pub mod quantity;
pub mod terminal;
pub mod workflow;
pub mod xml;

pub use clip::{ends, head, one_line, prefix, suffix};
pub use quantity::{bytes, duration, hex, plural, some, tokens};
pub use terminal::{plain, strip_ansi, visible, visible_line};
