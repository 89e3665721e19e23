//! The event about a server that shows another certificate than the pinned one, whichever component saw it.

use mcpmon_model::{Action, Digest, Event, EventKind, Layer, Severity, Timestamp};

/// The rule by which another certificate is refused.
const RULE: &str = "tls_fingerprint";

/// The server at `url` shows `shown` where `pinned` is what it may show.
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
