//! Messages from the client.

use std::borrow::Cow;

use mcpmon_model::{Call, ClientRequestKind, Content, Era, FromClient, ListKind, Message, RequestId, Trace};

use super::{
    super::{
        json::Value,
        jsonrpc::{self, Envelope, Payload},
    },
    DecodedMessage, Dialogue, ForwardEffect, InvalidMessage, ListPage, MAX_NAME, Manner,
    PendingClientRequest, Purpose, ResultShape,
    fields::{Params, meta},
    is_request, is_too_long,
};

/// Ids of other layers that are longer are not kept for the answer.
const MAX_TRACE: usize = 1 << 10;

impl Dialogue {
    pub(super) fn read_client<'a>(
        &mut self,
        era: Era,
        envelope: &'a Envelope<'a>,
    ) -> Result<DecodedMessage<'a>, InvalidMessage> {
        match (&envelope.payload, &envelope.id) {
            (Payload::Method { method, params }, Some(id)) => {
                let objection = self.requests.objection(id);
                if let Some(objection) = objection
                    && self.answered.is_none()
                {
                    return Err(InvalidMessage::Refused(objection));
                }
                if is_too_long(id) || method.len() > MAX_NAME {
                    return Err(InvalidMessage::Refused("its id or method is too long"));
                }
                let reading = self.request(era, envelope, method, *params)?;
                match objection {
                    Some(objection) if !self.is_repeated(id, &reading.sequel) => {
                        Err(InvalidMessage::Refused(objection))
                    }
                    Some(_) | None => Ok(reading),
                }
            }
            (Payload::Method { method, params }, None) => notification(envelope, method, *params, self.era),
            (Payload::Result(part) | Payload::Error(part), Some(id)) => {
                let (_, ask) = self.asks.take(id).ok_or(InvalidMessage::Unasked)?;
                let reply = FromClient::Reply {
                    to: ask,
                    body: part.value.raw(),
                };
                Ok(reading(
                    envelope,
                    Era::Handshake,
                    Trace::default(),
                    reply,
                    ForwardEffect::Nothing,
                ))
            }
            (Payload::Result(_) | Payload::Error(_), None) => Err(InvalidMessage::Unasked),
        }
    }

    /// Returns whether a waiting request is the same: its sender got no answer on the channel of the first one.
    fn is_repeated(&self, id: &RequestId, sequel: &ForwardEffect) -> bool {
        match (self.requests.value(id), sequel) {
            (Some(waiting), ForwardEffect::Answer(request)) => waiting.asks_like(request),
            _ => false,
        }
    }

    fn request<'a>(
        &self,
        told: Era,
        envelope: &'a Envelope<'a>,
        method: &'a str,
        params: Option<Value<'a>>,
    ) -> Result<DecodedMessage<'a>, InvalidMessage> {
        let params = Params::of(params);
        let (era, trace) = meta(params.meta);
        // This method exists in this era only, and a probe may give no version.
        let era = if method == "server/discover" {
            Era::Stateless
        } else {
            era.max(told)
        };
        let (content, question, purpose) = self.meaning(method, &params)?;
        let request = PendingClientRequest {
            question,
            purpose,
            era,
            tool_call: kept(trace.tool_call.as_deref()),
            parent: kept(trace.parent.as_deref()),
        };
        Ok(reading(
            envelope,
            era,
            trace,
            content,
            ForwardEffect::Answer(request),
        ))
    }

    /// Returns the meaning of a request, and the information for reading its answer.
    fn meaning<'a>(
        &self,
        method: &'a str,
        params: &Params<'a>,
    ) -> Result<(FromClient<'a>, ClientRequestKind, Purpose), InvalidMessage> {
        let other = FromClient::Request {
            method: Cow::Borrowed(method),
            params: params.whole.map(Value::raw),
        };
        let list = |kind| {
            let page = match params.strict()?.cursor {
                Some(_) => ListPage::Later,
                None => ListPage::First,
            };
            Ok((ClientRequestKind::List(kind), Purpose::List(page)))
        };
        let part = |of| {
            let uri = (&*params.uri()?).into();
            Ok((ClientRequestKind::Part { of, uri }, Purpose::Part))
        };
        let task = |purpose| {
            let id = params.strict()?.task_id.and_then(Value::string);
            let tool = id.and_then(|id| self.tasks.tool(&id)).map(Box::from);
            Ok((ClientRequestKind::Call { tool }, purpose))
        };
        let (question, purpose) = match method {
            "tools/call" => return call(params),
            "prompts/get" => return prompt(params),
            "resources/read" => {
                let uri = params.uri()?;
                let question = ClientRequestKind::Read { uri: (&*uri).into() };
                return Ok((FromClient::Read { uri }, question, Purpose::Other));
            }
            // One without a resource is to nothing, and the server's to refuse in the words of its revision.
            "resources/subscribe" if params.strict()?.uri.is_some() => {
                let read = FromClient::Read { uri: params.uri()? };
                return Ok((
                    read,
                    ClientRequestKind::Other {
                        method: method.into(),
                    },
                    Purpose::Other,
                ));
            }
            "tools/list" => list(ListKind::Tools)?,
            "prompts/list" => list(ListKind::Prompts)?,
            "resources/list" => list(ListKind::Resources)?,
            "resources/templates/list" => list(ListKind::Templates)?,
            "skills/list" => list(ListKind::Skills)?,
            "skills/get" => part(ListKind::Skills)?,
            "resources/directory/read" => part(ListKind::Resources)?,
            "tasks/get" => task(Purpose::TaskStatus)?,
            "tasks/result" => task(Purpose::TaskResult)?,
            "initialize" | "server/discover" => (
                ClientRequestKind::Other {
                    method: method.into(),
                },
                Purpose::Introduction,
            ),
            _ => (
                ClientRequestKind::Other {
                    method: method.into(),
                },
                Purpose::Other,
            ),
        };
        Ok((other, question, purpose))
    }
}

fn reading<'a>(
    envelope: &'a Envelope<'a>,
    era: Era,
    trace: Trace<'a>,
    content: FromClient<'a>,
    sequel: ForwardEffect,
) -> DecodedMessage<'a> {
    DecodedMessage {
        message: Message {
            era,
            id: envelope.id.as_ref(),
            trace,
            size: envelope.whole.range().len(),
            content: Content::Client(content),
        },
        shape: ResultShape::Other,
        sequel,
    }
}

fn kept(trace: Option<&str>) -> Option<Box<str>> {
    trace.filter(|trace| trace.len() <= MAX_TRACE).map(Box::from)
}

fn call<'a>(params: &Params<'a>) -> Result<(FromClient<'a>, ClientRequestKind, Purpose), InvalidMessage> {
    let tool = params.name()?;
    let arguments = params.arguments;
    if arguments.is_some_and(|arguments| !arguments.is_object() && !arguments.is_null()) {
        return Err(InvalidMessage::Invalid("the arguments are not an object"));
    }
    let question = ClientRequestKind::Call {
        tool: Some((&*tool).into()),
    };
    let manner = match params.task {
        Some(_) => Manner::Task,
        None => Manner::Direct,
    };
    let call = Call {
        tool,
        arguments: arguments.map(Value::raw),
        resumes: params.input_responses.or(params.request_state).map(Value::raw),
    };
    Ok((FromClient::Call(call), question, Purpose::Call(manner)))
}

fn prompt<'a>(params: &Params<'a>) -> Result<(FromClient<'a>, ClientRequestKind, Purpose), InvalidMessage> {
    let name = params.name()?;
    let question = ClientRequestKind::Prompt {
        name: (&*name).into(),
    };
    let prompt = FromClient::Prompt {
        name,
        arguments: params.arguments.map(Value::raw),
    };
    Ok((prompt, question, Purpose::Other))
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
    let sequel = cancelled(method, params).map_or(ForwardEffect::Nothing, ForwardEffect::Cancelled);
    let (_, trace) = meta(params.and_then(|params| params.member("_meta")));
    let notice = FromClient::Notice {
        method: Cow::Borrowed(method),
        params: params.map(Value::raw),
    };
    Ok(reading(envelope, era, trace, notice, sequel))
}

/// Returns the request that a notification cancels.
pub(super) fn cancelled(method: &str, params: Option<Value<'_>>) -> Option<RequestId> {
    if method != "notifications/cancelled" {
        return None;
    }
    jsonrpc::request_id(params?.member("requestId")?)
}
