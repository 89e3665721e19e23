//! Real agents from npm, headless: their users' files, the API of their models, and the form in which a model asks for
//! a tool.

use std::{
    env, fs,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use crate::real::Real;

/// The directory in the user's home in which an agent works. It is not the home itself, because some agents read
/// everything below their working directory.
const PROJECT: &str = "project";
/// The prompt that a person gives to an agent.
const TASK: &str = "use the tools";

/// An agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agent {
    /// Claude Code.
    ClaudeCode,
    /// Codex.
    Codex,
    /// Gemini CLI.
    GeminiCli,
    /// opencode.
    Opencode,
}

impl Agent {
    /// Returns the agent's name in `mcpmon setup --client`.
    #[must_use]
    pub const fn id(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
            Self::GeminiCli => "gemini-cli",
            Self::Opencode => "opencode",
        }
    }

    /// Returns the provider whose API the agent's model speaks.
    #[must_use]
    pub const fn provider(self) -> &'static str {
        match self {
            Self::ClaudeCode => "anthropic",
            Self::Codex | Self::Opencode => "openai",
            Self::GeminiCli => "gemini",
        }
    }

    /// Returns the file in which the agent's user keeps servers, relative to the user's home.
    #[must_use]
    pub const fn file(self) -> &'static str {
        match self {
            Self::ClaudeCode => ".claude.json",
            Self::Codex => ".codex/config.toml",
            Self::GeminiCli => ".gemini/settings.json",
            Self::Opencode => ".config/opencode/opencode.json",
        }
    }

    /// Makes the agent's working directory, and writes its configuration with the server `everything` as a person
    /// would: with comments if the agent's format allows them. Codex and opencode also find the model at a gateway
    /// through this file.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub fn configure(self, home: &Path, server: &[String], gateway: Option<&str>) -> Result<()> {
        let (program, arguments) = server.split_first().context("a command")?;
        let (program, arguments) = (json!(program), json!(arguments));
        let text = match self {
            Self::ClaudeCode => {
                let server = format!("{{\"command\": {program}, \"args\": {arguments}}}");
                format!("{{\n    \"mcpServers\": {{\n        \"everything\": {server}\n    }}\n}}\n")
            }
            Self::Codex => {
                let provider = gateway.map_or_else(String::new, |url| {
                    format!(
                        "model_provider = \"corp\"\n[model_providers.corp]\nname = \"Corp\"\nbase_url = \"{url}/v1\"\n\
                         wire_api = \"responses\"\nenv_key = \"OPENAI_API_KEY\"\n"
                    )
                });
                // Codex expects of a model that it does not know what most models can do.
                format!(
                    "# mine\nmodel = \"gpt-5\"\n{provider}\n[mcp_servers.everything] # the reference\ncommand = \
                     {program}\nargs   = {arguments}\nrequired = true\n"
                )
            }
            Self::GeminiCli => {
                let server = format!("{{\"command\": {program}, \"args\": {arguments}}}");
                format!(
                    "{{\n\t// mine\n\t\"security\": {{\"auth\": {{\"selectedType\": \"gemini-api-key\"}}}},\n\
                     \t\"mcpServers\": {{\"everything\": {server}}}\n}}\n"
                )
            }
            Self::Opencode => {
                let url = gateway.context("opencode has no gateway without its file")?;
                let model = json!({"corp": {"npm": "@ai-sdk/openai-compatible", "options": {"baseURL": format!("{url}/v1"), "apiKey": "none"}, "models": {"scripted": {}}}});
                let command = json!(server);
                format!(
                    "{{\n  \"$schema\": \"https://opencode.ai/config.json\", // mine\n  \"model\": \"corp/scripted\",\n  \"provider\": {model},\n  \"mcp\": {{\n    \
                     \"everything\": {{\"type\": \"local\", \"command\": {command}}}, // the reference\n  }},\n}}\n"
                )
            }
        };
        fs::create_dir_all(home.join(PROJECT))?;
        let file = home.join(self.file());
        fs::create_dir_all(file.parent().context("a directory")?)?;
        Ok(fs::write(file, text)?)
    }

    /// Returns the command line with which the agent does one task and ends.
    #[must_use]
    pub fn task(self, real: &Real) -> Vec<String> {
        let npm = |program: &str| real.npm(program).display().to_string();
        // An installation without scripts does not set up everything, so the missing parts are named directly.
        let (words, options): (Vec<String>, &[&str]) = match self {
            Self::ClaudeCode => (
                vec![
                    "node".to_owned(),
                    npm("../@anthropic-ai/claude-code/cli-wrapper.cjs"),
                ],
                &[
                    "-p",
                    TASK,
                    "--allowedTools",
                    "mcp__everything",
                    "--output-format",
                    "stream-json",
                    "--verbose",
                ],
            ),
            Self::Codex => (
                vec![npm("codex")],
                &[
                    "exec",
                    "--skip-git-repo-check",
                    "--json",
                    "--dangerously-bypass-approvals-and-sandbox",
                    TASK,
                ],
            ),
            // If no model is named, it first asks a model which model is to answer.
            Self::GeminiCli => (
                vec![npm("gemini")],
                &[
                    "-m",
                    "gemini-2.5-pro",
                    "-p",
                    TASK,
                    "--yolo",
                    "--skip-trust",
                    "--output-format",
                    "stream-json",
                ],
            ),
            Self::Opencode => {
                let architecture = match env::consts::ARCH {
                    "x86_64" => "x64",
                    _ => "arm64",
                };
                let program = npm(&format!("../opencode-linux-{architecture}/bin/opencode"));
                (vec![program], &["run", "--format", "json", TASK])
            }
        };
        let options = options.iter().map(|&option| option.to_owned());
        words.into_iter().chain(options).collect()
    }

    /// Sets a command's environment: the home of the agent's user, keys that no model checks, and an empty standard
    /// input.
    pub fn prepare(self, command: &mut Command, home: &Path) {
        command
            .current_dir(home.join(PROJECT))
            .stdin(Stdio::null())
            .env("HOME", home)
            .env("ANTHROPIC_API_KEY", "no-key-at-all")
            .env("OPENAI_API_KEY", "no-key-at-all")
            .env("GEMINI_API_KEY", "no-key-at-all")
            .env("ENABLE_TOOL_SEARCH", "false")
            .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
            .env("OPENCODE_DISABLE_AUTOUPDATE", "1")
            .env("OPENCODE_DISABLE_MODELS_FETCH", "1");
        for variable in [
            "XDG_CACHE_HOME",
            "XDG_CONFIG_HOME",
            "XDG_DATA_HOME",
            "XDG_STATE_HOME",
            "CLAUDE_CONFIG_DIR",
            "CODEX_HOME",
            "MCPMON_CONFIG",
        ] {
            command.env_remove(variable);
        }
    }

    /// Returns the first items of the model's script. Claude Code starts servers at the same time as its first request,
    /// and offers to wait for them.
    #[must_use]
    pub fn opening(self) -> Vec<Value> {
        match self {
            Self::ClaudeCode => vec![json!([{"tool": "WaitForMcpServers", "id": "call_wait", "input": {}}])],
            Self::Codex | Self::GeminiCli | Self::Opencode => Vec::new(),
        }
    }

    /// Returns a call of a tool of the server `everything`, in the form in which this agent's model has to ask for it.
    #[must_use]
    pub fn call(self, tool: &str, id: &str, input: &Value) -> Value {
        match self {
            Self::ClaudeCode => json!({"tool": format!("mcp__everything__{tool}"), "id": id, "input": input}),
            Self::Codex => {
                let tool = tool.replace('-', "_");
                json!({"tool": tool, "namespace": "mcp__everything", "id": id, "input": input})
            }
            Self::GeminiCli => json!({"tool": format!("mcp_everything_{tool}"), "id": id, "input": input}),
            Self::Opencode => json!({"tool": format!("everything_{tool}"), "id": id, "input": input}),
        }
    }
}
