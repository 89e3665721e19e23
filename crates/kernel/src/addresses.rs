//! The address lists in the kernel's tables: a new list is written to the unused copy, then the copies are swapped by
//! one store.

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
        })
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
        self.switch(in_force.fold(self.idle.selector | enforce, |word, (_, bit)| word | bit))?;
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
        for ((set, port), verdict) in &tables.ports {
            let key = PortKey {
                set: *set,
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
                .insert(&key, entry(found.verdict, found.ports), 0)
                .map_err(failed("IPv4"))?;
        }
        for ((list, first, prefix), found) in &tables.v6 {
            let key = Key6 {
                list: list.to_be_bytes(),
                address: first.octets(),
            };
            let key = Key::new(LIST_BITS + u32::from(*prefix), key);
            self.v6
                .insert(&key, entry(found.verdict, found.ports), 0)
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

const fn entry(verdict: TableVerdict, ports: u32) -> NetworkEntry {
    NetworkEntry {
        deny_host: verdict.deny_host,
        deny_agents: verdict.deny_agents,
        watch: verdict.watch,
        ports,
    }
}
