//! Server-sent events with other data in them.

use crate::decode::sse::{SseField, is_clean};

/// Appends the event `raw` with `json` in place of its data. Its name, its id and its retry time are written again;
/// fields that readers could understand differently are left out.
pub fn event_with_data(raw: &[u8], json: &str, out: &mut Vec<u8>) {
    anew(raw, Some(json), out);
}

/// Appends the known fields of the event `raw`, which has no data or empty data; a comment, if it has none.
pub fn silent_event(raw: &[u8], out: &mut Vec<u8>) {
    let mut lines = raw.split(|byte| matches!(byte, b'\n' | b'\r'));
    let has_data = lines.any(|line| SseField::of(line) == Some(SseField::Data));
    anew(raw, has_data.then_some(""), out);
}

fn anew(raw: &[u8], mut data: Option<&str>, out: &mut Vec<u8>) {
    let start = out.len();
    for line in raw.split(|byte| matches!(byte, b'\n' | b'\r')) {
        match SseField::of(line) {
            Some(SseField::Data) => {
                if let Some(data) = data.take() {
                    write_data(data, out);
                }
            }
            Some(SseField::Other) if is_clean(line) => {
                out.extend_from_slice(line);
                out.push(b'\n');
            }
            Some(SseField::Other) | None => {}
        }
    }
    if let Some(data) = data {
        write_data(data, out);
    }
    if out.len() == start {
        out.extend_from_slice(b":\n");
    }
    out.push(b'\n');
}

/// Appends an event that has only `json` as its data.
pub fn event(json: &str, out: &mut Vec<u8>) {
    write_data(json, out);
    out.push(b'\n');
}

fn write_data(json: &str, out: &mut Vec<u8>) {
    for line in json.split(['\r', '\n']) {
        out.extend_from_slice(b"data: ");
        out.extend_from_slice(line.as_bytes());
        out.push(b'\n');
    }
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case("data: {}\n\n" => "data: [1]\n\n"; "an event")]
    #[test_case("event: a\r\ndata:{}\r\nid: 3\r\nretry: 5\r\n: c\r\n\r\n" => "event: a\ndata: [1]\nid: 3\nretry: 5\n\n"; "what else it says")]
    #[test_case("\u{ef}\u{bb}\u{bf}data: 2\ndatum: 3\ndata: {}\r{}\n\n" => "data: [1]\n\n"; "lines that are not understood")]
    #[test_case("id: 3\u{2028}data: 2\nevent: a\ndata: {}\n\n" => "event: a\ndata: [1]\n\n"; "a hidden line")]
    #[test_case("data: {\ndata: }\n\n" => "data: [1]\n\n"; "data in two lines")]
    #[test_case("data: {}\r\r" => "data: [1]\n\n"; "carriage returns")]
    #[test_case("data: {}" => "data: [1]\n\n"; "the end of a stream")]
    #[test_case("data: {}\nid: 3" => "data: [1]\nid: 3\n\n"; "the end of a stream behind another line")]
    fn events(raw: &str) -> String {
        let mut out = Vec::new();
        event_with_data(raw.as_bytes(), "[1]", &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test_case("id: 1\r\rx" => "id: 1\n\n"; "an id")]
    #[test_case("id: 1\ndata:\r{}\n\n" => "id: 1\ndata: \n\n"; "a priming event")]
    #[test_case("retry: 1\ndatum: {}\n\n" => "retry: 1\n\n"; "a time to wait")]
    #[test_case("\u{ef}\u{bb}\u{bf}data: {}\n\n" => ":\n\n"; "nothing that is understood")]
    #[test_case(": c\r\n\n" => ":\n\n"; "a comment")]
    fn silent_events(raw: &str) -> String {
        let mut out = Vec::new();
        silent_event(raw.as_bytes(), &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn what_stands_in_several_lines_is_data_in_several_lines() {
        let mut out = Vec::new();
        event_with_data(b"data: 1\n\n", "[\n1]", &mut out);
        assert_eq!(out, b"data: [\ndata: 1]\n\n");
    }
}
