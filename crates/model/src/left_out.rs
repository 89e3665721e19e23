//! Calls that were left out of a response that its provider stores.
//!
//! A conversation that continues from the id of such a response has to answer every call in it, but the agent knows
//! only the calls that it saw. So omitted calls are remembered, and their refusals are sent along.

use std::collections::VecDeque;

/// Most bytes that are remembered of one session; the oldest responses are removed first.
const MAX_BYTES: usize = 64 << 10;
/// Longest id that is remembered, bytes.
const MAX_ID: usize = 256;

/// A call that was left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OmittedCall {
    /// The model's id of it.
    pub call_id: String,
    /// The kind of tool that was called.
    pub called: OmittedToolKind,
    /// The text sent in its place.
    pub said: String,
}

/// The kinds of tools whose calls are answered with text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OmittedToolKind {
    /// A function.
    Function,
    /// A tool that takes text.
    Custom,
}

impl OmittedCall {
    fn bytes(&self) -> usize {
        size_of::<Self>() + self.call_id.len() + self.said.len()
    }
}

/// Calls left out of the responses of one session.
#[derive(Debug, Default)]
pub struct OmittedCalls {
    /// Oldest first.
    responses: VecDeque<(Box<str>, Vec<OmittedCall>)>,
    bytes: usize,
}

impl OmittedCalls {
    /// Notes that these calls were left out of the response with this id.
    pub fn note(&mut self, response: &str, calls: &[OmittedCall]) {
        if response.is_empty() || response.len() > MAX_ID {
            return;
        }
        let mut known = self.forget(response);
        for call in calls {
            if known.iter().all(|known| known.call_id != call.call_id) {
                known.push(call.clone());
            }
        }
        self.bytes += size(response, &known);
        self.responses.push_back((response.into(), known));
        while self.bytes > MAX_BYTES
            && let Some((response, calls)) = self.responses.pop_front()
        {
            self.bytes -= size(&response, &calls);
        }
    }

    /// Returns the calls left out of the response with this id.
    pub fn of(&self, response: &str) -> &[OmittedCall] {
        let mut responses = self.responses.iter();
        let found = responses.find(|(known, _)| **known == *response);
        found.map_or(&[], |(_, calls)| calls)
    }

    fn forget(&mut self, response: &str) -> Vec<OmittedCall> {
        let at = self.responses.iter().position(|(known, _)| **known == *response);
        let Some((known, calls)) = at.and_then(|at| self.responses.remove(at)) else {
            return Vec::new();
        };
        self.bytes -= size(&known, &calls);
        calls
    }
}

fn size(response: &str, calls: &[OmittedCall]) -> usize {
    response.len() + calls.iter().map(OmittedCall::bytes).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(id: &str) -> OmittedCall {
        OmittedCall {
            call_id: id.to_owned(),
            called: OmittedToolKind::Function,
            said: "no".to_owned(),
        }
    }

    #[test]
    fn a_response_has_what_was_left_out_of_it() {
        let mut unanswered = OmittedCalls::default();
        unanswered.note("r1", &[call("a")]);
        unanswered.note("r2", &[call("b")]);
        unanswered.note("r1", &[call("a"), call("c")]);
        assert_eq!(unanswered.of("r1"), [call("a"), call("c")]);
        assert_eq!(unanswered.of("r2"), [call("b")]);
        assert_eq!(unanswered.of("r3"), []);
        assert_eq!(unanswered.of(""), []);
    }

    #[test]
    fn the_oldest_make_room() {
        let mut unanswered = OmittedCalls::default();
        let many = MAX_BYTES / size("r0000", &[call("a")]);
        for number in 0..=many {
            unanswered.note(&format!("r{number:04}"), &[call("a")]);
            assert!(unanswered.bytes <= MAX_BYTES);
        }
        assert_eq!(unanswered.of("r0000"), []);
        assert_eq!(unanswered.of("r0001"), [call("a")]);
        unanswered.note("long", &[call(&"x".repeat(MAX_BYTES))]);
        assert_eq!((unanswered.bytes, unanswered.responses.len()), (0, 0));
        unanswered.note(&"r".repeat(MAX_ID + 1), &[call("a")]);
        assert_eq!(unanswered.responses.len(), 0);
    }
}
