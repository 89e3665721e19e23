//! The most frequent kind of event.

use anyhow::Result;
use mcpmon_model::{CallOutcome, Event, EventKind, Layer, RequestId, ServerId, Timestamp};

/// The answer to call `number`.
///
/// # Errors
/// None: the name of the server is one.
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
