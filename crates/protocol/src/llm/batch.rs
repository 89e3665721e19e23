//! Answers to a batch of requests: one per line, with the name that the batch gave the request.

use mcpmon_model::Dialect;

use super::{ContentJudge, LlmFault, Piece, Stream, dialect::api, error_body, reframe::reframe, strict};
use crate::{
    decode::json::{TextForm, Value},
    rewrite::Splices,
};

/// The reading of the answers.
#[derive(Debug)]
pub(super) struct BatchReader {
    dialect: Dialect,
}

impl BatchReader {
    pub(super) const fn new(dialect: Dialect) -> Self {
        Self { dialect }
    }

    /// Judges a line. Returns the line to forward; `None` if it is unchanged.
    fn judged(&self, line: &[u8], judge: &mut dyn ContentJudge) -> Result<Option<String>, LlmFault> {
        strict::read_line(line, |document, form| {
            let mut splices = Splices::default();
            if let Some(answer) = answer(document.root())?
                && let Some(new) = api(self.dialect).whole(answer.text().as_bytes(), judge)?
            {
                let new = String::from_utf8(new).map_err(|error| LlmFault::Malformed {
                    cause: error.to_string(),
                })?;
                splices.put(answer.range(), new);
            }
            let changes = form == TextForm::Ambiguous || !splices.is_empty();
            Ok(changes.then(|| splices.apply(document.text())))
        })?
    }
}

/// Returns the answer of the model in a line, if there is one.
fn answer(line: Value<'_>) -> Result<Option<Value<'_>>, LlmFault> {
    match strict::value(line, "result")? {
        Some(result) => strict::value(result, "message"),
        None => Ok(None),
    }
}

impl Stream for BatchReader {
    fn piece(
        &mut self,
        piece: Piece<'_>,
        judge: &mut dyn ContentJudge,
        out: &mut Vec<u8>,
    ) -> Result<(), LlmFault> {
        let changed = match piece.data {
            Some(data) if !strict::is_silent(data) => self.judged(data, judge)?,
            Some(_) | None => None,
        };
        match changed {
            Some(json) => reframe(piece, &json, out),
            None => out.extend_from_slice(piece.raw),
        }
        Ok(())
    }

    fn end(&mut self, _judge: &mut dyn ContentJudge, _out: &mut Vec<u8>) -> Result<(), LlmFault> {
        Ok(())
    }

    fn held(&self) -> usize {
        0
    }

    fn broken(&self, fault: &LlmFault, out: &mut Vec<u8>) {
        out.extend_from_slice(&error_body(self.dialect, 502, &fault.to_string()));
        out.push(b'\n');
    }
}

#[cfg(test)]
mod tests {
    use mcpmon_model::{Denial, Dialect, LlmMention, Redaction, Verdict};

    use crate::llm::{ContentJudge, HoldLimits, LlmFault, LlmResponse};

    struct NoCalls(Vec<String>);

    impl ContentJudge for NoCalls {
        fn judge(&mut self, said: &LlmMention<'_>) -> Verdict {
            let LlmMention::Call(call) = said else {
                return Verdict::Allow;
            };
            self.0.push(call.name.name.clone().into_owned());
            Verdict::Block(Denial {
                rule: "r".to_owned(),
                reason: "not here".to_owned(),
                remedy: None,
                event: None,
            })
        }

        fn redact(&mut self, _text: &str) -> Vec<Redaction> {
            Vec::new()
        }
    }

    fn results(lines: &str) -> (String, Vec<String>, Option<LlmFault>) {
        let mut judge = NoCalls(Vec::new());
        let mut response = LlmResponse::of_batch(Dialect::Anthropic, HoldLimits::default());
        let mut out = Vec::new();
        let fault = lines
            .as_bytes()
            .chunks(7)
            .find_map(|chunk| response.push(chunk, &mut judge, &mut out).err())
            .or_else(|| response.finish(&mut judge, &mut out).err());
        (String::from_utf8(out).unwrap(), judge.0, fault)
    }

    #[test]
    fn calls_of_each_answer_are_judged() {
        let lines = r#"{"custom_id":"1","result":{"type":"succeeded","message":{"content":[{"type":"text","text":"hi"}],"stop_reason":"end_turn"}}}
{"custom_id":"2","result":{"type":"succeeded","message":{"content":[{"type":"tool_use","id":"t","name":"evil","input":{}}],"stop_reason":"tool_use"}}}
{"custom_id":"3","result":{"type":"errored","error":{"type":"error"}}}
"#;
        let (out, judged, fault) = results(lines);
        assert_eq!((judged, fault), (vec!["evil".to_owned()], None));
        let (came, went): (Vec<&str>, Vec<&str>) = (lines.lines().collect(), out.lines().collect());
        assert_eq!((went.len(), went[0], went[2]), (3, came[0], came[2]));
        assert!(went[1].starts_with(r#"{"custom_id":"2","result":{"type":"succeeded","message":{"#));
        assert!(went[1].contains("blocked by policy") && !went[1].contains("tool_use"));
    }

    #[test]
    fn what_cannot_be_read_does_not_go_on() {
        let (out, _, fault) = results("{\"custom_id\":\"1\"}\n{\"result\":{\"message\":\n");
        assert!(matches!(fault, Some(LlmFault::Malformed { .. })));
        assert!(out.starts_with("{\"custom_id\":\"1\"}\n{\"type\":\"error\",") && out.ends_with("}\n"));
    }
}
