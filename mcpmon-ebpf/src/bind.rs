//! Reserved addresses: a TCP socket of another user than root is not bound to one.

use aya_ebpf::{
    bindings::bpf_sock_addr,
    helpers::{bpf_get_current_uid_gid, generated::bpf_get_netns_cookie},
    programs::SockAddrContext,
};
use mcpmon_common::{
    event::Counter,
    reserved::{ReservedAddress, all_of, mapped},
};

use crate::{
    connect::{STREAM, four_words, port},
    emit::count,
    maps::RESERVED_ADDRESSES,
};

/// Judges the IPv4 address to which a socket is to be bound; true refuses it.
#[inline(always)]
pub(crate) fn try_v4(ctx: &SockAddrContext) -> bool {
    // SAFETY: the context is valid for the program's run; the verifier checks each access.
    unsafe {
        is_refused(ctx.sock_addr, |sock_addr| {
            mapped((*sock_addr).user_ip4.to_ne_bytes())
        })
    }
}

/// Judges the IPv6 address to which a socket is to be bound; true refuses it.
#[inline(always)]
pub(crate) fn try_v6(ctx: &SockAddrContext) -> bool {
    // SAFETY: the context is valid for the program's run; the verifier checks each access.
    unsafe {
        is_refused(ctx.sock_addr, |sock_addr| {
            four_words((&raw const (*sock_addr).user_ip6).cast::<u32>())
        })
    }
}

/// # Safety
/// `sock_addr` is the program's context.
#[inline(always)]
unsafe fn is_refused(
    sock_addr: *mut bpf_sock_addr,
    address: impl FnOnce(*const bpf_sock_addr) -> [u32; 4],
) -> bool {
    // SAFETY: by contract.
    let (port, kind) = unsafe { (port(sock_addr), (*sock_addr).type_) };
    if port == 0 || kind != STREAM {
        return false;
    }
    // The user in the initial namespace: root of a container with users of its own is another one.
    let is_root = bpf_get_current_uid_gid() as u32 == 0;
    if is_root {
        return false;
    }
    let key = ReservedAddress {
        // SAFETY: by contract.
        network: unsafe { bpf_get_netns_cookie(sock_addr.cast()) },
        address: address(sock_addr),
        port: port.into(),
    };
    let all = ReservedAddress {
        address: all_of(key.address),
        ..key
    };
    // SAFETY: the values are not used.
    let is_reserved =
        unsafe { RESERVED_ADDRESSES.get(key).is_some() || RESERVED_ADDRESSES.get(all).is_some() };
    if is_reserved {
        count(Counter::BindRefused);
    }
    is_reserved
}
