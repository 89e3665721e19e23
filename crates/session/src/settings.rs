//! Settings of recording for a process without a daemon.

use mcpmon_config::RecordSettings;
use mcpmon_store::RecorderSettings;

use super::{BATCH, JudgeError, Options};

/// Returns the recording settings of a process without a daemon.
pub fn own_settings(options: &Options, record: &RecordSettings) -> Result<RecorderSettings, JudgeError> {
    let named = options.db.clone().or_else(|| record.path.clone());
    let path = named
        .or_else(mcpmon_store::own_store)
        .ok_or(JudgeError::NoPlace)?;
    Ok(RecorderSettings {
        retention: record.retention,
        max_size: record.max_size,
        sinks: record.sinks.clone(),
        batch: BATCH,
        ..RecorderSettings::new(path)
    })
}
