//! Reads an HTTP/1.1 answer as it arrives, as far as a measurement needs.

use anyhow::{Context as _, Result, bail, ensure};

/// An answer that is being read.
#[derive(Debug, Default)]
pub(super) struct Answer {
    bytes: Vec<u8>,
    /// The start of the body, and the framing of the body.
    head: Option<(usize, Length)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Length {
    Known(usize),
    Chunked,
}

impl Answer {
    /// Adds received bytes, and returns whether the answer is complete.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<bool> {
        self.bytes.extend_from_slice(bytes);
        if self.head.is_none() {
            let Some(end) = position(&self.bytes, b"\r\n\r\n") else {
                return Ok(false);
            };
            let text = std::str::from_utf8(&self.bytes[..end])?.to_ascii_lowercase();
            self.head = Some((end + 4, length(&text)?));
        }
        let (start, length) = self.head.context("a head")?;
        Ok(match length {
            Length::Known(length) => self.bytes.len() >= start + length,
            Length::Chunked => self.bytes[start..].ends_with(b"0\r\n\r\n"),
        })
    }

    /// Returns all received bytes, including head and framing.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the body of a complete answer.
    pub(super) fn body(&self) -> Result<Vec<u8>> {
        let (start, length) = self.head.context("no head")?;
        let mut rest = &self.bytes[start..];
        if let Length::Known(_) = length {
            return Ok(rest.to_vec());
        }
        let mut body = Vec::new();
        loop {
            let end = position(rest, b"\r\n").context("a chunk has no length")?;
            let size = usize::from_str_radix(std::str::from_utf8(&rest[..end])?.trim(), 16)?;
            let chunk = rest.get(end + 2..end + 2 + size).context("a chunk is cut off")?;
            if size == 0 {
                return Ok(body);
            }
            body.extend_from_slice(chunk);
            rest = rest.get(end + 4 + size..).context("a chunk has no end")?;
        }
    }

    /// Prepares for another answer.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.head = None;
    }
}

/// Returns the framing of a body from its head in lower case.
fn length(head: &str) -> Result<Length> {
    let status = head.lines().next().unwrap_or_default();
    ensure!(
        matches!(status.split(' ').nth(1), Some("200" | "202")),
        "answered with `{status}`"
    );
    for line in head.lines().skip(1) {
        match line.split_once(':') {
            Some(("content-length", length)) => return Ok(Length::Known(length.trim().parse()?)),
            Some(("transfer-encoding", coding)) if coding.trim() == "chunked" => return Ok(Length::Chunked),
            _ => {}
        }
    }
    bail!("an answer without a length")
}

pub(super) fn position(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (usize, Vec<u8>) {
        let mut answer = Answer::default();
        for (at, byte) in text.bytes().enumerate() {
            if answer.push(&[byte]).expect("an answer") {
                return (at + 1, answer.body().expect("a body"));
            }
        }
        panic!("no end in {text:?}");
    }

    #[test]
    fn an_answer_ends_where_its_head_says() {
        for text in [
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n",
        ] {
            assert_eq!(read(text), (text.len(), b"hello".to_vec()));
        }
    }

    #[test]
    fn a_refusal_is_no_figure() {
        let error = Answer::default().push(b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n");
        assert!(error.expect_err("a refusal").to_string().contains("502"));
    }
}
