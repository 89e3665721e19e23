//! On which lane a process is served that speaks to MCP servers. What it says is of one session, and whoever judges it
//! has that session for as long as it takes: on one thread its connections come one after the other, while two threads
//! would wait for each other.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use mcpmon_model::ProcessId;

use super::Peer;

/// Processes that are remembered; others are served wherever there is least to do.
const MOST: usize = 64;

/// Lanes by process, the one that connected last first. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Homes {
    lanes: usize,
    known: Arc<Mutex<VecDeque<(ProcessId, usize)>>>,
}

impl Homes {
    /// On so many lanes.
    pub(super) fn of_lanes(lanes: usize) -> Self {
        Self {
            lanes,
            ..Self::default()
        }
    }

    /// Returns the worker for the next connection of `peer`, if one of its process talks to MCP servers.
    pub(super) fn of(&self, peer: &Peer) -> Option<usize> {
        let process = process(peer)?;
        let mut homes = self.lock();
        let at = homes.iter().position(|(known, _)| *known == process)?;
        let home = homes.remove(at)?;
        homes.push_front(home);
        Some(home.1)
    }

    /// `peer` speaks to an MCP server on this lane: its process is at home there, unless it is elsewhere already, or
    /// fewer are at home on another.
    pub(super) fn settle(&self, peer: &Peer, lane: usize) {
        let Some(process) = process(peer) else {
            return;
        };
        let mut homes = self.lock();
        if homes.iter().any(|(known, _)| *known == process) {
            return;
        }
        let at_home = |lane: usize| homes.iter().filter(|(_, home)| *home == lane).count();
        // The least, and this one before others: its connection is there.
        let least = (0..self.lanes).min_by_key(|other| (at_home(*other), *other != lane));
        let home = least.unwrap_or(lane);
        homes.truncate(MOST - 1);
        homes.push_front((process, home));
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(ProcessId, usize)>> {
        // No step of ours leaves it half changed.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the process of the connection, if that is known without waiting.
fn process(peer: &Peer) -> Option<ProcessId> {
    peer.known()?.process
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use super::*;

    fn own() -> Peer {
        Peer::at_socket(None, Some(std::process::id()))
    }

    fn child() -> Child {
        let mut command = Command::new("cat");
        command.stdin(Stdio::piped()).spawn().expect("cat")
    }

    #[test]
    fn a_process_stays_where_it_spoke_first() {
        let homes = Homes::of_lanes(2);
        assert_eq!(homes.of(&own()), None, "it said nothing yet");
        homes.settle(&own(), 1);
        homes.settle(&own(), 0);
        assert_eq!(homes.of(&own()), Some(1));
        let mut other = child();
        let peer = Peer::at_socket(None, Some(other.id()));
        assert_eq!(homes.of(&peer), None, "another process");
        other.kill().expect("it is ours");
        other.wait().expect("it ends");
    }

    #[test]
    fn processes_are_at_home_on_all_lanes() {
        let homes = Homes::of_lanes(2);
        homes.settle(&own(), 0);
        let mut other = child();
        let peer = Peer::at_socket(None, Some(other.id()));
        homes.settle(&peer, 0);
        assert_eq!((homes.of(&own()), homes.of(&peer)), (Some(0), Some(1)));
        other.kill().expect("it is ours");
        other.wait().expect("it ends");
    }

    #[test]
    fn somebody_elsewhere_has_none() {
        let homes = Homes::default();
        homes.settle(&Peer::default(), 1);
        assert_eq!(homes.of(&Peer::default()), None);
        assert!(homes.lock().is_empty());
    }

    #[test]
    fn those_that_connected_last_are_remembered() {
        let homes = Homes::default();
        let process = |pid| ProcessId { pid, start: 0 };
        homes.settle(&own(), 1);
        homes
            .lock()
            .extend((0..).map(|pid| (process(pid), 0)).take(MOST - 1));
        let mut other = child();
        homes.settle(&Peer::at_socket(None, Some(other.id())), 1);
        assert_eq!(homes.lock().len(), MOST);
        assert_eq!(homes.of(&own()), Some(1), "another one made room");
        other.kill().expect("it is ours");
        other.wait().expect("it ends");
    }
}
