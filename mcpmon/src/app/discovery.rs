//! Discovery: asks declared remote servers for their lists before a client does. Their answers are judged, registered
//! and pinned as if a client had asked.

use std::{io, sync::Arc, thread, time::Duration};

use mcpmon_config::LoadedConfiguration;
use mcpmon_engine::admission;
use mcpmon_http::{
    Peer,
    client::{AnswerFault, ClientError, RequestAndAnswer, list},
    mcp::{AskedServer, NoAnswer, ServerGuard, Servers},
};
use mcpmon_model::{ServerId, Timestamp};
use mcpmon_policy::{Mode, Policy};
use mcpmon_protocol::filter::mcp_http::{
    Head, HttpOutput, HttpResponse, HttpSession, Post, PostDecision, ServerKnowledge,
};
use mcpmon_session::clock;
use tokio::{
    runtime::{self, Runtime},
    sync::watch,
    task::{JoinSet, block_in_place},
    time::sleep,
};

use super::{
    remote::{RemoteDestination, declared},
    wrap,
};

/// Servers that are asked at the same time.
const AT_ONCE: usize = 4;
/// Shortest time between two rounds, however often the policy changes.
const PAUSE: Duration = Duration::from_secs(2);
/// The name of the agent in these requests.
const AGENT: &str = "mcpmon";

/// The task that asks the servers in rounds, until this is dropped.
#[derive(Debug)]
pub(super) struct DiscoveryTask(watch::Sender<Arc<LoadedConfiguration>>);

impl DiscoveryTask {
    /// Starts a thread that asks the declared servers in the rounds that `loaded` prescribes. The thread is separate
    /// because judging can take long. It ends when `servers` returns `None`.
    ///
    /// # Errors
    /// Returns an error if the runtime or the thread cannot be started.
    pub(super) fn start(
        loaded: Arc<LoadedConfiguration>,
        servers: impl Fn() -> Option<Arc<dyn Servers>> + Send + 'static,
    ) -> io::Result<Self> {
        let runtime = runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("mcpmon-list")
            .enable_all()
            .build()?;
        let (sender, wanted) = watch::channel(loaded);
        thread::Builder::new()
            .name("mcpmon-discover".to_owned())
            .spawn(move || run(&runtime, wanted, servers))?;
        Ok(Self(sender))
    }

    /// Installs another policy, and asks all servers anew.
    pub(super) fn install(&self, loaded: Arc<LoadedConfiguration>) {
        self.0.send_replace(loaded);
    }
}

fn run(
    runtime: &Runtime,
    mut wanted: watch::Receiver<Arc<LoadedConfiguration>>,
    servers: impl Fn() -> Option<Arc<dyn Servers>>,
) {
    runtime.block_on(async {
        loop {
            let loaded = Arc::clone(&wanted.borrow_and_update());
            let discovery = loaded.settings.discovery;
            if discovery.enabled {
                let Some(servers) = servers() else { return };
                round(&servers, &loaded.policy).await;
                sleep(PAUSE).await;
            }
            let changed = wanted.changed();
            let is_over = match discovery.enabled {
                false => changed.await.is_err(),
                true => tokio::select! {
                    changed = changed => changed.is_err(),
                    () = sleep(discovery.interval) => false,
                },
            };
            if is_over {
                return;
            }
        }
    });
}

/// Asks every server once.
async fn round(servers: &Arc<dyn Servers>, policy: &Arc<Policy>) {
    let mut asking = JoinSet::new();
    for id in servers.ids() {
        while asking.len() >= AT_ONCE {
            asking.join_next().await;
        }
        let (servers, policy) = (Arc::clone(servers), Arc::clone(policy));
        asking.spawn(async move { ask(&*servers, &policy, &id).await });
    }
    while asking.join_next().await.is_some() {}
}

async fn ask(servers: &dyn Servers, policy: &Policy, id: &ServerId) {
    // A server that the policy refuses to clients is not asked either.
    let refused = admission(policy, id).denial(id).is_some();
    if refused && policy.mode == Mode::Enforce {
        return;
    }
    let server = policy.servers.iter().find(|server| server.id == *id);
    let (Some(remote), Some(Ok(destination))) = (servers.remote(id.as_str()), server.and_then(declared))
    else {
        return;
    };
    let asked = AskedServer {
        server: remote,
        session: None,
        peer: Peer::at_socket(Some(nix::unistd::getuid().as_raw()), None),
        agent: Some(AGENT.into()),
    };
    let guard = match servers.conversation(asked) {
        Ok(guard) => guard,
        Err(error) => return tracing::warn!(server = %id, %error, "what a server offers is not registered"),
    };
    let RemoteDestination { way, .. } = destination;
    match list(destination.asking(Vec::new(), policy.limits.max_line), way).await {
        Ok(offer) => block_in_place(|| tell(offer.turns, &*guard, policy)),
        Err(ClientError { url, fault }) if fault.is_login() => {
            // A server that needs a login is listed with the first request of a client that has one.
            tracing::info!(server = %id, url, "a server needs a login: it is listed when a client asks it");
        }
        Err(ClientError { fault, .. }) => guard.failed(clock::now(), &unanswered(fault)),
    }
}

/// Has a guard judge the answers as if a client had asked for them. The output of the guard is dropped.
///
/// All answers have arrived before the first is judged, and a client may have received a newer one by then. So each
/// answer is judged with the time of its request.
fn tell(turns: Vec<RequestAndAnswer>, guard: &dyn ServerGuard, policy: &Policy) {
    let limits = wrap::limits(policy.limits);
    let mut session = HttpSession::new(limits, ServerKnowledge::default());
    for turn in turns {
        let now = before(clock::now(), turn.asked.elapsed());
        let headers = turn.headers();
        let fields = headers.iter();
        let post = Post {
            head: &Head::of(fields.map(|(name, value)| (name.as_str(), value.as_bytes()))),
            body: turn.request.as_bytes(),
            needs_lists: false,
        };
        let mut out = HttpOutput::default();
        let Ok(PostDecision::Forward(forward)) = guard.post(now, &mut session, &post, &mut out) else {
            continue;
        };
        let mut response = HttpResponse::to_post(limits, 200, Some("application/json"), forward.waiting);
        // The body of a response that is not a stream is read at its end, so the flow until then does not matter.
        let _flow = guard.push(now, &mut session, &mut response, &turn.answer, &mut out);
        guard.end(now, &mut session, &mut response, &mut out);
    }
}

fn before(now: Timestamp, elapsed: Duration) -> Timestamp {
    let elapsed = i64::try_from(elapsed.as_nanos()).unwrap_or(i64::MAX);
    Timestamp(now.0.saturating_sub(elapsed))
}

fn unanswered(fault: AnswerFault) -> NoAnswer {
    match fault {
        AnswerFault::Certificate { expected, actual } => NoAnswer::Certificate {
            pinned: expected,
            shown: actual,
        },
        AnswerFault::Unreachable(_) | AnswerFault::Late(_) | AnswerFault::Ended => NoAnswer::Unreachable {
            cause: fault.to_string(),
        },
        AnswerFault::Login(_)
        | AnswerFault::Moved(_)
        | AnswerFault::Status { .. }
        | AnswerFault::Type(_)
        | AnswerFault::Message(_)
        | AnswerFault::Refused { .. }
        | AnswerFault::TooLong(_)
        | AnswerFault::Endless(..)
        | AnswerFault::Forgotten
        | AnswerFault::Address(_)
        | AnswerFault::Tls(_) => NoAnswer::Unfit {
            cause: fault.to_string(),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, sync::Mutex, time::Instant};

    use mcpmon_model::{Content, Denial, FromServer, Incident, ListKind, Message, Verdict};
    use mcpmon_protocol::filter::mcp_http::{self, ReadState, UnlistedTools, WholeResponseHead};

    use super::*;

    #[derive(Debug, Default)]
    struct Ears(Mutex<Vec<String>>);

    impl Ears {
        fn note(&self, said: String) {
            self.0.lock().unwrap().push(said);
        }

        fn hear(&self, message: &Message<'_>) -> Verdict {
            self.note(match &message.content {
                Content::Client(_) => "asked".to_owned(),
                Content::Server(FromServer::Introduction(introduction)) => {
                    format!("{:?}", introduction.instructions.as_deref().unwrap_or_default())
                }
                Content::Server(FromServer::Listing(listing)) => {
                    let (continued, more) = (listing.continued, listing.more);
                    let names: Vec<_> = listing.items.iter().map(|item| &*item.name).collect();
                    format!("{:?} {names:?} continued {continued} more {more}", listing.kind)
                }
                Content::Server(_) => "something else".to_owned(),
            });
            Verdict::Allow
        }
    }

    impl ServerGuard for Ears {
        fn post(
            &self,
            now: Timestamp,
            session: &mut HttpSession,
            post: &Post<'_>,
            out: &mut HttpOutput,
        ) -> Result<PostDecision, UnlistedTools> {
            session.post_listed(now, post, &mut |message: &Message<'_>| self.hear(message), out)
        }

        fn push(
            &self,
            now: Timestamp,
            session: &mut HttpSession,
            response: &mut HttpResponse,
            bytes: &[u8],
            out: &mut HttpOutput,
        ) -> ReadState {
            response.push(
                now,
                session,
                bytes,
                &mut |message: &Message<'_>| self.hear(message),
                out,
            )
        }

        fn end(
            &self,
            now: Timestamp,
            session: &mut HttpSession,
            response: &mut HttpResponse,
            out: &mut HttpOutput,
        ) -> WholeResponseHead {
            response.end(now, session, &mut |message: &Message<'_>| self.hear(message), out)
        }

        fn fail(
            &self,
            _: Timestamp,
            session: &mut HttpSession,
            response: &mut HttpResponse,
            fault: &mcp_http::ResponseFault,
            out: &mut HttpOutput,
        ) -> WholeResponseHead {
            response.fail(session, fault, out)
        }

        fn halted(&self, _now: Timestamp) -> Option<Denial> {
            None
        }

        fn incident(&self, _: Timestamp, incident: &Incident) {
            self.note(format!("{incident:?}"));
        }

        fn changed(&self, _: Timestamp) -> BTreeSet<ListKind> {
            BTreeSet::new()
        }

        fn is_listed(&self, _: &str) -> bool {
            false
        }

        fn failed(&self, _: Timestamp, _: &NoAnswer) {}
    }

    fn turn(method: &str, params: &str, result: &str) -> RequestAndAnswer {
        RequestAndAnswer {
            asked: Instant::now(),
            request: format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#),
            answer: format!(r#"{{"jsonrpc":"2.0","id":1,"result":{result}}}"#).into_bytes(),
            page: None,
        }
    }

    #[test]
    fn a_guard_hears_what_was_said() {
        let turns = vec![
            turn(
                "initialize",
                r#"{"protocolVersion":"2025-11-25"}"#,
                r#"{"protocolVersion":"2025-11-25","instructions":"Be kind."}"#,
            ),
            turn(
                "tools/list",
                "{}",
                r#"{"tools":[{"name":"a"},{"name":"b"}],"nextCursor":"x"}"#,
            ),
            turn("tools/list", r#"{"cursor":"x"}"#, r#"{"tools":[{"name":"c"}]}"#),
        ];
        let ears = Ears::default();
        tell(turns, &ears, &Policy::default());
        let heard = ears.0.into_inner().unwrap();
        let expected = [
            "asked",
            r#""Be kind.""#,
            "asked",
            r#"Tools ["a", "b"] continued false more true"#,
            "asked",
            r#"Tools ["c"] continued true more false"#,
        ];
        assert_eq!(heard, expected);
    }
}
