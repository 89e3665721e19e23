//! The start of the kernel sensor, with the state that an earlier daemon left.

use std::path::Path;

use mcpmon_kernel::{
    kernel_log, others,
    pinned::{PinDirectory, PinError},
    sensor::{Sensor, SensorError},
};

use super::DaemonError;
use crate::app::handover::Handover;

/// Checks that the kernel programs have a log, if it is wanted.
///
/// # Errors
/// Returns an error if they were built without one.
pub(super) fn check_log(wanted: bool) -> Result<(), DaemonError> {
    match wanted && !kernel_log::is_built_in() {
        true => Err(DaemonError::NoKernelLog),
        false => Ok(()),
    }
}

/// Starts the sensor with the state that an earlier daemon left. If no state can be kept, starts it without, and
/// returns the reason.
///
/// # Errors
/// Returns an error if the sensor cannot start, or another daemon runs: the two would kill each other's held servers.
pub(super) fn start(bpffs: &Path, agents: &[String]) -> Result<(Sensor, Option<String>), DaemonError> {
    let pins = PinDirectory::take(bpffs);
    if let Err(error @ PinError::Taken { .. }) = pins {
        return Err(SensorError::Pin(error).into());
    }
    match others::is_daemon_alive() {
        Ok(true) => return Err(SensorError::AnotherDaemon.into()),
        Ok(false) => {}
        Err(error) => tracing::debug!(%error, "cannot look for other daemons"),
    }
    match pins {
        Ok(pins) => Ok((Sensor::resume(pins, agents)?, None)),
        Err(error) => {
            let cause = match std::error::Error::source(&error) {
                Some(source) => format!("{error}: {source}"),
                None => error.to_string(),
            };
            let cause = format!("{cause}; the enforcement ends with the daemon");
            Ok((Sensor::start(agents)?, Some(cause)))
        }
    }
}

/// Returns the notes of an earlier daemon, or new ones.
pub(super) fn read_handover(sensor: &Sensor) -> Handover {
    let left = sensor.adopted.and_then(|_| Handover::parse(&sensor.notes.read()));
    if sensor.adopted.is_some() && left.is_none() {
        tracing::warn!("the notes of the daemon before cannot be read: servers of its time have no names");
    }
    left.unwrap_or_else(|| Handover::new(jiff::Timestamp::now().to_string()))
}

/// Shows the log lines of the kernel programs from now on. Must be called within a runtime.
pub(super) fn show_log(sensor: &mut Sensor) {
    if let Some(log) = sensor.log.take() {
        tokio::spawn(async move {
            if let Err(error) = log.follow().await {
                tracing::warn!(%error, "no more lines of the kernel programs are shown");
            }
        });
    }
}
