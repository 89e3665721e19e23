//! The webhook: events are posted to a URL, one JSON object per request, signed if there is a key.

use std::{path::PathBuf, time::Duration};

use mcpmon_model::Severity;
use mcpmon_policy::{section_keys, written::Level};

use super::{
    super::{bodies, writer::now},
    EventSink, SectionFaults, SinkKeys, SinkSurroundings,
    posting::{Post, PostFailure, Posting, Receiver},
    signature::{ID, SIGNATURE, SigningKey, TIMESTAMP},
};

/// The name of its sink.
pub(super) const NAME: &str = "webhook";
/// Time limit for one request.
const TIMEOUT: Duration = Duration::from_secs(10);

section_keys! {
    /// `record.webhook_url` and what belongs to it.
    pub(super) struct WebhookKeys {
        /// URL that events are posted to; empty for none.
        webhook_url: String = String::new(),
        /// File with the key that posts are signed with, which only its owner may read; empty for none.
        webhook_key_file: String = String::new(),
        /// Severity from which on they are.
        webhook_min_severity: Level = Level::High,
    }
}

/// The settings of the webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookSettings {
    /// `http` or `https`.
    pub url: String,
    /// File with the key for signatures, absolute.
    pub key_file: Option<PathBuf>,
    /// The lowest severity of events that are posted.
    pub min_severity: Severity,
}

impl SinkKeys for WebhookKeys {
    type Settings = WebhookSettings;

    fn check(&self, faults: &mut SectionFaults) -> Option<WebhookSettings> {
        let key_file = faults.file("webhook_key_file", &self.webhook_key_file);
        if self.webhook_url.is_empty() {
            if key_file.is_some() {
                faults.push(
                    "webhook_key_file",
                    "nothing is posted that could be signed: set `webhook_url` too",
                );
            }
            return None;
        }
        let url = faults.url("webhook_url", &self.webhook_url)?;
        Some(WebhookSettings {
            url: url.as_str().to_owned(),
            key_file,
            min_severity: self.webhook_min_severity.severity(),
        })
    }

    fn start(settings: &WebhookSettings, _: &SinkSurroundings<'_>) -> Option<Box<dyn EventSink>> {
        match start(settings) {
            Ok(posting) => Some(Box::new(posting)),
            Err(error) => {
                tracing::error!(%error, "nothing is posted to the webhook");
                None
            }
        }
    }
}

/// Starts posting.
///
/// # Errors
/// Returns an error if no thread can be started.
pub(super) fn start(settings: &WebhookSettings) -> std::io::Result<Posting> {
    Posting::start(NAME, settings.min_severity, receiver(settings))
}

/// Returns the receiver, or the reason why there is none.
pub(super) fn receiver(settings: &WebhookSettings) -> Result<impl Receiver + use<>, String> {
    let key = settings.key_file.as_deref().map(bodies::secret).transpose();
    key.map(|key| Webhook {
        url: settings.url.clone(),
        agent: agent(),
        key: key.map(|secret| SigningKey::new(&secret)),
    })
    .map_err(|error| {
        // Receivers rely on the signature, so nothing is posted unsigned.
        tracing::error!(%error, "nothing is posted to the webhook");
        format!("nothing is posted unsigned: {error}")
    })
}

/// The receiver at a URL.
struct Webhook {
    url: String,
    agent: ureq::Agent,
    key: Option<SigningKey>,
}

impl Receiver for Webhook {
    fn post(&self, post: &Post) -> Result<(), PostFailure> {
        let id = post.id.to_string();
        let seconds = now().0 / 1_000_000_000;
        let mut request = self
            .agent
            .post(&self.url)
            .content_type("application/json")
            .header(ID, &id)
            .header(TIMESTAMP, seconds.to_string());
        if let Some(key) = &self.key {
            request = request.header(SIGNATURE, key.sign(&id, seconds, &post.body));
        }
        let sent = request.send(&*post.body);
        sent.map(drop).map_err(|error| {
            // A server that understood a post and refused it will refuse it again.
            let is_final = matches!(error, ureq::Error::StatusCode(status)
                if status < 500 && !matches!(status, 408 | 425 | 429));
            PostFailure {
                may_pass: !is_final,
                // The URL may contain a secret, and is in none of these messages.
                cause: error.to_string(),
            }
        })
    }
}

/// Follows no redirect: events are only sent to the configured URL.
fn agent() -> ureq::Agent {
    ureq::Agent::config_builder()
        .timeout_global(Some(TIMEOUT))
        .max_redirects(0)
        .user_agent(concat!("mcpmon/", env!("CARGO_PKG_VERSION")))
        .build()
        .into()
}
