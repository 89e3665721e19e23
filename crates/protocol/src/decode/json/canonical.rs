//! Writing a text again so that no reader has a choice: one line, no space, names unescaped and once each.

use mcpmon_model::json::unescape;

use super::{
    Document,
    string::{self, LINE_ENDS, quote_into},
};

/// The text of a value that every reader understands as most understand `document`: of members with one name the
/// last one counts. Numbers and strings stay as they were written, but for characters that some take for the end of
/// a line, and halves of surrogate pairs.
pub fn canonical(document: Document<'_>) -> String {
    let mut writer = CanonicalWriter {
        text: document.text(),
        at: 0,
        out: String::with_capacity(document.text().len()),
        objects: Vec::new(),
        members: Vec::new(),
    };
    while writer.token() {}
    writer.out
}

struct CanonicalWriter<'t> {
    text: &'t str,
    at: usize,
    out: String,
    /// One per open container: for an object, its first member.
    objects: Vec<Option<usize>>,
    /// Members of open objects, by their place in `out`.
    members: Vec<WrittenMember>,
}

/// A member that was written: `start..name_end` is its name with quotes.
#[derive(Clone, Copy)]
struct WrittenMember {
    start: usize,
    name_end: usize,
    end: usize,
}

impl CanonicalWriter<'_> {
    /// Copies the next token; whether there was one.
    fn token(&mut self) -> bool {
        let Some(byte) = self.text.as_bytes().get(self.at) else {
            return false;
        };
        match byte {
            b' ' | b'\t' | b'\r' | b'\n' => self.at += 1,
            b'"' => self.string(),
            b'{' => self.open(Some(self.members.len())),
            b'[' => self.open(None),
            b'}' => {
                self.end_member();
                self.close_object();
            }
            b']' => {
                self.objects.pop();
                self.copy_byte();
            }
            b',' => {
                self.end_member();
                self.copy_byte();
            }
            _ => self.copy_byte(),
        }
        true
    }

    fn copy_byte(&mut self) {
        self.out.push(char::from(self.text.as_bytes()[self.at]));
        self.at += 1;
    }

    fn open(&mut self, first_member: Option<usize>) {
        self.objects.push(first_member);
        self.copy_byte();
    }

    /// A name where one is due, otherwise a value.
    fn string(&mut self) {
        let end = string::read(self.text.as_bytes(), self.at + 1)
            .expect("the text was scanned")
            .end;
        let literal = &self.text[self.at..end];
        let inside = &literal[1..literal.len() - 1];
        self.at = end;
        let in_object = matches!(self.objects.last(), Some(Some(_)));
        let start = self.out.len();
        if in_object && matches!(self.out.as_bytes().last(), Some(b'{' | b',')) {
            quote_into(&unescape(inside), &mut self.out);
            self.members.push(WrittenMember {
                start,
                name_end: self.out.len(),
                end: start,
            });
        } else if is_ambiguous(literal) {
            quote_into(&unescape(inside), &mut self.out);
        } else {
            self.out.push_str(literal);
        }
    }

    /// Notes where the member ends that is written, if one is.
    fn end_member(&mut self) {
        let end = self.out.len();
        if let Some(Some(first)) = self.objects.last()
            && let Some(member) = self.members[*first..].last_mut()
        {
            member.end = end;
        }
    }

    fn close_object(&mut self) {
        let first = self.objects.pop().flatten().unwrap_or(self.members.len());
        self.drop_repeated(first);
        self.members.truncate(first);
        self.copy_byte();
    }

    /// Leaves, of the members from `first` on, only the last one of each name.
    fn drop_repeated(&mut self, first: usize) {
        let members = &self.members[first..];
        let name = |member: &WrittenMember| &self.out.as_bytes()[member.start..member.name_end];
        let mut by_name: Vec<&WrittenMember> = members.iter().collect();
        by_name.sort_by(|a, b| name(a).cmp(name(b)));
        let mut kept: Vec<WrittenMember> = by_name
            .chunk_by(|a, b| name(a) == name(b))
            .filter_map(|same| same.last().map(|last| **last))
            .collect();
        if kept.len() == members.len() {
            return;
        }
        kept.sort_by_key(|member| member.start);
        let object = members[0].start;
        let mut text = String::with_capacity(self.out.len() - object);
        for member in kept {
            if !text.is_empty() {
                text.push(',');
            }
            text.push_str(&self.out[member.start..member.end]);
        }
        self.out.truncate(object);
        self.out.push_str(&text);
    }
}

/// Returns whether a string literal has in it what readers may differ about.
fn is_ambiguous(literal: &str) -> bool {
    let lone = string::read(literal.as_bytes(), 1).is_ok_and(|read| read.lone_surrogate.is_some());
    lone || literal.contains(LINE_ENDS)
}
