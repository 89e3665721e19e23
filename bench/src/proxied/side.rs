//! Programs of the benchmark that run beside a measured proxy.

use std::net::SocketAddr;

use anyhow::Result;

use super::{Asked, Reply, serve, serve_bare};

/// A program of the benchmark's own.
#[derive(Clone, Copy, Debug, clap::Subcommand)]
pub enum Side {
    /// The far side: it answers at once
    Upstream {
        /// The address to listen on
        listen: SocketAddr,
    },
    /// Floor: a reverse proxy that looks at nothing
    Bare {
        /// The address to listen on
        listen: SocketAddr,
        /// The address of the upstream
        upstream: SocketAddr,
    },
}

impl Side {
    /// Serves until the process is killed. The far side answers with `reply`.
    ///
    /// # Errors
    /// Returns an error if the program cannot listen.
    pub fn serve(self, reply: fn(&Asked<'_>) -> Reply) -> Result<()> {
        match self {
            Self::Upstream { listen } => serve(listen, reply),
            Self::Bare { listen, upstream } => serve_bare(listen, upstream),
        }
    }
}
