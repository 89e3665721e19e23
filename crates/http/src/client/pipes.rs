//! Lists what a server on stdio offers: a handshake, then every list.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use mcpmon_model::{ListKind, RequestId};
use mcpmon_protocol::decode::json::{Value, ValueKind};
use serde_json::json;
use tokio::{
    io::{AsyncBufRead, AsyncBufReadExt as _, AsyncWrite, AsyncWriteExt as _},
    time::timeout,
};

use super::{
    AnswerFault,
    list::{
        HANDSHAKE, MAX_BYTES, MAX_EARLIER_MESSAGES, MAX_ITEMS, MAX_PAGES, ServerIntroduction, introduction,
        refusal,
    },
    offer::{LISTS, ListMethod, RequestAndAnswer, ServerOffer, reread},
    outline::heard,
};

/// Asks a server for its introduction and every list that it announces, within `patience` for each answer: the first one
/// includes its start.
///
/// # Errors
/// Returns an error if it ends, does not answer in time, or says what is not MCP.
pub async fn list_pipes(
    answers: impl AsyncBufRead + Unpin,
    questions: impl AsyncWrite + Unpin,
    patience: Duration,
) -> Result<ServerOffer, AnswerFault> {
    let mut client = PipeClient {
        answers,
        questions,
        patience,
        next: 1,
        read: 0,
        turns: Vec::new(),
    };
    client.offer().await
}

struct PipeClient<R, W> {
    answers: R,
    questions: W,
    patience: Duration,
    next: u64,
    /// Bytes of all lines so far.
    read: usize,
    turns: Vec<RequestAndAnswer>,
}

impl<R: AsyncBufRead + Unpin, W: AsyncWrite + Unpin> PipeClient<R, W> {
    async fn offer(&mut self) -> Result<ServerOffer, AnswerFault> {
        let params = json!({
            "protocolVersion": HANDSHAKE,
            "capabilities": {},
            "clientInfo": {"name": "mcpmon", "version": env!("CARGO_PKG_VERSION")},
        });
        let met = self.ask("initialize", &params, None, introduction).await?;
        let ServerIntroduction { mut offer, announced } = met;
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))
            .await?;
        for (list, is_there) in LISTS.iter().zip(announced.unwrap_or_default()) {
            if is_there {
                self.pages(list).await?;
            }
        }
        offer.turns = std::mem::take(&mut self.turns);
        Ok(offer)
    }

    async fn pages(&mut self, list: &ListMethod) -> Result<(), AnswerFault> {
        let (mut cursor, mut seen, mut items) = (None::<String>, BTreeSet::new(), 0);
        loop {
            let params = cursor
                .as_ref()
                .map_or_else(|| json!({}), |cursor| json!({"cursor": cursor}));
            let (method, member) = (list.method, list.member);
            let read = |result: Option<Value<'_>>| {
                let page = result?.member(member)?;
                let next = result?.member("nextCursor").and_then(Value::string);
                (page.kind() == ValueKind::Array).then(|| (page.items().count(), next.map(Into::into)))
            };
            let page: Option<(usize, Option<String>)> =
                match self.ask(method, &params, Some(list.kind), read).await {
                    // The server announces a list that it does not have.
                    Err(AnswerFault::Refused { code: -32_601, .. }) if cursor.is_none() => return Ok(()),
                    answered => answered?,
                };
            let missing = || AnswerFault::Message(format!("the answer to {method} has no `{member}`"));
            let (count, next) = page.ok_or_else(missing)?;
            items += count;
            if items > MAX_ITEMS {
                return Err(AnswerFault::Endless(MAX_ITEMS, member));
            }
            match &next {
                None => return Ok(()),
                // A cursor that came before would lead in a circle.
                Some(next) if !seen.insert(next.clone()) => return Ok(()),
                Some(_) if seen.len() >= MAX_PAGES => return Err(AnswerFault::Endless(MAX_PAGES, "pages")),
                Some(_) => cursor = next,
            }
        }
    }

    async fn ask<T>(
        &mut self,
        method: &str,
        params: &serde_json::Value,
        page: Option<ListKind>,
        read: impl FnOnce(Option<Value<'_>>) -> T,
    ) -> Result<T, AnswerFault> {
        let number = self.next;
        self.next += 1;
        let request = json!({"jsonrpc": "2.0", "id": number, "method": method, "params": params});
        let asked = Instant::now();
        self.send(&request).await?;
        let id = RequestId::Number(number.to_string().into());
        let answer = match timeout(self.patience, self.answer(&id)).await {
            Ok(answer) => answer?,
            Err(_elapsed) => return Err(AnswerFault::Late(self.patience.as_secs())),
        };
        let said = reread(&answer, |root| match refusal(root) {
            Some(fault) => Err(fault),
            None => Ok(read(root.and_then(|root| root.member("result")))),
        })?;
        self.turns.push(RequestAndAnswer {
            asked,
            request: request.to_string(),
            answer,
            page,
        });
        Ok(said)
    }

    /// Returns the answer to a request. Requests of the server are refused meanwhile: there is no client that could
    /// answer.
    async fn answer(&mut self, id: &RequestId) -> Result<Vec<u8>, AnswerFault> {
        for _ in 0..MAX_EARLIER_MESSAGES {
            let line = self.line().await?;
            let Some(heard) = heard(&line) else { continue };
            if heard.answers.iter().flatten().any(|answered| answered == id) {
                return Ok(line);
            }
            for (asked, method) in heard.asks {
                let reply = match method.as_str() {
                    "ping" => json!({"jsonrpc": "2.0", "id": asked, "result": {}}),
                    _ => json!({"jsonrpc": "2.0", "id": asked, "error":
                        {"code": -32_601, "message": "nobody here can answer: mcpmon only lists what is offered"}}),
                };
                self.send(&reply).await?;
            }
        }
        Err(AnswerFault::Endless(
            MAX_EARLIER_MESSAGES,
            "messages before the answer",
        ))
    }

    /// Returns the next line. The length of all lines together is limited.
    async fn line(&mut self) -> Result<Vec<u8>, AnswerFault> {
        let mut line = Vec::new();
        loop {
            let broken = |error: std::io::Error| AnswerFault::Unreachable(error.to_string());
            let part = self.answers.fill_buf().await.map_err(broken)?;
            if part.is_empty() {
                return Err(AnswerFault::Ended);
            }
            let end = part.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(part.len(), |end| end + 1);
            line.extend_from_slice(&part[..taken]);
            self.answers.consume(taken);
            self.read += taken;
            if self.read > MAX_BYTES {
                return Err(AnswerFault::Endless(MAX_BYTES, "bytes"));
            }
            if end.is_some() {
                return Ok(line);
            }
        }
    }

    async fn send(&mut self, message: &serde_json::Value) -> Result<(), AnswerFault> {
        let sent = async {
            self.questions
                .write_all(format!("{message}\n").as_bytes())
                .await?;
            self.questions.flush().await
        };
        match timeout(self.patience, sent).await {
            Ok(Ok(())) => Ok(()),
            // The server has ended; what it wrote before is read first.
            Ok(Err(_broken)) => Ok(()),
            Err(_elapsed) => Err(AnswerFault::Late(self.patience.as_secs())),
        }
    }
}

#[cfg(test)]
mod tests {
    use test_case::test_case;
    use tokio::io::BufReader;

    use super::*;

    /// Asks what answers each line that it reads with the next of these.
    fn listed(replies: &[&str]) -> Result<ServerOffer, AnswerFault> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        let text = replies.join("\n") + "\n";
        let patience = Duration::from_secs(5);
        runtime.block_on(list_pipes(
            BufReader::new(text.as_bytes()),
            tokio::io::sink(),
            patience,
        ))
    }

    const INTRODUCED: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"n","version":"1"},"instructions":"Be brief."}}"#;

    #[test]
    fn every_page_is_asked_for_and_noise_is_passed_over() {
        let offer = listed(&[
            "starting up",
            INTRODUCED,
            r#"{"jsonrpc":"2.0","id":"r","method":"roots/list"}"#,
            r#"{"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"a"}],"nextCursor":"2"}}"#,
            r#"{"jsonrpc":"2.0","id":3,"result":{"tools":[{"name":"b"}]}}"#,
        ])
        .expect("an offer");
        assert_eq!(offer.instructions.as_deref(), Some("Be brief."));
        let mut names = Vec::new();
        offer.definitions(|kind, tool| {
            assert_eq!(kind, ListKind::Tools);
            names.push(tool.member("name").and_then(Value::string).map(String::from));
        });
        assert_eq!(names, [Some("a".to_owned()), Some("b".to_owned())]);
    }

    #[test_case(&[] => "its stream ended before the answer came"; "nothing")]
    #[test_case(&[r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"no key"}}"#] => "it answered with error -32603: no key"; "a refusal")]
    #[test_case(&[INTRODUCED, r#"{"jsonrpc":"2.0","id":2,"result":{}}"#] => "the answer to tools/list has no `tools`"; "no list")]
    fn faults(replies: &[&str]) -> String {
        let fault = listed(replies).expect_err("a fault").to_string();
        fault.rsplit("MCP: ").next().unwrap_or_default().to_owned()
    }

    #[test]
    fn what_has_no_end_is_left() {
        let line = "x".repeat(MAX_BYTES + 1);
        assert!(matches!(
            listed(&[&line]),
            Err(AnswerFault::Endless(MAX_BYTES, "bytes"))
        ));
    }
}
