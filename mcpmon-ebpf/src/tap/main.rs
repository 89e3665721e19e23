//! The tap: copies what tapped servers read from their standard input and write to their standard output. It refuses
//! nothing, and is loaded only while the policy wants it: its object is one of its own.
//!
//! The programs run at the end of the functions through which every read and write of a pipe or UNIX socket goes, by
//! whichever call. The first step of each is to look the process up: for others than tapped ones it is the only one.

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

use aya_ebpf::{
    macros::{fexit, raw_tracepoint},
    programs::{FExitContext, RawTracePointContext},
};
use mcpmon_common::tap::TapStream;

use self::copy::{Transfer, take};

/// `pipe_read(kiocb, iter)`.
#[fexit]
fn tap_pipe_read(ctx: FExitContext) -> i32 {
    let (kiocb, iter) = (ctx.arg::<usize>(0), ctx.arg::<usize>(1));
    let done = ctx.arg::<i64>(2);
    take(
        TapStream::INPUT,
        done,
        #[inline(always)]
        || Transfer::of_pipe(kiocb, iter),
    );
    0
}

/// `pipe_write(kiocb, iter)`.
#[fexit]
fn tap_pipe_write(ctx: FExitContext) -> i32 {
    let (kiocb, iter) = (ctx.arg::<usize>(0), ctx.arg::<usize>(1));
    let done = ctx.arg::<i64>(2);
    take(
        TapStream::OUTPUT,
        done,
        #[inline(always)]
        || Transfer::of_pipe(kiocb, iter),
    );
    0
}

/// `unix_stream_recvmsg(socket, message, size, flags)`.
#[fexit]
fn tap_unix_read(ctx: FExitContext) -> i32 {
    const MSG_PEEK: u32 = 2;
    let (socket, message) = (ctx.arg::<usize>(0), ctx.arg::<usize>(1));
    let (flags, done) = (ctx.arg::<u64>(3) as u32, ctx.arg::<i64>(4) as i32);
    if flags & MSG_PEEK != 0 {
        return 0;
    }
    take(
        TapStream::INPUT,
        i64::from(done),
        #[inline(always)]
        || Transfer::of_socket(socket, message),
    );
    0
}

/// `unix_stream_sendmsg(socket, message, size)`.
#[fexit]
fn tap_unix_write(ctx: FExitContext) -> i32 {
    let (socket, message) = (ctx.arg::<usize>(0), ctx.arg::<usize>(1));
    let done = ctx.arg::<i64>(3) as i32;
    take(
        TapStream::OUTPUT,
        i64::from(done),
        #[inline(always)]
        || Transfer::of_socket(socket, message),
    );
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
