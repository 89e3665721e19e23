//! Runs the tests one after the other in this single-threaded process, both on a host and as the only program of a
//! virtual machine.

#![expect(clippy::print_stdout, reason = "a test harness reports on standard output")]

use std::{
    env,
    panic::{AssertUnwindSafe, catch_unwind},
    process::ExitCode,
};

use anyhow::{Result, anyhow};

use crate::{child::reap_strays, lab::Lab};

/// A named test.
#[derive(Clone, Copy, Debug)]
pub struct Test {
    /// The name.
    pub name: &'static str,
    /// The test function.
    pub run: fn(&mut Lab) -> Result<()>,
}

/// The options of the command line, as `cargo test` and nextest pass them.
#[derive(Debug, Default, PartialEq, Eq)]
struct Options {
    list: bool,
    exact: bool,
    ignored: bool,
    filters: Vec<String>,
}

impl Options {
    fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Self> {
        let mut options = Self::default();
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--list" => options.list = true,
                "--exact" => options.exact = true,
                "--ignored" => options.ignored = true,
                // Ignored, because tests run one by one and print as they go.
                "--nocapture" | "--no-capture" | "--include-ignored" | "--show-output" | "-q" | "--quiet" => {
                }
                "--format" | "--test-threads" | "--color" => drop(arguments.next()),
                long if long.starts_with("--format=") => {}
                long if long.starts_with("--test-threads=") || long.starts_with("--color=") => {}
                unknown if unknown.starts_with('-') => return Err(anyhow!("unknown option {unknown}")),
                _ => options.filters.push(argument),
            }
        }
        Ok(options)
    }

    fn selects(&self, name: &str) -> bool {
        let matches = |filter: &String| {
            if self.exact {
                name == filter
            } else {
                name.contains(filter)
            }
        };
        !self.ignored && (self.filters.is_empty() || self.filters.iter().any(matches))
    }
}

/// Runs the tests that the command line selects. If the sensor cannot start, the run fails under `CI=true`, and is
/// skipped otherwise.
#[must_use]
pub fn main(tests: &[Test]) -> ExitCode {
    let options = match Options::parse(env::args().skip(1)) {
        Ok(options) => options,
        Err(error) => {
            println!("{error:#}");
            return ExitCode::from(2);
        }
    };
    let selected: Vec<_> = tests.iter().filter(|test| options.selects(test.name)).collect();
    if options.list {
        selected.iter().for_each(|test| println!("{}: test", test.name));
        return ExitCode::SUCCESS;
    }
    if selected.is_empty() {
        println!("0 passed, 0 failed, 0 skipped");
        return ExitCode::SUCCESS;
    }
    match Lab::open() {
        Ok(mut lab) => run(&selected, &mut lab),
        Err(error) if env::var_os("CI").is_some_and(|ci| ci == "true") => {
            println!("the kernel sense cannot start, and under CI it must: {error:#}");
            println!("0 passed, {} failed, 0 skipped", selected.len());
            ExitCode::FAILURE
        }
        Err(error) => {
            selected
                .iter()
                .for_each(|test| println!("test {} ... skipped: {error:#}", test.name));
            println!("0 passed, 0 failed, {} skipped", selected.len());
            ExitCode::SUCCESS
        }
    }
}

fn run(tests: &[&Test], lab: &mut Lab) -> ExitCode {
    let mut failed = 0;
    for test in tests {
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            lab.reset()?;
            (test.run)(lab)
        }));
        reap_strays();
        for note in lab.take_notes() {
            println!("  {}: {note}", test.name);
        }
        for text in lab.take_lacking() {
            println!("lacks {}: {text}", test.name);
        }
        match outcome {
            Ok(Ok(())) => println!("test {} ... ok", test.name),
            Ok(Err(error)) => {
                failed += 1;
                println!("test {} ... FAILED: {error:#}", test.name);
            }
            Err(_) => {
                failed += 1;
                println!("test {} ... FAILED: panicked", test.name);
            }
        }
    }
    println!("{} passed, {failed} failed, 0 skipped", tests.len() - failed);
    if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(line: &str) -> Options {
        Options::parse(line.split_whitespace().map(str::to_owned)).expect("valid options")
    }

    #[test]
    fn filters_select_by_part_or_by_whole_name() {
        assert!(options("").selects("paths"));
        assert!(options("path exec").selects("paths"));
        assert!(!options("exec").selects("paths"));
        assert!(!options("--exact path").selects("paths"));
        assert!(options("paths --exact --nocapture").selects("paths"));
        assert!(!options("--ignored").selects("paths"));
    }

    #[test]
    fn options_of_the_usual_harness_are_understood() {
        let listing = options("--list --format terse");
        assert_eq!(
            listing,
            Options {
                list: true,
                ..Options::default()
            }
        );
        assert_eq!(options("--test-threads=1 --color never x").filters, ["x"]);
        Options::parse(["--unheard-of".to_owned()]).expect_err("no such option");
    }
}
