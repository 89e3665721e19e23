//! Objects that were built for another ABI are refused before anything is attached.

use anyhow::{Context as _, Result, bail, ensure};
use mcpmon_common::{ABI_VERSION, process::ProcessEntry};
use mcpmon_kernel::sensor::{OBJECT, Sensor, SensorError};
use mcpmon_kernel_tests::lab::Lab;

pub(crate) fn other_version(_: &mut Lab) -> Result<()> {
    refused(&of_other_version()?, &format!("ABI_V{ABI_VERSION}"))
}

/// Returns the object with another version of the ABI.
pub(crate) fn of_other_version() -> Result<Vec<u8>> {
    let ours = format!("ABI_V{ABI_VERSION}\0");
    // As many digits, for the bytes are replaced in place.
    let last = (ABI_VERSION + 1) % 10;
    let theirs = format!("ABI_V{}\0", ABI_VERSION - ABI_VERSION % 10 + last);
    replaced(ours.as_bytes(), theirs.as_bytes())
}

pub(crate) fn other_value_size(_: &mut Lab) -> Result<()> {
    refused(&of_other_value_size()?, "PROCESSES")
}

/// Returns the object with larger values in the process table.
pub(crate) fn of_other_value_size() -> Result<Vec<u8>> {
    // Type, key size and value size at the start of the definition of the process table.
    let definition = |value: usize| -> Result<Vec<u8>> {
        let fields = [1, u32::try_from(size_of::<u32>())?, u32::try_from(value)?];
        Ok(fields.into_iter().flat_map(u32::to_ne_bytes).collect())
    };
    let size = size_of::<ProcessEntry>();
    replaced(&definition(size)?, &definition(size + 8)?)
}

pub(crate) fn untouched(_: &mut Lab) -> Result<()> {
    drop(Sensor::start_object(OBJECT, None, &[]).context("the object itself does not load")?);
    Ok(())
}

/// Returns the object with one byte string replaced by another of the same length.
fn replaced(from: &[u8], to: &[u8]) -> Result<Vec<u8>> {
    let mut object = OBJECT.to_vec();
    let found: Vec<_> = (0..object.len())
        .filter(|at| object[*at..].starts_with(from))
        .collect();
    ensure!(!found.is_empty(), "the object has no such bytes");
    for at in found {
        object[at..at + to.len()].copy_from_slice(to);
    }
    Ok(object)
}

fn refused(object: &[u8], what: &str) -> Result<()> {
    match Sensor::start_object(object, None, &[]) {
        Err(SensorError::Abi { what: found, .. }) => {
            ensure!(found.contains(what), "{found:?} is said to be wrong, not {what}");
            Ok(())
        }
        Err(error) => bail!("refused for another reason: {error:#}"),
        Ok(_) => bail!("the object was taken"),
    }
}
