//! Questions of wrappers about processes. A question is answered when all records from before it are read.

use std::collections::VecDeque;

use mcpmon_engine::Observation;
use mcpmon_model::{Denial, ProcessId};
use mcpmon_session::clock;
use tokio::sync::oneshot;

use super::{Core, answer};
use crate::app::host;

/// The nanoseconds by which a record must be later than a question to show that all records before the question are
/// read. Records get their time before their position in the ring, and the two clocks differ by less than this.
const MARGIN: u64 = 1_000_000;

/// A question of a wrapper. The kernel's record of the process may not be read yet.
#[derive(Debug)]
pub(crate) enum WrapperQuestion {
    /// A wrapper started this process: look at it, unless its start was reported.
    Wrapped(ProcessId),
    /// The question why a process must not run.
    Fate(FateQuestion),
}

/// The question why a process was or will be killed. The answer is `None` if it may run, or the wrapper is not its
/// ancestor. The question is answered when the comparison of its server's files with the pins is over, if there is one.
#[derive(Debug)]
pub(crate) struct FateQuestion {
    /// The process.
    pub(crate) process: ProcessId,
    /// The wrapper that asks.
    pub(crate) wrapper: ProcessId,
    /// Receives the answer.
    pub(crate) reply: oneshot::Sender<Option<Denial>>,
}

/// Questions without an answer, oldest first.
#[derive(Debug)]
pub(super) struct Questions<Q = WrapperQuestion> {
    waiting: VecDeque<(u64, Q)>,
    /// The time of the latest record of a process that was read, nanoseconds since boot.
    read_until: u64,
}

impl<Q> Default for Questions<Q> {
    fn default() -> Self {
        Self {
            waiting: VecDeque::new(),
            read_until: 0,
        }
    }
}

impl<Q> Questions<Q> {
    /// Adds a question that is asked `now`, in nanoseconds since boot.
    pub(super) fn ask(&mut self, now: u64, question: Q) {
        self.waiting.push_back((now, question));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Notes the time of a record of a process that was read.
    pub(super) fn note(&mut self, made: u64) {
        self.read_until = self.read_until.max(made);
    }

    /// Returns whether the oldest question can be answered although records are left to be read.
    fn is_due(&self) -> bool {
        let asked = self.waiting.front().map(|(asked, _)| *asked);
        asked.is_some_and(|asked| self.read_until > asked.saturating_add(MARGIN))
    }

    /// Removes the next question that can be answered. If no record is left (`is_all`), each question can be.
    pub(super) fn next(&mut self, is_all: bool) -> Option<Q> {
        if !is_all && !self.is_due() {
            return None;
        }
        self.waiting.pop_front().map(|(_, question)| question)
    }
}

impl Core {
    /// Answers the questions from before the latest record that was read; if `is_all`, all of them.
    pub(super) fn answer_questions(&mut self, is_all: bool) {
        while let Some(question) = self.questions.next(is_all) {
            match question {
                WrapperQuestion::Wrapped(process) => self.look_at(process),
                WrapperQuestion::Fate(question) => {
                    let judgement = self
                        .monitor
                        .observe(clock::now(), Observation::Spoke(question.process));
                    self.carry_out(judgement, None);
                    self.uncompared.push(question);
                }
            }
        }
    }

    /// Answers questions about servers whose comparison is over.
    pub(super) fn answer_compared(&mut self) {
        for question in std::mem::take(&mut self.uncompared) {
            match self.fate(&question) {
                Some(fate) => answer(question.reply, fate),
                // The wrapper has given up.
                None if question.reply.is_closed() => {}
                None => self.uncompared.push(question),
            }
        }
    }

    /// Returns the answer to a question: a denial, or that the process may run. Returns `None` while this is not
    /// decided.
    fn fate(&self, question: &FateQuestion) -> Option<Option<Denial>> {
        let denial = || self.denials.of(question.process, question.wrapper);
        match self.monitor.server_of(question.process) {
            Some(server) if self.doomed.contains(&server) => Some(denial()),
            // A server that is held may have written messages before it ended; its client must not get them yet.
            _ if self.monitor.holds(question.process) => None,
            _ if !host::is_alive(question.process) => Some(denial()),
            Some(_) | None => Some(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_answered_once_the_records_before_it_are_read() {
        let mut questions = Questions::default();
        questions.note(5 * MARGIN);
        questions.ask(10 * MARGIN, "first");
        questions.ask(20 * MARGIN, "second");
        let mut at = |made| {
            questions.note(made);
            std::iter::from_fn(|| questions.next(false)).collect::<Vec<_>>()
        };
        assert_eq!(at(10 * MARGIN), [""; 0], "it may have been there");
        assert_eq!(at(11 * MARGIN + 1), ["first"], "whatever comes after it");
        assert_eq!(at(11 * MARGIN), [""; 0], "clocks of processors differ");
        assert_eq!(at(30 * MARGIN), ["second"]);
    }

    #[test]
    fn where_nothing_is_left_to_read_all_is_answered() {
        let mut questions = Questions::default();
        questions.ask(10, "first");
        assert_eq!(questions.next(true), Some("first"));
        assert!(questions.is_empty());
        assert_eq!(questions.next(true), None);
    }
}
