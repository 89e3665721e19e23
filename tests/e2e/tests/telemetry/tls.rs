//! A wrapper that exports to a real collector behind TLS: nginx, with a certificate from a test authority, requires a
//! token.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

use anyhow::Result;
use mcpmon_e2e::{
    collector::Collector, json::text, servers::ToolServer, tls_end::TlsEnd, wait, wrapped::Home,
};
use serde_json::json;

const TOKEN: &str = "collectors-own-token";
/// Tools that the policy blocks, each called in a separate session.
const BLOCKED: [&str; 3] = ["remove", "erase", "wipe"];

/// Runs a session that calls one tool, and returns the wrapper's messages.
fn session(home: &Home, server: &ToolServer, tool: &str) -> Result<String> {
    let words = server.words();
    let mut wrapped = home.start(&[&words[0], &words[1]])?;
    let call = json!({"name": tool, "arguments": {}});
    for (id, method, params) in [(1, "tools/list", json!({})), (2, "tools/call", call)] {
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        wrapped.send(&request.to_string())?;
        wrapped.line()?;
    }
    let (code, _, errors) = wrapped.finish()?;
    assert_eq!(code, 0, "{errors}");
    Ok(errors)
}

#[test]
fn what_a_wrong_certificate_or_token_keeps_back_is_delivered_once_it_is_right() -> Result<()> {
    let Some(collector) = Collector::start()? else {
        return Ok(());
    };
    let Some(end) = TlsEnd::before(&collector.endpoint(), TOKEN)? else {
        return Ok(());
    };
    let home = Home::new()?;
    let (right, wrong) = (home.path("right.headers"), home.path("wrong.headers"));
    for (file, token) in [(&right, TOKEN), (&wrong, "another-token")] {
        fs::write(file, format!("authorization: Bearer {token}\n"))?;
        fs::set_permissions(file, fs::Permissions::from_mode(0o600))?;
    }
    let configure = |authority: &Path, headers: &Path| {
        home.configure(&format!(
            "version: 1\nrecord:\n  otlp_endpoint: \"{}\"\n  otlp_ca_file: {}\n  otlp_headers_file: {}\nmcp:\n  blocked_tools: {}\n",
            end.endpoint(),
            authority.display(),
            headers.display(),
            json!(BLOCKED),
        ))
    };
    let server = ToolServer::write(&home.path(""))?;
    server.offer(&BLOCKED.map(|tool| (tool, "Removes a note.")))?;

    configure(&end.other_authority(), &right)?;
    let told = session(&home, &server, BLOCKED[0])?;
    let authority = end.other_authority().display().to_string();
    for word in ["UnknownIssuer", "record.otlp_ca_file", &authority] {
        assert!(told.contains(word), "no {word} in {told}");
    }
    configure(&end.authority(), &wrong)?;
    let told = session(&home, &server, BLOCKED[1])?;
    assert!(told.contains("401"), "{told}");
    assert!(!told.contains("another-token"), "{told}");
    assert!(
        collector.query("blocked-calls", &[])?.is_empty(),
        "{}",
        collector.received()
    );

    configure(&end.authority(), &right)?;
    session(&home, &server, BLOCKED[2])?;
    let expected: Vec<String> = BLOCKED.map(|tool| format!("{tool}: 1")).into();
    wait::until("every blocked call, once", || {
        let rows = collector.query("blocked-calls", &[])?;
        let calls = |row: &serde_json::Value| {
            let count = row["calls"].to_string();
            format!("{}: {}", text(row, "tool"), count.trim_matches('"'))
        };
        let mut found: Vec<String> = rows.iter().map(calls).collect();
        found.sort_by_key(|row| expected.iter().position(|known| known == row));
        Ok((found == expected).then_some(()))
    })?;
    Ok(())
}
