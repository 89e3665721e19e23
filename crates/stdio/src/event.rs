//! The events of a relay, and the outcomes of its conversation.

use std::io;

use mcpmon_model::Side;
use nix::errno::Errno;

use super::end::ProcessEnd;

/// Something that happened between a client and a server; `T` is the result of the check of the server's files.
#[derive(Debug)]
pub enum RelayEvent<'r, T> {
    /// A side wrote these bytes. The other side gets only the bytes that are given to [`Relay::send`](super::Relay::send).
    Received(Side, &'r [u8]),
    /// A side has closed its end.
    Closed(Side),
    /// The result of the check of the server's files. [`Relay::refuse`](super::Relay::refuse) stops the server.
    Checked(T),
    /// The same result, after the server has ended.
    CheckedLate(T),
    /// The server was killed by `SIGKILL`. [`Relay::refuse`](super::Relay::refuse) keeps its client, so that the client
    /// can get the reason.
    Killed,
    /// A second has passed.
    Tick {
        /// True if no message has passed for a while, so that memory can be given back.
        is_quiet: bool,
    },
    /// The conversation is over, and no process of the server is left.
    Finished(RelayOutcome),
}

/// The end of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelayOutcome {
    /// The server ended.
    Ended(ProcessEnd),
    /// The client is gone, and the server did not end; it was killed.
    Abandoned,
    /// The watcher was killed, and the server with it.
    Unwatched,
}

/// The reason why a conversation could not continue; the server was killed.
#[derive(Debug, thiserror::Error)]
pub enum RelayError {
    /// A descriptor cannot be polled, read or duplicated.
    #[error("cannot relay between client and server")]
    Io(#[from] io::Error),
}

impl From<Errno> for RelayError {
    fn from(errno: Errno) -> Self {
        Self::Io(errno.into())
    }
}
