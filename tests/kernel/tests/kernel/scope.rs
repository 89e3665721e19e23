//! Rules for agents only: the processes that are agents, those that inherit it, and the end of it.

use std::{env, fs, net::SocketAddr, os::unix::fs::symlink};

use anyhow::{Context as _, Result, ensure};
use mcpmon_common::{event::Action, process::ProcessEntry};
use mcpmon_kernel_tests::{
    child::Child,
    lab::{AGENT, Lab, agent_entry, rule},
    netns::{ALLOWED4, DENIED4, Space, as_first_process, enter},
    probe::{self, REACHED, REFUSED, RELATIVES},
    sys::{Fork, fork},
};
use mcpmon_policy::{NetworkRule, RuleAction, Scope};
use nix::{
    errno::Errno,
    sys::wait::{WaitStatus, waitpid},
    unistd::Pid,
};

const PORT: u16 = 24_000;

pub(crate) fn agents_and_relatives(lab: &mut Lab) -> Result<()> {
    lab.install_rules(vec![for_agents()?])?;
    let mut agent = Child::start_in(Space::Network, |test| {
        test.wait()?;
        probe::all_relatives(listed(), REFUSED)?;
        probe::all_relatives((ALLOWED4, PORT).into(), REACHED)
    })?;
    lab.sensor.processes.set(agent.pid(), agent_entry())?;
    agent.proceed()?;
    agent.join()?;
    let mut records = lab.connections()?;
    records.retain(|record| record.record.port == PORT);
    ensure!(records.len() == RELATIVES.len(), "{} records", records.len());
    for record in records {
        let said = (record.action, record.record.entry.has(ProcessEntry::FLAG_AGENT));
        ensure!(said == (Action::Deny, true), "{record:#?}");
    }
    Ok(())
}

pub(crate) fn everyone_else(lab: &mut Lab) -> Result<()> {
    lab.install_rules(vec![for_agents()?])?;
    Child::start_in(Space::Network, |_| probe::all_relatives(listed(), REACHED))?.join()?;
    let mut records = lab.connections()?;
    records.retain(|record| record.record.port == PORT);
    ensure!(records.is_empty(), "{records:#?}");
    Ok(())
}

/// An agent puts a child into new namespaces.
pub(crate) fn namespaces(lab: &mut Lab) -> Result<()> {
    lab.install_rules(vec![for_agents()?])?;
    let mut agent = Child::start(|test| {
        test.wait()?;
        enter(Space::Everything)?;
        let status = as_first_process(|| probe::connect(listed()).map_or(-1, i32::from));
        ensure!(status == i32::from(REFUSED), "the child is answered {status}");
        Ok(())
    })?;
    lab.sensor.processes.set(agent.pid(), agent_entry())?;
    agent.proceed()?;
    agent.join()
}

/// A program becomes an agent by its name.
pub(crate) fn named_agents(lab: &mut Lab) -> Result<()> {
    lab.install_rules(vec![for_agents()?])?;
    let directory = env::temp_dir().join(format!("mcpmon-kernel-tests-{}", Pid::this()));
    fs::create_dir(&directory).with_context(|| format!("cannot create {}", directory.display()))?;
    let answers = Child::start_in(Space::Network, |_| {
        [AGENT, "mcpmon-agent", "mcpmon-agent-tt"]
            .into_iter()
            .map(|name| {
                let program = directory.join(name);
                symlink(env::current_exe().context("no path to this program")?, &program)
                    .context("cannot make a link")?;
                probe::run(&program, listed())
            })
            .collect::<Result<Vec<u8>>>()
    })
    .and_then(Child::join);
    fs::remove_dir_all(&directory).with_context(|| format!("cannot remove {}", directory.display()))?;
    ensure!(answers? == [REFUSED, REACHED, REACHED]);
    Ok(())
}

/// A reused process number does not make the new process an agent.
pub(crate) fn reused_number(lab: &mut Lab) -> Result<()> {
    lab.install_rules(vec![for_agents()?])?;
    for _ in 0..5 {
        let mut agent = Child::start(|test| {
            test.wait()?;
            probe::connect(listed())
        })?;
        let pid = agent.pid();
        lab.sensor.processes.set(pid, agent_entry())?;
        agent.proceed()?;
        ensure!(agent.join()? == REFUSED, "the agent is not refused");
        ensure!(
            lab.sensor.processes.get(pid).is_none(),
            "the entry outlives its process"
        );
        let again = fork(Fork::Numbered(pid.cast_signed()), || {
            probe::connect(listed()).map_or(-1, i32::from)
        });
        match again {
            Ok(child) => {
                let status = waitpid(child, None).context("cannot wait")?;
                ensure!(
                    matches!(status, WaitStatus::Exited(_, code) if code == i32::from(REACHED)),
                    "{status:?}"
                );
                return Ok(());
            }
            // Another process of this machine has taken the number.
            Err(Errno::EEXIST) => {}
            Err(error) => return Err(error).context("cannot make a process with a given number"),
        }
    }
    anyhow::bail!("every number was taken at once")
}

fn for_agents() -> Result<NetworkRule> {
    rule(RuleAction::Deny, Scope::Agents, &["127.0.9.9"], &[PORT])
}

fn listed() -> SocketAddr {
    (DENIED4, PORT).into()
}
