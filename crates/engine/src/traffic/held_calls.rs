//! Calls that are held until a person answers, and the effects of the answer or of its absence. The filter of the
//! transport keeps the call itself, and has it judged again once there is an answer.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use mcpmon_detect::secrets::{MAX_SECRETS, Secret};
use mcpmon_model::{
    Action, AnsweredCall, ApprovalState, Call, CallAnswer, Conversation, Definition, Digest, Event,
    EventKind, HeldCall, PinKey, RawJson, RequestId, Severity, Timestamp, Verdict, redacted,
};
use mcpmon_policy::{Mode, OnTimeout};

use super::{
    Traffic,
    disclosed::DisclosedSecrets,
    tell::{MAX_TEXT, Teller, about, because, named},
};
use crate::{
    effect::{Judgement, StoreEffect},
    rules::{Objection, ObjectionEffect, Ruling},
    wording::command,
};

/// Most calls of a conversation that are held at a time; a further one is refused.
const MAX_HELD_CALLS: usize = 32;
/// Longest canonical arguments of a held call, bytes: a person is asked only if the arguments can be shown completely.
const MAX_ARGUMENTS_BYTES: usize = 256 << 10;
/// Longest message of a held call, bytes.
const MAX_MESSAGE_BYTES: usize = 1 << 20;
/// Most calls that were allowed by an answer and may be resumed with the input that their server asked for.
const MAX_CONTINUED: usize = 64;

/// Held calls, and the answers to them.
#[derive(Debug, Default)]
pub(super) struct HeldCalls {
    /// The held calls, by id.
    held: BTreeMap<String, Held>,
    /// Answers for the whole session, by server, tool and rule: the person who allows each call of the tool that the
    /// rule asks about.
    granted: BTreeMap<(PinKey, String, String), String>,
    /// Held calls whose answer the transport does not know yet.
    settled: BTreeSet<String>,
    /// Tools and arguments of calls that were allowed by an answer, latest last.
    continued: VecDeque<(String, Digest)>,
}

/// A call that is held, or that was answered and not judged again yet.
#[derive(Debug)]
struct Held {
    call: HeldCall,
    conversation: Conversation,
    request: RequestId,
    settlement: Option<Settlement>,
}

/// The end of a wait.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Settlement {
    /// A person allowed the call.
    Granted(String),
    /// A person denied the call.
    Denied(String),
    /// No answer came in time.
    TimedOut(OnTimeout),
    /// No answer is possible, for this reason.
    Unanswerable(&'static str),
}

/// The result of asking about a call.
pub(super) enum Asked {
    /// The call is judged by this ruling.
    Ruled(Ruling),
    /// The call is held.
    Held(Judgement),
}

impl Held {
    fn is(&self, request: Option<&RequestId>, tool: &str, hash: &Digest) -> bool {
        request == Some(&self.request) && self.call.tool == tool && self.call.arguments_hash == *hash
    }

    /// Builds the event that the approval of this call is now in `state`.
    fn event(&self, now: Timestamp, by: &str, state: ApprovalState) -> Event {
        let kind = EventKind::Approval {
            subject: named(&self.call.subject(), MAX_TEXT),
            by: by.to_owned(),
            state,
            tool_name: Some(named(&self.call.tool, MAX_TEXT)),
            detections: Vec::new(),
            held_call: Some(self.call.id.clone()),
        };
        let mut event = about(now, &self.conversation, kind);
        event.rule = Some(self.call.rule.clone());
        event
    }
}

impl HeldCalls {
    fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Returns whether each rule that asks about a call was answered for the session.
    fn grants(&self, call: &HeldCall) -> bool {
        call.rules().all(|rule| {
            let key = (call.identity.clone(), call.tool.clone(), rule.clone());
            self.granted.contains_key(&key)
        })
    }

    /// Takes the settlement of the call that is judged again.
    fn take(&mut self, request: Option<&RequestId>, tool: &str, hash: &Digest) -> Option<Settlement> {
        let is_meant = |held: &&Held| held.settlement.is_some() && held.is(request, tool, hash);
        let id = self.held.values().find(is_meant)?.call.id.clone();
        self.settled.remove(&id);
        self.held.remove(&id)?.settlement
    }

    /// Ends the wait for an answer to these calls.
    fn settle(&mut self, settlement: &Settlement, is_meant: impl Fn(&Held) -> bool) {
        for (id, held) in &mut self.held {
            if held.settlement.is_none() && is_meant(held) {
                held.settlement = Some(settlement.clone());
                self.settled.insert(id.clone());
            }
        }
    }

    fn note_continued(&mut self, tool: &str, hash: Digest) {
        if self.continued.len() >= MAX_CONTINUED {
            self.continued.pop_front();
        }
        self.continued.push_back((tool.to_owned(), hash));
    }
}

impl Traffic {
    /// Holds a call if a rule asks about it, and applies the answer if there is one.
    pub(super) fn asked_about(
        &mut self,
        teller: &Teller<'_>,
        call: &Call<'_>,
        disclosed: &DisclosedSecrets,
        mut ruling: Ruling,
    ) -> Asked {
        if ruling.asks.is_empty() && self.held_calls.is_empty() {
            return Asked::Ruled(ruling);
        }
        let arguments = call.arguments.unwrap_or_else(|| RawJson::trusted("{}"));
        let definition = Definition::of(arguments);
        let hash = definition.hash;
        let settlement = self.held_calls.take(teller.message.id, &call.tool, &hash);
        if ruling.block.is_some() || self.policy.mode == Mode::Observe {
            return Asked::Ruled(ruling);
        }
        let mut open = Vec::new();
        let mut is_granted = false;
        for ask in std::mem::take(&mut ruling.asks) {
            let answer = settlement.clone();
            let answer = answer.or_else(|| self.standing_answer(teller.conversation, call, &ask.rule, &hash));
            match answer {
                Some(answer) => {
                    is_granted |= matches!(answer, Settlement::Granted(_));
                    settled(&mut ruling, ask, &answer);
                }
                None => open.push(ask),
            }
        }
        if !open.is_empty() {
            match self.hold(teller, call, &definition, arguments, disclosed, &open) {
                Ok(judgement) => return Asked::Held(judgement),
                Err(cause) => {
                    let unanswerable = Settlement::Unanswerable(cause);
                    open.drain(..)
                        .for_each(|ask| settled(&mut ruling, ask, &unanswerable));
                }
            }
        } else if is_granted && ruling.block.is_none() {
            self.held_calls.note_continued(&call.tool, hash);
        }
        Asked::Ruled(ruling)
    }

    /// Returns an answer that was given for more than one call.
    fn standing_answer(
        &mut self,
        conversation: &Conversation,
        call: &Call<'_>,
        rule: &str,
        hash: &Digest,
    ) -> Option<Settlement> {
        let identity = &conversation.identity;
        let key = (identity.clone(), call.tool.to_string(), rule.to_owned());
        if let Some(by) = self.held_calls.granted.get(&key) {
            return Some(Settlement::Granted(by.clone()));
        }
        // A call that a person allowed was answered with a request for input: its continuation is the same intent.
        let is_known = |(tool, known): &(String, Digest)| *tool == call.tool && known == hash;
        let goes_on = call.resumes.is_some()
            && self.held_calls.continued.iter().any(is_known)
            && self
                .companies
                .session(conversation)
                .is_asking(&identity.server, &call.tool);
        goes_on.then(|| Settlement::Granted("the answer to the call that it continues".to_owned()))
    }

    /// Holds a call, if it can be shown to a person completely.
    fn hold(
        &mut self,
        teller: &Teller<'_>,
        call: &Call<'_>,
        definition: &Definition,
        arguments: RawJson<'_>,
        disclosed: &DisclosedSecrets,
        asks: &[Objection],
    ) -> Result<Judgement, &'static str> {
        let request = teller.message.id.ok_or("it waits for no answer itself")?;
        if self.held_calls.held.len() >= MAX_HELD_CALLS {
            return Err("too many calls wait for a person already");
        }
        if definition.canonical.len() > MAX_ARGUMENTS_BYTES || teller.message.size > MAX_MESSAGE_BYTES {
            return Err("it is too long to be shown whole to a person");
        }
        if disclosed.is_cut || disclosed.secrets.len() >= MAX_SECRETS {
            return Err("it cannot be shown whole to a person without the secrets in it");
        }
        let masked = redacted(arguments.as_str(), &Secret::masks(&disclosed.secrets));
        let conversation = teller.conversation;
        let session = conversation
            .session
            .as_ref()
            .map_or("", |session| session.as_str());
        let parts = [
            session,
            conversation.identity.server.as_str(),
            &call.tool,
            &request.to_string(),
        ];
        let mut rules = asks.iter().map(|ask| ask.rule.clone().into_owned());
        let reasons: Vec<&str> = asks.iter().map(|ask| ask.reason.as_str()).collect();
        let timeout = i64::try_from(self.policy.approvals.timeout.as_nanos()).unwrap_or(i64::MAX);
        let held = HeldCall {
            id: HeldCall::id_of(&parts, &definition.hash, teller.now),
            identity: conversation.identity.clone(),
            session: conversation.session.clone(),
            tool: call.tool.to_string(),
            arguments: match disclosed.secrets.is_empty() {
                true => definition.canonical.to_string(),
                false => Definition::of(RawJson::trusted(&masked)).canonical.to_string(),
            },
            arguments_hash: definition.hash,
            rule: rules.next().unwrap_or_default(),
            other_rules: rules.collect(),
            reason: reasons.join("; "),
            since: teller.now,
            expires: Timestamp(teller.now.0.saturating_add(timeout)),
        };
        let waiting = Held {
            call: held.clone(),
            conversation: conversation.clone(),
            request: request.clone(),
            settlement: None,
        };
        let mut event = waiting.event(teller.now, "mcpmon", ApprovalState::Requested);
        event.severity = Severity::High;
        event.action = Action::Audit;
        because(
            &mut event,
            &waiting.call.reason,
            Some(&command(&["approvals", "show", &held.id])),
        );
        let id = held.id.clone();
        self.held_calls.held.insert(id.clone(), waiting);
        Ok(Judgement {
            verdict: Verdict::Ask(id),
            events: vec![event],
            store_effects: vec![StoreEffect::HoldCall(Box::new(held))],
            ..Judgement::default()
        })
    }

    /// Applies persons' answers to held calls, in this or another conversation of the session.
    pub(crate) fn answer_calls(
        &mut self,
        now: Timestamp,
        identity: &PinKey,
        answers: &[AnsweredCall],
    ) -> Judgement {
        let mut judgement = Judgement::default();
        for answered in answers {
            let by = answered.by.clone();
            let (state, action, settlement) = match answered.answer {
                CallAnswer::Once | CallAnswer::Session => {
                    (ApprovalState::Granted, Action::Audit, Settlement::Granted(by))
                }
                CallAnswer::Deny => (ApprovalState::Denied, Action::Block, Settlement::Denied(by)),
            };
            let known = self.held_calls.held.get(&answered.id);
            if let Some(held) = known.filter(|held| held.settlement.is_none()) {
                let mut event = held.event(now, &answered.by, state);
                event.action = action;
                judgement.events.push(event);
                judgement
                    .store_effects
                    .push(StoreEffect::ReleaseCall(answered.id.clone()));
                self.held_calls
                    .settle(&settlement, |held| held.call.id == answered.id);
            }
            if answered.answer == CallAnswer::Session {
                let mut is_new = false;
                for rule in &answered.rules {
                    let key = (identity.clone(), answered.tool.clone(), rule.clone());
                    is_new |= self.held_calls.granted.insert(key, answered.by.clone()).is_none();
                }
                if is_new {
                    self.release_granted(now, identity, answered, &settlement, &mut judgement);
                }
            }
        }
        judgement
    }

    /// Allows the other held calls of a tool that a person allowed for this session, if every rule that asks about them
    /// has such an answer.
    fn release_granted(
        &mut self,
        now: Timestamp,
        identity: &PinKey,
        answered: &AnsweredCall,
        settlement: &Settlement,
        judgement: &mut Judgement,
    ) {
        let waiting = self
            .held_calls
            .held
            .values()
            .filter(|held| held.settlement.is_none());
        let meant: BTreeSet<String> = waiting
            .filter(|held| held.call.identity == *identity && held.call.tool == answered.tool)
            .filter(|held| self.held_calls.grants(&held.call))
            .map(|held| held.call.id.clone())
            .collect();
        for held in meant.iter().filter_map(|id| self.held_calls.held.get(id)) {
            judgement
                .events
                .push(held.event(now, &answered.by, ApprovalState::Granted));
            judgement
                .store_effects
                .push(StoreEffect::ReleaseCall(held.call.id.clone()));
        }
        self.held_calls
            .settle(settlement, |held| meant.contains(&held.call.id));
    }

    /// Notes that time passed: the policy answers each call that no person answered in time, and each call of a session
    /// that a person has stopped.
    pub(super) fn tick_held_calls(&mut self, now: Timestamp, judgement: &mut Judgement) {
        if self.held_calls.is_empty() {
            return;
        }
        let on_timeout = self.policy.approvals.on_timeout;
        let is_late = |held: &Held| held.call.is_late(now);
        let late = self.held_calls.held.values();
        for held in late.filter(|held| held.settlement.is_none() && is_late(held)) {
            let mut event = held.event(now, "mcpmon", ApprovalState::TimedOut);
            event.action = match on_timeout {
                OnTimeout::Deny => Action::Block,
                OnTimeout::Allow => Action::Audit,
            };
            judgement.events.push(event);
            judgement
                .store_effects
                .push(StoreEffect::ReleaseCall(held.call.id.clone()));
        }
        self.held_calls.settle(&Settlement::TimedOut(on_timeout), is_late);
        let stopped: BTreeSet<String> = self
            .held_calls
            .held
            .values()
            .filter(|held| {
                held.settlement.is_none() && self.stop_of(held.conversation.session.as_ref()).is_some()
            })
            .map(|held| held.call.id.clone())
            .collect();
        for held in stopped.iter().filter_map(|id| self.held_calls.held.get(id)) {
            judgement
                .events
                .push(held.event(now, "mcpmon", ApprovalState::Withdrawn));
            judgement
                .store_effects
                .push(StoreEffect::ReleaseCall(held.call.id.clone()));
        }
        self.held_calls
            .settle(&Settlement::Unanswerable("its session is stopped"), |held| {
                stopped.contains(&held.call.id)
            });
    }

    /// Takes the ids of the held calls that are to be judged again.
    pub(crate) fn take_settled_calls(&mut self) -> Vec<String> {
        std::mem::take(&mut self.held_calls.settled).into_iter().collect()
    }

    /// Returns whether a held call is to be judged again.
    pub(crate) fn is_settled_call(&self, id: &str) -> bool {
        self.held_calls.settled.contains(id)
    }

    /// Returns whether a call is held, or was answered and not judged again yet.
    pub(crate) fn is_held_call(&self, id: &str) -> bool {
        self.held_calls.held.contains_key(id)
    }

    /// Withdraws a held call: its client cancelled it, or disconnected.
    pub(crate) fn withdraw_call(&mut self, now: Timestamp, id: &str) -> Judgement {
        let mut judgement = Judgement::default();
        self.held_calls.settled.remove(id);
        if let Some(held) = self.held_calls.held.remove(id)
            && held.settlement.is_none()
        {
            judgement
                .events
                .push(held.event(now, "client", ApprovalState::Withdrawn));
            judgement
                .store_effects
                .push(StoreEffect::ReleaseCall(held.call.id));
        }
        judgement
    }

    /// Withdraws every held call.
    pub(super) fn withdraw_calls(&mut self, now: Timestamp, judgement: &mut Judgement) {
        let ids: Vec<String> = self.held_calls.held.keys().cloned().collect();
        for id in ids {
            let mut withdrawn = self.withdraw_call(now, &id);
            judgement.events.append(&mut withdrawn.events);
            judgement.store_effects.append(&mut withdrawn.store_effects);
        }
    }

    /// Settles a held call that its transport cannot keep, because of `cause`: it is judged again at once.
    pub(crate) fn refuse_to_hold(&mut self, now: Timestamp, id: &str, cause: &'static str) -> Judgement {
        let mut judgement = Judgement::default();
        if let Some(held) = self.held_calls.held.get(id) {
            judgement
                .events
                .push(held.event(now, "mcpmon", ApprovalState::Withdrawn));
            judgement
                .store_effects
                .push(StoreEffect::ReleaseCall(id.to_owned()));
        }
        self.held_calls
            .settle(&Settlement::Unanswerable(cause), |held| held.call.id == id);
        self.held_calls.settled.remove(id);
        judgement
    }
}

/// Adds the effect of an answer, or of its absence, on a rule that asks.
fn settled(ruling: &mut Ruling, ask: Objection, settlement: &Settlement) {
    let (effect, what) = match settlement {
        Settlement::Granted(by) => (ObjectionEffect::Audit, format!("allowed by {by}")),
        Settlement::Denied(by) => (ObjectionEffect::Block, format!("denied by {by}")),
        Settlement::TimedOut(OnTimeout::Deny) => {
            (ObjectionEffect::Block, "no person answered in time".to_owned())
        }
        Settlement::TimedOut(OnTimeout::Allow) => (
            ObjectionEffect::Audit,
            "no person answered in time (`mcp.approvals.on_timeout: allow`)".to_owned(),
        ),
        Settlement::Unanswerable(cause) => (ObjectionEffect::Block, format!("no person is asked: {cause}")),
    };
    let objection = Objection {
        effect,
        severity: match effect {
            ObjectionEffect::Block => Severity::High,
            ObjectionEffect::Audit | ObjectionEffect::Ask => ask.severity,
        },
        reason: format!("{}; {what}", ask.reason),
        ..ask
    };
    match effect {
        ObjectionEffect::Block => drop(ruling.block.get_or_insert(objection)),
        ObjectionEffect::Audit | ObjectionEffect::Ask => ruling.audits.push(objection),
    }
}
