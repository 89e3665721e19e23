//! What a client says.

use std::borrow::Cow;

use super::{
    super::{
        json::Value,
        jsonrpc::{self, Envelope, Payload},
    },
    Dialogue, LONGEST_NAME, Manner, Page, Purpose, Reading, Request, Sequel, Shape, Unfit,
    fields::{meta, pick},
    is_request, is_too_long,
};
use crate::model::{Call, Content, Era, FromClient, ListKind, Message, Question, RequestId, Trace};

/// Ids of other layers that are longer are not kept for the answer.
const LONGEST_TRACE: usize = 1 << 10;

const MISSPELLED: Unfit = Unfit::Invalid("a parameter's name differs from a known one in case only");

impl Dialogue {
    pub(super) fn read_client<'a>(&mut self, envelope: &'a Envelope<'a>) -> Result<Reading<'a>, Unfit> {
        match (&envelope.payload, &envelope.id) {
            (Payload::Method { method, params }, Some(id)) => {
                if let Some(objection) = self.requests.objection(id) {
                    return Err(Unfit::Refused(objection));
                }
                if is_too_long(id) || method.len() > LONGEST_NAME {
                    return Err(Unfit::Refused("its id or method is too long"));
                }
                self.request(envelope, method, *params)
            }
            (Payload::Method { method, params }, None) => notification(envelope, method, *params, self.era),
            (Payload::Result(part) | Payload::Error(part), Some(id)) => {
                let (_, ask) = self.asks.take(id).ok_or(Unfit::Unasked)?;
                let reply = FromClient::Reply {
                    to: ask,
                    body: part.value.raw(),
                };
                Ok(reading(
                    envelope,
                    Era::Handshake,
                    Trace::default(),
                    reply,
                    Sequel::Nothing,
                ))
            }
            (Payload::Result(_) | Payload::Error(_), None) => Err(Unfit::Unasked),
        }
    }

    fn request<'a>(
        &self,
        envelope: &'a Envelope<'a>,
        method: &'a str,
        params: Option<Value<'a>>,
    ) -> Result<Reading<'a>, Unfit> {
        let (era, trace) = meta(params);
        let other = || FromClient::Request {
            method: Cow::Borrowed(method),
            params: params.map(Value::raw),
        };
        let question = || Question::Other {
            method: method.into(),
        };
        let list = |kind| -> Result<_, Unfit> {
            let [cursor] = picked(params, ["cursor"])?;
            let page = if cursor.is_some() {
                Page::Later
            } else {
                Page::First
            };
            Ok((other(), Question::List(kind), Purpose::List(page)))
        };
        let task = |purpose| -> Result<_, Unfit> {
            let [task] = picked(params, ["taskId"])?;
            let tool = task
                .and_then(Value::string)
                .and_then(|task| self.tasks.tool(&task));
            let tool = tool.map(Box::from);
            Ok((other(), Question::Call { tool }, purpose))
        };
        let (content, question, purpose) = match method {
            "tools/call" => call(params)?,
            "resources/read" => {
                let uri = name(params, "uri")?;
                let question = Question::Read { uri: (&*uri).into() };
                (FromClient::Read { uri }, question, Purpose::Other)
            }
            "resources/subscribe" => {
                let uri = name(params, "uri")?;
                (FromClient::Read { uri }, question(), Purpose::Other)
            }
            "prompts/get" => prompt(params)?,
            "tools/list" => list(ListKind::Tools)?,
            "prompts/list" => list(ListKind::Prompts)?,
            "resources/list" => list(ListKind::Resources)?,
            "resources/templates/list" => list(ListKind::Templates)?,
            "tasks/get" => task(Purpose::TaskStatus)?,
            "tasks/result" => task(Purpose::TaskResult)?,
            "initialize" => (other(), question(), Purpose::Introduction),
            "server/discover" => (other(), question(), Purpose::Introduction),
            _ => (other(), question(), Purpose::Other),
        };
        // It exists in this era only, and a probe may tell no version.
        let era = if method == "server/discover" {
            Era::Stateless
        } else {
            era
        };
        let request = Request {
            question,
            purpose,
            era,
            tool_call: kept(&trace.tool_call),
            parent: kept(&trace.parent),
        };
        Ok(reading(envelope, era, trace, content, Sequel::Answer(request)))
    }
}

fn reading<'a>(
    envelope: &'a Envelope<'a>,
    era: Era,
    trace: Trace<'a>,
    content: FromClient<'a>,
    sequel: Sequel,
) -> Reading<'a> {
    Reading {
        message: Message {
            era,
            id: envelope.id.as_ref(),
            trace,
            size: envelope.whole.range().len(),
            content: Content::Client(content),
        },
        shape: Shape::Other,
        sequel,
    }
}

fn kept(trace: &Option<Cow<'_, str>>) -> Option<Box<str>> {
    let trace = trace.as_deref()?;
    (trace.len() <= LONGEST_TRACE).then(|| trace.into())
}

fn picked<'a, const N: usize>(
    params: Option<Value<'a>>,
    names: [&str; N],
) -> Result<[Option<Value<'a>>; N], Unfit> {
    params.map_or(Ok([None; N]), |params| pick(params, names).ok_or(MISSPELLED))
}

/// A parameter that names something, and must be there.
fn name<'a>(params: Option<Value<'a>>, parameter: &'static str) -> Result<Cow<'a, str>, Unfit> {
    let [value] = picked(params, [parameter])?;
    named(value)
}

fn named(value: Option<Value<'_>>) -> Result<Cow<'_, str>, Unfit> {
    let name = value
        .and_then(Value::string)
        .ok_or(Unfit::Invalid("what is asked for is not named by a string"))?;
    if name.len() > LONGEST_NAME {
        return Err(Unfit::Refused("what is asked for has too long a name"));
    }
    Ok(name)
}

fn call(params: Option<Value<'_>>) -> Result<(FromClient<'_>, Question, Purpose), Unfit> {
    let names = ["name", "arguments", "inputResponses", "requestState", "task"];
    let [name, arguments, responses, state, task] = picked(params, names)?;
    let tool = named(name)?;
    if arguments.is_some_and(|arguments| !arguments.is_object() && !arguments.is_null()) {
        return Err(Unfit::Invalid("the arguments are not an object"));
    }
    let question = Question::Call {
        tool: Some((&*tool).into()),
    };
    let manner = if task.is_some() {
        Manner::Task
    } else {
        Manner::Direct
    };
    let call = Call {
        tool,
        arguments: arguments.map(Value::raw),
        resumes: responses.or(state).map(Value::raw),
    };
    Ok((FromClient::Call(call), question, Purpose::Call(manner)))
}

fn prompt(params: Option<Value<'_>>) -> Result<(FromClient<'_>, Question, Purpose), Unfit> {
    let [name, arguments] = picked(params, ["name", "arguments"])?;
    let name = named(name)?;
    let question = Question::Prompt {
        name: (&*name).into(),
    };
    let prompt = FromClient::Prompt {
        name,
        arguments: arguments.map(Value::raw),
    };
    Ok((prompt, question, Purpose::Other))
}

fn notification<'a>(
    envelope: &'a Envelope<'a>,
    method: &'a str,
    params: Option<Value<'a>>,
    era: Era,
) -> Result<Reading<'a>, Unfit> {
    if is_request(method) {
        return Err(Unfit::Invalid("a request without an id"));
    }
    let sequel = cancelled(method, params).map_or(Sequel::Nothing, Sequel::Cancelled);
    let (_, trace) = meta(params);
    let notice = FromClient::Notice {
        method: Cow::Borrowed(method),
        params: params.map(Value::raw),
    };
    Ok(reading(envelope, era, trace, notice, sequel))
}

/// The request that a notification cancels.
pub(super) fn cancelled(method: &str, params: Option<Value<'_>>) -> Option<RequestId> {
    if method != "notifications/cancelled" {
        return None;
    }
    jsonrpc::request_id(params?.member("requestId")?)
}
