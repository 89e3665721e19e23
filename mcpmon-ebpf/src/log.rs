//! Lines for a developer who looks for a fault in these programs, in an object that was built for it: a release has none, and
//! counts instead.

/// Logs a line at a level of aya-log, where the object was built with the feature.
#[cfg(feature = "kernel-log")]
macro_rules! log {
    ($level:ident, $line:literal $(, $argument:expr)*) => {
        aya_log_ebpf::$level!((), $line $(, $argument)*)
    };
}

/// Leaves nothing behind: the object was built without the feature, and is the same as one without the line.
#[cfg(not(feature = "kernel-log"))]
macro_rules! log {
    ($level:ident, $line:literal $(, $argument:expr)*) => {{}};
}

/// Logs that a program refuses the process that runs, if it does.
#[cfg(feature = "kernel-log")]
macro_rules! told {
    ($program:literal, $refused:expr) => {
        if $refused {
            log!(
                info,
                "{} refuses process {}",
                $program,
                crate::task::current_pid()
            );
        }
    };
}

/// Leaves nothing behind, as [`log`].
#[cfg(not(feature = "kernel-log"))]
macro_rules! told {
    ($program:literal, $refused:expr) => {};
}

pub(crate) use {log, told};
