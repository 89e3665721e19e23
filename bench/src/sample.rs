//! A sample of the most frequent kind of event.

use anyhow::Result;
use mcpmon_model::{CallOutcome, Event, EventKind, Layer, RequestId, ServerId, Timestamp};

/// Returns the event of the answer to call `number`.
///
/// # Errors
/// Returns no error in practice, because the name of the server is valid.
pub fn event(number: u32, at: Timestamp) -> Result<Event> {
    let kind = EventKind::ToolReturned {
        tool_name: "report".to_owned(),
        jsonrpc_id: RequestId::Number(number.to_string().into()),
        duration_us: 10,
        outcome: CallOutcome::Ok,
        bytes: 300,
        client_uid: None,
    };
    let mut event = Event::new(at, Layer::Stdio, kind);
    event.server_id = Some(ServerId::new("bench")?);
    Ok(event)
}
