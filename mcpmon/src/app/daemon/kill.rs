//! The kill switch in the daemon: an order reaches wrappers by way of the store, and processes by way of the engine.

use super::Daemon;
use crate::app::{control::DaemonAnswer, kill::KillOrder};

impl Daemon {
    /// Stops a session or the host, or lifts that. Calls stop first, because wrappers read the store.
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
                // The order is in the store: calls are stopped, and the daemon tries the kernel again when it is
                // restarted.
                self.note("kill switch", Some(format!("connections go on: {error}")));
                self.kills = before;
                DaemonAnswer::Error(format!("calls are stopped, connections are not: {error}"))
            }
        }
    }
}
