//! Requests to a model: how a request and its answer are read.

use hyper::{Method, Uri, header::CONTENT_TYPE, http::response};
use mcpmon_model::Dialect;
use mcpmon_protocol::llm::{
    Framing, HoldLimits, LlmResponse, RequestRoute, read_batch, read_request, read_texts, route,
};

use super::{ExchangeJudge, answer::ProviderProblem, target::Target};

/// The parts of a request that decide its route, besides the body.
#[derive(Debug)]
pub(super) struct RequestLine<'a> {
    method: Method,
    /// Path and query at the provider.
    target: &'a str,
}

impl<'a> RequestLine<'a> {
    /// The line of a request to `uri`, whose path ends with that of `target`.
    pub(super) fn of(method: &Method, uri: &'a Uri, target: &Target<'a>) -> Self {
        let whole = uri.path_and_query().map_or("", |whole| whole.as_str());
        let before = uri.path().len() - target.path.len();
        Self {
            method: method.clone(),
            target: whole.get(before..).unwrap_or(target.path),
        }
    }

    pub(super) fn route(&self, body: &[u8]) -> RequestRoute {
        route(self.method.as_str(), self.target, body)
    }

    /// Returns the path without the query, which may contain a key.
    pub(super) fn path(&self) -> &'a str {
        self.target.split_once('?').map_or(self.target, |(path, _)| path)
    }

    /// Returns whether the path asks for a stream, for requests whose body does not say it.
    pub(super) fn asks_stream(&self) -> bool {
        let query = self.target.split_once('?').map_or("", |(_, query)| query);
        query
            .split('&')
            .any(|parameter| parameter.eq_ignore_ascii_case("stream=true"))
    }
}

/// A request to a model.
#[derive(Debug)]
pub(super) struct ModelRequest {
    pub(super) dialect: Dialect,
    pub(super) judge: Box<dyn ExchangeJudge>,
    question: QuestionForm,
    answer: AnswerForm,
}

/// The form of a request's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QuestionForm {
    /// The body is empty.
    None,
    /// A single request.
    One,
    /// Texts only; no tool is offered.
    Texts,
    /// A batch of requests.
    Many,
}

/// The form of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AnswerForm {
    /// An answer that cannot contain a call.
    Unread,
    /// A single answer.
    One {
        /// True if it is expected as a stream.
        stream: bool,
    },
    /// Several answers, one per line.
    Many,
}

impl ModelRequest {
    /// A request for an answer of a model.
    pub(super) fn model(judge: Box<dyn ExchangeJudge>, dialect: Dialect, stream: bool) -> Self {
        Self {
            dialect,
            judge,
            question: QuestionForm::One,
            answer: AnswerForm::One { stream },
        }
    }

    /// A request to a model whose response contains no call yet.
    pub(super) fn unanswered(
        judge: Box<dyn ExchangeJudge>,
        dialect: Dialect,
        question: QuestionForm,
    ) -> Self {
        Self {
            dialect,
            judge,
            question,
            answer: AnswerForm::Unread,
        }
    }

    /// A request for an answer that the provider stored.
    pub(super) fn kept(judge: Box<dyn ExchangeJudge>, dialect: Dialect, stream: bool) -> Self {
        Self {
            dialect,
            judge,
            question: QuestionForm::None,
            answer: AnswerForm::One { stream },
        }
    }

    /// A request for the answers to a batch.
    pub(super) fn results(judge: Box<dyn ExchangeJudge>, dialect: Dialect) -> Self {
        Self {
            dialect,
            judge,
            question: QuestionForm::None,
            answer: AnswerForm::Many,
        }
    }

    /// Judges the request, and returns the body for the provider.
    pub(super) fn read(&mut self, body: Vec<u8>) -> Result<Vec<u8>, ProviderProblem> {
        let asked = match self.question {
            QuestionForm::None => return Ok(body),
            QuestionForm::One => read_request(self.dialect, &body, &mut *self.judge),
            QuestionForm::Texts => read_texts(&body, &mut *self.judge),
            QuestionForm::Many => read_batch(self.dialect, &body, &mut *self.judge),
        };
        self.judge.request_read();
        let asked = asked.map_err(|fault| {
            self.judge.failed(&fault);
            ProviderProblem::of_request(self.dialect, &fault)
        })?;
        if let AnswerForm::One { stream } = &mut self.answer {
            *stream |= asked.stream;
        }
        Ok(asked.body.unwrap_or(body))
    }

    /// Returns the filter for the answer with this head; `None` if the answer is forwarded unread.
    pub(super) fn response(
        &mut self,
        head: &response::Parts,
        limits: HoldLimits,
    ) -> Result<Option<(Framing, LlmResponse)>, ProviderProblem> {
        let stream = match self.answer {
            AnswerForm::Unread => return Ok(None),
            AnswerForm::One { stream } => stream,
            AnswerForm::Many if head.status.is_success() => {
                return Ok(Some((
                    Framing::Lines,
                    LlmResponse::of_batch(self.dialect, limits),
                )));
            }
            AnswerForm::Many => return Ok(None),
        };
        let content_type = head.headers.get(CONTENT_TYPE);
        let content_type = content_type.map(|value| String::from_utf8_lossy(value.as_bytes()));
        let framing = Framing::of(
            self.dialect,
            stream,
            head.status.as_u16(),
            content_type.as_deref(),
        )
        .map_err(|fault| {
            self.judge.failed(&fault);
            ProviderProblem::of_response(self.dialect, fault)
        })?;
        Ok(match framing {
            Framing::Unread => None,
            Framing::Whole | Framing::Events | Framing::Lines => {
                Some((framing, LlmResponse::new(self.dialect, framing, limits)))
            }
        })
    }
}
