//! What the filter has to say; whoever drives it drains this.

use mcpmon_model::Incident;

/// Bytes to be sent, messages to be posted, and what happened.
#[derive(Debug, Default)]
pub struct Output {
    /// What the response to the client goes on with.
    pub to_client: Vec<u8>,
    /// Messages for the server that nobody has posted yet: how something it asked was turned down.
    pub to_server: Vec<String>,
    /// What happened that no message tells.
    pub incidents: Vec<Incident>,
}
