//! Outgoing questions: those for a followed name are noted until their answer arrives.

use aya_ebpf::{
    bindings::__sk_buff,
    helpers::generated::{bpf_ktime_get_ns, bpf_skb_load_bytes},
};
use mcpmon_common::dns::{DNS_HEADER, DnsCounter, MAX_NAME, NameHash};

use crate::{
    maps::{FOLLOWED, NAME_SCRATCH, QUESTIONS, count},
    message::{self, Direction, Message, bounded},
};

/// Bytes of the shortest name and its type and class.
const MIN_QUESTION: u32 = 5;

/// Notes the question in a packet, if its name is followed.
#[inline(always)]
pub(crate) fn note(skb: *mut __sk_buff) {
    let Some(message) = message::of(skb, Direction::ToServer) else {
        return;
    };
    let Some(name) = name(skb, &message) else {
        return;
    };
    // SAFETY: entries are written by the daemon only; the value is not used.
    if unsafe { FOLLOWED.get(name) }.is_none() {
        return;
    }
    count(DnsCounter::Questions);
    // SAFETY: a helper without arguments.
    let now = unsafe { bpf_ktime_get_ns() };
    if QUESTIONS.insert(message.question, now, 0).is_err() {
        count(DnsCounter::Lost);
    }
}

/// Returns the hash of the name in the question; `None` if the name has no end.
#[inline(always)]
fn name(skb: *mut __sk_buff, message: &Message) -> Option<u64> {
    let length = message.length.saturating_sub(DNS_HEADER);
    if length < MIN_QUESTION {
        return None;
    }
    let length = bounded::<{ MAX_NAME as u32 }>(length.min(MAX_NAME as u32));
    let scratch = NAME_SCRATCH.get_ptr_mut(0)?;
    // SAFETY: the scratch is a per-CPU slot of at least `length` bytes, and the verifier checks it again.
    let failed =
        unsafe { bpf_skb_load_bytes(skb.cast(), message.start + DNS_HEADER, scratch.cast(), length) };
    if failed != 0 {
        return None;
    }
    // SAFETY: as above.
    let bytes = unsafe { &*scratch };
    let mut hash = NameHash::EMPTY;
    for (place, byte) in (0..).zip(bytes) {
        if place >= length {
            break;
        }
        if *byte == 0 {
            return Some(hash.get());
        }
        hash = hash.then(*byte);
    }
    None
}
