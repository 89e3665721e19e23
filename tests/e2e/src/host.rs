//! Turns of tests on this host, and checks that the host has what a test needs.

use std::{
    env,
    path::Path,
    sync::{Mutex, MutexGuard, PoisonError},
};

use anyhow::Result;

use crate::skip;

/// One test at a time, because daemons attach to the whole host.
static TURN: Mutex<()> = Mutex::new(());

/// The host, held by the test whose turn it is.
#[derive(Debug)]
pub struct Host {
    _turn: MutexGuard<'static, ()>,
}

impl Host {
    /// Waits for this test's turn. Returns `None`, and says so on standard error, if something is missing.
    ///
    /// # Errors
    /// Returns an error if something is missing and `CI=true` says that nothing may be.
    pub fn take(programs: &[&str]) -> Result<Option<Self>> {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(missing) = missing(programs) else {
            return Ok(Some(Self { _turn: turn }));
        };
        skip::for_lack(&missing)?;
        Ok(None)
    }
}

fn missing(programs: &[&str]) -> Option<String> {
    if !nix::unistd::geteuid().is_root() {
        return Some("it needs root".to_owned());
    }
    if !Path::new("/sys/kernel/btf/vmlinux").exists() {
        return Some("the kernel has no BTF at /sys/kernel/btf/vmlinux".to_owned());
    }
    let absent = programs.iter().find(|program| !is_on_path(program))?;
    Some(format!("there is no `{absent}` on PATH"))
}

fn is_on_path(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|directory| directory.join(program).exists())
}
