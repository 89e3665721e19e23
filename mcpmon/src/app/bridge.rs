//! `mcpmon bridge`: the process that `mcpmon wrap --url` starts in place of a local server. Its settings come in an
//! environment variable, so that a list of processes shows no secret.

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

/// The subcommand.
pub const VERB: &str = "bridge";
/// The variable that holds the settings.
pub const SETTINGS: &str = "MCPMON_BRIDGE";

/// The reason why the bridge did not start or ended.
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
    /// This process could not set itself up.
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
    /// Number of the descriptor on which the wrapper reads of certificates that are not the pinned one.
    certificates: Option<i32>,
}

/// Length of a line about a certificate, bytes.
pub(super) const CERTIFICATE_DIGEST_BYTES: usize = "sha256:\n".len() + 64;

/// Formats a certificate for the wrapper; the line fits in one atomic write to a pipe.
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

/// Opens the descriptor `number` anew, as one that never blocks; the flags of the original do not change.
fn certificates(number: i32) -> io::Result<File> {
    File::options()
        .write(true)
        .custom_flags(OFlag::O_NONBLOCK.bits())
        .open(format!("/proc/self/fd/{number}"))
}

/// Carries messages between the standard streams and a server, until one of them ends.
///
/// # Errors
/// Returns an error if the bridge cannot start, or has to end early.
pub fn run() -> Result<(), BridgeVerbError> {
    let settings = env::var(SETTINGS).map_err(|_unset| BridgeVerbError::Alone)?;
    let settings: BridgeSettings = serde_json::from_str(&settings).map_err(BridgeVerbError::Settings)?;
    let certificates = settings.certificates.map(certificates).transpose()?;
    // Other processes of this user must not read the credentials in its memory and environment.
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
            // A line that is not written now is written again at the next request.
            if let Some(mut told) = certificates.as_ref() {
                drop(told.write(&line(shown)));
            }
        };
        Ok(bridge(asking, way, input, output, Box::new(refused), end).await?)
    })
}
