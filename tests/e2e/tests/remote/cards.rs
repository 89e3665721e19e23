//! Server cards, compared with the tools that the servers list.

use anyhow::Result;
use mcpmon_e2e::{json::text, notes_server::Remote, program};
use serde_json::{Value, json};

use super::tools;

fn inspected(server: &Remote, more: &[&str]) -> Result<(Option<i32>, Vec<Value>, String)> {
    let url = format!("{}?key=abc", server.url());
    let mut arguments = vec!["inspect", "--server", &url, "--json"];
    arguments.extend(
        server
            .fingerprint()
            .into_iter()
            .flat_map(|pin| ["--tls-fingerprint", pin]),
    );
    arguments.extend(more);
    let run = program::run(arguments)?;
    let objects = run.objects()?.into_iter();
    let differences = objects.filter(|object| object["difference"].is_string());
    Ok((run.code, differences.collect(), run.stderr))
}

#[test]
fn the_card_that_a_server_publishes_is_compared() -> Result<()> {
    for server in [Remote::start(&tools())?, Remote::start_tls(&tools())?] {
        let (code, differences, told) = inspected(&server, &[])?;
        assert_eq!((code, differences.len()), (Some(0), 0), "no card: {told}");

        let card = json!({"name": "example/remote", "version": "2", "tools": [
            {"name": "read", "description": "Reads a note"},
            {"name": "remove", "description": "Removes nothing"},
        ]});
        server.publish(&card)?;
        let (code, differences, told) = inspected(&server, &[])?;
        let subjects: Vec<&str> = differences
            .iter()
            .map(|object| text(object, "difference"))
            .collect();
        assert_eq!(subjects, ["version", "tool remove"], "{told}");
        let place = format!("{}/server-card", server.url());
        assert_eq!(text(&differences[0], "card_url"), place);
        assert!(told.contains(&place), "{told}");
        assert_eq!(code, Some(0), "what a server says of itself is shown: {told}");

        let directory = tempfile::tempdir()?;
        let file = directory.path().join("card.json");
        std::fs::write(&file, card.to_string())?;
        let (code, differences, told) = inspected(&server, &["--card", &file.display().to_string()])?;
        assert_eq!((code, differences.len()), (Some(1), 2), "{told}");
        assert!(differences[0].get("card_url").is_none());

        server.publish(&json!(["no card"]))?;
        let (code, differences, told) = inspected(&server, &[])?;
        assert_eq!((code, differences.len()), (Some(0), 0), "{told}");
        assert!(told.contains("neither a name nor `serverInfo`"), "{told}");
    }
    Ok(())
}
