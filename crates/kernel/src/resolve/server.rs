//! A DNS server on loopback for tests: raw wire format, answers from a table.

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex},
};

use tokio::{net::UdpSocket, task::JoinHandle};

/// Record types as on the wire.
pub(super) const A: u16 = 1;
pub(super) const AAAA: u16 = 28;

/// The reply of a name server.
#[derive(Clone, Debug)]
pub(super) enum DnsReply {
    Addresses(Vec<IpAddr>),
    NoSuchName,
    ServerFailure,
    Silence,
}

type Table = Arc<Mutex<BTreeMap<(String, u16), DnsReply>>>;

/// Answers until this is dropped. A name that is not in the table does not exist.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) address: SocketAddr,
    table: Table,
    task: JoinHandle<()>,
}

impl Server {
    pub(super) async fn start() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").await.expect("loopback socket");
        let address = socket.local_addr().expect("bound");
        let table = Table::default();
        let task = tokio::spawn(serve(socket, Arc::clone(&table)));
        Self { address, table, task }
    }

    /// Sets the answers to questions for the addresses of `name`, by record type.
    pub(super) fn answer(&self, name: &str, a: DnsReply, aaaa: DnsReply) {
        let mut table = self.table.lock().expect("no test panics in the table");
        table.insert((name.to_owned(), A), a);
        table.insert((name.to_owned(), AAAA), aaaa);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Returns a reply with `addresses`; without any, the reply has no record.
pub(super) fn with(addresses: &[&str]) -> DnsReply {
    let parse = |text: &&str| text.parse().expect("address");
    DnsReply::Addresses(addresses.iter().map(parse).collect())
}

async fn serve(socket: UdpSocket, table: Table) {
    let mut query = [0; 512];
    loop {
        let (length, client) = socket.recv_from(&mut query).await.expect("query");
        if let Some(response) = respond(&query[..length], &table) {
            socket.send_to(&response, client).await.expect("response");
        }
    }
}

fn respond(query: &[u8], table: &Table) -> Option<Vec<u8>> {
    let (name, question_end) = question_name(query);
    let record_type = u16::from_be_bytes([query[question_end], query[question_end + 1]]);
    let question = &query[12..question_end + 4];
    let reply = table.lock().expect("table").get(&(name, record_type)).cloned();
    let (code, addresses) = match reply.unwrap_or(DnsReply::NoSuchName) {
        DnsReply::Addresses(addresses) => (0, addresses),
        DnsReply::ServerFailure => (2, Vec::new()),
        DnsReply::NoSuchName => (3, Vec::new()),
        DnsReply::Silence => return None,
    };
    let count = u8::try_from(addresses.len()).expect("few addresses");
    let mut response = query[..2].to_vec();
    // Response, recursion desired and available; one question, no authority, nothing additional.
    response.extend([0x81, 0x80 | code, 0, 1, 0, count, 0, 0, 0, 0]);
    response.extend(question);
    for address in addresses {
        let data = match address {
            IpAddr::V4(v4) => v4.octets().to_vec(),
            IpAddr::V6(v6) => v6.octets().to_vec(),
        };
        // The name of the question, type, class IN, five seconds to live.
        response.extend([0xc0, 12]);
        response.extend(record_type.to_be_bytes());
        response.extend([0, 1, 0, 0, 0, 5, 0, u8::try_from(data.len()).expect("short")]);
        response.extend(data);
    }
    Some(response)
}

/// Returns the name of the first question, and the position of its type.
fn question_name(query: &[u8]) -> (String, usize) {
    let mut labels = Vec::new();
    let mut at = 12;
    while query[at] != 0 {
        let length = usize::from(query[at]);
        labels.push(String::from_utf8_lossy(&query[at + 1..=at + length]).to_lowercase());
        at += 1 + length;
    }
    (labels.join("."), at + 1)
}
