//! Options of commands that ask a remote server.

use clap::{Args, ValueEnum};
use mcpmon_model::Digest;

use super::{CliError, ErrorKind};
use crate::agent::remote::{Destination, DestinationError, Header, HeaderVariable, Way};

/// How a remote server is asked.
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
    /// How the server is spoken to, where it is not declared
    #[arg(long, value_enum, value_name = "TRANSPORT")]
    transport: Option<Transport>,
}

/// How a server is spoken to.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Transport {
    /// Streamable HTTP, or what the server takes instead
    Http,
    /// HTTP with server-sent events, of 2024-11-05
    Sse,
}

impl RemoteOptions {
    /// What is said of a destination wins over what is declared.
    pub(super) fn over(&self, destination: Destination) -> Result<Destination, DestinationError> {
        let way = self.way().unwrap_or(destination.way);
        Destination { way, ..destination }.pinning(self.tls_fingerprint)
    }

    /// The only certificate that is accepted.
    pub(super) const fn pin(&self) -> Option<Digest> {
        self.tls_fingerprint
    }

    /// How the server is spoken to.
    pub(super) fn way(&self) -> Option<Way> {
        self.transport.map(|transport| match transport {
            Transport::Http => Way::Http,
            Transport::Sse => Way::Sse,
        })
    }

    /// What goes with every request.
    pub(super) fn headers(&self) -> Result<Vec<Header>, CliError> {
        let mut headers = self.headers.clone();
        for variable in &self.variables {
            let header = variable.header();
            headers.push(header.map_err(|error| CliError::new(ErrorKind::Usage, error))?);
        }
        Ok(headers)
    }

    /// That they say something about a server, and none is named.
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
