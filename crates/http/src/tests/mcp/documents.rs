//! Documents that clients look for before they authorise.

use test_case::test_case;

use super::{
    super::scene::{Heard, JSON, Wire, answer},
    scene::{PATH, READ, Scene, head, post},
};

/// The metadata of a server, as it knows itself.
fn metadata(heard: &Heard) -> String {
    let host = heard.header("host").unwrap_or_default();
    format!(
        r#"{{"resource":"http://{host}/v1/mcp","authorization_servers":["https://login.example"],"scopes_supported":["files"]}}"#
    )
}

/// A server with its document at the usual path.
fn usual(heard: &Heard, wire: &mut Wire) {
    if heard
        .head
        .starts_with("GET /.well-known/oauth-protected-resource/v1/mcp ")
    {
        return wire.send(answer("200 OK", JSON, metadata(heard)));
    }
    match heard.head.starts_with("POST") {
        true => {
            let place = heard.header("host").unwrap_or_default();
            let challenge = format!(
                "www-authenticate: Bearer error=\"invalid_token\", resource_metadata=\"http://{place}/meta\"\r\n"
            );
            wire.send(answer("401 Unauthorized", &challenge, ""));
        }
        false => wire.send(answer("404 Not Found", "", "")),
    }
}

#[test_case("/.well-known/oauth-protected-resource/mcp/files", "http://localhost:8484/mcp/files"; "its path inserted")]
#[test_case("/mcp/files/.well-known/oauth-protected-resource", "http://localhost:8484/mcp/files"; "its path appended")]
#[test_case("/.well-known/oauth-protected-resource/s/known/mcp/files", "http://localhost:8484/"; "of a session, whose token stays here")]
fn the_resource_is_what_the_client_knows(path: &str, resource: &str) {
    let scene = Scene::new(usual);
    let heard = scene.ask(head("GET", path, "authorization: Bearer k\r\n"));
    assert_eq!(heard.status(), "200");
    let body: serde_json::Value = serde_json::from_slice(&heard.body).unwrap();
    assert_eq!(body["resource"], resource);
    assert_eq!(body["authorization_servers"][0], "https://login.example");
    assert_eq!(body["scopes_supported"][0], "files");
    assert_eq!(scene.heard().header("authorization"), None, "nobody has to know");
}

#[test]
fn a_challenge_leads_to_the_proxy_and_the_proxy_to_where_it_led() {
    let scene = Scene::new(|heard, wire| match heard.head.starts_with("GET /meta ") {
        true => wire.send(answer("200 OK", JSON, metadata(heard))),
        false => usual(heard, wire),
    });
    let heard = scene.post(
        "host: 127.0.0.1\r\n".trim_start_matches("host: 127.0.0.1\r\n"),
        READ,
    );
    assert_eq!(heard.status(), "401");
    let challenge = heard.header("www-authenticate").expect("a challenge");
    assert_eq!(
        challenge,
        "Bearer error=\"invalid_token\", resource_metadata=\"http://localhost/.well-known/oauth-protected-resource/mcp/files\""
    );
    drop(scene.heard());
    let path = "/.well-known/oauth-protected-resource/mcp/files";
    assert_eq!(scene.ask(head("GET", path, "")).status(), "200");
    assert!(scene.heard().head.starts_with("GET /meta "));
}

#[test]
fn a_document_that_is_nowhere_is_looked_for_everywhere() {
    let scene = Scene::new(usual);
    let heard = scene.ask(head("GET", "/mcp/files/.well-known/openid-configuration", ""));
    assert_eq!(heard.status(), "404");
    for path in [
        "/.well-known/openid-configuration/v1/mcp",
        "/v1/mcp/.well-known/openid-configuration",
        "/.well-known/openid-configuration",
    ] {
        let line = format!("GET {path} ");
        assert!(scene.heard().head.starts_with(&line), "{line}");
    }
}

#[test]
fn metadata_of_somebody_else_stay_so() {
    let other = r#"{"resource":"https://other.example/mcp"}"#;
    let scene = Scene::new(move |_, wire| wire.send(answer("200 OK", JSON, other)));
    let heard = scene.ask(head("GET", "/.well-known/oauth-protected-resource/mcp/files", ""));
    assert_eq!(heard.text(), other);
}

/// With a token in the path, clients get no other document either that would make them disclose their URL, which
/// contains the token.
#[test_case("/.well-known/oauth-protected-resource/s/known/mcp/files", "502", "of another resource"; "metadata of somebody else")]
#[test_case("/.well-known/oauth-authorization-server/s/known/mcp/files", "404", "x-mcpmon-token"; "who gives out tokens")]
#[test_case("/s/known/mcp/files/.well-known/openid-configuration", "404", "x-mcpmon-token"; "the same by another name")]
fn with_a_token_in_the_path_there_is_no(path: &str, status: &str, part: &str) {
    let other = r#"{"resource":"https://other.example/mcp","issuer":"https://other.example"}"#;
    let scene = Scene::new(move |_, wire| wire.send(answer("200 OK", JSON, other)));
    let heard = scene.ask(head("GET", path, ""));
    assert_eq!(heard.status(), status);
    assert!(heard.text().contains(part), "{}", heard.text());
}

#[test]
fn a_challenge_leads_nowhere_else_where_a_token_is_in_the_path() {
    let challenge =
        "www-authenticate: Bearer scope=\"a\", resource_metadata=\"http://other.example/meta\"\r\n";
    let scene = Scene::new(move |_, wire| wire.send(answer("401 Unauthorized", challenge, "")));
    let request = String::from_utf8(post("", READ)).unwrap();
    let heard = scene.ask(request.replacen(PATH, "/s/known/mcp/files", 1));
    assert_eq!(
        heard.header("www-authenticate"),
        Some(
            "Bearer scope=\"a\", resource_metadata=\"http://localhost/.well-known/oauth-protected-resource/s/known/mcp/files\""
        )
    );
    let sent = scene.heard();
    assert!(
        !sent.head.contains("known") && !sent.text().contains("known"),
        "{sent:?}"
    );
}

#[test]
fn what_is_no_document_does_not_go_on() {
    let scene = Scene::new(|_, wire| wire.send(answer("200 OK", JSON, "<html>")));
    let heard = scene.ask(head("GET", "/.well-known/oauth-protected-resource/mcp/files", ""));
    assert_eq!(heard.status(), "502");
    assert!(
        heard.text().contains("no JSON") && !heard.text().contains("<html>"),
        "{}",
        heard.text()
    );
}
