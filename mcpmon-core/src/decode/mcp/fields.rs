//! The members of parameters and results that decide what a message is.

use std::borrow::Cow;

use super::super::json::{Value, is_spelled_like};
use crate::model::{Era, Trace};

/// The first revision without a handshake.
const STATELESS: &str = "2026-07-28";

/// Reads the members with these names in one pass. `None` where a name differs from one of them in case only:
/// some servers and clients take the one for the other.
pub(super) fn pick<'t, const N: usize>(
    object: Value<'t>,
    names: [&str; N],
) -> Option<[Option<Value<'t>>; N]> {
    let mut picked = [None; N];
    for member in object.members() {
        match names.iter().position(|name| *name == member.name) {
            Some(place) => picked[place] = Some(member.value),
            None if names.iter().any(|name| is_spelled_like(member.name, name)) => return None,
            None => {}
        }
    }
    Some(picked)
}

/// The era and the trace that a request's `_meta` tells.
pub(super) fn meta(params: Option<Value<'_>>) -> (Era, Trace<'_>) {
    let mut era = Era::Handshake;
    let mut trace = Trace::default();
    let Some(meta) = params.and_then(|params| params.member("_meta")) else {
        return (era, trace);
    };
    for member in meta.members() {
        match member.name {
            "io.modelcontextprotocol/protocolVersion" => era = era_of(member.value.string()),
            "claudecode/toolUseId" => trace.tool_call = member.value.string(),
            "callId" if trace.tool_call.is_none() => trace.tool_call = member.value.string(),
            "traceparent" => trace.parent = member.value.string(),
            _ => {}
        }
    }
    (era, trace)
}

/// Revisions are dates, and sort as text.
fn era_of(version: Option<Cow<'_, str>>) -> Era {
    match version {
        Some(version) if &*version >= STATELESS => Era::Stateless,
        Some(_) | None => Era::Handshake,
    }
}
