//! Runs every case, in the core and through the real wrapper.

#![cfg(test)]

use std::{num::NonZero, thread};

use anyhow::Result;
use mcpmon_redteam::{Case, Core, Live, Stage, load, play};

fn all(stage: impl Fn(&Case) -> Result<Box<dyn Stage>> + Sync) {
    let cases = load().expect("cases");
    assert!(cases.len() >= 200, "the suite has shrunk to {}", cases.len());
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    let against: Vec<String> = thread::scope(|scope| {
        let parts = cases.chunks(cases.len().div_ceil(threads));
        let playing: Vec<_> = parts
            .map(|part| {
                let stage = &stage;
                scope.spawn(move || part.iter().filter_map(|case| failure(case, stage)).collect())
            })
            .collect();
        let failures = playing
            .into_iter()
            .map(|part| -> Vec<String> { part.join().expect("a thread that plays cases") });
        failures.flatten().collect()
    });
    assert!(
        against.is_empty(),
        "{} cases do not hold:\n{}",
        against.len(),
        against.join("\n")
    );
}

/// Plays a case. Returns what is wrong with its outcome.
fn failure(case: &Case, stage: impl Fn(&Case) -> Result<Box<dyn Stage>>) -> Option<String> {
    match stage(case).and_then(|mut stage| play(case, stage.as_mut())) {
        Ok(report) if report.against.is_empty() => None,
        Ok(report) => Some(format!("{}: {}", case.id, report.against.join("; "))),
        Err(error) => Some(format!("{}: {error:#}", case.id)),
    }
}

#[test]
fn every_case_holds_in_the_core() {
    all(|case| Ok(Box::new(Core::new(case)?)));
}

#[test]
fn every_case_holds_through_the_wrapper() {
    all(|case| Ok(Box::new(Live::new(case)?)));
}
