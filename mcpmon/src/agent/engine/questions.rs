//! What wrappers ask of processes, answered when every record is read that was there when it was asked.

use std::collections::VecDeque;

use mcpmon_model::{Denial, ProcessId};
use mcpmon_session::clock;
use tokio::sync::oneshot;

use super::{Core, answer};
use crate::agent::host;

/// How much later than a question a record has to be made to show that those before the question are read, nanoseconds
/// since boot. Records are in the order in which they were made; the two clocks agree to less than that.
const MARGIN: u64 = 1_000_000;

/// What a wrapper asks. The record of what it asks for may not be read yet.
#[derive(Debug)]
pub(crate) enum Question {
    /// This process was started by a wrapper: it is looked at, unless its start was seen.
    Wrapped(ProcessId),
    /// Why this process may not run.
    Fate(FateQuestion),
}

/// Why a process was killed, or is to be; nothing where it may run, or where the wrapper is not above it. Answered when
/// the files of its server are compared with its pins, if they are to be.
#[derive(Debug)]
pub(crate) struct FateQuestion {
    /// The process.
    pub(crate) process: ProcessId,
    /// The wrapper that asks.
    pub(crate) wrapper: ProcessId,
    /// Takes the answer.
    pub(crate) reply: oneshot::Sender<Option<Denial>>,
}

/// What was asked and is not answered yet, in order.
#[derive(Debug)]
pub(super) struct Questions<Q = Question> {
    waiting: VecDeque<(u64, Q)>,
    /// When the latest record of a process was made that is read, since boot.
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
    /// Takes a question that is asked `now`, nanoseconds since boot.
    pub(super) fn ask(&mut self, now: u64, question: Q) {
        self.waiting.push_back((now, question));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// A record of a process is read that was made at that time.
    pub(super) fn note(&mut self, made: u64) {
        self.read_until = self.read_until.max(made);
    }

    /// Whether the oldest question can be answered, where records are left.
    fn is_due(&self) -> bool {
        let asked = self.waiting.front().map(|(asked, _)| *asked);
        asked.is_some_and(|asked| self.read_until > asked.saturating_add(MARGIN))
    }

    /// The next question that can be answered: after a look at which all records were read, where `is_all`.
    pub(super) fn next(&mut self, is_all: bool) -> Option<Q> {
        if !is_all && !self.is_due() {
            return None;
        }
        self.waiting.pop_front().map(|(_, question)| question)
    }
}

impl Core {
    /// Answers what was asked before the latest of the records that are read, or all of it where `is_all` are.
    pub(super) fn answer_questions(&mut self, is_all: bool) {
        while let Some(question) = self.questions.next(is_all) {
            match question {
                Question::Wrapped(process) => self.look_at(process),
                Question::Fate(question) => {
                    let judgement = self.monitor.spoke(clock::now(), question.process);
                    self.carry_out(judgement, None);
                    self.uncompared.push(question);
                }
            }
        }
    }

    /// Answers what was asked of servers whose files are compared by now.
    pub(super) fn answer_compared(&mut self) {
        for question in std::mem::take(&mut self.uncompared) {
            match self.fate(&question) {
                Some(fate) => answer(question.reply, fate),
                // Whoever gave up asks again.
                None if question.reply.is_closed() => {}
                None => self.uncompared.push(question),
            }
        }
    }

    /// Why a process may not run, where it may not; `None` as long as that is to be found out.
    fn fate(&self, question: &FateQuestion) -> Option<Option<Denial>> {
        let denial = || self.denials.of(question.process, question.wrapper);
        match self.monitor.server_of(question.process) {
            Some(server) if self.doomed.contains(&server) => Some(denial()),
            // A server that has ended may have said something that its client must not get.
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
