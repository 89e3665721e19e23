//! Questions to the client. A client with a handshake is asked at once, and a stateless client in the result.

use std::collections::BTreeMap;

use rmcp::{
    ErrorData, RoleServer,
    model::{
        ClientCapabilities, InputRequest, InputRequiredResult, InputResponses, ProtocolVersion,
        RequestStateCodec,
    },
    service::RequestContext,
};
use serde_json::{Value, json};

/// A question: its key, and the request in the protocol's form.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    pub(crate) key: &'static str,
    pub(crate) request: Value,
}

/// The questions that are asked before an action, in rounds.
#[derive(Clone, Debug)]
pub(crate) struct Form {
    pub(crate) rounds: Vec<Vec<Question>>,
    /// True if the client has to return a state that holds the number of the round.
    pub(crate) keeps_state: bool,
    /// True if questions that the client cannot answer are left out.
    pub(crate) adapts: bool,
}

/// The answers and the state that the client sends when it asks again.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Brought<'r> {
    pub(crate) responses: Option<&'r InputResponses>,
    pub(crate) state: Option<&'r str>,
}

/// The outcome of the questions.
#[derive(Debug)]
pub(crate) enum Asked {
    /// All questions are answered.
    Answered(BTreeMap<String, Value>),
    /// The client has to ask again, with answers.
    Required(InputRequiredResult),
}

impl Question {
    /// Asks the user for a form with these fields, all of them required.
    pub(crate) fn form(key: &'static str, message: &str, fields: &Value) -> Self {
        let required: Vec<&String> = fields
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, _)| name)
            .collect();
        let schema = json!({"type": "object", "properties": fields, "required": required});
        let params = json!({"message": message, "requestedSchema": schema});
        Self {
            key,
            request: json!({"method": "elicitation/create", "params": params}),
        }
    }

    /// Asks the client's model for an answer to a prompt.
    pub(crate) fn prompt(key: &'static str, text: &str, tokens: u32) -> Self {
        let message = json!({"role": "user", "content": {"type": "text", "text": text}});
        let params = json!({"messages": [message], "maxTokens": tokens});
        Self {
            key,
            request: json!({"method": "sampling/createMessage", "params": params}),
        }
    }

    /// Asks for the list of the client's roots.
    pub(crate) fn roots(key: &'static str) -> Self {
        Self {
            key,
            request: json!({"method": "roots/list", "params": {}}),
        }
    }

    fn method(&self) -> &str {
        self.request["method"].as_str().unwrap_or_default()
    }

    fn can_be_asked(&self, client: &ClientCapabilities) -> bool {
        match self.method() {
            "elicitation/create" => client.elicitation.is_some(),
            "sampling/createMessage" => client.sampling.is_some(),
            _ => client.roots.is_some(),
        }
    }

    /// Returns whether `answers` has an answer to this question that is of the right kind.
    fn is_answered(&self, answers: &InputResponses) -> bool {
        let Some(answer) = answers.get(self.key) else {
            return false;
        };
        match self.method() {
            "elicitation/create" => {
                let required = self.request["params"]["requestedSchema"]["required"].as_array();
                let has = |name: &Value| {
                    name.as_str()
                        .is_some_and(|name| !answer["content"][name].is_null())
                };
                answer["action"] == "accept" && required.into_iter().flatten().all(has)
            }
            "sampling/createMessage" => answer["content"]["text"].is_string(),
            _ => answer["roots"].is_array(),
        }
    }

    /// Returns the request as the SDK's type.
    fn parsed(&self) -> Result<InputRequest, ErrorData> {
        serde_json::from_value(self.request.clone())
            .map_err(|error| ErrorData::internal_error(error.to_string(), None))
    }

    async fn ask(&self, context: &RequestContext<RoleServer>) -> Result<Value, String> {
        let told = |error: rmcp::ServiceError| error.to_string();
        let answer = match self.parsed().map_err(|error| error.to_string())? {
            InputRequest::Elicitation(request) => serde_json::to_value(
                context
                    .peer
                    .create_elicitation(request.params)
                    .await
                    .map_err(told)?,
            ),
            InputRequest::CreateMessage(request) => {
                serde_json::to_value(context.peer.create_message(request.params).await.map_err(told)?)
            }
            InputRequest::ListRoots(_) => {
                serde_json::to_value(context.peer.list_roots().await.map_err(told)?)
            }
            _ => return Err("no such question".to_owned()),
        };
        answer.map_err(|error| error.to_string())
    }
}

/// Returns whether the client makes requests without a handshake.
pub(crate) fn is_stateless(context: &RequestContext<RoleServer>) -> bool {
    context
        .protocol_version()
        .is_some_and(|version| version.as_str() >= ProtocolVersion::V_2026_07_28.as_str())
}

/// Asks one question, of clients with and without a handshake. The error is the text of a tool error.
pub(crate) async fn ask(
    question: Question,
    context: &RequestContext<RoleServer>,
    brought: Brought<'_>,
    codec: &RequestStateCodec,
) -> Result<Asked, String> {
    let client = context.client_capabilities().unwrap_or_default();
    if !question.can_be_asked(&client) {
        return Err(format!("the client cannot answer {}", question.method()));
    }
    if is_stateless(context) {
        let form = Form::of(question);
        return form
            .go_on(&client, brought, codec)
            .map_err(|error| error.to_string());
    }
    let answer = question.ask(context).await?;
    Ok(Asked::Answered(BTreeMap::from([(
        question.key.to_owned(),
        answer,
    )])))
}

impl Form {
    /// Returns a form of one question, in one round.
    pub(crate) fn of(question: Question) -> Self {
        Self {
            rounds: vec![vec![question]],
            keeps_state: false,
            adapts: false,
        }
    }

    /// Continues from the round that the client's state names.
    ///
    /// # Errors
    /// Returns an error if the client's state was not made by this server.
    pub(crate) fn go_on(
        &self,
        client: &ClientCapabilities,
        brought: Brought<'_>,
        codec: &RequestStateCodec,
    ) -> Result<Asked, ErrorData> {
        let round = match brought.state.filter(|_| self.keeps_state) {
            Some(state) => codec.open_json(state).map_err(|error| {
                ErrorData::invalid_params(format!("not a state of this server: {error}"), None)
            })?,
            None => 0,
        };
        let is_lost = self.keeps_state && brought.state.is_none();
        let questions = self.questions(round, client);
        match brought.responses.filter(|_| !is_lost) {
            Some(responses) if questions.iter().all(|question| question.is_answered(responses)) => {}
            _ => return self.required(round, client, codec),
        }
        if round + 1 < self.rounds.len() {
            return self.required(round + 1, client, codec);
        }
        let answers = brought.responses.into_iter().flatten();
        Ok(Asked::Answered(
            answers
                .map(|(key, answer)| (key.clone(), answer.clone()))
                .collect(),
        ))
    }

    fn questions(&self, round: usize, client: &ClientCapabilities) -> Vec<&Question> {
        let questions = self.rounds.get(round).into_iter().flatten();
        questions
            .filter(|question| !self.adapts || question.can_be_asked(client))
            .collect()
    }

    fn required(
        &self,
        round: usize,
        client: &ClientCapabilities,
        codec: &RequestStateCodec,
    ) -> Result<Asked, ErrorData> {
        let state = || {
            codec
                .seal_json(&round)
                .map_err(|error| ErrorData::internal_error(error.to_string(), None))
        };
        let requests = self
            .questions(round, client)
            .into_iter()
            .map(|question| Ok((question.key.to_owned(), question.parsed()?)))
            .collect::<Result<_, ErrorData>>()?;
        let state = self.keeps_state.then(state).transpose()?;
        Ok(Asked::Required(InputRequiredResult::new(Some(requests), state)))
    }
}
