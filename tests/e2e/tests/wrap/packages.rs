//! The package of a server: the same however it is started and whatever its client calls it. Policies permit by it.

use std::fs;

use anyhow::{Context as _, Result};
use mcpmon_e2e::{
    json::text,
    program,
    servers::ToolServer,
    wrapped::{Home, Wrapped},
};
use test_case::test_case;

const CALL: &str =
    r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"forecast","arguments":{}}}"#;
const LIST: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;

/// Returns the answers to a list and a call of a server that its client calls `notes`.
fn answers(home: &Home, words: &[&str]) -> Result<[String; 2]> {
    let mut wrapped = Wrapped::start(&mut home.wrap(&["--server", "notes"], words)?)?;
    wrapped.send(LIST)?;
    let list = wrapped.line()?;
    wrapped.send(CALL)?;
    let call = wrapped.line()?;
    wrapped.finish()?;
    Ok([list, call])
}

/// A server in its own home; `{package}` in the policy is its package.
fn served(policy: &str) -> Result<(Home, ToolServer, String)> {
    let home = Home::new()?;
    let server = ToolServer::write(&home.path(""))?;
    server.offer(&[("forecast", "Tells the weather of a town.")])?;
    let script = fs::canonicalize(&server.script)?;
    let package = format!("script:{}", script.display());
    home.configure(
        &policy
            .replace("{package}", &package)
            .replace("{name}", &server.name),
    )?;
    Ok((home, server, package))
}

#[test_case("{package: \"{package}\"}", true; "by its package")]
#[test_case("{id: \"{name}\"}", true; "by the id of its program")]
#[test_case("{id: notes}", false; "by the name that its client gives")]
#[test_case("{package: \"script:/srv/*\"}", false; "another package")]
fn an_allowlist_permits(entry: &str, is_permitted: bool) -> Result<()> {
    let policy = format!("version: 1\nmcp: {{server_policy: allowlist, allowed_servers: [{entry}]}}\n");
    let (home, server, package) = served(&policy)?;
    let words = server.words();
    let [list, call] = answers(&home, &[&words[0], &words[1]])?;
    assert_eq!(list.contains("\"forecast\""), is_permitted, "{list}");
    assert_eq!(!call.contains("[mcpmon]"), is_permitted, "{call}");
    if !is_permitted {
        assert!(
            list.contains(&format!("`notes` ({package}) may not be used")),
            "{list}"
        );
        let store = home.path("store.db").display().to_string();
        let denied =
            program::run(["events", "--json", "--type", "mcp_server_denied", "--db", &store])?.objects()?;
        let remedy = text(denied.first().context("a denial")?, "remedy");
        assert!(remedy.contains(&format!("to let `{package}` run")), "{remedy}");
    }
    Ok(())
}

#[test]
fn the_name_of_a_permitted_server_before_another_program_permits_nothing() -> Result<()> {
    let policy = "version: 1\nmcp: {server_policy: allowlist, allowed_servers: [{package: \"{package}\"}, {id: notes}]}\n";
    let (home, server, _) = served(policy)?;
    let words = server.words();
    let copy = home.path("other").display().to_string();
    program::copy(&server.script, &copy)?;
    let [list, _] = answers(&home, &[&copy, &words[1]])?;
    let told = format!("`notes` (script:{copy}) may not be used");
    assert!(list.contains(&told), "{list}");
    Ok(())
}

#[test_case("{package}", true; "by its package")]
#[test_case("{name}", true; "by the id of its program")]
#[test_case("notes", false; "by the name that its client gives")]
fn a_list_of_tools_permits(server: &str, is_permitted: bool) -> Result<()> {
    let policy = format!(
        "version: 1\nmcp: {{tool_policy: allowlist, allowed_tools: [{{server: \"{server}\", tool: forecast}}]}}\n"
    );
    let (home, server, package) = served(&policy)?;
    let words = server.words();
    let [_, call] = answers(&home, &[&words[0], &words[1]])?;
    assert_eq!(!call.contains("[mcpmon]"), is_permitted, "{call}");
    if !is_permitted {
        let told =
            format!("only its client calls it `notes`: name `{package}`, or declare it in `mcp.servers`");
        assert!(call.contains(&told), "{call}");
    }
    Ok(())
}

#[test]
fn a_declaration_ties_the_name_of_its_client_to_its_program() -> Result<()> {
    let policy = "version: 1\nmcp:\n  servers: [{id: notes, type: stdio, command: \"{script}\", args: [x]}]\n  \
                  server_policy: allowlist\n  allowed_servers: [{id: notes}]\n  tool_policy: allowlist\n  \
                  allowed_tools: [{server: notes, tool: forecast}]\n";
    let (home, server, package) = served(policy)?;
    let script = package.trim_start_matches("script:");
    home.configure(&policy.replace("{script}", script))?;
    let words = server.words();
    // It is the declared program, although its arguments are others.
    let [_, call] = answers(&home, &[&words[0], &words[1]])?;
    assert!(!call.contains("[mcpmon]"), "{call}");
    Ok(())
}

/// The id of a script is its file's name, which anybody can give to a file.
#[test_case("server_policy: allowlist, allowed_servers: [{id: \"{name}\"}]"; "an allowlist")]
#[test_case("fail_closed: true"; "declared servers only")]
#[test_case("tool_policy: allowlist, allowed_tools: [{server: \"{name}\", tool: forecast}]"; "a list of tools")]
fn a_script_with_the_name_of_a_declared_server_is_not_that_server(rule: &str) -> Result<()> {
    let policy = format!(
        "version: 1\nmcp: {{servers: [{{id: \"{{name}}\", type: stdio, command: npx, args: [-y, \"@me/other\"]}}], {rule}}}\n"
    );
    let (home, server, package) = served(&policy)?;
    let words = server.words();
    let [_, call] = answers(&home, &[&words[0], &words[1]])?;
    assert!(call.contains("[mcpmon]"), "{call}");
    assert!(
        call.contains(&package) || rule.starts_with("tool_policy"),
        "{call}"
    );
    Ok(())
}

#[test]
fn events_and_listings_have_the_package_and_are_filtered_by_it() -> Result<()> {
    let (home, server, package) = served("version: 1\n")?;
    let words = server.words();
    answers(&home, &[&words[0], &words[1]])?;
    let store = home.path("store.db").display().to_string();
    let all = program::run(["events", "--json", "--server", "notes", "--db", &store])?.objects()?;
    let own = program::run(["events", "--json", "--server", &package, "--db", &store])?.objects()?;
    assert!(!own.is_empty() && own == all, "{own:?}\n{all:?}");
    for event in &own {
        assert_eq!(text(event, "package"), package, "{event}");
    }
    let servers = program::run(["servers", "--json", "--server", &package, "--db", &store])?.objects()?;
    let shown = servers.first().context("a server")?;
    assert_eq!(
        (text(shown, "server_id"), text(shown, "package")),
        ("notes", package.as_str())
    );
    Ok(())
}

#[test]
fn a_package_without_a_kind_is_a_mistake() -> Result<()> {
    let home = Home::new()?;
    home.configure("version: 1\nmcp: {server_policy: allowlist, allowed_servers: [{package: weather}]}\n")?;
    let (code, _, errors) = home.start(&["cat"])?.finish()?;
    assert_eq!(code, 4);
    let told = "mcp.allowed_servers[0].package: expected a kind and a name: `npm:NAME`";
    assert!(errors.contains(told), "{errors}");
    Ok(())
}
