//! Whether another wrapper stands directly between this one and the client. A variable could say so, and anybody
//! could set it; the pipe cannot be claimed.

use std::{fs, os::unix::fs::MetadataExt as _, path::Path};

use mcpmon_core::inspect::starter::Ancestor;

/// Whether an ancestor that runs this very program holds the other end of this process's standard input.
pub(super) fn is_wrapped(ancestors: &[Ancestor]) -> bool {
    let Some(own) = identity(Path::new("/proc/self/exe")) else {
        return false;
    };
    let Ok(input) = fs::read_link("/proc/self/fd/0") else {
        return false;
    };
    // A terminal is held by many.
    if !input.as_os_str().as_encoded_bytes().starts_with(b"pipe:") {
        return false;
    }
    ancestors.iter().any(|ancestor| {
        let process = format!("/proc/{}", ancestor.process.pid);
        identity(Path::new(&format!("{process}/exe"))) == Some(own) && holds(&process, &input)
    })
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    let metadata = fs::metadata(path).ok()?;
    Some((metadata.dev(), metadata.ino()))
}

fn holds(process: &str, pipe: &Path) -> bool {
    fs::read_dir(format!("{process}/fd")).is_ok_and(|descriptors| {
        descriptors
            .filter_map(Result::ok)
            .any(|descriptor| fs::read_link(descriptor.path()).is_ok_and(|target| target == pipe))
    })
}
