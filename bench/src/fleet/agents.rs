//! Simulated agents, which record and export the events of hosts with MCP servers.

use std::{fs, path::PathBuf, time::Duration};

use anyhow::{Result, ensure};
use mcpmon_bench::site::Site;
use mcpmon_model::{
    CallOutcome, Digest, Direction, Event, EventKind, IpProtocol, Layer, PinState, ProcessRef, RequestId,
    ServerId, SessionId,
};
use mcpmon_session::clock::now;
use mcpmon_store::{OtlpSettings, OtlpSignals, Recorder, RecorderSettings, SinkSettings};

/// The servers of each host.
const SERVERS: [&str; 4] = ["filesystem", "github", "playwright", "postgres"];
/// The number of calls between two connections of a host.
const CALLS_PER_CONNECTION: u64 = 10;
/// The longest time until recorded events reach a store.
const TIMEOUT: Duration = Duration::from_secs(60);

/// One agent for each host.
#[derive(Debug)]
pub(crate) struct Agents {
    agents: Vec<Agent>,
    /// The number of events that all agents recorded.
    pub(crate) recorded: u64,
}

#[derive(Debug)]
struct Agent {
    recorder: Recorder,
    session: SessionId,
    store: PathBuf,
    /// The number of events so far.
    count: u64,
}

/// The state of the stores at the end.
#[derive(Debug, Default)]
pub(crate) struct Ended {
    /// The number of events that a queue or a store did not take.
    pub(crate) lost: u64,
    /// The size of all stores.
    pub(crate) store_bytes: u64,
}

impl Agents {
    pub(crate) fn start(site: &Site, hosts: u32, endpoint: &str) -> Result<Self> {
        let agents = (1..=hosts)
            .map(|number| Agent::start(site, number, endpoint))
            .collect::<Result<_>>()?;
        Ok(Self { agents, recorded: 0 })
    }

    /// Records this many events at each host.
    pub(crate) fn record(&mut self, events: u32) -> Result<()> {
        for agent in &mut self.agents {
            for _ in 0..events {
                let event = agent.next()?;
                agent.recorder.push(event);
                self.recorded += 1;
            }
        }
        Ok(())
    }

    pub(crate) fn end(self) -> Result<Ended> {
        let mut ended = Ended::default();
        for agent in self.agents {
            let status = agent.recorder.close();
            ended.lost += status.lost;
            ended.store_bytes += fs::metadata(agent.store)?.len();
        }
        Ok(ended)
    }
}

impl Agent {
    fn start(site: &Site, number: u32, endpoint: &str) -> Result<Self> {
        let store = site.path(&format!("host-{number:04}.db"));
        let mut settings = RecorderSettings::new(&store);
        settings.host = format!("host-{number:04}");
        settings.sinks = SinkSettings {
            otlp: Some(OtlpSettings {
                endpoint: endpoint.to_owned(),
                headers_file: None,
                ca_file: None,
                with_content: false,
                signals: OtlpSignals {
                    logs: true,
                    traces: true,
                    metrics: true,
                },
            }),
            ..SinkSettings::default()
        };
        let recorder = Recorder::start(settings)?;
        // An exporter begins with events that are recorded after it has first read the store.
        recorder.flush(TIMEOUT)?;
        ensure!(recorder.status().last_error.is_none(), "{:?}", recorder.status());
        Ok(Self {
            recorder,
            session: SessionId::new(format!("session-{number:04}")),
            store,
            count: 0,
        })
    }

    /// Returns the next event: each server starts once and is called afterwards, and now and then one connects.
    fn next(&mut self) -> Result<Event> {
        let count = self.count;
        self.count += 1;
        let servers = SERVERS.len() as u64;
        let server = SERVERS[usize::try_from((count / 2) % servers)?];
        let call = count / 2;
        let (layer, kind) = if count < servers {
            (Layer::Kernel, started(SERVERS[usize::try_from(count)?]))
        } else if count.is_multiple_of(2 * CALLS_PER_CONNECTION) {
            (Layer::Kernel, connected()?)
        } else if count.is_multiple_of(2) {
            (Layer::Stdio, called(call))
        } else {
            (Layer::Stdio, returned(call))
        };
        let mut event = Event::new(now(), layer, kind);
        event.server_id = Some(ServerId::new(server)?);
        event.session_id = Some(self.session.clone());
        event.process = Some(ProcessRef {
            pid: 4200,
            exe: Some("/usr/bin/node".into()),
            comm: Some("node".to_owned()),
            uid: Some(1000),
        });
        Ok(event)
    }
}

fn started(server: &str) -> EventKind {
    EventKind::ServerStarted {
        command: "npx".to_owned(),
        args: vec!["-y".to_owned(), format!("@example/server-{server}")],
        wrapped: true,
        exe_sha256: Some(Digest::of(b"node")),
        script: None,
        script_sha256: None,
        package_path: Some(format!("/home/dev/.npm/_npx/{server}/node_modules").into()),
        package_sha256: Some(Digest::of(server.as_bytes())),
        package_origin: None,
        pin: PinState::Match,
        launcher_pid: 4100,
        matched_pattern: "npx".to_owned(),
        environment: vec!["PATH".to_owned(), "HOME".to_owned()],
    }
}

fn called(number: u64) -> EventKind {
    EventKind::ToolCalled {
        tool_name: "read_file".to_owned(),
        jsonrpc_id: RequestId::Number(number.to_string().into()),
        tool_call_id: None,
        trace_parent: None,
        origin: None,
        input: Some(format!(
            r#"{{"path":"/home/dev/project/src/module_{number}.rs"}}"#
        )),
        client_uid: None,
    }
}

fn returned(number: u64) -> EventKind {
    EventKind::ToolReturned {
        tool_name: "read_file".to_owned(),
        jsonrpc_id: RequestId::Number(number.to_string().into()),
        duration_us: 1200 + number % 5000,
        outcome: CallOutcome::Ok,
        bytes: 4000 + number % 20_000,
        client_uid: None,
    }
}

fn connected() -> Result<EventKind> {
    Ok(EventKind::NetworkConnection {
        remote_addr: "203.0.113.20:443".parse()?,
        remote_name: Some("api.example.com".to_owned()),
        direction: Direction::ServerEgress,
        protocol: IpProtocol::Tcp,
        server_type: None,
        given_addr: None,
        proxied: false,
        count: 1,
        socket: None,
    })
}
