//! Records a single event, for processes that judge nothing.

use mcpmon_model::Event;
use mcpmon_store::{Recorder, RecorderSettings};

use super::{JudgeError, Options, kept::ThroughDaemon, link::Link, own_settings, protocol::Hello};

/// Records `event` for the server and session of `options`, without joining the session.
///
/// # Errors
/// Returns an error if the policy cannot be used, or there is neither a daemon nor a store.
pub fn note(options: &Options, mut event: Event) -> Result<(), JudgeError> {
    let conversation = &options.conversation;
    event.session_id = conversation.session.clone();
    event.server_id = Some(conversation.identity.server.clone());
    event.package = conversation.identity.package();
    let hello = Hello {
        identity: conversation.identity.clone(),
        session: None,
        agent: None,
        starts_server: false,
        child: None,
    };
    let daemon = options.socket.as_ref().map(|socket| Link::open(socket, hello));
    let recorder = match daemon {
        Some(Ok((link, _))) => {
            let own = options.db.clone().or_else(mcpmon_store::own_store);
            let settings = RecorderSettings::new(own.ok_or(JudgeError::NoPlace)?);
            let destination = ThroughDaemon::new(link, settings.location.path());
            Recorder::with(Box::new(destination), settings)?
        }
        Some(Err(_)) | None => {
            let loaded = mcpmon_config::load(&options.search, options.trust)?;
            Recorder::start(own_settings(options, &loaded.settings.record)?)?
        }
    };
    recorder.push(event);
    recorder.close();
    Ok(())
}
