//! mcpmon's kernel programs: they filter, copy and report. Which connections are refused is looked up in maps; the
//! programs contain no rules.
//!
//! This file has the entry points only; each maps the result of a `try_` function to a return code.

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

mod bind;
mod connect;
mod emit;
mod error;
mod exec;
mod gate;
mod judge;
mod log;
mod maps;
mod opened;
mod packet;
mod process;
mod socket;
mod start;
mod task;

use aya_ebpf::{
    macros::{cgroup_skb, cgroup_sock, cgroup_sock_addr, lsm, raw_tracepoint},
    programs::{LsmContext, RawTracePointContext, SkBuffContext, SockAddrContext, SockContext},
};
use mcpmon_common::event::Hook;

use crate::{
    emit::count_failure,
    log::{log, told},
};

/// Return codes of programs that are attached to a cgroup.
const REFUSE: i32 = 0;
const PROCEED: i32 = 1;

#[cgroup_sock_addr(connect4)]
fn connect4(ctx: SockAddrContext) -> i32 {
    let refused = connect::try_v4(&ctx, Hook::Connect);
    told!("connect4", refused);
    verdict(refused)
}

#[cgroup_sock_addr(connect6)]
fn connect6(ctx: SockAddrContext) -> i32 {
    let refused = connect::try_v6(&ctx, Hook::Connect);
    told!("connect6", refused);
    verdict(refused)
}

#[cgroup_sock_addr(sendmsg4)]
fn sendmsg4(ctx: SockAddrContext) -> i32 {
    let refused = connect::try_v4(&ctx, Hook::Send);
    told!("sendmsg4", refused);
    verdict(refused)
}

#[cgroup_sock_addr(sendmsg6)]
fn sendmsg6(ctx: SockAddrContext) -> i32 {
    let refused = connect::try_v6(&ctx, Hook::Send);
    told!("sendmsg6", refused);
    verdict(refused)
}

#[cgroup_sock_addr(bind4)]
fn bind4(ctx: SockAddrContext) -> i32 {
    verdict(bind::try_v4(&ctx))
}

#[cgroup_sock_addr(bind6)]
fn bind6(ctx: SockAddrContext) -> i32 {
    verdict(bind::try_v6(&ctx))
}

#[cgroup_sock(sock_create)]
fn sock_create(ctx: SockContext) -> i32 {
    verdict(socket::try_create(&ctx))
}

#[cgroup_sock(sock_release)]
fn sock_release(ctx: SockContext) -> i32 {
    opened::try_release(&ctx);
    PROCEED
}

#[cgroup_skb(egress)]
fn egress(ctx: SkBuffContext) -> i32 {
    verdict(packet::try_egress(&ctx))
}

#[raw_tracepoint(tracepoint = "sched_process_exec")]
fn process_exec(ctx: RawTracePointContext) -> i32 {
    if let Err(error) = exec::try_exec(&ctx) {
        count_failure(error);
        log!(warn, "process_exec gave up: {}", error.text());
    }
    0
}

#[raw_tracepoint(tracepoint = "sched_process_fork")]
fn process_fork(ctx: RawTracePointContext) -> i32 {
    if let Err(error) = process::try_fork(&ctx) {
        count_failure(error);
        log!(warn, "process_fork gave up: {}", error.text());
    }
    0
}

#[raw_tracepoint(tracepoint = "sched_process_exit")]
fn process_exit(ctx: RawTracePointContext) -> i32 {
    if let Err(error) = process::try_exit(&ctx) {
        count_failure(error);
        log!(warn, "process_exit gave up: {}", error.text());
    }
    0
}

#[raw_tracepoint(tracepoint = "signal_generate")]
fn process_signal(ctx: RawTracePointContext) -> i32 {
    if let Err(error) = gate::try_signal(&ctx) {
        count_failure(error);
        log!(warn, "process_signal gave up: {}", error.text());
    }
    0
}

#[lsm(hook = "bprm_check_security", sleepable)]
fn start_check(ctx: LsmContext) -> i32 {
    start::try_start(&ctx).unwrap_or_else(|error| {
        count_failure(error);
        log!(warn, "start_check gave up: {}", error.text());
        0
    })
}

#[inline(always)]
fn verdict(refused: bool) -> i32 {
    if refused { REFUSE } else { PROCEED }
}

#[panic_handler]
fn panic(_info: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
