//! Output of a filter; its driver drains it.

use mcpmon_model::{Incident, Side};

/// Bytes to write, and incidents.
#[derive(Debug, Default)]
pub struct StdioOutput {
    /// For the server.
    pub to_server: Vec<u8>,
    /// For the client.
    pub to_client: Vec<u8>,
    /// Server output that is not a message, for standard error.
    pub noise: Vec<u8>,
    /// Incidents that are not part of a message.
    pub incidents: Vec<Incident>,
}

impl StdioOutput {
    /// Sends bytes on to the side that did not write them.
    pub(super) fn forward(&mut self, from: Side, bytes: &[u8]) {
        match from {
            Side::Client => self.to_server.extend_from_slice(bytes),
            Side::Server => self.to_client.extend_from_slice(bytes),
        }
    }

    /// Sends a line on to the side that did not write it.
    pub(super) fn forward_line(&mut self, from: Side, line: &str) {
        self.forward(from, line.as_bytes());
        self.forward(from, b"\n");
    }

    /// Sends a line back to the side that wrote.
    pub(super) fn answer(&mut self, from: Side, line: &str) {
        let other = match from {
            Side::Client => Side::Server,
            Side::Server => Side::Client,
        };
        self.forward_line(other, line);
    }

    /// Diverts output of a server that is no message.
    pub(super) fn divert(&mut self, line: &[u8]) {
        self.noise.extend_from_slice(line);
        if !line.ends_with(b"\n") {
            self.noise.push(b'\n');
        }
        self.incidents.push(Incident::Noise { bytes: line.len() });
    }
}
