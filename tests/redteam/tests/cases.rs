//! Runs every case, in the core and through the real wrapper.

#![cfg(test)]

use anyhow::Result;
use mcpmon_redteam::{Case, Core, Live, Stage, load, play};

fn all(stage: impl Fn(&Case) -> Result<Box<dyn Stage>>) {
    let cases = load().expect("cases");
    assert!(cases.len() >= 200, "the suite has shrunk to {}", cases.len());
    let mut against = Vec::new();
    for case in &cases {
        match stage(case).and_then(|mut stage| play(case, stage.as_mut())) {
            Ok(report) if report.against.is_empty() => {}
            Ok(report) => against.push(format!("{}: {}", case.id, report.against.join("; "))),
            Err(error) => against.push(format!("{}: {error:#}", case.id)),
        }
    }
    assert!(
        against.is_empty(),
        "{} cases do not hold:\n{}",
        against.len(),
        against.join("\n")
    );
}

#[test]
fn every_case_holds_in_the_core() {
    all(|case| Ok(Box::new(Core::new(case)?)));
}

#[test]
fn every_case_holds_through_the_wrapper() {
    all(|case| Ok(Box::new(Live::new(case)?)));
}
