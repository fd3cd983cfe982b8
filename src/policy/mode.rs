//! The pinned permission mode: what a whole class of calls defaults to.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The pinned permission mode.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub enum Mode {
    /// Rules only, reads included.
    Strict,
    /// Read-only tools are free inside the workspace; all else needs an allow rule.
    #[default]
    #[serde(alias = "dontAsk")]
    Default,
    /// `default`, and Edit and Write are free inside the workspace.
    AcceptEdits,
    /// Only calls that read.
    Plan,
    /// No rule needed; deny rules, never-paths and hooks still hold.
    #[serde(alias = "bypass")]
    BypassPermissions,
}

/// A mode that does not exist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no permission mode; the modes are `strict`, `default` (also `dontAsk`), `acceptEdits`, `plan` and `bypassPermissions` (also `bypass`)"
)]
pub struct UnknownMode(pub String);

impl Mode {
    /// Every mode, from the narrowest to the widest.
    pub const ALL: [Self; 5] = [
        Self::Plan,
        Self::Strict,
        Self::Default,
        Self::AcceptEdits,
        Self::BypassPermissions,
    ];

    /// The name in task files and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Strict => "strict",
            Self::Default => "default",
            Self::AcceptEdits => "acceptEdits",
            Self::Plan => "plan",
            Self::BypassPermissions => "bypassPermissions",
        }
    }

    /// Whether reading tools need no rule inside the workspace.
    #[must_use]
    pub fn frees_reads(self) -> bool {
        match self {
            Self::Strict => false,
            Self::Default | Self::AcceptEdits | Self::Plan | Self::BypassPermissions => true,
        }
    }

    /// Whether Edit and Write need no rule inside the workspace.
    #[must_use]
    pub fn frees_edits(self) -> bool {
        match self {
            Self::AcceptEdits | Self::BypassPermissions => true,
            Self::Strict | Self::Default | Self::Plan => false,
        }
    }

    /// Whether an interactive tool in this mode would have asked a person before it denied for want of a rule.
    #[must_use]
    pub fn would_ask(self) -> bool {
        match self {
            Self::Default | Self::AcceptEdits | Self::Plan => true,
            Self::Strict | Self::BypassPermissions => false,
        }
    }
}

impl FromStr for Mode {
    type Err = UnknownMode;

    fn from_str(text: &str) -> Result<Self, UnknownMode> {
        match text {
            "strict" => Ok(Self::Strict),
            "default" | "dontAsk" => Ok(Self::Default),
            "acceptEdits" => Ok(Self::AcceptEdits),
            "plan" => Ok(Self::Plan),
            "bypassPermissions" | "bypass" => Ok(Self::BypassPermissions),
            other => Err(UnknownMode(other.to_owned())),
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mode_is_read_back_from_its_name() {
        for mode in Mode::ALL {
            assert_eq!(mode.name().parse(), Ok(mode));
            assert_eq!(serde_json::to_value(mode).unwrap(), mode.name());
        }
    }

    #[test]
    fn aliases_are_the_same_mode_in_code_and_in_yaml() {
        for (alias, mode) in [
            ("dontAsk", Mode::Default),
            ("bypass", Mode::BypassPermissions),
        ] {
            assert_eq!(alias.parse(), Ok(mode));
            assert_eq!(
                serde_json::from_str::<Mode>(&format!("{alias:?}")).unwrap(),
                mode
            );
        }
    }

    #[test]
    fn an_unknown_mode_is_refused_with_the_list_of_modes() {
        for text in ["", "auto", "Default", "ask", "yolo"] {
            let error = text.parse::<Mode>().unwrap_err().to_string();
            assert!(error.contains("`acceptEdits`"), "{error}");
            assert!(serde_json::from_str::<Mode>(&format!("{text:?}")).is_err());
        }
    }
}
