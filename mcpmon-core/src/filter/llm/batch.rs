//! The answers to a batch of requests: one a line, with the name the batch gave it.

use super::{Fault, Judge, Piece, Stream, error_body, reframe::reframe, strict, whole};
use crate::{
    decode::json::{Form, Value},
    model::Dialect,
    rewrite::Splices,
};

/// The reading of the answers.
#[derive(Debug)]
pub(super) struct Reading {
    dialect: Dialect,
}

impl Reading {
    pub(super) const fn new(dialect: Dialect) -> Self {
        Self { dialect }
    }

    /// A line as it goes on; `None` for as it came.
    fn judged(&self, line: &[u8], judge: &mut dyn Judge) -> Result<Option<String>, Fault> {
        strict::read_line(line, |document, form| {
            let mut splices = Splices::default();
            if let Some(answer) = answer(document.root())?
                && let Some(new) = whole(self.dialect, answer.text().as_bytes(), judge)?
            {
                let new = String::from_utf8(new).map_err(|error| Fault::Malformed {
                    cause: error.to_string(),
                })?;
                splices.put(answer.range(), new);
            }
            let changes = form == Form::Ambiguous || !splices.is_empty();
            Ok(changes.then(|| splices.apply(document.text())))
        })?
    }
}

/// The answer of the model in a line, if it gave one.
fn answer(line: Value<'_>) -> Result<Option<Value<'_>>, Fault> {
    match strict::value(line, "result")? {
        Some(result) => strict::value(result, "message"),
        None => Ok(None),
    }
}

impl Stream for Reading {
    fn piece(&mut self, piece: Piece<'_>, judge: &mut dyn Judge, out: &mut Vec<u8>) -> Result<(), Fault> {
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

    fn end(&mut self, _judge: &mut dyn Judge, _out: &mut Vec<u8>) -> Result<(), Fault> {
        Ok(())
    }

    fn held(&self) -> usize {
        0
    }

    fn broken(&self, fault: &Fault, out: &mut Vec<u8>) {
        out.extend_from_slice(&error_body(self.dialect, 502, &fault.to_string()));
        out.push(b'\n');
    }
}
