//! Servers that are not tapped any more: parts of their messages that are read afterwards are counted, but not judged.
//!
//! There can be such parts because the ring looks empty while a record in it is still being written, even if there are
//! more records after that one.

use std::collections::VecDeque;

use mcpmon_model::{Event, Timestamp};

use super::{
    TapPart,
    conversation::{LostPart, TappedServer},
};

/// Most servers that are remembered; for older ones only the sum is kept.
const MAX_DEPARTED: usize = 256;

/// The servers whose tapping ended last.
#[derive(Debug, Default)]
pub(super) struct DepartedServers {
    latest: VecDeque<DepartedServer>,
    /// Bytes that were read too late, of all servers.
    late: u64,
}

#[derive(Debug)]
struct DepartedServer {
    server: TappedServer,
    /// True if a wrapper has claimed it: its later messages are in the wrapper's record.
    is_wrapped: bool,
    /// Bytes that were read too late and are not reported yet.
    late: u64,
}

impl DepartedServers {
    /// Remembers a server whose tapping ends.
    pub(super) fn add(&mut self, server: TappedServer, is_wrapped: bool) {
        if self.latest.len() >= MAX_DEPARTED {
            self.latest.pop_front();
        }
        self.latest.push_back(DepartedServer {
            server,
            is_wrapped,
            late: 0,
        });
    }

    /// Counts a part that is not judged.
    pub(super) fn count(&mut self, part: &TapPart<'_>) {
        let mut latest = self.latest.iter_mut().rev();
        let of = latest.find(|departed| departed.server.instance.0 == part.instance);
        let bytes = part.bytes.len() as u64;
        match of {
            Some(departed) if departed.is_wrapped => return,
            Some(departed) => departed.late += bytes,
            None => {}
        }
        self.late += bytes;
    }

    /// Returns the bytes that were read too late, of all servers.
    pub(super) const fn late(&self) -> u64 {
        self.late
    }

    /// Returns the events about parts that were read too late since the last call.
    pub(super) fn tell_late(&mut self, now: Timestamp) -> impl Iterator<Item = Event> {
        let departed = self.latest.iter_mut().filter(|departed| departed.late > 0);
        departed.map(move |departed| {
            let count = std::mem::take(&mut departed.late);
            LostPart::Bytes.event(now, &departed.server, count)
        })
    }
}

#[cfg(test)]
mod tests {
    use mcpmon_kernel::tap::TapSide;
    use mcpmon_model::{EventKind, InstanceId, PinKey, ProcessRef, ServerId};

    use super::*;

    fn server(instance: u32) -> TappedServer {
        let server = ServerId::new(format!("server-{instance}")).expect("an id");
        TappedServer {
            instance: InstanceId(instance),
            identity: PinKey {
                name: server.to_string(),
                server,
                uid: 1000,
            },
            session: None,
            agent: None,
            process: ProcessRef::default(),
            is_new: true,
        }
    }

    fn part(instance: u32) -> TapPart<'static> {
        TapPart {
            time: 0,
            instance,
            side: TapSide::Output,
            thread: 1,
            lost: 0,
            is_last: true,
            bytes: b"late\n",
        }
    }

    fn told(departed: &mut DepartedServers) -> Vec<(String, u64)> {
        let events = departed.tell_late(Timestamp(1)).map(|event| {
            let EventKind::EventsLost { count, .. } = event.kind else {
                panic!("{:?}", event.kind)
            };
            (
                event.server_id.map(|id| id.to_string()).unwrap_or_default(),
                count,
            )
        });
        events.collect()
    }

    #[test]
    fn what_comes_after_the_end_is_counted_once_and_of_its_server() {
        let mut departed = DepartedServers::default();
        departed.add(server(1), false);
        departed.add(server(2), true);
        for instance in [1, 1, 2] {
            departed.count(&part(instance));
        }
        assert_eq!(told(&mut departed), [("server-1".to_owned(), 10)]);
        assert_eq!(told(&mut departed), [], "told once");
        assert_eq!(departed.late(), 10, "what a wrapper carries is in its record");
    }

    #[test]
    fn of_servers_long_gone_the_sum_is_known() {
        let mut departed = DepartedServers::default();
        let count = u32::try_from(MAX_DEPARTED).unwrap();
        (0..=count).for_each(|instance| departed.add(server(instance), false));
        departed.count(&part(0));
        assert_eq!((told(&mut departed), departed.late()), (vec![], 5));
        assert_eq!(departed.latest.len(), MAX_DEPARTED);
    }
}
