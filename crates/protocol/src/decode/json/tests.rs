//! Strict JSON against tables and against serde_json.

use proptest::prelude::*;
use test_case::test_case;

use super::*;

fn scan(line: &[u8]) -> Result<(TextForm, String), Malformed> {
    scan_with(line, LoneSurrogate::Refuse)
}

fn scan_with(line: &[u8], lone: LoneSurrogate) -> Result<(TextForm, String), Malformed> {
    let mut scanner = Scanner::new(127);
    let scan = scanner.scan(line, lone)?;
    Ok((scan.form, canonical(scan.document)))
}

#[test_case(r#"{"a":[1,-0.5e+3,true,false,null,"x\n\u00e9\ud83d\ude00"],"b":{}}"#; "every kind of value")]
#[test_case(" { \"a\" :\t[ ] } "; "spaces and tabs")]
#[test_case("0"; "a scalar")]
#[test_case(r#"{"a":{"a":{"a":1}},"b":{"a":1}}"#; "one name in different objects")]
#[test_case("\"\u{e9}\u{4e2d}\u{1f600}\u{2027}\u{202a}\u{84}\u{86}\""; "beyond ASCII, next to what ends lines")]
#[test_case(r#"["a\u0000"]"#; "a NUL that is no name's")]
#[test_case("1e307"; "large")]
#[test_case("1e-999"; "too small to differ from zero")]
fn exact(line: &str) {
    assert_eq!(scan(line.as_bytes()).map(|(form, _)| form), Ok(TextForm::Exact));
}

#[test_case("{\r\"a\":1}", r#"{"a":1}"#; "a carriage return as white space")]
#[test_case("{\"a\":1}\r", r#"{"a":1}"#; "a carriage return at the end")]
#[test_case("[1,\n2]", "[1,2]"; "more than one line")]
#[test_case(r#"{"a":1,"b":2,"a":[3]}"#, r#"{"b":2,"a":[3]}"#; "a name twice")]
#[test_case(r#"{"x":{"a":{"b":1,"b":{"c":1,"c":2}},"a":0},"y":[{"d":1,"d":2}]}"#, r#"{"x":{"a":0},"y":[{"d":2}]}"#; "names twice in nested objects")]
#[test_case(r#"{"n\u0061me":1}"#, r#"{"name":1}"#; "a name with an escape")]
#[test_case(r#"{"name":1,"n\u0061me":2}"#, r#"{"name":2}"#; "a name twice, once with an escape")]
#[test_case(r#"{"a\/b":1}"#, r#"{"a/b":1}"#; "a name with an escaped slash")]
#[test_case(r#"{"a\"\n":1,"a\u0022\u000a":2}"#, r#"{"a\"\n":2}"#; "a name that needs escapes")]
#[test_case("\"a\u{2028}b\u{2029}c\u{85}\"", r#""a\u2028b\u2029c\u0085""#; "what ends lines for some")]
#[test_case("{\"\u{2028}\":\"\\u0061\"}", r#"{"\u2028":"\u0061"}"#; "what ends lines in a name")]
#[test_case(r#"{"":1,"":2}"#, r#"{"":2}"#; "the empty name twice")]
#[test_case(r#"{"a":1,"b":0,"c":0,"d":0,"e":0,"f":0,"g":0,"h":0,"i":0,"j":0,"k":0,"l":0,"m":0,"n":0,"o":0,"p":0,"a":2}"#, r#"{"b":0,"c":0,"d":0,"e":0,"f":0,"g":0,"h":0,"i":0,"j":0,"k":0,"l":0,"m":0,"n":0,"o":0,"p":0,"a":2}"#; "a name twice among many")]
fn ambiguous(line: &str, rewritten: &str) {
    assert_eq!(
        scan(line.as_bytes()),
        Ok((TextForm::Ambiguous, rewritten.to_owned()))
    );
}

#[test_case("{\"a\":\"\\n\\u0061\"}" => Doubt::None; "escapes in a text")]
#[test_case("{\n}" => Doubt::Space; "two lines")]
#[test_case("{\r\"a\":\"\u{2028}\"}" => Doubt::LineEnd; "what ends lines for some, and a line")]
#[test_case("[\"\\ud800\",\"\u{85}\"]" => Doubt::Surrogate; "half a pair, and what ends lines for some")]
#[test_case("[\n\"\\ud800\",{\"a\":1,\"a\":2}]" => Doubt::Name; "a name twice, and everything else")]
#[test_case("{\"\\u0061\":1}" => Doubt::Name; "a name with an escape, and nothing else")]
fn doubts(text: &str) -> Doubt {
    let mut scanner = Scanner::new(127);
    scanner
        .scan(text.as_bytes(), LoneSurrogate::Replace)
        .unwrap()
        .doubt
}

#[test_case(b"\"\xff\"", Defect::Utf8, 1; "no UTF-8")]
#[test_case(b"\"\xed\xa0\x80\"", Defect::Utf8, 1; "a surrogate in UTF-8")]
#[test_case(b"\xef\xbb\xbf{}", Defect::Unexpected(0xef), 0; "a byte order mark")]
#[test_case(br#""\ud800""#, Defect::Surrogate, 1; "a high surrogate alone")]
#[test_case(br#""a\udc00""#, Defect::Surrogate, 2; "a low surrogate alone")]
#[test_case(br#""\ud800\ud800\udc00""#, Defect::Surrogate, 1; "a high surrogate before a pair")]
#[test_case(br#""\ud800\n""#, Defect::Surrogate, 1; "a high surrogate before an escape")]
#[test_case(br#""\ud80""#, Defect::Escape, 1; "a short escape")]
#[test_case(br#""\x41""#, Defect::Escape, 1; "an unknown escape")]
#[test_case(b"\"\t\"", Defect::Control(b'\t'), 1; "a tab in a string")]
#[test_case(b"\"\r\"", Defect::Control(b'\r'), 1; "a carriage return in a string")]
#[test_case(b"\"aaaaaaaaaaaaaaaaaaaa\0\"", Defect::Control(0), 21; "a null in a long string")]
#[test_case(br#"{"a":1,"a\u0000":2}"#, Defect::NulInName, 9; "a NUL behind a name")]
#[test_case(br#"[{"a":{"\u0000":{}}}]"#, Defect::NulInName, 8; "a NUL that is a name")]
#[test_case(br#"{"\n\u0000\u0000":""}"#, Defect::NulInName, 4; "more than one")]
#[test_case(b"NaN", Defect::Unexpected(b'N'), 0; "not a number")]
#[test_case(b"[-Infinity]", Defect::Number, 2; "infinity")]
#[test_case(b"1e400", Defect::Range, 0; "beyond a double")]
#[test_case(b"[-1e308]", Defect::Range, 1; "at the limit")]
#[test_case(b"01", Defect::Number, 1; "a leading zero")]
#[test_case(b"+1", Defect::Unexpected(b'+'), 0; "a plus")]
#[test_case(b".5", Defect::Unexpected(b'.'), 0; "no digit before the point")]
#[test_case(b"5.", Defect::Number, 2; "no digit after the point")]
#[test_case(b"5e", Defect::Number, 2; "no exponent")]
#[test_case(b"-", Defect::Number, 1; "a sign alone")]
#[test_case(b"{\"x\":1}\r{\"y\":2}", Defect::Trailing, 8; "two values, a carriage return between")]
#[test_case(b"{}{}", Defect::Trailing, 2; "two values")]
#[test_case(b"{\"a\":1,}", Defect::Unexpected(b'}'), 7; "a comma too many in an object")]
#[test_case(b"[1,]", Defect::Unexpected(b']'), 3; "a comma too many in an array")]
#[test_case(b"{a:1}", Defect::Unexpected(b'a'), 1; "a name without quotes")]
#[test_case(b"{'a':1}", Defect::Unexpected(b'\''), 1; "single quotes")]
#[test_case(b"[1}", Defect::Unexpected(b'}'), 2; "the wrong bracket")]
#[test_case(b"{\"a\" 1}", Defect::Unexpected(b'1'), 5; "no colon")]
#[test_case(b"[1 2]", Defect::Unexpected(b'2'), 3; "no comma")]
#[test_case(b"[1] // x", Defect::Trailing, 4; "a comment")]
#[test_case(b"", Defect::End, 0; "nothing")]
#[test_case(b"{\"a\":\"b", Defect::End, 7; "an open string")]
#[test_case(b"[[", Defect::End, 2; "open arrays")]
#[test_case(b"tru", Defect::End, 3; "half a literal")]
#[test_case(b"trux", Defect::Unexpected(b'x'), 3; "another literal")]
#[test_case(b"\x0b{}", Defect::Unexpected(0x0b), 0; "a vertical tab")]
#[test_case(b"\xc2\xa0{}", Defect::Unexpected(0xc2), 0; "another space")]
fn malformed(line: &[u8], defect: Defect, position: usize) {
    assert_eq!(scan(line), Err(Malformed { position, defect }));
    if defect != Defect::Surrogate {
        assert_eq!(
            scan_with(line, LoneSurrogate::Replace),
            Err(Malformed { position, defect })
        );
    }
}

#[test]
fn lone_surrogates_are_replaced_where_that_is_asked_for() {
    let line = br#"{"\udead":"a\ud83d","b":"\ud83d\ude00"}"#;
    let replaced = "{\"\u{fffd}\":\"a\u{fffd}\",\"b\":\"\\ud83d\\ude00\"}".to_owned();
    assert_eq!(
        scan_with(line, LoneSurrogate::Replace),
        Ok((TextForm::Ambiguous, replaced))
    );
}

#[test_case(1)]
#[test_case(64)]
#[test_case(MAX_DEPTH)]
fn depth_is_capped(depth: usize) {
    let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    let mut scanner = Scanner::new(depth);
    let allowed = nested(depth);
    let allowed = scanner.scan(allowed.as_bytes(), LoneSurrogate::Refuse);
    assert_eq!(allowed.map(|scan| scan.form), Ok(TextForm::Exact));
    let deeper = nested(depth + 1);
    let refused = scanner.scan(deeper.as_bytes(), LoneSurrogate::Refuse);
    assert_eq!(
        refused.map(|scan| scan.form).map_err(|m| m.defect),
        Err(Defect::Depth)
    );
}

#[test]
fn no_configuration_goes_beyond_the_deepest() {
    let nested = format!("{}{}", "[".repeat(MAX_DEPTH + 1), "]".repeat(MAX_DEPTH + 1));
    let mut scanner = Scanner::new(usize::MAX);
    let refused = scanner.scan(nested.as_bytes(), LoneSurrogate::Refuse);
    assert_eq!(
        refused.map(|scan| scan.form).map_err(|m| m.defect),
        Err(Defect::Depth)
    );
}

#[test_case("name", "name", false; "the same")]
#[test_case("Name", "name", true; "a capital")]
#[test_case("parameters", "params", false; "longer")]
#[test_case("task_id", "taskId", true; "snake case")]
#[test_case("task-id", "taskId", true; "with a dash")]
#[test_case("meta", "_meta", true; "without an underscore")]
#[test_case("_meta", "_meta", false; "the same with an underscore")]
#[test_case("\u{131}d", "id", true; "a dotless i")]
#[test_case("\u{130}D", "id", true; "a dotted I")]
#[test_case("me\u{df}ages", "messages", true; "a sharp s")]
#[test_case("\u{43c}ethod", "method", false; "a letter of another alphabet")]
#[test_case("param\u{17f}", "params", true; "a long s")]
#[test_case("to\u{212a}en", "token", true; "a Kelvin sign")]
fn spelled_alike(key: &str, known: &str, expected: bool) {
    assert_eq!(is_spelled_like(key, known), expected);
}

/// Any JSON text: values of every kind, long and short, with space in odd places.
fn texts() -> impl Strategy<Value = String> {
    let name = prop_oneof![
        Just("\"a\"".to_owned()),
        Just("\"\\u0061\"".to_owned()),
        Just("\"_meta\"".to_owned()),
        "\"[a-c]{0,2}\"",
        "[a-z\u{2028}\"\\\\]{0,12}".prop_map(|text| serde_json::to_string(&text).expect("text is JSON")),
    ];
    let string = prop_oneof![
        any::<String>().prop_map(|text| serde_json::to_string(&text).expect("text is JSON")),
        "[ -~\u{80}-\u{ff}\u{2020}-\u{2030}]{0,300}"
            .prop_map(|text| serde_json::to_string(&text).expect("text is JSON")),
        Just(r#""\u0041\ud83d\ude00\/\b""#.to_owned()),
    ];
    let scalar = prop_oneof![
        string,
        any::<i64>().prop_map(|number| number.to_string()),
        any::<f64>().prop_map(|number| if number.is_finite() && number.abs() < 1e308 {
            format!("{number:e}")
        } else {
            "1E+2".to_owned()
        }),
        "-?[1-9][0-9]{0,40}",
        Just("true".to_owned()),
        Just("false".to_owned()),
        Just("null".to_owned()),
    ];
    let space = "[ \t\r\n]{0,2}";
    scalar.prop_recursive(6, 60, 6, move |inner| {
        let members = proptest::collection::vec((space, name.clone(), space, inner.clone(), space), 0..6);
        let items = proptest::collection::vec((space, inner, space), 0..6);
        prop_oneof![
            members.prop_map(|members| {
                let member = |(a, name, b, value, c)| format!("{a}{name}{b}:{value}{c}");
                let members: Vec<String> = members.into_iter().map(member).collect();
                format!("{{{}}}", members.join(","))
            }),
            items.prop_map(|items| {
                let item = |(a, value, b)| format!("{a}{value}{b}");
                let items: Vec<String> = items.into_iter().map(item).collect();
                format!("[{}]", items.join(","))
            }),
        ]
    })
}

/// A text with some of its bytes changed.
fn damaged() -> impl Strategy<Value = Vec<u8>> {
    let change = (
        any::<prop::sample::Index>(),
        prop::sample::select(b"\"\\{}[]:,0 1eE+-.\r\x00\xffuNn".to_vec()),
    );
    (texts(), proptest::collection::vec(change, 0..3)).prop_map(|(text, changes)| {
        let mut bytes = text.into_bytes();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes
    })
}

/// Walks over everything, and puts it together again without space.
fn rebuilt(value: Value<'_>, out: &mut String) {
    match value.kind() {
        ValueKind::Object => {
            out.push('{');
            for (number, member) in value.members().enumerate() {
                out.push_str(if number == 0 { "\"" } else { ",\"" });
                out.push_str(member.name);
                out.push_str("\":");
                rebuilt(member.value, out);
            }
            out.push('}');
        }
        ValueKind::Array => {
            out.push('[');
            for (number, item) in value.items().enumerate() {
                out.push_str(if number == 0 { "" } else { "," });
                rebuilt(item, out);
            }
            out.push(']');
        }
        ValueKind::Null | ValueKind::Boolean | ValueKind::Number | ValueKind::String => {
            out.push_str(value.text());
        }
    }
}

proptest! {
    #[test]
    fn what_is_accepted_serde_json_accepts_and_understands_alike(line in damaged()) {
        let theirs = serde_json::from_slice::<serde_json::Value>(&line);
        match scan(&line) {
            Ok((_, canonical)) => {
                let canonical: serde_json::Value = serde_json::from_str(&canonical).expect("canonical text is JSON");
                prop_assert_eq!(theirs.expect("accepted here"), canonical);
            }
            // What is refused here alone: numbers near the end of doubles.
            Err(Malformed { defect: Defect::Range, .. }) => {}
            Err(refused) => {
                prop_assert!(theirs.is_err(), "{} of {:?}", refused, String::from_utf8_lossy(&line));
                prop_assert!(refused.position <= line.len());
            }
        }
    }

    #[test]
    fn canonical_text_is_its_own_canonical_text(text in texts()) {
        let (_, once) = scan(text.as_bytes()).expect("texts are JSON");
        let (_, twice) = scan(once.as_bytes()).expect("canonical text is JSON");
        prop_assert_eq!(&once, &twice);
        let ends_a_line = once.contains(['\r', '\n', '\u{85}', '\u{2028}', '\u{2029}']);
        prop_assert!(!ends_a_line);
    }

    #[test]
    fn what_is_exact_means_the_same_without_its_space(text in texts()) {
        let mut scanner = Scanner::new(127);
        let scan = scanner.scan(text.as_bytes(), LoneSurrogate::Refuse).expect("texts are JSON");
        let mut walked = String::new();
        rebuilt(scan.document.root(), &mut walked);
        if scan.form == TextForm::Exact {
            prop_assert_eq!(canonical(scan.document), walked);
        }
    }

    #[test]
    fn a_string_says_what_serde_json_says(text in any::<String>()) {
        let literal = serde_json::to_string(&text).expect("text is JSON");
        let mut ours = String::new();
        quote_into(&text, &mut ours);
        for literal in [literal, ours] {
            let mut scanner = Scanner::new(1);
            let scan = scanner.scan(literal.as_bytes(), LoneSurrogate::Refuse).expect("a string is JSON");
            let said = scan.document.root().string();
            prop_assert_eq!(said.as_deref(), Some(text.as_str()));
        }
    }
}
