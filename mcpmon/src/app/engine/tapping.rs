//! Selection of the servers that are tapped: those without a wrapper, while the policy has the tap on.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    time::Instant,
};

use mcpmon_detect::session::session;
use mcpmon_engine::MonitoredServer;
use mcpmon_model::{InstanceId, PinKey, ProcessRef, SessionId};

use super::Core;
use crate::app::{
    host,
    tap::{Admission, TapHandle, TappedServer},
};

/// The name of this component in events and `mcpmon status`. It is degraded if servers cannot be tapped although the
/// tap works.
const TAPPED: &str = "tapped servers";

/// Most tapped servers of one user: the kernel's tables have room for 16 such users.
const MAX_SERVERS_OF_USER: usize = 64;

/// The tap, while it is on.
#[derive(Debug, Default)]
pub(super) struct Tapping {
    handle: Option<TapHandle>,
    tapped: BTreeMap<InstanceId, Tapped>,
    /// Servers that are not tapped because their users had too many.
    left_out: BTreeSet<InstanceId>,
}

/// A server that is tapped.
#[derive(Clone, Copy, Debug)]
struct Tapped {
    uid: u32,
    /// True if an ancestor runs this program, which may still claim to be the server's wrapper.
    may_be_wrapped: bool,
}

impl Tapping {
    /// Returns whether one more server of this user may be tapped.
    fn has_share(&self, uid: u32) -> bool {
        self.tapped.values().filter(|tapped| tapped.uid == uid).count() < MAX_SERVERS_OF_USER
    }
}

impl Core {
    /// Switches tapping on or off. Servers that already run are tapped from the middle of their conversations.
    pub(super) fn use_tap(&mut self, handle: Option<TapHandle>) {
        self.tapping = Tapping {
            handle,
            ..Tapping::default()
        };
        let running: Vec<InstanceId> = self.monitor.running().map(|server| server.instance).collect();
        for instance in running {
            self.consider_tapping(instance, false);
        }
    }

    /// Taps a server unless a wrapper started it, or may still claim that.
    pub(super) fn consider_tapping(&mut self, instance: InstanceId, is_new: bool) {
        if self.tapping.handle.is_none() || self.tapping.tapped.contains_key(&instance) {
            return;
        }
        let above = self.starts.descent.above(instance);
        if !self.wrappers.may_cover(&above.processes) && !self.wrappers.cover(&above.processes) {
            self.tap(instance, is_new);
        }
    }

    /// Taps a server that no wrapper started.
    pub(super) fn tap(&mut self, instance: InstanceId, is_new: bool) {
        let Some(handle) = &self.tapping.handle else {
            return;
        };
        if self.tapping.tapped.contains_key(&instance) || self.tapping.left_out.contains(&instance) {
            return;
        }
        let Some(server) = self.monitor.running().find(|server| server.instance == instance) else {
            return;
        };
        let above = self.starts.descent.above(instance);
        let may_be_wrapped = self.wrappers.may_cover(&above.processes);
        let found = above
            .ancestors
            .get(1..)
            .and_then(|above| session(above, None, &host::boot()));
        let (session, agent) = found.map(|session| (session.id, session.agent)).unzip();
        let pids = pids_of(&server);
        let uid = server.uid;
        let has_share = self.tapping.has_share(uid);
        match handle.tap(tapped(server, session, agent, is_new), &pids, has_share) {
            Ok(Admission::Tapped) => {
                let tapped = Tapped { uid, may_be_wrapped };
                self.tapping.tapped.insert(instance, tapped);
            }
            Ok(Admission::LeftOut) => {
                self.tapping.left_out.insert(instance);
            }
            Ok(Admission::Untappable) => {}
            Err(cause) => self.troubles.note(Instant::now(), TAPPED, &cause),
        }
    }

    /// Reports the process that serves to the tap.
    pub(super) fn tapped_serves(&mut self, instance: InstanceId, process: Option<&ProcessRef>) {
        if self.tapping.tapped.contains_key(&instance)
            && let (Some(handle), Some(process)) = (&self.tapping.handle, process)
            && let Err(cause) = handle.served_by(instance, process.clone())
        {
            self.troubles.note(Instant::now(), TAPPED, &cause);
        }
    }

    /// Stops tapping servers that have ended, and those that a wrapper has claimed.
    pub(super) fn release_tapped(&mut self) {
        let Some(handle) = &self.tapping.handle else {
            return;
        };
        let (monitor, wrappers, descent) = (&self.monitor, &self.wrappers, &self.starts.descent);
        let troubles = &mut self.troubles;
        self.tapping
            .left_out
            .retain(|instance| monitor.follows(*instance));
        self.tapping.tapped.retain(|instance, tapped| {
            let follows = monitor.follows(*instance);
            let is_claimed = || tapped.may_be_wrapped && wrappers.cover(&descent.above(*instance).processes);
            let told = match (follows, follows && is_claimed()) {
                (true, false) => return true,
                (true, true) => handle.claimed(*instance),
                (false, _) => handle.release(*instance),
            };
            match told {
                Ok(()) => false,
                Err(cause) => {
                    troubles.note(Instant::now(), TAPPED, &cause);
                    true
                }
            }
        });
    }
}

/// Returns the processes of a server. The one that serves is first, because its streams are the server's and not all
/// processes may be tapped.
fn pids_of(server: &MonitoredServer) -> Vec<u32> {
    let serving = server.process.pid;
    let others = server.members.iter().map(|process| process.pid);
    std::iter::once(serving)
        .chain(others.filter(|pid| *pid != serving))
        .collect()
}

fn tapped(
    server: MonitoredServer,
    session: Option<SessionId>,
    agent: Option<String>,
    is_new: bool,
) -> TappedServer {
    let pid = server.process.pid;
    TappedServer {
        instance: server.instance,
        process: ProcessRef {
            pid,
            exe: fs::read_link(format!("/proc/{pid}/exe")).ok(),
            comm: host::stat(pid).map(|stat| stat.comm),
            uid: Some(server.uid),
        },
        identity: PinKey {
            server: server.server,
            name: server.name,
            uid: server.uid,
        },
        session,
        agent,
        is_new,
    }
}
