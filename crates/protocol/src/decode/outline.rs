//! Outlines of messages that cannot be read, because they are too long to keep or no strict JSON. An outline is enough
//! to find the request that a message answers.

use std::borrow::Cow;

use mcpmon_model::RequestId;

use super::{
    json::{LoneSurrogate, Scanner, is_spelled_like},
    jsonrpc,
};

/// A longer name or id at the top of a message is not read.
const CAPACITY: usize = 256;

/// The apparent kind of an unread message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageOutline {
    /// Its id, if it is one object with the version of JSON-RPC and exactly one id, in any reading of names.
    pub id: Option<RequestId>,
    /// True if it has a method: it is a request, or a notification.
    pub has_method: bool,
}

impl MessageOutline {
    /// Returns the outline of a whole text. A text with anything besides one object could be a log line that quotes a
    /// message, so it has no id.
    pub fn of(text: &[u8]) -> Self {
        let text = text.trim_ascii();
        let mut skim = Skim {
            is_ambiguous: !text.starts_with(b"{") || !text.ends_with(b"}"),
            ..Skim::default()
        };
        skim.push(text);
        skim.finish()
    }

    /// Returns the id of the request that it answers, if it is an answer.
    pub fn answered(&self) -> Option<&RequestId> {
        self.id.as_ref().filter(|_| !self.has_method)
    }

    /// Returns the id of the request, if it is one.
    pub fn asked(&self) -> Option<&RequestId> {
        self.id.as_ref().filter(|_| self.has_method)
    }
}

/// Reads a message byte by byte, and keeps only short values at its top level.
#[derive(Debug, Default)]
pub struct Skim {
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// An object or array began.
    has_begun: bool,
    /// True if there is more than one object or array, or none.
    is_ambiguous: bool,
    /// The bytes since the last comma or colon at the top level.
    token: Vec<u8>,
    /// The name of the current value.
    name: Option<Vec<u8>>,
    ids: Vec<Option<RequestId>>,
    has_version: bool,
    has_method: bool,
}

impl Skim {
    /// Goes on with the bytes that follow.
    pub fn push(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.step(*byte);
        }
    }

    /// Returns the outline of the bytes read so far.
    pub fn finish(mut self) -> MessageOutline {
        let is_message = self.depth == 0 && !self.is_ambiguous && self.has_version;
        let id = match (self.ids.pop(), self.ids.is_empty()) {
            (Some(id), true) if is_message => id,
            _ => None,
        };
        MessageOutline {
            id,
            has_method: self.has_method,
        }
    }

    fn step(&mut self, byte: u8) {
        if self.in_string {
            self.in_string = self.escaped || byte != b'"';
            self.escaped = !self.escaped && byte == b'\\';
            self.keep(byte);
            return;
        }
        if self.depth == 0 && matches!(byte, b'{' | b'[' | b'}' | b']') {
            self.is_ambiguous |= self.has_begun || byte != b'{';
            self.has_begun = true;
        }
        match byte {
            b'"' => {
                self.in_string = true;
                self.keep(byte);
            }
            b'{' | b'[' => {
                self.keep(byte);
                self.depth += 1;
                if self.depth == 1 {
                    self.token.clear();
                }
            }
            b'}' | b']' => {
                if self.depth == 1 {
                    self.end_member();
                }
                self.depth = self.depth.saturating_sub(1);
            }
            b':' if self.depth == 1 => self.name = Some(std::mem::take(&mut self.token)),
            b',' if self.depth == 1 => self.end_member(),
            _ => self.keep(byte),
        }
    }

    fn keep(&mut self, byte: u8) {
        if self.depth == 1 && self.token.len() <= CAPACITY {
            self.token.push(byte);
        }
    }

    fn end_member(&mut self) {
        let value = std::mem::take(&mut self.token);
        let Some(name) = self.name.take() else { return };
        match name_of(&name).as_str() {
            "id" if self.ids.len() < 2 => self.ids.push(id(&value)),
            "jsonrpc" => self.has_version = true,
            name if is_read_as(name, "method") => self.has_method = true,
            // Which one counts is up to its reader.
            name if is_read_as(name, "id") => self.ids = vec![None],
            _ => {}
        }
    }
}

/// Returns a decoded name; empty if it is no string.
fn name_of(literal: &[u8]) -> String {
    let mut scanner = Scanner::new(0);
    let scan = scanner.scan(literal, LoneSurrogate::Replace).ok();
    let name = scan.and_then(|scan| scan.document.root().string());
    name.map(Cow::into_owned).unwrap_or_default()
}

/// Returns whether some reader takes a name for `known`, one that ends names at a NUL among them.
fn is_read_as(name: &str, known: &str) -> bool {
    let read = name.split('\0').next().unwrap_or_default();
    read == known || is_spelled_like(read, known)
}

fn id(text: &[u8]) -> Option<RequestId> {
    if text.len() > CAPACITY {
        return None;
    }
    let mut scanner = Scanner::new(0);
    let scan = scanner.scan(text, LoneSurrogate::Refuse).ok()?;
    jsonrpc::request_id(scan.document.root())
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    fn number(digits: &str) -> Option<RequestId> {
        Some(RequestId::Number(digits.into()))
    }

    #[test_case(r#"{"jsonrpc":"2.0","id":7,"method":"m","params":{"id":8}}"#, number("7"), true; "an id before")]
    #[test_case(r#" {"method":"m","params":{"a":"\"},{","id":8},"jsonrpc":"2.0","id":7} "#, number("7"), true; "an id behind")]
    #[test_case(r#"{"jsonrpc":"2.0","id" : "a\u0062" ,"result":[{"method":1}]}"#, Some(RequestId::Text("ab".into())), false; "a text")]
    #[test_case(r#"{"jsonrpc":"2.0","\u0069d":1,"m\u0065thod":""}"#, number("1"), true; "names with escapes")]
    #[test_case(r#"{"jsonrpc":"2.0","id":1,"result":{},"id":2}"#, None, false; "two ids")]
    #[test_case(r#"{"jsonrpc":"2.0","id":1,"Id":2}"#, None, false; "another id in capitals")]
    #[test_case(r#"{"jsonrpc":"2.0","id\u0000":2,"id":1}"#, None, false; "another id with a NUL")]
    #[test_case(r#"{"jsonrpc":"2.0","id":1,"method\u0000":"m"}"#, number("1"), true; "a method with a NUL")]
    #[test_case(r#"{"jsonrpc":"2.0","id":1.5,"method":"m"}"#, None, true; "no integer")]
    #[test_case(r#"{"jsonrpc":"2.0","id":null}"#, None, false; "null")]
    #[test_case(r#"{"jsonrpc":"2.0","id":{"a":1}}"#, None, false; "an object")]
    #[test_case(r#"{"jsonrpc":"2.0","result":{"id":1}}"#, None, false; "an id inside only")]
    #[test_case(r#"{"jsonrpc":"2.0","id":1,"result":"#, None, false; "no end")]
    #[test_case(r#"{"id":1,"level":"info"}"#, None, false; "no message")]
    #[test_case(r#"{"jsonrpc":"2.0"}{"id":1,"result":{}}"#, None, false; "two objects")]
    #[test_case(r#"[{"jsonrpc":"2.0","id":1,"result":{}}]"#, None, false; "an array")]
    fn outlines(line: &str, id: Option<RequestId>, has_method: bool) {
        let mut skim = Skim::default();
        for chunk in line.as_bytes().chunks(3) {
            skim.push(chunk);
        }
        let outline = MessageOutline { id, has_method };
        assert_eq!(skim.finish(), outline);
        assert_eq!(MessageOutline::of(line.as_bytes()), outline);
    }

    #[test_case(r#"> {"jsonrpc":"2.0","id":1,"result":{}}"#; "something before")]
    #[test_case(r#"{"jsonrpc":"2.0","id":1,"result":{}} ok"#; "something behind")]
    fn a_text_with_more_in_it_has_no_id(text: &str) {
        assert_eq!(MessageOutline::of(text.as_bytes()).id, None);
        // What frames an event of a stream is no part of its text.
        let mut skim = Skim::default();
        skim.push(text.as_bytes());
        assert_eq!(skim.finish().id, number("1"));
    }

    #[test]
    fn a_long_id_is_not_kept() {
        let mut skim = Skim::default();
        skim.push(format!("{{\"jsonrpc\":\"2.0\",\"id\":\"{}\"}}", "a".repeat(CAPACITY)).as_bytes());
        assert_eq!(skim.finish().id, None);
    }
}
