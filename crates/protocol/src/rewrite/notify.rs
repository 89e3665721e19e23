//! Notifications of mcpmon itself that a list has changed.

use mcpmon_model::{ListKind, RequestId};

use crate::decode::json::quote_into;

/// Builds the notification that a list changed; `stream` is the request by which the client subscribed, since
/// 2026-07-28.
pub fn list_changed(kind: ListKind, stream: Option<&RequestId>) -> String {
    let list = match kind {
        ListKind::Tools => "tools",
        ListKind::Prompts => "prompts",
        ListKind::Resources | ListKind::Templates => "resources",
        ListKind::Skills => "skills",
    };
    let mut notice = format!("{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/{list}/list_changed\"");
    if let Some(id) = stream {
        notice.push_str(",\"params\":{\"_meta\":{\"io.modelcontextprotocol/subscriptionId\":");
        match id {
            RequestId::Number(digits) => notice.push_str(digits),
            RequestId::Text(text) => quote_into(text, &mut notice),
        }
        notice.push_str("}}");
    }
    notice.push('}');
    notice
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case(ListKind::Tools, None => r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#; "on the channel")]
    #[test_case(ListKind::Templates, None => r#"{"jsonrpc":"2.0","method":"notifications/resources/list_changed"}"#; "templates are resources")]
    #[test_case(ListKind::Prompts, Some("a\"b") => r#"{"jsonrpc":"2.0","method":"notifications/prompts/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"a\"b"}}}"#; "on a stream")]
    fn notices(kind: ListKind, stream: Option<&str>) -> String {
        list_changed(kind, stream.map(|id| RequestId::Text(id.into())).as_ref())
    }
}
