//! The official conformance suite, and its results for a server.

use std::{collections::BTreeMap, fmt::Write as _, fs, path::Path, process::Command, thread, time::Duration};

use anyhow::{Context as _, Result, ensure};
use mcpmon_e2e::real::{Real, Scene};
use serde_json::Value;

/// The longest time for a run of the suite, which takes some seconds.
const TIMEOUT: Duration = Duration::from_secs(120);

/// An example of the time stamp that ends a directory's name.
const STAMP: &str = "-2026-11-22T05-52-49-549Z";

/// A major version of the suite, and the checks to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Suite {
    /// All checks of the version for protocols with a handshake.
    Handshake,
    /// The checks that a protocol version requires, in the version of the suite for all protocols.
    Required(&'static str),
}

/// A check: its name, its status, and the reason.
pub(crate) type Check = (String, String, Option<String>);

/// The results of the suite: the checks of each scenario, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Found(BTreeMap<String, Vec<Check>>);

impl Suite {
    /// Runs the suite at two servers, side by side.
    pub(crate) fn run_at_both(self, real: &Real, one: &str, other: &str) -> Result<(Found, Found)> {
        thread::scope(|scope| {
            let first = scope.spawn(|| self.run(real, one));
            let second = self.run(real, other)?;
            let first = first.join().expect("the first run panicked")?;
            Ok((first, second))
        })
    }

    /// Runs the suite at a server.
    pub(crate) fn run(self, real: &Real, url: &str) -> Result<Found> {
        let scene = Scene::new()?;
        let output = scene.file("found");
        let mut suite = Command::new(real.node22());
        let package = match self {
            Self::Handshake => "conformance-handshake",
            Self::Required(_) => "conformance-eras",
        };
        suite.arg(real.npm("..").join(package).join("dist/index.js"));
        suite.args(["server", "--url", url, "--output-dir"]).arg(&output);
        if let Self::Required(version) = self {
            suite.args(["--requirements", version]);
        }
        scene.prepare(&mut suite);
        // The suite's exit status reports failed checks, and is not used here.
        let run = assert_cmd::Command::from_std(suite).timeout(TIMEOUT).output()?;
        let found = Found::read(&output, url)?;
        let said = String::from_utf8_lossy(&run.stdout);
        ensure!(
            said.contains("=== SUMMARY ==="),
            "{self:?} did not finish: {said}\n{:?}",
            run.status
        );
        ensure!(found.0.len() >= 30, "{self:?} ran too little: {said}");
        Ok(found)
    }
}

impl Found {
    fn read(output: &Path, url: &str) -> Result<Self> {
        let mut found = Self::default();
        for entry in fs::read_dir(output).context("the suite wrote nothing")? {
            let directory = entry?.path();
            let name = directory
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            // The name of the scenario and the time: `server-ping-2026-11-22T05-52-49-549Z`.
            let scenario = name
                .len()
                .checked_sub(STAMP.len())
                .and_then(|end| name.get(..end));
            let scenario = scenario.with_context(|| format!("{name} is no scenario"))?;
            let checks: Vec<Value> = serde_json::from_slice(&fs::read(directory.join("checks.json"))?)?;
            let checks = checks.iter().filter(|check| check["status"] != "INFO");
            let text =
                |check: &Value, field: &str| check[field].as_str().map(|text| text.replace(url, "URL"));
            let check = |check| {
                let named = text(check, "id").unwrap_or_default();
                let status = text(check, "status").unwrap_or_default();
                (named, status, text(check, "errorMessage"))
            };
            found.0.insert(scenario.to_owned(), checks.map(check).collect());
        }
        Ok(found)
    }

    /// Returns the numbers of passed and failed checks.
    pub(crate) fn score(&self) -> String {
        let count = |status| {
            self.0
                .values()
                .flatten()
                .filter(|check| check.1 == status)
                .count()
        };
        format!("{} passed and {} failed", count("SUCCESS"), count("FAILURE"))
    }

    /// Returns the checks that failed, without those of extensions that the server does not offer.
    pub(crate) fn failed(&self) -> Vec<(&String, &Check)> {
        let all = self
            .0
            .iter()
            .flat_map(|(scenario, checks)| checks.iter().map(move |check| (scenario, check)));
        all.filter(|(scenario, check)| check.1 == "FAILURE" && !scenario.starts_with("server-tasks-"))
            .collect()
    }

    /// Returns the differences from another run; empty if there are none.
    pub(crate) fn difference(&self, other: &Self) -> Result<String> {
        let mut told = String::new();
        let none = Vec::new();
        for scenario in self
            .0
            .keys()
            .chain(other.0.keys().filter(|key| !self.0.contains_key(*key)))
        {
            let (one, two) = (
                self.0.get(scenario).unwrap_or(&none),
                other.0.get(scenario).unwrap_or(&none),
            );
            if one != two {
                writeln!(told, "{scenario}:")?;
                one.iter()
                    .filter(|check| !two.contains(check))
                    .try_for_each(|check| writeln!(told, "  - {check:?}"))?;
                two.iter()
                    .filter(|check| !one.contains(check))
                    .try_for_each(|check| writeln!(told, "  + {check:?}"))?;
            }
        }
        Ok(told)
    }

    /// Removes a scenario and returns its checks; empty if it was not run.
    pub(crate) fn take(&mut self, scenario: &str) -> Vec<Check> {
        self.0.remove(scenario).unwrap_or_default()
    }
}
