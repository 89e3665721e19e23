//! Questions of wrappers about processes. A question is answered when all earlier records of the process's user are judged.

use std::collections::VecDeque;

use mcpmon_engine::Observation;
use mcpmon_model::{Denial, ProcessId};
use mcpmon_session::clock;
use tokio::sync::oneshot;

use super::{Core, answer};
use crate::app::host;

/// The nanoseconds by which a record must be later than a question to show that all records before the question are
/// judged. Records get their time before their position in the ring, and the two clocks differ by less than this.
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
    waiting: VecDeque<Asked<Q>>,
}

#[derive(Debug)]
struct Asked<Q> {
    /// Nanoseconds since boot.
    at: u64,
    /// The user of the process; `None` if it has ended.
    uid: Option<u32>,
    question: Q,
}

impl<Q> Default for Questions<Q> {
    fn default() -> Self {
        Self {
            waiting: VecDeque::new(),
        }
    }
}

impl<Q> Questions<Q> {
    /// Adds a question about a process of a user that is asked `at`, in nanoseconds since boot.
    pub(super) fn ask(&mut self, at: u64, uid: Option<u32>, question: Q) {
        self.waiting.push_back(Asked { at, uid, question });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Removes the questions that can be answered, because all earlier records of the user are judged. `judged_until`
    /// returns the time up to which they are.
    pub(super) fn take_due(&mut self, judged_until: impl Fn(Option<u32>) -> u64) -> Vec<Q> {
        let is_due = |asked: &Asked<Q>| judged_until(asked.uid) > asked.at.saturating_add(MARGIN);
        let (due, waiting) = std::mem::take(&mut self.waiting)
            .into_iter()
            .partition::<VecDeque<_>, _>(is_due);
        self.waiting = waiting;
        due.into_iter().map(|asked| asked.question).collect()
    }
}

impl WrapperQuestion {
    const fn process(&self) -> ProcessId {
        match self {
            Self::Wrapped(process) => *process,
            Self::Fate(question) => question.process,
        }
    }
}

impl Core {
    /// Adds a question of a wrapper.
    pub(super) fn ask(&mut self, question: WrapperQuestion) {
        let uid = host::uid(question.process().pid);
        self.questions.ask(host::since_boot(), uid, question);
    }

    /// Answers the questions whose records are judged.
    pub(super) fn answer_questions(&mut self) {
        if self.questions.is_empty() {
            return;
        }
        let waiting = &self.waiting;
        for question in self.questions.take_due(|uid| waiting.judged_until(uid)) {
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
    fn a_question_is_answered_once_the_records_before_it_are_judged() {
        let mut questions = Questions::default();
        questions.ask(10 * MARGIN, Some(7), "first");
        questions.ask(20 * MARGIN, Some(7), "second");
        let mut at = |judged| questions.take_due(|_| judged);
        assert_eq!(at(10 * MARGIN), [""; 0], "it may have been there");
        assert_eq!(at(11 * MARGIN + 1), ["first"], "whatever comes after it");
        assert_eq!(at(11 * MARGIN), [""; 0], "clocks of processors differ");
        assert_eq!(at(30 * MARGIN), ["second"]);
    }

    #[test]
    fn a_question_does_not_wait_for_records_of_other_users() {
        let mut questions = Questions::default();
        questions.ask(10, Some(7), "of 7");
        questions.ask(10, Some(8), "of 8");
        questions.ask(10, None, "of nobody");
        let judged_until = |uid| if uid == Some(8) { u64::MAX } else { 0 };
        assert_eq!(questions.take_due(judged_until), ["of 8"]);
        assert_eq!(questions.take_due(|_| u64::MAX), ["of 7", "of nobody"]);
        assert!(questions.is_empty());
    }
}
