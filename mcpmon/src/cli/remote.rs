//! Options of commands that ask a remote server.

use clap::{Args, ValueEnum};
use mcpmon_model::Digest;

use super::{CliError, ErrorKind};
use crate::app::remote::{DestinationError, Header, HeaderVariable, RemoteDestination, ServerTransport};

/// The options for asking a remote server.
#[derive(Debug, Default, Args)]
pub(super) struct RemoteOptions {
    /// Header of every request; whoever lists processes sees it
    #[arg(long = "header", value_name = "NAME: VALUE", value_parser = str::parse::<Header>)]
    headers: Vec<Header>,
    /// Header whose value is in a variable, such as `Authorization=MY_TOKEN`
    #[arg(long = "header-env", value_name = "NAME=VARIABLE", value_parser = HeaderVariable::parse)]
    variables: Vec<HeaderVariable>,
    /// The only certificate that is accepted, instead of what authorities say
    #[arg(long, value_name = "SHA256", value_parser = str::parse::<Digest>)]
    tls_fingerprint: Option<Digest>,
    /// The transport of the server, where it is not declared
    #[arg(long, value_enum, value_name = "TRANSPORT")]
    transport: Option<Transport>,
}

/// The transport of a server.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Transport {
    /// Streamable HTTP, or what the server takes instead
    Http,
    /// HTTP with server-sent events, of 2024-11-05
    Sse,
}

impl RemoteOptions {
    /// Applies these options to a destination; they override its declaration.
    pub(super) fn over(&self, destination: RemoteDestination) -> Result<RemoteDestination, DestinationError> {
        let way = self.way().unwrap_or(destination.way);
        RemoteDestination { way, ..destination }.pinning(self.tls_fingerprint)
    }

    /// Returns the only certificate that is accepted.
    pub(super) const fn pin(&self) -> Option<Digest> {
        self.tls_fingerprint
    }

    /// Returns the transport.
    pub(super) fn way(&self) -> Option<ServerTransport> {
        self.transport.map(|transport| match transport {
            Transport::Http => ServerTransport::Http,
            Transport::Sse => ServerTransport::Sse,
        })
    }

    /// Returns the headers of every request.
    pub(super) fn headers(&self) -> Result<Vec<Header>, CliError> {
        let mut headers = self.headers.clone();
        for variable in &self.variables {
            let header = variable.header();
            headers.push(header.map_err(|error| CliError::new(ErrorKind::Usage, error))?);
        }
        Ok(headers)
    }

    /// Returns an error if options about a remote server were given, but no server.
    pub(super) fn refuse_without(&self, option: &str) -> Result<(), CliError> {
        let is_given = !self.headers.is_empty()
            || !self.variables.is_empty()
            || self.tls_fingerprint.is_some()
            || self.transport.is_some();
        match is_given {
            false => Ok(()),
            true => Err(CliError::new(
                ErrorKind::Usage,
                anyhow::anyhow!(
                    "--header, --header-env, --tls-fingerprint and --transport are about a remote server: name it \
                     with {option}"
                ),
            )),
        }
    }
}
