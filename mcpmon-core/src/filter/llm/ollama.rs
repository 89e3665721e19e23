//! To be written.

use super::{Fault, Judge, Limits, Piece, Stream};

/// The reading of one stream.
#[derive(Debug)]
pub(super) struct Reading {
    limits: Limits,
}

impl Reading {
    pub(super) const fn new(limits: Limits) -> Self {
        Self { limits }
    }
}

impl Stream for Reading {
    fn piece(&mut self, piece: Piece<'_>, _judge: &mut dyn Judge, out: &mut Vec<u8>) -> Result<(), Fault> {
        let _ = (self.limits, piece.data);
        out.extend_from_slice(piece.raw);
        Ok(())
    }

    fn end(&mut self, _judge: &mut dyn Judge, _out: &mut Vec<u8>) -> Result<(), Fault> {
        Ok(())
    }

    fn held(&self) -> usize {
        0
    }

    fn broken(&self, _fault: &Fault, _out: &mut Vec<u8>) {}
}

/// What becomes of a body that came whole; `None` where it stays as it is.
pub(super) fn whole(body: &[u8], judge: &mut dyn Judge) -> Result<Option<Vec<u8>>, Fault> {
    let _ = (body, judge);
    Ok(None)
}
