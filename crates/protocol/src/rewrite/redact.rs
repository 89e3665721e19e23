//! Redaction: client messages and server answers with parts replaced.

use mcpmon_model::{Content, FromClient, FromServer, Redaction};

use super::edit::MessageEdit;
use crate::decode::{
    json::Value,
    jsonrpc::{Envelope, Payload},
};

/// Returns a message with these parts replaced, ascending; every other byte stays. The parts are in the arguments of a
/// call or a prompt, in the parameters of another request, in the body of a reply, or in the result or error of a
/// server's answer. Returns `None` if one of them is not, or is not after the part before it.
pub fn with_redactions(
    envelope: &Envelope<'_>,
    said: &Content<'_>,
    redactions: &[Redaction],
) -> Option<String> {
    let arguments = inspected(envelope, said)?;
    let (from, length) = (arguments.range().start, arguments.text().len());
    let mut edit = MessageEdit::of(envelope.whole);
    let mut done = 0;
    for Redaction { place, text } in redactions {
        let fits = done <= place.start
            && place.start <= place.end
            && place.end <= length
            && arguments.text().is_char_boundary(place.start)
            && arguments.text().is_char_boundary(place.end);
        if !fits {
            return None;
        }
        edit.replace(from + place.start..from + place.end, text);
        done = place.end;
    }
    Some(edit.finish())
}

/// Returns the value that was judged.
fn inspected<'a>(envelope: &'a Envelope<'a>, said: &Content<'_>) -> Option<Value<'a>> {
    use Content::{Client, Server};
    match (said, &envelope.payload) {
        (Client(FromClient::Call(_) | FromClient::Prompt { .. }), Payload::Method { params, .. }) => {
            // Of two members with the same name the last one counts, as when the call was judged.
            let members = params.as_ref()?.members();
            Some(members.filter(|member| member.name == "arguments").last()?.value)
        }
        (Client(FromClient::Request { .. }), Payload::Method { params, .. }) => *params,
        (
            Client(FromClient::Reply { .. }) | Server(FromServer::Answer(_)),
            Payload::Result(part) | Payload::Error(part),
        ) => Some(part.value),
        _ => None,
    }
}
