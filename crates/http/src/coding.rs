//! Content codings, decoded as the bytes come: what a provider flushed is available with the read that brought it.

use std::fmt;

use brotli_decompressor::{BrotliDecompressStream, BrotliResult, BrotliState, StandardAlloc};
use flate2::{Decompress, FlushDecompress, Status};
use hyper::{
    HeaderMap,
    header::{CONTENT_ENCODING, HeaderName},
};
use zstd::{stream::raw::Operation as _, zstd_safe::DParameter};

/// Most bytes that one step decodes: a slow reader holds no more than this.
pub(super) const STEP: usize = 64 << 10;
/// The most bytes that each coded byte may decode to, beyond the first [`FREE`] bytes of the body.
const MAX_EXPANSION: u64 = 512;
/// Bytes that any body may decode to.
const FREE: u64 = 4 << 20;
/// Window of zstd, 8 MiB: what every decoder of HTTP bodies supports
/// ([RFC 9659](https://www.rfc-editor.org/rfc/rfc9659)).
const ZSTD_WINDOW_LOG: u32 = 23;
/// Window of deflate.
const DEFLATE_WINDOW_LOG: u8 = 15;

/// A coding that can be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ContentCoding {
    /// `gzip`.
    Gzip,
    /// `deflate`: with a zlib header, and without one, as some write it.
    Deflate,
    /// `br`.
    Brotli,
    /// `zstd`.
    Zstd,
}

/// The reason why a body cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum CodingError {
    /// The coding is unknown, or several are applied on top of each other.
    #[error("it is encoded as '{0}', which mcpmon does not decode")]
    Unknown(String),
    /// The body is damaged.
    #[error("it is no valid {0}")]
    Invalid(ContentCoding),
    /// The body ends before its coding does.
    #[error("its {0} ends too early")]
    Truncated(ContentCoding),
    /// The body expands too much, so that it could fill the memory.
    #[error("its {0} expands more than {MAX_EXPANSION} times")]
    Expansion(ContentCoding),
}

impl fmt::Display for ContentCoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl ContentCoding {
    /// All codings, in the order in which they are offered.
    pub(super) const ALL: [Self; 4] = [Self::Gzip, Self::Deflate, Self::Brotli, Self::Zstd];

    /// Returns the name in headers.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Deflate => "deflate",
            Self::Brotli => "br",
            Self::Zstd => "zstd",
        }
    }

    /// Returns the coding with this name.
    pub(super) fn named(name: &str) -> Option<Self> {
        let name = if name.eq_ignore_ascii_case("x-gzip") {
            "gzip"
        } else {
            name
        };
        Self::ALL
            .into_iter()
            .find(|coding| name.eq_ignore_ascii_case(coding.as_str()))
    }

    /// Returns the coding of a body; `None` if it has none.
    pub(super) fn of(headers: &HeaderMap) -> Result<Option<Self>, CodingError> {
        let mut found = None;
        for name in names(headers, &CONTENT_ENCODING) {
            let coding =
                Self::named(&name).filter(|_| found.is_none() && !name.eq_ignore_ascii_case("identity"));
            match coding {
                Some(coding) => found = Some(coding),
                None if name.eq_ignore_ascii_case("identity") => {}
                None => {
                    let all: Vec<String> = names(headers, &CONTENT_ENCODING).collect();
                    return Err(CodingError::Unknown(all.join(", ")));
                }
            }
        }
        Ok(found)
    }
}

/// Returns the members of a list that may be spread over several headers. Bytes that are not text are kept, as an
/// unknown name.
fn names<'h>(headers: &'h HeaderMap, header: &HeaderName) -> impl Iterator<Item = String> + use<'h> {
    let values = headers.get_all(header).into_iter();
    let texts = values.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    let members = texts.flat_map(|text| text.split(',').map(str::to_owned).collect::<Vec<_>>());
    members
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty())
}

/// Decodes one body.
pub(super) struct Decoder {
    coding: ContentCoding,
    engine: Decompressor,
    buffer: Box<[u8]>,
    taken: u64,
    given: u64,
    /// True if the input so far is a complete body.
    complete: bool,
}

enum Decompressor {
    Inflate(Decompress),
    /// `deflate` before its first byte, which shows whether it has a zlib header.
    Undecided,
    Brotli(Box<BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>>),
    Zstd(zstd::stream::raw::Decoder<'static>),
}

/// The progress of a step.
struct DecodeProgress {
    read: usize,
    written: usize,
    complete: bool,
}

impl fmt::Debug for Decoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decoder")
            .field("coding", &self.coding)
            .field("taken", &self.taken)
            .field("given", &self.given)
            .finish_non_exhaustive()
    }
}

impl Decoder {
    /// A decoder at the beginning of a body.
    pub(super) fn new(coding: ContentCoding) -> Result<Self, CodingError> {
        let engine = match coding {
            ContentCoding::Gzip => Decompressor::Inflate(Decompress::new_gzip(DEFLATE_WINDOW_LOG)),
            ContentCoding::Deflate => Decompressor::Undecided,
            ContentCoding::Brotli => Decompressor::Brotli(Box::new(BrotliState::new(
                StandardAlloc::default(),
                StandardAlloc::default(),
                StandardAlloc::default(),
            ))),
            ContentCoding::Zstd => {
                let mut decoder =
                    zstd::stream::raw::Decoder::new().map_err(|_error| CodingError::Invalid(coding))?;
                decoder
                    .set_parameter(DParameter::WindowLogMax(ZSTD_WINDOW_LOG))
                    .map_err(|_error| CodingError::Invalid(coding))?;
                Decompressor::Zstd(decoder)
            }
        };
        Ok(Self {
            coding,
            engine,
            buffer: vec![0; STEP].into_boxed_slice(),
            taken: 0,
            given: 0,
            complete: false,
        })
    }

    /// Decodes some of `input` and removes it from the front; returns the decoded bytes. Returns nothing if more input
    /// is needed.
    pub(super) fn step(&mut self, input: &mut &[u8]) -> Result<&[u8], CodingError> {
        let mut written = 0;
        while written < self.buffer.len() {
            if self.complete && input.is_empty() {
                break;
            }
            let progress = self.advance(input, written)?;
            self.complete = progress.complete;
            *input = &input[progress.read..];
            self.taken += progress.read as u64;
            self.given += progress.written as u64;
            written += progress.written;
            if progress.read == 0 && progress.written == 0 {
                if input.is_empty() {
                    break;
                }
                return Err(CodingError::Invalid(self.coding));
            }
        }
        if self.given > self.taken.saturating_mul(MAX_EXPANSION).saturating_add(FREE) {
            return Err(CodingError::Expansion(self.coding));
        }
        Ok(&self.buffer[..written])
    }

    /// Checks that the body is complete. A body without any bytes is accepted, because some providers send one.
    pub(super) const fn finish(&self) -> Result<(), CodingError> {
        match self.complete || self.taken == 0 {
            true => Ok(()),
            false => Err(CodingError::Truncated(self.coding)),
        }
    }

    fn advance(&mut self, input: &[u8], start: usize) -> Result<DecodeProgress, CodingError> {
        let invalid = CodingError::Invalid(self.coding);
        let output = &mut self.buffer[start..];
        match &mut self.engine {
            Decompressor::Undecided => {
                // A zlib header names its method, 8, in the lower half of its first byte.
                if let Some(first) = input.first() {
                    let zlib = first & 0x0f == 8;
                    self.engine = Decompressor::Inflate(Decompress::new(zlib));
                    return self.advance(input, start);
                }
                Ok(DecodeProgress {
                    read: 0,
                    written: 0,
                    complete: false,
                })
            }
            Decompressor::Inflate(inflate) => {
                if self.complete {
                    // A gzip file may have several members; the other codings allow nothing after their end.
                    if self.coding != ContentCoding::Gzip {
                        return Err(invalid);
                    }
                    *inflate = Decompress::new_gzip(DEFLATE_WINDOW_LOG);
                }
                let (read, written) = (inflate.total_in(), inflate.total_out());
                let status = inflate
                    .decompress(input, output, FlushDecompress::None)
                    .map_err(|_error| invalid.clone())?;
                let moved = |before: u64, after: u64| usize::try_from(after - before);
                Ok(DecodeProgress {
                    read: moved(read, inflate.total_in()).map_err(|_error| invalid.clone())?,
                    written: moved(written, inflate.total_out()).map_err(|_error| invalid)?,
                    complete: status == Status::StreamEnd,
                })
            }
            Decompressor::Brotli(state) => {
                if self.complete {
                    return Err(invalid);
                }
                let (mut left, mut read) = (input.len(), 0);
                let (mut room, mut written, mut total) = (output.len(), 0, 0);
                let result = BrotliDecompressStream(
                    &mut left,
                    &mut read,
                    input,
                    &mut room,
                    &mut written,
                    output,
                    &mut total,
                    state,
                );
                match result {
                    BrotliResult::ResultFailure => Err(invalid),
                    BrotliResult::ResultSuccess
                    | BrotliResult::NeedsMoreInput
                    | BrotliResult::NeedsMoreOutput => Ok(DecodeProgress {
                        read,
                        written,
                        complete: matches!(result, BrotliResult::ResultSuccess),
                    }),
                }
            }
            Decompressor::Zstd(decoder) => {
                let status = decoder.run_on_buffers(input, output).map_err(|_error| invalid)?;
                Ok(DecodeProgress {
                    read: status.bytes_read,
                    written: status.bytes_written,
                    complete: status.remaining == 0,
                })
            }
        }
    }
}
