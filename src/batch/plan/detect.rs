//! `--shard auto`: which shard the CI system means, from the variables that it sets for parallel jobs.
//!
//! It has to be asked for: inside of a job that runs in parallel for another reason, sharding unasked would drop tasks.

use super::shard::in_range;

/// A CI system that numbers parallel jobs.
struct System {
    name: &'static str,
    /// The variable with the number of the job.
    index: &'static str,
    /// The number of the first job.
    first: u32,
    /// The variable with the count of jobs, where there is one.
    total: Option<&'static str>,
}

/// Our own variable for the number of a job, from 0: what `strategy.job-index` says in a GitHub matrix.
const INDEX: &str = "AGENT_BATCH_JOB_INDEX";
/// Our own variable for the count of jobs: what `strategy.job-total` says.
const TOTAL: &str = "AGENT_BATCH_JOB_TOTAL";

/// All that are looked for. Ours comes first and wins, since somebody set it on purpose.
const SYSTEMS: [System; 8] = [
    system("GitHub matrix", INDEX, 0, Some(TOTAL)),
    system(
        "GitLab `parallel`",
        "CI_NODE_INDEX",
        1,
        Some("CI_NODE_TOTAL"),
    ),
    system(
        "CircleCI `parallelism`",
        "CIRCLE_NODE_INDEX",
        0,
        Some("CIRCLE_NODE_TOTAL"),
    ),
    system(
        "Buildkite `parallelism`",
        "BUILDKITE_PARALLEL_JOB",
        0,
        Some("BUILDKITE_PARALLEL_JOB_COUNT"),
    ),
    system(
        "Bitbucket `parallel`",
        "BITBUCKET_PARALLEL_STEP",
        0,
        Some("BITBUCKET_PARALLEL_STEP_COUNT"),
    ),
    system(
        "Semaphore `parallelism`",
        "SEMAPHORE_JOB_INDEX",
        1,
        Some("SEMAPHORE_JOB_COUNT"),
    ),
    system(
        "Azure Pipelines `parallel`",
        "SYSTEM_JOBPOSITIONINPHASE",
        1,
        Some("SYSTEM_TOTALJOBSINPHASE"),
    ),
    system("Kubernetes Indexed Job", "JOB_COMPLETION_INDEX", 0, None),
];

const fn system(
    name: &'static str,
    index: &'static str,
    first: u32,
    total: Option<&'static str>,
) -> System {
    System {
        name,
        index,
        first,
        total,
    }
}

/// A shard, and who said so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Detected {
    /// From 1.
    pub index: u32,
    /// How many there are.
    pub total: u32,
    /// The system, and its variables with their values.
    pub source: String,
}

/// Finds the shard. `total` is the count that was typed (`auto/4`), for systems that do not tell it.
///
/// # Errors
/// No system, or two that do not agree; a value that is no number or out of range; a missing count.
pub fn detect<'a>(
    variable: impl Fn(&str) -> Option<&'a str>,
    total: Option<u32>,
) -> Result<Detected, String> {
    let found: Vec<&System> = SYSTEMS
        .iter()
        .filter(|system| variable(system.index).is_some())
        .collect();
    let ours = found.first().filter(|system| system.index == INDEX);
    let system = match (ours, found.as_slice()) {
        (Some(ours), _) => ours,
        (None, [one]) => one,
        (None, []) => {
            let variables: Vec<String> = SYSTEMS
                .iter()
                .map(|system| format!("`{}` ({})", system.index, system.name))
                .collect();
            return Err(format!(
                "no CI system says which shard this is; looked for {}; say it with `--shard INDEX/TOTAL`",
                variables.join(", ")
            ));
        }
        (None, several) => {
            let variables: Vec<String> = several
                .iter()
                .map(|system| format!("`{}` ({})", system.index, system.name))
                .collect();
            return Err(format!(
                "{} are set, and it is not clear which of them is meant; say it with `--shard INDEX/TOTAL`",
                variables.join(" and ")
            ));
        }
    };
    let number = |name: &str| {
        let text = variable(name).unwrap_or_default();
        text.parse::<u32>().map_err(|_| {
            let text = crate::text::one_line(text, 80);
            format!(
                "`{name}` ({}): expected a number, found `{text}`",
                system.name
            )
        })
    };
    let index = number(system.index)?;
    let own = system.total.unwrap_or(TOTAL);
    let told = variable(own).map(|_| number(own)).transpose()?;
    let count = match (told, total) {
        (Some(told), Some(typed)) if told != typed => {
            return Err(format!(
                "`{own}` says {told} shards, and `--shard auto/{typed}` says {typed}"
            ));
        }
        (Some(count), _) | (None, Some(count)) => count,
        (None, None) => {
            return Err(format!(
                "`{}` ({}) says which shard this is, and `{own}` does not say of how many; write `--shard auto/TOTAL`",
                system.index, system.name
            ));
        }
    };
    let value = |name: &str| {
        format!(
            "{name}={}",
            crate::text::one_line(variable(name).unwrap_or_default(), 20)
        )
    };
    let mut source = format!("{}, {}", system.name, value(system.index));
    if told.is_some() {
        source.push_str(&format!(", {}", value(own)));
    }
    let counted = index
        .checked_sub(system.first)
        .and_then(|from_zero| from_zero.checked_add(1))
        .ok_or_else(|| {
            format!(
                "`{}` is {index}, and {} counts from {}",
                system.index, system.name, system.first
            )
        })?;
    let (index, total) = in_range(counted, count).map_err(|error| format!("{source}: {error}"))?;
    Ok(Detected {
        index,
        total,
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detected(
        variables: &[(&'static str, &'static str)],
        total: Option<u32>,
    ) -> Result<(u32, u32), String> {
        let lookup = |name: &str| {
            variables
                .iter()
                .find(|(own, _)| *own == name)
                .map(|(_, value)| *value)
        };
        detect(lookup, total).map(|found| (found.index, found.total))
    }

    #[test]
    fn every_system_counts_in_its_own_way() {
        for (variables, expected) in [
            (
                [
                    ("AGENT_BATCH_JOB_INDEX", "0"),
                    ("AGENT_BATCH_JOB_TOTAL", "4"),
                ],
                (1, 4),
            ),
            ([("CI_NODE_INDEX", "1"), ("CI_NODE_TOTAL", "4")], (1, 4)),
            ([("CI_NODE_INDEX", "4"), ("CI_NODE_TOTAL", "4")], (4, 4)),
            (
                [("CIRCLE_NODE_INDEX", "3"), ("CIRCLE_NODE_TOTAL", "4")],
                (4, 4),
            ),
            (
                [
                    ("BUILDKITE_PARALLEL_JOB", "0"),
                    ("BUILDKITE_PARALLEL_JOB_COUNT", "2"),
                ],
                (1, 2),
            ),
            (
                [
                    ("BITBUCKET_PARALLEL_STEP", "1"),
                    ("BITBUCKET_PARALLEL_STEP_COUNT", "2"),
                ],
                (2, 2),
            ),
            (
                [("SEMAPHORE_JOB_INDEX", "2"), ("SEMAPHORE_JOB_COUNT", "2")],
                (2, 2),
            ),
            (
                [
                    ("SYSTEM_JOBPOSITIONINPHASE", "1"),
                    ("SYSTEM_TOTALJOBSINPHASE", "3"),
                ],
                (1, 3),
            ),
            (
                [
                    ("JOB_COMPLETION_INDEX", "0"),
                    ("AGENT_BATCH_JOB_TOTAL", "3"),
                ],
                (1, 3),
            ),
        ] {
            assert_eq!(detected(&variables, None), Ok(expected), "{variables:?}");
        }
        assert_eq!(
            detected(&[("JOB_COMPLETION_INDEX", "2")], Some(3)),
            Ok((3, 3))
        );
        let both = [
            ("CI_NODE_INDEX", "1"),
            ("CI_NODE_TOTAL", "2"),
            ("AGENT_BATCH_JOB_INDEX", "2"),
            ("AGENT_BATCH_JOB_TOTAL", "4"),
        ];
        assert_eq!(
            detected(&both, None),
            Ok((3, 4)),
            "ours is there on purpose"
        );
    }

    #[test]
    fn what_is_missing_or_not_clear_is_told_with_what_was_looked_for() {
        let error = |variables: &[(&'static str, &'static str)], total| {
            detected(variables, total).unwrap_err()
        };
        let nothing = error(&[], Some(4));
        for system in &SYSTEMS {
            assert!(
                nothing.contains(system.index) && nothing.contains(system.name),
                "{nothing}"
            );
        }
        let two = error(
            &[("CI_NODE_INDEX", "1"), ("JOB_COMPLETION_INDEX", "0")],
            Some(4),
        );
        assert!(
            two.contains("`CI_NODE_INDEX`") && two.contains("`JOB_COMPLETION_INDEX`"),
            "{two}"
        );
        assert!(error(&[("JOB_COMPLETION_INDEX", "0")], None).contains("auto/TOTAL"));
        assert!(
            error(&[("CI_NODE_INDEX", "1"), ("CI_NODE_TOTAL", "2")], Some(4)).contains("says 4")
        );
        assert!(
            error(&[("CI_NODE_INDEX", "0"), ("CI_NODE_TOTAL", "2")], None)
                .contains("counts from 1")
        );
        assert!(
            error(&[("CI_NODE_INDEX", "3"), ("CI_NODE_TOTAL", "2")], None).contains("no shard 3")
        );
        assert!(
            error(&[("CI_NODE_INDEX", "x"), ("CI_NODE_TOTAL", "2")], None).contains("found `x`")
        );
        assert!(
            error(
                &[("CI_NODE_INDEX", "4294967295"), ("CI_NODE_TOTAL", "2")],
                None
            )
            .contains("no shard")
        );
    }
}
