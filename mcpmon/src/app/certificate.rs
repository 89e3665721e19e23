//! The event that a server shows another certificate than the pinned one; several components report it.

use mcpmon_model::{Action, Digest, Event, EventKind, Layer, Severity, Timestamp};

/// The rule that refuses another certificate.
const RULE: &str = "tls_fingerprint";

/// Builds the event: the server at `url` shows the certificate `shown`, and only `pinned` is allowed.
pub(super) fn mismatch(now: Timestamp, url: String, pinned: Digest, shown: Digest) -> Event {
    let kind = EventKind::TlsMismatch {
        url,
        expected: pinned,
        actual: shown,
    };
    let mut event = Event::new(now, Layer::McpHttp, kind);
    event.action = Action::Block;
    event.severity = Severity::Critical;
    event.rule = Some(RULE.to_owned());
    event.reason = Some(format!(
        "the server shows another certificate than the one that is pinned; if it has a new one, set its `tls_fingerprint` to {shown}"
    ));
    event
}
