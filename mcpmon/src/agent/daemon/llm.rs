//! The LLM proxy of the daemon: started, changed and looked after with everything else.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use super::Daemon;
use crate::{
    agent::{
        clock, group,
        proxy::{Hosted, ProxyStatus, Tokens},
    },
    config::ProxySettings,
    judge::models::Models,
};

/// How often a proxy that could not start is tried again.
const RETRY: Duration = Duration::from_secs(30);
/// What events and `mcpmon status` call it.
const COMPONENT: &str = "LLM proxy";

/// The proxy, where there is one.
pub(super) struct Proxy {
    models: Models,
    tokens: Tokens,
    hosted: Option<Hosted>,
    /// When it was tried to start it last.
    tried: Option<Instant>,
}

impl Proxy {
    pub(super) fn new(models: Models) -> Self {
        Self {
            models,
            tokens: Tokens::default(),
            hosted: None,
            tried: None,
        }
    }

    pub(super) fn status(&self) -> Option<ProxyStatus> {
        self.hosted.as_ref().map(Hosted::status)
    }

    /// Makes it run as `wanted` says; `None` where nothing changed, else why it does not run.
    fn follow(&mut self, wanted: Option<&ProxySettings>) -> Option<Option<String>> {
        let is_as_wanted = |hosted: &Hosted| hosted.is_running() && Some(hosted.settings()) == wanted;
        let Some(wanted) = wanted else {
            self.tried = None;
            return self.hosted.take().map(|hosted| {
                hosted.retire();
                None
            });
        };
        if self.hosted.as_ref().is_some_and(is_as_wanted) {
            return None;
        }
        if let Some(hosted) = self.hosted.take() {
            hosted.retire();
        } else if self.tried.is_some_and(|tried| tried.elapsed() < RETRY) {
            return None;
        }
        self.tried = Some(Instant::now());
        let (models, tokens) = (self.models.clone(), self.tokens.clone());
        match Hosted::start(wanted, group::find(), models, tokens, None) {
            Ok(hosted) => {
                tracing::info!(listen = %hosted.status(), "the LLM proxy listens");
                self.hosted = Some(hosted);
                Some(None)
            }
            Err(error) => Some(Some(with_causes(&error))),
        }
    }

    pub(super) fn stop(self) {
        if let Some(hosted) = self.hosted {
            hosted.stop();
        }
    }
}

impl Daemon {
    /// To be called about once a second, and when the policy changed.
    pub(super) fn look_after_proxy(&mut self) {
        self.proxy.models.tick(clock::now());
        if let Some(trouble) = self.proxy.follow(self.loaded.settings.proxy.as_ref()) {
            self.note(COMPONENT, trouble);
        }
    }

    /// Another policy is in force.
    pub(super) fn tell_proxy(&mut self) {
        self.proxy
            .models
            .install(clock::now(), &Arc::clone(&self.loaded.policy));
        self.look_after_proxy();
    }
}

/// An error with what lies behind it.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
