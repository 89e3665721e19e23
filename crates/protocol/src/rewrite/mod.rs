//! Verdicts in bytes: answers that the protocol allows, and lists without the hidden items.
//!
//! Only what a verdict changes is rewritten; every other byte of a message stays, above all ids and numbers.

pub(crate) mod edit;
mod event;
mod leave_out;
mod notify;
pub mod oauth;
mod redact;
mod refuse;
mod splice;
pub(crate) mod stop;

pub use event::{event, event_with_data, silent_event};
pub use leave_out::{without_instructions, without_items};
pub use notify::list_changed;
pub use redact::with_redactions;
pub use refuse::{RefusalReason, mismatch, missing_answer, refusal};
pub use splice::Splices;
pub use stop::{StoppedMessage, denied, stop};
