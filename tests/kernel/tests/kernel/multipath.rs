//! Multipath TCP: subflows that the kernel itself opens, to addresses that the other side announces.

use std::{
    fs,
    net::SocketAddr,
    os::fd::{AsRawFd as _, OwnedFd},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use mcpmon_common::{
    event::{Action, Hook},
    process::ProcessEntry,
};
use mcpmon_kernel::records::Connect;
use mcpmon_kernel_tests::{
    child::{Child, Test},
    kernel::Protocol,
    lab::{Lab, agent_entry, rule},
    netns::{ALLOWED4, DENIED4, Space},
    sys::{allow_subflows, announce, socket},
};
use mcpmon_policy::{Egress, RuleAction, Scope};
use nix::{
    libc,
    sys::socket::{Backlog, MsgFlags, SockaddrStorage, accept, bind, connect, listen, recv, send},
};

use super::egress;

const PORT: u16 = 26_200;
/// The longest time until the kernel opens a subflow, on a slow emulated machine.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The time at which the rules are set.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rules {
    /// Before the connection is opened.
    First,
    /// After the connection is opened.
    Later,
}

/// An announced address is judged by the rules for the process that has the connection.
pub(crate) fn announced_addresses(lab: &mut Lab) -> Result<()> {
    if !lab.kernel.has(Protocol::Mptcp) {
        lab.lacks("the kernel has no Multipath TCP");
        return Ok(());
    }
    let for_agents = || rule(RuleAction::Deny, Scope::Agents, &["127.0.9.9"], &[]).map(|rule| vec![rule]);
    let list = |lab: &mut Lab| {
        let egress = Egress {
            deny: vec!["127.0.9.0/24".parse()?],
            ..Egress::default()
        };
        egress::install_one(lab, egress)
    };
    joins(lab, Rules::First, |_| Ok(ProcessEntry::default()))?;
    joins(lab, Rules::First, |lab| {
        lab.install_rules(for_agents()?)?;
        Ok(ProcessEntry::default())
    })?;
    is_refused(lab, Rules::First, |lab| {
        lab.install_rules(for_agents()?)?;
        Ok(agent_entry())
    })?;
    is_refused(lab, Rules::First, |lab| Ok(egress::entry(list(lab)?)))?;
    // The connection's process was not recorded.
    is_refused(lab, Rules::Later, |lab| {
        lab.install_rules(for_agents()?)?;
        Ok(ProcessEntry::default())
    })
}

fn joins(lab: &mut Lab, rules: Rules, install: impl FnOnce(&mut Lab) -> Result<ProcessEntry>) -> Result<()> {
    let workload = start(lab, rules, install)?;
    let pid = workload.pid();
    let mut workload = workload;
    let deadline = Instant::now() + TIMEOUT;
    while !asked(&mut workload)? {
        ensure!(Instant::now() < deadline, "no subflow to an allowed address");
        thread::sleep(Duration::from_millis(20));
    }
    end(workload)?;
    let refused = refusals(lab)?;
    ensure!(
        refused.iter().all(|record| record.record.process.pid != pid),
        "{refused:#?}"
    );
    Ok(())
}

fn is_refused(
    lab: &mut Lab,
    rules: Rules,
    install: impl FnOnce(&mut Lab) -> Result<ProcessEntry>,
) -> Result<()> {
    let mut workload = start(lab, rules, install)?;
    let owner = match rules {
        Rules::First => workload.pid(),
        Rules::Later => 0,
    };
    let deadline = Instant::now() + TIMEOUT;
    let refused = loop {
        let refused = refusals(lab)?;
        if !refused.is_empty() {
            break refused;
        }
        ensure!(!asked(&mut workload)?, "a subflow to a refused address");
        ensure!(Instant::now() < deadline, "no record of a refused subflow");
        thread::sleep(Duration::from_millis(20));
    };
    for record in &refused {
        let said = (record.action, record.hook, record.record.process.pid);
        ensure!(said == (Action::Deny, Hook::Connect, owner), "{record:#?}");
    }
    ensure!(!asked(&mut workload)?, "a subflow to a refused address");
    end(workload)
}

/// Starts a connection to the allowed address; the other side announces the refused one once the rules are installed.
fn start(
    lab: &mut Lab,
    rules: Rules,
    install: impl FnOnce(&mut Lab) -> Result<ProcessEntry>,
) -> Result<Child<()>> {
    lab.reset()?;
    let mut workload = Child::start_in(Space::Network, |test| {
        allow_subflows(2)?;
        test.say(&())?;
        if rules == Rules::First {
            test.wait()?;
        }
        let connection = Connection::open()?;
        if rules == Rules::Later {
            test.say(&())?;
            test.wait()?;
        }
        announce(DENIED4).context("cannot announce an address")?;
        connection.attend(test)
    })?;
    workload.hear::<()>()?;
    if rules == Rules::Later {
        workload.hear::<()>()?;
    }
    let entry = install(lab)?;
    lab.sensor.processes.set(workload.pid(), entry)?;
    workload.proceed()?;
    Ok(workload)
}

/// Asks the workload whether a further subflow arrived.
fn asked(workload: &mut Child<()>) -> Result<bool> {
    workload.proceed()?;
    workload.hear()
}

fn end(mut workload: Child<()>) -> Result<()> {
    workload.proceed()?;
    let _arrived: bool = workload.hear()?;
    drop(workload);
    Ok(())
}

/// Both ends of a Multipath TCP connection.
struct Connection {
    client: OwnedFd,
    accepted: i32,
    _listener: OwnedFd,
}

impl Connection {
    fn open() -> Result<Self> {
        let open = || socket(libc::AF_INET, libc::SOCK_STREAM, libc::IPPROTO_MPTCP);
        let any = SockaddrStorage::from(SocketAddr::from(([0, 0, 0, 0], PORT)));
        let listener = open()?;
        bind(listener.as_raw_fd(), &any)?;
        listen(&listener, Backlog::new(5)?)?;
        let client = open()?;
        connect(
            client.as_raw_fd(),
            &SockaddrStorage::from(SocketAddr::from((ALLOWED4, PORT))),
        )?;
        let accepted = accept(listener.as_raw_fd())?;
        let connection = Self {
            client,
            accepted,
            _listener: listener,
        };
        connection.talk()?;
        Ok(connection)
    }

    /// Sends a message in each direction, which must happen before further subflows are opened.
    fn talk(&self) -> Result<()> {
        let client = self.client.as_raw_fd();
        for (from, to) in [(client, self.accepted), (self.accepted, client)] {
            ensure!(send(from, b"!", MsgFlags::empty())? == 1);
            ensure!(recv(to, &mut [0], MsgFlags::empty())? == 1);
        }
        Ok(())
    }

    /// Keeps sending messages, and answers each question of the test whether a further subflow arrived, until the test
    /// ends.
    fn attend(&self, test: &mut Test) -> Result<()> {
        loop {
            self.talk()?;
            test.wait()?;
            test.say(&(joined()? > 0))?;
        }
    }
}

/// Returns the number of subflows that arrived in this namespace beside the first one of their connection.
fn joined() -> Result<u64> {
    let text = fs::read_to_string("/proc/self/net/netstat").context("cannot read the counters")?;
    let mut lines = text.lines().filter(|line| line.starts_with("MPTcpExt:"));
    let (Some(names), Some(values)) = (lines.next(), lines.next()) else {
        bail!("no counters of Multipath TCP");
    };
    let mut counters = names.split_whitespace().zip(values.split_whitespace());
    let (_, value) = counters
        .find(|(name, _)| *name == "MPJoinSynRx")
        .context("no counter of joins")?;
    Ok(value.parse()?)
}

fn refusals(lab: &mut Lab) -> Result<Vec<Connect>> {
    let mut records = lab.connections()?;
    records.retain(|record| (record.address, record.record.port) == (DENIED4.into(), PORT));
    Ok(records)
}
