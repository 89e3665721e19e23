//! The table of what works on which kernel: `docs/kernel-coverage.md`, written from the results of the kernel tests and
//! compared with them in CI.

use std::{collections::BTreeMap, fmt::Write as _, fs};

use anyhow::{Context as _, Result, bail, ensure};

use super::{
    boot::TestResult,
    image::{KERNELS, Kernel},
};
use crate::shell::repository;

const FILE: &str = "docs/kernel-coverage.md";
const HEAD: &str = "\
# What holds on which kernel

Every kernel test, on every kernel of the lab; `cargo xtask vm KERNEL… --write-coverage` writes this page, and CI compares it
with what it finds on the oldest kernel, on 6.1 and on `newest`, which is the kernel of Debian's next release. 6.12-arm64 is the
same kernel for aarch64, the others are for x86_64. 5.10 runs
without `bpf` among its security modules, the others with it; `--lsm` changes that, and `starts` alone depends on it. *Yes* is a test that passed; behind it stands
what the kernel has nothing for, so that the test could not try it there, or what is open on it. [kernel.md](kernel.md)
explains the ways that are tried, [SECURITY.md](../SECURITY.md#limits) what the open ones mean.
";

/// A test, and its text in the column of each kernel.
type Row = (String, BTreeMap<String, String>);

/// The table.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Coverage {
    /// The rows, in the order of the tests.
    rows: Vec<Row>,
}

impl Coverage {
    /// Reads the page; returns an empty table if there is none.
    pub(super) fn read() -> Result<Self> {
        let path = repository().join(FILE);
        if !path.exists() {
            return Ok(Self::default());
        }
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {FILE}"))?;
        Self::parse(&text)
    }

    pub(super) fn write(&self) -> Result<()> {
        fs::write(repository().join(FILE), self.page()).with_context(|| format!("cannot write {FILE}"))
    }

    /// Replaces the column of a kernel.
    pub(super) fn put(&mut self, kernel: Kernel, results: &[TestResult]) {
        let old = std::mem::take(&mut self.rows);
        self.rows = results
            .iter()
            .map(|result| {
                let mut cells = old
                    .iter()
                    .find(|(name, _)| *name == result.name)
                    .map(|(_, cells)| cells.clone())
                    .unwrap_or_default();
                cells.insert(kernel.name.to_owned(), cell(result));
                (result.name.clone(), cells)
            })
            .collect();
    }

    /// Compares the column of a kernel with its test results.
    ///
    /// # Errors
    /// Returns an error with the first test whose result differs from the page.
    pub(super) fn check(&self, kernel: Kernel, results: &[TestResult]) -> Result<()> {
        let remedy = format!(
            "write it again: cargo xtask vm {} --write-coverage",
            KERNELS.map(|kernel| kernel.name).join(" ")
        );
        for result in results {
            let found = cell(result);
            let row = self.rows.iter().find(|(name, _)| *name == result.name);
            match row.and_then(|(_, cells)| cells.get(kernel.name)) {
                Some(told) if *told == found => {}
                told => bail!(
                    "{FILE} has {:?} for {} on {}, and it is {found:?}; {remedy}",
                    told.map_or("nothing", |told| told),
                    result.name,
                    kernel.name
                ),
            }
        }
        ensure!(
            self.rows.len() == results.len(),
            "{FILE} has {} tests, and there are {}; {remedy}",
            self.rows.len(),
            results.len()
        );
        Ok(())
    }

    fn page(&self) -> String {
        let mut page = HEAD.to_owned();
        let mut group = "";
        for (name, cells) in &self.rows {
            let (of, test) = name.split_once("::").unwrap_or(("other", name));
            if of != group {
                let columns = KERNELS.map(|kernel| kernel.name).join(" | ");
                let line = "|---".repeat(KERNELS.len() + 1);
                let _infallible = write!(page, "\n## {of}\n\n| test | {columns} |\n{line}|\n");
                group = of;
            }
            let cell = |kernel: Kernel| cells.get(kernel.name).map_or("not run", String::as_str);
            let line = KERNELS.map(cell).join(" | ");
            let _infallible = writeln!(page, "| {} | {line} |", test.replace('_', " "));
        }
        page
    }

    fn parse(text: &str) -> Result<Self> {
        let mut rows = Vec::new();
        let mut group = "";
        for line in text.lines() {
            if let Some(title) = line.strip_prefix("## ") {
                group = title;
                continue;
            }
            let Some(line) = line.strip_prefix("| ").and_then(|line| line.strip_suffix(" |")) else {
                continue;
            };
            let parts: Vec<_> = line.split(" | ").collect();
            if parts.first() == Some(&"test") {
                ensure!(
                    parts[1..] == KERNELS.map(|kernel| kernel.name),
                    "{FILE} has other kernels than the lab: remove the file and write it again"
                );
                continue;
            }
            ensure!(parts.len() == KERNELS.len() + 1, "{FILE}: not a row: {line}");
            let cells = KERNELS
                .iter()
                .zip(&parts[1..])
                .filter(|(_, text)| **text != "not run")
                .map(|(kernel, text)| (kernel.name.to_owned(), (*text).to_owned()))
                .collect();
            rows.push((format!("{group}::{}", parts[0].replace(' ', "_")), cells));
        }
        Ok(Self { rows })
    }
}

/// Returns the text for a result.
fn cell(result: &TestResult) -> String {
    let outcome = if result.passed { "yes" } else { "**no**" };
    let texts = [outcome]
        .into_iter()
        .chain(result.lacks.iter().map(String::as_str));
    texts.collect::<Vec<_>>().join("; ").replace('|', "/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(name: &str, passed: bool, lacks: &[&str]) -> TestResult {
        TestResult {
            name: name.to_owned(),
            passed,
            lacks: lacks.iter().map(|&text| text.to_owned()).collect(),
        }
    }

    #[test]
    fn a_page_is_read_as_it_was_written() {
        let [oldest, newest] = [KERNELS[0], KERNELS[KERNELS.len() - 1]];
        let old = [
            result("exec::of_a_script", true, &[]),
            result("paths::all", true, &["a | b", "c"]),
        ];
        let new = [
            result("exec::of_a_script", true, &[]),
            result("paths::all", false, &[]),
        ];
        let mut coverage = Coverage::default();
        coverage.put(oldest, &old);
        coverage.put(newest, &new);
        let page = coverage.page();
        assert!(
            page.contains("| all | yes; a / b; c | not run | not run | not run | not run | **no** |"),
            "{page}"
        );
        let read = Coverage::parse(&page).unwrap();
        assert_eq!(read, coverage);
        read.check(oldest, &old).unwrap();
        read.check(newest, &new).unwrap();
    }

    #[test]
    fn what_differs_is_named() {
        let [oldest, other] = [KERNELS[0], KERNELS[1]];
        let results = [result("exec::of_a_script", true, &[])];
        let mut coverage = Coverage::default();
        coverage.put(oldest, &results);
        let changed = [result("exec::of_a_script", false, &[])];
        let more = [results[0].clone(), result("exec::ends", true, &[])];
        for (kernel, results) in [
            (oldest, &changed[..]),
            (oldest, &more[..]),
            (other, &results[..]),
            (oldest, &[]),
        ] {
            let error = coverage.check(kernel, results).unwrap_err().to_string();
            assert!(error.contains("--write-coverage"), "{error}");
        }
    }
}
