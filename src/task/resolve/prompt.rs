//! The words for the model: the system prompt's addition and the turns.

use super::{Context, Findings};

/// The most turns of one conversation.
const MOST_TURNS: usize = 50;

/// The addition to the system prompt, and at least one turn unless there is an error.
pub(super) fn resolve(cx: &Context<'_>, findings: &mut Findings) -> (String, Vec<String>) {
    let system = cx.spec.system.clone().unwrap_or_default();
    let prompt = cx.layer.origin(&["prompt"]);
    let turns = cx.layer.origin(&["turns"]);
    match (&cx.spec.prompt, &cx.spec.turns) {
        (Some(_), Some(_)) => findings.key_error(
            &turns,
            "`prompt` and `turns` are both given",
            Some("put the prompt first in `turns`, and remove `prompt`"),
        ),
        (None, None) if !cx.mentions(&["prompt"]) && !cx.mentions(&["turns"]) => findings.error(
            &cx.whole(),
            "the task has no `prompt`",
            Some("write what the agent is to do under `prompt`, or several prompts under `turns`"),
        ),
        _ => {}
    }
    if cx
        .spec
        .prompt
        .as_ref()
        .is_some_and(|text| text.trim().is_empty())
    {
        findings.error(&prompt, "the prompt is empty", None);
    }
    let list = cx.spec.turns.as_deref().unwrap_or_default();
    for (index, turn) in list.iter().enumerate() {
        if turn.trim().is_empty() {
            findings.error(&turns.index(index), "the prompt is empty", None);
        }
    }
    if cx.spec.turns.as_ref().is_some_and(Vec::is_empty) {
        findings.error(&turns, "`turns` has no prompt in it", None);
    }
    if list.len() > MOST_TURNS {
        let message = format!(
            "{} turns are more than the {MOST_TURNS} that a task may have",
            list.len()
        );
        findings.error(&turns, message, None);
    }
    match (&cx.spec.prompt, &cx.spec.turns) {
        (Some(prompt), _) => (system, vec![prompt.clone()]),
        (None, turns) => (system, turns.clone().unwrap_or_default()),
    }
}
