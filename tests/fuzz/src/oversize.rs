//! The outline of a line that is too long to be read, compared with parsing the whole line.

use mcpmon_protocol::decode::{
    json::{LoneSurrogate, Scanner, TextForm},
    jsonrpc::{Envelope, Payload},
    outline::{MessageOutline, Skim},
};

/// Checks that the outline does not depend on the chunks, and that it says of a message what parsing does. The first
/// byte chooses the size of chunks.
pub fn fuzz_oversize(data: &[u8]) {
    let Some((size, line)) = data.split_first() else {
        return;
    };
    let learnt = skim(line, usize::from(*size) + 1);
    assert_eq!(learnt, skim(line, usize::MAX));
    let mut scanner = Scanner::new(127);
    let Ok(scan) = scanner.scan(line, LoneSurrogate::Refuse) else {
        return;
    };
    if scan.form != TextForm::Exact {
        return;
    }
    let Ok(envelope) = Envelope::read(scan.document.root()) else {
        return;
    };
    assert_eq!(
        learnt.has_method,
        matches!(envelope.payload, Payload::Method { .. })
    );
    // The outline has no id if the id is long.
    if learnt.id.is_some() {
        assert_eq!(learnt.id, envelope.id);
    }
}

fn skim(line: &[u8], size: usize) -> MessageOutline {
    let mut skim = Skim::default();
    line.chunks(size).for_each(|chunk| skim.push(chunk));
    skim.finish()
}
