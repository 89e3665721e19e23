//! Helpers of all commands: headings with timing, commands that are printed before they run, and the repository's
//! directory.

use std::{
    collections::VecDeque,
    fmt::{self, Display},
    io::IsTerminal as _,
    panic::resume_unwind,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
    thread::{self, ScopedJoinHandle},
    time::Instant,
};

use anyhow::{Context as _, Result, bail, ensure};

/// The machine lacks something: exit status 3, and the message contains the remedy.
#[derive(Debug)]
pub(crate) struct Environment(pub(crate) String);

impl Display for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Environment {}

/// The root of the repository.
pub(crate) fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask lies in the repository's root")
}

/// Returns the build directory, which Cargo may have been told to put elsewhere.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| repository().join("target"), PathBuf::from)
}

/// Returns Cargo's home directory, which contains the sources of all dependencies.
pub(crate) fn cargo_home() -> Result<PathBuf> {
    let named = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".cargo"));
    named.or_else(home).context("neither CARGO_HOME nor HOME is set")
}

/// Makes sure that Rust's standard library for a target is installed, with rustup if necessary.
///
/// # Errors
/// Returns the reason if there is none.
pub(crate) fn standard_library(target: &str) -> Result<(), String> {
    let library = || {
        let path = ask("rustc", &["--print", "target-libdir", "--target", target]);
        path.is_some_and(|path| Path::new(path.trim()).is_dir())
    };
    if library() {
        return Ok(());
    }
    let added = run(command("rustup").args(["target", "add", target]));
    if added.is_ok() && library() {
        return Ok(());
    }
    Err(format!(
        "there is no standard library for {target}, and rustup could not fetch it"
    ))
}

/// Returns whether this is a continuous-integration run, in which what cannot run fails.
pub(crate) fn is_ci() -> bool {
    std::env::var_os("CI").is_some_and(|value| !value.is_empty() && value != "false" && value != "0")
}

/// Returns whether a person can answer a question.
pub(crate) fn is_interactive() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Prints a message to the developer, on standard error.
#[expect(clippy::print_stderr, reason = "the one place where xtask prints progress")]
pub(crate) fn say(message: impl Display) {
    eprintln!("{message}");
}

/// Prints data, on standard output.
#[expect(clippy::print_stdout, reason = "the one place where xtask prints data")]
pub(crate) fn print(data: impl Display) {
    println!("{data}");
}

/// Does `work` under a heading, and prints how long it took.
pub(crate) fn step<T>(title: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    say(format_args!("\n=== {title}"));
    let start = Instant::now();
    let done = work().with_context(|| title.to_owned())?;
    say(format_args!(
        "=== {title}: done in {:.1} s",
        start.elapsed().as_secs_f64()
    ));
    Ok(done)
}

/// Returns the result of a thread, or passes on its panic.
pub(crate) fn join<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| resume_unwind(panic))
}

/// Does two things at the same time, and returns what both say: each failure is reported, and printed at once, because
/// the other may go on for minutes.
pub(crate) fn both(
    one: impl FnOnce() -> Result<()>,
    other: impl FnOnce() -> Result<()> + Send,
) -> Result<()> {
    let tell =
        |error: &anyhow::Error| say(format_args!("=== failed; what runs beside it goes on: {error:#}"));
    thread::scope(|scope| {
        let other = scope.spawn(|| other().inspect_err(tell));
        match (one().inspect_err(tell), join(other)) {
            (Err(one), Err(other)) => Err(one.context(format!("{other:#}; and also"))),
            (one, other) => one.and(other),
        }
    })
}

/// Runs commands beside each other, at most `most` at a time, and prints what each printed when it has ended.
///
/// # Errors
/// Returns an error that names every command that failed.
pub(crate) fn beside(most: usize, commands: Vec<(&str, Command)>) -> Result<()> {
    let waiting = Mutex::new(VecDeque::from(commands));
    let failed = Mutex::new(Vec::new());
    let lane = || {
        loop {
            let next = lock(&waiting).pop_front();
            let Some((title, mut command)) = next else { return };
            say(format_args!("=== {title}\n$ {}", shown(&command)));
            let begun = Instant::now();
            let output = command.stdin(Stdio::null()).output();
            // Nothing is printed between these lines.
            let mut failed = lock(&failed);
            let outcome = match output {
                Ok(output) => {
                    print(String::from_utf8_lossy(&output.stdout));
                    print(String::from_utf8_lossy(&output.stderr));
                    (!output.status.success()).then(|| output.status.to_string())
                }
                Err(error) => Some(error.to_string()),
            };
            let seconds = begun.elapsed().as_secs_f64();
            match outcome {
                None => say(format_args!("=== {title}: done in {seconds:.1} s")),
                Some(cause) => {
                    say(format_args!("=== {title}: failed after {seconds:.1} s: {cause}"));
                    failed.push(format!("{title}: {cause}"));
                }
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..most {
            scope.spawn(lane);
        }
    });
    let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    ensure!(failed.is_empty(), "{}", failed.join("; "));
    Ok(())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes a command that runs in the repository's root.
pub(crate) fn command(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    command.current_dir(repository());
    command
}

/// Returns a command for the Cargo that runs this xtask.
pub(crate) fn cargo() -> Command {
    command(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Prints a command and runs it. Returns an error if it fails.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    say(format_args!("$ {}", shown(command)));
    let status = command
        .status()
        .with_context(|| format!("could not start {}", shown(command)))?;
    if !status.success() {
        bail!("`{}` failed: {status}", shown(command));
    }
    Ok(())
}

/// Returns the standard output of a command that succeeds; `None` if the command is missing or fails.
pub(crate) fn ask(program: impl AsRef<std::ffi::OsStr>, arguments: &[&str]) -> Option<String> {
    let Output { status, stdout, .. } = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    status
        .success()
        .then(|| String::from_utf8_lossy(&stdout).into_owned())
}

/// Returns the first file of this name on `PATH`.
pub(crate) fn which(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|directory| directory.join(name))
        .find(|file| file.is_file())
}

/// Formats a command in the form in which it can be typed.
pub(crate) fn shown(command: &Command) -> String {
    let variables = command.get_envs().filter_map(|(name, value)| {
        let value = value?.to_string_lossy().replace('\u{1f}', " ");
        Some(quoted(&format!("{}={value}", name.to_string_lossy())))
    });
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    variables
        .chain(words.map(|word| quoted(&word.to_string_lossy())))
        .collect::<Vec<_>>()
        .join(" ")
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@+%^".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shown_command_can_be_typed_again() {
        let mut command = Command::new("cargo");
        command
            .args(["build", "--features", "a b", "it's"])
            .env("RUSTFLAGS", "-C\u{1f}x");
        assert_eq!(
            shown(&command),
            r"'RUSTFLAGS=-C x' cargo build --features 'a b' 'it'\''s'"
        );
    }

    #[test]
    fn of_two_failures_both_are_told() {
        let outcome = |fails: bool, name: &'static str| match fails {
            true => Err(anyhow::anyhow!(name)),
            false => Ok(()),
        };
        for (one, other, expected) in [
            (false, false, None),
            (true, false, Some("one")),
            (false, true, Some("other")),
            (true, true, Some("other; and also: one")),
        ] {
            let told = both(|| outcome(one, "one"), || outcome(other, "other"));
            assert_eq!(told.err().map(|error| format!("{error:#}")).as_deref(), expected);
        }
    }

    #[test]
    fn a_failing_command_is_named() {
        let error = run(&mut Command::new("false")).expect_err("false fails");
        assert!(error.to_string().contains("`false` failed"), "{error}");
    }
}
