//! Messages from the server.

use std::borrow::Cow;

use mcpmon_model::{
    Answer, AnswerOutcome, AnsweredRequest, ClientRequestKind, Content, Era, FromServer, Introduction,
    ListKind, ListedItem, Listing, Message, RequestId, ResultKind, ServerRequestKind, Timestamp, Trace,
};

use super::{
    super::{
        json::{Value, ValueKind},
        jsonrpc::{self, Envelope, EnvelopeMember, Payload},
    },
    DecodedMessage, Dialogue, ForwardEffect, InvalidMessage, ListPage, MAX_NAME, Manner,
    PendingClientRequest, Purpose, ResultShape,
    changes::{ACKNOWLEDGED, acknowledged, announced},
    client::cancelled,
    fields::meta,
    is_request, is_too_long,
};

/// Most items on a page of a list; no client could use more.
const MAX_ITEMS: usize = 1 << 16;

/// The members of a skill's entry.
const SKILL: [&str; 3] = ["uri", "frontmatter", "resources"];

const MISSPELLED: InvalidMessage = InvalidMessage::Invalid(jsonrpc::MISSPELLED);

impl Dialogue {
    pub(super) fn read_server<'a>(
        &mut self,
        envelope: &'a Envelope<'a>,
    ) -> Result<DecodedMessage<'a>, InvalidMessage> {
        match (&envelope.payload, &envelope.id) {
            (Payload::Method { method, params }, Some(id)) => self.ask(envelope, id, method, *params),
            (Payload::Method { method, params }, None) => notification(envelope, method, *params, self.era),
            (Payload::Result(part), Some(id)) => {
                let (at, request) = self.asked(id)?;
                result(envelope, *part, at, request)
            }
            (Payload::Error(part), Some(id)) => {
                let (at, request) = self.asked(id)?;
                error(envelope, *part, at, request)
            }
            (Payload::Result(_) | Payload::Error(_), None) => Err(InvalidMessage::Unasked),
        }
    }

    /// If an answer with this id is the first page of a list of this kind, stops waiting for it, and returns the era
    /// and trace of its request.
    pub fn lists(&mut self, id: &RequestId, kind: ListKind) -> Option<(Era, Trace<'static>)> {
        let asks = |request: &PendingClientRequest| {
            request.purpose == Purpose::List(ListPage::First)
                && request.question == ClientRequestKind::List(kind)
        };
        if !self.requests.value(id).is_some_and(asks) {
            return None;
        }
        let (_, mut request) = self.asked(id).ok()?;
        Some((request.era, trace(&mut request)))
    }

    /// Returns the request that an answer belongs to: one that waits, or one that was answered and may be answered
    /// again.
    fn asked(&mut self, id: &RequestId) -> Result<(Timestamp, PendingClientRequest), InvalidMessage> {
        let Some((at, request)) = self.requests.take(id) else {
            return self.answered.again(id).ok_or(InvalidMessage::Unasked);
        };
        self.answered.remember(id, at, &request);
        Ok((at, request))
    }

    fn ask<'a>(
        &self,
        envelope: &'a Envelope<'a>,
        id: &RequestId,
        method: &'a str,
        params: Option<Value<'a>>,
    ) -> Result<DecodedMessage<'a>, InvalidMessage> {
        let ask = match method {
            "sampling/createMessage" => ServerRequestKind::Sampling,
            "elicitation/create" => ServerRequestKind::Elicitation,
            "roots/list" => ServerRequestKind::Roots,
            _ => ServerRequestKind::Other,
        };
        let is_repeated = !self.answered.is_none() && self.asks.value(id) == Some(&ask);
        if let Some(objection) = self.asks.objection(id)
            && !is_repeated
        {
            return Err(InvalidMessage::Refused(objection));
        }
        if is_too_long(id) || method.len() > MAX_NAME {
            return Err(InvalidMessage::Refused("its id or method is too long"));
        }
        // A reader that accepts another spelling would show members that were not inspected.
        const QUESTION: [&str; 4] = ["mode", "url", "message", "requestedSchema"];
        let is_misspelled = |params: Value<'_>| params.pick(QUESTION).is_none();
        if ask == ServerRequestKind::Elicitation && params.is_some_and(is_misspelled) {
            return Err(MISSPELLED);
        }
        let (_, trace) = meta(params.and_then(|params| params.member("_meta")));
        let content = FromServer::Ask {
            ask,
            method: Cow::Borrowed(method),
            params: params.map(Value::raw),
        };
        Ok(reading(
            envelope,
            Era::Handshake,
            trace,
            content,
            ForwardEffect::Reply(ask),
        ))
    }
}

fn reading<'a>(
    envelope: &'a Envelope<'a>,
    era: Era,
    trace: Trace<'a>,
    content: FromServer<'a>,
    sequel: ForwardEffect,
) -> DecodedMessage<'a> {
    DecodedMessage {
        message: Message {
            era,
            id: envelope.id.as_ref(),
            trace,
            size: envelope.whole.range().len(),
            content: Content::Server(content),
        },
        shape: ResultShape::Other,
        sequel,
    }
}

fn notification<'a>(
    envelope: &'a Envelope<'a>,
    method: &'a str,
    params: Option<Value<'a>>,
    era: Era,
) -> Result<DecodedMessage<'a>, InvalidMessage> {
    if is_request(method) {
        return Err(InvalidMessage::Invalid("a request without an id"));
    }
    let content = match method {
        "notifications/tools/list_changed" => FromServer::ListChanged(ListKind::Tools),
        "notifications/prompts/list_changed" => FromServer::ListChanged(ListKind::Prompts),
        "notifications/resources/list_changed" => FromServer::ListChanged(ListKind::Resources),
        _ => FromServer::Notice {
            method: Cow::Borrowed(method),
            params: params.map(Value::raw),
        },
    };
    let sequel = match method {
        ACKNOWLEDGED => acknowledged(params).unwrap_or(ForwardEffect::Nothing),
        _ => cancelled(method, params).map_or(ForwardEffect::Nothing, ForwardEffect::Cancelled),
    };
    let (_, trace) = meta(params.and_then(|params| params.member("_meta")));
    Ok(reading(envelope, era, trace, content, sequel))
}

fn trace<'a>(request: &mut PendingClientRequest) -> Trace<'a> {
    let owned = |id: Box<str>| Cow::Owned(id.into_string());
    Trace {
        tool_call: request.tool_call.take().map(owned),
        parent: request.parent.take().map(owned),
    }
}

fn error<'a>(
    envelope: &'a Envelope<'a>,
    part: EnvelopeMember<'a>,
    at: Timestamp,
    mut request: PendingClientRequest,
) -> Result<DecodedMessage<'a>, InvalidMessage> {
    let [code, message, _] = part.value.pick(["code", "message", "data"]).ok_or(MISSPELLED)?;
    let outcome = AnswerOutcome::Error {
        code: code.and_then(jsonrpc::integer).unwrap_or_default(),
        message: message.and_then(Value::string).unwrap_or_default(),
        error: part.value.raw(),
    };
    let trace = trace(&mut request);
    let asked = AnsweredRequest {
        what: request.question,
        at,
    };
    let answer = FromServer::Answer(Answer { to: asked, outcome });
    Ok(reading(
        envelope,
        request.era,
        trace,
        answer,
        ForwardEffect::Nothing,
    ))
}

fn result<'a>(
    envelope: &'a Envelope<'a>,
    part: EnvelopeMember<'a>,
    at: Timestamp,
    mut request: PendingClientRequest,
) -> Result<DecodedMessage<'a>, InvalidMessage> {
    let (result, trace) = (part.value, trace(&mut request));
    match (request.purpose, &request.question) {
        (Purpose::List(page), ClientRequestKind::List(kind)) => {
            let listing = FromServer::Listing(listing(result, *kind, page)?);
            return Ok(reading(
                envelope,
                request.era,
                trace,
                listing,
                ForwardEffect::Nothing,
            ));
        }
        (Purpose::Part, ClientRequestKind::Part { of, uri }) => {
            let listing = FromServer::Listing(match of {
                ListKind::Skills => skill(result, uri)?,
                ListKind::Tools | ListKind::Prompts | ListKind::Resources | ListKind::Templates => Listing {
                    is_part: true,
                    ..listing(result, *of, ListPage::First)?
                },
            });
            return Ok(reading(
                envelope,
                request.era,
                trace,
                listing,
                ForwardEffect::Nothing,
            ));
        }
        (Purpose::Introduction, _) => {
            let introduction = FromServer::Introduction(introduction(result)?);
            return Ok(reading(
                envelope,
                request.era,
                trace,
                introduction,
                match request.era {
                    Era::Handshake => ForwardEffect::Announced(announced(result)),
                    Era::Stateless => ForwardEffect::Nothing,
                },
            ));
        }
        _ => {}
    }
    let kind = kind(result, request.purpose)?;
    let sequel = match (kind, &request.question) {
        (ResultKind::Task, ClientRequestKind::Call { tool: Some(tool) }) => became_task(result, tool),
        _ => ForwardEffect::Nothing,
    };
    let shape = match (request.purpose, kind) {
        // A client that requested a task accepts only a task or an error.
        (Purpose::Call(Manner::Task), ResultKind::Task) => ResultShape::Other,
        (Purpose::Call(_) | Purpose::TaskResult, _) => ResultShape::Call,
        (
            Purpose::TaskStatus | Purpose::Other | Purpose::Introduction | Purpose::List(_) | Purpose::Part,
            _,
        ) => ResultShape::Other,
    };
    let answer = Answer {
        to: AnsweredRequest {
            what: request.question,
            at,
        },
        outcome: AnswerOutcome::Result {
            result: result.raw(),
            kind,
        },
    };
    Ok(DecodedMessage {
        shape,
        ..reading(envelope, request.era, trace, FromServer::Answer(answer), sequel)
    })
}

/// Returns the kind of a result. The status of a task is that of the result in it, once there is one.
fn kind(result: Value<'_>, purpose: Purpose) -> Result<ResultKind, InvalidMessage> {
    let names = ["resultType", "isError", "task", "result", "inputRequests"];
    let [result_type, is_error, task, inner, requests] = result.pick_of_result(names).ok_or(MISSPELLED)?;
    let failed = |is_error: Option<Value<'_>>| is_error.is_some_and(Value::is_true);
    Ok(match (result_type.and_then(Value::string).as_deref(), purpose) {
        (Some("input_required"), _) => ResultKind::InputRequired,
        // A task's status, and any result in which a lenient client would see requests for input.
        _ if requests.is_some_and(|requests| !requests.is_null()) => ResultKind::InputRequired,
        (Some("task"), _) => ResultKind::Task,
        (_, Purpose::Call(Manner::Task)) if task.is_some_and(Value::is_object) => ResultKind::Task,
        (_, Purpose::TaskStatus) => match inner {
            Some(inner) if failed(inner.member("isError")) => ResultKind::Failed,
            Some(_) | None => ResultKind::Complete,
        },
        _ if failed(is_error) => ResultKind::Failed,
        _ => ResultKind::Complete,
    })
}

/// Returns the effect of a result that is a task. Its id is in the result itself since 2026-07-28, one level deeper
/// before.
fn became_task(result: Value<'_>, tool: &str) -> ForwardEffect {
    let flat = result.member("taskId");
    let id = flat.or_else(|| result.member("task")?.member("taskId"));
    id.and_then(Value::string)
        .map_or(ForwardEffect::Nothing, |id| ForwardEffect::Task {
            id: (&*id).into(),
            tool: tool.into(),
        })
}

fn listing(result: Value<'_>, kind: ListKind, page: ListPage) -> Result<Listing<'_>, InvalidMessage> {
    let (list, key) = match kind {
        ListKind::Tools => ("tools", "name"),
        ListKind::Prompts => ("prompts", "name"),
        ListKind::Resources => ("resources", "uri"),
        ListKind::Templates => ("resourceTemplates", "uriTemplate"),
        ListKind::Skills => ("skills", "uri"),
    };
    let [list, cursor] = result.pick_of_result([list, "nextCursor"]).ok_or(MISSPELLED)?;
    let list = list
        .filter(|list| list.kind() == ValueKind::Array)
        .ok_or(InvalidMessage::Invalid("the list is missing"))?;
    let mut items = Vec::new();
    for item in list.items() {
        if items.len() == MAX_ITEMS {
            return Err(InvalidMessage::Invalid("the list is too long"));
        }
        let [name, ..] = match kind {
            ListKind::Skills => item.pick(SKILL),
            ListKind::Tools | ListKind::Prompts | ListKind::Resources | ListKind::Templates => {
                item.pick([key]).map(|[name]| [name, None, None])
            }
        }
        .ok_or(MISSPELLED)?;
        let name = name
            .and_then(Value::string)
            .ok_or(InvalidMessage::Invalid("an item of the list has no name"))?;
        items.push(ListedItem {
            name,
            definition: item.raw(),
        });
    }
    Ok(Listing {
        kind,
        items,
        continued: page == ListPage::Later,
        more: cursor.is_some_and(|cursor| !cursor.is_null()),
        is_part: false,
        result: result.raw(),
        again: None,
    })
}

/// Reads the result of `skills/get`: the entry of the requested skill.
fn skill<'a>(result: Value<'a>, asked: &str) -> Result<Listing<'a>, InvalidMessage> {
    let [skill] = result.pick_of_result(["skill"]).ok_or(MISSPELLED)?;
    let skill = skill.ok_or(InvalidMessage::Invalid("the skill is missing"))?;
    let [uri, ..] = skill.pick(SKILL).ok_or(MISSPELLED)?;
    let uri = uri
        .and_then(Value::string)
        .ok_or(InvalidMessage::Invalid("the skill has no URI"))?;
    if uri != asked {
        return Err(InvalidMessage::Invalid("the skill is another than was asked for"));
    }
    Ok(Listing {
        kind: ListKind::Skills,
        items: vec![ListedItem {
            name: uri,
            definition: skill.raw(),
        }],
        continued: false,
        more: false,
        is_part: true,
        result: result.raw(),
        again: None,
    })
}

fn introduction(result: Value<'_>) -> Result<Introduction<'_>, InvalidMessage> {
    let [instructions, info] = result
        .pick_of_result(["instructions", "serverInfo"])
        .ok_or(MISSPELLED)?;
    // `_meta` is read by its exact name only: no decision depends on it, and some servers also send `meta: null`.
    let meta = result.member("_meta");
    let instructions = match instructions {
        Some(value) if !value.is_null() => Some(
            value
                .string()
                .ok_or(InvalidMessage::Invalid("the instructions are not a string"))?,
        ),
        Some(_) | None => None,
    };
    let info = info.or_else(|| meta?.member("io.modelcontextprotocol/serverInfo"));
    Ok(Introduction {
        instructions,
        name: info.and_then(|info| info.member("name")).and_then(Value::string),
        result: result.raw(),
    })
}
