//! Output of the filter; its driver drains it.

use mcpmon_model::Incident;

/// Bytes to be sent, messages to be posted, and what happened.
#[derive(Debug, Default)]
pub struct HttpOutput {
    /// Bytes that continue the response to the client.
    pub to_client: Vec<u8>,
    /// Messages for the server that nobody has posted yet: how something it asked was turned down.
    pub to_server: Vec<String>,
    /// Incidents that are not part of a message.
    pub incidents: Vec<Incident>,
}
