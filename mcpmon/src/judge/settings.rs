//! Where a process without a daemon records, and how.

use super::{BATCH, JudgeError, Options};
use crate::{
    config::RecordSettings,
    record::{self, OutletSettings, Settings},
};

/// How a process without a daemon records.
pub(crate) fn own_settings(options: &Options, record: &RecordSettings) -> Result<Settings, JudgeError> {
    let named = options.db.clone().or_else(|| record.path.clone());
    let path = named.or_else(record::own_store).ok_or(JudgeError::NoPlace)?;
    Ok(Settings {
        retention: record.retention,
        max_size: record.max_size,
        outlets: outlets(record),
        batch: BATCH,
        ..Settings::new(path)
    })
}

/// Where events go beside the store.
#[must_use]
pub(crate) fn outlets(settings: &RecordSettings) -> OutletSettings {
    OutletSettings {
        jsonl: settings.jsonl.clone(),
        webhook: settings.webhook.as_ref().map(|webhook| record::WebhookSettings {
            url: webhook.url.clone(),
            key_file: webhook.key_file.clone(),
            min_severity: webhook.min_severity,
        }),
    }
}
