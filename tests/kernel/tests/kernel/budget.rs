//! Instructions the verifier walks through for each program, against a budget kept beside the programs.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, bail, ensure};
use mcpmon_kernel_tests::lab::Lab;

/// One program a line: its name and the most instructions it may take. Lines with `#` are comments.
const BUDGET: &str = include_str!("../../../../mcpmon-ebpf/budget.txt");

pub(crate) fn kept(lab: &mut Lab) -> Result<()> {
    let budget = parse()?;
    let measured: BTreeMap<String, Option<u32>> = lab
        .sensor
        .attached
        .verified_instructions()
        .map(|(name, count)| (name.to_owned(), count))
        .collect();
    ensure!(
        measured.keys().eq(budget.keys()),
        "programs {:?} do not have one line each in mcpmon-ebpf/budget.txt",
        measured.keys()
    );
    let mut told = Vec::new();
    for (name, count) in measured {
        let Some(count) = count else {
            lab.note("this kernel does not tell how many instructions it verified (5.16 does)");
            return Ok(());
        };
        let most = budget[&name];
        ensure!(
            count <= most,
            "{name} takes {count} verified instructions, over its budget of {most}: make it smaller, or raise the budget in a commit that says why"
        );
        told.push(format!("{name} {count}/{most}"));
    }
    lab.note(format!("verified instructions: {}", told.join(", ")));
    Ok(())
}

fn parse() -> Result<BTreeMap<String, u32>> {
    let mut budget = BTreeMap::new();
    for line in BUDGET
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty())
    {
        let (name, most) = line
            .split_once(' ')
            .with_context(|| format!("budget.txt: no number in {line:?}"))?;
        let most = most
            .trim()
            .parse()
            .with_context(|| format!("budget.txt: bad number in {line:?}"))?;
        if budget.insert(name.to_owned(), most).is_some() {
            bail!("budget.txt: {name} stands there twice");
        }
    }
    Ok(budget)
}
