//! Plain versions of the rules, which look at every call and result; the rules must agree with them.

use mcpmon_model::{Fingerprint, Recent, SensitivityLabel};
use proptest::prelude::*;

use super::*;

const SECOND: i64 = 1_000_000_000;
/// Hashes of a text that is found again.
const TEXT: [u32; 12] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12];

/// The plain version of the rules: it collects everything that matches.
struct Plain<'a> {
    policy: &'a Policy,
    window: &'a CallWindow,
    call: &'a SharedCall,
}

impl<'a> Plain<'a> {
    fn judge(&self) -> Vec<CrossServerMatch> {
        let rules = &self.policy.cross_server;
        let burst = rules.burst.filter(|_| !self.call.resumes);
        let found = [
            burst.and_then(|burst| self.burst(burst)),
            rules
                .read_then_send
                .and_then(|within| self.read_then_send(within)),
            rules.flow.as_ref().and_then(|flow| self.flow(flow)),
        ];
        found.into_iter().flatten().collect()
    }

    fn calls(&self, is_meant: impl Fn(&RecentCall) -> bool) -> Vec<&'a RecentCall> {
        self.window.calls().filter(|known| is_meant(known)).collect()
    }

    fn burst(&self, burst: Burst) -> Option<CrossServerMatch> {
        let own = self
            .calls(|known| known.server == self.call.server && self.call.at.since(known.at) <= burst.window);
        let reason = format!(
            "server `{}` was called {} times within {}",
            self.call.server,
            own.len(),
            seconds(burst.window)
        );
        (own.len() >= burst.max_calls as usize)
            .then(|| self.crossing(CrossServerRule::Burst, reason, &own, Vec::new()))
    }

    fn read_then_send(&self, within: Duration) -> Option<CrossServerMatch> {
        let is_near = |at| self.call.at.since(at) <= within;
        let reads = self.calls(|known| self.is_read(known) && is_near(known.at));
        let when = format!("send data within {} after", seconds(within));
        (self.call.category == ToolCategory::Send)
            .then(|| {
                self.passed_on(
                    CrossServerRule::ReadThenSend,
                    &reads,
                    self.evidence(is_near),
                    &when,
                )
            })
            .flatten()
    }

    fn flow(&self, flow: &Flow) -> Option<CrossServerMatch> {
        if !flow.categories.contains(&self.call.category) {
            return None;
        }
        let mut turn = self.call.at;
        for known in self.window.calls() {
            if turn.since(known.at) > PAUSE {
                break;
            }
            turn = turn.min(known.at);
        }
        let is_near = |at| match flow.same_turn_only {
            true => at >= turn,
            false => self.call.at.since(at) <= flow.window,
        };
        let reads = self.calls(|known| {
            self.is_read(known)
                && match (&known.turn, &self.call.turn) {
                    (Some(known), Some(own)) if flow.same_turn_only => known == own,
                    _ => is_near(known.at),
                }
        });
        let evidence = match (&self.call.turn, reads.last()) {
            (Some(_), None) if flow.same_turn_only => Vec::new(),
            (Some(_), Some(first)) if flow.same_turn_only => self.evidence(|at| at >= first.at),
            _ => self.evidence(is_near),
        };
        let purpose = match self.call.category {
            ToolCategory::Send => "send data",
            ToolCategory::Write => "change data",
            ToolCategory::Read => "read data",
            ToolCategory::Compute => "run something",
            ToolCategory::Unknown => "do something that its name does not tell",
        };
        let when = match flow.same_turn_only {
            true => format!("{purpose} in the same turn in which"),
            false => format!("{purpose} within {} after", seconds(flow.window)),
        };
        self.passed_on(CrossServerRule::CrossServerFlow, &reads, evidence, &when)
    }

    fn passed_on(
        &self,
        rule: CrossServerRule,
        reads: &[&RecentCall],
        evidence: Vec<Evidence>,
        what: &str,
    ) -> Option<CrossServerMatch> {
        let is_by_content = self.policy.cross_server.decision != CrossServerDecision::Block;
        if reads.is_empty() && (evidence.is_empty() || !is_by_content) {
            return None;
        }
        let tool = |tool: &str, server: &ServerId| format!("`{tool}` (server `{server}`)");
        let kinds: BTreeSet<EvidenceKind> = evidence.iter().map(|evidence| evidence.kind).collect();
        let told = kinds.iter().filter_map(|kind| {
            let first = evidence.iter().find(|evidence| evidence.kind == *kind)?;
            Some((tool(&first.tool_name, &first.server_id), kind.predicate()))
        });
        let mut clauses: Vec<(String, &str)> = told.collect();
        if let (true, Some(read)) = (clauses.is_empty(), reads.first()) {
            clauses.push((tool(&read.tool, &read.server), "read data"));
        }
        let words = clauses.iter().enumerate().map(|(place, (tool, did))| {
            match place > 0 && clauses[place - 1].0 == *tool {
                true => (*did).to_owned(),
                false => format!("{tool} {did}"),
            }
        });
        let words: Vec<String> = words.collect();
        let own = tool(&self.call.tool, &self.call.server);
        let reason = format!("{own} would {what} {}", words.join(" and "));
        Some(self.crossing(rule, reason, reads, evidence))
    }

    fn evidence(&self, is_near: impl Fn(Timestamp) -> bool) -> Vec<Evidence> {
        let mut all: Vec<Evidence> = Vec::new();
        let outputs = self.window.outputs();
        for output in outputs.filter(|output| output.server != self.call.server && is_near(output.at)) {
            let shared = output.print.shared(&self.call.arguments);
            let overlap = (shared >= FOUND_AGAIN).then_some((EvidenceKind::Overlap, shared));
            let labels = output.labels.iter().map(|label| ((*label).into(), 1));
            all.extend(labels.chain(overlap).map(|(kind, count)| Evidence {
                kind,
                server_id: output.server.clone(),
                tool_name: output.tool.clone(),
                count: count as u32,
            }));
        }
        for known in self.calls(|known| is_near(known.at) && self.can_have_read(known)) {
            all.extend(known.labels.iter().map(|label| Evidence {
                kind: (*label).into(),
                server_id: known.server.clone(),
                tool_name: known.tool.clone(),
                count: 1,
            }));
        }
        let mut once = Vec::new();
        let mut seen = BTreeSet::new();
        for evidence in all {
            if seen.insert((
                evidence.kind,
                evidence.server_id.clone(),
                evidence.tool_name.clone(),
            )) {
                once.push(evidence);
            }
        }
        once.truncate(MAX_RELATED);
        once
    }

    fn is_read(&self, known: &RecentCall) -> bool {
        known.category == ToolCategory::Read
            && known.server != self.call.server
            && known.action != Action::Block
    }

    fn can_have_read(&self, known: &RecentCall) -> bool {
        let only_changes = matches!(known.category, ToolCategory::Write | ToolCategory::Send);
        !only_changes && known.server != self.call.server && known.action != Action::Block
    }

    fn crossing(
        &self,
        rule: CrossServerRule,
        reason: String,
        related: &[&RecentCall],
        evidence: Vec<Evidence>,
    ) -> CrossServerMatch {
        CrossServerMatch {
            rule,
            blocks: blocks(self.policy.cross_server.decision, &evidence),
            reason,
            related: related
                .iter()
                .take(MAX_RELATED)
                .map(|call| related_call(call))
                .collect(),
            evidence,
        }
    }
}

fn policies() -> impl Strategy<Value = Policy> {
    use CrossServerDecision::{Audit, Block, Evidence};
    let decision = prop::sample::select(&[Evidence, Block, Audit][..]);
    let window = || (1..12_u64).prop_map(Duration::from_secs);
    let burst = (1..14_u32, window()).prop_map(|(max_calls, window)| Burst { max_calls, window });
    let flow = (any::<bool>(), window()).prop_map(|(same_turn_only, window)| Flow {
        same_turn_only,
        window,
        categories: BTreeSet::from([ToolCategory::Write, ToolCategory::Send]),
    });
    (decision, window(), burst, flow).prop_map(|(decision, within, burst, flow)| {
        let mut policy = Policy::default();
        policy.cross_server.decision = decision;
        policy.cross_server.read_then_send = Some(within);
        policy.cross_server.burst = Some(burst);
        policy.cross_server.flow = Some(flow);
        policy
    })
}

fn server() -> impl Strategy<Value = ServerId> {
    prop::sample::select(&["a", "b", "c"][..]).prop_map(|name| ServerId::new(name).expect("an id"))
}

fn labels() -> impl Strategy<Value = Vec<SensitivityLabel>> {
    let labels = &[
        SensitivityLabel::Secret,
        SensitivityLabel::SensitivePath,
        SensitivityLabel::Unread,
    ][..];
    prop::sample::subsequence(labels, 0..=2)
}

fn turns() -> impl Strategy<Value = Option<Box<str>>> {
    prop::sample::select(&[None, None, Some("r1"), Some("r2")][..]).prop_map(|turn| turn.map(Into::into))
}

fn prints() -> impl Strategy<Value = Fingerprint> {
    (0..=TEXT.len()).prop_map(|length| Fingerprint::new(TEXT[..length].to_vec()))
}

fn categories() -> impl Strategy<Value = ToolCategory> {
    use ToolCategory::{Compute, Read, Send, Write};
    prop::sample::select(&[Read, Read, Compute, Write, Send][..])
}

fn calls() -> impl Strategy<Value = SharedCall> {
    let what = (categories(), turns(), labels(), prints(), any::<bool>());
    (0..80_i64, server(), 0..4_u8, what).prop_map(|(at, server, tool, what)| SharedCall {
        at: Timestamp(at * SECOND / 4),
        server,
        tool: format!("tool-{tool}"),
        category: what.0,
        request: None,
        tool_call: None,
        turn: what.1,
        labels: what.2,
        arguments: what.3,
        resumes: what.4,
        several: true,
    })
}

/// A call that was made, or its result.
fn happened() -> impl Strategy<Value = Recent> {
    let actions = prop::sample::select(&[Action::Allow, Action::Allow, Action::Block][..]);
    (calls(), actions, any::<bool>()).prop_map(|(call, action, is_call)| match is_call {
        true => Recent::Call(RecentCall {
            origin: None,
            at: call.at,
            server: call.server,
            tool: call.tool,
            category: call.category,
            request: None,
            turn: call.turn,
            action,
            labels: call.labels,
            left: None,
        }),
        false => Recent::Output(RecentOutput {
            at: call.at,
            server: call.server,
            tool: call.tool,
            labels: call.labels,
            print: call.arguments,
        }),
    })
}

proptest! {
    #[test]
    fn the_rules_say_what_a_look_at_everything_says(
        policy in policies(),
        happened in prop::collection::vec(happened(), 0..80),
        call in calls(),
    ) {
        let mut window = CallWindow::default();
        happened.into_iter().for_each(|recent| window.take(recent));
        let found = judge(&policy, &window, &call);
        prop_assert_eq!(found, Plain { policy: &policy, window: &window, call: &call }.judge());
        // And once what no rule reaches is forgotten.
        window.is_over(call.at, &policy);
        let found = judge(&policy, &window, &call);
        prop_assert_eq!(found, Plain { policy: &policy, window: &window, call: &call }.judge());
    }
}

#[test]
fn what_gives_way_to_more_is_counted_no_longer() {
    let mut window = CallWindow::default();
    for number in 0..10_000_i64 {
        window.take(Recent::Call(RecentCall {
            origin: None,
            at: Timestamp(number),
            server: ServerId::new(["a", "b"][usize::from(number % 3 == 0)]).expect("an id"),
            tool: "x".repeat(300),
            category: ToolCategory::Read,
            request: None,
            turn: None,
            action: Action::Allow,
            labels: Vec::new(),
            left: None,
        }));
    }
    let kept = |server: &str| {
        window
            .calls()
            .filter(|known| known.server.as_str() == server)
            .count()
    };
    for server in ["a", "b"] {
        let id = ServerId::new(server).expect("an id");
        let count = window.count_of(&id, Timestamp(10_000), Duration::from_secs(1));
        assert!(count > 100 && count == kept(server), "{server}: {count}");
    }
}
