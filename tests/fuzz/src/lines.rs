//! Framing, compared with splitting the whole stream at once.

use mcpmon_protocol::decode::lines::{LineOutcome, Lines};

/// Checks that the lines of a stream do not depend on its chunks, and that none is longer than allowed. The first two
/// bytes choose the limit and the size of chunks.
pub fn fuzz_lines(data: &[u8]) {
    let [limit, size, stream @ ..] = data else {
        return;
    };
    let (limit, size) = (usize::from(*limit), usize::from(*size) + 1);
    let mut cutter = Lines::new(limit);
    let mut lines = Vec::new();
    for mut chunk in stream.chunks(size) {
        while let Some(line) = cutter.next(&mut chunk) {
            lines.push(owned(line));
        }
    }
    let rest = cutter.rest().map(owned);
    let expected = |line: &[u8]| {
        let content = line.strip_suffix(b"\n").unwrap_or(line);
        (content.len() <= limit).then(|| line.to_vec())
    };
    let (whole, unfinished): (Vec<&[u8]>, Vec<&[u8]>) = stream
        .split_inclusive(|byte| *byte == b'\n')
        .partition(|line| line.ends_with(b"\n"));
    assert_eq!(lines, whole.into_iter().map(expected).collect::<Vec<_>>());
    assert_eq!(rest, unfinished.first().map(|line| expected(line)));
}

fn owned(line: LineOutcome<'_>) -> Option<Vec<u8>> {
    match line {
        LineOutcome::Whole(line) => Some(line.to_vec()),
        LineOutcome::TooLong(_) => None,
    }
}
