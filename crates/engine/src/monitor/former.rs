//! Servers of an earlier monitor, whose processes the kernel still holds to their rules.

use std::collections::BTreeMap;

use mcpmon_model::{InstanceId, Package, ProcessId, ServerId};
use mcpmon_policy::network::table::RuleInfo;
use serde::{Deserialize, Serialize};

use super::Monitor;
use crate::{effect::Judgement, instances::Instance};

/// A server that an earlier monitor followed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Former {
    /// Its name.
    pub server: ServerId,
    /// The id that is derived from its launch; `None` in the state of an earlier version.
    #[serde(default)]
    pub derived: Option<ServerId>,
    /// Package, module, image or program.
    pub name: String,
    /// The package of its program; `None` if it is not known, or in the state of an earlier version.
    #[serde(default)]
    pub package: Option<Package>,
    /// Servers whose process trees it lay in, the outermost first.
    pub inside: Vec<ServerId>,
    /// Real user id of its launch.
    pub uid: u32,
}

impl Monitor {
    /// Loads the servers that an earlier monitor followed, and the rules that records of its time name. `last` is the
    /// highest number that a process still has: new launches get higher ones.
    pub fn remember(
        &mut self,
        former: BTreeMap<InstanceId, Former>,
        rules: BTreeMap<u32, RuleInfo>,
        last: InstanceId,
    ) {
        let known = former.keys().next_back().copied().unwrap_or(InstanceId(0));
        self.instances.number_from(last.max(known));
        self.former = former;
        self.rules.remember(rules);
    }

    /// Follows a former server again, by its remaining processes that were not recognised themselves. Does nothing if
    /// the server is not known.
    pub fn restore(&mut self, number: InstanceId, members: &[ProcessId]) -> Judgement {
        let mut judgement = Judgement::default();
        let (Some(former), Some(first)) = (self.former.get(&number), members.first()) else {
            return judgement;
        };
        if !self
            .instances
            .restore(number, Instance::restored(former.clone(), *first))
        {
            return judgement;
        }
        for process in members {
            self.instances.join(number, *process);
        }
        self.track_members(number, &mut judgement);
        judgement
    }

    /// Returns every server that is followed now, for a later monitor.
    pub fn followed(&self) -> impl Iterator<Item = (InstanceId, Former)> {
        self.instances.iter().map(|(number, instance)| {
            let former = Former {
                server: instance.server.clone(),
                derived: Some(instance.derived.clone()),
                name: instance.name.clone(),
                package: instance.package.clone(),
                inside: instance.inside.clone(),
                uid: instance.uid,
            };
            (number, former)
        })
    }

    /// Returns the package of a server that is followed now, or was followed by an earlier monitor.
    pub(super) fn package_of(&self, number: InstanceId) -> Option<&Package> {
        let followed = self.instances.get(number).map(|instance| &instance.package);
        followed
            .or_else(|| self.former.get(&number).map(|former| &former.package))?
            .as_ref()
    }

    /// Returns the name of a server that is followed now, or was followed by an earlier monitor.
    pub fn server_named(&self, number: InstanceId) -> Option<&ServerId> {
        let followed = self.instances.get(number).map(|instance| &instance.server);
        followed.or_else(|| self.former.get(&number).map(|former| &former.server))
    }
}
