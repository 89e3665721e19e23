//! The kernel programs for DNS, in a separate object: copy the answers to questions for followed names to the daemon.
//! They are loaded only if a rule names a host, and neither refuse nor change anything.

#![no_std]
#![no_main]
#![feature(core_intrinsics)]
#![expect(
    internal_features,
    reason = "this target has no atomic types, and programs interrupt each other"
)]
#![expect(
    unsafe_code,
    reason = "kernel helpers and context access are unsafe by nature"
)]

mod answer;
mod maps;
mod message;
mod question;

use aya_ebpf::{macros::cgroup_skb, programs::SkBuffContext};

/// Lets every packet pass.
const PROCEED: i32 = 1;

#[cgroup_skb(egress)]
fn dns_question(ctx: SkBuffContext) -> i32 {
    question::note(ctx.skb.skb);
    PROCEED
}

#[cgroup_skb(ingress)]
fn dns_answer(ctx: SkBuffContext) -> i32 {
    answer::copy(ctx.skb.skb);
    PROCEED
}

#[panic_handler]
fn panic(_info: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
