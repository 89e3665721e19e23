//! The address lists in the kernel's tables: a new list is written to the unused copy, then the copies are swapped by
//! one store.

use std::collections::BTreeSet;

use aya::{
    Ebpf,
    maps::{
        Array, HashMap, MapData, MapError,
        lpm_trie::{Key, LpmTrie},
    },
};
use mcpmon_common::{
    limits::{NETWORK_ENTRIES, PORT_ENTRIES},
    watch::{
        self, Control, Key4, Key6, LIST_BITS, LIST_FIRST_SERVER, LIST_HOST, LIST_PENDING, NetworkEntry,
        PortKey,
    },
};
use mcpmon_policy::network::table::{self, TableVerdict, Tables};

use super::{
    links::Links,
    programs::EGRESS,
    sensor::{SensorError, take},
    sys::wait_for_running_programs,
};

// The engine numbers lists and rules without knowing the ABI; both definitions must agree.
const _: () = {
    assert!(LIST_HOST == table::LIST_HOST && LIST_PENDING == table::LIST_PENDING);
    assert!(LIST_FIRST_SERVER == table::LIST_FIRST_SERVER);
    assert!(watch::LIST_PROXIED == table::LIST_PROXIED);
    assert!(watch::RULE_CANARY == table::RULE_CANARY && watch::RULE_FIRST == table::RULE_FIRST);
    assert!(
        NETWORK_ENTRIES as usize == table::MAX_ENTRIES && PORT_ENTRIES as usize == table::MAX_PORT_ENTRIES
    );
};

/// The effect of refusals: enforced, or only reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enforcement {
    /// Refused connections fail with `EPERM`.
    Enforce,
    /// Connections pass and are reported; only the self-test's address is refused.
    Observe,
}

/// The kernel's address tables.
#[expect(missing_debug_implementations, reason = "aya's typed maps have none")]
pub struct AddressTables {
    control: Array<MapData, Control>,
    in_force: Copy,
    idle: Copy,
    word: u64,
    /// The links, to attach the program for packets.
    links: Option<Links>,
    /// True if these tables need the program for packets.
    packets_judged: bool,
}

/// One of the two copies.
struct Copy {
    selector: u64,
    v4: LpmTrie<MapData, Key4, NetworkEntry>,
    v6: LpmTrie<MapData, Key6, NetworkEntry>,
    ports: HashMap<MapData, PortKey, NetworkEntry>,
}

/// The reason why a list could not be installed; the previous one stays in force.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// A table refused an entry.
    #[error("failed to write the kernel's {table} table")]
    Write {
        /// The name of the table.
        table: &'static str,
        /// The kernel's answer.
        #[source]
        source: MapError,
    },
    /// The swap itself failed.
    #[error("failed to switch to the new address list")]
    Switch(#[source] MapError),
}

impl AddressTables {
    pub(super) fn take(ebpf: &mut Ebpf) -> Result<Self, SensorError> {
        let mut copy = |suffix: &str, selector| {
            Ok::<_, SensorError>(Copy {
                selector,
                v4: take(ebpf, &format!("NETWORK4_{suffix}"), LpmTrie::try_from)?,
                v6: take(ebpf, &format!("NETWORK6_{suffix}"), LpmTrie::try_from)?,
                ports: take(ebpf, &format!("PORTS_{suffix}"), HashMap::try_from)?,
            })
        };
        let (first, second) = (copy("A", 0)?, copy("B", Control::TABLE_B)?);
        let control: Array<_, Control> = take(ebpf, "CONTROL", Array::try_from)?;
        // An earlier daemon's list stays in force until there is another.
        let word = control.get(&0, 0).map_or(0, |control| control.word);
        let (in_force, idle) = if word & Control::TABLE_B == 0 {
            (first, second)
        } else {
            (second, first)
        };
        Ok(Self {
            control,
            in_force,
            idle,
            word,
            links: None,
            packets_judged: false,
        })
    }

    /// Attaches the program for packets whenever a list refuses addresses. An earlier daemon may have attached it.
    pub(super) fn attach_packets_by(&mut self, links: Links) {
        self.packets_judged = links.is_required(EGRESS);
        self.links = Some(links);
    }

    /// Attaches the program for packets, or detaches it: every packet of the host costs its run.
    fn judge_packets(&mut self, is_needed: bool) {
        let Some(links) = &self.links else { return };
        match (self.packets_judged, is_needed) {
            (false, true) => links.require(EGRESS),
            (true, false) => {
                if let Err(error) = links.release(EGRESS) {
                    tracing::warn!(%error, "the program for packets stays attached, and finds nothing to refuse");
                }
            }
            (false, false) | (true, true) => {}
        }
        self.packets_judged = is_needed;
    }

    /// Puts `tables` in force. Every connection is judged either by the old list or by the new one, never by a mixture
    /// or by none.
    ///
    /// # Errors
    /// Returns an error if the kernel refuses an entry; the previous list stays in force.
    pub fn install(&mut self, tables: &Tables, enforcement: Enforcement) -> Result<(), InstallError> {
        if let Err(error) = self.idle.fill(tables) {
            self.idle.clear();
            return Err(error);
        }
        let enforce = match enforcement {
            Enforcement::Enforce => Control::ENFORCE,
            Enforcement::Observe => 0,
        };
        let refusals = tables.refusals();
        let bits = [
            (!tables.egress.is_empty(), Control::EGRESS),
            (refusals.host, Control::DENY_HOST),
            (refusals.agents, Control::DENY_AGENTS),
            (refusals.lists, Control::DENY_LISTS),
        ];
        let in_force = bits.iter().filter(|(is_set, _)| *is_set);
        let word = in_force.fold(self.idle.selector | enforce, |word, (_, bit)| word | bit);
        let packets_judged = word & Control::DENY != 0 && word & Control::ENFORCE != 0;
        if packets_judged {
            self.judge_packets(true);
        }
        self.switch(word)?;
        self.judge_packets(packets_judged);
        std::mem::swap(&mut self.in_force, &mut self.idle);
        if let Err(error) = wait_for_running_programs() {
            // Without the barrier, a running program may still read the old copy for a moment. Leave it unchanged until
            // the next list, which is at least a resolve interval away.
            tracing::debug!(%error, "no memory barrier: the old address list is cleared later");
            return Ok(());
        }
        self.idle.clear();
        Ok(())
    }

    /// Ends the restriction of processes that are not judged yet, until tables are installed again. The lists of servers
    /// stay in force.
    ///
    /// # Errors
    /// Returns an error if the kernel refuses the new control word.
    pub fn lift_pending(&mut self) -> Result<(), InstallError> {
        self.switch(self.word & !Control::EGRESS)
    }

    fn switch(&mut self, word: u64) -> Result<(), InstallError> {
        self.control
            .set(0, Control { word }, 0)
            .map_err(InstallError::Switch)?;
        self.word = word;
        Ok(())
    }

    /// Returns the control word in force.
    pub const fn word(&self) -> u64 {
        self.word
    }
}

impl Copy {
    fn fill(&mut self, tables: &Tables) -> Result<(), InstallError> {
        self.clear();
        let failed = |table| move |source| InstallError::Write { table, source };
        let refusing = refusing_port_sets(tables);
        for ((set, port), verdict) in &tables.ports {
            let key = PortKey {
                set: port_key(*set, &refusing),
                port: *port,
                reserved: 0,
            };
            self.ports
                .insert(key, entry(*verdict, 0), 0)
                .map_err(failed("port"))?;
        }
        for ((list, first, prefix), found) in &tables.v4 {
            let key = Key4 {
                list: list.to_be_bytes(),
                address: first.octets(),
            };
            let key = Key::new(LIST_BITS + u32::from(*prefix), key);
            self.v4
                .insert(&key, entry(found.verdict, port_key(found.ports, &refusing)), 0)
                .map_err(failed("IPv4"))?;
        }
        for ((list, first, prefix), found) in &tables.v6 {
            let key = Key6 {
                list: list.to_be_bytes(),
                address: first.octets(),
            };
            let key = Key::new(LIST_BITS + u32::from(*prefix), key);
            self.v6
                .insert(&key, entry(found.verdict, port_key(found.ports, &refusing)), 0)
                .map_err(failed("IPv6"))?;
        }
        Ok(())
    }

    /// Empties the copy. Keys are collected first, because deleting during an iteration restarts it.
    fn clear(&mut self) {
        let v4: Vec<_> = self.v4.keys().filter_map(Result::ok).collect();
        let v6: Vec<_> = self.v6.keys().filter_map(Result::ok).collect();
        let ports: Vec<_> = self.ports.keys().filter_map(Result::ok).collect();
        let refused = v4.iter().filter(|key| self.v4.remove(key).is_err()).count()
            + v6.iter().filter(|key| self.v6.remove(key).is_err()).count()
            + ports.iter().filter(|key| self.ports.remove(key).is_err()).count();
        if refused > 0 {
            tracing::warn!(refused, "entries of an idle address table could not be removed");
        }
    }
}

/// Returns the port sets in which a port is refused.
fn refusing_port_sets(tables: &Tables) -> BTreeSet<u32> {
    let refuses = |verdict: &TableVerdict| verdict.deny_host != 0 || verdict.deny_agents != 0;
    let refusing = tables.ports.iter().filter(|(_, verdict)| refuses(verdict));
    refusing.map(|((set, _), _)| *set).collect()
}

/// Returns the key of a port set, 0 for none, which says whether packets have to be compared with its ports.
fn port_key(set: u32, refusing: &BTreeSet<u32>) -> u32 {
    if set == 0 || refusing.contains(&set) {
        set
    } else {
        set | NetworkEntry::PORTS_ALLOWED
    }
}

const fn entry(verdict: TableVerdict, ports: u32) -> NetworkEntry {
    NetworkEntry {
        deny_host: verdict.deny_host,
        deny_agents: verdict.deny_agents,
        watch: verdict.watch,
        ports,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_set_that_refuses_no_port_is_marked_as_allowed() {
        let watch = TableVerdict {
            watch: 7,
            ..TableVerdict::default()
        };
        let refused = TableVerdict {
            deny_agents: 8,
            ..TableVerdict::default()
        };
        let ports = [((1, 443), watch), ((2, 443), watch), ((2, 80), refused)];
        let tables = Tables {
            ports: ports.into(),
            ..Tables::default()
        };
        let refusing = refusing_port_sets(&tables);
        let allowed = |set, verdict| entry(verdict, port_key(set, &refusing)).is_allowed();
        assert!(allowed(0, watch) && allowed(1, watch));
        assert!(!allowed(0, refused) && !allowed(1, refused) && !allowed(2, watch));
    }
}
