//! `cost`, `steps`, `tokens`, `time`: what the agent took. Softer than the task's limits: a limit ends the task where it is,
//! these let it finish and then say that it took too much. What checks use themselves does not count here.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{Build, Check, CheckContext, Finding, Problem, QUICK, Taken, TimeSpan, World};
use crate::text;
use crate::usage::Usd;

/// Looks at what the agent's model calls cost. A model whose price is not known makes the check an error.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CostSpec {
    /// At most so many US dollars.
    #[schemars(range(max = 10_000), extend("exclusiveMinimum" = 0))]
    pub at_most: f64,
}

/// Looks at how many model calls the agent made. At least one of the two must be given.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("minProperties" = 1))]
pub struct StepsSpec {
    /// At most so many.
    #[schemars(range(min = 1))]
    pub at_most: Option<u32>,
    /// At least so many: an agent that answers at once did not look.
    #[schemars(range(min = 2))]
    pub at_least: Option<u32>,
}

/// Looks at how many tokens the agent used: all input, cached or not, and all output.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TokensSpec {
    /// At most so many.
    #[schemars(range(min = 1))]
    pub at_most: u64,
}

/// Looks at how long the agent took, from its start to its end.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TimeSpec {
    /// At most so long.
    pub at_most: TimeSpan,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Bound {
    Cost(Usd),
    Steps {
        most: Option<u32>,
        least: Option<u32>,
    },
    Tokens(u64),
    Time(Duration),
}

impl Build for CostSpec {
    fn build(self, _: World<'_>) -> Result<Arc<dyn Check>, Vec<Problem>> {
        match Usd::from_dollars(self.at_most).filter(|cost| *cost > Usd::ZERO) {
            Some(cost) => Ok(Arc::new(Bound::Cost(cost))),
            None => Err(vec![zero("at_most", "expected an amount above 0")]),
        }
    }
}

impl Build for StepsSpec {
    fn build(self, _: World<'_>) -> Result<Arc<dyn Check>, Vec<Problem>> {
        let mut problems = Vec::new();
        if self.at_most.is_none() && self.at_least.is_none() {
            let hint = "give `at_most`, `at_least` or both";
            problems.push(Problem::whole("`steps` demands nothing", hint));
        }
        if self.at_most == Some(0) {
            problems.push(zero("at_most", "every agent makes a step"));
        }
        if self.at_least.is_some_and(|least| least < 2) {
            problems.push(zero(
                "at_least",
                "every agent makes a step: write 2 or more",
            ));
        }
        if let (Some(most), Some(least)) = (self.at_most, self.at_least)
            && least > most
        {
            problems.push(zero("at_least", "it is more than `at_most`"));
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        Ok(Arc::new(Bound::Steps {
            most: self.at_most,
            least: self.at_least,
        }))
    }
}

impl Build for TokensSpec {
    fn build(self, _: World<'_>) -> Result<Arc<dyn Check>, Vec<Problem>> {
        match self.at_most {
            0 => Err(vec![zero("at_most", "every agent uses tokens")]),
            most => Ok(Arc::new(Bound::Tokens(most))),
        }
    }
}

impl Build for TimeSpec {
    fn build(self, _: World<'_>) -> Result<Arc<dyn Check>, Vec<Problem>> {
        if self.at_most.0.is_zero() {
            return Err(vec![zero("at_most", "every agent takes time")]);
        }
        Ok(Arc::new(Bound::Time(self.at_most.0)))
    }
}

fn zero(field: &str, message: &str) -> Problem {
    Problem::field(field, message, None)
}

#[async_trait]
impl Check for Bound {
    fn kind(&self) -> &'static str {
        match self {
            Self::Cost(_) => "cost",
            Self::Steps { .. } => "steps",
            Self::Tokens(_) => "tokens",
            Self::Time(_) => "time",
        }
    }

    fn title(&self) -> String {
        match self {
            Self::Cost(most) => format!("costs at most {most}"),
            Self::Steps { most, least } => {
                let least = least.map(|least| format!("at least {least}"));
                let most = most.map(|most| format!("at most {most}"));
                let both: Vec<String> = least.into_iter().chain(most).collect();
                format!("takes {} steps", both.join(" and "))
            }
            Self::Tokens(most) => format!("uses at most {most} tokens"),
            Self::Time(most) => format!("takes at most {}", TimeSpan(*most)),
        }
    }

    fn time_limit(&self) -> Duration {
        QUICK
    }

    async fn run(&self, context: &CheckContext<'_>) -> Finding {
        self.judge(&context.taken)
    }
}

impl Bound {
    fn judge(self, taken: &Taken) -> Finding {
        let (holds, found) = match self {
            Self::Cost(most) => match taken.spent.cost {
                Some(cost) => (
                    cost <= most,
                    format!("it cost {cost}, expected at most {most}"),
                ),
                None => return Finding::errored("the price of the model is not known"),
            },
            Self::Steps { most, least } => {
                let steps = text::plural(taken.steps.into(), "step");
                match (most, least) {
                    (Some(most), _) if taken.steps > most => {
                        (false, format!("it took {steps}, expected at most {most}"))
                    }
                    (_, Some(least)) if taken.steps < least => {
                        (false, format!("it took {steps}, expected at least {least}"))
                    }
                    _ => (true, String::new()),
                }
            }
            Self::Tokens(most) => {
                let used = taken.spent.usage.total();
                (
                    used <= most,
                    format!("it used {used} tokens, expected at most {most}"),
                )
            }
            Self::Time(most) => (
                taken.time <= most,
                format!(
                    "it took {}, expected at most {}",
                    text::duration(taken.time),
                    TimeSpan(most)
                ),
            ),
        };
        if holds {
            Finding::passed()
        } else {
            Finding::failed(found)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::CheckResult::{Errored, Failed, Passed};
    use crate::event::Spent;
    use crate::usage::Usage;

    fn taken(cost: Option<u64>) -> Taken {
        Taken {
            steps: 3,
            spent: Spent {
                usage: Usage {
                    output_tokens: 100,
                    ..Usage::default()
                },
                cost: cost.map(Usd::from_nanos),
            },
            time: Duration::from_secs(60),
        }
    }

    #[test]
    fn a_bound_holds_up_to_itself_and_an_unknown_price_is_an_error() {
        let steps = |most, least| Bound::Steps { most, least };
        for (bound, result) in [
            (Bound::Cost(Usd::from_nanos(5)), Passed),
            (Bound::Cost(Usd::from_nanos(4)), Failed),
            (steps(Some(3), None), Passed),
            (steps(Some(2), None), Failed),
            (steps(None, Some(3)), Passed),
            (steps(None, Some(4)), Failed),
            (Bound::Tokens(100), Passed),
            (Bound::Tokens(99), Failed),
            (Bound::Time(Duration::from_secs(60)), Passed),
            (Bound::Time(Duration::from_secs(59)), Failed),
        ] {
            assert_eq!(bound.judge(&taken(Some(5))).result, result, "{bound:?}");
        }
        let unknown = Bound::Cost(Usd::from_nanos(5)).judge(&taken(None));
        assert_eq!(unknown.result, Errored);
    }

    #[test]
    fn a_bound_that_no_task_could_keep_or_break_is_refused() {
        let world = super::super::context::fixture::world();
        assert!(CostSpec { at_most: 0.0 }.build(world).is_err());
        assert!(CostSpec { at_most: f64::NAN }.build(world).is_err());
        assert!(TokensSpec { at_most: 0 }.build(world).is_err());
        for (at_most, at_least) in [
            (None, None),
            (Some(0), None),
            (None, Some(1)),
            (Some(2), Some(3)),
        ] {
            assert!(StepsSpec { at_most, at_least }.build(world).is_err());
        }
    }
}
