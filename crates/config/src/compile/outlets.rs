//! Outlets: destinations of events besides the store.

use std::path::PathBuf;

use super::{Finding, inspection::severity};
use crate::{load::KeyPath, raw, settings::WebhookSettings};

/// Compiles `record.webhook_url` and the severity from which on it is told.
pub(super) fn webhook(
    raw: &raw::Record,
    key_file: Option<PathBuf>,
    findings: &mut Vec<Finding>,
) -> Option<WebhookSettings> {
    if raw.webhook_url.is_empty() {
        if key_file.is_some() {
            let path = KeyPath::root().key("record").key("webhook_key_file");
            findings.push(Finding::new(
                path,
                "nothing is posted that could be signed: set `webhook_url` too",
            ));
        }
        return None;
    }
    let url = raw.webhook_url.parse::<raw::HttpUrl>();
    if let Err(error) = &url {
        let path = KeyPath::root().key("record").key("webhook_url");
        findings.push(Finding::new(path, error.to_string()));
    }
    Some(WebhookSettings {
        url: url.ok()?.as_str().to_owned(),
        key_file,
        min_severity: severity(raw.webhook_min_severity),
    })
}
