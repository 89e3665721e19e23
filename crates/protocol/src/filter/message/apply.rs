//! Carries out a verdict on a message.

use mcpmon_model::{Content, Denial, FromServer, Message, Verdict};

use crate::{
    decode::{jsonrpc::Envelope, mcp::ResultShape},
    rewrite::{StoppedMessage, stop, with_redactions, without_instructions, without_items},
};

/// The form in which a message passes.
#[derive(Debug)]
pub(super) enum AppliedVerdict {
    /// The message is forwarded unchanged.
    AsIs,
    /// The message is forwarded without a part of it, or with a part replaced.
    Less(String),
    /// The message is stopped.
    Stopped(StoppedMessage),
}

/// Carries out a verdict. One that does not fit the message stops it.
pub(super) fn apply(
    envelope: &Envelope<'_>,
    message: &Message<'_>,
    shape: ResultShape,
    verdict: &Verdict,
) -> AppliedVerdict {
    let less = match (verdict, &message.content) {
        (Verdict::Allow, _) => return AppliedVerdict::AsIs,
        (Verdict::Hide(hidden), _) if hidden.is_empty() => return AppliedVerdict::AsIs,
        (Verdict::Hide(hidden), Content::Server(FromServer::Listing(listing))) => {
            without_items(envelope, listing.kind, hidden, message.era)
        }
        (Verdict::StripInstructions, Content::Server(FromServer::Introduction(introduction)))
            if introduction.instructions.is_some() =>
        {
            without_instructions(envelope)
        }
        (Verdict::Redact(redactions), said) => with_redactions(envelope, said, redactions),
        (Verdict::Block(denial), _) => {
            return AppliedVerdict::Stopped(stop(envelope, message, shape, denial));
        }
        // A call is held before this, and nothing else can be.
        (Verdict::Hide(_) | Verdict::StripInstructions | Verdict::Ask(_), _) => None,
    };
    less.map_or_else(
        || AppliedVerdict::Stopped(stop(envelope, message, shape, &unfit())),
        AppliedVerdict::Less,
    )
}

fn unfit() -> Denial {
    Denial {
        rule: "internal".to_owned(),
        reason: "the decision does not fit the message".to_owned(),
        remedy: None,
        event: None,
    }
}
