//! Rules over the calls to several servers of a session: pure functions of the recent calls and the requested call.
//! They run in the process that holds the window, which makes each check atomic.

mod intents;
mod shadow;
mod window;

#[cfg(test)]
mod plain;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tightened;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use mcpmon_detect::{
    fingerprint::{self, FOUND_AGAIN},
    labels,
};
use mcpmon_model::{
    Action, CrossServerMatch, CrossServerRule, Evidence, EvidenceKind, RawJson, RecentCall, RecentOutput,
    RelatedCall, ServerId, SharedCall, Timestamp, ToolCategory,
};
use mcpmon_policy::{Burst, CrossServerDecision, Flow, Policy, RateLimit};

pub(super) use self::shadow::{Visible, naming, shadowed};
pub use self::window::CallWindow;
use super::wording::shown;

/// Longest pause between calls of one turn of the model, if no layer sees turns.
const PAUSE: Duration = Duration::from_secs(2);
/// Most earlier calls that are reported with one match.
const MAX_RELATED: usize = 10;

/// Returns the matches of the rules on `call`, in the order of their precedence.
fn judge(policy: &Policy, window: &CallWindow, call: &SharedCall) -> Vec<CrossServerMatch> {
    let rules = &policy.cross_server;
    if !rules.enabled || !call.several {
        return Vec::new();
    }
    let context = CrossServerContext { policy, window, call };
    let found = [
        rules
            .burst
            .filter(|_| !call.resumes)
            .and_then(|burst| context.burst(burst)),
        rules
            .read_then_send
            .and_then(|within| context.read_then_send(within)),
        rules.flow.as_ref().and_then(|flow| context.flow(flow)),
    ];
    let is_told = |crossing: &CrossServerMatch| {
        let rule = crossing.rule.as_str();
        !policy.suppresses(&["cross_server", rule], &call.server, &call.tool, call.at)
    };
    found.into_iter().flatten().filter(is_told).collect()
}

/// Builds the reason why a server's rate limit refuses a call.
fn over_rate(call: &SharedCall, limit: RateLimit, wait: Duration) -> String {
    format!(
        "server {} may be called {} times a minute and {} times at once; the next call may be made in {:.1} s",
        call.server,
        limit.per_minute,
        limit.burst,
        wait.as_secs_f64()
    )
}

/// Reads the labels and the fingerprint of a result. Returns `None` if it has neither.
pub fn read_result(mut output: RecentOutput, result: &str) -> Option<RecentOutput> {
    let result = RawJson::trusted(result);
    output.labels.extend(labels::labels_of_output(result));
    output.print = fingerprint::of_result(result);
    (!output.labels.is_empty() || !output.print.is_empty()).then_some(output)
}

/// Returns whether a match stops a call.
pub(super) fn blocks(decision: CrossServerDecision, evidence: &[Evidence]) -> bool {
    match decision {
        CrossServerDecision::Block => true,
        CrossServerDecision::Evidence => !evidence.is_empty(),
        CrossServerDecision::Audit => false,
    }
}

/// A call together with the earlier calls of the session.
struct CrossServerContext<'a> {
    policy: &'a Policy,
    window: &'a CallWindow,
    call: &'a SharedCall,
}

impl<'a> CrossServerContext<'a> {
    /// Matches more calls of one server than are usual. Refused calls count, because they were requested.
    fn burst(&self, burst: Burst) -> Option<CrossServerMatch> {
        let server = &self.call.server;
        let is_many = |count: usize| count >= usize::try_from(burst.max_calls).unwrap_or(usize::MAX);
        if !is_many(self.window.count_of(server, self.call.at, burst.window)) {
            return None;
        }
        let count = self.window.count_of_intents(server, self.call.at, burst.window);
        if !is_many(count) {
            return None;
        }
        let own = self.within(burst.window).filter(|known| known.server == *server);
        let reason = format!(
            "server `{server}` was called {count} times within {}",
            seconds(burst.window)
        );
        Some(self.crossing(CrossServerRule::Burst, reason, &latest(own), Vec::new()))
    }

    /// Matches a call that sends something after another server was read.
    fn read_then_send(&self, within: Duration) -> Option<CrossServerMatch> {
        if self.call.category != ToolCategory::Send {
            return None;
        }
        let reads = latest(self.within(within).filter(|known| self.is_read(known)));
        let since = |at: Timestamp| self.call.at.since(at) <= within;
        let evidence = self.evidence(since);
        let when = format!("within {} after", seconds(within));
        self.passed_on(CrossServerRule::ReadThenSend, &reads, evidence, &when)
    }

    /// Matches a call that changes or sends something after another server was read in the same turn, or a short while
    /// ago.
    fn flow(&self, flow: &Flow) -> Option<CrossServerMatch> {
        if !flow.categories.contains(&self.call.category) {
            return None;
        }
        let turn = self.turn();
        let is_near = |at: Timestamp| match flow.same_turn_only {
            true => at >= turn,
            false => self.call.at.since(at) <= flow.window,
        };
        let own_turn = self.call.turn.as_ref().filter(|_| flow.same_turn_only);
        let is_of_turn = |known: &RecentCall| match (&known.turn, own_turn) {
            (Some(turn), Some(own)) => turn == own,
            (Some(_) | None, _) => is_near(known.at),
        };
        // A turn with an id may have begun at any time.
        let calls = self.window.calls();
        let mut reads = calls
            .take_while(|known| own_turn.is_some() || is_near(known.at))
            .filter(|known| self.is_read(known) && is_of_turn(known));
        let told = latest(reads.by_ref());
        let evidence = match own_turn {
            // If turns have ids, a result belongs to the turn of the call that read it.
            Some(_) => {
                let first = reads.last().or_else(|| told.last().copied());
                first.map_or_else(Vec::new, |first| self.evidence(|at| at >= first.at))
            }
            None => self.evidence(is_near),
        };
        let when = match flow.same_turn_only {
            true => "in the same turn in which".to_owned(),
            false => format!("within {} after", seconds(flow.window)),
        };
        self.passed_on(CrossServerRule::CrossServerFlow, &told, evidence, &when)
    }

    /// Matches a call that can pass on something of another server; `when` leads from this call to the earlier ones.
    fn passed_on(
        &self,
        rule: CrossServerRule,
        reads: &[&RecentCall],
        evidence: Vec<Evidence>,
        when: &str,
    ) -> Option<CrossServerMatch> {
        // Evidence shows that something was read, whatever the category of the tool that read it.
        let is_by_content =
            self.policy.cross_server.decision != CrossServerDecision::Block && !evidence.is_empty();
        if reads.is_empty() && !is_by_content {
            return None;
        }
        let reason = format!(
            "{} would {} {when} {}",
            tool_of_server(&self.call.tool, &self.call.server),
            purpose(self.call.category),
            earlier_calls(reads, &evidence)
        );
        Some(self.crossing(rule, reason, reads, evidence))
    }

    /// Returns the evidence that the call passes on something sensitive, or something that was just read. Recently read
    /// text is evidence only if `is_near` is true of its time.
    fn evidence(&self, is_near: impl Fn(Timestamp) -> bool) -> Vec<Evidence> {
        let mut found = EvidenceList::default();
        let outputs = self.window.outputs().take_while(|output| is_near(output.at));
        for output in outputs.filter(|output| output.server != self.call.server) {
            if found.is_full() {
                break;
            }
            for label in &output.labels {
                found.add((*label).into(), &output.server, &output.tool, 1);
            }
            let shared = output.print.shared(&self.call.arguments);
            if shared >= FOUND_AGAIN {
                let shared = u32::try_from(shared).unwrap_or(u32::MAX);
                found.add(EvidenceKind::Overlap, &output.server, &output.tool, shared);
            }
        }
        let calls = self.window.calls().take_while(|known| is_near(known.at));
        for known in calls.filter(|known| !known.labels.is_empty() && self.can_have_read(known)) {
            for label in &known.labels {
                found.add((*label).into(), &known.server, &known.tool, 1);
            }
        }
        found.evidence
    }

    /// Returns the calls within a time, latest first.
    fn within(&self, window: Duration) -> impl Iterator<Item = &'a RecentCall> {
        let now = self.call.at;
        self.window
            .calls()
            .take_while(move |known| now.since(known.at) <= window)
    }

    fn is_read(&self, known: &RecentCall) -> bool {
        known.category == ToolCategory::Read && self.is_foreign(known)
    }

    /// Returns whether the call can have read something: false if it only changed or sent something.
    fn can_have_read(&self, known: &RecentCall) -> bool {
        match known.category {
            ToolCategory::Read | ToolCategory::Compute | ToolCategory::Unknown => self.is_foreign(known),
            ToolCategory::Write | ToolCategory::Send => false,
        }
    }

    fn is_foreign(&self, known: &RecentCall) -> bool {
        known.server != self.call.server && known.action != Action::Block
    }

    /// Returns the start of the turn: the time of the first call since the last pause.
    fn turn(&self) -> Timestamp {
        let mut start = self.call.at;
        for known in self.window.calls() {
            if start.since(known.at) > PAUSE {
                break;
            }
            start = start.min(known.at);
        }
        start
    }

    fn crossing(
        &self,
        rule: CrossServerRule,
        reason: String,
        related: &[&RecentCall],
        evidence: Vec<Evidence>,
    ) -> CrossServerMatch {
        let decision = self.policy.cross_server.strictest();
        CrossServerMatch {
            rule,
            blocks: blocks(decision, &evidence),
            reason,
            related: related.iter().map(|call| related_call(call)).collect(),
            evidence,
        }
    }
}

/// The evidence for a match: each piece once, and at most [`MAX_RELATED`].
#[derive(Default)]
struct EvidenceList {
    evidence: Vec<Evidence>,
    seen: BTreeSet<(EvidenceKind, ServerId, String)>,
}

impl EvidenceList {
    const fn is_full(&self) -> bool {
        self.evidence.len() >= MAX_RELATED
    }

    fn add(&mut self, kind: EvidenceKind, server: &ServerId, tool: &str, count: u32) {
        if !self.is_full() && self.seen.insert((kind, server.clone(), tool.to_owned())) {
            self.evidence.push(Evidence {
                kind,
                server_id: server.clone(),
                tool_name: tool.to_owned(),
                count,
            });
        }
    }
}

/// Returns the calls that are reported, of all that a match rests on; the search ends when there are enough.
fn latest<'a>(calls: impl Iterator<Item = &'a RecentCall>) -> Vec<&'a RecentCall> {
    calls.take(MAX_RELATED).collect()
}

/// Describes the earlier calls as a clause: one of each kind of evidence or, without evidence, the latest read.
fn earlier_calls(reads: &[&RecentCall], evidence: &[Evidence]) -> String {
    let mut by_kind: BTreeMap<EvidenceKind, &Evidence> = BTreeMap::new();
    for evidence in evidence {
        by_kind.entry(evidence.kind).or_insert(evidence);
    }
    let mut text = String::new();
    let mut subject = None;
    for evidence in by_kind.into_values() {
        if !text.is_empty() {
            text.push_str(" and ");
        }
        let tool = (&evidence.tool_name, &evidence.server_id);
        if subject.replace(tool) != Some(tool) {
            text.push_str(&tool_of_server(tool.0, tool.1));
            text.push(' ');
        }
        text.push_str(evidence.kind.predicate());
    }
    if let (true, Some(read)) = (text.is_empty(), reads.first()) {
        text = format!("{} read data", tool_of_server(&read.tool, &read.server));
    }
    text
}

fn tool_of_server(tool: &str, server: &ServerId) -> String {
    format!("`{}` (server `{server}`)", shown(tool))
}

/// Describes the effect of a category, as a verb with its object.
const fn purpose(category: ToolCategory) -> &'static str {
    match category {
        ToolCategory::Send => "send data",
        ToolCategory::Write => "change data",
        ToolCategory::Read => "read data",
        ToolCategory::Compute => "run something",
        ToolCategory::Unknown => "do something that its name does not tell",
    }
}

fn related_call(call: &RecentCall) -> RelatedCall {
    RelatedCall {
        timestamp: call.at,
        server_id: call.server.clone(),
        tool_name: call.tool.clone(),
        request_id: call.request.clone(),
        action: call.action,
        category: call.category,
    }
}

fn seconds(duration: Duration) -> String {
    match duration.subsec_millis() {
        0 => format!("{} s", duration.as_secs()),
        _ => format!("{:.1} s", duration.as_secs_f64()),
    }
}
