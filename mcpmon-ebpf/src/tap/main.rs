//! The tap: copies what tapped servers read from standard input and write to standard output. It refuses nothing. It is
//! a separate object, loaded only while the policy wants it.
//!
//! One program runs at the end of every system call of every process, which is expensive (see ADR 0043). Its first step
//! is to look up the process; for processes that are not tapped, that is all.

#![no_std]
#![no_main]
#![feature(core_intrinsics)]
#![expect(
    internal_features,
    reason = "this target has no atomic types, and the programs run on several processors"
)]
#![expect(
    unsafe_code,
    reason = "kernel helpers and context access are unsafe by nature"
)]

mod copy;
mod kernel;
mod maps;
mod process;

use aya_ebpf::{macros::raw_tracepoint, programs::RawTracePointContext};

/// `sys_exit(registers, result)`
#[raw_tracepoint(tracepoint = "sys_exit")]
fn tap_call(ctx: RawTracePointContext) -> i32 {
    copy::take(&ctx);
    0
}

#[raw_tracepoint(tracepoint = "sched_process_fork")]
fn tap_fork(ctx: RawTracePointContext) -> i32 {
    process::inherit(&ctx);
    0
}

#[raw_tracepoint(tracepoint = "sched_process_exit")]
fn tap_exit(ctx: RawTracePointContext) -> i32 {
    process::forget(&ctx);
    0
}

#[panic_handler]
fn panic(_info: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
