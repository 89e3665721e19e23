//! Checks that a built object is one the loader can use: BPF machine code with maps, licence and type information.

use anyhow::{Context as _, Result, bail};

/// ELF's number for BPF machine code.
const EM_BPF: u16 = 247;

/// The sections an object must have for mcpmon: BTF (types) and BTF.ext (line information) need `bpf-linker
/// --btf`.
const REQUIRED: [&str; 4] = [".BTF", ".BTF.ext", "license", "maps"];

/// Checks that this is a 64-bit little-endian BPF object with all required sections.
///
/// # Errors
/// Returns an error if it is not, or lacks a section; the message names the section.
pub(super) fn check(object: &[u8]) -> Result<()> {
    let sections = sections(object).context("not a well-formed ELF object")?;
    let missing: Vec<&str> = REQUIRED
        .into_iter()
        .filter(|name| {
            !sections
                .iter()
                .any(|section| section.as_slice() == name.as_bytes())
        })
        .collect();
    if !missing.is_empty() {
        bail!("the object has no section {}", missing.join(", "));
    }
    Ok(())
}

/// Returns the names of all sections, or an error if the file ends early.
fn sections(object: &[u8]) -> Result<Vec<Vec<u8>>> {
    if !object.starts_with(b"\x7fELF\x02\x01") {
        bail!("no 64-bit little-endian ELF header");
    }
    let machine = half(object, 18)?;
    if machine != EM_BPF {
        bail!("machine code for ELF machine {machine}, not for BPF ({EM_BPF})");
    }
    let table = long(object, 40)?;
    let entry_size = u64::from(half(object, 58)?);
    let header = |index: u16| {
        table
            .checked_add(entry_size * u64::from(index))
            .context("section table out of range")
    };
    let names = long(object, header(half(object, 62)?)? + 24)?;
    (0..half(object, 60)?)
        .map(|index| {
            let name = names.saturating_add(u64::from(word(object, header(index)?)?));
            let bytes = usize::try_from(name).ok().and_then(|name| object.get(name..));
            let bytes = bytes.context("section name out of range")?;
            Ok(bytes.iter().copied().take_while(|byte| *byte != 0).collect())
        })
        .collect()
}

fn half(object: &[u8], offset: u64) -> Result<u16> {
    Ok(u16::from_le_bytes(field(object, offset)?))
}

fn word(object: &[u8], offset: u64) -> Result<u32> {
    Ok(u32::from_le_bytes(field(object, offset)?))
}

fn long(object: &[u8], offset: u64) -> Result<u64> {
    Ok(u64::from_le_bytes(field(object, offset)?))
}

fn field<const N: usize>(object: &[u8], offset: u64) -> Result<[u8; N]> {
    let start = usize::try_from(offset).context("offset out of range")?;
    let bytes = object.get(start..).and_then(|rest| rest.first_chunk());
    bytes
        .copied()
        .with_context(|| format!("ends before byte {offset}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes an object with these empty sections.
    fn object(machine: u16, names: &[&str]) -> Vec<u8> {
        let mut strings = Vec::new();
        let mut headers = Vec::new();
        let table_end = 64 + 64 * (names.len() + 1);
        for name in names.iter().copied().chain([".strtab"]) {
            let mut header = [0_u8; 64];
            header[..4].copy_from_slice(&u32::try_from(strings.len()).unwrap().to_le_bytes());
            header[24..32].copy_from_slice(&(table_end as u64).to_le_bytes());
            headers.extend(header);
            strings.extend(name.bytes().chain([0]));
        }
        let mut elf = b"\x7fELF\x02\x01".to_vec();
        elf.resize(64, 0);
        elf[18..20].copy_from_slice(&machine.to_le_bytes());
        elf[40..48].copy_from_slice(&64_u64.to_le_bytes());
        elf[58..60].copy_from_slice(&64_u16.to_le_bytes());
        let count = u16::try_from(names.len()).unwrap();
        elf[60..62].copy_from_slice(&(count + 1).to_le_bytes());
        elf[62..64].copy_from_slice(&count.to_le_bytes());
        [elf, headers, strings].concat()
    }

    #[test]
    fn a_complete_object_passes() {
        check(&object(EM_BPF, &REQUIRED)).unwrap();
    }

    #[test]
    fn an_object_without_type_information_is_refused() {
        let error = check(&object(EM_BPF, &["license", "maps", ".BTF.ext"])).expect_err("no .BTF");
        assert_eq!(error.to_string(), "the object has no section .BTF");
    }

    #[test]
    fn other_machines_and_other_files_are_refused() {
        assert!(format!("{:#}", check(&object(62, &REQUIRED)).expect_err("x86")).contains("machine 62"));
        assert!(format!("{:#}", check(b"#!/bin/sh").expect_err("script")).contains("ELF header"));
    }

    #[test]
    fn a_truncated_object_is_an_error() {
        let whole = object(EM_BPF, &REQUIRED);
        for length in 0..whole.len() - ".strtab\0".len() {
            check(&whole[..length]).expect_err("truncated");
        }
    }
}
