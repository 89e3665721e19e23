//! Skills and apps of a real server behind the wrapper, read with an official SDK.

use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};
use mcpmon_e2e::{
    json::text,
    program::{self, Run},
    wrapped::Home,
};
use rmcp::{
    RoleClient, ServiceError, ServiceExt as _,
    model::{
        CallToolRequestParams, GetSkillRequestParams, ReadResourceDirectoryRequestParams,
        ReadResourceRequestParams,
    },
    service::RunningService,
};
use serde_json::{Value, json};
use tokio::{
    process::{Child, Command},
    runtime,
};

const NOTES: &str = "skill://notes/SKILL.md";
const GUIDE: &str = "skill://notes/guide.md";
const NEWS: &str = "skill://news/SKILL.md";
const VIEW: &str = "ui://clock/view.html";

/// A client of an SDK for the server behind a wrapper.
struct SdkClient {
    client: RunningService<RoleClient, ()>,
    wrapper: Child,
}

impl SdkClient {
    async fn connect(home: &Home) -> Result<Self> {
        let server = program::beside("mcpmon-conformant-server");
        let mut command = Command::from(home.wrap(&[], &[&server, "--stdio"])?);
        let mut wrapper = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        let output = wrapper.stdout.take().context("a pipe")?;
        let input = wrapper.stdin.take().context("a pipe")?;
        let client = ().serve((output, input)).await?;
        Ok(Self { client, wrapper })
    }

    /// Returns the URIs of the skills on the list.
    async fn skills(&self) -> Result<Vec<String>> {
        let skills = self.client.list_all_skills().await?;
        Ok(skills.into_iter().map(|skill| skill.uri).collect())
    }

    /// Returns the content of a resource, or the message of the error.
    async fn read(&self, uri: &str) -> Result<Result<String, String>> {
        let read = self
            .client
            .read_resource(ReadResourceRequestParams::new(uri))
            .await;
        Ok(match said(read)? {
            Ok(read) => Ok(serde_json::to_value(read)?["contents"][0]["text"]
                .as_str()
                .context("a text")?
                .to_owned()),
            Err(message) => Err(message),
        })
    }

    /// Lets the server serve another edition.
    async fn serve(&self, edition: &str) -> Result<()> {
        self.call("test_change_edition", &json!({"edition": edition}))
            .await
    }

    async fn call(&self, tool: &str, arguments: &Value) -> Result<()> {
        let call = CallToolRequestParams::new(tool.to_owned())
            .with_arguments(arguments.as_object().cloned().unwrap_or_default());
        let result = self.client.call_tool(call).await?;
        ensure!(result.is_error != Some(true), "{result:?}");
        Ok(())
    }

    async fn end(mut self) -> Result<()> {
        self.client.cancel().await?;
        ensure!(self.wrapper.wait().await?.success());
        Ok(())
    }
}

/// Returns the result, or mcpmon's error in its place.
fn said<T>(result: Result<T, ServiceError>) -> Result<Result<T, String>> {
    match result {
        Ok(result) => Ok(Ok(result)),
        Err(ServiceError::McpError(error)) => Ok(Err(error.message.into_owned())),
        Err(other) => Err(other.into()),
    }
}

fn within<T>(run: impl Future<Output = Result<T>>) -> Result<T> {
    runtime::Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(run)
}

fn approve(home: &Home, uri: &str) -> Result<Run> {
    let store = home.path("store.db").display().to_string();
    let listed = program::run(["registry", "list", "--json", "--db", &store])?.objects()?;
    let skill = listed.iter().find(|object| text(object, "tool_name") == uri);
    let server = text(skill.context("it was seen")?, "server_id").to_owned();
    program::run(["approve", &format!("{server}:{uri}"), "--db", &store])
}

#[test]
fn a_skill_changed_behind_its_manifest_is_withheld() -> Result<()> {
    let home = Home::new()?;
    within(async {
        let client = SdkClient::connect(&home).await?;
        assert_eq!(client.skills().await?, [NOTES], "a dynamic one is hidden");
        let text = client.read(GUIDE).await?.map_err(anyhow::Error::msg)?;
        assert!(text.starts_with("Name who decided"), "{text}");
        let files = client
            .client
            .read_resource_directory(ReadResourceDirectoryRequestParams::new("skill://notes"))
            .await?;
        assert_eq!(files.resources.len(), 2, "{files:?}");
        client.serve("behind").await?;
        let message = client.read(GUIDE).await?.expect_err("it is withheld");
        assert!(
            message.contains("skill_manifest") && message.contains("the manifest says"),
            "{message}"
        );
        client.read(NOTES).await?.map_err(anyhow::Error::msg)?;
        let message = client
            .read("skill://notes/other.md")
            .await?
            .expect_err("the manifest does not name it");
        assert!(message.contains("skill_manifest"), "{message}");
        client.end().await
    })
}

#[test]
fn a_changed_manifest_is_held_until_it_is_approved() -> Result<()> {
    let home = Home::new()?;
    within(async {
        let client = SdkClient::connect(&home).await?;
        assert_eq!(client.skills().await?, [NOTES]);
        client.serve("second").await?;
        assert!(client.skills().await?.is_empty(), "what changed is hidden");
        let got = said(client.client.get_skill(GetSkillRequestParams::new(NOTES)).await)?;
        let message = got.expect_err("so is its entry alone");
        assert!(message.contains("version_pin"), "{message}");
        let message = client.read(NOTES).await?.expect_err("and each of its files");
        assert!(message.contains("version_pin"), "{message}");
        client.end().await
    })?;
    let store = home.path("store.db").display().to_string();
    let events =
        program::run(["events", "--json", "--type", "mcp_tool_changed", "--db", &store])?.objects()?;
    let change = events.first().context("the change is told")?;
    assert_eq!(text(change, "definition"), "skill", "{change}");
    assert!(change.to_string().contains("resources["), "{change}");
    let approved = approve(&home, NOTES)?;
    assert_eq!(approved.code, Some(0), "{approved:?}");
    within(async {
        let client = SdkClient::connect(&home).await?;
        client.serve("second").await?;
        assert_eq!(client.skills().await?, [NOTES]);
        let text = client.read(GUIDE).await?.map_err(anyhow::Error::msg)?;
        assert!(text.ends_with("and why.\n"), "{text}");
        client.end().await
    })
}

#[test]
fn a_dynamic_skill_is_used_once_a_person_approves_it() -> Result<()> {
    let home = Home::new()?;
    within(async {
        let client = SdkClient::connect(&home).await?;
        for _ in 0..2 {
            assert_eq!(client.skills().await?, [NOTES]);
        }
        let message = client.read(NEWS).await?.expect_err("it is held");
        assert!(message.contains("version_pin"), "{message}");
        client.end().await
    })?;
    let approved = approve(&home, NEWS)?;
    assert_eq!(approved.code, Some(0), "{approved:?}");
    within(async {
        let client = SdkClient::connect(&home).await?;
        assert_eq!(client.skills().await?, [NOTES, NEWS]);
        client.read(NEWS).await?.map_err(anyhow::Error::msg)?;
        client.end().await
    })
}

#[test]
fn an_app_is_pinned_and_a_tool_for_apps_alone_is_noted() -> Result<()> {
    let home = Home::new()?;
    within(async {
        let client = SdkClient::connect(&home).await?;
        client.client.list_all_tools().await?;
        client.call("set_clock", &json!({})).await?;
        client.read(VIEW).await?.map_err(anyhow::Error::msg)?;
        client.serve("second").await?;
        let message = client
            .read(VIEW)
            .await?
            .expect_err("it asks for more than it did");
        assert!(message.contains("version_pin"), "{message}");
        client.end().await
    })?;
    let store = home.path("store.db").display().to_string();
    let judged = [
        "events",
        "--json",
        "--type",
        "mcp_tool_call_intercepted",
        "--db",
        &store,
    ];
    let judged = program::run(judged)?.objects()?;
    let is_noted = |event: &Value| text(event, "rule") == "app_only_tool";
    assert!(judged.iter().any(is_noted), "{judged:?}");
    let listed = program::run(["registry", "list", "--json", "--db", &store])?.objects()?;
    let app = listed.iter().find(|object| text(object, "tool_name") == VIEW);
    let app = app.context("the page is a definition")?;
    assert_eq!(text(app, "kind"), "app", "{app}");
    assert!(app.to_string().contains("https://elsewhere.example"), "{app}");
    Ok(())
}
