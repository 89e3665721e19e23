//! MCP servers and tools that a provider uses without the client.

use mcpmon_model::{EventKind, NameGlob, ProviderServer};
use mcpmon_policy::{
    Handling, RateLimit, RemoteHost, Server, ServerPolicy, Transport,
    rules::{SpellingGlob, ToolEntry, ToolPolicy},
};
use test_case::test_case;

use super::*;

fn declared() -> Server {
    Server {
        id: id("weather"),
        transport: Transport::Remote {
            server_type: ServerType::Http,
            url: "https://mcp.example.com/mcp".to_owned(),
            host: RemoteHost::Name("mcp.example.com".parse().expect("a name")),
            port: 443,
            tls_fingerprint: None,
        },
        env_allow: Vec::new(),
        env_deny: Vec::new(),
        processes: None,
        sandbox: Default::default(),
        egress: None,
        on_change: None,
    }
}

const HERE: Option<&str> = Some("https://mcp.example.com/mcp");

fn remote<'a>(label: &'a str, url: Option<&'a str>, tools: Option<&[&'a str]>) -> LlmMention<'a> {
    LlmMention::Remote(ProviderServer {
        label: label.into(),
        url: url.map(Into::into),
        tools: tools.map(|tools| tools.iter().map(|tool| (*tool).into()).collect()),
    })
}

fn with(edit: impl FnOnce(&mut Policy)) -> World {
    let mut policy = policy();
    policy.servers = vec![declared()];
    edit(&mut policy);
    World::new(policy)
}

fn used(world: &mut World, said: &LlmMention<'_>) -> Option<String> {
    blocked_by(&world.spoken(None, said)).map(str::to_owned)
}

#[test_case("weather", HERE => None; "not denied")]
#[test_case("bad", HERE => Some("server_policy".to_owned()); "a denied label")]
#[test_case("x", Some("https://evil.example/mcp") => Some("server_policy".to_owned()); "a denied host")]
#[test_case("x", Some("https://EVIL.example.:8443/") => Some("server_policy".to_owned()); "the same host")]
#[test_case("x", Some("https://notevil.example/") => None; "another host")]
#[test_case("x", Some("https://good.example@evil.example/") => Some("remote_server".to_owned()); "a host in disguise")]
#[test_case("bad", None => Some("server_policy".to_owned()); "a connector with a denied label")]
#[test_case("calendar", None => None; "a connector")]
fn denied(label: &str, url: Option<&str>) -> Option<String> {
    let mut world = with(|policy| {
        policy.server_policy = ServerPolicy::Denylist(["bad", "evil.example"].map(NameGlob::new).into());
    });
    used(&mut world, &remote(label, url, None))
}

#[test_case("anything", HERE => None; "declared by its address")]
#[test_case("weather", Some("https://evil.example/mcp") => Some("server_policy".to_owned()); "another address with its label")]
#[test_case("weather", Some("https://mcp.example.com:444/mcp") => Some("server_policy".to_owned()); "another port")]
#[test_case("weather", None => None; "a connector by its name")]
#[test_case("other", None => Some("server_policy".to_owned()); "another connector")]
fn allowed(label: &str, url: Option<&str>) -> Option<String> {
    let mut world = with(|policy| {
        policy.server_policy = ServerPolicy::Allowlist(vec![NameGlob::new("weather")]);
    });
    used(&mut world, &remote(label, url, None))
}

#[test_case("weather", HERE, Some(&["forecast"]) => Some("unknown_tool".to_owned()); "a tool that nobody listed")]
#[test_case("weather", HERE, None => Some("unknown_tool".to_owned()); "every tool of which none is listed")]
#[test_case("other", Some("https://other.example/"), Some(&[]) => Some("undeclared_server".to_owned()); "not declared")]
#[test_case("weather", HERE, Some(&[]) => None; "no tool")]
fn where_the_unknown_is_refused(label: &str, url: Option<&str>, tools: Option<&[&str]>) -> Option<String> {
    let mut world = with(|policy| policy.fail_closed = true);
    used(&mut world, &remote(label, url, tools))
}

#[test]
fn each_tool_is_judged() {
    let mut world = with(|policy| {
        policy.rules.blocked_tools = vec![SpellingGlob::new("set_*")];
        policy.rules.tools = ToolPolicy::Denylist(vec![ToolEntry {
            server: SpellingGlob::new("weather"),
            tool: SpellingGlob::new("history"),
            content_hash: None,
        }]);
    });
    for (tools, rule) in [
        (Some(&["forecast"][..]), None),
        (Some(&["forecast", "set_alarm"]), Some("blocked_tools")),
        (Some(&["history"]), Some("tool_policy")),
        (None, Some("unnamed_tools")),
    ] {
        let judged = used(&mut world, &remote("w", HERE, tools));
        assert_eq!(judged.as_deref(), rule, "{tools:?}");
    }
    let mut elsewhere = with(|policy| {
        policy.rules.tools = ToolPolicy::Denylist(vec![ToolEntry {
            server: SpellingGlob::new("files"),
            tool: SpellingGlob::new("*"),
            content_hash: None,
        }]);
    });
    assert_eq!(
        used(&mut elsewhere, &remote("w", HERE, None)),
        None,
        "rules of another server"
    );
}

#[test]
fn a_remote_server_is_told_once_and_stopped_each_time() {
    let mut world = with(|_| ());
    let said = remote("w", HERE, None);
    let judgement = world.spoken(None, &said);
    assert_eq!(told(&judgement), ["mcp_request_judged allow"]);
    assert_eq!(judgement.events[0].server_id, Some(id("weather")));
    assert_eq!(told(&world.spoken(None, &said)), [""; 0]);
    let mut world = with(|policy| policy.server_policy = ServerPolicy::Denylist(vec![NameGlob::new("*")]));
    for _ in 0..2 {
        assert_eq!(
            told(&world.spoken(None, &said)),
            ["mcp_request_judged block server_policy"]
        );
    }
}

#[test_case("web_search_20250305", Handling::Allow => None; "allowed")]
#[test_case("web_search_20250305", Handling::Block => Some("native_tools".to_owned()); "blocked")]
#[test_case("code_execution", Handling::Allow => Some("blocked_tools".to_owned()); "blocked by its name")]
fn tools_of_a_provider(kind: &str, handling: Handling) -> Option<String> {
    let mut world = with(|policy| {
        policy.llm.native_tools = handling;
        policy.rules.blocked_tools = vec![SpellingGlob::new("code_*")];
    });
    used(&mut world, &LlmMention::Hosted { kind: kind.into() })
}

#[test]
fn a_tool_of_a_provider_is_noted_once() {
    let mut world = with(|policy| policy.llm.native_tools = Handling::Audit);
    let said = LlmMention::Hosted {
        kind: "web_search".into(),
    };
    let noted = ["mcp_tool_call_intercepted audit native_tools"];
    assert_eq!(told(&world.spoken(None, &said)), noted);
    assert_eq!(told(&world.spoken(None, &said)), [""; 0]);
}

fn called<'a>(server: Option<&'a str>, tool: &'a str) -> LlmMention<'a> {
    LlmMention::Called {
        server: server.map(Into::into),
        intent: intent(
            tool,
            Input::Json(RawJson::trusted(r#"{"path":"~/.bashrc","content":"x"}"#)),
        ),
    }
}

#[test]
fn what_a_provider_called_is_noted_with_all_that_stood_against_it() {
    let mut world = with(|_| ());
    drop(world.spoken(None, &remote("w", HERE, None)));
    let judgement = world.spoken(None, &called(Some("w"), "write_file"));
    assert_eq!(judgement.verdict, Verdict::Allow);
    assert_eq!(
        told(&judgement),
        ["mcp_tool_call_intercepted audit protected_file"]
    );
    let event = &judgement.events[0];
    assert_eq!(
        event.server_id,
        Some(id("weather")),
        "by the address of its label"
    );
    let reason = event.reason.as_deref().unwrap_or_default();
    assert!(reason.contains("the provider called it already"), "{reason}");
    let EventKind::ToolCallIntercepted {
        server_type,
        server_addr,
        ..
    } = &event.kind
    else {
        panic!("a call");
    };
    assert_eq!(
        (*server_type, server_addr.as_deref()),
        (Some(ServerType::Http), Some("mcp.example.com:443"))
    );
}

#[test]
fn what_a_provider_called_counts() {
    let mut world = with(|policy| {
        policy.rate_limits.default = RateLimit {
            per_minute: 1,
            burst: 1,
        }
    });
    let said = LlmMention::Called {
        server: Some("w".into()),
        intent: intent("forecast", Input::Json(RawJson::trusted("{}"))),
    };
    let first = world.spoken(None, &said);
    assert!(
        matches!(&first.store_effects[..], [StoreEffect::Share(_)]),
        "{first:?}"
    );
    let second = world.spoken(None, &said);
    assert_eq!(told(&second), ["mcp_tool_call_intercepted audit rate_limit"]);
}

#[test]
fn a_providers_own_tool_is_noted_where_policy_says_so() {
    assert_eq!(
        told(&with(|_| ()).spoken(None, &called(None, "web_search"))),
        [""; 0]
    );
    let mut world = with(|policy| policy.llm.native_tools = Handling::Block);
    let judgement = world.spoken(None, &called(None, "web_search"));
    assert_eq!(told(&judgement), ["mcp_tool_call_intercepted audit native_tools"]);
    assert_eq!(judgement.verdict, Verdict::Allow);
}
