//! Output of the filter; its driver drains it.

use mcpmon_model::Incident;

/// Bytes to send, messages to post, and incidents.
#[derive(Debug, Default)]
pub struct HttpOutput {
    /// Bytes that continue the response to the client.
    pub to_client: Vec<u8>,
    /// Messages that still have to be posted to the server: the refusals of its requests.
    pub to_server: Vec<String>,
    /// Incidents that are not part of a message.
    pub incidents: Vec<Incident>,
}
