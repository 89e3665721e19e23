//! Owners of listening TCP sockets. Any user can take a port that is free, and clients send their keys to whoever
//! listens at the address of a proxy.

use std::{
    collections::BTreeSet,
    fs, io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};

/// The tables of TCP sockets of this network namespace.
const TABLES: [&str; 2] = ["/proc/net/tcp", "/proc/net/tcp6"];
/// The state of a listening socket.
const LISTENING: &str = "0A";

/// Checks that only root or this user listens at `address`. Nothing may listen there.
///
/// # Errors
/// Returns a message that names the other user, or says that the owner is unknown.
pub fn check_owner(address: SocketAddr) -> Result<(), String> {
    let own = nix::unistd::geteuid().as_raw();
    let owners = owners(address).map_err(|error| {
        format!(
            "cannot find out who listens at {address}, because {}: {error}",
            TABLES[0]
        )
    })?;
    match owners.into_iter().find(|uid| *uid != 0 && *uid != own) {
        Some(other) => Err(format!(
            "user {other} listens at {address}, not mcpmon: that process would get your prompts and keys"
        )),
        None => Ok(()),
    }
}

/// Returns whether the kernel can give a port to a socket that asks for none in particular.
pub fn is_chosen_by_kernel(port: u16) -> bool {
    let setting = |name: &str| fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).unwrap_or_default();
    is_in_range(&setting("ip_local_port_range"), port)
        && !is_listed(&setting("ip_local_reserved_ports"), port)
}

/// Returns whether a port is in a range such as `32768 60999`.
fn is_in_range(range: &str, port: u16) -> bool {
    let mut ends = range.split_whitespace().filter_map(|end| end.parse::<u16>().ok());
    matches!((ends.next(), ends.next()), (Some(first), Some(last)) if (first..=last).contains(&port))
}

/// Returns whether a port is in a list such as `8080,9000-9010`.
fn is_listed(list: &str, port: u16) -> bool {
    list.trim().split(',').any(|item| {
        let (first, last) = item.split_once('-').unwrap_or((item, item));
        matches!((first.parse::<u16>(), last.parse::<u16>()), (Ok(first), Ok(last)) if (first..=last).contains(&port))
    })
}

/// Returns the users who listen at an address, or at all addresses with its port.
fn owners(address: SocketAddr) -> io::Result<BTreeSet<u32>> {
    let mut owners = BTreeSet::new();
    for table in TABLES {
        match fs::read_to_string(table) {
            Ok(text) => owners.extend(parse(&text, address)),
            // A kernel without IPv6 has no such table.
            Err(error) if error.kind() == io::ErrorKind::NotFound && table != TABLES[0] => {}
            Err(error) => return Err(error),
        }
    }
    Ok(owners)
}

fn parse(table: &str, address: SocketAddr) -> impl Iterator<Item = u32> {
    table.lines().skip(1).filter_map(move |line| {
        let mut fields = line.split_ascii_whitespace();
        let (ip, port) = socket(fields.nth(1)?)?;
        let is_listening = fields.nth(1)? == LISTENING;
        let uid = fields.nth(3)?.parse().ok()?;
        let is_reached = port == address.port() && (ip.is_unspecified() || ip == address.ip().to_canonical());
        (is_listening && is_reached).then_some(uid)
    })
}

/// Parses `IP:PORT`. The address is in words of 32 bits, each in the byte order of this machine.
fn socket(text: &str) -> Option<(IpAddr, u16)> {
    let (ip, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |at: usize| Some(u32::from_str_radix(ip.get(at..at + 8)?, 16).ok()?.to_ne_bytes());
    let ip = match ip.len() {
        8 => IpAddr::V4(Ipv4Addr::from(word(0)?)),
        32 => {
            let mut bytes = [0; 16];
            for (part, at) in bytes.chunks_exact_mut(4).zip([0, 8, 16, 24]) {
                part.copy_from_slice(&word(at)?);
            }
            IpAddr::V6(Ipv6Addr::from(bytes)).to_canonical()
        }
        _ => return None,
    };
    Some((ip, port))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use test_case::test_case;

    use super::*;

    const TABLE: &str =
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:2124 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1001        0 1 1 0 100 0 0 10 0
   1: 0100007F:2125 0100007F:9999 01 00000000:00000000 00:00000000 00000000  1002        0 2 1 0 20 4 30 10 -1
   2: 00000000:2126 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1003        0 3 1 0 100 0 0 10 0
   3: 0200007F:2124 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1004        0 4 1 0 100 0 0 10 0
";

    #[cfg(target_endian = "little")]
    #[test_case("127.0.0.1:8484" => vec![1001])]
    #[test_case("127.0.0.1:8485" => Vec::<u32>::new(); "a connection is no listener")]
    #[test_case("127.0.0.1:8486" => vec![1003]; "at all addresses")]
    #[test_case("127.0.0.2:8484" => vec![1004]; "another address")]
    #[test_case("[::1]:8484" => Vec::<u32>::new(); "another family")]
    fn listeners(address: &str) -> Vec<u32> {
        parse(TABLE, address.parse().expect("an address")).collect()
    }

    #[test_case(8484 => false; "below the range")]
    #[test_case(40_000 => true; "in the range")]
    #[test_case(50_005 => false; "reserved")]
    fn ports_that_the_kernel_chooses(port: u16) -> bool {
        is_in_range("32768\t60999\n", port) && !is_listed("8080,50000-50010\n", port)
    }

    #[test_case("127.0.0.1:0")]
    #[test_case("[::1]:0"; "IPv6")]
    fn the_own_listener_is_found(address: &str) {
        // A kernel without IPv6 has no such address.
        let Ok(listener) = TcpListener::bind(address) else {
            return;
        };
        let address = listener.local_addr().expect("bound");
        let own = nix::unistd::geteuid().as_raw();
        assert_eq!(owners(address).expect("the tables"), BTreeSet::from([own]));
        check_owner(address).expect("it is this user's");
    }
}
