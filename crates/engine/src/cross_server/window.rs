//! The window of recent calls in a session. It is bounded in time, in number, and in bytes.

use std::{
    collections::{BTreeMap, VecDeque, btree_map::Entry},
    time::Duration,
};

use mcpmon_model::{
    Action, CallOrigin, Recent, RecentCall, RecentOutput, ServerId, SharedCall, SharedCallAnswer, Timestamp,
};
use mcpmon_policy::{Mode, Policy, RateLimit};

use super::{
    super::rate_limit::{self, BucketLevel},
    intents::Intents,
};

/// Calls that are kept. More of them within a window do not fit into any rate that is allowed by default.
const MAX_CALLS: usize = 4096;
/// Results that are kept.
const MAX_OUTPUTS: usize = 1024;
/// Hashes and names of all results together, bytes.
const MAX_OUTPUT_BYTES: usize = 1 << 19;
/// Names and ids of all calls together, bytes.
const MAX_CALL_BYTES: usize = 1 << 19;
/// Calls of a server by the code of one intent that count as one call.
const MAX_CALLS_OF_CODE: usize = 100;
/// Servers whose buckets are kept.
const MAX_BUCKETS: usize = 1024;

/// The recent calls and results of one session, whoever holds them: a process, a store, the daemon.
#[derive(Clone, Debug, Default)]
pub struct CallWindow {
    /// By time.
    calls: VecDeque<RecentCall>,
    /// The times of each server's calls: of all that are in `calls`.
    times: BTreeMap<ServerId, VecDeque<Timestamp>>,
    /// By time.
    outputs: VecDeque<RecentOutput>,
    call_bytes: usize,
    output_bytes: usize,
    intents: Intents,
    buckets: BTreeMap<ServerId, BucketLevel>,
}

impl CallWindow {
    /// Checks a call and, unless it is stopped, counts it: what is said to it, and what there is to tell others
    /// who hold the same window. A call that goes on with one that was counted is not counted again.
    pub fn admit(&mut self, policy: &Policy, call: &SharedCall) -> (SharedCallAnswer, Option<Recent>) {
        let (checked, recent) = self.check(policy, call);
        if let Some(recent) = &recent {
            self.take(recent.clone());
        }
        (checked, recent)
    }

    /// Checks a call as [`Self::admit`] does, and counts nothing yet: it counts once [`Self::take`] takes it.
    pub fn check(&mut self, policy: &Policy, call: &SharedCall) -> (SharedCallAnswer, Option<Recent>) {
        self.prune(call.at, policy);
        let wanted = || {
            let id = call.tool_call.as_deref();
            self.intents.turn_of(&call.server, &call.tool, id)
        };
        let wanted = call.turn.is_none().then(wanted).flatten();
        // Where the model wants code run, its calls have neither an id nor an intent of their own.
        let is_unasked = call.turn.is_none() && call.tool_call.is_none() && wanted.is_none();
        let code = is_unasked.then(|| self.intents.turn_of_code()).flatten();
        let origin = code.is_some().then_some(CallOrigin::Code);
        let of_turn = wanted.or(code).map(|turn| SharedCall {
            turn: Some(turn),
            ..call.clone()
        });
        let call = of_turn.as_ref().unwrap_or(call);
        let mut checked = SharedCallAnswer {
            crossings: super::judge(policy, self, call),
            over_rate: None,
            origin,
        };
        // One intent is counted once, however often its code calls: up to a bound, for code can loop.
        let earlier = match origin {
            Some(CallOrigin::Code) => self.calls_of_code(call),
            None => 0,
        };
        let is_counted = !call.resumes && !(1..MAX_CALLS_OF_CODE).contains(&earlier);
        let limit = policy.rate_limits.of(&call.server).filter(|_| is_counted);
        let taken = limit.map(|limit| rate_limit::take(self.bucket(call, limit), limit, call.at));
        let left = match taken {
            Some(Ok(left)) => Some(left),
            Some(Err(wait)) => {
                checked.over_rate = limit.map(|limit| super::over_rate(call, limit, wait));
                None
            }
            None => None,
        };
        let goes_on = !checked.blocks() || policy.mode == Mode::Observe;
        let recent = (goes_on && !call.resumes).then(|| {
            Recent::Call(RecentCall {
                at: call.at,
                server: call.server.clone(),
                tool: call.tool.clone(),
                category: call.category,
                request: call.request.clone(),
                turn: call.turn.clone(),
                origin,
                action: Action::Allow,
                labels: call.labels.clone(),
                left,
            })
        });
        (checked, recent)
    }

    /// Takes in what happened, in any order.
    pub fn take(&mut self, recent: Recent) {
        match recent {
            Recent::Call(mut call) => {
                if let Some(left) = call.left {
                    self.fill(&call, left);
                }
                self.intents.was_made(&mut call);
                self.call_bytes += bytes_of_call(&call);
                let times = self.times.entry(call.server.clone()).or_default();
                insert(times, call.at, |known| *known);
                insert(&mut self.calls, call, |known| known.at);
                while self.calls.len() > MAX_CALLS || self.call_bytes > MAX_CALL_BYTES {
                    self.drop_call();
                }
            }
            Recent::Output(output) => {
                self.output_bytes += bytes_of_output(&output);
                insert(&mut self.outputs, output, |known| known.at);
                while self.outputs.len() > MAX_OUTPUTS || self.output_bytes > MAX_OUTPUT_BYTES {
                    self.drop_output();
                }
            }
            Recent::Intent(intent) => self.intents.take(intent),
        }
    }

    /// Returns whether nothing is left that anybody could ask for at `now`.
    pub fn is_over(&mut self, now: Timestamp, policy: &Policy) -> bool {
        self.prune(now, policy);
        self.calls.is_empty() && self.outputs.is_empty() && self.intents.is_empty() && self.buckets.is_empty()
    }

    /// Returns whether another server than `server` was called.
    pub fn has_others(&self, server: &ServerId) -> bool {
        self.times.keys().any(|other| other != server)
    }

    /// The calls that are not forgotten, latest first.
    pub(super) fn calls(&self) -> impl Iterator<Item = &RecentCall> {
        self.calls.iter().rev()
    }

    /// The same of results.
    pub(super) fn outputs(&self) -> impl Iterator<Item = &RecentOutput> {
        self.outputs.iter().rev()
    }

    /// Returns the number of a server's calls within a time, without examining every call.
    pub(super) fn count_of(&self, server: &ServerId, now: Timestamp, within: Duration) -> usize {
        let count =
            |times: &VecDeque<Timestamp>| times.len() - times.partition_point(|at| now.since(*at) > within);
        self.times.get(server).map_or(0, count)
    }

    /// The calls of a server that the code of one intent made.
    fn calls_of_code(&self, call: &SharedCall) -> usize {
        let is_of_code = |known: &&RecentCall| {
            known.origin.is_some() && known.server == call.server && known.turn == call.turn
        };
        self.calls.iter().filter(is_of_code).count()
    }

    /// Of so many calls of a server, those that are counted: the code of one intent counts as one call.
    pub(super) fn count_of_intents(&self, server: &ServerId, now: Timestamp, within: Duration) -> usize {
        let count = self.count_of(server, now, within);
        let mut of_code: BTreeMap<&Option<Box<str>>, usize> = BTreeMap::new();
        for call in self.calls().take_while(|call| now.since(call.at) <= within) {
            if call.origin.is_some() && call.server == *server {
                *of_code.entry(&call.turn).or_default() += 1;
            }
        }
        let repeated = of_code
            .values()
            .map(|count| (count - 1).min(MAX_CALLS_OF_CODE - 1));
        count - repeated.sum::<usize>()
    }

    /// Returns whether a model of the session wanted code run that can call tools, lately.
    pub fn runs_code(&mut self, now: Timestamp) -> bool {
        self.intents.prune(now);
        self.intents.turn_of_code().is_some()
    }

    /// Forgets what no rule reaches any more.
    fn prune(&mut self, now: Timestamp, policy: &Policy) {
        let reach = policy.cross_server.reach();
        while self.calls.front().is_some_and(|call| now.since(call.at) > reach) {
            self.drop_call();
        }
        while self
            .outputs
            .front()
            .is_some_and(|output| now.since(output.at) > reach)
        {
            self.drop_output();
        }
        self.intents.prune(now);
        let limits = &policy.rate_limits;
        self.buckets.retain(|server, level| {
            let refill = limits.of(server).map(RateLimit::refill);
            refill.is_some_and(|refill| now.since(level.at) <= refill)
        });
    }

    fn drop_call(&mut self) {
        let Some(call) = self.calls.pop_front() else {
            return;
        };
        self.call_bytes -= bytes_of_call(&call);
        // The oldest of all is the oldest of its server.
        if let Entry::Occupied(mut times) = self.times.entry(call.server) {
            times.get_mut().pop_front();
            if times.get().is_empty() {
                times.remove();
            }
        }
    }

    fn drop_output(&mut self) {
        if let Some(output) = self.outputs.pop_front() {
            self.output_bytes -= bytes_of_output(&output);
        }
    }

    fn bucket(&self, call: &SharedCall, limit: RateLimit) -> Option<BucketLevel> {
        let full = || self.buckets.len() >= MAX_BUCKETS;
        match self.buckets.get(&call.server) {
            Some(level) => Some(*level),
            // Nobody gets a bucket that cannot be kept: it would never be empty.
            None if full() => Some(BucketLevel {
                at: call.at,
                left: u64::from(limit.burst.min(1)),
            }),
            None => None,
        }
    }

    fn fill(&mut self, call: &RecentCall, left: u64) {
        let is_known = self.buckets.contains_key(&call.server);
        if !is_known && self.buckets.len() >= MAX_BUCKETS {
            return;
        }
        let level = BucketLevel { at: call.at, left };
        let known = self.buckets.entry(call.server.clone()).or_insert(level);
        if known.at < level.at || known.at == level.at && known.left > left {
            *known = level;
        }
    }
}

/// Puts `one` behind all that are no later; nearly always at the end.
fn insert<T>(among: &mut VecDeque<T>, one: T, at: impl Fn(&T) -> Timestamp) {
    let time = at(&one);
    match among.back().is_none_or(|last| at(last) <= time) {
        true => among.push_back(one),
        false => {
            let position = among.partition_point(|known| at(known) <= time);
            among.insert(position, one);
        }
    }
}

fn bytes_of_call(call: &RecentCall) -> usize {
    let ids = [&call.request, &call.turn].into_iter().flatten();
    call.server.as_str().len() + call.tool.len() + ids.map(|id| id.len()).sum::<usize>()
}

fn bytes_of_output(output: &RecentOutput) -> usize {
    output.server.as_str().len() + output.tool.len() + output.print.len() * size_of::<u32>()
}
