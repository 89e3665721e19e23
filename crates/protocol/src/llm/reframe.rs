//! Writing of pieces of a stream: an event, and a piece with other data.

use super::Piece;
use crate::rewrite::event_with_data;

/// Appends `piece` with `json` in place of its data. The other parts of an event, its name and id, stay.
pub(super) fn reframe(piece: Piece<'_>, json: &str, out: &mut Vec<u8>) {
    let Some(data) = piece.data else {
        return out.extend_from_slice(piece.raw);
    };
    match piece.raw.strip_prefix(data) {
        Some(end) => {
            // The piece is a line, so its data contains no line end.
            out.extend_from_slice(json.as_bytes());
            out.extend_from_slice(end);
        }
        None => event_with_data(piece.raw, json, out),
    }
}

/// Appends an event, with its name if it has one.
pub(super) fn write_event(name: Option<&str>, data: &str, out: &mut Vec<u8>) {
    if let Some(name) = name {
        out.extend_from_slice(b"event: ");
        out.extend_from_slice(name.as_bytes());
        out.push(b'\n');
    }
    for line in data.split('\n') {
        out.extend_from_slice(b"data: ");
        out.extend_from_slice(line.as_bytes());
        out.push(b'\n');
    }
    out.push(b'\n');
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case("event: a\ndata: {}\n\n", "{}" => "event: a\ndata: [1]\n\n"; "an event")]
    #[test_case("{}\r\n", "{}" => "[1]\r\n"; "a line")]
    #[test_case("{}", "{}" => "[1]"; "the last line")]
    fn pieces(raw: &str, data: &str) -> String {
        let mut out = Vec::new();
        let piece = Piece {
            raw: raw.as_bytes(),
            name: None,
            data: Some(data.as_bytes()),
        };
        reframe(piece, "[1]", &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test_case(None, "{}" => "data: {}\n\n"; "no name")]
    #[test_case(Some("ping"), "{\n}" => "event: ping\ndata: {\ndata: }\n\n"; "two lines")]
    fn events(name: Option<&str>, data: &str) -> String {
        let mut out = Vec::new();
        write_event(name, data, &mut out);
        String::from_utf8(out).unwrap()
    }
}
