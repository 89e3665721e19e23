//! The Monitor through its front door: transcripts in, events and effects out.

use std::{net::IpAddr, path::PathBuf};

use mcpmon_model::{
    Checkpoint, ConnectionHolder, ConnectionOutcome, ConnectionTraffic, CutOutcome, Digest, Direction,
    EventKind, FileId, IpProtocol, NameGlob, OpenConnection, OrphanCause, PinState, RefusedStart, Severity,
};
use mcpmon_policy::{
    Cidr, Egress, EgressDefault, EgressDestination, Mode, ModelHost, NetworkRule, OnBypass, OnChange,
    Orphans, RuleAction, Scope, Server, ServerPolicy, Transport,
    network::table::{LIST_HOST, LIST_PROXIED, Numbering, ResolvedNames, compile},
};
use test_case::test_case;

use super::*;
use crate::{
    FileWatch,
    instances::{CROWDED, MAX_INSTANCES},
    pins::{LauncherFiles, Part, PinSet, PinnedFile, Writers},
};

const SECOND: i64 = 1_000_000_000;

/// A Monitor, the tables it was given, and a clock.
struct World {
    monitor: Monitor,
    tables: Tables,
    now: i64,
}

impl World {
    fn new(policy: Policy) -> Self {
        Self::with_pins(policy, BTreeMap::new())
    }

    fn with_pins(policy: Policy, pins: BTreeMap<ServerId, Pins>) -> Self {
        let tables = compile(&policy, &ResolvedNames::new(), &mut Numbering::default()).expect("small");
        let mut book = PinBook::default();
        for (server, pins) in pins {
            book.add(key(server.as_str(), 0), pins);
        }
        let monitor = Monitor::new(Arc::new(policy), &tables, book);
        Self {
            monitor,
            tables,
            now: 0,
        }
    }

    fn exec(&mut self, pid: u32, parent: u32, command: &str) -> Judgement {
        self.exec_in(None, pid, parent, command)
    }

    fn exec_in(&mut self, instance: Option<InstanceId>, pid: u32, parent: u32, command: &str) -> Judgement {
        let argv: Vec<String> = command.split(' ').map(str::to_owned).collect();
        let exec = Exec {
            process: process(pid),
            parent: process(parent),
            instance,
            comm: argv[0].clone(),
            file: FileId {
                inode: pid.into(),
                ..FileId::default()
            },
            links: 1,
            owner: Some(0),
            argv,
            ..Exec::default()
        };
        self.monitor.exec(Timestamp(self.now), &exec)
    }

    fn exit(&mut self, instance: InstanceId, pid: u32, status: u32) -> Judgement {
        let exit = Exit {
            process: process(pid),
            instance,
            status: Some(status),
        };
        self.monitor.exit(Timestamp(self.now), exit)
    }

    /// The result of the latest hash that was ordered.
    fn hashed(&mut self, instance: InstanceId, content: &str) -> Judgement {
        let attempt = self.monitor.attempts;
        self.monitor
            .hashed(Timestamp(self.now), instance, attempt, files(content), Vec::new())
    }

    fn connection(&self, instance: Option<InstanceId>, address: &str, outcome: ConnectionOutcome) -> Event {
        self.connection_by(LIST_HOST, address, outcome, |connection| {
            connection.instance = instance;
        })
    }

    /// Reported or refused by a rule of `list`.
    fn connection_by(
        &self,
        list: u32,
        address: &str,
        outcome: ConnectionOutcome,
        change: impl FnOnce(&mut Connection),
    ) -> Event {
        let address: IpAddr = address.parse().expect("address");
        let verdict = self.tables.lookup(list, address, 443);
        let rule = [verdict.deny_host, verdict.deny_agents, verdict.watch]
            .into_iter()
            .find(|rule| *rule != 0);
        let mut connection = Connection {
            process: process(7),
            comm: "node".to_owned(),
            uid: 1000,
            instance: None,
            cgroup: 0,
            rule,
            address,
            given: address,
            port: 443,
            transport: IpProtocol::Tcp,
            protocol: 6,
            socket: None,
            checkpoint: Checkpoint::Call,
            outcome,
        };
        change(&mut connection);
        self.monitor.connection(Timestamp(self.now), &connection)
    }
}

const fn process(pid: u32) -> ProcessId {
    ProcessId { pid, start: 1 }
}

fn files(content: &str) -> ServerFiles {
    let file = PinnedFile {
        path: PathBuf::from("/usr/bin/mcp-server-git"),
        digest: Digest::of(content.as_bytes()),
    };
    ServerFiles {
        executable: Part::Hashed(file),
        executable_writers: Writers::Others,
        script: None,
        package: None,
        launcher: None,
        generated_script: None,
    }
}

fn pins(content: &str) -> Pins {
    Pins::try_from(files(content)).expect("hashed")
}

/// Pins of a server that is a program of its name.
fn key(server: &str, uid: u32) -> PinKey {
    PinKey {
        server: id(server),
        name: format!("program:{server}"),
        uid,
    }
}

fn id(name: &str) -> ServerId {
    ServerId::new(name).expect("id")
}

fn kinds(judgement: &Judgement) -> Vec<&'static str> {
    judgement.events.iter().map(|event| event.kind.name()).collect()
}

/// Effects by name, with the process or server they concern.
fn effects(judgement: &Judgement) -> Vec<String> {
    let name = |effect: &KernelEffect| match effect {
        KernelEffect::Track {
            process,
            instance,
            egress,
        } => match egress {
            [list, 0] => format!("track {} as {}/{list}", process.pid, instance.0),
            lists => format!("track {} as {}/{lists:?}", process.pid, instance.0),
        },
        KernelEffect::EnterSession { process, list } => format!("enter {} {list}", process.pid),
        KernelEffect::Settle { process } => format!("settle {}", process.pid),
        KernelEffect::MarkStarter { process, .. } => format!("starter {}", process.pid),
        KernelEffect::Hold { process } => format!("hold {}", process.pid),
        KernelEffect::Release { process } => format!("release {}", process.pid),
        KernelEffect::Hash { process, .. } => format!("hash {}", process.pid),
        KernelEffect::StorePins { added, ground } => {
            let key = &added.set.key;
            match ground {
                AcceptanceGround::FirstUse => format!("pin {} {}", key.bare_name(), key.uid),
                AcceptanceGround::NewLauncher => format!("launcher {} {}", key.bare_name(), key.uid),
                AcceptanceGround::SystemUpgrade => format!("upgrade {} {}", key.bare_name(), key.uid),
                AcceptanceGround::NewEnvironment => format!("environment {} {}", key.bare_name(), key.uid),
                AcceptanceGround::Policy => format!("repin {} {}", key.bare_name(), key.uid),
                AcceptanceGround::EarlierForm => format!("renew {} {}", key.bare_name(), key.uid),
            }
        }
        KernelEffect::Terminate { instance } => format!("terminate {}", instance.0),
        KernelEffect::Kill { instance, .. } => format!("kill {}", instance.0),
        KernelEffect::KillProcess { process, .. } => format!("kill process {}", process.pid),
        KernelEffect::Refuse { file, .. } => format!("refuse {}", file.inode),
        KernelEffect::Cut(cut) => format!("cut {}", cut.connection.socket),
    };
    judgement.kernel_effects.iter().map(name).collect()
}

const FIRST: InstanceId = InstanceId(1);

#[test]
fn a_launch_is_followed_from_the_runner_to_the_process_that_serves() {
    let mut world = World::new(Policy::default());
    let launch = world.exec(10, 9, "npx -y @modelcontextprotocol/server-memory");
    assert_eq!(effects(&launch), ["track 10 as 1/0", "starter 9"]);
    assert_eq!(kinds(&launch), [""; 0], "nothing serves yet");

    let shell = world.exec_in(Some(FIRST), 11, 10, "sh -c mcp-server-memory");
    assert_eq!(effects(&shell), [""; 0]);
    let node = world.exec_in(
        Some(FIRST),
        12,
        11,
        "node /c/_npx/1/node_modules/.bin/mcp-server-memory",
    );
    assert_eq!(effects(&node), ["hash 12"]);

    let hashed = world.hashed(FIRST, "v1");
    assert_eq!(
        (kinds(&hashed), effects(&hashed)),
        (
            vec!["mcp_server_started"],
            vec!["pin @modelcontextprotocol/server-memory 0".to_owned()]
        )
    );
    let EventKind::ServerStarted {
        launcher_pid,
        pin,
        command,
        ..
    } = &hashed.events[0].kind
    else {
        panic!("a start");
    };
    assert_eq!(
        (*launcher_pid, *pin, command.as_str()),
        (10, PinState::Pinned, "npx")
    );
    assert_eq!(
        hashed.events[0].process.as_ref().map(|process| process.pid),
        Some(12)
    );

    world.now = 3 * SECOND;
    let exit = world.exit(FIRST, 12, 3 << 8);
    let EventKind::ServerExited {
        exit_status,
        signal,
        duration_ms,
    } = exit.events[0].kind
    else {
        panic!("an end")
    };
    assert_eq!((exit_status, signal, duration_ms), (Some(3), None, 3000));
    for pid in [11, 10] {
        assert_eq!(kinds(&world.exit(FIRST, pid, 0)), [""; 0]);
    }
    assert_eq!(
        world.monitor.running().count(),
        0,
        "nothing is kept of a server that ended"
    );
}

#[test]
fn a_child_forked_before_the_kernel_knew_its_parent_belongs_to_the_same_server() {
    let mut world = World::new(Policy::default());
    world.exec(10, 9, "timeout 60 npx -y @modelcontextprotocol/server-memory");
    let child = world.exec(11, 10, "npx -y @modelcontextprotocol/server-memory");
    assert_eq!(effects(&child), ["track 11 as 1/0"]);
    assert_eq!(world.monitor.running().count(), 1);
}

#[test]
fn a_helper_of_the_package_manager_is_not_taken_for_the_server() {
    let mut world = World::new(Policy::default());
    world.exec(10, 9, "npx -y @modelcontextprotocol/server-memory");
    let probe = world.exec_in(Some(FIRST), 13, 10, "python3 -c print(1)");
    assert_eq!(effects(&probe), [""; 0]);
    world.now = 3 * SECOND;
    assert_eq!(
        effects(&world.monitor.tick(Timestamp(world.now))),
        [""; 0],
        "inline code is no server"
    );
    let helper = world.exec_in(Some(FIRST), 11, 10, "node install.js");
    assert_eq!(effects(&helper), [""; 0]);
    world.now = 4 * SECOND;
    world.exit(FIRST, 11, 0);
    world.now = 9 * SECOND;
    assert_eq!(
        effects(&world.monitor.tick(Timestamp(world.now))),
        [""; 0],
        "it has ended"
    );

    world.exec_in(Some(FIRST), 12, 10, "node dist/index.js");
    world.now += SECOND;
    assert_eq!(
        effects(&world.monitor.tick(Timestamp(world.now))),
        [""; 0],
        "too young"
    );
    world.now += SECOND;
    assert_eq!(effects(&world.monitor.tick(Timestamp(world.now))), ["hash 12"]);
}

#[test]
fn an_install_script_is_not_taken_for_the_server() {
    let mut world = World::new(Policy::default());
    world.exec(10, 9, "npx -y @scope/notes-mcp");
    let bin = "/c/_npx/x/node_modules/.bin";
    world.exec_in(Some(FIRST), 11, 10, "sh -c prebuild-install||node-gyp");
    for (pid, command) in [
        (12, format!("node {bin}/prebuild-install")),
        (13, format!("node {bin}/node-gyp rebuild")),
        (14, "make BUILDTYPE=Release".to_owned()),
    ] {
        let helper = world.exec_in(Some(FIRST), pid, 11, &command);
        assert_eq!(effects(&helper), [""; 0], "{command}");
    }
    world.now = 60 * SECOND;
    assert_eq!(
        effects(&world.monitor.tick(Timestamp(world.now))),
        [""; 0],
        "compiling takes its time"
    );
    for pid in [12, 13, 14, 11] {
        world.exit(FIRST, pid, 0);
    }
    world.exec_in(Some(FIRST), 15, 10, "sh -c notes");
    let server = world.exec_in(Some(FIRST), 16, 15, &format!("node {bin}/notes-mcp"));
    assert_eq!(effects(&server), ["hash 16"]);
    assert_eq!(effects(&world.hashed(FIRST, "v1")), ["pin @scope/notes-mcp 0"]);
}

#[test]
fn a_server_named_like_a_helper_is_taken_for_the_server_late_but_taken() {
    let mut world = World::new(Policy::default());
    world.exec(10, 9, "npx -y @scope/notes-mcp");
    world.exec_in(Some(FIRST), 11, 10, "make --stdio");
    world.now = 180 * SECOND;
    assert_eq!(effects(&world.monitor.tick(Timestamp(world.now))), ["hash 11"]);
}

#[test]
fn a_native_server_that_keeps_executing_programs_is_hashed_after_two_seconds() {
    let mut world = World::new(Policy::default());
    world.exec(10, 9, "npx -y @scope/notes-mcp");
    world.exec_in(
        Some(FIRST),
        11,
        10,
        "/c/_npx/x/node_modules/notes-linux-x64/serve",
    );
    world.now = SECOND;
    for pid in [20, 21] {
        world.exec_in(Some(FIRST), pid, 11, "true");
    }
    world.exec_in(
        Some(FIRST),
        11,
        10,
        "/c/_npx/x/node_modules/notes-linux-x64/serve",
    );
    world.exit(FIRST, 20, 0);
    assert_eq!(effects(&world.monitor.tick(Timestamp(world.now))), [""; 0]);
    world.now = 2 * SECOND;
    world.exec_in(Some(FIRST), 22, 11, "true");
    assert_eq!(effects(&world.monitor.tick(Timestamp(world.now))), ["hash 11"]);
}

#[test]
fn a_wrapper_that_ends_leaves_the_server_it_started_as_the_candidate() {
    let mut world = World::new(Policy::default());
    world.exec(10, 9, "npx -y @scope/notes-mcp");
    world.exec_in(Some(FIRST), 11, 10, "/opt/wrapper");
    world.exec_in(Some(FIRST), 12, 11, "/opt/real");
    world.exit(FIRST, 11, 0);
    world.now = 2 * SECOND;
    assert_eq!(effects(&world.monitor.tick(Timestamp(world.now))), ["hash 12"]);
}

#[test]
fn helpers_of_uvx_are_not_taken_for_the_server() {
    let mut world = World::new(Policy::default());
    world.exec(10, 9, "uvx --from git+https://example.com/notes mcp-server-notes");
    for (pid, command) in [
        (11, "ldd --version"),
        (12, "git fetch origin"),
        (13, "python3 -I -c probe"),
    ] {
        let helper = world.exec_in(Some(FIRST), pid, 10, command);
        assert_eq!(effects(&helper), [""; 0], "{command}");
    }
    world.now = 30 * SECOND;
    assert_eq!(effects(&world.monitor.tick(Timestamp(world.now))), [""; 0]);
    let server = world.exec_in(
        Some(FIRST),
        14,
        10,
        "/c/uv/archive-v0/1/bin/python /c/uv/archive-v0/1/bin/mcp-server-notes",
    );
    assert_eq!(effects(&server), ["hash 14"]);
}

#[test]
fn a_server_that_executes_another_program_is_hashed_again() {
    let mut world = World::new(Policy::default());
    assert_eq!(effects(&world.exec(10, 9, "mcp-server-git"))[2..], ["hash 10"]);
    assert_eq!(
        effects(&world.exec_in(Some(FIRST), 10, 9, "/opt/real-binary --stdio")),
        ["hash 10"]
    );
    assert_eq!(kinds(&world.hashed(FIRST, "v1")), ["mcp_server_started"]);
    let again = world.exec_in(Some(FIRST), 10, 9, "/opt/other");
    assert_eq!(effects(&again)[0], "hold 10", "it is pinned by now");
}

#[test]
fn a_server_that_starts_another_is_not_confused_with_it() {
    let mut world = World::new(Policy::default());
    world.exec(10, 9, "mcp-server-git");
    world.hashed(FIRST, "v1");
    assert_eq!(
        effects(&world.exec_in(Some(FIRST), 11, 10, "git status")),
        [""; 0]
    );
    let nested = world.exec_in(Some(FIRST), 12, 10, "mcp-server-fetch");
    assert_eq!(effects(&nested), ["track 12 as 2/0", "starter 10", "hash 12"]);
    let servers: Vec<String> = world
        .monitor
        .running()
        .map(|running| running.server.to_string())
        .collect();
    assert_eq!(servers, ["mcp-server-git", "mcp-server-fetch"]);
}

#[test]
fn a_server_that_ends_while_it_is_hashed_is_told_in_order() {
    let mut world = World::new(Policy::default());
    world.exec(10, 9, "mcp-server-git");
    assert_eq!(kinds(&world.exit(FIRST, 10, 9)), [""; 0]);
    assert_eq!(
        kinds(&world.hashed(FIRST, "v1")),
        ["mcp_server_started", "mcp_server_exited"]
    );
    assert_eq!(world.monitor.running().count(), 0);
}

#[test_case(OnChange::Block, Mode::Enforce, Gate::Auto => (vec!["mcp_server_started", "mcp_server_binary_mismatch", "mcp_server_denied"], vec!["kill 1", "refuse 10", "release 10"]); "block")]
#[test_case(OnChange::Block, Mode::Observe, Gate::Auto => (vec!["mcp_server_started", "mcp_server_binary_mismatch"], vec![]); "observing")]
#[test_case(OnChange::Block, Mode::Enforce, Gate::Off => (vec!["mcp_server_started", "mcp_server_binary_mismatch"], vec![]); "gate off")]
#[test_case(OnChange::Alert, Mode::Enforce, Gate::Auto => (vec!["mcp_server_started", "mcp_server_binary_mismatch"], vec![]); "alert")]
fn a_changed_program(change: OnChange, mode: Mode, gate: Gate) -> (Vec<&'static str>, Vec<&'static str>) {
    let mut policy = Policy {
        mode,
        ..Policy::default()
    };
    policy.pinning.on_change = change;
    policy.exec.gate = gate;
    let mut world = World::with_pins(policy, [(id("mcp-server-git"), pins("v1"))].into());
    let held = effects(&world.exec(10, 9, "mcp-server-git")).contains(&"hold 10".to_owned());
    let judgement = world.hashed(FIRST, "v2");
    let effects = effects(&judgement);
    assert_eq!(
        held,
        !effects.is_empty(),
        "held exactly where a difference blocks"
    );
    let leaked: Vec<&'static str> = effects.into_iter().map(|effect| &*effect.leak()).collect();
    (kinds(&judgement), leaked)
}

#[test]
fn an_unchanged_program_is_released() {
    let mut world = World::with_pins(Policy::default(), [(id("mcp-server-git"), pins("v1"))].into());
    assert_eq!(
        effects(&world.exec(10, 9, "mcp-server-git"))[2..],
        ["hold 10", "hash 10"]
    );
    assert_eq!(world.monitor.server_of(process(10)), Some(FIRST));
    assert!(world.monitor.holds(process(10)));
    let judgement = world.hashed(FIRST, "v1");
    assert_eq!(
        (kinds(&judgement), effects(&judgement)),
        (vec!["mcp_server_started"], vec!["release 10".to_owned()])
    );
    assert!(!world.monitor.holds(process(10)));
}

#[test]
fn a_first_start_is_not_held() {
    let mut world = World::new(Policy::default());
    world.exec(10, 9, "mcp-server-git");
    assert!(!world.monitor.holds(process(10)));
    assert_eq!(world.monitor.server_of(process(11)), None);
}

#[test]
fn a_server_that_ended_is_held_until_it_is_compared() {
    let mut world = World::with_pins(Policy::default(), [(id("mcp-server-git"), pins("v1"))].into());
    world.exec(10, 9, "mcp-server-git");
    world.exit(FIRST, 10, 0);
    assert_eq!(world.monitor.server_of(process(10)), None);
    assert!(world.monitor.holds(process(10)));
    world.hashed(FIRST, "v2");
    assert!(!world.monitor.holds(process(10)));
}

#[test_case("python3 /srv/x/serve.py" => vec!["hash 11".to_owned()]; "it may be the server")]
#[test_case("make all" => Vec::<String>::new(); "it builds")]
fn the_first_word_ends_the_trial(command: &str) -> Vec<String> {
    let mut world = World::new(Policy::default());
    world.exec(10, 9, "sh /srv/mcp-server-x.sh");
    world.exec_in(Some(FIRST), 11, 10, command);
    effects(&world.monitor.spoke(Timestamp(world.now), process(10)))
}

/// A pinned program, and how it is started once it has changed.
struct Start {
    pinned: &'static str,
    actual: &'static str,
    argv: &'static str,
    links: u32,
    owner: Option<u32>,
}

const CHANGED: Start = Start {
    pinned: "/opt/mcp-server-git",
    actual: "/opt/mcp-server-git",
    argv: "/opt/mcp-server-git --stdio",
    links: 1,
    owner: Some(0),
};

#[test_case(CHANGED => true; "changed in its place")]
#[test_case(Start { argv: "mcp-server-git", ..CHANGED } => true; "found in PATH")]
#[test_case(Start { actual: "/home/a/mcp-server-git", ..CHANGED } => false; "another file of the name")]
#[test_case(Start { pinned: "/bin/bash", actual: "/bin/bash", ..CHANGED } => false; "a shell with a server's name")]
#[test_case(Start { actual: "/bin/bash", ..CHANGED } => false; "a shell in its stead")]
#[test_case(Start { links: 2, ..CHANGED } => false; "a file with another name")]
#[test_case(Start { links: 0, ..CHANGED } => false; "unknown")]
#[test_case(Start { owner: Some(1000), ..CHANGED } => false; "another user's file")]
#[test_case(Start { owner: None, ..CHANGED } => false; "unknown owner")]
fn only_the_servers_own_program_is_refused_to_the_host(start: Start) -> bool {
    let at = |path: &str, content: &str| PinnedFile {
        path: PathBuf::from(path),
        digest: Digest::of(content.as_bytes()),
    };
    let pinned = Pins {
        executable: at(start.pinned, "v1"),
        ..pins("v1")
    };
    let mut world = World::with_pins(Policy::default(), [(id("mcp-server-git"), pinned)].into());
    let exec = Exec {
        process: process(10),
        argv: start.argv.split(' ').map(str::to_owned).collect(),
        links: start.links,
        owner: start.owner,
        ..Exec::default()
    };
    world.monitor.exec(Timestamp(0), &exec);
    let changed = ServerFiles {
        executable: Part::Hashed(at(start.actual, "v2")),
        executable_writers: Writers::Root,
        script: None,
        package: None,
        launcher: None,
        generated_script: None,
    };
    let attempt = world.monitor.attempts;
    let judgement = world
        .monitor
        .hashed(Timestamp(0), FIRST, attempt, changed, Vec::new());
    let effects = effects(&judgement);
    assert!(effects.contains(&"kill 1".to_owned()), "it is killed in any case");
    effects.iter().any(|effect| effect.starts_with("refuse"))
}

#[test]
fn a_changed_interpreter_is_never_refused_for_everyone() {
    let mut world = World::new(Policy::default());
    world.exec(10, 9, "python3 -m mcp_server_git");
    world.hashed(FIRST, "v1");
    world.exec(11, 9, "python3 -m mcp_server_git");
    assert_eq!(
        effects(&world.hashed(InstanceId(2), "v2")),
        ["kill 2", "release 11"]
    );
}

#[test]
fn an_unpinned_server_without_trust_on_first_use_is_killed_with_a_remedy() {
    let mut policy = Policy::default();
    policy.pinning.auto_trust_first = false;
    let mut world = World::new(policy);
    assert_eq!(
        effects(&world.exec(10, 9, "mcp-server-git"))[2..],
        ["hold 10", "hash 10"]
    );
    let judgement = world.hashed(FIRST, "v1");
    assert_eq!(kinds(&judgement), ["mcp_server_started", "mcp_server_denied"]);
    assert_eq!(effects(&judgement), ["kill 1", "release 10"]);
    assert!(
        judgement.events[1]
            .reason
            .as_ref()
            .is_some_and(|reason| reason.contains("auto_trust_first"))
    );
}

/// `mcp-server-git --version`, over before it could be looked at: nothing is known, and nothing is left to stop.
#[test]
fn a_server_that_ended_before_it_was_hashed_is_reported_and_not_denied() {
    let pins = Pins {
        script: Some(PinnedFile {
            path: PathBuf::from("/srv/main.py"),
            digest: Digest::of(b"v1"),
        }),
        ..pins("v1")
    };
    let gone = || ServerFiles {
        executable: Part::Unknown {
            path: PathBuf::new(),
            cause: "the process is gone".to_owned(),
        },
        executable_writers: Writers::Others,
        script: None,
        package: None,
        launcher: None,
        generated_script: None,
    };
    let mut world = World::with_pins(Policy::default(), [(id("mcp-server-git"), pins)].into());
    world.exec(10, 9, "mcp-server-git");
    world.exit(FIRST, 10, 0);
    let attempt = world.monitor.attempts;
    let judgement = world
        .monitor
        .hashed(Timestamp(0), FIRST, attempt, gone(), Vec::new());
    assert_eq!(kinds(&judgement), ["mcp_server_started", "mcp_server_exited"]);
    assert_eq!(judgement.events[0].action, Action::Audit);

    world.exec(11, 9, "mcp-server-git");
    let attempt = world.monitor.attempts;
    let judgement = world
        .monitor
        .hashed(Timestamp(0), InstanceId(2), attempt, gone(), Vec::new());
    assert_eq!(kinds(&judgement), ["mcp_server_started", "mcp_server_denied"]);
    assert_eq!(effects(&judgement), ["kill 2", "release 11"]);
}

#[test]
fn a_result_for_a_program_that_was_replaced_is_dropped() {
    let mut world = World::new(Policy::default());
    world.exec(10, 9, "mcp-server-git");
    let first = world.monitor.attempts;
    world.exec_in(Some(FIRST), 10, 9, "/opt/real-binary");
    let stale = world
        .monitor
        .hashed(Timestamp(0), FIRST, first, files("wrapper"), Vec::new());
    assert!(stale.events.is_empty() && stale.kernel_effects.is_empty());
    assert_eq!(kinds(&world.hashed(FIRST, "real")), ["mcp_server_started"]);
    let elsewhere = world.hashed(InstanceId(77), "v1");
    assert!(elsewhere.events.is_empty() && elsewhere.kernel_effects.is_empty());
}

#[test]
fn a_refused_server_can_be_trusted_as_it_is() {
    let mut world = World::with_pins(Policy::default(), [(id("mcp-server-git"), pins("v1"))].into());
    assert_eq!(
        world.monitor.trust_refused(&id("mcp-server-git")),
        None,
        "it was not refused"
    );
    world.exec(10, 9, "mcp-server-git");
    world.hashed(FIRST, "v2");
    world.exit(FIRST, 10, 9);
    let added = world.monitor.trust_refused(&id("mcp-server-git"));
    let set = PinSet {
        key: key("mcp-server-git", 0),
        number: 2,
        pins: pins("v2"),
    };
    assert_eq!(added, Some(AddedSet { set, replaced: None }));
    for (number, content) in [(2, "v2"), (3, "v1")] {
        world.exec(9 + number, 9, "mcp-server-git");
        let judgement = world.hashed(InstanceId(number), content);
        assert_eq!(
            (kinds(&judgement), effects(&judgement)),
            (
                vec!["mcp_server_started"],
                vec![format!("release {}", 9 + number)]
            ),
            "{content} is trusted"
        );
    }
}

#[test]
fn pins_belong_to_a_package_and_a_user() {
    let mut world = World::new(Policy::default());
    let mut start = |pid: u32, uid: u32, package: &str, content: &str| {
        let exec = Exec {
            process: process(pid),
            argv: ["node", package].map(str::to_owned).to_vec(),
            uid,
            ..Exec::default()
        };
        world.monitor.exec(Timestamp(0), &exec);
        let judgement = world.hashed(InstanceId(pid), content);
        world.exit(InstanceId(pid), pid, 0);
        let EventKind::ServerStarted { pin, .. } = judgement.events[0].kind else {
            panic!("a start: {judgement:?}")
        };
        pin
    };
    let (a, b) = (
        "/srv/node_modules/@a/rvzz-mcp/index.js",
        "/srv/node_modules/@b/rvzz-mcp/index.js",
    );
    assert_eq!(start(1, 1000, a, "v1"), PinState::Pinned);
    assert_eq!(start(2, 1000, b, "v2"), PinState::Pinned, "another package");
    assert_eq!(start(3, 1001, a, "v3"), PinState::Pinned, "another user");
    assert_eq!(start(4, 1000, a, "v1"), PinState::Match);
    assert_eq!(start(5, 1000, b, "v1"), PinState::Mismatch);
    assert_eq!(start(6, 1001, a, "v1"), PinState::Mismatch);
}

#[test]
fn a_first_start_beyond_the_room_for_pins_is_told_and_runs() {
    let mut world = World::new(Policy::default());
    for number in 0..PinBook::MAX_OF_USER {
        world.monitor.pins.add(key(&format!("x{number}"), 0), pins("v1"));
    }
    world.exec(10, 9, "mcp-server-git");
    let judgement = world.hashed(FIRST, "v1");
    assert_eq!(
        (kinds(&judgement), effects(&judgement)),
        (vec!["mcp_server_started"], vec![])
    );
    let event = &judgement.events[0];
    assert_eq!((event.action, event.severity), (Action::Audit, Severity::Medium));
    let reason = event.reason.as_deref().unwrap_or_default();
    assert!(
        reason.contains("user 0 has 256 pinned packages") && reason.contains("pins reset"),
        "{reason}"
    );
}

#[test]
fn a_server_that_policy_refuses_is_killed_and_observed_otherwise() {
    let server_policy = ServerPolicy::Denylist(vec![NameGlob::new("mcp-server-g*")]);
    let mut world = World::new(Policy {
        server_policy: server_policy.clone(),
        ..Policy::default()
    });
    let judgement = world.exec(10, 9, "mcp-server-git");
    assert_eq!(kinds(&judgement), ["mcp_server_denied"]);
    assert!(effects(&judgement).contains(&"kill 1".to_owned()));
    assert_eq!(kinds(&world.exec(20, 9, "mcp-server-fetch")), [""; 0]);

    let mut observing = World::new(Policy {
        server_policy,
        mode: Mode::Observe,
        ..Policy::default()
    });
    let judgement = observing.exec(10, 9, "mcp-server-git");
    assert_eq!(judgement.events[0].action, Action::WouldBlock);
    assert!(!effects(&judgement).contains(&"kill 1".to_owned()));
}

fn stdio(name: &str, command: &str, args: &[&str], egress: Option<Egress>) -> Server {
    Server {
        id: id(name),
        transport: Transport::Stdio {
            command: command.to_owned(),
            args: args.iter().map(|arg| (*arg).to_owned()).collect(),
        },
        env_allow: Vec::new(),
        env_deny: Vec::new(),
        on_change: None,
        processes: None,
        sandbox: Default::default(),
        egress,
    }
}

#[test]
fn a_declared_server_has_its_declared_name_and_its_egress_list() {
    let egress = Egress {
        default: EgressDefault::Deny,
        allow: vec!["192.0.2.1:443".parse::<EgressDestination>().expect("endpoint")],
        deny: Vec::new(),
    };
    let server = stdio(
        "files",
        "npx",
        &["-y", "@modelcontextprotocol/server-memory"],
        Some(egress),
    );
    let mut world = World::new(Policy {
        servers: vec![server],
        ..Policy::default()
    });
    let judgement = world.exec(10, 9, "/usr/bin/npx -y @modelcontextprotocol/server-memory");
    let list = world.tables.egress[&id("files")];
    assert_eq!(effects(&judgement)[0], format!("track 10 as 1/{list}"));

    // Another policy without the list: the running server is let go.
    let policy = Policy::default();
    let tables = compile(&policy, &ResolvedNames::new(), &mut Numbering::default()).expect("small");
    let changed = world.monitor.install(Timestamp(0), Arc::new(policy), &tables);
    assert_eq!(effects(&changed), ["track 10 as 1/0"]);
    let running: Vec<ServerId> = world.monitor.running().map(|running| running.server).collect();
    assert_eq!(running, [id("server-memory")], "it is not declared any more");
}

#[test]
fn what_is_no_server_is_settled_only_where_the_kernel_waits_for_it() {
    let mut world = World::new(Policy::default());
    assert_eq!(effects(&world.exec(10, 9, "ls -l")), [""; 0]);
    let exec = Exec {
        pending: true,
        argv: vec!["ls".to_owned()],
        process: process(11),
        ..Exec::default()
    };
    let judgement = world.monitor.exec(Timestamp(0), &exec);
    assert_eq!(effects(&judgement), ["settle 11"]);
}

/// A rule for a server holds however it is started and however the rule writes its name.
#[test_case("mcp_server_time", "uvx mcp-server-time")]
#[test_case("mcp-server-time", "python -m mcp_server_time --local-timezone UTC")]
#[test_case("mcp_server_time", "/v/bin/python /v/bin/MCP.server-time")]
fn one_server_has_one_name(written: &str, command: &str) {
    let denied = ServerPolicy::Denylist(vec![NameGlob::new(written)]);
    let mut world = World::new(Policy {
        server_policy: denied,
        ..Policy::default()
    });
    assert_eq!(kinds(&world.exec(10, 9, command)), ["mcp_server_denied"]);

    let mut world = World::new(Policy {
        servers: vec![stdio(written, "elsewhere", &[], None)],
        ..Policy::default()
    });
    world.exec(10, 9, command);
    let running = world.monitor.running().next().expect("it runs");
    assert_eq!(running.server, id(written));
}

fn rule(name: &str, action: RuleAction, range: &str) -> NetworkRule {
    NetworkRule {
        name: name.to_owned(),
        action,
        scope: Scope::Host,
        hosts: Vec::new(),
        cidrs: vec![range.parse::<Cidr>().expect("range")],
        ports: Vec::new(),
    }
}

#[test]
fn packets_and_sockets_are_told_as_what_they_are() {
    let mut policy = Policy::default();
    policy.network.rules = vec![rule("bad", RuleAction::Deny, "198.51.100.0/24")];
    let world = World::new(policy);
    let packet = world.connection_by(
        LIST_HOST,
        "198.51.100.7",
        ConnectionOutcome::Refused,
        |connection| {
            connection.checkpoint = Checkpoint::Packet;
            connection.given = "192.0.2.1".parse().expect("address");
            connection.process = ProcessId::default();
        },
    );
    let EventKind::NetworkConnection {
        remote_addr,
        given_addr,
        ..
    } = packet.kind
    else {
        panic!("a connection")
    };
    let given = given_addr.map(|given| given.to_string());
    assert_eq!(
        (remote_addr.to_string().as_str(), given.as_deref()),
        ("198.51.100.7:443", Some("192.0.2.1:443"))
    );
    assert!(packet.process.is_none(), "nobody is named who is not known");
    assert!(
        packet
            .reason
            .is_some_and(|reason| reason.contains("network.deny") && reason.contains("dropped"))
    );
    for (outcome, action) in [
        (ConnectionOutcome::Refused, Action::Block),
        (ConnectionOutcome::WouldRefuse, Action::WouldBlock),
    ] {
        let socket = world.connection_by(LIST_HOST, "0.0.0.0", outcome, |connection| {
            connection.checkpoint = Checkpoint::Socket;
            connection.protocol = 132;
            connection.rule = Some(u32::MAX);
        });
        assert_eq!(
            (socket.action, socket.rule.as_deref()),
            (action, Some("unjudged_protocol"))
        );
        assert!(socket.reason.is_some_and(|reason| reason.contains("SCTP")));
    }
}

#[test]
fn connections_are_told_by_rule_and_origin() {
    let mut policy = Policy::default();
    policy.network.rules = vec![
        rule("lab", RuleAction::Watch, "192.0.2.0/24"),
        rule("bad", RuleAction::Deny, "198.51.100.0/24"),
    ];
    let mut world = World::new(policy);
    world.exec(10, 9, "mcp-server-git");
    let seen = |event: &Event| {
        let EventKind::NetworkConnection { direction, .. } = event.kind else {
            panic!("a connection")
        };
        (
            direction,
            event.action,
            event.rule.clone(),
            event.server_id.as_ref().map(ToString::to_string),
        )
    };
    let watched = world.connection(None, "192.0.2.5", ConnectionOutcome::Passed);
    assert_eq!(
        seen(&watched),
        (Direction::Watch, Action::Audit, Some("lab".to_owned()), None)
    );
    let refused = world.connection(None, "198.51.100.7", ConnectionOutcome::Refused);
    assert_eq!(
        seen(&refused),
        (Direction::Watch, Action::Block, Some("bad".to_owned()), None)
    );
    assert!(
        refused
            .reason
            .as_ref()
            .is_some_and(|reason| reason.contains("network.deny"))
    );
    let own = world.connection(Some(FIRST), "203.0.113.9", ConnectionOutcome::Passed);
    assert_eq!(
        seen(&own),
        (
            Direction::ServerEgress,
            Action::Allow,
            None,
            Some("mcp-server-git".to_owned())
        )
    );
    let would = world.connection(Some(FIRST), "198.51.100.7", ConnectionOutcome::WouldRefuse);
    assert_eq!(would.action, Action::WouldBlock);
}

fn open(socket: u64, remote: &str, holder: impl FnOnce(&mut ConnectionHolder)) -> OpenConnection {
    let mut own = ConnectionHolder {
        process: process(10),
        comm: "server".to_owned(),
        uid: 1000,
        instance: None,
        is_agent: false,
        lists: Vec::new(),
    };
    holder(&mut own);
    OpenConnection {
        socket,
        remote: remote.parse().expect("address"),
        transport: IpProtocol::Tcp,
        is_answer: false,
        holders: vec![own],
    }
}

/// Rules for everyone and for agents, and a server that reaches nothing.
fn refusing() -> World {
    let mut policy = Policy::default();
    policy.network.rules = vec![
        rule("all", RuleAction::Deny, "198.51.100.0/24"),
        NetworkRule {
            scope: Scope::Agents,
            ..rule("agents", RuleAction::Deny, "192.0.2.0/24")
        },
    ];
    let nothing = Egress {
        default: EgressDefault::Deny,
        ..Egress::default()
    };
    policy.servers = vec![stdio("files", "mcp-server-git", &[], Some(nothing))];
    World::new(policy)
}

#[test]
fn open_connections_are_cut_by_what_holds_for_their_processes() {
    let mut world = refusing();
    let list = world.tables.egress[&id("files")];
    let listed = |holder: &mut ConnectionHolder| holder.lists = vec![list];
    let mut answer = open(6, "203.0.113.1:443", listed);
    answer.is_answer = true;
    let mut passed = open(8, "192.0.2.1:443", |_| {});
    passed
        .holders
        .extend(open(0, "192.0.2.1:443", |holder| holder.is_agent = true).holders);
    let found = [
        open(1, "198.51.100.1:443", |_| {}),
        open(2, "192.0.2.1:443", |_| {}),
        open(3, "192.0.2.1:443", |holder| holder.is_agent = true),
        open(4, "203.0.113.1:443", listed),
        open(5, "203.0.113.1:443", |holder| holder.is_agent = true),
        answer,
        open(7, "[::ffff:198.51.100.1]:443", |_| {}),
        passed,
    ];
    let tables = world.tables.clone();
    let judge = |world: &mut World| {
        let seen = Observation::OpenConnections(&tables, &found);
        world.monitor.observe(Timestamp(0), seen)
    };
    let cuts = effects(&judge(&mut world));
    assert_eq!(cuts, ["cut 1", "cut 3", "cut 4", "cut 7", "cut 8"]);

    let mut observed = (**world.monitor.policy()).clone();
    observed.mode = Mode::Observe;
    drop(world.monitor.install(Timestamp(0), Arc::new(observed), &tables));
    assert_eq!(effects(&judge(&mut world)), [""; 0]);
}

#[test]
fn cuts_are_told_as_what_happened() {
    let mut world = refusing();
    let found = [1, 2, 3].map(|socket| open(socket, "198.51.100.1:443", |_| {}));
    let tables = world.tables.clone();
    let seen = Observation::OpenConnections(&tables, &found);
    let ordered = world.monitor.observe(Timestamp(0), seen).kernel_effects;
    let traffic = ConnectionTraffic { sent: 5, received: 3 };
    let outcomes = [
        CutOutcome::Cut(Some(traffic)),
        CutOutcome::Cut(Some(traffic)),
        CutOutcome::Failed("not supported".to_owned()),
    ];
    let order = |effect| {
        if let KernelEffect::Cut(order) = effect {
            Some(*order)
        } else {
            None
        }
    };
    let cuts: Vec<_> = ordered.into_iter().filter_map(order).zip(outcomes).collect();
    let told = world
        .monitor
        .observe(Timestamp(0), Observation::Cut(&cuts))
        .events;
    let said = |event: &Event| {
        let EventKind::ConnectionCut {
            bytes_sent,
            bytes_received,
            socket,
            count,
            ..
        } = event.kind
        else {
            panic!("a cut")
        };
        (event.action, socket, bytes_sent, bytes_received, count)
    };
    assert_eq!(
        told.iter().map(said).collect::<Vec<_>>(),
        [
            (Action::Block, None, Some(10), Some(6), 2),
            (Action::Audit, Some(3), None, None, 1),
        ]
    );
    let reasons: Vec<&str> = told.iter().filter_map(|event| event.reason.as_deref()).collect();
    assert!(reasons[0].starts_with("an open connection is cut: it is refused by the rule `all`"));
    assert!(reasons[1].contains("could not be cut") && reasons[1].contains("not supported"));
}

fn proxied(name: &str, root: u32, cgroup: Option<u64>) -> ProxiedSession {
    ProxiedSession {
        session: SessionId::new(name),
        root: process(root),
        cgroup,
    }
}

#[test]
fn processes_of_a_session_with_a_proxy_are_held_to_its_list() {
    let mut world = World::new(Policy::default());
    let entered = world
        .monitor
        .proxied(proxied("run-1", 20, None), [process(20), process(21)]);
    let list = LIST_PROXIED;
    assert_eq!(
        effects(&entered),
        [format!("enter 20 {list}"), format!("enter 21 {list}")]
    );
}

#[test_case(OnBypass::Alert, ConnectionOutcome::Passed => (Action::Audit, Severity::Medium); "reported")]
#[test_case(OnBypass::Deny, ConnectionOutcome::Refused => (Action::Block, Severity::High); "refused")]
#[test_case(OnBypass::Deny, ConnectionOutcome::WouldRefuse => (Action::WouldBlock, Severity::Medium); "observing")]
fn who_goes_round_the_proxy_is_told(on_bypass: OnBypass, outcome: ConnectionOutcome) -> (Action, Severity) {
    let mut policy = Policy::default();
    policy.network.bypass.action = on_bypass;
    policy.network.bypass.models = vec![ModelHost {
        hosts: Vec::new(),
        addresses: vec!["192.0.2.5".parse().expect("address")],
        ports: vec![443],
    }];
    let world = World::new(policy);
    let event = world.connection_by(LIST_PROXIED, "192.0.2.5", outcome, |_| {});
    assert_eq!(event.kind.name(), "mcp_proxy_bypass");
    assert_eq!(event.rule.as_deref(), Some("network.proxy_bypass"));
    assert!(
        event
            .reason
            .as_ref()
            .is_some_and(|reason| reason.contains("base URL"))
    );
    let elsewhere = world.connection_by(LIST_PROXIED, "192.0.2.6", ConnectionOutcome::Passed, |_| {});
    assert_eq!(elsewhere.kind.name(), "mcp_network_connection");
    (event.action, event.severity)
}

#[test]
fn a_session_is_known_by_its_group_its_server_and_its_root() {
    let mut world = World::new(Policy::default());
    let monitor = &mut world.monitor;
    drop(monitor.proxied(proxied("grouped", 20, Some(77)), []));
    drop(monitor.proxied(proxied("rooted", 30, None), []));
    for (child, parent) in [(31, 30), (32, 31), (41, 40)] {
        drop(monitor.fork(Fork {
            process: process(child),
            parent: process(parent),
            instance: None,
        }));
    }
    world.exec(10, 9, "mcp-server-git");
    drop(world.monitor.is_of(FIRST, SessionId::new("served")));
    let session = |pid: u32, cgroup: u64, instance: Option<InstanceId>| {
        let event = world.connection_by(LIST_HOST, "192.0.2.5", ConnectionOutcome::Passed, |connection| {
            (connection.process, connection.cgroup, connection.instance) = (process(pid), cgroup, instance);
        });
        event.session_id.map(|session| session.as_str().to_owned())
    };
    assert_eq!(session(99, 77, None).as_deref(), Some("grouped"));
    assert_eq!(session(32, 0, None).as_deref(), Some("rooted"), "a grandchild");
    assert_eq!(session(41, 0, None), None, "another tree");
    assert_eq!(session(99, 78, None), None, "another group");
    assert_eq!(session(99, 0, Some(FIRST)).as_deref(), Some("served"));
}

#[test]
fn a_session_that_comes_again_is_one_and_the_oldest_make_room() {
    let mut world = World::new(Policy::default());
    for root in [20, 21] {
        drop(world.monitor.proxied(proxied("again", root, None), []));
    }
    for root in 100..100 + 1023 {
        drop(
            world
                .monitor
                .proxied(proxied(&format!("run-{root}"), root, None), []),
        );
    }
    let known = |world: &World, pid: u32| {
        let event = world.connection_by(LIST_HOST, "192.0.2.5", ConnectionOutcome::Passed, |connection| {
            connection.process = process(pid);
        });
        event.session_id.is_some()
    };
    assert!(!known(&world, 20) && known(&world, 21));
    drop(world.monitor.proxied(proxied("one more", 50, None), []));
    assert!(!known(&world, 21) && known(&world, 100) && known(&world, 50));
}

#[test]
fn secrets_in_arguments_never_reach_an_event() {
    let mut world = World::new(Policy::default());
    world.exec(10, 9, "mcp-server-git --token hunter2hunter2");
    let judgement = world.hashed(FIRST, "v1");
    assert!(!format!("{judgement:?}").contains("hunter2"));
}

#[test]
fn there_is_an_end_to_how_many_servers_of_a_user_are_followed() {
    let mut world = World::new(Policy::default());
    for pid in 0..u32::try_from(MAX_INSTANCES).expect("small") {
        world.exec(1000 + pid, 9, "mcp-server-git");
    }
    let judgement = world.exec(99, 9, "mcp-server-git");
    assert_eq!(kinds(&judgement), ["mcp_enforcement_degraded"]);
    assert_eq!(effects(&judgement), ["kill process 99"]);
    let other = Exec {
        uid: 1000,
        process: process(98),
        argv: vec!["mcp-server-git".to_owned()],
        ..Exec::default()
    };
    assert_eq!(
        effects(&world.monitor.exec(Timestamp(0), &other))[0],
        "track 98 as 1025/0"
    );
}

#[test]
fn a_program_the_kernel_killed_is_told_and_not_followed() {
    let mut world = World::new(Policy::default());
    let exec = Exec {
        process: process(10),
        argv: vec!["mcp-server-git".to_owned()],
        killed: true,
        ..Exec::default()
    };
    let judgement = world.monitor.exec(Timestamp(0), &exec);
    assert_eq!(
        (kinds(&judgement), effects(&judgement)),
        (vec!["mcp_server_denied"], vec!["kill process 10".to_owned()])
    );
    assert!(
        judgement.events[0]
            .reason
            .as_ref()
            .is_some_and(|reason| reason.contains("mcpmon pins trust"))
    );
    assert_eq!(world.monitor.running().count(), 0);
}

#[test]
fn with_the_gate_off_nothing_is_said_to_be_blocked() {
    let mut policy = Policy::default();
    policy.exec.gate = Gate::Off;
    let mut world = World::with_pins(policy, [(id("mcp-server-git"), pins("v1"))].into());
    world.exec(10, 9, "mcp-server-git");
    let judgement = world.hashed(FIRST, "v2");
    assert!(
        judgement.events.iter().all(|event| event.action == Action::Audit),
        "{judgement:?}"
    );
}

fn restricted(name: &str, command: &str) -> Server {
    let egress = Egress {
        default: EgressDefault::Deny,
        ..Egress::default()
    };
    stdio(name, command, &[], Some(egress))
}

#[test]
fn a_server_inside_another_is_held_to_both_lists() {
    let servers = vec![
        restricted("outer", "mcp-server-git"),
        restricted("inner", "mcp-server-fetch"),
    ];
    let mut world = World::new(Policy {
        servers,
        ..Policy::default()
    });
    let (outer, inner) = (
        world.tables.egress[&id("outer")],
        world.tables.egress[&id("inner")],
    );
    world.exec(10, 9, "mcp-server-git");
    world.hashed(FIRST, "v1");
    let nested = world.exec_in(Some(FIRST), 11, 10, "mcp-server-fetch");
    assert_eq!(effects(&nested)[0], format!("track 11 as 2/[{outer}, {inner}]"));
    let unlisted = world.exec_in(Some(FIRST), 12, 10, "mcp-server-time");
    assert_eq!(
        effects(&unlisted)[0],
        format!("track 12 as 3/{outer}"),
        "a name of its own frees it of nothing"
    );
}

#[test]
fn a_server_deep_inside_others_is_held_to_all_their_lists() {
    let servers = vec![
        restricted("outer", "mcp-server-git"),
        restricted("middle", "mcp-server-fetch"),
        restricted("inner", "mcp-server-time"),
    ];
    let mut world = World::new(Policy {
        servers,
        ..Policy::default()
    });
    world.exec(10, 9, "mcp-server-git");
    world.exec_in(Some(FIRST), 11, 10, "mcp-server-fetch");
    let inner = world.exec_in(Some(InstanceId(2)), 12, 11, "mcp-server-time");
    let [outer, union] = [world.tables.egress[&id("outer")], 1];
    let held = format!("track 12 as 3/[{outer}, {union}]");
    assert!(effects(&inner).contains(&held), "{:?}", effects(&inner));
    for server in ["outer", "middle", "inner"] {
        let address = "203.0.113.1".parse().expect("address");
        let own = world
            .tables
            .lookup(world.tables.egress[&id(server)], address, 443);
        let of_union = world.tables.lookup(union, address, 443);
        assert!(own.deny_host != 0 && of_union.deny_host != 0, "{server}");
    }
}

#[test]
fn a_declared_server_inside_another_is_known_by_its_launcher() {
    let (git, npx) = ("mcp-server-git", "npx");
    let egress = Egress {
        default: EgressDefault::Deny,
        ..Egress::default()
    };
    let inner = stdio("inner", npx, &["-y", "@a/thing-mcp"], Some(egress));
    let mut world = World::new(Policy {
        servers: vec![restricted("outer", git), inner],
        ..Policy::default()
    });
    let [outer, inner] = ["outer", "inner"].map(|name| world.tables.egress[&id(name)]);
    world.exec(10, 9, git);
    world.hashed(FIRST, "v1");
    let launcher = world.exec_in(Some(FIRST), 11, 10, "npx -y @a/thing-mcp");
    assert_eq!(
        effects(&launcher),
        [
            format!("track 11 as 2/[{outer}, {inner}]"),
            "starter 10".to_owned()
        ]
    );
    let second = Some(InstanceId(2));
    let serves = world.exec_in(second, 12, 11, "node /c/_npx/1/node_modules/.bin/thing-mcp");
    assert_eq!(effects(&serves), ["hash 12"]);
}

/// A server behind the runner of another one often has another name; a name that the policy knows has its own rules.
#[test_case("thing-mcp" => vec!["hash 11"]; "no rule knows it")]
#[test_case("mcp-server-fetch" => vec!["track 11 as 2/2", "starter 10", "hash 11"]; "declared")]
#[test_case("mcp-server-time" => vec!["track 11 as 2/0", "starter 10", "kill 2", "hash 11"]; "refused by name")]
fn a_server_behind_the_runner_of_another(command: &str) -> Vec<String> {
    let mut world = World::new(Policy {
        servers: vec![restricted("inner", "mcp-server-fetch")],
        server_policy: ServerPolicy::Denylist(vec![NameGlob::new("mcp-server-time")]),
        ..Policy::default()
    });
    world.exec(10, 9, "npx -y @mcp/thing");
    effects(&world.exec_in(Some(FIRST), 11, 10, command))
}

#[test]
fn a_name_that_is_not_allowed_may_stand_behind_a_runner_that_is() {
    let mut world = World::new(Policy {
        server_policy: ServerPolicy::Allowlist(vec![NameGlob::new("thing")]),
        ..Policy::default()
    });
    world.exec(10, 9, "npx -y @mcp/thing");
    assert_eq!(
        effects(&world.exec_in(Some(FIRST), 11, 10, "thing-mcp")),
        ["hash 11"]
    );
}

#[test]
fn a_runner_that_becomes_another_server_leaves_nothing_behind() {
    let mut world = World::new(Policy {
        servers: vec![
            restricted("outer", "mcp-server-git"),
            restricted("inner", "mcp-server-fetch"),
        ],
        ..Policy::default()
    });
    world.exec(10, 9, "npx -y @a/thing-mcp");
    world.exec_in(Some(FIRST), 10, 9, "mcp-server-fetch");
    let running: Vec<ServerId> = world.monitor.running().map(|running| running.server).collect();
    assert_eq!(running, [id("inner")]);
}

#[test]
fn forking_twice_before_the_first_judgement_does_not_help() {
    let fork = |process_id, parent| Fork {
        process: process(process_id),
        parent: process(parent),
        instance: None,
    };
    let mut world = World::new(Policy::default());
    world.monitor.fork(fork(11, 10));
    world.monitor.fork(fork(12, 11));
    let launch = world.exec(10, 9, "mcp-server-git");
    assert_eq!(
        effects(&launch)[..3],
        ["track 10 as 1/0", "track 11 as 1/0", "track 12 as 1/0"]
    );
    // The grandchild's exec names init as its parent.
    assert_eq!(
        effects(&world.exec(12, 1, "curl example.com"))[0],
        "track 12 as 1/0"
    );
    let late = world.monitor.fork(fork(13, 12));
    assert_eq!(effects(&late), ["track 13 as 1/0"]);
    assert_eq!(effects(&world.monitor.fork(fork(21, 20))), [""; 0]);
}

#[test]
fn a_process_that_ended_before_the_kernel_knew_its_server_is_not_followed() {
    const UNKNOWN: InstanceId = InstanceId(0);
    let mut world = World::new(Policy::default());
    world.exec(10, 9, "npx -y mcp-server-git");
    assert!(world.monitor.follows(FIRST));
    world.exit(UNKNOWN, 11, 0);
    assert!(world.monitor.follows(FIRST), "that was another process");
    world.exit(UNKNOWN, 10, 0);
    assert!(!world.monitor.follows(FIRST));
}

/// The record of a fork may be lost, and with the last process that was heard of its server is forgotten.
#[test]
fn a_server_started_by_what_a_forgotten_one_left_is_followed() {
    let mut world = World::new(Policy::default());
    world.exec(10, 9, "mcp-server-git");
    world.hashed(FIRST, "v1");
    world.exit(FIRST, 10, 0);
    assert!(!world.monitor.follows(FIRST));
    let unheard_of = Fork {
        process: process(21),
        parent: process(20),
        instance: Some(FIRST),
    };
    world.monitor.fork(unheard_of);
    let launch = world.exec_in(Some(FIRST), 21, 20, "mcp-server-fetch");
    assert_eq!(effects(&launch), ["track 21 as 2/0", "starter 20", "hash 21"]);
}

#[test]
fn a_server_refused_by_a_new_policy_is_stopped_while_it_runs() {
    let mut world = World::new(Policy::default());
    world.exec(10, 9, "mcp-server-git");
    let server_policy = ServerPolicy::Denylist(vec![NameGlob::new("mcp-server-git")]);
    let policy = Policy {
        server_policy,
        ..Policy::default()
    };
    let judgement = world
        .monitor
        .install(Timestamp(0), Arc::new(policy), &world.tables);
    assert_eq!(
        (kinds(&judgement), effects(&judgement)),
        (vec!["mcp_server_denied"], vec!["kill 1".to_owned()])
    );
}

/// Returns the files of an interpreter with a package.
fn interpreted(interpreter: &str, script: &str, writers: Writers) -> ServerFiles {
    let file = |path: &str, content: &str| {
        Part::Hashed(PinnedFile {
            path: PathBuf::from(path),
            digest: Digest::of(content.as_bytes()),
        })
    };
    ServerFiles {
        executable: file("/usr/bin/node", interpreter),
        executable_writers: writers,
        script: Some(file("/srv/mcp-server-x.js", script)),
        package: None,
        launcher: None,
        generated_script: None,
    }
}

#[test_case("v1", Writers::Root => (vec!["mcp_server_started", "mcp_server_binary_mismatch"], vec!["upgrade /srv/mcp-server-x.js 0".to_owned(), "release 11".to_owned()]); "by root")]
#[test_case("v2", Writers::Root => (vec!["mcp_server_started", "mcp_server_binary_mismatch", "mcp_server_binary_mismatch", "mcp_server_denied"], vec!["kill 2".to_owned(), "release 11".to_owned()]); "by root with another script")]
#[test_case("v1", Writers::Others => (vec!["mcp_server_started", "mcp_server_binary_mismatch", "mcp_server_denied"], vec!["kill 2".to_owned(), "release 11".to_owned()]); "by others")]
fn a_changed_interpreter(script: &str, writers: Writers) -> (Vec<&'static str>, Vec<String>) {
    let mut world = World::new(Policy::default());
    let start = |world: &mut World, pid, files| {
        world.exec(pid, 9, "node /srv/mcp-server-x.js");
        let attempt = world.monitor.attempts;
        let instance = world.monitor.running().last().expect("it runs").instance;
        world
            .monitor
            .hashed(Timestamp(world.now), instance, attempt, files, Vec::new())
    };
    start(&mut world, 10, interpreted("node 18", "v1", Writers::Root));
    let judgement = start(&mut world, 11, interpreted("node 20", script, writers));
    if writers == Writers::Root && script == "v1" {
        let event = &judgement.events[1];
        assert_eq!((event.action, event.severity), (Action::Audit, Severity::Medium));
        let again = start(&mut world, 12, interpreted("node 20", "v1", Writers::Others));
        assert_eq!(kinds(&again), ["mcp_server_started"], "it is accepted by now");
    }
    (kinds(&judgement), effects(&judgement))
}

/// An install script that builds for long is taken for the server, and pinned; then comes the server.
#[test]
fn what_a_first_launch_runs_on_its_way_is_trusted_with_it() {
    let mut world = World::new(Policy::default());
    let mut launch = |pid: u32, server: &str| {
        let number = InstanceId(pid / 10);
        world.exec(pid, 9, "npx -y @scope/notes-mcp");
        world.exec_in(Some(number), pid + 1, pid, "node scripts/build-native.js");
        world.now += 3 * SECOND;
        let grown = world.monitor.tick(Timestamp(world.now));
        assert_eq!(effects(&grown).last(), Some(&format!("hash {}", pid + 1)));
        let helper = world.hashed(number, "helper");
        world.exit(number, pid + 1, 0);
        let path = "node /c/_npx/x/node_modules/@scope/notes-mcp/index.js";
        world.exec_in(Some(number), pid + 2, pid, path);
        let server = world.hashed(number, server);
        for member in [pid + 2, pid] {
            world.exit(number, member, 0);
        }
        (effects(&helper), effects(&server))
    };
    let pinned = || vec!["pin @scope/notes-mcp 0".to_owned()];
    let released = |pid: u32| vec![format!("release {pid}")];
    assert_eq!(
        launch(10, "v1"),
        (pinned(), [pinned(), released(12)].concat()),
        "both are pinned"
    );
    assert_eq!(
        launch(20, "v1"),
        (released(21), released(22)),
        "both are known by now"
    );
    assert_eq!(
        launch(30, "v2").1,
        ["kill 3", "release 32"],
        "a later launch adds nothing"
    );
}

#[test]
fn another_server_of_a_first_launch_is_not_trusted_with_it() {
    let mut world = World::with_pins(Policy::default(), [(id("mcp-server-fetch"), pins("v1"))].into());
    world.exec(10, 9, "mcp-server-git");
    world.hashed(FIRST, "v1");
    world.exec_in(Some(FIRST), 11, 10, "mcp-server-fetch");
    let nested = world.hashed(InstanceId(2), "v2");
    assert_eq!(effects(&nested), ["kill 2", "release 11"]);
}

/// A policy that declares a shell as a server.
fn declared_shell(command: &str, args: &[&str]) -> Policy {
    Policy {
        servers: vec![stdio("loop", command, args, None)],
        ..Policy::default()
    }
}

const LOOP: &str = "while read line; do echo {}; done";

#[test_case(Policy::default(), &["sh", "/srv/mcp-server-x.sh"] => true; "a script that a pattern names")]
#[test_case(Policy::default(), &["/bin/bash", "/srv/mcp-server-x.sh", "--stdio"] => true; "by its hash bang")]
#[test_case(declared_shell("/srv/serve.sh", &[]), &["/bin/sh", "/srv/serve.sh"] => true; "a declared script")]
#[test_case(declared_shell("bash", &["-c", LOOP]), &["/bin/bash", "-c", LOOP] => true; "a declared line")]
#[test_case(Policy::default(), &["sh", "-c", "mcp-server-x"] => false; "a line that runs a server")]
#[test_case(Policy::default(), &["npx", "-y", "mcp-server-x"] => false; "a launcher is no shell")]
fn a_shell_left_alone_serves_where_the_launch_names_it(policy: Policy, argv: &[&str]) -> bool {
    let mut world = World::new(policy);
    let exec = Exec {
        process: process(10),
        argv: argv.iter().map(|word| (*word).to_owned()).collect(),
        ..Exec::default()
    };
    let launch = world.monitor.exec(Timestamp(0), &exec);
    assert!(effects(&launch).contains(&"track 10 as 1/0".to_owned()));
    assert!(
        !effects(&launch).contains(&"hash 10".to_owned()),
        "too early to tell"
    );
    world.now = 2 * SECOND - 1;
    assert_eq!(effects(&world.monitor.tick(Timestamp(world.now))), [""; 0]);
    world.now += 1;
    effects(&world.monitor.tick(Timestamp(world.now))) == ["hash 10"]
}

#[test]
fn code_that_is_declared_serves_behind_a_shim_of_its_interpreter() {
    let mut world = World::new(declared_shell("python3", &["-c", "serve()"]));
    world.exec(10, 9, "env bash /shims/python3 -c serve()");
    world.exec_in(Some(FIRST), 10, 9, "bash /libexec/pyenv exec python3 -c serve()");
    let probe = world.exec_in(Some(FIRST), 11, 10, "/versions/3/bin/python3 -c probe()");
    assert_eq!(effects(&probe), [""; 0], "other code is no server");
    let serving = world.exec_in(Some(FIRST), 10, 9, "/versions/3/bin/python3 -c serve()");
    assert!(effects(&serving).contains(&"hash 10".to_owned()), "{serving:?}");
}

#[test]
fn a_shell_with_a_child_does_not_serve_until_it_is_alone_again() {
    let mut world = World::new(Policy::default());
    world.exec(10, 9, "sh /srv/mcp-server-x.sh");
    // This child is any forked process that is not judged to be a server: a pipe, a download.
    let child = ProcessId { pid: 11, start: 2 };
    world.monitor.fork(Fork {
        process: child,
        parent: process(10),
        instance: Some(FIRST),
    });
    world.now = 5 * SECOND;
    assert_eq!(effects(&world.monitor.tick(Timestamp(world.now))), [""; 0]);
    let exit = Exit {
        process: child,
        instance: FIRST,
        status: Some(0),
    };
    world.monitor.exit(Timestamp(world.now), exit);
    world.now = 7 * SECOND - 1;
    assert_eq!(effects(&world.monitor.tick(Timestamp(world.now))), [""; 0]);
    world.now += 1;
    assert_eq!(effects(&world.monitor.tick(Timestamp(world.now))), ["hash 10"]);
    world.exec_in(Some(FIRST), 12, 10, "jq .method");
    assert_eq!(
        effects(&world.hashed(FIRST, "v1")),
        ["pin /srv/mcp-server-x.sh 0"]
    );
    assert_eq!(
        kinds(&world.exit(FIRST, 10, 0)),
        ["mcp_server_exited"],
        "a child that comes and goes changes nothing"
    );
}

#[test]
fn a_server_is_not_compared_in_silence_where_its_way_was_forgotten() {
    let mut world = World::with_pins(Policy::default(), [(id("mcp-server-git"), pins("v1"))].into());
    for pid in 100..10_000 {
        world.exec(pid, 9, "sleep 60");
    }
    let launch = world.exec(10, 9, "/usr/bin/mcp-server-git");
    assert_eq!(kinds(&launch), ["mcp_enforcement_degraded"]);
    let is_forgotten = |effect: &KernelEffect| matches!(effect, KernelEffect::Hash { launcher: None, .. });
    assert!(
        launch.kernel_effects.iter().any(is_forgotten),
        "{:?}",
        launch.kernel_effects
    );
    let unknown = ServerFiles {
        launcher: Some(LauncherFiles {
            file: Part::Unknown {
                path: PathBuf::new(),
                cause: "forgotten".to_owned(),
            },
            writers: Writers::Others,
            is_known: false,
        }),
        ..files("v1")
    };
    let attempt = world.monitor.attempts;
    let hashed = world
        .monitor
        .hashed(Timestamp(world.now), FIRST, attempt, unknown, Vec::new());
    let EventKind::ServerStarted { pin, .. } = &hashed.events[0].kind else {
        panic!("a start");
    };
    assert_eq!(*pin, PinState::Unknown);
}

#[test]
fn a_script_that_ends_at_once_was_the_server() {
    let mut world = World::new(Policy::default());
    for (number, pid) in [(FIRST, 10), (InstanceId(2), 20)] {
        world.exec(pid, 9, "sh /srv/mcp-server-x.sh");
        let ended = world.exit(number, pid, 0);
        // The second one is pinned: it would be held, if it was there still.
        assert_eq!(effects(&ended), [format!("hash {pid}")]);
        assert_eq!(kinds(&ended), [""; 0]);
        let hashed = world.hashed(number, "shell");
        assert_eq!(kinds(&hashed), ["mcp_server_started", "mcp_server_exited"]);
        assert_eq!(world.monitor.running().count(), 0);
    }
}

#[test]
fn a_script_that_served_ends_once() {
    let mut world = World::new(Policy::default());
    world.exec(10, 9, "sh /srv/mcp-server-x.sh");
    world.now = 2 * SECOND;
    let grown = world.monitor.tick(Timestamp(world.now));
    assert_eq!(effects(&grown), ["hash 10"]);
    world.hashed(FIRST, "shell");
    let ended = world.exit(FIRST, 10, 0);
    assert_eq!(
        (effects(&ended), kinds(&ended)),
        (Vec::new(), vec!["mcp_server_exited"])
    );
    assert_eq!(world.monitor.running().count(), 0);
}

#[test_case(true; "which is forked")]
#[test_case(false; "which executes before its fork is known")]
fn a_script_that_started_something_is_no_server_when_it_ends(is_forked: bool) {
    let mut world = World::new(Policy::default());
    world.exec(10, 9, "sh /srv/mcp-server-x.sh");
    if is_forked {
        world.monitor.fork(Fork {
            process: process(11),
            parent: process(10),
            instance: Some(FIRST),
        });
    } else {
        world.exec_in(Some(FIRST), 11, 10, "git status");
    }
    world.exit(FIRST, 11, 0);
    let ended = world.exit(FIRST, 10, 0);
    assert_eq!((effects(&ended), kinds(&ended)), (Vec::new(), Vec::new()));
    assert_eq!(world.monitor.running().count(), 0);
}

/// A session that is shorter than the time after which a child of a shell is taken for the server.
#[test]
fn what_lived_longest_below_a_shell_was_the_server() {
    let mut world = World::new(Policy::default());
    world.exec(10, 9, "sh /srv/mcp-server-x.sh");
    world.exec_in(Some(FIRST), 11, 10, "dirname /srv/x");
    world.exit(FIRST, 11, 0);
    world.exec_in(Some(FIRST), 12, 10, "python3 /srv/x/serve.py");
    world.now = SECOND;
    world.exit(FIRST, 12, 3);
    world.exec_in(Some(FIRST), 13, 10, "rm /tmp/x");
    world.exit(FIRST, 13, 0);
    let ended = world.exit(FIRST, 10, 0);
    assert_eq!(effects(&ended), ["hash 12"]);
    let hashed = world.hashed(FIRST, "python");
    assert_eq!(kinds(&hashed), ["mcp_server_started", "mcp_server_exited"]);
    assert_eq!(world.monitor.running().count(), 0);
}

#[test]
fn a_shell_under_a_wrapper_serves() {
    let mut world = World::new(Policy::default());
    world.exec(10, 9, "timeout 600 sh /srv/mcp-server-x.sh");
    let exec = Exec {
        process: ProcessId { pid: 11, start: 2 },
        parent: process(10),
        instance: Some(FIRST),
        argv: ["sh", "/srv/mcp-server-x.sh"].map(str::to_owned).to_vec(),
        ..Exec::default()
    };
    world.monitor.exec(Timestamp(0), &exec);
    world.now = 2 * SECOND;
    assert_eq!(effects(&world.monitor.tick(Timestamp(world.now))), ["hash 11"]);
}

#[test_case(10, "node /srv/mcp-server-x.js" => vec!["hash 10"]; "it becomes the server")]
#[test_case(11, "node /srv/mcp-server-x.js" => vec!["hash 11"]; "it starts the server")]
#[test_case(11, "jq .method" => Vec::<String>::new(); "it starts something else")]
fn a_shell_gives_way_to_the_server_it_starts_late(pid: u32, command: &str) -> Vec<String> {
    let mut world = World::new(Policy::default());
    world.exec(10, 9, "sh /srv/mcp-server-x.sh");
    world.now = 2 * SECOND;
    world.monitor.tick(Timestamp(world.now));
    world.hashed(FIRST, "shell");
    let mut judgement = world.exec_in(Some(FIRST), pid, 10, command);
    judgement
        .kernel_effects
        .retain(|effect| !matches!(effect, KernelEffect::Hold { .. }));
    effects(&judgement)
}

/// A shell that is held while it is compared is let go where its child turns out to be the server.
#[test]
fn a_held_shell_is_released_when_it_gives_way() {
    let mut world = World::new(Policy::default());
    world.exec(10, 9, "sh /srv/mcp-server-x.sh");
    world.now = 2 * SECOND;
    world.monitor.tick(Timestamp(world.now));
    world.hashed(FIRST, "shell");
    world.exec(20, 9, "sh /srv/mcp-server-x.sh");
    world.now += 2 * SECOND;
    let grown = world.monitor.tick(Timestamp(world.now));
    assert_eq!(effects(&grown), ["hold 20", "hash 20"]);
    let child = world.exec_in(Some(InstanceId(2)), 21, 20, "node /srv/mcp-server-x.js");
    assert_eq!(effects(&child), ["release 20", "hold 21", "hash 21"]);
}

#[test]
fn the_servers_of_a_stopped_session_connect_nowhere() {
    use mcpmon_model::{Kill, Kills, SessionId};
    use mcpmon_policy::network::table::LIST_KILLED;
    let kill = || Kill {
        by: "ann".to_owned(),
        at: Timestamp(1),
    };
    let (ours, other) = (
        SessionId::new("claude-0123456789ab"),
        SessionId::new("codex-ba9876543210"),
    );
    let mut world = World::new(Policy::default());
    world.exec(10, 9, "mcp-server-git");
    world.hashed(FIRST, "v1");
    let is_of = world.monitor.is_of(FIRST, ours.clone());
    assert_eq!(effects(&is_of), [""; 0], "nothing is stopped yet");
    let of = |session: &SessionId| Kills {
        host: None,
        sessions: BTreeMap::from([(session.clone(), kill())]),
    };
    let stopped = world.monitor.stop(of(&ours));
    assert_eq!(effects(&stopped), [format!("track 10 as 1/{LIST_KILLED}")]);
    assert_eq!(
        effects(&world.monitor.stop(of(&ours))),
        [""; 0],
        "nothing changed"
    );
    let lifted = world.monitor.stop(of(&other));
    assert_eq!(effects(&lifted), ["track 10 as 1/0"]);
    let moved = world.monitor.is_of(FIRST, other.clone());
    assert_eq!(
        effects(&moved),
        [format!("track 10 as 1/{LIST_KILLED}")],
        "it is of the stopped one"
    );
    let host = Kills {
        host: Some(kill()),
        ..Kills::default()
    };
    drop(world.monitor.stop(host));
    let started = world.exec(20, 9, "mcp-server-time");
    assert!(
        effects(&started).contains(&format!("track 20 as 2/{LIST_KILLED}")),
        "{started:?}"
    );
}

/// An exec of a process that a wrapper started as the server `notes`.
fn wrapped(pid: u32, command: &str) -> Exec {
    Exec {
        process: process(pid),
        parent: process(9),
        argv: command.split(' ').map(str::to_owned).collect(),
        wrapped_as: Some(key("notes", 0)),
        ..Exec::default()
    }
}

#[test_case("python3 /srv/x.py"; "script")]
#[test_case("/opt/tool serve"; "program")]
#[test_case("node -e serve()"; "code")]
fn what_a_wrapper_starts_is_a_server(command: &str) {
    let mut world = World::new(Policy::default());
    let mut unknown = wrapped(10, command);
    unknown.wrapped_as = None;
    let judgement = world.monitor.exec(Timestamp(0), &unknown);
    assert_eq!(effects(&judgement), [""; 0], "no pattern knows it");
    let judgement = world.monitor.exec(Timestamp(0), &wrapped(10, command));
    assert_eq!(effects(&judgement), ["track 10 as 1/0", "starter 9", "hash 10"]);
    let judgement = world.hashed(FIRST, "v1");
    assert_eq!(kinds(&judgement), ["mcp_server_started"]);
    assert_eq!(judgement.events[0].server_id, Some(id("notes")));
    assert_eq!(effects(&judgement), ["pin notes 0"]);
    let running: Vec<_> = world.monitor.running().map(|server| server.server).collect();
    assert_eq!(running, [id("notes")]);
}

#[test]
fn a_wrapped_launcher_serves_once_it_has_become_what_serves() {
    let mut world = World::new(Policy::default());
    let judgement = world
        .monitor
        .exec(Timestamp(0), &wrapped(10, "env A=b python3 /srv/x.py"));
    assert_eq!(effects(&judgement), ["track 10 as 1/0", "starter 9"]);
    let judgement = world
        .monitor
        .exec(Timestamp(0), &wrapped(10, "python3 /srv/x.py"));
    assert_eq!(effects(&judgement), ["track 10 as 1/0", "hash 10"]);
}

/// The list of a server also holds for another one that it starts, whatever its client calls the first.
#[test]
fn a_nested_server_is_held_to_the_list_of_a_renamed_one() {
    let mut world = World::new(Policy {
        servers: vec![restricted("git", "mcp-server-git")],
        ..Policy::default()
    });
    let started = world.monitor.exec(Timestamp(0), &wrapped(10, "mcp-server-git"));
    assert!(effects(&started)[0].starts_with("track 10 as 1/"), "{started:?}");
    world.hashed(FIRST, "v1");
    let list = effects(&started)[0]
        .rsplit('/')
        .next()
        .expect("a list")
        .to_owned();
    assert_ne!(list, "0");
    let nested = world.exec_in(Some(FIRST), 11, 10, "mcp-server-time");
    assert_eq!(effects(&nested)[0], format!("track 11 as 2/{list}"), "{nested:?}");
}

/// A program that is called `mcpmon` and runs behind a verified wrapper is a server.
#[test]
fn a_claimed_start_is_a_server_whatever_its_words() {
    let mut world = World::new(Policy::default());
    world
        .monitor
        .exec(Timestamp(0), &wrapped(10, "/home/me/mcpmon run"));
    assert_eq!(running(&world), [id("notes")]);
}

/// Returns the ids of the running servers.
fn running(world: &World) -> Vec<ServerId> {
    world.monitor.running().map(|server| server.server).collect()
}

#[test]
fn a_recognised_server_has_the_id_that_its_wrapper_was_given() {
    let mut world = World::new(Policy::default());
    world.monitor.exec(Timestamp(0), &wrapped(10, "mcp-server-git"));
    assert_eq!(running(&world), [id("notes")]);
    let mut unjoined = wrapped(11, "npx -y @a/mcp-server-git");
    (unjoined.wrapped_as, unjoined.wrapper_id) = (None, Some(id("named")));
    world.monitor.exec(Timestamp(0), &unjoined);
    assert_eq!(running(&world), [id("notes"), id("named")]);
}

#[test_case("mcpmon wrap --server notes -- npx -y mcp-server-git", false; "by its name")]
#[test_case("sh -c 'exec_mcpmon_wrap_--_mcp-server-git'", false; "behind a shell")]
#[test_case("npx -y mcp-server-git", true; "a shim, by its file")]
fn a_wrapper_is_no_process_of_its_server(command: &str, is_wrapper: bool) {
    let mut world = World::new(Policy::default());
    let mut wrapper = wrapped(9, command);
    wrapper.wrapped_as = None;
    wrapper.is_wrapper = is_wrapper;
    for word in &mut wrapper.argv {
        *word = word.replace('_', " ").replace('\'', "");
    }
    let judgement = world.monitor.exec(Timestamp(0), &wrapper);
    assert_eq!(effects(&judgement), [""; 0]);
    assert_eq!(running(&world), []);
    let judgement = world.monitor.exec(Timestamp(0), &wrapped(10, "mcp-server-git"));
    assert_eq!(effects(&judgement), ["track 10 as 1/0", "starter 9", "hash 10"]);
}

/// A process that a wrapped server starts of its own package is no other server, though its name would give another id.
#[test]
fn a_worker_of_a_wrapped_server_is_no_other_server() {
    let mut world = World::new(Policy::default());
    world.monitor.exec(Timestamp(0), &wrapped(10, "mcp-server-git"));
    world.hashed(FIRST, "v1");
    world.exec(11, 10, "mcp-server-git --worker");
    assert_eq!(running(&world), [id("notes")]);
}

#[test]
fn a_kill_says_why_with_a_remedy() {
    let mut world = World::new(Policy::default());
    world.monitor.exec(Timestamp(0), &wrapped(10, "/opt/tool serve"));
    world.hashed(FIRST, "v1");
    world.monitor.exec(Timestamp(0), &wrapped(11, "/opt/tool serve"));
    let judgement = world.hashed(InstanceId(2), "v2");
    let Some(KernelEffect::Kill { denial, .. }) = judgement.kernel_effects.first() else {
        panic!("{:?}", judgement.kernel_effects)
    };
    assert_eq!(denial.rule, "mcp.version_pinning");
    assert_eq!(denial.reason, "its executable changed since it was pinned");
    assert_eq!(denial.remedy.as_deref(), Some("mcpmon pins trust --server notes"));
}

#[test]
fn a_kill_by_the_kernel_says_why_too() {
    let mut world = World::new(Policy::default());
    let killed = Exec {
        killed: true,
        ..wrapped(10, "/opt/tool serve")
    };
    let judgement = world.monitor.exec(Timestamp(0), &killed);
    assert_eq!(kinds(&judgement), ["mcp_server_denied"]);
    let [
        KernelEffect::KillProcess {
            process: told,
            denial,
        },
    ] = &judgement.kernel_effects[..]
    else {
        panic!("{:?}", judgement.kernel_effects)
    };
    assert_eq!(*told, process(10));
    assert_eq!(denial.remedy.as_deref(), Some("mcpmon pins trust --server notes"));
}

#[test]
fn what_could_not_be_stopped_was_not_blocked() {
    let mut world = World::new(Policy::default());
    world.exec(10, 9, "mcp-server-git");
    world.hashed(FIRST, "v1");
    world.exec(11, 9, "mcp-server-git");
    let mut judgement = world.hashed(InstanceId(2), "v2");
    for event in &mut judgement.events {
        assert_eq!(event.action, Action::Block, "{event:?}");
        crate::runs_on(event, "no right to kill it");
        assert_eq!(
            (event.action, event.severity),
            (Action::Audit, Severity::Critical)
        );
        let reason = event.reason.as_deref().unwrap_or_default();
        assert!(reason.contains("runs on (no right to kill it)"), "{reason}");
    }
    let mut connection = world.connection(None, "192.0.2.1", ConnectionOutcome::Passed);
    let before = connection.clone();
    crate::runs_on(&mut connection, "no right to kill it");
    assert_eq!(connection, before, "it was not to be stopped");
}

/// A server that a client started, both of which live.
fn with_client(orphans: Orphans, mode: Mode) -> World {
    let mut policy = Policy {
        mode,
        ..Policy::default()
    };
    policy.exec.orphans = orphans;
    let mut world = World::new(policy);
    world.exec(10, 9, "mcp-server-memory");
    world.hashed(FIRST, "memory");
    let client = ServerClient {
        process: process(9),
        comm: "claude".to_owned(),
    };
    world
        .monitor
        .observe(Timestamp(0), Observation::StartedBy(FIRST, client));
    world
}

impl World {
    fn observe_at(&mut self, second: i64, observation: Observation<'_>) -> Judgement {
        self.now = second * SECOND;
        self.monitor.observe(Timestamp(self.now), observation)
    }
}

#[test]
fn a_server_that_outlives_its_client_is_reported_once() {
    let mut world = with_client(Orphans::Report, Mode::Enforce);
    assert_eq!(world.monitor.clients(), [process(9)]);
    world.observe_at(100, Observation::Gone(process(9)));
    assert_eq!(world.monitor.clients(), [], "nobody has to look for it again");
    assert_eq!(
        kinds(&world.observe_at(114, Observation::Tick)),
        [""; 0],
        "it may still end"
    );
    let judgement = world.observe_at(115, Observation::Tick);
    assert_eq!(kinds(&judgement), ["mcp_server_orphaned"]);
    assert_eq!(effects(&judgement), [""; 0]);
    let event = &judgement.events[0];
    assert_eq!(
        event.kind,
        EventKind::ServerOrphaned {
            cause: OrphanCause::ClientEnded,
            client: Some("claude".to_owned()),
            client_pid: Some(9),
            orphaned_ms: 15_000,
        }
    );
    assert_eq!(
        (event.action, event.process.as_ref().map(|process| process.pid)),
        (Action::Audit, Some(10))
    );
    assert_eq!(
        event.reason.as_deref(),
        Some("its client claude (pid 9) has ended: it still runs; `exec.orphans: stop` ends such servers")
    );
    let later = world.observe_at(1000, Observation::Tick);
    assert_eq!((kinds(&later), effects(&later)), (Vec::new(), Vec::new()));
}

#[test]
fn a_server_that_ends_in_its_time_is_no_orphan_and_neither_is_one_of_another_client() {
    let mut world = with_client(Orphans::Stop, Mode::Enforce);
    world.observe_at(100, Observation::Gone(process(8)));
    assert_eq!(kinds(&world.observe_at(200, Observation::Tick)), [""; 0]);
    world.observe_at(200, Observation::Gone(process(9)));
    world.exit(FIRST, 10, 0);
    let later = world.observe_at(300, Observation::Tick);
    assert_eq!((kinds(&later), effects(&later)), (Vec::new(), Vec::new()));
    assert_eq!(world.monitor.clients(), []);
}

#[test]
fn an_orphan_that_is_to_be_stopped_is_asked_to_end_and_then_killed() {
    let mut world = with_client(Orphans::Stop, Mode::Enforce);
    world.observe_at(100, Observation::Gone(process(9)));
    let judgement = world.observe_at(115, Observation::Tick);
    assert_eq!(effects(&judgement), ["terminate 1"]);
    assert_eq!(judgement.events[0].action, Action::Block);
    assert_eq!(effects(&world.observe_at(119, Observation::Tick)), [""; 0]);
    let killed = world.observe_at(120, Observation::Tick);
    assert_eq!(
        (kinds(&killed), effects(&killed)),
        (Vec::new(), vec!["kill 1".to_owned()])
    );
    assert_eq!(
        effects(&world.observe_at(200, Observation::Tick)),
        [""; 0],
        "once"
    );
}

#[test]
fn while_observing_an_orphan_would_be_stopped() {
    let mut world = with_client(Orphans::Stop, Mode::Observe);
    world.observe_at(100, Observation::Gone(process(9)));
    let judgement = world.observe_at(115, Observation::Tick);
    assert_eq!(effects(&judgement), [""; 0]);
    assert_eq!(judgement.events[0].action, Action::WouldBlock);
}

#[test]
fn a_server_that_outlives_its_session_is_an_orphan_unless_the_session_goes_on() {
    let session = || SessionId::new("review-0123456789ab");
    let other_name = || SessionId::new("claude-0123456789ab");
    for goes_on in [false, true] {
        let mut world = with_client(Orphans::Report, Mode::Enforce);
        world.observe_at(1, Observation::SessionOf(FIRST, other_name()));
        world.observe_at(2, Observation::SessionOver(SessionId::new("review-ba9876543210")));
        assert_eq!(
            kinds(&world.observe_at(50, Observation::Tick)),
            [""; 0],
            "of another session"
        );
        world.observe_at(100, Observation::SessionOver(session()));
        if goes_on {
            let proxied = ProxiedSession {
                session: session(),
                root: process(8),
                cgroup: None,
            };
            world.observe_at(101, Observation::Proxied(proxied, Vec::new()));
        }
        let judgement = world.observe_at(115, Observation::Tick);
        match goes_on {
            true => assert_eq!(kinds(&judgement), [""; 0]),
            false => {
                let EventKind::ServerOrphaned { cause, .. } = judgement.events[0].kind else {
                    panic!("{judgement:?}");
                };
                assert_eq!(cause, OrphanCause::SessionEnded);
            }
        }
    }
}

/// A start of the pinned server that the kernel stopped.
fn held_start(world: &mut World, pid: u32) -> Judgement {
    let exec = Exec {
        process: process(pid),
        parent: process(9),
        comm: "mcp-server-git".to_owned(),
        argv: vec!["/usr/bin/mcp-server-git".to_owned()],
        held: true,
        ..Exec::default()
    };
    world.monitor.exec(Timestamp(world.now), &exec)
}

fn pinned_world() -> World {
    World::with_pins(Policy::default(), [(id("mcp-server-git"), pins("v1"))].into())
}

#[test]
fn what_the_kernel_stopped_goes_on_unless_it_is_to_be_compared() {
    let mut world = pinned_world();
    let start = held_start(&mut world, 10);
    let effects_of = effects(&start);
    assert!(effects_of.contains(&"hold 10".to_owned()), "{effects_of:?}");
    assert!(!effects_of.contains(&"release 10".to_owned()), "{effects_of:?}");
    assert_eq!(effects(&world.hashed(FIRST, "v1")), ["release 10"]);

    let other = Exec {
        process: process(20),
        parent: process(9),
        argv: vec!["cat".to_owned(), "mcp-server-git".to_owned()],
        held: true,
        ..Exec::default()
    };
    assert_eq!(effects(&world.monitor.exec(Timestamp(0), &other)), ["release 20"]);
}

#[test]
fn what_the_kernel_compared_is_not_stopped_and_compared_all_the_same() {
    let verified = |pins: Pins| {
        let mut world = World::with_pins(Policy::default(), [(id("mcp-server-git"), pins)].into());
        let exec = Exec {
            process: process(10),
            parent: process(9),
            argv: vec!["/usr/bin/mcp-server-git".to_owned()],
            verified: true,
            ..Exec::default()
        };
        let start = world.monitor.exec(Timestamp(0), &exec);
        (world, effects(&start))
    };
    let (mut world, start) = verified(pins("v1"));
    assert!(!start.contains(&"hold 10".to_owned()), "{start:?}");
    assert!(start.contains(&"hash 10".to_owned()), "{start:?}");
    assert_eq!(
        kinds(&world.hashed(FIRST, "v2"))[1..],
        ["mcp_server_binary_mismatch", "mcp_server_denied"],
        "the kernel may have compared it as another server's program"
    );

    // It may live and act all the same.
    let (mut world, _) = verified(pins("v1"));
    let unseen = ServerFiles {
        executable: Part::Unknown {
            path: PathBuf::new(),
            cause: "more than 256 servers wait to be hashed".to_owned(),
        },
        ..files("v1")
    };
    let hashed = Observation::Hashed {
        instance: FIRST,
        attempt: world.monitor.attempts,
        files: Box::new(unseen),
        environment: Vec::new(),
    };
    let judgement = world.observe_at(1, hashed);
    assert_eq!(kinds(&judgement), ["mcp_server_started", "mcp_server_denied"]);
    assert_eq!(judgement.events[1].action, Action::Block);
    assert_eq!(effects(&judgement), ["kill 1"]);

    let script = Pins::try_from(script_files(hashed_script())).expect("hashed");
    let (_, start) = verified(script);
    assert!(
        start.contains(&"hold 10".to_owned()),
        "its script was not compared: {start:?}"
    );
}

#[test]
fn a_program_that_the_kernel_did_not_start_is_told_and_can_be_accepted() {
    let mut world = World::new(Policy::default());
    world.monitor.pins.add(key("mcp-server-git", 7), pins("v1"));
    let digests = |world: &World| {
        let programs = world.monitor.checked_programs();
        programs.iter().map(|program| program.digest).collect::<Vec<_>>()
    };
    let (old, new) = (Digest::of(b"v1"), Digest::of(b"v2"));
    assert_eq!(digests(&world), [old]);
    let start = RefusedStart {
        process: process(10),
        comm: "sh".to_owned(),
        uid: 7,
        path: PathBuf::from("/usr/bin/mcp-server-git"),
        digest: new,
    };
    let judgement = world
        .monitor
        .observe(Timestamp(0), Observation::RefusedStart(&start));
    assert_eq!(
        (kinds(&judgement), effects(&judgement)),
        (vec!["mcp_server_denied"], Vec::new())
    );
    let event = &judgement.events[0];
    assert_eq!(
        (event.action, event.severity),
        (Action::Block, Severity::Critical)
    );
    let reason = event.reason.as_deref().unwrap_or_default();
    assert!(
        reason.contains("never started") && reason.contains(&new.short(12)),
        "{reason}"
    );
    assert_eq!(world.monitor.running().count(), 0);

    let other = RefusedStart { uid: 8, ..start };
    let judgement = world
        .monitor
        .observe(Timestamp(0), Observation::RefusedStart(&other));
    assert_eq!(kinds(&judgement), [""; 0], "another user's pins");

    assert!(world.monitor.trust_refused(&id("mcp-server-git")).is_some());
    let mut expected = [old, new];
    expected.sort();
    assert_eq!(digests(&world), expected);
    let mut alert = Policy::default();
    alert.pinning.on_change = OnChange::Alert;
    let tables = compile(&alert, &ResolvedNames::new(), &mut Numbering::default()).expect("small");
    world.monitor.install(Timestamp(0), Arc::new(alert), &tables);
    assert_eq!(digests(&world), [], "nothing blocks");
}

#[test]
fn a_program_that_needs_an_argument_to_be_a_server_is_not_checked() {
    let policy = |args: &[&str]| Policy {
        servers: vec![stdio("gh", "gh", args, None)],
        ..Policy::default()
    };
    let checked = |args: &[&str]| {
        let mut world = World::new(policy(args));
        let mut files = pins("v1");
        files.executable.path = PathBuf::from("/usr/bin/gh");
        world.monitor.pins.add(key("gh", 7), files);
        world.monitor.checked_programs().len()
    };
    assert_eq!((checked(&[]), checked(&["x-mcp"])), (1, 0));
}

#[test]
fn what_may_be_refused_for_another_reason_is_stopped_though_its_digest_is_accepted() {
    let are_stopped = |world: &mut World| {
        world.monitor.changed_start_names().map(|_| {
            let programs = world.monitor.checked_programs();
            programs
                .iter()
                .map(|program| !program.is_whole)
                .collect::<Vec<_>>()
        })
    };
    let world = |policy| {
        let mut world = World::new(policy);
        world.monitor.pins.add(key("mcp-server-git", 7), pins("v1"));
        world
    };
    // Denied as a server that a command with arguments may be.
    let policy = Policy {
        server_policy: ServerPolicy::Denylist(vec![NameGlob::new("other")]),
        ..Policy::default()
    };
    assert_eq!(are_stopped(&mut world(policy)), Some(vec![true]));

    let mut world = world(Policy::default());
    assert_eq!(are_stopped(&mut world), Some(vec![false]));
    let number = u32::try_from(CROWDED).expect("small");
    for pid in 0..number {
        let exec = Exec {
            process: process(100 + pid),
            parent: process(9),
            argv: ["npx", "-y", "mcp-other"].map(str::to_owned).to_vec(),
            uid: 7,
            ..Exec::default()
        };
        assert_eq!(are_stopped(&mut world), None, "{pid} run");
        world.monitor.exec(Timestamp(0), &exec);
    }
    assert_eq!(are_stopped(&mut world), Some(vec![true]), "too many may run");
    for number in world.monitor.instances.numbers().into_iter().take(64) {
        world.exit(number, 99 + number.0, 0);
        assert_eq!(are_stopped(&mut world), None, "{number:?} has ended");
    }
    let next = world.monitor.instances.numbers()[0];
    world.exit(next, 99 + next.0, 0);
    assert_eq!(are_stopped(&mut world), Some(vec![false]), "far fewer run");
}

#[test]
fn a_pinned_server_that_has_the_content_of_a_loader_is_compared() {
    let mut world = pinned_world();
    let line = "/usr/bin/mcp-server-git --repository /x";
    let start = Exec {
        process: process(10),
        parent: process(9),
        argv: line.split(' ').map(str::to_owned).collect(),
        loader: true,
        held: true,
        ..Exec::default()
    };
    let judgement = world.monitor.exec(Timestamp(0), &start);
    assert!(
        effects(&judgement).contains(&"hold 10".to_owned()),
        "{judgement:?}"
    );
}

#[test]
fn a_first_launch_may_add_to_its_pins_until_it_ends() {
    let mut world = World::new(Policy::default());
    let exec = Exec {
        process: process(10),
        parent: process(9),
        argv: vec!["/usr/bin/mcp-server-git".to_owned()],
        uid: 7,
        ..Exec::default()
    };
    world.monitor.exec(Timestamp(0), &exec);
    world.hashed(FIRST, "v1");
    world.monitor.changed_start_names();
    assert!(world.monitor.checked_programs().is_empty());
    world.exit(FIRST, 10, 0);
    assert!(
        world.monitor.changed_start_names().is_some(),
        "the kernel is to be told"
    );
    assert_eq!(world.monitor.checked_programs().len(), 1);
}

/// Something that ends a stop without a comparison.
type HoldEnd<'a> = &'a dyn Fn(&mut World) -> Judgement;

#[test]
fn a_stop_that_ends_without_a_comparison_ends_the_server() {
    let resume = |world: &mut World| {
        let resume = mcpmon_model::Resume {
            process: process(10),
            by: "process 7 (`sh`) of user 1000".to_owned(),
        };
        world.monitor.resumed(Timestamp(world.now), &resume)
    };
    let late = |world: &mut World| {
        world.now = 59 * SECOND;
        assert_eq!(effects(&world.monitor.tick(Timestamp(world.now))), [""; 0]);
        world.now = 60 * SECOND;
        world.monitor.tick(Timestamp(world.now))
    };
    let ending = |world: &mut World| world.monitor.ending(Timestamp(world.now));
    let ends: [(HoldEnd<'_>, &str); 3] = [
        (&resume, "process 7"),
        (&late, "within 60 s"),
        (&ending, "the daemon ended"),
    ];
    for (end, cause) in ends {
        let mut world = pinned_world();
        held_start(&mut world, 10);
        let judgement = end(&mut world);
        assert_eq!(effects(&judgement), ["kill 1", "release 10"]);
        assert_eq!(kinds(&judgement), ["mcp_server_denied"]);
        assert_eq!(judgement.events[0].action, Action::Block);
        let reason = judgement.events[0].reason.as_deref().unwrap_or_default();
        assert!(reason.contains(cause), "{reason}");
        assert_eq!(effects(&world.hashed(FIRST, "v1")), [""; 0], "it is over");
        assert_eq!(kinds(&world.exit(FIRST, 10, 9)), ["mcp_server_exited"]);
        assert_eq!(world.monitor.running().count(), 0);
    }
}

#[test]
fn nobody_is_refused_for_being_resumed_when_it_is_not_held() {
    let mut world = pinned_world();
    held_start(&mut world, 10);
    world.hashed(FIRST, "v1");
    let resume = mcpmon_model::Resume {
        process: process(10),
        by: String::new(),
    };
    assert_eq!(effects(&world.monitor.resumed(Timestamp(0), &resume)), [""; 0]);
    assert_eq!(effects(&world.monitor.ending(Timestamp(0))), [""; 0]);
}

#[test]
fn names_are_gated_while_a_difference_blocks() {
    let mut world = pinned_world();
    let names = |world: &mut World| {
        let names = world.monitor.changed_start_names()?.pinned;
        let programs = names
            .into_iter()
            .filter(|name| name.part == crate::GatedPart::Program);
        Some(programs.map(|name| name.name).collect::<Vec<_>>())
    };
    assert_eq!(names(&mut world), Some(vec!["mcp-server-git".to_owned()]));
    assert_eq!(names(&mut world), None, "nothing changed");
    let mut alert = Policy::default();
    alert.pinning.on_change = OnChange::Alert;
    let tables = compile(&alert, &ResolvedNames::new(), &mut Numbering::default()).expect("small");
    world.monitor.install(Timestamp(0), Arc::new(alert), &tables);
    assert_eq!(names(&mut world), Some(Vec::new()));
}

/// A pinned server that was compared and let go, two seconds later.
fn compared_world() -> World {
    let mut world = pinned_world();
    held_start(&mut world, 10);
    assert_eq!(effects(&world.hashed(FIRST, "v1")), ["release 10"]);
    world.now = 2 * SECOND - 1;
    assert_eq!(effects(&world.monitor.tick(Timestamp(world.now))), [""; 0]);
    world.now = 2 * SECOND;
    let attempt = world.monitor.attempts;
    world.monitor.tick(Timestamp(world.now));
    assert_eq!(world.monitor.attempts, attempt + 1, "it is compared again");
    world
}

#[test]
fn a_file_that_is_changed_between_its_hash_and_its_use_is_found() {
    let mut world = compared_world();
    let judgement = world.hashed(FIRST, "v2");
    assert_eq!(
        kinds(&judgement),
        ["mcp_server_binary_mismatch", "mcp_server_denied"]
    );
    assert!(
        effects(&judgement).contains(&"kill 1".to_owned()),
        "{judgement:?}"
    );
    for event in &judgement.events {
        let reason = event.reason.as_deref().unwrap_or_default();
        assert!(
            reason.contains("as pinned when the server was let go"),
            "{event:?}"
        );
    }
}

/// A pinned server that runs a script.
fn script_files(script: Part<PinnedFile>) -> ServerFiles {
    ServerFiles {
        script: Some(script),
        ..files("v1")
    }
}

fn hashed_script() -> Part<PinnedFile> {
    Part::Hashed(PinnedFile {
        path: PathBuf::from("/srv/main.py"),
        digest: Digest::of(b"script"),
    })
}

#[test]
fn a_script_that_is_open_for_writing_when_it_is_compared_again_ends_the_server() {
    let unknown = || Part::Unknown {
        path: PathBuf::from("/srv/main.py"),
        cause: "it is open for writing".to_owned(),
    };
    let again = |executable: Part<PinnedFile>, script: Part<PinnedFile>| {
        let pinned = Pins::try_from(script_files(hashed_script())).expect("hashed");
        let mut world = World::with_pins(Policy::default(), [(id("mcp-server-git"), pinned)].into());
        held_start(&mut world, 10);
        let attempt = world.monitor.attempts;
        let first = script_files(hashed_script());
        let let_go = world
            .monitor
            .hashed(Timestamp(0), FIRST, attempt, first, Vec::new());
        assert_eq!(effects(&let_go), ["release 10"]);
        world.monitor.tick(Timestamp(2 * SECOND));
        let second = ServerFiles {
            executable,
            ..script_files(script)
        };
        let attempt = world.monitor.attempts;
        world
            .monitor
            .hashed(Timestamp(2 * SECOND), FIRST, attempt, second, Vec::new())
    };
    let found = again(files("v1").executable, unknown());
    assert_eq!(kinds(&found), ["mcp_server_denied"]);
    assert_eq!(effects(&found), ["kill 1"]);
    let reason = found.events[0].reason.as_deref().unwrap_or_default();
    assert!(reason.contains("open for writing"), "{reason}");
    let ended = again(unknown(), unknown());
    assert_eq!((kinds(&ended), effects(&ended)), (Vec::new(), Vec::new()));
}

#[test]
fn a_file_that_is_touched_while_its_server_starts_ends_it() {
    let path = Some(Path::new("/srv/main.py"));
    let let_go = || {
        let mut world = pinned_world();
        held_start(&mut world, 10);
        let attempt = world.monitor.attempts;
        assert_eq!(effects(&world.hashed(FIRST, "v1")), ["release 10"]);
        (world, attempt)
    };
    let (mut world, attempt) = let_go();
    let judgement = world.monitor.touched(Timestamp(1), FIRST, attempt, path);
    assert_eq!(effects(&judgement), ["kill 1"]);
    assert_eq!(kinds(&judgement), ["mcp_server_denied"]);
    let reason = judgement.events[0].reason.as_deref().unwrap_or_default();
    assert!(
        reason.contains("/srv/main.py was replaced or written"),
        "{reason}"
    );
    let once_more = world.monitor.touched(Timestamp(2), FIRST, attempt, path);
    assert_eq!((kinds(&once_more), effects(&once_more)), (Vec::new(), Vec::new()));

    let (mut world, attempt) = let_go();
    let of_another = world.monitor.touched(Timestamp(1), FIRST, attempt + 1, path);
    assert_eq!(effects(&of_another), [""; 0]);
    world.now = 2 * SECOND;
    world.monitor.tick(Timestamp(world.now));
    world.hashed(FIRST, "v1");
    world.now = 10 * SECOND;
    world.monitor.tick(Timestamp(world.now));
    world.hashed(FIRST, "v1");
    let later = world.monitor.touched(Timestamp(world.now), FIRST, attempt, path);
    assert_eq!(effects(&later), [""; 0], "it has started");

    let (mut world, attempt) = let_go();
    let mut alert = Policy::default();
    alert.pinning.on_change = OnChange::Alert;
    let tables = compile(&alert, &ResolvedNames::new(), &mut Numbering::default()).expect("small");
    world.monitor.install(Timestamp(0), Arc::new(alert), &tables);
    let told = world.monitor.touched(Timestamp(1), FIRST, attempt, path);
    assert_eq!(effects(&told), [""; 0]);
    assert_eq!(told.events[0].action, Action::Audit);
}

/// A server that was let go at the beginning, and is compared again for a doubt.
fn doubted_world() -> (World, Judgement) {
    let pinned = Pins::try_from(script_files(hashed_script())).expect("hashed");
    let mut world = World::with_pins(Policy::default(), [(id("mcp-server-git"), pinned)].into());
    held_start(&mut world, 10);
    let attempt = world.monitor.attempts;
    let first = script_files(hashed_script());
    world
        .monitor
        .hashed(Timestamp(0), FIRST, attempt, first, Vec::new());
    let doubt = world.monitor.touched(Timestamp(1), FIRST, attempt, None);
    (world, doubt)
}

#[test]
fn where_only_times_tell_whether_code_was_changed_it_is_compared_with_these() {
    let (mut world, doubt) = doubted_world();
    assert_eq!(
        (kinds(&doubt), effects(&doubt)),
        (Vec::new(), vec!["hash 10".to_owned()])
    );
    let is_timed = |effect: &KernelEffect| matches!(effect, KernelEffect::Hash { watch, .. } if *watch == FileWatch::WhileRead);
    assert!(doubt.kernel_effects.iter().all(is_timed), "{doubt:?}");
    let attempt = world.monitor.attempts;
    let same = script_files(hashed_script());
    let judgement = world
        .monitor
        .hashed(Timestamp(2), FIRST, attempt, same, Vec::new());
    assert_eq!((kinds(&judgement), effects(&judgement)), (Vec::new(), Vec::new()));
    let later = world.monitor.tick(Timestamp(2 * SECOND));
    assert_eq!(effects(&later), ["hash 10"], "it is compared as often as without");
    assert!(
        later.kernel_effects.iter().all(is_timed),
        "content that was put back is equal: {later:?}"
    );

    let (mut world, _) = doubted_world();
    let attempt = world.monitor.attempts;
    let written = script_files(Part::Unknown {
        path: PathBuf::from("/srv/main.py"),
        cause: "it was written since the server was started".to_owned(),
    });
    let judgement = world
        .monitor
        .hashed(Timestamp(2), FIRST, attempt, written, Vec::new());
    assert_eq!(effects(&judgement), ["kill 1"]);
}

#[test]
fn later_comparisons_that_find_nothing_are_not_told_and_are_two() {
    let mut world = compared_world();
    let judgement = world.hashed(FIRST, "v1");
    assert_eq!((kinds(&judgement), effects(&judgement)), (Vec::new(), Vec::new()));
    let attempts = world.monitor.attempts;
    let later = |world: &mut World, seconds: i64| {
        world.now = seconds * SECOND;
        effects(&world.monitor.tick(Timestamp(world.now)))
    };
    assert_eq!(later(&mut world, 9), [""; 0]);
    assert_eq!(later(&mut world, 10), ["hash 10"]);
    assert_eq!(world.monitor.attempts, attempts + 1);
    let judgement = world.hashed(FIRST, "v1");
    assert_eq!((kinds(&judgement), effects(&judgement)), (Vec::new(), Vec::new()));
    assert_eq!(later(&mut world, 60), [""; 0]);
}

#[test]
fn a_server_that_is_another_program_by_now_is_not_judged_by_a_second_comparison() {
    let mut world = compared_world();
    let ordered = world.monitor.attempts;
    world.exec_in(Some(FIRST), 10, 9, "mcp-server-git");
    let late = world
        .monitor
        .hashed(Timestamp(world.now), FIRST, ordered, files("v2"), Vec::new());
    assert_eq!((kinds(&late), effects(&late)), (Vec::new(), Vec::new()));
}
