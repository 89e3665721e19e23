//! Links of programs that another process interferes with, and that are mended.

use std::fs::{self, File};

use anyhow::{Context as _, Result, bail, ensure};
use mcpmon_kernel::{
    links::{Fault, LinkState, Links, MendError, Mended},
    programs::EGRESS,
};
use mcpmon_kernel_tests::{
    lab::Lab,
    sys::{OnlyProgram, detach_pinned},
};

use crate::kept::{Directory, ensure_ended, ensure_refused};

/// A program of which every sensor needs the link.
const CONNECT: &str = "connect4";

/// A program that the kernel refuses to attach is told as one, and attached as soon as it can be.
pub(crate) fn refused(lab: &mut Lab) -> Result<()> {
    let links = lab.sensor.attached.links().clone();
    ensure!(state(&links, EGRESS)? == LinkState::NotNeeded, "it is attached");
    let cgroup = File::open(&lab.sensor.attached.root().path).context("cannot open the root cgroup")?;
    let other = OnlyProgram::attach(cgroup).context("another program is at the hook for packets")?;
    links.require(EGRESS);
    ensure!(state(&links, EGRESS)? == LinkState::NotAttached, "it is attached");
    let mended = links.mend();
    ensure!(
        matches!(&mended[..], [Err(MendError::Attach { program: EGRESS, .. })]),
        "{mended:?}"
    );
    drop(other);
    ensure_mended(&links, EGRESS, Fault::NotAttached)?;
    ensure!(
        state(&links, EGRESS)? == LinkState::Attached,
        "it is not attached"
    );
    links.release(EGRESS)?;
    ensure!(
        state(&links, EGRESS)? == LinkState::NotNeeded,
        "it is still attached"
    );
    Ok(())
}

/// A link that could not be pinned when it was attached again is pinned later, in place of the old one.
pub(crate) fn unpinned(_: &mut Lab) -> Result<()> {
    let directory = Directory::new();
    let sensor = directory.keep()?;
    let links = sensor.attached.links().clone();
    let pin = directory.pin(CONNECT);
    detach_pinned(&pin).context("cannot detach the link")?;
    // A directory is in the way of the new pin.
    let obstacle = directory.pin(&format!("{CONNECT}_new"));
    fs::create_dir(&obstacle).context("cannot create a directory")?;
    let mended = links.mend();
    let detached = Mended {
        program: CONNECT,
        fault: Fault::Detached,
    };
    ensure!(
        matches!(&mended[..], [Ok(told), Err(MendError::Pin(_))] if *told == detached),
        "{mended:?}"
    );
    ensure_refused("although it could not be pinned")?;
    fs::remove_dir(&obstacle).context("cannot remove the directory")?;
    ensure_mended(&links, CONNECT, Fault::NotPinned)?;
    let again = links.mend();
    ensure!(again.is_empty(), "{again:?}");
    drop((sensor, links));
    ensure_refused("by what is pinned alone")?;
    directory.remove()?;
    ensure_ended()
}

fn state(links: &Links, wanted: &str) -> Result<LinkState> {
    let found = links.states().find(|(program, _)| *program == wanted);
    found.map(|(_, state)| state).context("it has no link")
}

fn ensure_mended(links: &Links, wanted: &str, fault: Fault) -> Result<()> {
    match &links.mend()[..] {
        [
            Ok(Mended {
                program,
                fault: found,
            }),
        ] if *program == wanted && *found == fault => Ok(()),
        other => bail!("{other:?}"),
    }
}
