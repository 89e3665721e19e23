//! Strict JSON of bodies and events, and members whose names readers spell in several ways.

use std::borrow::Cow;

use super::LlmFault;
use crate::decode::{
    json::{
        Document, Doubt, LoneSurrogate, MAX_DEPTH, Malformed, Member, Scanner, TextForm, Value, ValueKind,
        canonical, is_spelled_like,
    },
    sse::has_line_end,
};

/// Reads a body or an event as strict JSON. If readers could differ about it, the text of [`canonical`] is read, and
/// has to be forwarded in its place ([`TextForm::Ambiguous`]).
pub(super) fn read<T>(text: &[u8], look: impl FnOnce(Document<'_>, TextForm) -> T) -> Result<T, Malformed> {
    read_within(Doubt::LineEnd, text, look)
}

/// Reads a line as strict JSON, as [`read`] does; readers can differ about the end of a line too.
pub(super) fn read_line<T>(
    text: &[u8],
    look: impl FnOnce(Document<'_>, TextForm) -> T,
) -> Result<T, Malformed> {
    read_within(Doubt::None, text, look)
}

fn read_within<T>(
    borne: Doubt,
    text: &[u8],
    look: impl FnOnce(Document<'_>, TextForm) -> T,
) -> Result<T, Malformed> {
    let mut scanner = Scanner::new(MAX_DEPTH);
    let scan = scanner.scan(text, LoneSurrogate::Replace)?;
    if scan.doubt <= borne {
        return Ok(look(scan.document, TextForm::Exact));
    }
    let anew = canonical(scan.document);
    if says_the_same(text, anew.as_bytes()) {
        return Ok(look(scan.document, TextForm::Exact));
    }
    let mut scanner = Scanner::new(MAX_DEPTH);
    let scan = scanner.scan(anew.as_bytes(), LoneSurrogate::Refuse)?;
    Ok(look(scan.document, TextForm::Ambiguous))
}

/// Returns whether a text equals `canonical` except for spaces. A name that cannot be written without an escape is not
/// ambiguous for that reason alone.
fn says_the_same(text: &[u8], canonical: &[u8]) -> bool {
    let (mut in_string, mut escaped) = (false, false);
    let counts = |byte: &u8| {
        if !in_string {
            in_string = *byte == b'"';
            return !matches!(byte, b' ' | b'\t');
        }
        in_string = *byte != b'"' || escaped;
        escaped = *byte == b'\\' && !escaped;
        true
    };
    text.iter().copied().filter(counts).eq(canonical.iter().copied())
}

/// Returns whether data is empty, or the word with which some gateways end every stream: it is not JSON, and no reader
/// takes it for JSON.
pub(super) fn is_silent(data: &[u8]) -> bool {
    matches!(data.trim_ascii(), b"" | b"[DONE]")
}

/// Returns whether an event without a call may be forwarded unchanged although it has half of a surrogate pair: the
/// other half may be in the next event, and a reader of both combines them.
pub(super) fn is_half(doubt: Doubt, raw: &[u8]) -> bool {
    doubt == Doubt::Surrogate && !has_line_end(raw)
}

/// Returns whether some reader takes a member called `name` for `known`: in snake case or camel case, in any case.
pub(super) fn stands_for(name: &str, known: &str) -> bool {
    name == known || is_spelled_like(name, known)
}

/// Returns the member `known`, in any spelling, unless it is `null`.
///
/// Returns an error if there are two, because readers take one or the other.
pub(super) fn member<'t>(object: Value<'t>, known: &'static str) -> Result<Option<Member<'t>>, LlmFault> {
    let [found] = find(object, [known]);
    found.member()
}

/// Returns the value of the member `known`, in any spelling, unless it is `null`.
pub(super) fn value<'t>(object: Value<'t>, known: &'static str) -> Result<Option<Value<'t>>, LlmFault> {
    Ok(member(object, known)?.map(|member| member.value))
}

/// Returns the members with these names, in any spelling, found in one pass.
pub(super) fn find<'t, const N: usize>(object: Value<'t>, known: [&'static str; N]) -> [FoundMember<'t>; N] {
    let mut found = known.map(FoundMember::none);
    for member in object.members() {
        for found in &mut found {
            found.see(member);
        }
    }
    found
}

/// The member found for a name in an object. Two members for one name are a fault only if the caller asks for the
/// value.
#[derive(Clone, Copy, Debug)]
pub(super) struct FoundMember<'t> {
    known: &'static str,
    member: Option<Member<'t>>,
    is_twice: bool,
}

impl<'t> FoundMember<'t> {
    const fn none(known: &'static str) -> Self {
        Self {
            known,
            member: None,
            is_twice: false,
        }
    }

    fn see(&mut self, member: Member<'t>) {
        if stands_for(member.name, self.known) {
            self.is_twice |= self.member.replace(member).is_some();
        }
    }

    /// Returns the member as [`member`] does.
    pub(super) fn member(self) -> Result<Option<Member<'t>>, LlmFault> {
        if self.is_twice {
            return Err(LlmFault::Malformed {
                cause: format!("two members of one object stand for '{}'", self.known),
            });
        }
        Ok(self.member.filter(|member| !member.value.is_null()))
    }

    /// Returns the value as [`value`] does.
    pub(super) fn value(self) -> Result<Option<Value<'t>>, LlmFault> {
        Ok(self.member()?.map(|member| member.value))
    }

    /// Returns the text as [`text`] does.
    pub(super) fn text(self) -> Result<Option<Cow<'t, str>>, LlmFault> {
        Ok(self.value()?.and_then(Value::string))
    }
}

/// The members of an object in which many names are looked up.
#[derive(Debug, Default)]
pub(super) struct Members<'t>(Vec<Member<'t>>);

impl<'t> Members<'t> {
    /// Collects the members of an object; any other value has none.
    pub(super) fn of(object: Value<'t>) -> Self {
        Self(object.members().collect())
    }

    /// Returns all members, in order.
    pub(super) fn all(&self) -> &[Member<'t>] {
        &self.0
    }

    /// Finds the member for this name.
    pub(super) fn find(&self, known: &'static str) -> FoundMember<'t> {
        let mut found = FoundMember::none(known);
        for member in &self.0 {
            found.see(*member);
        }
        found
    }
}

/// Returns the value of the member `known`, if it is a string.
pub(super) fn text<'t>(object: Value<'t>, known: &'static str) -> Result<Option<Cow<'t, str>>, LlmFault> {
    Ok(value(object, known)?.and_then(Value::string))
}

/// Returns the items of the array `known`, in any spelling; none if there is no such member.
///
/// A value that is not an array is a fault, because some readers take items from it.
pub(super) fn items<'t>(
    object: Value<'t>,
    known: &'static str,
) -> Result<impl Iterator<Item = Value<'t>>, LlmFault> {
    let array = value(object, known)?;
    if array.is_some_and(|array| array.kind() != ValueKind::Array) {
        return Err(LlmFault::malformed(format_args!("'{known}' is no array")));
    }
    Ok(array.into_iter().flat_map(Value::items))
}

impl From<Malformed> for LlmFault {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed {
            cause: malformed.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case("functionCall" => true; "camel case")]
    #[test_case("function_call" => true; "snake case")]
    #[test_case("FunctionCall" => true; "Pascal case")]
    #[test_case("FUNCTION_CALL" => true; "upper case")]
    #[test_case("function__call_" => true; "more underscores")]
    #[test_case("functionCalls" => false; "longer")]
    #[test_case("function-call" => true; "a dash")]
    #[test_case("" => false; "nothing")]
    fn spellings(name: &str) -> bool {
        stands_for(name, "functionCall")
    }

    #[test]
    fn letters_that_fold() {
        assert!(stands_for("me\u{17F}\u{17F}age\u{17F}", "messages"));
        assert!(!stands_for("messages\u{0}", "messages"));
    }

    #[test_case(r#"{ "a\"b" : [1, "\\" ] }"# => TextForm::Exact; "a name that needs an escape")]
    #[test_case(r#"{"a\/b":1}"# => TextForm::Ambiguous; "a name that needs none")]
    #[test_case(r#"{"a\"b":1,"x":1,"x":2}"# => TextForm::Ambiguous; "a name that needs one, and a name twice")]
    #[test_case(r#""\udc00""# => TextForm::Ambiguous; "half a surrogate pair")]
    fn forms(text: &str) -> TextForm {
        let form = read(text.as_bytes(), |_, form| form).unwrap();
        assert_eq!(read_line(text.as_bytes(), |_, form| form), Ok(form));
        form
    }

    #[test_case("{\r\"a\":1}"; "a carriage return")]
    #[test_case("[\"\u{2028}\"]"; "what ends lines for some")]
    fn what_ends_lines_matters_in_lines(text: &str) {
        assert_eq!(read(text.as_bytes(), |_, form| form), Ok(TextForm::Exact));
        assert_eq!(
            read_line(text.as_bytes(), |_, form| form),
            Ok(TextForm::Ambiguous)
        );
    }

    #[test]
    fn two_spellings_in_one_object_are_refused() {
        let text = |json: &str| {
            read(json.as_bytes(), |document, _| {
                text(document.root(), "name").map(|name| name.map(Cow::into_owned))
            })
            .unwrap()
        };
        assert_eq!(text(r#"{"name":"a"}"#), Ok(Some("a".to_owned())));
        assert_eq!(text(r#"{"Name":"a"}"#), Ok(Some("a".to_owned())));
        assert_eq!(text(r#"{"name":"a","name":"b"}"#), Ok(Some("b".to_owned())));
        assert_eq!(text(r#"{"name":null,"x":1}"#), Ok(None));
        let fault = text(r#"{"name":"a","Name":"b"}"#);
        let cause = "two members of one object stand for 'name'".to_owned();
        assert_eq!(fault, Err(LlmFault::Malformed { cause }));
    }

    #[test]
    fn two_spellings_are_a_fault_only_of_what_is_looked_up() {
        let json = br#"{"type":"text","Text":"a","text":"b","content":null}"#;
        let said = |found: FoundMember<'_>| found.text().map(|text| text.map(Cow::into_owned)).ok();
        let expected = [Some(Some("text".to_owned())), None, Some(None), Some(None)];
        let names = ["type", "text", "content", "name"];
        read(json, |document, _| {
            let root = document.root();
            assert_eq!(find(root, names).map(said), expected);
            let members = Members::of(root);
            assert_eq!(names.map(|name| said(members.find(name))), expected);
            assert_eq!(members.all().len(), 4);
        })
        .unwrap();
    }
}
