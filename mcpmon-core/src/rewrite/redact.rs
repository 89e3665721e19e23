//! Calls that go on with parts of their arguments replaced.

use super::edit::Edit;
use crate::{
    decode::jsonrpc::{Envelope, Payload},
    model::Redaction,
};

/// A call with these parts of its arguments replaced, ascending; every other byte stays. `None` where a part does
/// not lie in the arguments, or follows none of the parts before it.
#[must_use]
pub fn with_redactions(envelope: &Envelope<'_>, redactions: &[Redaction]) -> Option<String> {
    let Payload::Method { params, .. } = &envelope.payload else {
        return None;
    };
    // Of two members with one name the last one counts, as it did for whoever judged the call.
    let members = params.as_ref()?.members();
    let arguments = members.filter(|member| member.name == "arguments").last()?.value;
    let (from, length) = (arguments.range().start, arguments.text().len());
    let mut edit = Edit::of(envelope.whole);
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
