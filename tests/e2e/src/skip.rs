//! Tests that cannot run here: they say so on standard error, and fail if nothing may be left out.

use std::{
    env,
    io::{self, Write as _},
    thread,
};

use anyhow::{Result, bail};

/// Says that this test is skipped, and what is missing for it.
///
/// # Errors
/// Returns an error if `CI=true` says that nothing may be missing.
pub fn for_lack(missing: &str) -> Result<()> {
    if env::var_os("CI").is_some_and(|value| value == "true") {
        bail!("cannot run, and under CI it must: {missing}");
    }
    let thread = thread::current();
    // Not by `eprintln!`, whose output the test harness captures.
    Ok(writeln!(
        io::stderr().lock(),
        "skipped: {}: {missing}",
        thread.name().unwrap_or("a test")
    )?)
}
