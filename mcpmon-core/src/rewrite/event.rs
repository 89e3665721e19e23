//! Server-sent events with other data in them.

/// Appends the event `raw` with `json` in place of its data. Everything else that it says, its name and id, stays.
pub fn event_with_data(raw: &[u8], json: &str, out: &mut Vec<u8>) {
    let (mut rest, mut is_written) = (raw, false);
    while !rest.is_empty() {
        let (line, after) = split_line(rest);
        rest = after;
        if !is_data(line) {
            out.extend_from_slice(line);
        } else if !is_written {
            is_written = true;
            write_data(json, out);
        }
    }
    if !ends_event(raw) {
        end_event(out);
    }
}

/// Appends an event that says nothing but `json`.
pub fn event(json: &str, out: &mut Vec<u8>) {
    write_data(json, out);
    out.push(b'\n');
}

/// Appends what ends an event that a stream ended in.
fn end_event(out: &mut Vec<u8>) {
    if !matches!(out.last(), Some(b'\n' | b'\r')) {
        out.push(b'\n');
    }
    out.push(b'\n');
}

/// A line with what ends it, and what follows.
fn split_line(text: &[u8]) -> (&[u8], &[u8]) {
    let Some(end) = text.iter().position(|byte| matches!(byte, b'\n' | b'\r')) else {
        return (text, &[]);
    };
    let is_pair = text[end..].starts_with(b"\r\n");
    text.split_at(end + 1 + usize::from(is_pair))
}

fn is_data(line: &[u8]) -> bool {
    // A byte order mark before the first event.
    let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
    let name = line.trim_ascii_end();
    name == b"data" || line.starts_with(b"data:")
}

fn write_data(json: &str, out: &mut Vec<u8>) {
    for line in json.split(['\r', '\n']) {
        out.extend_from_slice(b"data: ");
        out.extend_from_slice(line.as_bytes());
        out.push(b'\n');
    }
}

/// Whether the event has its blank line: what a stream ends with has none, and some readers look at it.
fn ends_event(raw: &[u8]) -> bool {
    [&b"\n\n"[..], b"\r\r", b"\r\n\r\n", b"\n\r\n", b"\n\r", b"\r\n\r"]
        .iter()
        .any(|end| raw.ends_with(end))
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case("data: {}\n\n" => "data: [1]\n\n"; "an event")]
    #[test_case("event: a\r\ndata:{}\r\nid: 3\r\n: c\r\n\r\n" => "event: a\r\ndata: [1]\nid: 3\r\n: c\r\n\r\n"; "what else it says")]
    #[test_case("data: {\ndata: }\n\n" => "data: [1]\n\n"; "data in two lines")]
    #[test_case("data: {}\r\r" => "data: [1]\n\r"; "carriage returns")]
    #[test_case("data: {}" => "data: [1]\n\n"; "the end of a stream")]
    #[test_case("data: {}\nid: 3" => "data: [1]\nid: 3\n\n"; "the end of a stream behind another line")]
    fn events(raw: &str) -> String {
        let mut out = Vec::new();
        event_with_data(raw.as_bytes(), "[1]", &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn what_stands_in_several_lines_is_data_in_several_lines() {
        let mut out = Vec::new();
        event_with_data(b"data: 1\n\n", "[\n1]", &mut out);
        assert_eq!(out, b"data: [\ndata: 1]\n\n");
    }
}
