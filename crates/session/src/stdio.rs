//! Conversations over a server's standard streams: the guard judges the bytes, and the outcome is recorded before
//! anything is written.

use mcpmon_guard::GuardOutput;
use mcpmon_model::{Side, Timestamp};
use mcpmon_protocol::filter::stdio::StdioFilter;

use super::Session;

impl Session {
    /// Judges the bytes that `side` wrote, cut at any place, and puts the bytes to write into `out`. Changes of the
    /// shared state are applied before the bytes, and before each further line of the client: the calls before it may
    /// have changed that state or waited for it.
    pub fn push(
        &mut self,
        now: Timestamp,
        filter: &mut StdioFilter,
        side: Side,
        bytes: &[u8],
        out: &mut GuardOutput,
    ) {
        let mut rest = bytes;
        let mut is_current = false;
        while !rest.is_empty() {
            let end = memchr::memchr(b'\n', rest).map_or(rest.len(), |position| position + 1);
            let (line, behind) = rest.split_at(end);
            rest = behind;
            if side == Side::Client || !is_current {
                self.refresh(now);
                self.guard.release(now, filter, &mut self.host, out);
            }
            // Lines of the client that wait for a list are judged with it, and then wait for others.
            is_current = !filter.is_asking();
            self.guard.push(now, filter, side, line, &mut self.host, out);
            self.carry_out(&mut out.outcome);
        }
    }

    /// Handles the end of the bytes of `side`.
    pub fn close_side(
        &mut self,
        now: Timestamp,
        filter: &mut StdioFilter,
        side: Side,
        out: &mut GuardOutput,
    ) {
        if filter.is_asking() {
            self.refresh(now);
        }
        self.guard.close(now, filter, side, &mut self.host, out);
        self.carry_out(&mut out.outcome);
    }

    /// Does the work of [`Self::tick`], answers requests that waited too long, and notifies the client of changed
    /// lists.
    pub fn tick_stdio(&mut self, now: Timestamp, filter: &mut StdioFilter, out: &mut GuardOutput) {
        if filter.is_asking() {
            self.refresh(now);
        }
        self.guard.expire(now, filter, &mut self.host, out);
        self.carry_out(&mut out.outcome);
        self.tick(now);
        self.guard.release(now, filter, &mut self.host, out);
        self.carry_out(&mut out.outcome);
        filter.tell_progress(now, &mut out.wire);
        for kind in self.take_changed_lists() {
            filter.list_changed(kind, &mut out.wire);
        }
    }
}
