//! Tracking of the processes of servers, and of the egress lists that hold for them.

use mcpmon_model::{InstanceId, ProcessId};
use mcpmon_policy::network::table::LIST_KILLED;

use super::Monitor;
use crate::effect::{Judgement, KernelEffect};

impl Monitor {
    /// Orders for every member, and for what its members forked before they were known.
    pub(super) fn track_members(&mut self, number: InstanceId, judgement: &mut Judgement) {
        let members: Vec<ProcessId> = match self.instances.get(number) {
            Some(instance) => instance.members().iter().copied().collect(),
            None => return,
        };
        for process in members {
            judgement.kernel_effects.push(self.track(process, number));
            for descendant in self.lineage.descendants(process) {
                if self.instances.of(descendant).is_none() {
                    self.instances.join(number, descendant);
                    judgement.kernel_effects.push(self.track(descendant, number));
                }
            }
        }
    }

    pub(super) fn track(&self, process: ProcessId, number: InstanceId) -> KernelEffect {
        KernelEffect::Track {
            process,
            instance: number,
            egress: self.egress_lists(number),
        }
    }

    /// The lists that hold for an instance. A server inside another is held to that one's list first: it must not
    /// reach more than what started it. Beyond two lists the innermost give way.
    pub(super) fn egress_lists(&self, number: InstanceId) -> [u32; 2] {
        if self.is_stopped(number) {
            return [LIST_KILLED, 0];
        }
        let Some(instance) = self.instances.get(number) else {
            return [0; 2];
        };
        let servers = instance.inside.iter().chain([&instance.server]);
        let mut lists: Vec<u32> = Vec::new();
        for list in servers.filter_map(|server| self.egress.get(server)) {
            if !lists.contains(list) {
                lists.push(*list);
            }
        }
        let mut lists = lists.into_iter();
        [lists.next().unwrap_or(0), lists.next().unwrap_or(0)]
    }
}
