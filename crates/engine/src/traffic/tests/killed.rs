use std::collections::BTreeMap;

use mcpmon_model::{Kill, Kills};
use test_case::test_case;

use super::*;

fn kill() -> Kill {
    Kill {
        by: "ann".to_owned(),
        at: Timestamp(1),
    }
}

fn host() -> Kills {
    Kills {
        host: Some(kill()),
        ..Kills::default()
    }
}

fn session(id: &str) -> Kills {
    Kills {
        sessions: BTreeMap::from([(SessionId::new(id), kill())]),
        ..Kills::default()
    }
}

fn read() -> Content<'static> {
    Content::Client(FromClient::Read {
        uri: "memo://1".into(),
    })
}

fn sampling() -> Content<'static> {
    Content::Server(FromServer::Ask {
        ask: ServerRequestKind::Sampling,
        method: "sampling/createMessage".into(),
        params: None,
    })
}

#[test_case(host() => true; "the host")]
#[test_case(session("s1") => true; "this session")]
#[test_case(session("s2") => false; "another session")]
#[test_case(Kills::default() => false; "nothing")]
fn a_call_is_stopped_with(kills: Kills) -> bool {
    let mut world = World::new(Policy::default());
    world.tools(&[("read", "")]);
    drop(world.monitor.stop(kills));
    let halted = world.monitor.halted(Some(&SessionId::new("s1"))).is_some();
    let stopped = is_stopped(&world.call("read").verdict);
    assert_eq!(halted, stopped, "what is no message is stopped with the rest");
    stopped
}

fn is_stopped(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Block(denial) if denial.rule == "kill_switch")
}

#[test_case(read(); "a resource")]
#[test_case(sampling(); "what the server asks")]
fn every_use_is_stopped_in_observe_mode_too(content: Content<'_>) {
    let mut world = World::new(Policy {
        mode: Mode::Observe,
        ..Policy::default()
    });
    drop(world.monitor.stop(host()));
    let judgement = world.say(content);
    assert!(matches!(judgement.verdict, Verdict::Block(_)), "{judgement:?}");
    assert_eq!(judgement.events[0].action, Action::Block);
}

#[test]
fn lists_are_shown_and_pinned_as_ever_and_calls_go_on_once_it_is_lifted() {
    let mut world = World::new(Policy::default());
    drop(world.monitor.stop(host()));
    assert_eq!(world.tools(&[("read", "")]).verdict, Verdict::Allow);
    let Verdict::Block(denial) = world.call("read").verdict else {
        panic!("it goes on");
    };
    assert_eq!(denial.reason, "ann has stopped all MCP use on this host");
    assert_eq!(denial.remedy.as_deref(), Some("mcpmon kill --all --off"));
    drop(world.monitor.stop(Kills::default()));
    assert_eq!(world.call("read").verdict, Verdict::Allow);
}
