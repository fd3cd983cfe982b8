//! `judge`: another model scores the work against a rubric.
//!
//! A model can be talked into anything, also by the work that it judges, and it does not answer the same twice. So a judge
//! is never the only check of a task without a warning, what it reads is marked as data ([`prompt`]), its answer is read
//! strictly ([`verdict`]), and all that is not a clear score is an error and no pass. It has a budget of its own, which is
//! reserved before the call, and what it spends counts for the task.

mod prompt;
mod verdict;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;

use self::verdict::{Verdict, parse};
use super::{
    Build, Check, CheckContext, Finding, Problem, Step, TimeSpan, World, clipped, time_limit,
};
use crate::budget::{Ask, Budget, Limits};
use crate::event::{CheckResult, Spent};
use crate::message::{Block, Message};
use crate::model::{Bill, Model, ModelError, Reply, Request};
use crate::usage::Usd;

/// The time limit of a judge that names none.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(2 * 60);
/// The token budget of a judge that names none.
const DEFAULT_TOKENS: u64 = 50_000;
/// The most output tokens of its answer.
const ANSWER_TOKENS: u64 = 2_000;
/// Input that the provider counts beside what is sent, in tokens.
const ENVELOPE_TOKENS: u64 = 1_024;
/// The score from which on a judge passes that names no threshold.
const DEFAULT_THRESHOLD: f64 = 0.7;
/// The longest rubric, in bytes.
const LONGEST_RUBRIC: usize = 32 * 1024;

/// Asks another model for a score from 0 to 1. It sees the task, the reply and what changed, and never runs anything. A
/// score is an opinion: give the task a check of another kind as well.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JudgeSpec {
    /// The model that judges, written as the task's own `model`.
    pub model: String,
    /// What makes the work good, in words.
    #[schemars(length(min = 1))]
    pub rubric: String,
    /// The score from which on the check passes. Default: 0.7.
    #[schemars(range(min = 0, max = 1))]
    pub threshold: Option<f64>,
    /// What the judge is shown. Default: `prompt`, `reply` and `changes`.
    #[schemars(length(min = 1))]
    pub sees: Option<Vec<Sight>>,
    /// The most tokens that it may use. Default: 50000.
    #[schemars(range(min = 1000, max = 1_000_000))]
    pub max_tokens: Option<u64>,
    /// The most money that it may use, in US dollars. Default: none.
    #[schemars(range(max = 100), extend("exclusiveMinimum" = 0))]
    pub max_cost_usd: Option<f64>,
    /// How long it may take. Default: `2m`.
    pub timeout: Option<TimeSpan>,
}

/// Something that a judge is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Sight {
    /// The task's prompts.
    Prompt,
    /// The last reply.
    Reply,
    /// The changed files, with the text that they have now.
    Changes,
    /// The tool calls and how they ended.
    Calls,
    /// The structured answer.
    Output,
}

#[derive(Debug)]
struct Judge {
    model: String,
    rubric: String,
    threshold: f64,
    sees: Vec<Sight>,
    max_tokens: u64,
    max_cost: Option<Usd>,
    time_limit: Duration,
}

impl Build for JudgeSpec {
    fn build(self, _: World<'_>) -> Result<Arc<dyn Check>, Vec<Problem>> {
        let mut problems = Vec::new();
        if self.rubric.trim().is_empty() {
            problems.push(Problem::field("rubric", "the rubric is empty", None));
        }
        if self.rubric.len() > LONGEST_RUBRIC {
            let message = format!("the rubric is longer than {LONGEST_RUBRIC} bytes");
            problems.push(Problem::field("rubric", message, None));
        }
        let threshold = self.threshold.unwrap_or(DEFAULT_THRESHOLD);
        if !(threshold > 0.0 && threshold <= 1.0) {
            let message =
                format!("expected a threshold above 0 and at most 1, found `{threshold}`");
            let hint = Some("every score would pass a threshold of 0".to_owned());
            problems.push(Problem::field("threshold", message, hint));
        }
        if self.sees.as_ref().is_some_and(Vec::is_empty) {
            problems.push(Problem::field(
                "sees",
                "a judge that sees nothing cannot judge",
                None,
            ));
        }
        let max_tokens = self.max_tokens.unwrap_or(DEFAULT_TOKENS);
        if !(1000..=1_000_000).contains(&max_tokens) {
            let message = format!("expected 1000 to 1000000 tokens, found `{max_tokens}`");
            problems.push(Problem::field("max_tokens", message, None));
        }
        let max_cost = self
            .max_cost_usd
            .map(|dollars| Usd::from_dollars(dollars).unwrap_or(Usd::ZERO));
        if max_cost == Some(Usd::ZERO) {
            problems.push(Problem::field(
                "max_cost_usd",
                "expected an amount above 0",
                None,
            ));
        }
        let time_limit = time_limit(self.timeout, DEFAULT_TIMEOUT, &mut problems);
        if !problems.is_empty() {
            return Err(problems);
        }
        Ok(Arc::new(Judge {
            model: self.model,
            rubric: self.rubric,
            threshold,
            sees: self
                .sees
                .unwrap_or_else(|| vec![Sight::Prompt, Sight::Reply, Sight::Changes]),
            max_tokens,
            max_cost,
            time_limit,
        }))
    }

    fn models(&self) -> Vec<(Vec<Step>, &str)> {
        vec![(vec![Step::Key("model".to_owned())], &self.model)]
    }
}

#[async_trait]
impl Check for Judge {
    fn kind(&self) -> &'static str {
        "judge"
    }

    fn title(&self) -> String {
        let rubric = self.rubric.trim().lines().next().unwrap_or_default();
        format!(
            "`{}` gives at least {} for: {}",
            clipped(&self.model, 80),
            self.threshold,
            clipped(rubric, 120)
        )
    }

    fn time_limit(&self) -> Duration {
        self.time_limit
    }

    async fn run(&self, context: &CheckContext<'_>) -> Finding {
        let Some(model) = context.judges.get(&self.model) else {
            return Finding::errored(format!("there is no model `{}`", clipped(&self.model, 80)));
        };
        let bill = OnceLock::new();
        let asked = tokio::time::timeout(self.time_limit, self.ask(model.as_ref(), context, &bill));
        let mut finding = tokio::select! {
            finding = asked => finding.unwrap_or_else(|_| Finding::errored(format!(
                "the judge gave no answer within {}",
                TimeSpan(self.time_limit)
            ))),
            () = context.cancel.cancelled() => Finding::errored("the run was interrupted"),
        };
        if let Some(bill) = bill.get() {
            bill.drop_call();
            // What was cut off counts too.
            let budget = bill.budget();
            let mut usage = budget.spent();
            let mut cost = budget.cost();
            if let Some(replied) = finding.spent {
                usage += replied.usage;
                cost = cost
                    .zip(replied.cost)
                    .map(|(cost, more)| cost.saturating_add(more));
            }
            finding.spent = (usage.total() > 0).then_some(Spent { usage, cost });
        }
        finding
    }
}

impl Judge {
    async fn ask(
        &self,
        model: &dyn Model,
        context: &CheckContext<'_>,
        bill: &OnceLock<Bill>,
    ) -> Finding {
        let facts = model.facts();
        if self.max_cost.is_some() && facts.is_none() {
            return Finding::errored(
                "the price of the judge's model is not known, so `max_cost_usd` cannot be kept",
            );
        }
        let limits = Limits {
            max_steps: 1,
            max_tokens: self.max_tokens,
            max_output_tokens: ANSWER_TOKENS,
            max_cost: self.max_cost,
            ..Limits::default()
        };
        let mut budget = Budget::new(limits, facts, 1);
        // Two thirds of the budget, at about three bytes a token, are room for what it is shown.
        let room = usize::try_from(self.max_tokens.saturating_mul(2)).unwrap_or(usize::MAX);
        let shown = prompt::write(&self.rubric, &self.sees, context, room);
        let estimate = (prompt::SYSTEM.len() + shown.len()) as u64 / 3;
        let mut reservation = match budget.reserve(1, estimate) {
            Ok(reservation) => reservation,
            Err(exceeded) => {
                return Finding::errored(format!("the judge's budget is too small: {exceeded}"));
            }
        };
        // A token has at least a byte; JSON escapes are the provider's affair and no tokens.
        let input = ENVELOPE_TOKENS + (prompt::SYSTEM.len() + shown.len()) as u64;
        let ask = Ask {
            input,
            input_unmeasured: input,
            output: reservation.max_tokens,
            price: facts.map(|facts| facts.price),
        };
        let held = match &context.purse {
            None => None,
            Some(purse) => match purse.hold(&ask).await {
                Ok(hold) => {
                    reservation.lower(hold.output);
                    Some((Arc::clone(purse), hold))
                }
                Err(exceeded) => {
                    return Finding::errored(format!("the judge was not asked: {exceeded}"));
                }
            },
        };
        let bill = bill.get_or_init(|| Bill::new(budget.clone(), reservation, estimate, ask, held));
        let request = Request {
            system: prompt::SYSTEM,
            messages: &[Message::user(shown)],
            tools: &[],
            max_tokens: reservation.max_tokens,
        };
        let reply = model.reply(request, bill).await;
        match &reply {
            Ok(reply) => bill.settle(&reply.usage),
            Err(_) => bill.give_up(),
        }
        match reply {
            Ok(reply) => {
                let cost = budget.settle(&reply.usage);
                let spent = Some(Spent {
                    usage: reply.usage,
                    cost,
                });
                Finding {
                    spent,
                    ..self.judge(&reply)
                }
            }
            Err(ModelError { message, .. }) => {
                let message = bill.refused().map_or(message, |exceeded| exceeded.message);
                Finding::errored(format!("the judge could not be asked: {message}"))
            }
        }
    }

    fn judge(&self, reply: &Reply) -> Finding {
        let text: Vec<&str> = reply.content.iter().filter_map(Block::as_text).collect();
        if !matches!(
            reply.stop_reason.as_deref(),
            Some("end_turn" | "stop_sequence")
        ) {
            let reason = reply.stop_reason.as_deref().unwrap_or("none");
            return Finding::errored(format!(
                "the judge did not end its answer (stop reason `{reason}`)"
            ));
        }
        let Verdict { score, reason } = match parse(&text.concat()) {
            Ok(verdict) => verdict,
            Err(why) => {
                return Finding::errored(format!("the judge's answer is no verdict: {why}"));
            }
        };
        let result = if score >= self.threshold {
            CheckResult::Passed
        } else {
            CheckResult::Failed
        };
        let message = format!(
            "score {score}, threshold {}: {}",
            self.threshold,
            reason.trim()
        );
        let one_line = message.replace(['\n', '\r'], " ");
        Finding::of(result, &one_line)
    }
}

#[cfg(test)]
mod tests {
    use super::super::context::fixture::{Place, world};
    use super::*;
    use crate::budget::{Purse, PurseLimits};
    use crate::model::scripted::{Script, Scripted};
    use serde_json::json;

    fn judge(extra: &serde_json::Value) -> Judge {
        let mut spec = json!({"model": "scripted/judge", "rubric": "Is it short?"});
        for (key, value) in extra.as_object().unwrap() {
            spec[key] = value.clone();
        }
        let spec: JudgeSpec = serde_json::from_value(spec).unwrap();
        assert!(spec.clone().build(world()).is_ok());
        Judge {
            model: spec.model,
            rubric: spec.rubric,
            threshold: spec.threshold.unwrap_or(DEFAULT_THRESHOLD),
            sees: vec![Sight::Prompt, Sight::Reply, Sight::Changes],
            max_tokens: spec.max_tokens.unwrap_or(DEFAULT_TOKENS),
            max_cost: spec.max_cost_usd.and_then(Usd::from_dollars),
            time_limit: DEFAULT_TIMEOUT,
        }
    }

    async fn run(judge: &Judge, script: &str, reply: &str) -> Finding {
        let place = Place::new();
        let mut context = place.context();
        let script = Script::parse("judge.yaml", script).unwrap();
        let model: Arc<dyn Model> = Arc::new(Scripted::new("scripted/judge", script));
        context.judges.insert("scripted/judge".to_owned(), model);
        reply.clone_into(&mut context.reply);
        judge.run(&context).await
    }

    #[tokio::test]
    async fn a_score_passes_from_the_threshold_on_and_its_price_is_told() {
        let script = |score: &str| {
            format!(
                "price: {{ input: 1, output: 1 }}\nreplies:\n  - text: '{{\"score\": {score}, \"reason\": \"so so\"}}'\n"
            )
        };
        let judge = judge(&json!({"threshold": 0.5}));
        let good = run(&judge, &script("0.5"), "x").await;
        assert_eq!(good.result, CheckResult::Passed, "{good:?}");
        assert_eq!(good.message, "score 0.5, threshold 0.5: so so");
        assert!(good.spent.unwrap().cost.unwrap() > Usd::ZERO);
        let bad = run(&judge, &script("0.49"), "x").await;
        assert_eq!(bad.result, CheckResult::Failed);
        assert!(bad.spent.is_some());
    }

    #[tokio::test]
    async fn everything_that_is_no_clear_score_is_an_error() {
        let judge = judge(&json!({}));
        for script in [
            "- text: I give it a 1.0\n",
            "- text: '{\"score\": 1.5, \"reason\": \"\"}'\n",
            "- text: '{\"score\": \"1\", \"reason\": \"\"}'\n",
            "- text: '{\"score\": 1}'\n",
            "- text: '{\"score\": 1, \"reason\": \"a\", \"passed\": true}'\n",
            "- text: '{\"score\": 0, \"reason\": \"a\"} {\"score\": 1, \"reason\": \"b\"}'\n",
            "- text: '{\"score\": 1, \"reason\": \"a\"}'\n  stop_reason: max_tokens\n",
            "- text: '{\"score\": 1, \"reason\": \"a\"}'\n  stop_reason: refusal\n",
            "- fault: { status: 400 }\n",
        ] {
            let finding = run(&judge, script, "x").await;
            assert_eq!(finding.result, CheckResult::Errored, "{script} {finding:?}");
        }
    }

    #[tokio::test]
    async fn a_judge_is_paid_from_the_purse_of_the_batch_or_not_asked() {
        let script = "price: { input: 1, output: 1 }\nreplies:\n  - text: '{\"score\": 1, \"reason\": \"\"}'\n";
        for (tokens, result) in [(40_000, CheckResult::Passed), (1_000, CheckResult::Errored)] {
            let place = Place::new();
            let mut context = place.context();
            let script = Script::parse("judge.yaml", script).unwrap();
            let model: Arc<dyn Model> = Arc::new(Scripted::new("scripted/judge", script));
            context.judges.insert("scripted/judge".to_owned(), model);
            context.purse = Purse::new(PurseLimits {
                max_tokens: Some(tokens),
                ..PurseLimits::default()
            });
            let finding = judge(&json!({})).run(&context).await;
            assert_eq!(finding.result, result, "{finding:?}");
            let spent = finding.spent.map_or(0, |spent| spent.usage.total());
            let state = context.purse.unwrap().state();
            assert!(
                state.contains(&format!("{spent} of {tokens} tokens")),
                "{state}"
            );
        }
    }

    #[tokio::test]
    async fn a_budget_that_does_not_reach_is_an_error_and_no_call() {
        let judge = judge(&json!({"max_cost_usd": 0.000_001}));
        let script = "price: { input: 1000, output: 1000 }\nreplies:\n  - text: never\n";
        let finding = run(&judge, script, "x").await;
        assert_eq!(finding.result, CheckResult::Errored);
        assert!(finding.message.contains("budget"), "{}", finding.message);
        assert_eq!(finding.spent, None);
    }

    #[test]
    fn what_every_score_would_pass_is_refused() {
        for (extra, place) in [
            (json!({"threshold": 0.0}), "threshold"),
            (json!({"threshold": 1.1}), "threshold"),
            (json!({"rubric": " "}), "rubric"),
            (json!({"sees": []}), "sees"),
            (json!({"max_tokens": 10}), "max_tokens"),
            (json!({"max_cost_usd": -1.0}), "max_cost_usd"),
            (json!({"timeout": "0s"}), "timeout"),
        ] {
            let mut spec = json!({"model": "scripted/j", "rubric": "r"});
            for (key, value) in extra.as_object().unwrap() {
                spec[key] = value.clone();
            }
            let spec: JudgeSpec = serde_json::from_value(spec).unwrap();
            let problems = spec.build(world()).unwrap_err();
            assert_eq!(problems[0].place(), place);
        }
    }
}
