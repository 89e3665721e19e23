//! The kill switch: what a person says reaches wrappers by the store, and processes by the engine.

use super::Daemon;
use crate::agent::{control::DaemonAnswer, kill::KillOrder};

impl Daemon {
    /// Stops a session or the host, or lets it go on. Calls stop first: wrappers read what the store says.
    pub(super) async fn kill(&mut self, word: KillOrder) -> DaemonAnswer {
        let (event, kills) = match self.wrappers.kill(word).await {
            Ok(done) => done,
            Err(error) => return DaemonAnswer::Error(error),
        };
        self.recorder.push(event);
        let before = std::mem::replace(&mut self.kills, kills);
        match self.install().await {
            Ok(()) => DaemonAnswer::Done,
            Err(error) => {
                // The store has it: calls are stopped, and a restart tries the kernel again.
                self.note("kill switch", Some(format!("connections go on: {error}")));
                self.kills = before;
                DaemonAnswer::Error(format!("calls are stopped, connections are not: {error}"))
            }
        }
    }
}
