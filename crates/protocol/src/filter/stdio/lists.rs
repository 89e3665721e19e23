//! Lists that the filter requests itself: a client that kept a list from before may call a tool that was not listed
//! here.

use std::time::Duration;

use mcpmon_model::{ListKind, RequestId, Side, Timestamp};

use super::StdioOutput;
use crate::{
    decode::{DecodeLimits, mcp::Dialogue},
    filter::{
        called::calls,
        message::Arbiter,
        own::{ListOutcome, OwnRequests},
    },
};

/// The state of a filter that requests lists itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnLists {
    /// Most pages of one list.
    pub pages: usize,
    /// Longest time for one list.
    pub time: Duration,
    /// The time after a request during which another unknown tool does not cause one more.
    pub pause: Duration,
}

/// The lists that a filter requests.
#[derive(Debug)]
pub(super) struct OwnListRequests {
    bounds: OwnLists,
    pub(super) own: OwnRequests,
    asking: Option<ListRequest>,
    /// The time at which the last request ended.
    over: Option<Timestamp>,
}

/// A list that is being requested.
#[derive(Debug)]
struct ListRequest {
    id: RequestId,
    version: Option<String>,
    since: Timestamp,
    pages: usize,
    /// True if the server sends no more.
    is_over: bool,
    /// The client's bytes from the call on.
    held: Vec<u8>,
}

impl OwnListRequests {
    pub(super) fn new(bounds: OwnLists) -> Self {
        Self {
            bounds,
            own: OwnRequests::default(),
            asking: None,
            over: None,
        }
    }

    /// Returns the client's bytes that wait for a list.
    pub(super) fn held(&mut self) -> Option<&mut Vec<u8>> {
        self.asking.as_mut().map(|asking| &mut asking.held)
    }

    pub(super) const fn is_asking(&self) -> bool {
        self.asking.is_some()
    }

    /// Requests the tools of the server if `line` calls an unknown one, unless they were requested a moment ago.
    /// Returns whether they are requested: the line then waits, with all later ones.
    pub(super) fn ask_about(
        &mut self,
        now: Timestamp,
        limits: DecodeLimits,
        dialogue: &mut Dialogue,
        line: &[u8],
        arbiter: &mut dyn Arbiter,
        out: &mut StdioOutput,
    ) -> bool {
        if self.over.is_some_and(|over| now.since(over) < self.bounds.pause) {
            return false;
        }
        let calls = calls(limits, line);
        if calls.tools.iter().all(|tool| arbiter.is_listed(tool)) {
            return false;
        }
        let version = calls.version;
        let Some(id) = page(&mut self.own, now, dialogue, None, version.as_deref(), out) else {
            return false;
        };
        self.asking = Some(ListRequest {
            id,
            version,
            since: now,
            pages: 1,
            is_over: false,
            held: Vec::new(),
        });
        true
    }

    /// Notes that the server sends no more, so that no list will come.
    pub(super) fn stop(&mut self) {
        if let Some(asking) = &mut self.asking {
            asking.is_over = true;
        }
    }

    /// Requests the next page, if there is one. Returns the bytes that waited for the list, once it is complete or
    /// given up.
    pub(super) fn settle(
        &mut self,
        now: Timestamp,
        dialogue: &mut Dialogue,
        out: &mut StdioOutput,
    ) -> Option<Vec<u8>> {
        let asking = self.asking.as_mut()?;
        // If the clock was set back, the wait ends, because it could last very long.
        let is_late = now < asking.since || now.since(asking.since) >= self.bounds.time;
        let may_go_on = !is_late && !asking.is_over;
        match self.own.listed(dialogue, &asking.id) {
            ListOutcome::Waiting if may_go_on => return None,
            ListOutcome::Waiting => {
                self.own.give_up(&asking.id);
                dialogue.give_up(Side::Server, &asking.id);
            }
            ListOutcome::Page(Some(cursor)) if may_go_on && asking.pages < self.bounds.pages => {
                let (version, cursor) = (asking.version.as_deref(), Some(cursor.as_str()));
                if let Some(id) = page(&mut self.own, now, dialogue, cursor, version, out) {
                    asking.id = id;
                    asking.pages += 1;
                    return None;
                }
            }
            ListOutcome::Page(_) | ListOutcome::Failed => {}
        }
        self.over = Some(now);
        self.asking.take().map(|asking| asking.held)
    }
}

/// Requests a page of tools.
fn page(
    own: &mut OwnRequests,
    now: Timestamp,
    dialogue: &mut Dialogue,
    cursor: Option<&str>,
    version: Option<&str>,
    out: &mut StdioOutput,
) -> Option<RequestId> {
    let (id, body) = own.ask(now, dialogue, ListKind::Tools, cursor, version)?;
    out.forward_line(Side::Client, &body);
    Some(id)
}
