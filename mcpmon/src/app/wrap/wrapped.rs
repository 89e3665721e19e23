//! A wrapped server while it runs: the events of its relay go to its session, and the answers go back to the relay.

use mcpmon_guard::GuardOutput;
use mcpmon_model::{Denial, ServerId, Side, Timestamp};
use mcpmon_protocol::filter::stdio::StdioFilter;
use mcpmon_session::{LaunchEnd, Session, StartedServer, clock};
use mcpmon_stdio::{ClientSide, Relay, RelayEvent, RelayOutcome};
use mcpmon_store::RecorderStatus;

use super::{FilesChecked, WrapError, allowed, certificates::Certificates};

/// A running server, and the session that judges its conversation.
pub(super) struct WrappedServer {
    pub(super) judge: Session,
    pub(super) launch: StartedServer,
    /// True if its start is recorded.
    pub(super) is_told: bool,
    pub(super) certificates: Option<Certificates>,
}

/// The end of a wrapped conversation.
pub(super) enum ConversationEnd {
    /// One side ended it.
    Closed(RelayOutcome),
    /// The server must not run, and was killed; its client waits for answers.
    Refused(Denial, Box<ClientSide>),
}

impl WrappedServer {
    /// Relays until the conversation is over. No process of the server is left running then.
    pub(super) fn relay(
        &mut self,
        mut relay: Relay<FilesChecked>,
        filter: &mut StdioFilter,
    ) -> Result<ConversationEnd, WrapError> {
        let mut out = GuardOutput::default();
        loop {
            let event = relay.next_event()?;
            let now = clock::now();
            let admitted = match event {
                RelayEvent::Received(side, bytes) => {
                    self.judge.push(now, filter, side, bytes, &mut out);
                    Ok(())
                }
                RelayEvent::Closed(side) => {
                    // A shell ends by itself after the daemon has killed the server that it started.
                    let is_cut_off = side == Side::Server && filter.is_answer_awaited();
                    let ended = match is_cut_off {
                        true => allowed(self.judge.ended(now, false)),
                        false => Ok(()),
                    };
                    if ended.is_ok() {
                        self.judge.close_side(now, filter, side, &mut out);
                    }
                    ended
                }
                RelayEvent::Checked(found) => self.checked(now, found),
                RelayEvent::CheckedLate(found) => {
                    self.checked_late(now, found);
                    Ok(())
                }
                RelayEvent::Killed => allowed(self.judge.ended(now, true)),
                RelayEvent::Tick { is_quiet } => {
                    if is_quiet {
                        filter.shrink();
                    }
                    self.judge.tick_stdio(now, filter, &mut out);
                    relay.expect_answers(filter.is_answer_awaited());
                    self.tell_certificate(now);
                    Ok(())
                }
                RelayEvent::Finished(closing) => return Ok(ConversationEnd::Closed(closing)),
            };
            if let Err(denial) = admitted {
                return Ok(ConversationEnd::Refused(denial, Box::new(relay.refuse()?)));
            }
            relay.hold_client(filter.is_asking());
            relay.send(&mut out.wire);
        }
    }

    /// Ends the session, and waits until its records are stored.
    pub(super) fn end(mut self, started: Timestamp, ended: LaunchEnd) -> (ServerId, RecorderStatus) {
        let now = clock::now();
        if !self.is_told {
            // The conversation ended before the server's files were measured.
            self.judge.started_and_ended(now, &self.launch);
        }
        self.tell_certificate(now);
        self.judge.exited(now, started, ended);
        let server = self.judge.server().clone();
        (server, self.judge.close(now))
    }

    /// Judges the result of the check of the server's files.
    fn checked(&mut self, now: Timestamp, found: FilesChecked) -> Result<(), Denial> {
        allowed(match found {
            FilesChecked::Files(files) => {
                self.is_told = true;
                self.launch.files = *files;
                self.judge.started(now, &self.launch)
            }
            FilesChecked::ByDaemon(compared) => self.judge.compared(now, compared),
        })
    }

    /// Judges the result of a check that is ready only after the server has ended.
    fn checked_late(&mut self, now: Timestamp, found: FilesChecked) {
        match found {
            FilesChecked::Files(files) => {
                self.is_told = true;
                self.launch.files = *files;
                self.judge.started_and_ended(now, &self.launch);
            }
            // The server has ended, so a refusal is recorded and has no other effect.
            FilesChecked::ByDaemon(compared) => {
                let _refusal = self.judge.compared(now, compared);
            }
        }
    }

    fn tell_certificate(&mut self, now: Timestamp) {
        if let Some(event) = self.certificates.as_mut().and_then(|told| told.take(now)) {
            self.judge.tell(event);
        }
    }
}
