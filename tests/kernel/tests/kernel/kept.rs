//! Pinned programs stay in force without their process, through a failed start, and beside those of another version.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail, ensure};
use mcpmon_common::ABI_VERSION;
use mcpmon_kernel::{
    addresses::Enforcement,
    pinned::{PinDirectory, View},
    sensor::Sensor,
};
use mcpmon_kernel_tests::{
    child::Child,
    lab::{Lab, policy, rule},
    netns::{DENIED4, Space},
    probe::{self, REACHED, REFUSED},
};
use mcpmon_policy::{
    RuleAction, Scope,
    network::table::{Numbering, ResolvedNames, compile},
};

use crate::abi;

const PORT: u16 = 25_200;
/// The number of attempts until a program without references is gone, because the kernel removes it a little later.
const MAX_ATTEMPTS: u32 = 1000;

/// A directory for this test, whose content is removed at the end.
pub(crate) struct Directory(PathBuf);

impl Directory {
    pub(crate) fn new() -> Self {
        Self(PathBuf::from(format!(
            "/sys/fs/bpf/mcpmon-kernel-tests-{}",
            std::process::id()
        )))
    }

    fn take(&self) -> Result<PinDirectory> {
        Ok(PinDirectory::take(&self.0)?)
    }

    /// Starts a sensor that refuses an address to everyone, and pins its programs.
    pub(crate) fn keep(&self) -> Result<Sensor> {
        let mut sensor = Sensor::resume(self.take()?, &[])?;
        refuse(&mut sensor)?;
        sensor.attached.keep()?;
        Ok(sensor)
    }

    /// Returns the path at which the link of a program is pinned.
    pub(crate) fn pin(&self, program: &str) -> PathBuf {
        self.0.join(format!("v{ABI_VERSION}/link_{program}"))
    }

    /// Returns the names of the pinned sets.
    fn sets(&self) -> Result<Vec<String>> {
        Ok(View::of(&self.0)?.context("no directory")?.sets)
    }

    pub(crate) fn remove(&self) -> Result<()> {
        match PinDirectory::find(&self.0)? {
            Some(pins) => Ok(pins.remove()?),
            None => Ok(()),
        }
    }
}

impl Drop for Directory {
    /// Removes the directory, so that a failed test leaves nothing in force. If that fails, the test itself has
    /// reported it.
    fn drop(&mut self) {
        drop(self.remove());
    }
}

fn refuse(sensor: &mut Sensor) -> Result<()> {
    let denied = rule(RuleAction::Deny, Scope::Host, &["127.0.9.9"], &[PORT])?;
    let tables = compile(
        &policy(vec![denied]),
        &ResolvedNames::default(),
        &mut Numbering::default(),
    )?;
    Ok(sensor.addresses.install(&tables, Enforcement::Enforce)?)
}

fn attempt() -> Result<u8> {
    Child::start_in(Space::Network, |_| probe::connect((DENIED4, PORT).into()))?.join()
}

pub(crate) fn ensure_refused(when: &str) -> Result<()> {
    let found = attempt()?;
    ensure!(found == REFUSED, "{found} {when}");
    Ok(())
}

pub(crate) fn ensure_ended() -> Result<()> {
    for _ in 0..MAX_ATTEMPTS {
        if attempt()? == REACHED {
            return Ok(());
        }
    }
    bail!("it is still refused")
}

/// The earlier programs stay in force after a failed start, and the next start finds them.
pub(crate) fn failed_start(_: &mut Lab) -> Result<()> {
    let directory = Directory::new();
    drop(directory.keep()?);
    ensure_refused("without a process")?;
    for object in [abi::of_other_version()?, abi::of_other_value_size()?] {
        let started = Sensor::start_object(&object, Some(directory.take()?), &[]);
        ensure!(started.is_err(), "the object was taken");
        ensure_refused("after a start that failed")?;
    }
    let sensor = Sensor::resume(directory.take()?, &[])?;
    ensure!(sensor.adopted.is_some(), "nothing was taken over");
    ensure_refused("after the next start")?;
    drop(sensor);
    directory.remove()?;
    ensure_ended()
}

/// Programs that an older or newer version pinned stay in force until their replacement is complete.
pub(crate) fn other_version(_: &mut Lab) -> Result<()> {
    for version in [ABI_VERSION - 1, ABI_VERSION + 1] {
        let directory = Directory::new();
        drop(directory.keep()?);
        let name = |version: u32| format!("v{version}");
        let path = |version: u32| Path::new(&directory.0).join(name(version));
        fs::rename(path(ABI_VERSION), path(version)).context("cannot rename the set")?;

        let mut sensor = Sensor::resume(directory.take()?, &[])?;
        ensure!(sensor.adopted.is_none(), "another version's was taken over");
        ensure_refused("by the other version's programs")?;
        ensure!(directory.sets()? == [name(version)], "{:?}", directory.sets()?);
        refuse(&mut sensor)?;
        sensor.attached.keep()?;
        ensure!(
            directory.sets()? == [name(ABI_VERSION)],
            "{:?}",
            directory.sets()?
        );
        drop(sensor);
        ensure_refused("by this version's programs")?;
        directory.remove()?;
        ensure_ended()?;
    }
    Ok(())
}
