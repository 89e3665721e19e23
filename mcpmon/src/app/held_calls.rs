//! Held calls, which wait for a person's answer: their list, and the answer. The process that has the store open
//! records the answer.

use mcpmon_model::{AnsweredCall, CallAnswer, HeldCall, Timestamp};
use mcpmon_store::{Answering, QueryError, Store, StoreError, StoreReader};

use super::{approval::Decider, host};

/// The reason why a call was not answered.
#[derive(Debug, thiserror::Error)]
pub enum AnswerError {
    /// No call with this id waits.
    #[error(
        "no call waits with the id {0}: it was taken back, its time ran out, or there never was one; see `mcpmon approvals list`"
    )]
    Unknown(String),
    /// More than one id begins so.
    #[error("more than one call has an id that begins with `{0}`; see `mcpmon approvals list`")]
    Ambiguous(String),
    /// Another person has answered before.
    #[error("call {id} was answered already: {answer} by {by}", answer = answer_word(*.answer))]
    Known {
        /// The id.
        id: String,
        /// The answer.
        answer: CallAnswer,
        /// The person.
        by: String,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Returns the words for an answer.
pub const fn answer_word(answer: CallAnswer) -> &'static str {
    match answer {
        CallAnswer::Once => "allowed once",
        CallAnswer::Session => "allowed for the session",
        CallAnswer::Deny => "denied",
    }
}

/// Returns the calls that wait at `now` and whose processes live, oldest first.
///
/// # Errors
/// Returns an error if the store cannot be read.
pub fn waiting(reader: &StoreReader, now: Timestamp) -> Result<Vec<HeldCall>, QueryError> {
    let held = reader.held_calls(now)?.into_iter();
    Ok(held
        .filter(|(process, _)| host::is_alive(*process))
        .map(|(_, call)| call)
        .collect())
}

/// Records a person's answer to the call whose id begins with `digits`, and returns the call. The process that holds
/// the call notices the answer within a second, and records the outcome.
///
/// # Errors
/// Returns an error if no single call waits with this id, or it was answered; nothing was changed then.
pub fn answer(
    store: &mut Store,
    now: Timestamp,
    digits: &str,
    answer: CallAnswer,
    by: &Decider,
) -> Result<HeldCall, AnswerError> {
    match store.answer_call(now, digits, answer, &by.name, by.own)? {
        Answering::Answered(held) => Ok(*held),
        Answering::Unknown | Answering::Late => Err(AnswerError::Unknown(digits.to_owned())),
        Answering::Ambiguous => Err(AnswerError::Ambiguous(digits.to_owned())),
        Answering::Known(AnsweredCall { id, answer, by, .. }) => Err(AnswerError::Known { id, answer, by }),
    }
}
