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

/// Most calls that are kept: more than any default rate allows within a window.
const MAX_CALLS: usize = 4096;
/// Most results that are kept.
const MAX_OUTPUTS: usize = 1024;
/// Most bytes of fingerprints and names, of all results together.
const MAX_OUTPUT_BYTES: usize = 1 << 19;
/// Most bytes of names and ids, of all calls together.
const MAX_CALL_BYTES: usize = 1 << 19;
/// Most calls to a server by the code of one intent that count as one call.
const MAX_CALLS_OF_CODE: usize = 100;
/// Most servers whose buckets are kept.
const MAX_BUCKETS: usize = 1024;

/// The recent calls and results of one session. A process, the store or the daemon holds it.
#[derive(Clone, Debug, Default)]
pub struct CallWindow {
    /// The calls, by time.
    calls: VecDeque<RecentCall>,
    /// The times of all calls in `calls`, by server.
    times: BTreeMap<ServerId, VecDeque<Timestamp>>,
    /// The results, by time.
    outputs: VecDeque<RecentOutput>,
    call_bytes: usize,
    output_bytes: usize,
    intents: Intents,
    buckets: BTreeMap<ServerId, BucketLevel>,
}

impl CallWindow {
    /// Checks a call and, unless it is stopped, counts it. Returns the answer to the call, and what other holders of
    /// the same window have to learn. A call that resumes a counted one is not counted again.
    pub fn admit(&mut self, policy: &Policy, call: &SharedCall) -> (SharedCallAnswer, Option<Recent>) {
        let (checked, recent) = self.check(policy, call);
        if let Some(recent) = &recent {
            self.add(recent.clone());
        }
        (checked, recent)
    }

    /// Checks a call as [`Self::admit`] does, without counting it: [`Self::take`] counts it.
    pub fn check(&mut self, policy: &Policy, call: &SharedCall) -> (SharedCallAnswer, Option<Recent>) {
        self.prune(call.at, policy);
        let wanted = || {
            let id = call.tool_call.as_deref();
            self.intents.turn_of(&call.server, &call.tool, id)
        };
        let wanted = call.turn.is_none().then(wanted).flatten();
        // If the model wants code run, the calls of the code have neither an id nor an intent.
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
        // One intent counts once, however often its code calls; but only up to a bound, because code can loop.
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

    /// Records a call or a result that happened, in any order. A call with the time and request of a known one is ignored.
    pub fn take(&mut self, recent: Recent) {
        match &recent {
            Recent::Call(call) if self.has(call) => {}
            Recent::Call(_) | Recent::Output(_) | Recent::Intent(_) => self.add(recent),
        }
    }

    fn add(&mut self, recent: Recent) {
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

    /// Returns whether the window has a call, by its time and request.
    fn has(&self, call: &RecentCall) -> bool {
        let from = self.calls.partition_point(|known| known.at < call.at);
        let same_time = self
            .calls
            .iter()
            .skip(from)
            .take_while(|known| known.at == call.at);
        call.request.is_some()
            && same_time.into_iter().any(|known| {
                (&known.server, &known.tool, &known.request) == (&call.server, &call.tool, &call.request)
            })
    }

    /// Returns whether the window holds nothing that any rule could need at `now`.
    pub fn is_over(&mut self, now: Timestamp, policy: &Policy) -> bool {
        self.prune(now, policy);
        self.calls.is_empty() && self.outputs.is_empty() && self.intents.is_empty() && self.buckets.is_empty()
    }

    /// Returns whether a server other than `server` was called.
    pub fn has_others(&self, server: &ServerId) -> bool {
        self.times.keys().any(|other| other != server)
    }

    /// Returns the calls that are still kept, latest first.
    pub(super) fn calls(&self) -> impl Iterator<Item = &RecentCall> {
        self.calls.iter().rev()
    }

    /// Returns the results that are still kept, latest first.
    pub(super) fn outputs(&self) -> impl Iterator<Item = &RecentOutput> {
        self.outputs.iter().rev()
    }

    /// Returns the number of a server's calls within a time, without examining every call.
    pub(super) fn count_of(&self, server: &ServerId, now: Timestamp, within: Duration) -> usize {
        let count =
            |times: &VecDeque<Timestamp>| times.len() - times.partition_point(|at| now.since(*at) > within);
        self.times.get(server).map_or(0, count)
    }

    /// Returns the number of calls to the server that the code of the same intent made.
    fn calls_of_code(&self, call: &SharedCall) -> usize {
        let is_of_code = |known: &&RecentCall| {
            known.origin.is_some() && known.server == call.server && known.turn == call.turn
        };
        self.calls.iter().filter(is_of_code).count()
    }

    /// Returns the number of a server's calls within a time, where all calls by the code of one intent count as one.
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

    /// Returns whether a model of the session recently wanted code run that can call tools.
    pub fn runs_code(&mut self, now: Timestamp) -> bool {
        self.intents.prune(now);
        self.intents.turn_of_code().is_some()
    }

    /// Forgets calls and results that are too old for every rule.
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
            level.follow(now);
            let refill = limits.of(server).map(RateLimit::refill);
            refill.is_some_and(|refill| now.since(level.at) <= refill)
        });
    }

    fn drop_call(&mut self) {
        let Some(call) = self.calls.pop_front() else {
            return;
        };
        self.call_bytes -= bytes_of_call(&call);
        // The oldest call of all is also the oldest of its server.
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
            // A server whose bucket cannot be kept gets none: its bucket would be full at every call.
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
        match self.buckets.entry(call.server.clone()) {
            Entry::Vacant(unused) => {
                unused.insert(level);
            }
            Entry::Occupied(mut known) => known.get_mut().count(level),
        }
    }
}

/// Inserts `one` after all elements that are not later than it; nearly always at the end.
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
