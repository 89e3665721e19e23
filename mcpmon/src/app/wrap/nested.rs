//! Nested wrappers: detection of another wrapper directly between this one and the client. It is detected by the pipe,
//! because any process can set a variable, but not pretend to have made the pipe.

use std::{fs, io, iter, os::unix::fs::MetadataExt as _, path::Path};

use mcpmon_detect::starter::Ancestor;
use mcpmon_model::{Event, EventKind, Layer};
use mcpmon_session::clock;

/// A file, by device and number.
type File = (u64, u64);

/// Returns whether an ancestor runs this same program, and made the pipe that is the standard input of all processes
/// from the one below it down to this one. An ancestor that only passed its own input on, as `mcpmon run` does, does
/// not judge what goes through it.
pub(super) fn is_wrapped(ancestors: &[Ancestor]) -> bool {
    let Ok(own) = file(Path::new("/proc/self/exe")) else {
        return false;
    };
    let Ok(input) = fs::read_link("/proc/self/fd/0") else {
        return false;
    };
    // Many processes hold the same terminal, so it proves nothing.
    if !input.as_os_str().as_encoded_bytes().starts_with(b"pipe:") {
        return false;
    }
    let above = ancestors
        .iter()
        .map(|ancestor| format!("/proc/{}", ancestor.process.pid));
    let chain: Vec<String> = iter::once("/proc/self".to_owned()).chain(above).collect();
    let is_input =
        |process: &str| fs::read_link(format!("{process}/fd/0")).is_ok_and(|source| source == input);
    let runs_ours = |process: &str| program(process).is_ok_and(|program| program == own);
    let is_watcher = |process: &str, relay: &str| {
        runs_ours(process) && !is_input(process) && is_other_half(process, relay)
    };
    // A server starts in a domain that hides the wrapper and everything above it. So if the domain is a wrapper's, it
    // begins right below that wrapper.
    let is_hidden = |process: &String| program(process).is_err_and(|error| is_denied(&error));
    let is_outside = |watcher: &str, relay: &str, above: &[String]| {
        is_wrap(watcher) && is_other_half(watcher, relay) && above.iter().all(is_hidden)
    };
    (1..chain.len()).any(|position| {
        let relays = match program(&chain[position]) {
            Ok(program) => program == own && !is_input(&chain[position]),
            // Only root may look into a wrapper that relays, and other programs can be like that too. The wrapper's
            // watcher is above it.
            Err(error) if is_denied(&error) => chain.get(position + 1).is_some_and(|watcher| {
                let relay = &chain[position];
                is_watcher(watcher, relay) || is_outside(watcher, relay, &chain[position..])
            }),
            Err(_) => false,
        };
        relays && is_input(&chain[position - 1])
    })
}

/// Builds the event that this wrapper steps aside.
pub(super) fn stepped_aside() -> Event {
    let kind = EventKind::EnforcementDegraded {
        component: "wrapper".to_owned(),
        cause: "the server is wrapped already: a wrapper inside of the other one stepped aside".to_owned(),
    };
    let mut event = Event::new(clock::now(), Layer::Stdio, kind);
    event.reason = Some(
        "the outer wrapper judges what is said; the options and the policy of the inner one have no effect: take \
         one of the two `mcpmon wrap` out of the command"
            .to_owned(),
    );
    event
}

/// Returns whether two processes have the same arguments, because they were one that divided. A program that the upper
/// one started would have other arguments.
fn is_other_half(process: &str, other: &str) -> bool {
    let words = |process: &str| fs::read(Path::new(process).join("cmdline"));
    words(process).is_ok_and(|own| !own.is_empty() && words(other).is_ok_and(|other| own == other))
}

/// Returns whether a process was started as a wrapper.
fn is_wrap(process: &str) -> bool {
    let words = fs::read(Path::new(process).join("cmdline")).unwrap_or_default();
    words.split(|byte| *byte == 0).any(|word| word == b"wrap")
}

fn is_denied(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied
}

fn program(process: &str) -> io::Result<File> {
    file(&Path::new(process).join("exe"))
}

fn file(path: &Path) -> io::Result<File> {
    let metadata = fs::metadata(path)?;
    Ok((metadata.dev(), metadata.ino()))
}
