//! Requests to a model: the way a request is read, and the way its answer is.

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
    /// Path and query, as the provider gets them.
    target: &'a str,
}

impl<'a> RequestLine<'a> {
    /// Of a request to `uri`, whose path ends with that of `target`.
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

    /// The path alone: a query can have a key in it.
    pub(super) fn path(&self) -> &'a str {
        self.target.split_once('?').map_or(self.target, |(path, _)| path)
    }

    /// Returns whether the answer is to come as a stream, where there is no body to say so.
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

/// The way a request is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QuestionForm {
    /// The body is empty.
    None,
    /// One question.
    One,
    /// Texts alone: no tool is offered.
    Texts,
    /// A batch of them.
    Many,
}

/// The way an answer is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AnswerForm {
    /// No call can be in it.
    Unread,
    /// One answer.
    One {
        /// True if it is to come as a stream.
        stream: bool,
    },
    /// One a line.
    Many,
}

impl ModelRequest {
    /// An answer is asked for.
    pub(super) fn model(judge: Box<dyn ExchangeJudge>, dialect: Dialect, stream: bool) -> Self {
        Self {
            dialect,
            judge,
            question: QuestionForm::One,
            answer: AnswerForm::One { stream },
        }
    }

    /// Something is sent to a model that answers with no call now.
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

    /// An answer is asked for that the provider kept.
    pub(super) fn kept(judge: Box<dyn ExchangeJudge>, dialect: Dialect, stream: bool) -> Self {
        Self {
            dialect,
            judge,
            question: QuestionForm::None,
            answer: AnswerForm::One { stream },
        }
    }

    /// The answers to a batch are asked for.
    pub(super) fn results(judge: Box<dyn ExchangeJudge>, dialect: Dialect) -> Self {
        Self {
            dialect,
            judge,
            question: QuestionForm::None,
            answer: AnswerForm::Many,
        }
    }

    /// Judges the request; what goes to the provider.
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

    /// Returns the filter for the answer with this head; `None` if it passes as it comes.
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
