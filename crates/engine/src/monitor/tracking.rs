//! Tracking of the processes of servers, and of the egress lists that hold for them.

use mcpmon_model::{InstanceId, ProcessId};
use mcpmon_policy::network::table::{LIST_KILLED, LIST_PENDING};

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

    /// Returns the lists that apply to an instance. The list of an enclosing server applies too: a server must not
    /// reach more than the one that started it.
    pub(super) fn egress_lists(&self, number: InstanceId) -> [u32; 2] {
        if self.is_stopped(number) {
            return [LIST_KILLED, 0];
        }
        let Some(instance) = self.instances.get(number) else {
            return [0; 2];
        };
        let own = [&instance.server, &instance.derived];
        let servers = instance.inside.iter().chain(own);
        all_of(servers.filter_map(|server| self.egress.get(server)).copied())
    }
}

/// Returns two lists that together refuse everything that any of these refuses. With more than two, the second one is
/// the strictest union of all lists, which may refuse more.
pub fn all_of(lists: impl IntoIterator<Item = u32>) -> [u32; 2] {
    let mut held: [u32; 2] = [0; 2];
    for list in lists {
        if list == 0 || held.contains(&list) {
            continue;
        }
        match held.iter_mut().find(|free| **free == 0) {
            Some(free) => *free = list,
            None => held[1] = LIST_PENDING,
        }
    }
    held
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case(&[] => [0, 0]; "none")]
    #[test_case(&[0, 4, 0] => [4, 0]; "one")]
    #[test_case(&[4, 0, 4, 5] => [4, 5]; "the same twice")]
    #[test_case(&[4, 5, 6] => [4, LIST_PENDING]; "of three the union of all")]
    #[test_case(&[4, 5, 6, 5, 7] => [4, LIST_PENDING]; "of more")]
    #[test_case(&[4, LIST_PENDING, 6] => [4, LIST_PENDING]; "with those of a forgotten server")]
    fn two_lists_stand_for_all(lists: &[u32]) -> [u32; 2] {
        all_of(lists.iter().copied())
    }
}
