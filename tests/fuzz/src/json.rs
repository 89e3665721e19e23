//! Strict JSON, compared with serde_json.

use mcpmon_protocol::decode::json::{Defect, LoneSurrogate, Scanner, TextForm, Value, ValueKind, canonical};

/// A depth that serde_json accepts too.
const DEPTH: usize = 127;

/// Checks that serde_json accepts and understands every accepted text in the same way, that it refuses the refused
/// ones, and that rewriting is stable.
pub fn fuzz_json(data: &[u8]) {
    let theirs = serde_json::from_slice::<serde_json::Value>(data);
    let mut scanner = Scanner::new(DEPTH);
    let (form, anew, length) = match scanner.scan(data, LoneSurrogate::Refuse) {
        Ok(scan) => {
            let mut length = 0;
            walk(scan.document.root(), &mut length);
            (scan.form, canonical(scan.document), length)
        }
        Err(malformed) => {
            assert!(malformed.position <= data.len());
            let ours_alone = matches!(malformed.defect, Defect::Range | Defect::Depth);
            assert!(
                ours_alone || theirs.is_err(),
                "{malformed}: {}",
                data.escape_ascii()
            );
            return tolerant(data);
        }
    };
    let theirs = theirs.expect("accepted here");
    assert!(length <= data.len());
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(&anew).expect("JSON"),
        theirs
    );
    assert_eq!(again(&anew), anew);
    if form == TextForm::Exact {
        assert!(!data.contains(&b'\r') && !data.contains(&b'\n'));
    }
}

/// Checks that the rewritten text is strict if half a surrogate pair is allowed.
fn tolerant(data: &[u8]) {
    let mut scanner = Scanner::new(DEPTH);
    if let Ok(scan) = scanner.scan(data, LoneSurrogate::Replace) {
        assert_eq!(scan.form, TextForm::Ambiguous);
        let anew = canonical(scan.document);
        assert_eq!(again(&anew), anew);
    }
}

fn again(text: &str) -> String {
    let mut scanner = Scanner::new(DEPTH);
    let scan = scanner
        .scan(text.as_bytes(), LoneSurrogate::Refuse)
        .expect("what was written anew is strict");
    canonical(scan.document)
}

/// Visits every value, and adds up the lengths of scalars and names.
fn walk(value: Value<'_>, length: &mut usize) {
    match value.kind() {
        ValueKind::Object => {
            for member in value.members() {
                *length += member.name.len();
                walk(member.value, length);
            }
        }
        ValueKind::Array => value.items().for_each(|item| walk(item, length)),
        ValueKind::Null | ValueKind::Boolean | ValueKind::Number | ValueKind::String => {
            *length += value.text().len();
        }
    }
}
