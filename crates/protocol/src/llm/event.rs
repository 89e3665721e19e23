//! Server-sent events.

/// Appends an event, with a name where it has one.
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

    #[test_case(None, "{}" => "data: {}\n\n"; "no name")]
    #[test_case(Some("ping"), "{\n}" => "event: ping\ndata: {\ndata: }\n\n"; "two lines")]
    fn events(name: Option<&str>, data: &str) -> String {
        let mut out = Vec::new();
        write_event(name, data, &mut out);
        String::from_utf8(out).unwrap()
    }
}
