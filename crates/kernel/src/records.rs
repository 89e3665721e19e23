//! Conversion of the bytes in a ring to typed records. They are checked like any other input.

use std::{
    ffi::OsStr,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    os::unix::ffi::OsStrExt as _,
    path::PathBuf,
};

use mcpmon_common::{
    address::Form,
    event::{
        Action, CloseRecord, ConnectRecord, ExecRecord, ExitRecord, ForkRecord, Header, Hook, Kind,
        RefusedStartRecord, ResumeRecord,
    },
    limits::{ARGV_MAX, FILENAME_MAX},
};

use super::sys::read_unaligned;

/// A record from the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// A successful exec.
    Exec(Box<ExecReport>),
    /// A process of a server, or one that is not judged yet, started another.
    Fork(ForkRecord),
    /// A tracked process ended.
    Exit(ExitRecord),
    /// A process other than the daemon resumed a held process.
    Resume(Resume),
    /// A start was refused by the digest of its program.
    RefusedStart(Box<RefusedStart>),
    /// A connection.
    Connect(Connect),
    /// The socket of a connection was closed by its last holder.
    Close(Close),
}

/// An exec with its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecReport {
    /// The part of fixed size.
    pub record: ExecRecord,
    /// The arguments, as far as they were copied; the last one may be truncated.
    pub argv: Vec<String>,
    /// Path given to `execve`.
    pub filename: String,
    /// Command name.
    pub comm: String,
}

/// A `SIGCONT` for a held process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resume {
    /// The part of fixed size.
    pub record: ResumeRecord,
    /// Command name of the sender.
    pub comm: String,
}

/// A start that was refused by the digest of its program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedStart {
    /// The part of fixed size.
    pub record: RefusedStartRecord,
    /// Command name of the calling program.
    pub comm: String,
    /// Path of the refused program.
    pub path: PathBuf,
}

/// A connection with its addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connect {
    /// The part of fixed size.
    pub record: ConnectRecord,
    /// The address that was compared with the rules.
    pub address: IpAddr,
    /// The address in the form in which the caller gave it.
    pub given: IpAddr,
    /// The form in which the address was written.
    pub form: Form,
    /// The action taken.
    pub action: Action,
    /// The hook that saw the connection.
    pub hook: Hook,
    /// Command name.
    pub comm: String,
}

/// A connection of a server whose socket was closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Close {
    /// The part of fixed size.
    pub record: CloseRecord,
    /// Address on the other side.
    pub address: IpAddr,
    /// Command name of the process that had connected.
    pub comm: String,
}

/// The reason why bytes are not a valid record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// The bytes are too few for their kind of record.
    #[error("a record of {length} bytes is cut short")]
    Short {
        /// The number of bytes.
        length: usize,
    },
    /// A field has a value that is not defined.
    #[error("a record has the undefined {field} {value}")]
    Field {
        /// The name of the field.
        field: &'static str,
        /// The value of the field.
        value: u32,
    },
}

impl Record {
    /// Parses one ring record.
    ///
    /// # Errors
    /// Returns an error if the bytes are too few or a field has an undefined value.
    pub fn parse(bytes: &[u8]) -> Result<Self, RecordError> {
        let short = RecordError::Short { length: bytes.len() };
        let header: Header = read_unaligned(bytes).ok_or(short)?;
        match header.kind {
            kind if kind == Kind::Exec as u16 => {
                ExecReport::parse(bytes).map(|exec| Self::Exec(Box::new(exec)))
            }
            kind if kind == Kind::Fork as u16 => read_unaligned(bytes).map(Self::Fork).ok_or(short),
            kind if kind == Kind::Exit as u16 => read_unaligned(bytes).map(Self::Exit).ok_or(short),
            kind if kind == Kind::Resume as u16 => {
                let record: ResumeRecord = read_unaligned(bytes).ok_or(short)?;
                let comm = text(&record.comm);
                Ok(Self::Resume(Resume { record, comm }))
            }
            kind if kind == Kind::RefusedStart as u16 => {
                let record: RefusedStartRecord = read_unaligned(bytes).ok_or(short)?;
                let path = &record.path[..(record.path_len as usize).min(FILENAME_MAX)];
                Ok(Self::RefusedStart(Box::new(RefusedStart {
                    comm: text(&record.comm),
                    path: PathBuf::from(OsStr::from_bytes(path)),
                    record,
                })))
            }
            kind if kind == Kind::Connect as u16 => Connect::parse(bytes).map(Self::Connect),
            kind if kind == Kind::Close as u16 => Close::parse(bytes).map(Self::Close),
            kind => Err(RecordError::Field {
                field: "kind",
                value: kind.into(),
            }),
        }
    }

    /// Returns the part that all records have in common.
    pub const fn header(&self) -> &Header {
        match self {
            Self::Exec(exec) => &exec.record.header,
            Self::Fork(record) => &record.header,
            Self::Exit(record) => &record.header,
            Self::Resume(resume) => &resume.record.header,
            Self::RefusedStart(start) => &start.record.header,
            Self::Connect(connect) => &connect.record.header,
            Self::Close(close) => &close.record.header,
        }
    }
}

impl ExecReport {
    fn parse(bytes: &[u8]) -> Result<Self, RecordError> {
        let short = RecordError::Short { length: bytes.len() };
        let record: ExecRecord = read_unaligned(bytes).ok_or(short)?;
        let copied = (record.argv_copied as usize).min(ARGV_MAX);
        let argv = bytes
            .get(size_of::<ExecRecord>()..)
            .and_then(|rest| rest.get(..copied))
            .ok_or(short)?;
        let filename = &record.filename[..(record.filename_len as usize).min(FILENAME_MAX)];
        Ok(Self {
            argv: split_arguments(argv),
            filename: lossy(filename),
            comm: text(&record.comm),
            record,
        })
    }

    /// Returns whether arguments are missing at the end.
    pub const fn is_cut(&self) -> bool {
        self.record.argv_copied < self.record.argv_total
    }
}

impl Connect {
    fn parse(bytes: &[u8]) -> Result<Self, RecordError> {
        let record: ConnectRecord =
            read_unaligned(bytes).ok_or(RecordError::Short { length: bytes.len() })?;
        let unknown = |field, value: u8| RecordError::Field {
            field,
            value: value.into(),
        };
        Ok(Self {
            address: address(record.family, record.address)
                .ok_or_else(|| unknown("family", record.family))?,
            given: address(record.given_family, record.given)
                .ok_or_else(|| unknown("family", record.given_family))?,
            form: match record.form {
                0 => Form::Plain,
                1 => Form::Mapped,
                2 => Form::Any,
                3 => Form::Nat64,
                4 => Form::SixToFour,
                value => return Err(unknown("form", value)),
            },
            action: match record.action {
                0 => Action::Allow,
                1 => Action::Deny,
                2 => Action::WouldDeny,
                value => return Err(unknown("action", value)),
            },
            hook: match record.hook {
                0 => Hook::Connect,
                1 => Hook::Send,
                2 => Hook::Socket,
                3 => Hook::Packet,
                value => return Err(unknown("hook", value)),
            },
            comm: text(&record.comm),
            record,
        })
    }
}

impl Close {
    fn parse(bytes: &[u8]) -> Result<Self, RecordError> {
        let record: CloseRecord = read_unaligned(bytes).ok_or(RecordError::Short { length: bytes.len() })?;
        let connection = record.connection;
        let unknown = RecordError::Field {
            field: "family",
            value: connection.family.into(),
        };
        Ok(Self {
            address: address(connection.family, connection.address).ok_or(unknown)?,
            comm: text(&connection.comm),
            record,
        })
    }
}

fn address(family: u8, octets: [u8; 16]) -> Option<IpAddr> {
    match family {
        4 => Some(Ipv4Addr::new(octets[0], octets[1], octets[2], octets[3]).into()),
        6 => Some(Ipv6Addr::from(octets).into()),
        _ => None,
    }
}

/// Splits NUL-separated arguments; the last one has no NUL if it was truncated.
fn split_arguments(bytes: &[u8]) -> Vec<String> {
    let bytes = bytes.strip_suffix(b"\0").unwrap_or(bytes);
    if bytes.is_empty() {
        Vec::new()
    } else {
        bytes.split(|byte| *byte == 0).map(lossy).collect()
    }
}

fn text(bytes: &[u8]) -> String {
    lossy(bytes.split(|byte| *byte == 0).next().unwrap_or_default())
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case(b"" => Vec::<String>::new(); "none")]
    #[test_case(b"npx\0-y\0" => vec!["npx".to_owned(), "-y".to_owned()]; "whole")]
    #[test_case(b"a\0\0b\0" => vec!["a".to_owned(), String::new(), "b".to_owned()]; "empty one inside")]
    #[test_case(b"a\0bc" => vec!["a".to_owned(), "bc".to_owned()]; "cut")]
    #[test_case(b"\xff\0" => vec!["\u{fffd}".to_owned()]; "not UTF-8")]
    fn arguments(bytes: &[u8]) -> Vec<String> {
        split_arguments(bytes)
    }

    #[test]
    fn short_or_strange_bytes_are_errors() {
        assert_eq!(Record::parse(&[]), Err(RecordError::Short { length: 0 }));
        for length in 0..200 {
            let mut bytes = vec![0; length];
            for kind in 0..9u8 {
                if let Some(first) = bytes.first_mut() {
                    *first = kind;
                }
                drop(Record::parse(&bytes));
            }
        }
        let mut connect = vec![0; size_of::<ConnectRecord>()];
        connect[0] = Kind::Connect as u8;
        assert_eq!(
            Record::parse(&connect),
            Err(RecordError::Field {
                field: "family",
                value: 0
            })
        );
    }
}
