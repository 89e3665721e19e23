//! Settings of recording for a process without a daemon.

use mcpmon_config::{EventFormat, JsonlSettings, RecordSettings};
use mcpmon_store::{OutletSettings, RecorderSettings};

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
        outlets: outlets(record),
        batch: BATCH,
        ..RecorderSettings::new(path)
    })
}

fn jsonl(settings: &JsonlSettings) -> mcpmon_store::JsonlSettings {
    mcpmon_store::JsonlSettings {
        path: settings.path.clone(),
        format: match settings.format {
            EventFormat::Mcpmon => mcpmon_store::EventFormat::Mcpmon,
            EventFormat::Ocsf => mcpmon_store::EventFormat::Ocsf,
        },
        max_size: settings.max_size,
        keep: settings.keep,
    }
}

/// Returns the outlets besides the store.
#[must_use]
pub fn outlets(settings: &RecordSettings) -> OutletSettings {
    OutletSettings {
        jsonl: settings.jsonl.as_ref().map(jsonl),
        webhook: settings
            .webhook
            .as_ref()
            .map(|webhook| mcpmon_store::WebhookSettings {
                url: webhook.url.clone(),
                key_file: webhook.key_file.clone(),
                min_severity: webhook.min_severity,
            }),
        otlp: settings.otlp.as_ref().map(|otlp| mcpmon_store::OtlpSettings {
            endpoint: otlp.endpoint.clone(),
            headers_file: otlp.headers_file.clone(),
            ca_file: otlp.ca_file.clone(),
            with_content: otlp.with_content,
            signals: mcpmon_store::OtlpSignals {
                logs: otlp.logs,
                traces: otlp.traces,
                metrics: otlp.metrics,
            },
        }),
        metrics: None,
    }
}
