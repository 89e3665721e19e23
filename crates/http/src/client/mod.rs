//! A client of MCP servers over HTTP, for all protocol revisions. It lists what a server offers, also that of a server
//! on stdio, and carries the messages of a client that speaks stdio only.

mod address;
mod card;
mod events;
mod fault;
mod header;
mod legacy;
mod list;
mod offer;
mod outline;
mod params;
mod pipes;
mod wire;

#[cfg(test)]
pub(super) mod tests;

pub use self::{
    address::{Address, AddressError},
    card::{PublishedCard, published_card},
    fault::{AnswerFault, ClientError},
    header::{Header, HeaderError},
    list::list,
    offer::{RequestAndAnswer, ServerOffer},
    pipes::list_pipes,
    wire::ServerEndpoint,
};
pub(super) use self::{
    events::{EventContent, Stream, StreamPosition},
    legacy::Mailbox,
    list::{Back, learn, of_session, on_one_line, until_answered},
    outline::{
        ClientMessage, ClientMessageKind, agreed, error, error_of, heard, is_header_mismatch, tells_changes,
        with_error,
    },
    params::ToolHeaders,
    wire::{Body, LAST_EVENT, Reply, Wire},
};

/// The transport of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ServerTransport {
    /// Streamable HTTP; HTTP with server-sent events if that fails in the way that the specification describes.
    #[default]
    Http,
    /// HTTP with server-sent events, the transport of 2024-11-05.
    Sse,
}
