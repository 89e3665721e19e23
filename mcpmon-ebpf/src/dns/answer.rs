//! Arriving answers: those to a question that was noted are copied to the daemon.

use aya_ebpf::{
    bindings::{__sk_buff, BPF_RB_FORCE_WAKEUP},
    helpers::generated::{bpf_ktime_get_ns, bpf_ringbuf_output, bpf_skb_load_bytes},
};
use mcpmon_common::dns::{AnswerRecord, DNS_HEADER, DnsCounter, MAX_ANSWER, QUESTION_TIMEOUT};

use crate::{
    maps::{ANSWER_SCRATCH, ANSWERS, QUESTIONS, count},
    message::{self, Direction, Message, bounded},
};

/// Copies the answer in a packet, if its receiver has recently asked this server that question.
#[inline(always)]
pub(crate) fn copy(skb: *mut __sk_buff) {
    let Some(message) = message::of(skb, Direction::FromServer) else {
        return;
    };
    // SAFETY: the value is one word, copied at once.
    let Some(asked) = (unsafe { QUESTIONS.get(message.question) }).copied() else {
        return;
    };
    // Only the first answer to a question is copied; its receiver accepts no second one either.
    if QUESTIONS.remove(message.question).is_err() {
        return;
    }
    // SAFETY: a helper without arguments.
    let now = unsafe { bpf_ktime_get_ns() };
    if now.saturating_sub(asked) > QUESTION_TIMEOUT {
        return;
    }
    count(if hand_over(skb, &message).is_some() {
        DnsCounter::Answers
    } else {
        DnsCounter::Lost
    });
}

/// Copies the answer into the ring. Returns `None` if that fails.
#[inline(always)]
fn hand_over(skb: *mut __sk_buff, message: &Message) -> Option<()> {
    let buffer = ANSWER_SCRATCH.get_ptr_mut(0)?;
    if message.length < DNS_HEADER {
        return None;
    }
    let length = bounded::<{ MAX_ANSWER as u32 - 1 }>(message.length.min(MAX_ANSWER as u32));
    // SAFETY: a per-CPU slot that no other program of ours uses.
    let into = unsafe { &mut *buffer };
    into.record = AnswerRecord {
        server: message.question.server,
        family: message.question.family,
        length,
    };
    // SAFETY: the room is at least `length` bytes, and the verifier checks it again.
    let failed = unsafe {
        bpf_skb_load_bytes(
            skb.cast(),
            message.start,
            into.message.as_mut_ptr().cast(),
            length,
        )
    };
    if failed != 0 {
        return None;
    }
    let length = size_of::<AnswerRecord>() as u64 + u64::from(length);
    // SAFETY: the buffer is at least `length` bytes; the verifier checks it again.
    let lost = unsafe {
        bpf_ringbuf_output(
            core::ptr::from_ref(&ANSWERS).cast_mut().cast(),
            buffer.cast(),
            length,
            u64::from(BPF_RB_FORCE_WAKEUP),
        )
    };
    (lost == 0).then_some(())
}
