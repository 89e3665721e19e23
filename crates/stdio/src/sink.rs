//! The writing end of a pipe: bytes that do not fit are buffered, so that the relay never blocks.

use std::{
    io,
    os::{
        fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd},
        unix::fs::OpenOptionsExt as _,
    },
};

use nix::{
    errno::Errno,
    fcntl::{FcntlArg, OFlag, fcntl},
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::{
        socket::{MsgFlags, send},
        stat::{SFlag, fstat},
    },
    unistd::write,
};

/// Number of bytes that a ready pipe accepts without blocking.
const CHUNK: usize = 4096;
/// The capacity that an empty buffer keeps.
const KEPT: usize = 256 * 1024;

/// A descriptor to write to, and the bytes that wait for it.
#[derive(Debug)]
pub(super) struct Sink {
    descriptor: OwnedFd,
    way: WriteMode,
    pending: Vec<u8>,
    written: usize,
}

/// The way in which blocking is avoided. The flags of an inherited file description may not be changed, because other processes
/// share it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WriteMode {
    /// The file description belongs to this process, and is non-blocking.
    Own,
    /// A socket: each call is non-blocking.
    Socket,
    /// Anything else: it is written in pieces that fit.
    Pieces,
}

/// The error that the reader has closed its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReaderGone;

impl Sink {
    /// The writing end of a pipe that this process created.
    pub(super) fn of_pipe(descriptor: OwnedFd) -> io::Result<Self> {
        set_nonblocking(&descriptor)?;
        Ok(Self::new(descriptor, WriteMode::Own))
    }

    /// A sink for an inherited descriptor.
    pub(super) fn inherited(descriptor: OwnedFd) -> io::Result<Self> {
        let kind = SFlag::from_bits_truncate(fstat(&descriptor)?.st_mode) & SFlag::S_IFMT;
        if kind == SFlag::S_IFSOCK {
            return Ok(Self::new(descriptor, WriteMode::Socket));
        }
        if kind == SFlag::S_IFIFO
            && let Ok(own) = reopen(&descriptor)
        {
            return Ok(Self::new(own, WriteMode::Own));
        }
        Ok(Self::new(descriptor, WriteMode::Pieces))
    }

    const fn new(descriptor: OwnedFd, way: WriteMode) -> Self {
        Self {
            descriptor,
            way,
            pending: Vec::new(),
            written: 0,
        }
    }

    /// Returns the number of waiting bytes.
    pub(super) const fn waiting(&self) -> usize {
        self.pending.len() - self.written
    }

    /// Writes as much of `bytes` as possible, buffers the rest, and leaves `bytes` empty.
    pub(super) fn send(&mut self, bytes: &mut Vec<u8>) -> Result<(), ReaderGone> {
        if self.waiting() > 0 {
            // Remove written bytes, which would pile up if some bytes always waited.
            self.pending.drain(..std::mem::take(&mut self.written));
            self.pending.append(bytes);
            return Ok(());
        }
        let written = self.write(bytes)?;
        if written < bytes.len() {
            self.written = written;
            std::mem::swap(&mut self.pending, bytes);
        }
        bytes.clear();
        bytes.shrink_to(KEPT);
        Ok(())
    }

    /// Writes as many of the waiting bytes as possible.
    pub(super) fn flush(&mut self) -> Result<(), ReaderGone> {
        self.written += self.write(&self.pending[self.written..])?;
        if self.waiting() == 0 {
            self.pending.clear();
            self.pending.shrink_to(KEPT);
            self.written = 0;
        }
        Ok(())
    }

    fn write(&self, bytes: &[u8]) -> Result<usize, ReaderGone> {
        let mut written = 0;
        while written < bytes.len() {
            match self.write_once(&bytes[written..]) {
                Ok(count) => written += count,
                Err(Errno::EAGAIN) => break,
                Err(Errno::EINTR) => {}
                Err(_) => return Err(ReaderGone),
            }
        }
        Ok(written)
    }

    fn write_once(&self, bytes: &[u8]) -> Result<usize, Errno> {
        match self.way {
            WriteMode::Own => write(&self.descriptor, bytes),
            WriteMode::Socket => {
                let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
                send(self.descriptor.as_raw_fd(), bytes, flags)
            }
            WriteMode::Pieces => {
                let mut ready = [PollFd::new(self.descriptor.as_fd(), PollFlags::POLLOUT)];
                match poll(&mut ready, PollTimeout::ZERO)? {
                    0 => Err(Errno::EAGAIN),
                    _ => write(&self.descriptor, &bytes[..bytes.len().min(CHUNK)]),
                }
            }
        }
    }
}

impl AsFd for Sink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// Opens another file description of the same pipe.
fn reopen(descriptor: &OwnedFd) -> io::Result<OwnedFd> {
    let path = format!("/proc/self/fd/{}", descriptor.as_raw_fd());
    let file = std::fs::OpenOptions::new()
        .write(true)
        .custom_flags(OFlag::O_NONBLOCK.bits())
        .open(path)?;
    Ok(file.into())
}

/// Makes reads and writes of `descriptor`, and of all others of its file description, return instead of blocking.
pub(super) fn set_nonblocking(descriptor: impl AsFd) -> io::Result<()> {
    let flags = OFlag::from_bits_retain(fcntl(&descriptor, FcntlArg::F_GETFL)?);
    fcntl(&descriptor, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{fs::File, io::Read as _, os::unix::net::UnixStream};

    use nix::unistd::pipe;
    use test_case::test_case;

    use super::*;

    type Tested = Result<(), Box<dyn std::error::Error>>;

    /// Returns a sink, and the other end.
    fn ends(kind: &str) -> Result<(Sink, File), Box<dyn std::error::Error>> {
        Ok(match kind {
            "socket" => {
                let (one, other) = UnixStream::pair()?;
                (Sink::inherited(one.into())?, File::from(OwnedFd::from(other)))
            }
            _ => {
                let (read, write) = pipe()?;
                let sink = match kind {
                    "own" => Sink::of_pipe(write)?,
                    "pieces" => Sink::new(write, WriteMode::Pieces),
                    _ => Sink::inherited(write)?,
                };
                (sink, File::from(read))
            }
        })
    }

    #[test_case("own")]
    #[test_case("pieces")]
    #[test_case("socket")]
    #[test_case("inherited")]
    fn a_reader_that_waits_blocks_nobody_and_loses_nothing(kind: &str) -> Tested {
        let (mut sink, mut reader) = ends(kind)?;
        let sent: Vec<u8> = (0..1_000_000_u32).map(|number| number.to_le_bytes()[0]).collect();
        let mut bytes = sent[..900_000].to_vec();
        assert_eq!(sink.send(&mut bytes), Ok(()));
        assert!(bytes.is_empty() && sink.waiting() > 0);
        assert_eq!(sink.send(&mut sent[900_000..].to_vec()), Ok(()));
        let mut received = Vec::new();
        let mut buffer = vec![0; 50_000];
        while received.len() < sent.len() {
            let count = reader.read(&mut buffer)?;
            received.extend_from_slice(&buffer[..count]);
            assert_eq!(sink.flush(), Ok(()));
        }
        assert_eq!(sink.waiting(), 0);
        assert!(received == sent);
        Ok(())
    }

    #[test_case("own")]
    #[test_case("pieces")]
    #[test_case("socket")]
    #[test_case("inherited")]
    fn a_reader_that_is_gone_is_told(kind: &str) -> Tested {
        let (mut sink, reader) = ends(kind)?;
        drop(reader);
        assert_eq!(sink.send(&mut b"text".to_vec()), Err(ReaderGone));
        Ok(())
    }

    #[test]
    fn what_others_share_stays_as_it_is() -> Tested {
        let (_read, write) = pipe()?;
        let shared = write.try_clone()?;
        let _sink = Sink::inherited(write)?;
        let flags = OFlag::from_bits_retain(fcntl(&shared, FcntlArg::F_GETFL)?);
        assert!(!flags.contains(OFlag::O_NONBLOCK));
        Ok(())
    }
}
