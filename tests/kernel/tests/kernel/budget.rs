//! The number of instructions that the verifier processes for each program, compared with a budget beside the programs.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, bail, ensure};
use mcpmon_kernel::{dns::AnswerTap, programs::START_CHECK};
use mcpmon_kernel_tests::lab::Lab;

use super::dns::in_runtime;

/// The budget file. Each line has a program's name, the kernel release from which it applies, and the largest number of
/// instructions on that kernel. Lines with `#` are comments.
const BUDGET: &str = include_str!("../../../../mcpmon-ebpf/budget.txt");

type Release = (u32, u32);

pub(crate) fn kept(lab: &mut Lab) -> Result<()> {
    let mut budget = in_force(lab.kernel.release)?;
    let of_dns = in_runtime(|| {
        let tap = AnswerTap::open()?;
        Ok(owned(tap.verified_instructions()))
    })?;
    let mut measured = owned(lab.sensor.attached.verified_instructions());
    measured.extend(of_dns);
    if lab.sensor.attached.start_canary().is_err() {
        // The test of starts says whether this kernel may do without it.
        measured.remove(START_CHECK);
        budget.remove(START_CHECK);
    }
    ensure!(
        measured.keys().eq(budget.keys()),
        "mcpmon-ebpf/budget.txt does not name exactly the programs {:?}",
        measured.keys()
    );
    if measured.values().any(Option::is_none) {
        lab.lacks("this kernel does not tell how many instructions it verified; 5.16 does");
        return Ok(());
    }
    let told: Vec<_> = measured
        .iter()
        .map(|(name, count)| (name, count.unwrap_or_default(), budget[name]))
        .collect();
    let lines: Vec<_> = told
        .iter()
        .map(|(name, count, most)| format!("{name} {count}/{most}"))
        .collect();
    let lines = lines.join(", ");
    ensure!(
        told.iter().all(|(_, count, most)| count <= most),
        "over budget: {lines}; make the program smaller, or raise the budget in a commit that says why"
    );
    lab.note(format!("verified instructions: {lines}"));
    Ok(())
}

fn owned<'a>(counts: impl Iterator<Item = (&'a str, Option<u32>)>) -> BTreeMap<String, Option<u32>> {
    counts.map(|(name, count)| (name.to_owned(), count)).collect()
}

/// Returns for each program the line of the newest release that is not newer than this kernel.
fn in_force(running: Release) -> Result<BTreeMap<String, u32>> {
    let mut chosen: BTreeMap<String, (Release, u32)> = BTreeMap::new();
    for line in BUDGET
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty())
    {
        let (name, since, most) = parse(line).with_context(|| format!("budget.txt: {line:?} is no line"))?;
        if since > running {
            continue;
        }
        match chosen.get(name) {
            Some((other, _)) if *other == since => bail!("budget.txt: {line:?} stands there twice"),
            Some((other, _)) if *other > since => {}
            Some(_) | None => drop(chosen.insert(name.to_owned(), (since, most))),
        }
    }
    Ok(chosen.into_iter().map(|(name, (_, most))| (name, most)).collect())
}

fn parse(line: &str) -> Option<(&str, Release, u32)> {
    let mut words = line.split_ascii_whitespace();
    let name = words.next()?;
    let (major, minor) = words.next()?.split_once('.')?;
    let most = words.next()?.parse().ok()?;
    words
        .next()
        .is_none()
        .then_some((name, (major.parse().ok()?, minor.parse().ok()?), most))
}
