//! `all`, `any`, `not`: checks made of checks.
//!
//! A group knows three answers, and an error is the strongest: where a check could not be run, nobody knows what the group
//! would have said, so the group could not be run either. (The other way round, `any` of a pass and an error would be a
//! pass, and a broken check could hide for months.) With that, the usual laws hold: `not` twice is nothing, and `not all`
//! is `any not`. All parts are run, so that one look shows everything.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;

use super::{Build, Check, CheckContext, CheckSpec, Finding, Problem, Step, World, run};
use crate::event::{CheckResult, Spent};

/// How many groups may stand in each other.
const DEEPEST: usize = 5;
/// How many lines of a part's details a group shows.
const SHOWN_LINES: usize = 8;

/// Checks that all have to pass.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(transparent)]
pub struct AllSpec(Vec<CheckSpec>);

/// Checks of which one has to pass.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(transparent)]
pub struct AnySpec(Vec<CheckSpec>);

/// A check that has to fail.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct NotSpec(Box<CheckSpec>);

fn list_schema(generator: &mut SchemaGenerator) -> Schema {
    let items = generator.subschema_for::<CheckSpec>();
    json_schema!({ "type": "array", "items": items, "minItems": 1 })
}

impl JsonSchema for AllSpec {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "AllSpec".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        list_schema(generator)
    }
}

impl JsonSchema for AnySpec {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "AnySpec".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        list_schema(generator)
    }
}

/// How the answers of the parts become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    All,
    Any,
    Not,
}

#[derive(Debug)]
struct Group {
    how: How,
    parts: Vec<Arc<dyn Check>>,
}

impl Build for AllSpec {
    fn build(self, world: World<'_>) -> Result<Arc<dyn Check>, Vec<Problem>> {
        list(How::All, self.0, world)
    }

    fn models(&self) -> Vec<(Vec<Step>, &str)> {
        models(&self.0)
    }
}

impl Build for AnySpec {
    fn build(self, world: World<'_>) -> Result<Arc<dyn Check>, Vec<Problem>> {
        list(How::Any, self.0, world)
    }

    fn models(&self) -> Vec<(Vec<Step>, &str)> {
        models(&self.0)
    }
}

impl Build for NotSpec {
    fn build(self, world: World<'_>) -> Result<Arc<dyn Check>, Vec<Problem>> {
        let part = part(*self.0, world)?;
        Ok(Arc::new(Group {
            how: How::Not,
            parts: vec![part],
        }))
    }

    fn models(&self) -> Vec<(Vec<Step>, &str)> {
        below(&self.0).collect()
    }
}

fn list(how: How, specs: Vec<CheckSpec>, world: World<'_>) -> Result<Arc<dyn Check>, Vec<Problem>> {
    let (mut parts, mut problems) = (Vec::new(), Vec::new());
    if specs.is_empty() {
        problems.push(Problem::whole(
            "the group is empty",
            "write at least one check",
        ));
    }
    for (index, spec) in specs.into_iter().enumerate() {
        match part(spec, world) {
            Ok(check) => parts.push(check),
            Err(found) => problems.extend(
                found
                    .into_iter()
                    .map(|problem| problem.below(Step::Index(index))),
            ),
        }
    }
    if problems.is_empty() {
        Ok(Arc::new(Group { how, parts }))
    } else {
        Err(problems)
    }
}

fn part(spec: CheckSpec, world: World<'_>) -> Result<Arc<dyn Check>, Vec<Problem>> {
    let key = Step::Key(spec.kind().to_owned());
    if world.depth >= DEEPEST {
        let message = format!("groups are nested more than {DEEPEST} deep");
        return Err(vec![
            Problem::whole(message, "write the inner ones as checks of their own").below(key),
        ]);
    }
    let world = World {
        depth: world.depth + 1,
        ..world
    };
    spec.build(world).map_err(|found| {
        found
            .into_iter()
            .map(|problem| problem.below(key.clone()))
            .collect()
    })
}

fn models(specs: &[CheckSpec]) -> Vec<(Vec<Step>, &str)> {
    let each = specs.iter().enumerate().flat_map(|(index, spec)| {
        below(spec).map(move |(mut path, model)| {
            path.insert(0, Step::Index(index));
            (path, model)
        })
    });
    each.collect()
}

fn below(spec: &CheckSpec) -> impl Iterator<Item = (Vec<Step>, &str)> {
    let key = spec.kind();
    spec.models().into_iter().map(move |(mut path, model)| {
        path.insert(0, Step::Key(key.to_owned()));
        (path, model)
    })
}

#[async_trait]
impl Check for Group {
    fn kind(&self) -> &'static str {
        match self.how {
            How::All => "all",
            How::Any => "any",
            How::Not => "not",
        }
    }

    fn title(&self) -> String {
        let parts: Vec<String> = self.parts.iter().map(|part| part.title()).collect();
        let parts = super::clipped(&parts.join("; "), 300);
        match self.how {
            How::All => format!("all of: {parts}"),
            How::Any => format!("one of: {parts}"),
            How::Not => format!("not: {parts}"),
        }
    }

    fn time_limit(&self) -> Duration {
        let limits = self.parts.iter().map(|part| part.time_limit());
        limits.fold(Duration::ZERO, |sum, limit| {
            sum.saturating_add(limit + Duration::from_secs(20))
        })
    }

    fn parts(&self) -> &[Arc<dyn Check>] {
        &self.parts
    }

    async fn run(&self, context: &CheckContext<'_>) -> Finding {
        let mut found = Vec::with_capacity(self.parts.len());
        for part in &self.parts {
            found.push((part.title(), run(part.as_ref(), context).await));
        }
        judge(self.how, &found)
    }
}

fn judge(how: How, found: &[(String, Finding)]) -> Finding {
    use CheckResult::{Errored, Failed, Passed};
    let first = |result| found.iter().find(|(_, finding)| finding.result == result);
    let because = |(title, finding): &(String, Finding)| match finding.message.as_str() {
        "" => title.clone(),
        message => format!("{title}: {message}"),
    };
    let mut finding = match how {
        _ if first(Errored).is_some() => {
            let why = first(Errored).map(because).unwrap_or_default();
            Finding::errored(format!("a part could not be run: {why}"))
        }
        How::All => match first(Failed) {
            Some(failed) => Finding::failed(because(failed)),
            None => Finding::passed(),
        },
        How::Any if first(Passed).is_some() => Finding::passed(),
        How::Any => Finding::failed(format!("none of {} passed", found.len())),
        How::Not => match first(Failed) {
            Some((title, failed)) if !failed.decisive => Finding::errored(format!(
                "it failed in a way that does not say that the opposite holds: {title}: {}",
                failed.message
            )),
            Some(_) => Finding::passed(),
            None => Finding::failed("the check passed, and should not"),
        },
    };
    let failures: Vec<_> = found
        .iter()
        .filter(|(_, one)| one.result == Failed)
        .collect();
    finding.decisive = match how {
        // One failure that is certain is enough for `all`, and `any` needs all of them to be.
        How::All => failures.iter().any(|(_, one)| one.decisive),
        How::Any => failures.iter().all(|(_, one)| one.decisive),
        How::Not => true,
    } || finding.result != Failed;
    finding.details = told(found);
    finding.spent = found.iter().filter_map(|(_, part)| part.spent).reduce(sum);
    finding
}

fn sum(one: Spent, other: Spent) -> Spent {
    let mut usage = one.usage;
    usage += other.usage;
    let cost = one.cost.zip(other.cost);
    Spent {
        usage,
        cost: cost.map(|(one, other)| one.saturating_add(other)),
    }
}

/// The answers of the parts, a line each, with the beginning of their details.
fn told(found: &[(String, Finding)]) -> String {
    let mut lines = Vec::new();
    for (title, part) in found {
        let did = match part.result {
            CheckResult::Passed => "passed",
            CheckResult::Failed => "failed",
            CheckResult::Errored => "could not be run",
        };
        lines.push(format!("{did}: {title}"));
        if !part.message.is_empty() {
            lines.push(format!("  {}", part.message));
        }
        let details: Vec<&str> = part.details.lines().collect();
        // The end of an output is where the reason stands.
        let tail = details.len().saturating_sub(SHOWN_LINES);
        lines.extend(details[tail..].iter().map(|line| format!("  {line}")));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use CheckResult::{Errored, Failed, Passed};
    use proptest::prelude::*;

    /// A tree of groups over answers.
    #[derive(Debug, Clone)]
    enum Tree {
        Leaf(CheckResult, bool),
        All(Vec<Tree>),
        Any(Vec<Tree>),
        Not(Box<Tree>),
    }

    fn answer(tree: &Tree) -> Finding {
        let group = |how, parts: &[Tree]| {
            let found: Vec<_> = parts
                .iter()
                .map(|part| ("part".to_owned(), answer(part)))
                .collect();
            judge(how, &found)
        };
        match tree {
            Tree::Leaf(result, decisive) => Finding {
                decisive: *decisive || *result != Failed,
                ..Finding::of(*result, "why")
            },
            Tree::All(parts) => group(How::All, parts),
            Tree::Any(parts) => group(How::Any, parts),
            Tree::Not(part) => group(How::Not, std::slice::from_ref(part)),
        }
    }

    fn has_error(tree: &Tree) -> bool {
        match tree {
            Tree::Leaf(result, _) => *result == Errored,
            Tree::All(parts) | Tree::Any(parts) => parts.iter().any(has_error),
            Tree::Not(part) => has_error(part),
        }
    }

    fn trees(doubt: bool) -> impl Strategy<Value = Tree> {
        let leaf = (
            prop_oneof![Just(Passed), Just(Failed), Just(Errored)],
            prop::bool::weighted(if doubt { 0.5 } else { 1.0 }),
        )
            .prop_map(|(result, decisive)| Tree::Leaf(result, decisive));
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 1..4).prop_map(Tree::All),
                prop::collection::vec(inner.clone(), 1..4).prop_map(Tree::Any),
                inner.prop_map(|part| Tree::Not(Box::new(part))),
            ]
        })
    }

    fn not(tree: &Tree) -> Tree {
        Tree::Not(Box::new(tree.clone()))
    }

    /// A failure that proves nothing may turn out as either.
    fn settle(tree: &Tree, coin: bool) -> Tree {
        let all = |parts: &[Tree]| parts.iter().map(|part| settle(part, coin)).collect();
        match tree {
            Tree::Leaf(Failed, false) => Tree::Leaf(if coin { Passed } else { Failed }, true),
            Tree::Leaf(..) => tree.clone(),
            Tree::All(parts) => Tree::All(all(parts)),
            Tree::Any(parts) => Tree::Any(all(parts)),
            Tree::Not(part) => not(&settle(part, coin)),
        }
    }

    proptest! {
        #[test]
        fn an_error_anywhere_is_the_answer_and_nothing_passes_over_it(tree in trees(true)) {
            if has_error(&tree) {
                prop_assert_eq!(answer(&tree).result, Errored);
            }
        }

        #[test]
        fn not_twice_is_nothing(tree in trees(false)) {
            prop_assert_eq!(answer(&not(&not(&tree))).result, answer(&tree).result);
        }

        #[test]
        fn not_all_is_any_not_and_not_any_is_all_not(parts in prop::collection::vec(trees(false), 1..5)) {
            let negated: Vec<Tree> = parts.iter().map(not).collect();
            prop_assert_eq!(
                answer(&not(&Tree::All(parts.clone()))).result,
                answer(&Tree::Any(negated.clone())).result
            );
            prop_assert_eq!(
                answer(&not(&Tree::Any(parts))).result,
                answer(&Tree::All(negated)).result
            );
        }

        #[test]
        fn a_pass_does_not_hang_on_a_failure_that_proves_nothing(tree in trees(true)) {
            if answer(&tree).result == Passed {
                // Whatever a command would have done that was killed: had it failed, the group would pass as well.
                prop_assert_eq!(answer(&settle(&tree, false)).result, Passed);
                prop_assert_eq!(answer(&settle(&tree, true)).result, Passed);
            }
        }

        #[test]
        fn the_order_of_the_parts_is_no_matter(mut parts in prop::collection::vec(trees(true), 1..5)) {
            let (all, any) = (answer(&Tree::All(parts.clone())).result, answer(&Tree::Any(parts.clone())).result);
            parts.reverse();
            prop_assert_eq!(answer(&Tree::All(parts.clone())).result, all);
            prop_assert_eq!(answer(&Tree::Any(parts)).result, any);
        }
    }

    #[test]
    fn a_group_says_which_part_it_was() {
        let found = [
            ("a".to_owned(), Finding::passed()),
            ("b".to_owned(), Finding::failed("exit code 1\nlast line")),
        ];
        let finding = judge(How::All, &found);
        assert_eq!(finding.message, "b: exit code 1");
        assert_eq!(
            finding.details,
            "passed: a\nfailed: b\n  exit code 1\n  last line"
        );
        assert_eq!(judge(How::Any, &found[1..]).message, "none of 1 passed");
    }
}
