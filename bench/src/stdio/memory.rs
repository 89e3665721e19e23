//! The memory of a wrapper, which is the memory of every process between the client and the far side.

use std::fs;

use anyhow::{Context as _, Result};

/// Resident and proportional set size, in KiB.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Memory {
    pub(crate) resident: f64,
    /// The proportional set size, in which shared pages are divided among the processes that share them.
    pub(crate) proportional: f64,
}

/// Returns the memory of `pid` and its descendants, except those that run the command of the far side.
pub(crate) fn between(pid: u32) -> Result<Memory> {
    let arguments = fs::read(format!("/proc/{pid}/cmdline"))?;
    if arguments.ends_with(b"\0echo\0") && !arguments.windows(4).any(|word| word == b"\0--\0") {
        return Ok(Memory::default());
    }
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
    let mut memory = Memory {
        resident: field(&rollup, "Rss:")?,
        proportional: field(&rollup, "Pss:")?,
    };
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        let children = fs::read_to_string(task?.path().join("children"))?;
        for child in children.split_ascii_whitespace() {
            let below = between(child.parse()?)?;
            memory.resident += below.resident;
            memory.proportional += below.proportional;
        }
    }
    Ok(memory)
}

fn field(rollup: &str, name: &str) -> Result<f64> {
    let value = rollup.lines().find_map(|line| line.strip_prefix(name));
    let number = value.and_then(|value| value.split_ascii_whitespace().next());
    Ok(number
        .with_context(|| format!("{name} in smaps_rollup"))?
        .parse()?)
}
