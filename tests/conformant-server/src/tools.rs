//! The implementation of the tools.

use std::{sync::atomic::Ordering, time::Duration};

use hyper::http::request::Parts;
use rmcp::{
    ErrorData, RoleServer,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, ContentBlock,
        LoggingLevel, LoggingMessageNotificationParam, ProgressNotificationParam, ResourceContents,
    },
    service::RequestContext,
};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::{
    content::{failure, picture, sound, text},
    http::Line,
    input::{self, Asked, Brought, Form, Question, is_stateless},
    server::{Change, Shared},
    skills::Edition,
};

/// The pause between two messages of one call.
const PAUSE: Duration = Duration::from_millis(50);
/// The time for which the server waits for a client whose stream was closed, because the SDK keeps no answer for later.
const AWAY: Duration = Duration::from_millis(1500);
/// The duration of a call that is not cancelled.
const LONG: Duration = Duration::from_secs(60);
/// The largest number of letters that are returned.
const MAX_LETTERS: u64 = 8 << 20;

/// A call, and the state that it may use.
pub(crate) struct Call<'c> {
    pub(crate) request: &'c CallToolRequestParams,
    pub(crate) context: &'c RequestContext<RoleServer>,
    pub(crate) shared: &'c Shared,
}

type Response = Result<CallToolResponse, ErrorData>;

impl Call<'_> {
    /// Executes the call.
    pub(crate) async fn answer(&self) -> Response {
        let name = self.request.name.as_ref();
        if let Some(form) = name.strip_prefix("test_input_required_result_").and_then(form) {
            return self.fill(&form);
        }
        let result = match name {
            "test_simple_text" => text("This is a simple text response for testing."),
            "test_image_content" => CallToolResult::success(vec![image()]),
            "test_audio_content" => CallToolResult::success(vec![ContentBlock::audio(sound(), "audio/wav")]),
            "test_embedded_resource" => CallToolResult::success(vec![resource(
                "test://embedded-resource",
                "text/plain",
                "A resource, embedded.",
            )]),
            "test_multiple_content_types" => CallToolResult::success(vec![
                ContentBlock::text("Multiple content types test:"),
                image(),
                resource(
                    "test://mixed-content-resource",
                    "application/json",
                    r#"{"test":"data","value":123}"#,
                ),
            ]),
            "test_error_handling" => failure("This tool intentionally returns an error for testing"),
            "test_tool_with_logging" => {
                self.log(&[
                    "Tool execution started",
                    "Tool processing data",
                    "Tool execution completed",
                ])
                .await
            }
            "test_logging_tool" => self.log(&["Something to know"]).await,
            "test_tool_with_progress" => self.progress().await,
            "test_reconnection" => self.reconnect().await,
            "test_header" => text(format!("in {}", self.argument("region"))),
            "json_schema_2020_12_tool" => text(self.argument("name")),
            "test_change_edition" => match Edition::from_name(&self.argument("edition")) {
                Some(edition) => {
                    self.shared.set_edition(edition);
                    text("It is served.")
                }
                None => failure("no such edition"),
            },
            "show_clock" | "set_clock" => text("12:00"),
            "test_trigger_tool_change" => self.change(Change::Tools).await,
            "test_trigger_prompt_change" => self.change(Change::Prompts).await,
            "slow" => self.be_slow().await,
            "cancelled" => text(self.shared.cancelled.load(Ordering::Relaxed).to_string()),
            "text" => text("x".repeat(self.letters())),
            "test_missing_capability" => return self.need_a_model(),
            "test_streaming_elicitation" => {
                self.progress().await;
                return self.ask(user_form()).await;
            }
            _ => return self.ask(self.question(name)?).await,
        };
        Ok(result.into())
    }

    fn argument(&self, name: &str) -> String {
        let arguments = self.request.arguments.as_ref();
        let argument = arguments.and_then(|arguments| arguments.get(name)?.as_str());
        argument.unwrap_or_default().to_owned()
    }

    fn letters(&self) -> usize {
        let arguments = self.request.arguments.as_ref();
        let letters = arguments.and_then(|arguments| arguments.get("letters")?.as_u64());
        usize::try_from(letters.unwrap_or_default().min(MAX_LETTERS)).unwrap_or_default()
    }

    fn brought(&self) -> Brought<'_> {
        Brought {
            responses: self.request.input_responses.as_ref(),
            state: self.request.request_state.as_deref(),
        }
    }

    fn question(&self, tool: &str) -> Result<Question, ErrorData> {
        Ok(match tool {
            "test_sampling" => Question::prompt("answer", &self.argument("prompt"), 100),
            "test_elicitation" => Question::form("answer", &self.argument("message"), &user_fields()),
            "test_elicitation_sep1034_defaults" => {
                Question::form("answer", "Please look at the defaults", &defaults())
            }
            "test_elicitation_sep1330_enums" => Question::form("answer", "Please choose", &choices()),
            _ => {
                return Err(ErrorData::invalid_params(
                    format!("there is no tool {tool}"),
                    None,
                ));
            }
        })
    }

    async fn ask(&self, question: Question) -> Response {
        let asked = input::ask(question, self.context, self.brought(), &self.shared.codec).await;
        Ok(match asked {
            Ok(Asked::Answered(answers)) => text(told(answers.values())).into(),
            Ok(Asked::Required(required)) => required.into(),
            Err(error) => failure(error).into(),
        })
    }

    fn fill(&self, form: &Form) -> Response {
        let client = self.context.client_capabilities().unwrap_or_default();
        Ok(match form.go_on(&client, self.brought(), &self.shared.codec)? {
            Asked::Answered(answers) => {
                let state = if form.keeps_state { "state-ok: " } else { "" };
                text(format!("{state}{}", told(answers.values()))).into()
            }
            Asked::Required(required) => required.into(),
        })
    }

    fn need_a_model(&self) -> Response {
        let client = self.context.client_capabilities().unwrap_or_default();
        if client.sampling.is_some() {
            return Ok(text("There is a model.").into());
        }
        let needed = ClientCapabilities::builder().enable_sampling().build();
        Err(ErrorData::missing_required_client_capability(needed))
    }

    async fn log(&self, messages: &[&str]) -> CallToolResult {
        let is_wanted = !is_stateless(self.context) || self.context.meta.log_level().is_some();
        for message in messages.iter().filter(|_| is_wanted) {
            let message = LoggingMessageNotificationParam::new(LoggingLevel::Info, json!(message));
            // Sending fails if the client is gone.
            drop(self.context.peer.notify_logging_message(message).await);
            sleep(PAUSE).await;
        }
        text("It is logged.")
    }

    async fn progress(&self) -> CallToolResult {
        for progress in [0.0, 50.0, 100.0] {
            if let Some(token) = self.context.meta.get_progress_token() {
                let told = ProgressNotificationParam::new(token, progress).with_total(100.0);
                // Sending fails if the client is gone.
                drop(self.context.peer.notify_progress(told).await);
            }
            sleep(PAUSE).await;
        }
        text("It is done.")
    }

    /// Closes the stream if the client can reconnect for the answer.
    async fn reconnect(&self) -> CallToolResult {
        let head = self.context.extensions.get::<Parts>();
        let in_session = head.filter(|head| head.headers.contains_key("mcp-session-id"));
        if let Some(line) = in_session.and_then(|head| head.extensions.get::<Line>()) {
            sleep(PAUSE).await;
            line.hang_up();
            sleep(AWAY).await;
        }
        text("The client is back.")
    }

    /// Announces a change to all listeners; a client with a handshake always gets it.
    async fn change(&self, change: Change) -> CallToolResult {
        // Sending fails if there are no listeners.
        drop(self.shared.changes.send(change));
        if !is_stateless(self.context) {
            let peer = &self.context.peer;
            drop(match change {
                Change::Tools => peer.notify_tool_list_changed().await,
                Change::Prompts => peer.notify_prompt_list_changed().await,
            });
        }
        text("They were told.")
    }

    async fn be_slow(&self) -> CallToolResult {
        tokio::select! {
            () = self.context.ct.cancelled() => {
                self.shared.cancelled.fetch_add(1, Ordering::Relaxed);
            }
            () = sleep(LONG) => {}
        }
        text("That took long.")
    }
}

fn image() -> ContentBlock {
    ContentBlock::image(picture(), "image/png")
}

fn resource(uri: &str, kind: &str, content: &str) -> ContentBlock {
    ContentBlock::resource(ResourceContents::text(content, uri).with_mime_type(kind))
}

/// Joins answers into a text with their whole content.
fn told<'a>(answers: impl Iterator<Item = &'a Value>) -> String {
    answers.map(Value::to_string).collect::<Vec<_>>().join(", ")
}

fn user_fields() -> Value {
    json!({
        "username": {"type": "string", "description": "User's response"},
        "email": {"type": "string", "description": "User's email address"},
    })
}

fn user_form() -> Question {
    Question::form("user", "Who are you?", &user_fields())
}

fn defaults() -> Value {
    json!({
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": true},
    })
}

fn choices() -> Value {
    let options = json!(["option1", "option2", "option3"]);
    let titled = json!([
        {"const": "value1", "title": "First"},
        {"const": "value2", "title": "Second"},
        {"const": "value3", "title": "Third"},
    ]);
    json!({
        "untitledSingle": {"type": "string", "enum": options},
        "titledSingle": {"type": "string", "oneOf": titled},
        "legacyEnum": {"type": "string", "enum": ["opt1", "opt2"], "enumNames": ["Option One", "Option Two"]},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": options}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled}},
    })
}

/// Returns the questions of a tool that the client has to call again with answers.
fn form(tool: &str) -> Option<Form> {
    let name = |key, message| Question::form(key, message, &json!({"name": {"type": "string"}}));
    let confirm = || Question::form("confirm", "Please confirm", &json!({"ok": {"type": "boolean"}}));
    let (rounds, keeps_state) = match tool {
        "elicitation" => (vec![vec![name("user_name", "What is your name?")]], false),
        "sampling" => {
            let question = Question::prompt("capital_question", "What is the capital of France?", 100);
            (vec![vec![question]], false)
        }
        "list_roots" => (vec![vec![Question::roots("client_roots")]], false),
        "request_state" | "tampered_state" => (vec![vec![confirm()]], true),
        "multiple_inputs" => {
            let questions = vec![
                name("user_name", "What is your name?"),
                Question::prompt("greeting", "Generate a greeting", 50),
                Question::roots("client_roots"),
            ];
            (vec![questions], true)
        }
        "multi_round" => {
            let color = json!({"color": {"type": "string"}});
            let second = Question::form("step2", "Step 2: What is your favorite color?", &color);
            (
                vec![vec![name("step1", "Step 1: What is your name?")], vec![second]],
                true,
            )
        }
        "capabilities" => {
            let questions = vec![
                name("user_name", "What is your name?"),
                Question::prompt("greeting", "Greet", 50),
            ];
            (vec![questions], false)
        }
        _ => return None,
    };
    Some(Form {
        rounds,
        keeps_state,
        adapts: tool == "capabilities",
    })
}
