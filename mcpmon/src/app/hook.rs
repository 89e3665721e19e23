//! Hooks of clients: the input that a client gives a hook before it runs one of its own tools, and the hook's answer.

use mcpmon_config::Trust;
use mcpmon_detect::session::session;
use mcpmon_model::{Conversation, Event, EventId, Layer, PinKey, ServerId, ServerType};
use mcpmon_session::{JudgeError, Options, note};
use serde_json::{Map, Value, json};

use super::{
    host,
    question::{Opinion, Surroundings, UseOutcome},
    wrap::session_name,
};

/// Longest input that is read, bytes: as long as the longest message.
pub const MAX_INPUT_BYTES: u64 = 16 << 20;
/// Exit status that tells a client to stop the tool. Clients ignore any other status but 0.
const STOPS: u8 = 2;
/// The tool name under which a shell command in Cursor is judged.
const CURSOR_SHELL: &str = "Shell";
/// Rules about servers and their lists: a client's own tools are in no list.
const ABOUT_SERVERS: [&str; 3] = ["server_policy", "undeclared_server", "unknown_tool"];

/// A client with hooks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum HookClient {
    /// Claude Code: `PreToolUse`.
    ClaudeCode,
    /// Codex: `PreToolUse`.
    Codex,
    /// Cursor: `beforeShellExecution`, `beforeReadFile`, `preToolUse`.
    Cursor,
    /// Gemini CLI: `BeforeTool`.
    Gemini,
}

/// A call of one of a client's own tools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NativeCall {
    /// The tool.
    pub tool: String,
    /// Its arguments, a JSON object.
    pub arguments: String,
    /// The client's id of the call.
    pub id: Option<String>,
}

/// The reason why an input cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum HookInputError {
    /// The input is no JSON.
    #[error("standard input is no JSON, as the hooks of {client} have it: {source}")]
    Json {
        /// The client.
        client: &'static str,
        /// The cause.
        #[source]
        source: serde_json::Error,
    },
    /// A field is missing, or of another type.
    #[error("standard input has no `{field}`, as the hooks of {client} have it")]
    Missing {
        /// The client.
        client: &'static str,
        /// The field.
        field: &'static str,
    },
}

/// The answer to a client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HookAnswer {
    /// For standard output.
    pub output: Option<Value>,
    /// For standard error.
    pub error: Option<String>,
    /// The exit status.
    pub status: u8,
}

impl HookClient {
    /// Returns the client's name in events, in the place of a server's name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
            Self::Cursor => "cursor",
            Self::Gemini => "gemini",
        }
    }

    /// Returns the server id under which the client's own tools are judged and recorded.
    pub fn server(self) -> ServerId {
        ServerId::new(self.as_str()).unwrap_or_else(|_| unreachable!("the names above are ids"))
    }

    /// Parses the client's input. Returns `None` if nothing is to be judged: another event, or a tool of an MCP server,
    /// which is judged on its way to that server.
    ///
    /// # Errors
    /// [`HookInputError`].
    pub fn call(self, input: &[u8]) -> Result<Option<NativeCall>, HookInputError> {
        let client = self.as_str();
        let input: Map<String, Value> =
            serde_json::from_slice(input).map_err(|source| HookInputError::Json { client, source })?;
        let missing = |field| HookInputError::Missing { client, field };
        let text = |field: &'static str| input.get(field).and_then(Value::as_str);
        let event = text("hook_event_name").ok_or_else(|| missing("hook_event_name"))?;
        let call = |tool: &str, arguments: Value| {
            Some(NativeCall {
                tool: tool.to_owned(),
                arguments: arguments.to_string(),
                id: text("tool_use_id").map(str::to_owned),
            })
        };
        Ok(match (self, event) {
            (Self::ClaudeCode | Self::Codex, "PreToolUse")
            | (Self::Gemini, "BeforeTool")
            | (Self::Cursor, "preToolUse") => {
                let tool = text("tool_name").ok_or_else(|| missing("tool_name"))?;
                let arguments = match input.get("tool_input") {
                    Some(arguments @ Value::Object(_)) => arguments.clone(),
                    // Codex gives the patch of `apply_patch` as a string.
                    Some(Value::String(text)) => json!({"input": text}),
                    Some(_) | None => return Err(missing("tool_input")),
                };
                match tool.starts_with("mcp_") || tool.starts_with("MCP:") {
                    true => None,
                    false => call(tool, arguments),
                }
            }
            (Self::Cursor, "beforeShellExecution") => {
                let command = text("command").ok_or_else(|| missing("command"))?;
                call(
                    CURSOR_SHELL,
                    json!({"command": command, "cwd": text("cwd").unwrap_or_default()}),
                )
            }
            (Self::Cursor, "beforeReadFile") => {
                let path = text("file_path").ok_or_else(|| missing("file_path"))?;
                call("Read", json!({"file_path": path}))
            }
            (_, _) => None,
        })
    }

    /// Returns whether the client's hooks can make it ask its user about this tool.
    pub fn can_ask(self, tool: &str) -> bool {
        match self {
            Self::ClaudeCode => true,
            Self::Cursor => tool == CURSOR_SHELL,
            Self::Codex | Self::Gemini => false,
        }
    }

    /// Builds the answer that makes the client ask its user about a call.
    pub fn ask(self, opinion: &Opinion) -> HookAnswer {
        let reason = format!("[mcpmon] {} (rule {})", opinion.reason, opinion.rule);
        let output = match self {
            Self::Cursor => json!({"permission": "ask", "user_message": reason}),
            Self::ClaudeCode | Self::Codex | Self::Gemini => json!({"hookSpecificOutput": {
                "hookEventName": "PreToolUse",
                "permissionDecision": "ask",
                "permissionDecisionReason": reason,
            }}),
        };
        HookAnswer {
            output: Some(output),
            ..HookAnswer::default()
        }
    }

    /// Builds the answer for a verdict. A call that is not stopped is left to the client, which still applies its own
    /// questions and rules.
    pub fn answer(self, stopped: Option<(&Opinion, Option<EventId>)>) -> HookAnswer {
        let Some((opinion, event)) = stopped else {
            return HookAnswer {
                output: match self {
                    Self::Cursor | Self::Gemini => Some(json!({})),
                    Self::ClaudeCode | Self::Codex => None,
                },
                ..HookAnswer::default()
            };
        };
        let (event, look_up) = event.map_or_else(Default::default, |id| {
            let look_up = format!(". The user can look it up with: mcpmon explain {id}");
            (format!(", event {id}"), look_up)
        });
        let reason = format!(
            "[mcpmon] {} (rule {}{event}){look_up}",
            opinion.reason, opinion.rule
        );
        match self {
            Self::ClaudeCode | Self::Codex | Self::Gemini => HookAnswer {
                output: None,
                error: Some(reason),
                status: STOPS,
            },
            Self::Cursor => HookAnswer {
                output: Some(json!({
                    "permission": "deny",
                    "user_message": reason,
                    "agent_message": reason,
                })),
                error: None,
                status: 0,
            },
        }
    }

    /// Builds the answer for a call that could not be judged: the call is stopped if the policy fails closed.
    pub fn unjudged(self, reason: &str, fail_closed: bool) -> HookAnswer {
        HookAnswer {
            output: None,
            error: Some(format!("[mcpmon] {reason}")),
            status: match fail_closed {
                true => STOPS,
                false => 1,
            },
        }
    }
}

/// Returns the verdict on a native call by all rules but those about servers, and the opinion that decides, if any rule
/// objects.
pub fn verdict(opinions: &[Opinion], observes: bool) -> (UseOutcome, Option<&Opinion>) {
    use mcpmon_policy::Decision;
    let counts = |opinion: &&Opinion| !ABOUT_SERVERS.contains(&opinion.rule.as_str());
    let with = |decision| {
        opinions
            .iter()
            .filter(counts)
            .find(|opinion| opinion.decision == decision)
    };
    match (with(Decision::Block), with(Decision::Ask), with(Decision::Audit)) {
        (Some(blocks), _, _) if observes => (UseOutcome::WouldBlock, Some(blocks)),
        (Some(blocks), _, _) => (UseOutcome::Blocked, Some(blocks)),
        (None, Some(asks), _) if observes => (UseOutcome::WouldAsk, Some(asks)),
        (None, Some(asks), _) => (UseOutcome::Asked, Some(asks)),
        (None, None, Some(notes)) => (UseOutcome::Audited, Some(notes)),
        (None, None, None) => (UseOutcome::Allowed, None),
    }
}

/// Records an event in the daemon or store that a wrapper of this session would use.
///
/// # Errors
/// Returns an error if the policy cannot be used, or there is neither a daemon nor a store.
pub fn record(client: HookClient, surroundings: Surroundings, event: Event) -> Result<(), JudgeError> {
    let server = client.server();
    let session = session(&host::above(), session_name().as_deref(), &host::boot());
    let options = Options {
        search: surroundings.search,
        trust: Trust::for_user(nix::unistd::geteuid().as_raw()),
        socket: Some(surroundings.socket),
        db: surroundings.db,
        conversation: Conversation {
            identity: PinKey {
                name: server.as_str().to_owned(),
                server,
                uid: nix::unistd::getuid().as_raw(),
            },
            server_type: ServerType::Stdio,
            session: session.as_ref().map(|session| session.id.clone()),
            layer: Layer::Hook,
        },
        agent: session.map(|session| session.agent),
        loaded: None,
    };
    note(&options, event)
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case(HookClient::ClaudeCode, r#"{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"ls"},"tool_use_id":"t"}"# => Some(("Bash".to_owned(), r#"{"command":"ls"}"#.to_owned())); "Claude Code")]
    #[test_case(HookClient::ClaudeCode, r#"{"hook_event_name":"PreToolUse","tool_name":"mcp__files__read","tool_input":{}}"# => None; "a tool of a server")]
    #[test_case(HookClient::ClaudeCode, r#"{"hook_event_name":"PostToolUse","tool_name":"Bash","tool_input":{}}"# => None; "afterwards")]
    #[test_case(HookClient::Codex, r#"{"hook_event_name":"PreToolUse","tool_name":"apply_patch","tool_input":"*** Begin Patch"}"# => Some(("apply_patch".to_owned(), r#"{"input":"*** Begin Patch"}"#.to_owned())); "Codex")]
    #[test_case(HookClient::Gemini, r#"{"hook_event_name":"BeforeTool","tool_name":"write_file","tool_input":{"file_path":"/a"}}"# => Some(("write_file".to_owned(), r#"{"file_path":"/a"}"#.to_owned())); "Gemini CLI")]
    #[test_case(HookClient::Cursor, r#"{"hook_event_name":"beforeShellExecution","command":"ls","cwd":"/x"}"# => Some(("Shell".to_owned(), r#"{"command":"ls","cwd":"/x"}"#.to_owned())); "a command in Cursor")]
    #[test_case(HookClient::Cursor, r#"{"hook_event_name":"beforeReadFile","file_path":"/a","content":"secret"}"# => Some(("Read".to_owned(), r#"{"file_path":"/a"}"#.to_owned())); "a file in Cursor, without its content")]
    #[test_case(HookClient::Cursor, r#"{"hook_event_name":"beforeMCPExecution","tool_name":"x","tool_input":"{}"}"# => None; "a tool of a server in Cursor")]
    fn inputs(client: HookClient, input: &str) -> Option<(String, String)> {
        let call = client.call(input.as_bytes()).expect("an input");
        call.map(|call| (call.tool, call.arguments))
    }

    #[test_case("" => "standard input is no JSON, as the hooks of claude-code have it: EOF while parsing a value at line 1 column 0"; "nothing")]
    #[test_case("[]" => "standard input is no JSON, as the hooks of claude-code have it: invalid type: sequence, expected a map at line 1 column 0"; "a list")]
    #[test_case("{}" => "standard input has no `hook_event_name`, as the hooks of claude-code have it"; "no event")]
    #[test_case(r#"{"hook_event_name":"PreToolUse"}"# => "standard input has no `tool_name`, as the hooks of claude-code have it"; "no tool")]
    #[test_case(r#"{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":7}"# => "standard input has no `tool_input`, as the hooks of claude-code have it"; "arguments of another type")]
    fn garbage(input: &str) -> String {
        let error = HookClient::ClaudeCode
            .call(input.as_bytes())
            .expect_err("no input");
        error.to_string()
    }

    fn opinion(rule: &str, decision: mcpmon_policy::Decision) -> Opinion {
        Opinion {
            rule: rule.to_owned(),
            decision,
            severity: mcpmon_model::Severity::High,
            reason: "it writes ~/.bashrc".to_owned(),
            remedy: None,
            decides: true,
        }
    }

    #[test]
    fn what_is_stopped_is_told_in_the_words_of_the_client() {
        let blocks = opinion("protected_file", mcpmon_policy::Decision::Block);
        for client in [HookClient::ClaudeCode, HookClient::Codex, HookClient::Gemini] {
            let answer = client.answer(Some((&blocks, None)));
            assert_eq!(
                (answer.status, answer.error.as_deref(), answer.output),
                (
                    2,
                    Some("[mcpmon] it writes ~/.bashrc (rule protected_file)"),
                    None
                )
            );
        }
        let answer = HookClient::Cursor.answer(Some((&blocks, None)));
        assert_eq!(answer.status, 0);
        assert_eq!(answer.output.expect("an object")["permission"], "deny");
    }

    #[test]
    fn what_is_not_stopped_is_not_approved_in_the_name_of_a_person() {
        for client in [
            HookClient::ClaudeCode,
            HookClient::Codex,
            HookClient::Gemini,
            HookClient::Cursor,
        ] {
            let answer = client.answer(None);
            let said = answer.output.map(|output| output.to_string()).unwrap_or_default();
            assert!(answer.status == 0 && !said.contains("allow"), "{client:?} {said}");
        }
    }

    #[test]
    fn a_call_that_cannot_be_judged_is_stopped_where_the_policy_says_so() {
        assert_eq!(HookClient::ClaudeCode.unjudged("x", false).status, 1);
        assert_eq!(HookClient::ClaudeCode.unjudged("x", true).status, 2);
    }

    #[test]
    fn a_client_that_can_asks_its_user() {
        use mcpmon_policy::Decision;
        let opinions = [
            opinion("pushes", Decision::Ask),
            opinion("noted", Decision::Audit),
        ];
        assert_eq!(verdict(&opinions, false), (UseOutcome::Asked, Some(&opinions[0])));
        assert_eq!(
            verdict(&opinions, true),
            (UseOutcome::WouldAsk, Some(&opinions[0]))
        );
        let asked = HookClient::ClaudeCode
            .ask(&opinions[0])
            .output
            .expect("an object");
        assert_eq!(asked["hookSpecificOutput"]["permissionDecision"], "ask");
        let asked = HookClient::Cursor.ask(&opinions[0]).output.expect("an object");
        assert_eq!(asked["permission"], "ask");
        let can = |client: HookClient, tool| client.can_ask(tool);
        assert!(can(HookClient::ClaudeCode, "Bash") && can(HookClient::Cursor, "Shell"));
        assert!(!can(HookClient::Cursor, "Read") && !can(HookClient::Codex, "Bash"));
    }

    #[test]
    fn a_client_lists_no_tools_and_needs_not() {
        use mcpmon_policy::Decision;
        let unknown = opinion("unknown_tool", Decision::Block);
        let blocks = opinion("no-shell", Decision::Block);
        let opinions = [unknown.clone(), blocks.clone()];
        assert_eq!(verdict(&opinions[..1], false), (UseOutcome::Allowed, None));
        assert_eq!(
            verdict(&opinions, false),
            (UseOutcome::Blocked, Some(&opinions[1]))
        );
        assert_eq!(
            verdict(&opinions, true),
            (UseOutcome::WouldBlock, Some(&opinions[1]))
        );
    }
}
