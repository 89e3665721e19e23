//! A loaded sensor, and operations on it for tests: install rules, gather records, read counters.

use std::{collections::BTreeSet, mem, net::SocketAddr, time::Duration};

use anyhow::{Context as _, Result, bail, ensure};
use mcpmon_common::{event::Counter, process::ProcessEntry, state::Heartbeat};
use mcpmon_kernel::{
    addresses::Enforcement,
    records::{Connect, ExecReport, Record},
    sensor::Sensor,
};
use mcpmon_policy::{
    NetworkPolicy, NetworkRule, Policy, RuleAction, Scope,
    network::table::{CANARY, Numbering, ResolvedNames, Tables, compile},
};
use nix::time::{ClockId, clock_gettime};

use crate::{
    child::Child,
    kernel::Kernel,
    netns::Space,
    probe::{self, REACHED, REFUSED},
};

/// Command name that makes a process an agent.
pub const AGENT: &str = "mcpmon-agent-t";

/// Returns the kernel's entry for an agent.
#[must_use]
pub fn agent_entry() -> ProcessEntry {
    ProcessEntry {
        flags: ProcessEntry::FLAG_AGENT,
        ..ProcessEntry::default()
    }
}

/// The number of attempts to get a mark back out of the rings.
const MARKS: u32 = 1000;

/// The environment of a test.
#[expect(missing_debug_implementations, reason = "the sensor has none")]
pub struct Lab {
    /// The sensor, attached at the root of the cgroup hierarchy.
    pub sensor: Sensor,
    /// The running kernel.
    pub kernel: Kernel,
    numbering: Numbering,
    notes: Vec<String>,
    noted: BTreeSet<String>,
    lacking: Vec<String>,
}

impl Lab {
    /// Loads the sensor and attaches it.
    ///
    /// # Errors
    /// Returns an error if the sensor cannot start.
    pub fn open() -> Result<Self> {
        let kernel = Kernel::running()?;
        let sensor = Sensor::start(&[AGENT.to_owned()])?;
        if let Some(gap) = sensor.attached.gaps().first() {
            bail!("a program is missing: {gap}");
        }
        Ok(Self {
            sensor,
            kernel,
            numbering: Numbering::default(),
            notes: Vec::new(),
            noted: BTreeSet::new(),
            lacking: Vec::new(),
        })
    }

    /// Removes all rules, records and tracked processes.
    ///
    /// # Errors
    /// Returns an error if the tables cannot be written.
    pub fn reset(&mut self) -> Result<()> {
        self.install(&Policy::default())?;
        let tracked: Vec<_> = self.sensor.processes.iter().map(|(pid, _)| pid).collect();
        for pid in tracked {
            self.sensor.processes.remove(pid);
        }
        self.records(|_| None::<()>).map(drop)
    }

    /// Compiles the kernel tables for `policy`.
    ///
    /// # Errors
    ///
    /// Returns an error if the policy does not fit into the tables.
    pub fn compile(&mut self, policy: &Policy) -> Result<Tables> {
        Ok(compile(policy, &ResolvedNames::default(), &mut self.numbering)?)
    }

    /// Installs the rules of `policy`, enforced.
    ///
    /// # Errors
    /// Returns an error if they do not compile or the kernel refuses them.
    pub fn install(&mut self, policy: &Policy) -> Result<Tables> {
        let tables = self.compile(policy)?;
        self.sensor.addresses.install(&tables, Enforcement::Enforce)?;
        Ok(tables)
    }

    /// Installs network rules, and no others.
    ///
    /// # Errors
    /// Returns the errors of [`Lab::install`].
    pub fn install_rules(&mut self, rules: Vec<NetworkRule>) -> Result<Tables> {
        self.install(&policy(rules))
    }

    /// Adds a note to the output, unless it is there already.
    pub fn note(&mut self, text: impl Into<String>) {
        let text = text.into();
        if self.noted.insert(text.clone()) {
            self.notes.push(text);
        }
    }

    /// Records a feature that this kernel lacks for a test, for `docs/kernel-coverage.md`. The text must be the same in
    /// each run on this kernel.
    pub fn lacks(&mut self, text: impl Into<String>) {
        let text = text.into();
        if !self.lacking.contains(&text) {
            self.lacking.push(text);
        }
    }

    /// Returns the features that the kernel was found to lack since the last call.
    pub fn take_lacking(&mut self) -> Vec<String> {
        mem::take(&mut self.lacking)
    }

    /// Returns the notes since the last call.
    pub fn take_notes(&mut self) -> Vec<String> {
        mem::take(&mut self.notes)
    }

    /// Returns the records of everything that happened before this call.
    ///
    /// A record is reserved within the call that it is about, but a reader stops in front of a record that another
    /// processor has reserved and not finished. So marks are written after all of them, and awaited.
    ///
    /// # Errors
    /// Returns an error if the marks do not come.
    pub fn records<T>(&mut self, mut wanted: impl FnMut(Record) -> Option<T>) -> Result<Vec<T>> {
        let mut found = Vec::new();
        for _ in 0..MARKS {
            // The rings are drained first, because a mark is lost like any other record if the ring is full.
            self.sensor.rings.drain(|record| found.extend(wanted(record)));
            let (mut connected, mut ended) = (false, false);
            let marker = self.mark()?;
            self.sensor.rings.drain(|record| match &record {
                Record::Connect(connect) if connect.record.process.pid == marker => connected = true,
                Record::Exit(exit) if exit.process.pid == marker => ended = true,
                Record::Exec(_)
                | Record::Fork(_)
                | Record::Exit(_)
                | Record::RefusedStart(_)
                | Record::Resume(_)
                | Record::Connect(_)
                | Record::Close(_) => {
                    found.extend(wanted(record));
                }
            });
            if connected && ended {
                return Ok(found);
            }
        }
        bail!("the rings do not give back what was just written to them")
    }

    /// Writes one record to each ring: a refusal of the self-test's address to the ring of connections, and the end of
    /// a server's process to the ring of processes. Returns the process that caused both.
    fn mark(&mut self) -> Result<u32> {
        let mut marker = Child::start(|test| {
            test.wait()?;
            probe::connect((CANARY[0], 9).into())
        })?;
        let pid = marker.pid();
        self.sensor.processes.set(
            pid,
            ProcessEntry {
                instance: u32::MAX,
                ..ProcessEntry::default()
            },
        )?;
        marker.proceed()?;
        ensure!(
            marker.join()? == REFUSED,
            "the self-test's address is not refused"
        );
        Ok(pid)
    }

    /// Returns the connections until now.
    ///
    /// # Errors
    /// Returns the errors of [`Lab::records`].
    pub fn connections(&mut self) -> Result<Vec<Connect>> {
        self.records(|record| match record {
            Record::Connect(connect) => Some(connect),
            Record::Exec(_)
            | Record::Fork(_)
            | Record::Exit(_)
            | Record::RefusedStart(_)
            | Record::Resume(_)
            | Record::Close(_) => None,
        })
    }

    /// Returns the execs of this process until now.
    ///
    /// # Errors
    /// Returns the errors of [`Lab::records`].
    pub fn execs(&mut self, pid: u32) -> Result<Vec<ExecReport>> {
        self.records(|record| match record {
            Record::Exec(exec) => (exec.record.process.pid == pid).then_some(*exec),
            Record::Fork(_)
            | Record::Exit(_)
            | Record::RefusedStart(_)
            | Record::Resume(_)
            | Record::Connect(_)
            | Record::Close(_) => None,
        })
    }

    /// Returns the value of a counter.
    ///
    /// # Errors
    /// Returns an error if the counter cannot be read.
    pub fn count(&self, counter: Counter) -> Result<u64> {
        self.sensor.counters.get(counter).context("cannot read a counter")
    }

    /// Runs `run` with the daemon's last heartbeat set `silence` ago.
    ///
    /// # Errors
    /// Returns an error if the heartbeat cannot be set, and the errors of `run`.
    pub fn silent<T>(&mut self, silence: Duration, run: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let before = |clock| -> Result<u64> {
            let now = Duration::from(clock_gettime(clock)?);
            let then = now.checked_sub(silence).context("the machine has just started")?;
            Ok(then.as_nanos().try_into()?)
        };
        let last = Heartbeat {
            monotonic: before(ClockId::CLOCK_MONOTONIC)?,
            boot: before(ClockId::CLOCK_BOOTTIME)?,
        };
        self.sensor.pulse.beat_at(last)?;
        let outcome = run(self);
        self.sensor.pulse.beat_at(Heartbeat::default())?;
        outcome
    }

    /// Lets a workload with this entry, and its relatives, connect to all these addresses.
    ///
    /// # Errors
    /// Returns an error if one of them reaches an address of `refused`, or does not reach one of `reached`.
    pub fn hold(
        &mut self,
        entry: ProcessEntry,
        refused: &[SocketAddr],
        reached: &[SocketAddr],
    ) -> Result<()> {
        self.connections()?;
        let mut workload = Child::start_in(Space::Network, |test| {
            test.wait()?;
            refused
                .iter()
                .try_for_each(|target| probe::all_relatives(*target, REFUSED))?;
            reached
                .iter()
                .try_for_each(|target| probe::all_relatives(*target, REACHED))
        })?;
        self.sensor.processes.set(workload.pid(), entry)?;
        workload.proceed()?;
        workload.join()
    }
}

/// Returns a policy of network rules.
#[must_use]
pub fn policy(rules: Vec<NetworkRule>) -> Policy {
    Policy {
        network: NetworkPolicy {
            rules,
            ..NetworkPolicy::default()
        },
        ..Policy::default()
    }
}

/// Returns a rule over address ranges. An empty list of ports means all ports.
///
/// # Errors
/// Returns an error if a range is invalid.
pub fn rule(action: RuleAction, scope: Scope, ranges: &[&str], ports: &[u16]) -> Result<NetworkRule> {
    let cidrs = ranges
        .iter()
        .map(|range| range.parse())
        .collect::<Result<_, _>>()?;
    Ok(NetworkRule {
        name: format!("{action:?} {}", ranges.join(" ")),
        action,
        scope,
        hosts: Vec::new(),
        cidrs,
        ports: ports.to_vec(),
    })
}

/// Returns a rule that refuses address ranges for everyone.
///
/// # Errors
/// Returns an error if a range is invalid.
pub fn deny(ranges: &[&str], ports: &[u16]) -> Result<NetworkRule> {
    rule(RuleAction::Deny, Scope::Host, ranges, ports)
}

/// Returns the number of the rule `name` in `tables`.
///
/// # Errors
/// Returns an error if there is no such rule.
pub fn number(tables: &Tables, name: &str) -> Result<u32> {
    let Some((number, _)) = tables.rules.iter().find(|(_, info)| info.name == name) else {
        bail!("no rule is called {name}: {:?}", tables.rules);
    };
    Ok(*number)
}
