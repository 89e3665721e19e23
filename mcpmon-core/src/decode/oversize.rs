//! What can be learnt of a line that is too long to be kept: whose answer is waited for.

use super::{
    json::{LoneSurrogate, Scanner},
    jsonrpc,
};
use crate::model::RequestId;

/// A longer name or id at the top of a message is not read.
const CAPACITY: usize = 256;

/// What a line over the limit seems to be. Its text was not checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Oversize {
    /// Its id, where it is one object that has one id.
    pub id: Option<RequestId>,
    /// Whether it has a method: it is a request, or a notification.
    pub has_method: bool,
}

/// Follows a message byte by byte, and keeps nothing but short things at its top level.
#[derive(Debug, Default)]
pub struct Skim {
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// What was read since the last comma or colon at the top level.
    token: Vec<u8>,
    /// The name whose value is being read.
    name: Option<Vec<u8>>,
    ids: Vec<Option<RequestId>>,
    has_method: bool,
}

impl Skim {
    /// Goes on with the bytes that follow.
    pub fn push(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.step(*byte);
        }
    }

    /// What was learnt.
    #[must_use]
    pub fn finish(mut self) -> Oversize {
        let id = match (self.ids.pop(), self.ids.is_empty()) {
            (Some(id), true) if self.depth == 0 => id,
            _ => None,
        };
        Oversize {
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
        match name.trim_ascii() {
            b"\"id\"" if self.ids.len() < 2 => self.ids.push(id(&value)),
            b"\"method\"" => self.has_method = true,
            _ => {}
        }
    }
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
    #[test_case(r#"{"method":"m","params":{"a":"\"},{","id":8},"jsonrpc":"2.0","id":7}"#, number("7"), true; "an id behind")]
    #[test_case(r#"{"id" : "a\u0062" ,"result":[{"method":1}]}"#, Some(RequestId::Text("ab".into())), false; "a text")]
    #[test_case(r#"{"id":1,"result":{},"id":2}"#, None, false; "two ids")]
    #[test_case(r#"{"id":1.5,"method":"m"}"#, None, true; "no integer")]
    #[test_case(r#"{"id":null}"#, None, false; "null")]
    #[test_case(r#"{"id":{"a":1}}"#, None, false; "an object")]
    #[test_case(r#"{"result":{"id":1}}"#, None, false; "an id inside only")]
    #[test_case(r#"{"id":1,"result":"#, None, false; "no end")]
    fn what_is_learnt(line: &str, id: Option<RequestId>, has_method: bool) {
        let mut skim = Skim::default();
        for chunk in line.as_bytes().chunks(3) {
            skim.push(chunk);
        }
        assert_eq!(skim.finish(), Oversize { id, has_method });
    }

    #[test]
    fn a_long_id_is_not_kept() {
        let mut skim = Skim::default();
        skim.push(format!("{{\"id\":\"{}\"}}", "a".repeat(CAPACITY)).as_bytes());
        assert_eq!(skim.finish().id, None);
    }
}
