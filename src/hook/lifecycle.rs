//! The fixed points of a task's life that a hook can be hung on.
//!
//! Names are those of Claude Code. This runner fires six of its 31; the others are accepted in a configuration, so that
//! one file can serve both, and never fire here. A name that is in neither list is a mistake.

/// The points that this runner fires.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HookEvent {
    /// Before the gate; may block or rewrite.
    PreToolUse,
    /// After a tool succeeded.
    PostToolUse,
    /// After a tool ran and failed.
    PostToolUseFailure,
    /// The model wants to end a turn; may make it go on.
    Stop,
    /// Before the first model call.
    SessionStart,
    /// After the last.
    SessionEnd,
}

/// What this runner knows about the name of a hook event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NamedEvent {
    /// It fires.
    Fires(HookEvent),
    /// Claude Code has it; here it never fires, which a reader of the configuration should be told.
    NeverFires,
}

/// Names that are known and never fire here.
const NEVER_FIRES: [&str; 25] = [
    "Setup",
    "UserPromptSubmit",
    "UserPromptExpansion",
    "InstructionsLoaded",
    "PermissionRequest",
    "PermissionDenied",
    "PostToolBatch",
    "StopFailure",
    "SubagentStart",
    "SubagentStop",
    "TaskCreated",
    "TaskCompleted",
    "TeammateIdle",
    "PreCompact",
    "PostCompact",
    "Notification",
    "MessageDisplay",
    "ConfigChange",
    "CwdChanged",
    "DirectoryAdded",
    "FileChanged",
    "WorktreeCreate",
    "WorktreeRemove",
    "Elicitation",
    "ElicitationResult",
];

impl HookEvent {
    /// Every point that fires.
    pub const ALL: [Self; 6] = [
        Self::PreToolUse,
        Self::PostToolUse,
        Self::PostToolUseFailure,
        Self::Stop,
        Self::SessionStart,
        Self::SessionEnd,
    ];

    /// The name in configurations, in a hook's input and in transcripts.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::PreToolUse => "PreToolUse",
            Self::PostToolUse => "PostToolUse",
            Self::PostToolUseFailure => "PostToolUseFailure",
            Self::Stop => "Stop",
            Self::SessionStart => "SessionStart",
            Self::SessionEnd => "SessionEnd",
        }
    }

    /// What is known about a name; `None` for a name that nobody has.
    #[must_use]
    pub fn named(name: &str) -> Option<NamedEvent> {
        Self::ALL
            .into_iter()
            .find(|event| event.name() == name)
            .map(NamedEvent::Fires)
            .or_else(|| {
                NEVER_FIRES
                    .contains(&name)
                    .then_some(NamedEvent::NeverFires)
            })
    }

    /// Whether a hook can hold up what is about to happen: a call, or the end of a turn. Everywhere else it observes.
    #[must_use]
    pub const fn can_block(self) -> bool {
        matches!(self, Self::PreToolUse | Self::Stop)
    }

    /// Whether hooks are chosen by a matcher. `Stop` has nothing to match; a matcher there is ignored.
    #[must_use]
    pub const fn has_matcher(self) -> bool {
        !matches!(self, Self::Stop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_31_names_are_known_and_each_once() {
        let mut names: Vec<&str> = HookEvent::ALL.iter().map(|event| event.name()).collect();
        names.extend(NEVER_FIRES);
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), 31);
    }

    #[test]
    fn a_typo_is_not_a_name() {
        assert_eq!(
            HookEvent::named("PreToolUse"),
            Some(NamedEvent::Fires(HookEvent::PreToolUse))
        );
        assert_eq!(HookEvent::named("PreCompact"), Some(NamedEvent::NeverFires));
        for typo in ["preToolUse", "PreToolUse ", "PreTool", ""] {
            assert_eq!(HookEvent::named(typo), None, "{typo}");
        }
    }
}
