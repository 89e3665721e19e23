//! Results that are forwarded without a part of them.

use std::ops::Range;

use mcpmon_model::{Era, ListKind};

use super::edit::MessageEdit;
use crate::decode::{
    json::{Member, Value, ValueKind},
    jsonrpc::{Envelope, Payload},
};

/// Returns a listing without the items at these positions, ascending. Order and cursor stay. The client must not keep
/// the rest for later or for others. Returns `None` if there is no result.
pub fn without_items(envelope: &Envelope<'_>, kind: ListKind, hidden: &[usize], era: Era) -> Option<String> {
    let result = result(envelope)?;
    let list = match kind {
        ListKind::Tools => "tools",
        ListKind::Prompts => "prompts",
        ListKind::Resources => "resources",
        ListKind::Templates => "resourceTemplates",
        ListKind::Skills => "skills",
    };
    let mut edit = MessageEdit::of(envelope.whole);
    let mut lifetime = Lifetime::default();
    for member in result.members() {
        match (member.name, era) {
            (name, _) if name == list && member.value.kind() == ValueKind::Array => {
                edit.replace(member.value.range(), &kept(member.value, hidden));
            }
            ("ttlMs", Era::Stateless) => {
                edit.replace(member.value.range(), "0");
                lifetime.milliseconds = true;
            }
            ("cacheScope", Era::Stateless) => {
                edit.replace(member.value.range(), "\"private\"");
                lifetime.scope = true;
            }
            _ => {}
        }
    }
    if era == Era::Stateless {
        let end = result.range().end - 1;
        edit.replace(end..end, lifetime.missing());
    }
    Some(edit.finish())
}

/// The members of a result that limit how long it may be kept.
#[derive(Default)]
struct Lifetime {
    milliseconds: bool,
    scope: bool,
}

impl Lifetime {
    /// Returns the text that must follow the last member of the result.
    const fn missing(&self) -> &'static str {
        match (self.milliseconds, self.scope) {
            (true, true) => "",
            (true, false) => ",\"cacheScope\":\"private\"",
            (false, true) => ",\"ttlMs\":0",
            (false, false) => ",\"ttlMs\":0,\"cacheScope\":\"private\"",
        }
    }
}

fn kept(list: Value<'_>, hidden: &[usize]) -> String {
    let items = list.items().enumerate();
    let kept = items.filter(|(position, _)| !hidden.contains(position));
    let kept: Vec<&str> = kept.map(|(_, item)| item.text()).collect();
    format!("[{}]", kept.join(","))
}

/// Returns an introduction without its instructions; `None` if there are none.
pub fn without_instructions(envelope: &Envelope<'_>) -> Option<String> {
    let place = with_comma(result(envelope)?, "instructions")?;
    let mut edit = MessageEdit::of(envelope.whole);
    edit.replace(place, "");
    Some(edit.finish())
}

/// Returns the range of a member, with the comma that belongs to it.
fn with_comma(object: Value<'_>, name: &str) -> Option<Range<usize>> {
    let mut before: Option<Member<'_>> = None;
    let mut members = object.members();
    let this = loop {
        let member = members.next()?;
        if member.name == name {
            break member;
        }
        before = Some(member);
    };
    let end = this.value.range().end;
    Some(match (before, members.next()) {
        (_, Some(after)) => this.start..after.start,
        (Some(before), None) => before.value.range().end..end,
        (None, None) => this.start..end,
    })
}

fn result<'t>(envelope: &Envelope<'t>) -> Option<Value<'t>> {
    match &envelope.payload {
        Payload::Result(part) => Some(part.value),
        Payload::Error(_) | Payload::Method { .. } => None,
    }
}
