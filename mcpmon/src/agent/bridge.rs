//! `mcpmon bridge`: the process behind `mcpmon wrap --url` that stands in the place of a server's own. It is told what
//! to do by a variable: whoever lists processes sees no secret.

use std::{env, ffi::OsString, io, os::fd::AsFd as _};

use mcpmon_core::model::Digest;
use nix::sys::prctl;
use serde::{Deserialize, Serialize};
use tokio::{
    net::unix::pipe::{Receiver, Sender},
    signal::unix::{SignalKind, signal},
};

use super::remote::{Destination, Header, HeaderError, Way};
use crate::intercept::http::{
    bridge::{BridgeError, bridge},
    client::{Address, AddressError, Asking},
};

/// The verb.
pub const VERB: &str = "bridge";
/// The variable that says what to do.
pub const SETTINGS: &str = "MCPMON_BRIDGE";

/// Why there is no bridge, or no more.
#[derive(Debug, thiserror::Error)]
pub enum BridgeVerbError {
    /// It was started by hand.
    #[error("this is a part of `mcpmon wrap --url URL`, which starts it")]
    Alone,
    /// What the variable says.
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
    /// It ended early.
    #[error(transparent)]
    Bridge(#[from] BridgeError),
}

/// What a bridge is told.
#[derive(Serialize, Deserialize)]
struct Settings {
    url: String,
    sse: bool,
    headers: Vec<(String, String)>,
    tls_fingerprint: Option<Digest>,
    max_message: usize,
}

/// What the variable is to say for this server.
#[must_use]
pub(super) fn settings(destination: &Destination, headers: &[Header], max_message: usize) -> OsString {
    let header = |header: &Header| (header.name().to_owned(), header.value().to_owned());
    let settings = Settings {
        url: destination.address.as_str().to_owned(),
        sse: destination.way == Way::Sse,
        headers: headers.iter().map(header).collect(),
        tls_fingerprint: destination.pin,
        max_message,
    };
    let text = serde_json::to_string(&settings).expect("plain values always serialise");
    text.into()
}

/// Carries messages between standard streams and a server, until one of them ends.
///
/// # Errors
/// Where it cannot, or has to end early.
pub fn run() -> Result<(), BridgeVerbError> {
    // The credentials in its memory and environment are nobody else's.
    prctl::set_dumpable(false).map_err(io::Error::from)?;
    let settings = env::var(SETTINGS).map_err(|_unset| BridgeVerbError::Alone)?;
    let settings: Settings = serde_json::from_str(&settings).map_err(BridgeVerbError::Settings)?;
    let headers = settings.headers.iter();
    let asking = Asking {
        address: Address::new(&settings.url)?,
        headers: headers
            .map(|(name, value)| Header::new(name, value))
            .collect::<Result<_, _>>()?,
        pin: settings.tls_fingerprint,
        max_message: settings.max_message,
    };
    let way = if settings.sse { Way::Sse } else { Way::Http };
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
        Ok(bridge(asking, way, input, output, end).await?)
    })
}
