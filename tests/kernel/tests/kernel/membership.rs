//! Process entries while the sensor cannot get more memory.

use anyhow::{Result, ensure};
use mcpmon_common::{limits::PROCESS_ENTRIES, process::FileKey};
use mcpmon_kernel::sensor::Sensor;
use mcpmon_kernel_tests::{
    child::Child,
    lab::{Lab, agent_entry},
    scratch::MemoryGroup,
};

/// Far more processes than the memory group has room for.
const PROCESSES: u32 = PROCESS_ENTRIES / 2;
/// As many refused files as in a large policy.
const FILES: u64 = 10_000;

/// A sensor in a full memory group still accepts as many entries as its tables are made for.
pub(crate) fn under_pressure(_: &mut Lab) -> Result<()> {
    let group = MemoryGroup::make()?;
    let (processes, files) = Child::start(|_| {
        group.enter()?;
        let mut sensor = Sensor::start(&[])?;
        group.limit_to_usage()?;
        let processes = (1..=PROCESSES)
            .take_while(|number| sensor.processes.set(1 << 23 | number, agent_entry()).is_ok())
            .count();
        let files = (1..=FILES)
            .map(|inode| FileKey {
                inode,
                ..FileKey::default()
            })
            .take_while(|file| sensor.refused.refuse(*file, 1).is_ok())
            .count();
        Ok((processes, files))
    })?
    .join()?;
    ensure!(
        (processes, files) == (PROCESSES as usize, usize::try_from(FILES)?),
        "{processes} processes and {files} refused files got an entry, of {PROCESSES} and {FILES}"
    );
    Ok(())
}
