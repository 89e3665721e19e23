//! What stands beside a proxy that is measured: programs of the benchmark's own.

use std::net::SocketAddr;

use anyhow::Result;

use super::{Asked, Reply, serve, serve_bare};

/// A program of the benchmark's own.
#[derive(Clone, Copy, Debug, clap::Subcommand)]
pub enum Side {
    /// The far side: it answers at once
    Upstream {
        /// Where to listen
        listen: SocketAddr,
    },
    /// Floor: a reverse proxy that looks at nothing
    Bare {
        /// Where to listen
        listen: SocketAddr,
        /// Whom to ask
        upstream: SocketAddr,
    },
}

impl Side {
    /// Serves without an end; the far side answers with `reply`.
    ///
    /// # Errors
    /// Returns an error if it cannot listen.
    pub fn serve(self, reply: fn(&Asked<'_>) -> Reply) -> Result<()> {
        match self {
            Self::Upstream { listen } => serve(listen, reply),
            Self::Bare { listen, upstream } => serve_bare(listen, upstream),
        }
    }
}
