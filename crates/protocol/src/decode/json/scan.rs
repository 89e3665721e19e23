//! The scanner: one pass over a line that checks everything and says whether the line may go on as it came.

use memchr::memmem;

use super::{
    Defect, Document, MAX_DEPTH, Malformed,
    members::WrittenNames,
    number,
    string::{self, LINE_ENDS},
};

/// Containers and strings this long and longer are remembered with their end, so that walking over them costs nothing.
const LONG: usize = 64;

/// Down to this depth: messages in a batch, their members, those of a result, items, and an item's members.
const INDEXED: usize = 6;

/// Open containers and long ones for which there is memory from the start: to grow by steps costs as much as to read a
/// short line.
const FEW: usize = 16;

/// Memory for more open containers and long ones than this is given back after a line.
const KEPT: usize = 1 << 12;

/// The form of a text: either all readers understand it alike, or they might not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextForm {
    /// All readers understand it alike: it may pass as it came.
    Exact,
    /// Readers might understand it differently: a name occurs twice in an object, or with an escape in it; a
    /// carriage return or another character stands where some readers end a line; half of a surrogate pair
    /// was allowed. Only the text that [`canonical`](super::canonical()) makes of it may pass.
    Ambiguous,
}

/// The ways in which readers of a text may differ; of several, the worst is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Doubt {
    /// Nothing.
    None,
    /// A line ends between two of its tokens, which matters only where a line is a text.
    Space,
    /// A string has a character beyond ASCII in it that some take for the end of a line.
    LineEnd,
    /// Half of a surrogate pair was let pass.
    Surrogate,
    /// A name stands twice in an object, or with an escape in it.
    Name,
}

/// The treatment of half a surrogate pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoneSurrogate {
    /// The text is malformed.
    Refuse,
    /// The text is ambiguous; U+FFFD takes its place. Servers cut strings in two, and clients bear it.
    Replace,
}

/// A text that is strict JSON.
#[derive(Clone, Copy, Debug)]
pub struct Scan<'t> {
    /// The text, to be walked.
    pub document: Document<'t>,
    /// The form, which decides whether the text may pass unchanged as a line of its own.
    pub form: TextForm,
    /// The doubt, which decides the same for text that is not a line.
    pub doubt: Doubt,
}

/// Scans lines; keeps its memory between them.
#[derive(Debug)]
pub struct Scanner {
    max_depth: usize,
    open: Vec<OpenContainer>,
    names: WrittenNames,
    /// First byte and end of what is long, by the first byte.
    long: Vec<(u32, u32)>,
}

/// A container whose end was not seen yet.
#[derive(Clone, Copy, Debug)]
struct OpenContainer {
    container: Container,
    start: usize,
    first_name: usize,
    /// Its place among the long ones, where it is shallow enough for one.
    slot: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Container {
    Array,
    Object,
}

impl Scanner {
    /// A scanner that refuses what is nested deeper than `max_depth`, or than [`MAX_DEPTH`].
    pub fn new(max_depth: usize) -> Self {
        Self {
            max_depth: max_depth.min(MAX_DEPTH),
            open: Vec::with_capacity(FEW),
            names: WrittenNames::new(),
            long: Vec::with_capacity(FEW),
        }
    }

    /// Checks that `line` is one JSON value.
    ///
    /// # Errors
    ///
    /// Returns an error if it is not, with the position.
    pub fn scan<'t>(&'t mut self, line: &'t [u8], lone: LoneSurrogate) -> Result<Scan<'t>, Malformed> {
        self.open.clear();
        self.open.shrink_to(KEPT);
        self.names.clear();
        self.long.clear();
        self.long.shrink_to(KEPT);
        if u32::try_from(line.len()).is_err() {
            return Err(malformed(0, Defect::Length));
        }
        let text = str::from_utf8(line).map_err(|error| malformed(error.valid_up_to(), Defect::Utf8))?;
        let mut run = ScanState {
            scanner: self,
            bytes: line,
            at: 0,
            lone,
            doubt: Doubt::None,
        };
        run.value()?;
        let mut doubt = run.doubt;
        if has_line_ends(text) {
            doubt = doubt.max(Doubt::LineEnd);
        }
        Ok(Scan {
            document: Document::with_ends(text, &self.long),
            form: if doubt == Doubt::None {
                TextForm::Exact
            } else {
                TextForm::Ambiguous
            },
            doubt,
        })
    }
}

/// Returns whether a character beyond ASCII stands in it that some reader takes for the end of a line.
fn has_line_ends(text: &str) -> bool {
    let has = |character: char| {
        let mut utf8 = [0; 4];
        memmem::find(text.as_bytes(), character.encode_utf8(&mut utf8).as_bytes()).is_some()
    };
    !text.is_ascii() && LINE_ENDS.into_iter().any(has)
}

const fn malformed(position: usize, defect: Defect) -> Malformed {
    Malformed { position, defect }
}

/// One scan.
struct ScanState<'s> {
    scanner: &'s mut Scanner,
    bytes: &'s [u8],
    at: usize,
    lone: LoneSurrogate,
    doubt: Doubt,
}

impl ScanState<'_> {
    /// The whole line: a value, and nothing after it.
    fn value(&mut self) -> Result<(), Malformed> {
        loop {
            let opened = self.start_of_value()?;
            if opened {
                continue;
            }
            loop {
                let next = self.peek();
                let Some(&OpenContainer { container, .. }) = self.scanner.open.last() else {
                    return match next {
                        None => Ok(()),
                        Some(_) => Err(malformed(self.at, Defect::Trailing)),
                    };
                };
                match (next, container) {
                    (Some(b','), Container::Array) => {
                        self.at += 1;
                        break;
                    }
                    (Some(b','), Container::Object) => {
                        self.at += 1;
                        self.name()?;
                        break;
                    }
                    (Some(b']'), Container::Array) | (Some(b'}'), Container::Object) => self.close(),
                    _ => return Err(self.unexpected()),
                }
            }
        }
    }

    /// Reads a scalar or an empty container whole, or goes into a container; whether a value must follow.
    #[inline]
    fn start_of_value(&mut self) -> Result<bool, Malformed> {
        match self.peek() {
            Some(b'"') => {
                let start = self.at;
                self.at += 1;
                self.string()?;
                if self.at - start >= LONG && self.scanner.open.len() <= INDEXED {
                    self.scanner.long.push((offset(start), offset(self.at)));
                }
            }
            Some(b'{') => {
                self.open(Container::Object)?;
                if self.peek() == Some(b'}') {
                    self.close();
                } else {
                    self.name()?;
                    return Ok(true);
                }
            }
            Some(b'[') => {
                self.open(Container::Array)?;
                if self.peek() == Some(b']') {
                    self.close();
                } else {
                    return Ok(true);
                }
            }
            Some(b'-' | b'0'..=b'9') => self.at = number::read(self.bytes, self.at)?,
            Some(b't') => self.literal(b"true")?,
            Some(b'f') => self.literal(b"false")?,
            Some(b'n') => self.literal(b"null")?,
            _ => return Err(self.unexpected()),
        }
        Ok(false)
    }

    /// The next byte that is no white space.
    #[inline]
    fn peek(&mut self) -> Option<u8> {
        loop {
            let byte = *self.bytes.get(self.at)?;
            match byte {
                b' ' | b'\t' => {}
                b'\r' | b'\n' => self.doubt(Doubt::Space),
                _ => return Some(byte),
            }
            self.at += 1;
        }
    }

    #[inline]
    fn open(&mut self, container: Container) -> Result<(), Malformed> {
        let depth = self.scanner.open.len();
        if depth >= self.scanner.max_depth {
            return Err(malformed(self.at, Defect::Depth));
        }
        let slot = (depth < INDEXED).then_some(self.scanner.long.len());
        if slot.is_some() {
            self.scanner.long.push((offset(self.at), 0));
        }
        self.scanner.open.push(OpenContainer {
            container,
            start: self.at,
            first_name: self.scanner.names.len(),
            slot,
        });
        self.at += 1;
        Ok(())
    }

    #[inline]
    fn close(&mut self) {
        self.at += 1;
        let closed = self
            .scanner
            .open
            .pop()
            .expect("only what was opened can be closed");
        if closed.container == Container::Object && self.scanner.names.close(closed.first_name, self.bytes) {
            self.doubt(Doubt::Name);
        }
        let Some(slot) = closed.slot else { return };
        if self.at - closed.start >= LONG {
            self.scanner.long[slot].1 = offset(self.at);
        } else {
            // What it holds is shorter still, and gone already.
            self.scanner.long.truncate(slot);
        }
    }

    /// A member's name and its colon.
    #[inline]
    fn name(&mut self) -> Result<(), Malformed> {
        if self.peek() != Some(b'"') {
            return Err(self.unexpected());
        }
        self.at += 1;
        let start = self.at;
        let read = self.string()?;
        if let Some(position) = read.nul {
            return Err(malformed(position, Defect::NulInName));
        }
        if read.escaped {
            self.doubt(Doubt::Name);
        }
        self.scanner.names.push(start, self.at - 1);
        if self.peek() != Some(b':') {
            return Err(self.unexpected());
        }
        self.at += 1;
        Ok(())
    }

    /// The rest of a string.
    #[inline]
    fn string(&mut self) -> Result<string::ScannedString, Malformed> {
        let read = string::read(self.bytes, self.at)?;
        if let Some(position) = read.lone_surrogate {
            match self.lone {
                LoneSurrogate::Refuse => return Err(malformed(position, Defect::Surrogate)),
                LoneSurrogate::Replace => self.doubt(Doubt::Surrogate),
            }
        }
        self.at = read.end;
        Ok(read)
    }

    fn literal(&mut self, literal: &[u8]) -> Result<(), Malformed> {
        let rest = &self.bytes[self.at..];
        if !rest.starts_with(literal) {
            let agreeing = rest.iter().zip(literal).take_while(|(a, b)| a == b).count();
            self.at += agreeing;
            return Err(self.unexpected());
        }
        self.at += literal.len();
        Ok(())
    }

    #[inline]
    fn doubt(&mut self, doubt: Doubt) {
        self.doubt = self.doubt.max(doubt);
    }

    fn unexpected(&self) -> Malformed {
        let defect = self
            .bytes
            .get(self.at)
            .map_or(Defect::End, |byte| Defect::Unexpected(*byte));
        malformed(self.at, defect)
    }
}

fn offset(at: usize) -> u32 {
    u32::try_from(at).expect("the scanner refuses longer lines")
}
