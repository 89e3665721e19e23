//! The kill switch: what a person says reaches wrappers by the store, and processes by the engine.

use super::Daemon;
use crate::agent::{control::Answer, kill::Word};

impl Daemon {
    /// Stops a session or the host, or lets it go on. Calls stop first: wrappers read what the store says.
    pub(super) async fn kill(&mut self, word: Word) -> Answer {
        let (event, kills) = match self.wrappers.kill(word).await {
            Ok(done) => done,
            Err(error) => return Answer::Error(error),
        };
        self.recorder.push(event);
        let before = std::mem::replace(&mut self.kills, kills);
        match self.install().await {
            Ok(()) => Answer::Done,
            Err(error) => {
                // The store has it: calls are stopped, and a restart tries the kernel again.
                self.note("kill switch", Some(format!("connections go on: {error}")));
                self.kills = before;
                Answer::Error(format!("calls are stopped, connections are not: {error}"))
            }
        }
    }
}
