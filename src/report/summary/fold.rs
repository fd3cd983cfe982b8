//! The fold over one task's events: each kind of event changes the fields that it speaks of.

use std::collections::BTreeMap;

use super::record::{self, CheckRecord, Denial, HookRecord, HostRecord, Kept, StepRecord, Warning};
use super::repeats::Repeats;
use super::task::TaskSummary;
use crate::event::{
    AssistantReplied, Change, CheckFinished, Concern, ConnectionFinished, ConnectionResult, Event,
    HookFinished, HookResult, Kind, Omitted, RuleRecord, TaskFinished, TaskStarted, ToolDecided,
    ToolFinished, ToolResultKind,
};
use crate::outcome::Outcome;
use crate::report::plan::PlannedTask;
use crate::report::run_dir;
use crate::text;

/// How many of the last steps are kept.
const LAST_STEPS: usize = 5;
/// How many different words (stop reasons, tool names) are told apart.
const WORDS: usize = 32;
/// How many allow rules are watched for use.
const RULES: usize = 500;

impl TaskSummary {
    /// Takes one event of this task in.
    pub fn fold(&mut self, event: &Event) {
        // Attempts follow each other; what comes late of an earlier one changes nothing any more.
        if event.kind.is_transient() || event.attempt < self.attempt {
            return;
        }
        if event.attempt > self.attempt {
            self.open_attempt(event.attempt);
        }
        if event.seq != self.next_seq {
            self.gaps += 1;
        }
        self.next_seq = event.seq.saturating_add(1);
        let since = event.at - *self.started_at.get_or_insert(event.at);
        self.duration_ms = u64::try_from(since.whole_milliseconds()).unwrap_or_default();
        self.take(&event.kind);
    }

    /// The transcript of an attempt, this one or one that begins now, cannot be read to its end.
    pub(super) fn lose(&mut self, attempt: u32, why: &str) {
        if attempt > self.attempt {
            self.open_attempt(attempt);
        }
        self.attempt_message =
            record::sentence(&format!("its transcript could not be read: {why}"));
        self.judge_trials();
    }

    /// Puts the attempt so far among the earlier ones and begins a new one.
    fn open_attempt(&mut self, attempt: u32) {
        let mut next = Self::new(&PlannedTask {
            name: std::mem::take(&mut self.name),
            file: std::mem::take(&mut self.file),
            line: self.line,
            model: std::mem::take(&mut self.model),
            mode: std::mem::take(&mut self.mode),
            tags: std::mem::take(&mut self.tags),
            isolation: std::mem::take(&mut self.isolation),
            on_denied: self.on_denied,
            quarantine: self.quarantine.take(),
            trials: self.trials,
            ..PlannedTask::default()
        });
        next.earlier = std::mem::take(&mut self.earlier);
        if let Some(record) = self.last_attempt() {
            next.earlier.push(record);
            // A task has few attempts; the bound is for a run directory that somebody made up.
            next.earlier.truncate(Kept::<()>::ROOM);
            next.open_trial(self);
        }
        next.earlier_steps = self.all_steps();
        next.earlier_usage = self.all_usage();
        next.earlier_cost = self
            .earlier_cost
            .saturating_add(self.cost.unwrap_or_default());
        next.earlier_cost_is_partial =
            self.earlier_cost_is_partial || (self.cost.is_none() && self.usage.total() > 0);
        next.earlier_duration_ms = self.all_duration_ms();
        next.has_estimates = self.has_estimates;
        next.attempt = attempt;
        next.transcript = Some(run_dir::transcript(&next.name, attempt));
        next.attempt_outcome = Outcome::Unfinished;
        next.now("starting");
        *self = next;
    }

    /// Notes what the task is doing, which is also what is said of it if nothing more comes.
    fn now(&mut self, doing: impl Into<String>) {
        self.doing = doing.into();
        self.attempt_message = format!(
            "{}, while {}",
            self.attempt_outcome.row().meaning,
            self.doing
        );
        self.judge_trials();
    }

    fn take(&mut self, kind: &Kind) {
        match kind {
            Kind::TaskStarted(started) => self.started(started),
            Kind::Warned { code, message } => self.warnings.push(Warning {
                code: record::name(code),
                message: record::sentence(message),
            }),
            Kind::PromptAppended { turn, .. } => {
                // A nudge or a Stop hook opens a turn again that the model had ended.
                self.turns_done = self.turns_done.min(turn.saturating_sub(1));
            }
            Kind::StepStarted { step, .. } => {
                self.steps = self.steps.max(*step);
                self.now(format!("waiting for the model in step {step}"));
            }
            Kind::ModelRetried {
                step,
                attempt,
                reason,
                ..
            } => {
                self.retries += 1;
                self.last_retry = record::sentence(reason);
                self.now(format!(
                    "waiting to call the model again in step {step} after try {attempt}"
                ));
            }
            Kind::CallCut(cut) => {
                self.usage = cut.total_usage;
                self.cost = cut.total_cost;
                self.has_estimates |= cut.is_estimate;
            }
            Kind::AssistantReplied(replied) => self.replied(replied),
            Kind::HookFinished(hook) => self.hook(hook),
            Kind::ToolDecided(decided) => self.decided(decided),
            Kind::ToolFinished(finished) => self.tool(finished),
            Kind::ConnectionFinished(connection) => self.connection(connection),
            Kind::ResultsAppended { step, .. } => self.now(format!("going on after step {step}")),
            Kind::WorkspaceCompared(compared) => {
                for change in &compared.changes {
                    self.changes.push(Change {
                        path: record::name(&change.path),
                        kind: change.kind,
                    });
                }
                for concern in &compared.concerns {
                    self.concerns.push(Concern {
                        path: record::name(&concern.path),
                        kind: concern.kind,
                        detail: record::name(&concern.detail),
                    });
                }
                self.now("checking its work");
                if let Some(patch) = &compared.patch {
                    self.patch_bytes = patch.bytes;
                    self.patch = (!patch.file.is_empty() && self.transcript.is_some())
                        .then(|| run_dir::patch(&self.name, self.attempt));
                    for omitted in &patch.omitted {
                        self.patch_omitted.push(Omitted {
                            path: record::name(&omitted.path),
                            reason: record::sentence(&omitted.reason),
                        });
                    }
                }
            }
            Kind::CheckFinished(check) => self.check(check),
            Kind::TaskFinished(finished) => self.finished(finished),
            Kind::TextStreamed { .. }
            | Kind::NoteAppended { .. }
            | Kind::TasksNotRun { .. }
            | Kind::RunInterrupted { .. }
            | Kind::CallsEased { .. }
            | Kind::Unknown => {}
        }
    }

    fn started(&mut self, started: &TaskStarted) {
        if self.file.is_empty() {
            self.file = record::name(&started.file);
            self.line = started.line;
        }
        self.model = record::name(&started.model);
        self.mode = record::name(&started.mode);
        self.isolation = record::name(&started.isolation);
        self.sandbox = record::sandbox(&started.sandbox);
        self.on_denied = started.on_denied;
        self.turns = started.turns;
        self.belong_to_trial(started.trial);
        self.unused_allow = started
            .allow
            .iter()
            .take(RULES)
            .map(|rule| RuleRecord {
                rule: record::name(&rule.rule),
                source: record::name(&rule.source),
            })
            .collect();
    }

    fn replied(&mut self, replied: &AssistantReplied) {
        self.steps = self.steps.max(replied.step);
        self.usage = replied.total_usage;
        self.cost = replied.total_cost;
        let reason = replied.stop_reason.as_deref().unwrap_or("none");
        count(&mut self.stop_reasons, reason);
        if replied.route == "end" {
            self.turns_done = self.turns_done.max(replied.turn);
        }
        let calls = replied.message.tool_calls();
        for call in &calls {
            self.tool_calls += 1;
            count(&mut self.calls_by_tool, &call.name);
            self.repeats.count(&call.name, &call.input);
        }
        self.repeated.clone_from(&self.repeats.found);
        if self.last_steps.len() == LAST_STEPS {
            self.last_steps.pop_front();
        }
        let said = replied.message.text();
        self.last_steps.push_back(StepRecord {
            step: replied.step,
            text: text::head(said.trim(), record::INPUT).into_owned(),
            calls: calls
                .iter()
                .take(10)
                .map(|call| {
                    format!(
                        "{} {}",
                        record::name(&call.name),
                        record::input(&call.input)
                    )
                })
                .collect(),
        });
        if !said.trim().is_empty() {
            self.reply = record::tail(&said);
        }
        self.now(match calls.first() {
            Some(call) => format!(
                "deciding about `{}` in step {}",
                record::name(&call.name),
                replied.step
            ),
            None => format!("ending after step {}", replied.step),
        });
    }

    fn hook(&mut self, hook: &HookFinished) {
        let failed = match hook.result {
            HookResult::Passed => return,
            HookResult::Blocked => false,
            HookResult::Failed => true,
        };
        if failed {
            self.hooks_failed += 1;
        } else {
            self.hooks_blocked += 1;
        }
        self.hooks.push(HookRecord {
            event: record::name(&hook.event),
            hook: record::name(&hook.hook),
            failed,
            message: record::sentence(&hook.message),
        });
    }

    fn decided(&mut self, decided: &ToolDecided) {
        if decided.allowed {
            for used in decided.rule.iter().chain(&decided.further_rules) {
                self.unused_allow.retain(|rule| {
                    record::name(&used.rule) != rule.rule
                        || record::name(&used.source) != rule.source
                });
            }
            self.now(format!(
                "running `{}` in step {}: {}",
                record::name(&decided.name),
                decided.step,
                record::input(&decided.input)
            ));
            return;
        }
        self.denials.push(Denial {
            step: decided.step,
            tool_use_id: record::name(&decided.tool_use_id),
            tool: record::name(&decided.name),
            input: record::input(&decided.input),
            class: record::name(&decided.class),
            reason: record::sentence(&decided.reason),
            rule: decided.rule.as_ref().map(|rule| {
                format!(
                    "{} ({})",
                    record::name(&rule.rule),
                    record::name(&rule.source)
                )
            }),
            suggestion: decided.suggestion.as_deref().map(record::sentence),
            would_ask: decided.would_ask,
            expected: false,
        });
    }

    fn connection(&mut self, connection: &ConnectionFinished) {
        let host = record::name(&connection.host);
        if !self.hosts.items.iter().any(|known| known.host == host) {
            self.hosts.push(HostRecord {
                host: host.clone(),
                allowed: 0,
                refused: 0,
                failed: 0,
                sent_bytes: 0,
                received_bytes: 0,
            });
        }
        if let Some(known) = self.hosts.items.iter_mut().find(|known| known.host == host) {
            match connection.result {
                ConnectionResult::Allowed => known.allowed += 1,
                ConnectionResult::Refused => known.refused += 1,
                ConnectionResult::Failed => known.failed += 1,
            }
            known.sent_bytes = known.sent_bytes.saturating_add(connection.sent_bytes);
            known.received_bytes = known
                .received_bytes
                .saturating_add(connection.received_bytes);
        }
        if connection.is_denial {
            let suggestion = (connection.reason.contains("not in the task's list"))
                .then(|| format!("add `{host}` to `network.hosts`"));
            self.denials.push(Denial {
                step: self.steps,
                tool_use_id: String::new(),
                tool: "network".to_owned(),
                input: host,
                class: "network".to_owned(),
                reason: record::sentence(&connection.reason),
                rule: None,
                suggestion,
                would_ask: false,
                expected: false,
            });
        }
    }

    fn tool(&mut self, finished: &ToolFinished) {
        match finished.result {
            ToolResultKind::Ok | ToolResultKind::Denied | ToolResultKind::NotRun => {}
            ToolResultKind::Error
            | ToolResultKind::UnknownTool
            | ToolResultKind::InvalidInput
            | ToolResultKind::TimedOut
            | ToolResultKind::Panicked => self.tool_errors += 1,
        }
        if let Some(file) = &finished.output_file {
            self.output_files.push(record::name(file));
        }
        self.now(format!(
            "going on after `{}` in step {}",
            record::name(&finished.name),
            finished.step
        ));
    }

    fn check(&mut self, check: &CheckFinished) {
        self.checks.push(CheckRecord {
            index: check.index,
            check: record::name(&check.check),
            title: record::sentence(&check.title),
            result: check.result,
            message: record::sentence(&check.message),
            details: record::tail(&check.details),
            spent: check.spent,
            duration_ms: check.duration_ms,
        });
        if let Some(spent) = check.spent {
            self.usage += spent.usage;
            self.cost = self
                .cost
                .zip(spent.cost)
                .map(|(cost, more)| cost.saturating_add(more));
        }
        for denial in &mut self.denials.items {
            denial.expected |= check.expected_denials.iter().any(|call| {
                call.step == denial.step && record::name(&call.tool_use_id) == denial.tool_use_id
            });
        }
        self.now(format!(
            "running checks, after check {}",
            check.index.saturating_add(1)
        ));
    }

    fn finished(&mut self, finished: &TaskFinished) {
        self.attempt_outcome = finished.outcome;
        self.stop = Some(finished.stop);
        self.attempt_message = record::sentence(&finished.message);
        // Its counts are kept; what they were counted with is not needed any more.
        self.repeats = Repeats::default();
        if !finished.reply.trim().is_empty() {
            self.reply = record::tail(&finished.reply);
        }
        self.turns_skipped = finished.turns_skipped;
        self.leaked_processes = finished.leaked_processes;
        self.duration_ms = finished.duration_ms;
        self.doing.clear();
        self.judge_trials();
    }
}

/// Counts a word; beyond [`WORDS`] different ones, all others together.
fn count(words: &mut BTreeMap<String, u32>, word: &str) {
    let word = record::name(word);
    let known = words.len() < WORDS || words.contains_key(&word);
    let times = words
        .entry(if known { word } else { "(others)".into() })
        .or_default();
    *times = times.saturating_add(1);
}
