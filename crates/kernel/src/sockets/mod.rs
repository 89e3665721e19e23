//! Open connections of the host: they are listed in every network namespace, with the processes that hold them, and can
//! be ended.

mod diag;
mod namespaces;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
    thread,
};

pub use self::diag::{Protocol, Traffic};
use self::{
    diag::{Family, ListedSocket, SocketLists},
    namespaces::{MAX_NAMESPACES, NetworkNamespace},
};

/// Name of the threads that list and end sockets.
pub const THREAD: &str = "sockets";
/// Most descriptors of one process that are examined.
const MAX_DESCRIPTORS: usize = 1 << 16;
/// Most sockets that one survey returns.
const MAX_FOUND: usize = 1 << 14;

/// An open connection, or a datagram socket that is connected.
#[derive(Clone, Debug)]
pub struct OpenSocket {
    /// The kernel's id of the socket, unique on this host until it reboots.
    pub cookie: u64,
    /// Its protocol.
    pub protocol: Protocol,
    /// Address on the other side.
    pub remote: SocketAddr,
    /// True if the other side opened the connection: a socket is listening at the local address.
    pub is_answer: bool,
    /// The processes, among the surveyed ones, that hold the socket.
    pub holders: Vec<u32>,
    listed: ListedSocket,
    namespace: Arc<NetworkNamespace>,
}

/// The result of a survey of all connections.
#[derive(Debug, Default)]
pub struct SocketSurvey {
    /// The wanted connections.
    pub sockets: Vec<OpenSocket>,
    /// The parts of the host that could not be examined, each with the reason.
    pub faults: BTreeSet<String>,
}

/// The outcome of ending a connection.
#[derive(Debug)]
pub enum Ending {
    /// It was ended. The bytes that it carried are given if its protocol counts them.
    Ended(Option<Traffic>),
    /// It had ended already.
    Gone,
    /// It was not ended.
    Failed(io::Error),
}

/// Lists the connections of the host in all network namespaces with processes, and finds which of `processes` hold
/// them. Returns those that are `wanted`.
pub fn survey(processes: &BTreeSet<u32>, wanted: impl Fn(&OpenSocket) -> bool + Send) -> SocketSurvey {
    apart(move || {
        let mut survey = SocketSurvey::default();
        // Read before the lists, so that a socket that is passed to another process meanwhile is found with one of the
        // two.
        let holders = holders(processes);
        match NetworkNamespace::all(processes) {
            Ok((namespaces, is_cut)) => {
                for namespace in namespaces {
                    look_into(&namespace, &holders, &wanted, &mut survey);
                }
                if is_cut {
                    let fault = format!(
                        "there are more than {MAX_NAMESPACES} network namespaces: the rest is not looked into"
                    );
                    survey.faults.insert(fault);
                }
            }
            Err(error) => drop(
                survey
                    .faults
                    .insert(format!("network namespaces cannot be found: {error}")),
            ),
        }
        name_others(&mut survey);
        survey
    })
    .unwrap_or_else(|error| SocketSurvey {
        sockets: Vec::new(),
        faults: BTreeSet::from([error.to_string()]),
    })
}

/// Ends connections, and returns the outcome for each.
pub fn end(sockets: &[OpenSocket]) -> Vec<Ending> {
    let ended = apart(|| {
        let mut endings = Vec::new();
        let mut lists: BTreeMap<u64, io::Result<SocketLists>> = BTreeMap::new();
        for socket in sockets {
            let namespace = &socket.namespace;
            let lists = lists
                .entry(namespace.number)
                .or_insert_with(|| namespace.enter().and_then(|()| SocketLists::open()));
            endings.push(match lists {
                Ok(lists) => end_one(lists, &socket.listed),
                Err(error) => Ending::Failed(io::Error::other(error.to_string())),
            });
        }
        endings
    });
    ended.unwrap_or_else(|error| {
        let failed = |_| Ending::Failed(io::Error::other(error.to_string()));
        sockets.iter().map(failed).collect()
    })
}

/// Checks that this kernel can end connections.
///
/// # Errors
/// Returns the reason why it cannot, with the remedy.
pub fn can_end() -> io::Result<()> {
    let lists = SocketLists::open()?;
    for protocol in [Protocol::Tcp, Protocol::Udp] {
        lists
            .can_destroy(protocol)
            .map_err(|error| explain(protocol, &error))?;
    }
    Ok(())
}

/// Runs `work` in a thread of its own, which may enter other namespaces, because it ends with the work.
fn apart<T: Send>(work: impl FnOnce() -> T + Send) -> io::Result<T> {
    thread::scope(|scope| {
        let builder = thread::Builder::new().name(THREAD.to_owned());
        let running = builder.spawn_scoped(scope, work)?;
        running
            .join()
            .map_err(|_panic| io::Error::other("the look at sockets panicked"))
    })
}

fn end_one(lists: &SocketLists, socket: &ListedSocket) -> Ending {
    let failed = |error| Ending::Failed(explain(socket.protocol, &error));
    let traffic = match socket.protocol {
        Protocol::Tcp => match lists.again(socket) {
            Ok(Some(now)) => now.traffic,
            Ok(None) => return Ending::Gone,
            Err(error) => return failed(error),
        },
        // The kernel looks datagram sockets up with their addresses exchanged, and counts no bytes for them.
        Protocol::Udp => None,
    };
    match lists.destroy(socket) {
        Ok(true) => Ending::Ended(traffic),
        Ok(false) => Ending::Gone,
        Err(error) => failed(error),
    }
}

fn look_into(
    namespace: &Arc<NetworkNamespace>,
    holders: &BTreeMap<u64, Vec<u32>>,
    wanted: &impl Fn(&OpenSocket) -> bool,
    survey: &mut SocketSurvey,
) {
    let lists = match namespace.enter().and_then(|()| SocketLists::open()) {
        Ok(lists) => lists,
        Err(error) => {
            survey.faults.insert(error.to_string());
            return;
        }
    };
    let mut listening = BTreeSet::new();
    let mut listed = Vec::new();
    for protocol in [Protocol::Tcp, Protocol::Udp] {
        for family in [Family::V4, Family::V6] {
            let taken = lists.each(protocol, family, |socket| {
                if socket.is_listening {
                    listening.insert(canonical(socket.local));
                } else if !socket.remote.ip().is_unspecified() {
                    listed.push(socket);
                }
            });
            if let Err(error) = taken {
                survey.faults.insert(explain(protocol, &error).to_string());
            }
        }
    }
    for socket in listed {
        let socket = OpenSocket {
            cookie: socket.cookie,
            protocol: socket.protocol,
            remote: socket.remote,
            is_answer: socket.protocol == Protocol::Tcp && is_listened_at(&listening, socket.local),
            holders: holders.get(&socket.inode).cloned().unwrap_or_default(),
            listed: socket,
            namespace: Arc::clone(namespace),
        };
        if !wanted(&socket) {
            continue;
        }
        if survey.sockets.len() == MAX_FOUND {
            let fault = format!(
                "more than {MAX_FOUND} connections are refused by now; the rest goes on until the next look"
            );
            survey.faults.insert(fault);
            return;
        }
        survey.sockets.push(socket);
    }
}

fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// Returns whether a socket is listening at an address, or at all addresses.
fn is_listened_at(listening: &BTreeSet<SocketAddr>, local: SocketAddr) -> bool {
    let unspecified: [IpAddr; 2] = [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()];
    let at = |ip| listening.contains(&SocketAddr::new(ip, local.port()));
    at(local.ip().to_canonical()) || unspecified.into_iter().any(at)
}

/// Finds the holders of sockets that none of the surveyed processes holds.
fn name_others(survey: &mut SocketSurvey) {
    let is_unknown = |socket: &OpenSocket| socket.holders.is_empty() && socket.listed.inode != 0;
    if !survey.sockets.iter().any(is_unknown) {
        return;
    }
    let processes = fs::read_dir("/proc").into_iter().flatten();
    let numbers = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let holders = holders(&numbers.collect());
    for socket in &mut survey.sockets {
        if is_unknown(socket) {
            socket.holders = holders.get(&socket.listed.inode).cloned().unwrap_or_default();
        }
    }
}

fn explain(protocol: Protocol, error: &io::Error) -> io::Error {
    let name = match protocol {
        Protocol::Tcp => "TCP",
        Protocol::Udp => "UDP",
    };
    let remedy = match error.raw_os_error() {
        Some(nix::libc::EOPNOTSUPP) => "; the kernel was built without CONFIG_INET_DIAG_DESTROY",
        Some(nix::libc::ENOENT) => match protocol {
            Protocol::Tcp => "; the kernel has no list of them: `modprobe tcp_diag`",
            Protocol::Udp => "; the kernel has no list of them: `modprobe udp_diag`",
        },
        Some(nix::libc::EPERM) => "; the daemon needs CAP_NET_ADMIN",
        _ => "",
    };
    io::Error::other(format!("{name} connections cannot be ended: {error}{remedy}"))
}

/// Returns the sockets that processes hold, by inode.
fn holders(processes: &BTreeSet<u32>) -> BTreeMap<u64, Vec<u32>> {
    let mut holders: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
    for process in processes {
        // A process that has ended holds nothing.
        let descriptors = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten();
        let targets = descriptors
            .take(MAX_DESCRIPTORS)
            .filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
        for inode in targets.filter_map(|target| socket_inode(target.to_str()?)) {
            let holders = holders.entry(inode).or_default();
            if holders.last() != Some(process) {
                holders.push(*process);
            }
        }
    }
    holders
}

fn socket_inode(target: &str) -> Option<u64> {
    target.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_of_an_address_that_is_listened_at() {
        let listening: BTreeSet<SocketAddr> = ["127.0.0.2:80", "0.0.0.0:81", "[::]:82"]
            .into_iter()
            .map(|address| canonical(address.parse().expect("an address")))
            .collect();
        for (local, expected) in [
            ("127.0.0.2:80", true),
            ("[::ffff:127.0.0.2]:80", true),
            ("10.0.0.5:80", false),
            ("10.0.0.5:81", true),
            ("10.0.0.5:82", true),
            ("10.0.0.5:83", false),
        ] {
            let local = local.parse().expect("an address");
            assert_eq!(is_listened_at(&listening, local), expected, "{local}");
        }
    }
}
