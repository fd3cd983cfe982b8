//! The wrap-up: when steps, tokens or money end a task, the model gets one call to hand over what it has.
//!
//! The task has failed already and stays so; what is handed over is its reply. The tools stay in the request, because one
//! without them would begin differently from all before it; whatever the model still calls is answered as not run.

use crate::agent::conversation::Conversation;
use crate::agent::halt::Halt;
use crate::agent::{Agent, Interrupt};
use crate::budget::{Ceiling, Exceeded};
use crate::event::{Emitter, Kind};
use crate::message::Message;
use crate::outcome::Stop;

/// What the reply to the question for a hand-over held.
#[derive(Debug, Clone, Copy)]
enum Came {
    /// A text: the hand-over.
    Text,
    /// Calls of tools, which do not run any more, and no text.
    Calls,
    /// Neither.
    Nothing,
}

impl Came {
    /// What is said of it behind the reason why the task ended. Reports count the step with the others, so it is told
    /// that it was one beyond the limit.
    fn told(self) -> &'static str {
        match self {
            Self::Text => "; one more step was the hand-over",
            Self::Calls => {
                "; one more step was to be the hand-over, and none came: the reply called tools and had no text"
            }
            Self::Nothing => {
                "; one more step was to be the hand-over, and none came: the reply was empty"
            }
        }
    }
}

impl Agent {
    /// Ends a turn at a ceiling, with a hand-over where that is wanted and can be paid.
    pub(super) async fn wrap_up(
        &self,
        talk: &mut Conversation,
        exceeded: Exceeded,
        emitter: &Emitter,
        interrupt: &Interrupt,
    ) -> Halt {
        let ends_the_task = matches!(
            exceeded.ceiling,
            Ceiling::Steps | Ceiling::TotalSteps | Ceiling::Tokens | Ceiling::Cost
        );
        let mut halt = Halt::from(exceeded);
        if !self.limits.wrap_up || !ends_the_task || interrupt.is_raised() {
            return halt;
        }
        match self
            .hand_over(talk, &halt.message, emitter, interrupt)
            .await
        {
            Ok(Some(came)) => halt.message.push_str(came.told()),
            Ok(None) => {}
            Err(broken) if broken.stop == Stop::IoError => return broken,
            Err(failed) => {
                halt.message
                    .push_str("; one more step was to be the hand-over, and failed");
                let warned = emitter.emit(Kind::Warned {
                    code: "wrap_up".into(),
                    message: format!("there is no hand-over: {}", failed.message),
                });
                if let Err(error) = warned {
                    return error.into();
                }
            }
        }
        halt
    }

    /// Makes the call. `None`: it cannot be paid.
    async fn hand_over(
        &self,
        talk: &mut Conversation,
        why: &str,
        emitter: &Emitter,
        interrupt: &Interrupt,
    ) -> Result<Option<Came>, Halt> {
        if talk.reserve_wrap_up(&self.system).is_err() {
            return Ok(None);
        }
        let note = format!(
            "Note from the runner: {why}, so no tool runs any more. Hand over now, in text: what you did, what you found, \
             what is missing, and how to go on."
        );
        talk.note("wrap_up", &note, emitter)?;
        let Ok(mut reservation) = talk.reserve_wrap_up(&self.system) else {
            return Ok(None);
        };
        let reply = self.ask(talk, &mut reservation, emitter, interrupt).await?;
        let (_, calls) = talk.append_reply(reply, true, emitter)?;
        let text = talk.messages.last().map(Message::text).unwrap_or_default();
        talk.answer_unrun(&calls, "the task has reached its limit", emitter)?;
        Ok(Some(if !text.trim().is_empty() {
            talk.reply = text;
            Came::Text
        } else if calls.is_empty() {
            Came::Nothing
        } else {
            Came::Calls
        }))
    }
}
