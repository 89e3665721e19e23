//! `mcpmon bridge`: the process behind `mcpmon wrap --url` that stands in the place of a server's own. It is told what
//! to do by a variable: whoever lists processes sees no secret.

use std::{
    env,
    ffi::OsString,
    fs::File,
    io::{self, Write as _},
    os::{fd::AsFd as _, unix::fs::OpenOptionsExt as _},
};

use mcpmon_http::{
    bridge::{BridgeError, bridge},
    client::{Address, AddressError, ServerEndpoint},
};
use mcpmon_model::Digest;
use nix::{fcntl::OFlag, sys::prctl};
use serde::{Deserialize, Serialize};
use tokio::{
    net::unix::pipe::{Receiver, Sender},
    signal::unix::{SignalKind, signal},
};

use super::remote::{Header, HeaderError, RemoteDestination, ServerTransport};

/// The verb.
pub const VERB: &str = "bridge";
/// The variable that says what to do.
pub const SETTINGS: &str = "MCPMON_BRIDGE";

/// The reason why there is no bridge any more.
#[derive(Debug, thiserror::Error)]
pub enum BridgeVerbError {
    /// The command was started by hand.
    #[error("this is a part of `mcpmon wrap --url URL`, which starts it")]
    Alone,
    /// The variable cannot be read.
    #[error("what {SETTINGS} says cannot be used")]
    Settings(#[source] serde_json::Error),
    /// The server.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// A header.
    #[error(transparent)]
    Header(#[from] HeaderError),
    /// This process.
    #[error("failed to start")]
    Start(#[from] io::Error),
    /// The bridge ended early.
    #[error(transparent)]
    Bridge(#[from] BridgeError),
}

/// The settings of a bridge.
#[derive(Serialize, Deserialize)]
struct BridgeSettings {
    url: String,
    sse: bool,
    headers: Vec<(String, String)>,
    tls_fingerprint: Option<Digest>,
    max_message: usize,
    /// Number of the descriptor that tells the wrapper of certificates that are not the pinned one.
    certificates: Option<i32>,
}

/// Bytes in which a certificate is told.
pub(super) const TOLD: usize = "sha256:\n".len() + 64;

/// A certificate, as the wrapper is told of it: no longer than what a pipe takes at once.
pub(super) fn line(shown: &Digest) -> Vec<u8> {
    format!("{shown}\n").into_bytes()
}

/// Builds the value of the variable for this server.
pub(super) fn settings(
    destination: &RemoteDestination,
    headers: &[Header],
    max_message: usize,
    certificates: Option<i32>,
) -> OsString {
    let header = |header: &Header| (header.name().to_owned(), header.value().to_owned());
    let settings = BridgeSettings {
        url: destination.address.as_str().to_owned(),
        sse: destination.way == ServerTransport::Sse,
        headers: headers.iter().map(header).collect(),
        tls_fingerprint: destination.pin,
        max_message,
        certificates,
    };
    let text = serde_json::to_string(&settings).expect("plain values always serialise");
    text.into()
}

/// The descriptor of that number, of which it has another one: it never waits on it.
fn certificates(number: i32) -> io::Result<File> {
    File::options()
        .write(true)
        .custom_flags(OFlag::O_NONBLOCK.bits())
        .open(format!("/proc/self/fd/{number}"))
}

/// Carries messages between standard streams and a server, until one of them ends.
///
/// # Errors
/// Returns an error if it cannot, or has to end early.
pub fn run() -> Result<(), BridgeVerbError> {
    let settings = env::var(SETTINGS).map_err(|_unset| BridgeVerbError::Alone)?;
    let settings: BridgeSettings = serde_json::from_str(&settings).map_err(BridgeVerbError::Settings)?;
    let certificates = settings.certificates.map(certificates).transpose()?;
    // The credentials in its memory and environment are nobody else's.
    prctl::set_dumpable(false).map_err(io::Error::from)?;
    let headers = settings.headers.iter();
    let asking = ServerEndpoint {
        address: Address::new(&settings.url)?,
        headers: headers
            .map(|(name, value)| Header::new(name, value))
            .collect::<Result<_, _>>()?,
        pin: settings.tls_fingerprint,
        max_message: settings.max_message,
    };
    let way = if settings.sse {
        ServerTransport::Sse
    } else {
        ServerTransport::Http
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut hangup = signal(SignalKind::hangup())?;
        let end = async {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
                _ = hangup.recv() => {}
            }
        };
        let input = Receiver::from_owned_fd(io::stdin().as_fd().try_clone_to_owned()?)?;
        let output = Sender::from_owned_fd(io::stdout().as_fd().try_clone_to_owned()?)?;
        let refused = move |shown: &Digest| {
            // What does not get through now is told with the next request.
            if let Some(mut told) = certificates.as_ref() {
                drop(told.write(&line(shown)));
            }
        };
        Ok(bridge(asking, way, input, output, Box::new(refused), end).await?)
    })
}
