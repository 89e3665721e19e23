//! Servers that come and go.

use mcpmon_model::EventKind;
use mcpmon_policy::NameSimilarity;
use test_case::test_case;

use super::*;

fn joined(policy: Policy, server: &str, others: &[&str]) -> Judgement {
    let mut world = World::new(policy);
    world.conversation = conversation(server);
    let others: Vec<ServerId> = others.iter().map(|name| id(name)).collect();
    world.monitor.observe(
        world.now,
        Observation::Joined(&world.conversation, SessionPeers::of(&others)),
    )
}

fn comparing() -> Policy {
    Policy {
        name_similarity: NameSimilarity {
            built_in: true,
            ratio: None,
        },
        ..policy()
    }
}

#[test_case("notes-keepar", &["notes-keeper"], true; "one letter off")]
#[test_case("notes-keeper", &["notes-keeper"], false; "the same")]
#[test_case("notes_keeper", &["notes-keeper"], false; "another spelling of the same")]
#[test_case("weather-station", &["notes-keeper"], false; "another name")]
fn names_are_compared(server: &str, others: &[&str], is_told: bool) {
    let judgement = joined(comparing(), server, others);
    assert_eq!(!judgement.events.is_empty(), is_told, "{:?}", judgement.events);
    assert_eq!(judgement.verdict, Verdict::Allow);
}

#[test_case("weather-app", "weather-api", 909; "short names")]
#[test_case("prod-db2", "prod-db", 875; "a letter more")]
#[test_case("customer-rekords-servise", "customer-records-service", 917; "long names")]
fn configured_threshold_is_a_ratio(server: &str, other: &str, thousandths: u16) {
    for (ratio, is_told) in [(0.5, true), (0.85, true), (0.99, false)] {
        let policy = Policy {
            name_similarity: NameSimilarity {
                built_in: false,
                ratio: Some(ratio),
            },
            ..policy()
        };
        let told = joined(policy, server, &[other]).events;
        assert_eq!(!told.is_empty(), is_told, "{ratio}: {told:?}");
        for event in told {
            let EventKind::NameSimilarity {
                similar_to,
                score,
                method,
            } = &event.kind
            else {
                panic!("a resemblance: {event:?}");
            };
            assert_eq!(
                (similar_to.as_str(), *score, method.as_str()),
                (other, thousandths, "ratio")
            );
        }
    }
}

#[test]
fn a_resemblance_is_told_once() {
    let mut world = World::new(comparing());
    world.conversation = conversation("notes-keepar");
    let others = [id("notes-keeper")];
    for count in [1, 0] {
        let judgement = world.monitor.observe(
            world.now,
            Observation::Joined(&world.conversation, SessionPeers::of(&others)),
        );
        assert_eq!(judgement.events.len(), count);
        let Some(event) = judgement.events.first() else {
            continue;
        };
        assert_eq!(event.rule.as_deref(), Some("name_similarity"));
        let EventKind::NameSimilarity {
            similar_to, score, ..
        } = &event.kind
        else {
            panic!("a resemblance is told");
        };
        assert_eq!((similar_to.as_str(), *score > 850), ("notes-keeper", true));
    }
}

#[test]
fn names_are_not_compared_where_that_is_off() {
    assert!(
        joined(policy(), "notes-keepar", &["notes-keeper"])
            .events
            .is_empty()
    );
}

#[test]
fn pinned_servers_are_compared_with() {
    let mut world = World::new(comparing());
    world.monitor.know_servers(vec![id("notes-keeper")]);
    world.conversation = conversation("notes-keepar");
    let judgement = world.monitor.observe(
        world.now,
        Observation::Joined(&world.conversation, SessionPeers::default()),
    );
    assert_eq!(judgement.events.len(), 1);
}

#[test]
fn who_leaves_offers_nothing_until_it_lists_again() {
    let mut world = World::new(policy());
    drop(world.tools(&[("read", "a")]));
    drop(
        world
            .monitor
            .observe(world.now, Observation::Left(&world.conversation)),
    );
    assert_eq!(world.monitor.registry().lookup("read"), []);
    drop(world.tools(&[("read", "a")]));
    assert_eq!(world.monitor.registry().lookup("read").len(), 1);
}

#[test]
fn what_another_session_still_uses_stays() {
    let mut world = World::new(policy());
    let one = world.conversation.clone();
    let mut other = one.clone();
    other.session = Some(SessionId::new("s2"));
    for conversation in [&one, &other, &one] {
        drop(world.monitor.observe(
            world.now,
            Observation::Joined(conversation, SessionPeers::of(&[])),
        ));
    }
    drop(world.tools(&[("read", "a")]));
    drop(world.monitor.observe(world.now, Observation::Left(&one)));
    assert_eq!(world.monitor.registry().lookup("read").len(), 1);
    drop(world.monitor.observe(world.now, Observation::Left(&other)));
    assert_eq!(world.monitor.registry().lookup("read"), []);
}
