//! Log lines for a developer who debugs these programs. They are in an object that was built for that only; a release
//! has counters instead.

/// Logs a line at a level of aya-log, if the object is built with the feature.
#[cfg(feature = "kernel-log")]
macro_rules! log {
    ($level:ident, $line:literal $(, $argument:expr)*) => {
        aya_log_ebpf::$level!((), $line $(, $argument)*)
    };
}

/// Expands to nothing: without the feature, the object is the same as one without the line.
#[cfg(not(feature = "kernel-log"))]
macro_rules! log {
    ($level:ident, $line:literal $(, $argument:expr)*) => {{}};
}

/// Logs that a program refuses the current process, if it does.
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

/// Expands to nothing, like [`log`].
#[cfg(not(feature = "kernel-log"))]
macro_rules! told {
    ($program:literal, $refused:expr) => {};
}

pub(crate) use {log, told};
