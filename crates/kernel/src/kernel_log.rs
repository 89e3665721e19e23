//! The log of the kernel programs, for their developers: it exists only in an object that was built with it.

use std::{fmt, io};

use aya::Ebpf;
use aya_log::EbpfLogger;
use log::{Level, Log, Metadata, Record};

use super::{sensor::OBJECT, sys};

/// The map of the log, as aya-log names it.
pub(super) const MAP: &str = "AYA_LOGS";

/// Returns whether the object that this program was built with has a log.
pub fn is_built_in() -> bool {
    is_in(OBJECT)
}

/// Returns whether an object has a log: the name of its map is among the object's symbols.
fn is_in(object: &[u8]) -> bool {
    object.windows(MAP.len()).any(|window| window == MAP.as_bytes())
}

/// The log of loaded programs.
pub struct KernelLog(EbpfLogger<Lines>);

impl fmt::Debug for KernelLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KernelLog").finish_non_exhaustive()
    }
}

impl KernelLog {
    /// Takes the log out of an object. Returns `None` if the object was built without one.
    pub(super) fn take(ebpf: &mut Ebpf) -> Option<Self> {
        EbpfLogger::init_with_logger(ebpf, Lines).ok().map(Self)
    }

    /// Writes each line as it comes, and does not return without an error.
    ///
    /// # Errors
    /// Returns an error if waiting for lines fails.
    pub async fn follow(self) -> io::Result<()> {
        let mut lines = sys::awaited(self.0)?;
        loop {
            let mut ready = lines.readable_mut().await?;
            ready.get_inner_mut().flush();
            ready.clear_ready();
        }
    }
}

/// Writes the programs' lines to this process's log, under the target `kernel`.
#[derive(Clone, Copy, Debug)]
struct Lines;

impl Log for Lines {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        let line = record.args();
        match record.level() {
            Level::Error => tracing::error!(target: "kernel", "{line}"),
            Level::Warn => tracing::warn!(target: "kernel", "{line}"),
            Level::Info => tracing::info!(target: "kernel", "{line}"),
            Level::Debug => tracing::debug!(target: "kernel", "{line}"),
            Level::Trace => tracing::trace!(target: "kernel", "{line}"),
        }
    }

    fn flush(&self) {}
}

#[cfg(test)]
mod tests {
    use std::{env, fs, io::Write as _, process::Command, time::Duration};

    use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

    use super::*;
    use crate::sensor::Sensor;

    #[test]
    fn an_object_with_a_log_is_told_from_one_without() {
        assert!(is_in(b"\x7fELF\0COUNTERS\0AYA_LOGS\0"));
        assert!(!is_in(b"\x7fELF\0COUNTERS\0"));
        assert!(!is_in(b""));
    }

    /// Names an object with a log, which `cargo xtask test` builds.
    const LOGGING_OBJECT: &str = "MCPMON_LOGGING_OBJECT";

    /// Each write, as one line.
    #[derive(Clone, Debug)]
    struct Written(UnboundedSender<String>);

    impl io::Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            // Nobody listens any more at the end.
            drop(self.0.send(String::from_utf8_lossy(bytes).into_owned()));
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Says why a test cannot run, which under CI is a failure.
    fn skip(missing: &str) {
        let is_ci = env::var_os("CI").is_some_and(|value| value == "true");
        assert!(!is_ci, "cannot run, and under CI it must: {missing}");
        // Not `eprintln!`, which the test harness keeps to itself.
        writeln!(
            io::stderr().lock(),
            "skipped: lines of the kernel programs: {missing}"
        )
        .expect("a place for words");
    }

    #[test]
    #[ignore = "it needs root and an object with a log: `cargo xtask test` runs it"]
    fn lines_of_the_programs_come() {
        const TIMEOUT: Duration = Duration::from_secs(10);
        if !nix::unistd::geteuid().is_root() {
            return skip("it needs root");
        }
        let Some(path) = env::var_os(LOGGING_OBJECT) else {
            return skip("MCPMON_LOGGING_OBJECT names no object with a log");
        };
        let object = fs::read(path).expect("the object");
        assert!(
            is_in(&object) && !is_built_in(),
            "a log in the one and not in the other"
        );
        let (sender, mut lines) = unbounded_channel();
        let written = Written(sender);
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_max_level(tracing::Level::DEBUG)
            .with_writer(move || written.clone())
            .finish();
        let _subscriber = tracing::subscriber::set_default(subscriber);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let mut sensor = Sensor::start_object(&object, None, &[]).expect("the programs with a log");
            assert!(sensor.attached.gaps().is_empty(), "{:?}", sensor.attached.gaps());
            let log = sensor.log.take().expect("the log");
            let mut child = Command::new("/bin/true").spawn().expect("a program");
            child.wait().expect("its end");
            let wanted = format!("process {} executes", child.id());
            let come = async {
                while let Some(line) = lines.recv().await {
                    if line.contains(&wanted) {
                        return line;
                    }
                }
                String::new()
            };
            let line = tokio::select! {
                ended = log.follow() => panic!("the log ended: {ended:?}"),
                line = tokio::time::timeout(TIMEOUT, come) => line.expect("a line in time"),
            };
            assert!(
                line.contains("kernel: ") && line.contains("bytes of arguments"),
                "{line}"
            );
        });
    }
}
