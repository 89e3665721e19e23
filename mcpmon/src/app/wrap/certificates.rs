//! Reports of certificates that a remote server shows instead of the pinned one. The bridge reports them to the
//! wrapper, which records them. They have a separate pipe, so that a server cannot forge a report.

use std::{
    fs::File,
    io::{self, Read as _},
    os::fd::{AsRawFd as _, OwnedFd},
    time::Duration,
};

use mcpmon_model::{Digest, Event, Timestamp};
use nix::{
    fcntl::{FcntlArg, FdFlag, OFlag, fcntl},
    unistd::pipe2,
};

use crate::app::{bridge::CERTIFICATE_DIGEST_BYTES, certificate::mismatch};

/// The number of reports that are read at a time.
const AT_ONCE: usize = 32;
/// The time for which the same certificate is not reported again.
const SAME: Duration = Duration::from_secs(600);
const OTHER: Duration = Duration::from_secs(5);

/// The bridge's reports about certificates.
#[derive(Debug)]
pub(super) struct Certificates {
    pipe: File,
    url: String,
    pinned: Digest,
    /// The certificate that was recorded last.
    latest: Option<(Digest, Timestamp)>,
}

impl Certificates {
    /// Makes the pipe for a server at `url`. Returns its writing end for the bridge, too; every process that is started
    /// while this end is open inherits it.
    pub(super) fn of(url: String, pinned: Digest) -> io::Result<(Self, OwnedFd)> {
        let (pipe, told) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)?;
        fcntl(&told, FcntlArg::F_SETFD(FdFlag::empty()))?;
        let certificates = Self {
            pipe: pipe.into(),
            url,
            pinned,
            latest: None,
        };
        Ok((certificates, told))
    }

    /// Returns the event about the reports since the last call.
    pub(super) fn take(&mut self, now: Timestamp) -> Option<Event> {
        let mut told = [0; CERTIFICATE_DIGEST_BYTES * AT_ONCE];
        let count = self.pipe.read(&mut told).ok()?;
        let (lines, _) = told.get(..count)?.as_chunks::<CERTIFICATE_DIGEST_BYTES>();
        let shown = str::from_utf8(lines.last()?).ok()?.trim_end().parse().ok()?;
        let is_news = self.latest.is_none_or(|(latest, at)| {
            let pause = if latest == shown { SAME } else { OTHER };
            now.since(at) >= pause
        });
        if !is_news {
            return None;
        }
        self.latest = Some((shown, now));
        Some(mismatch(now, self.url.clone(), self.pinned, shown))
    }
}

/// Returns the number of the bridge's descriptor.
pub(super) fn number(told: &OwnedFd) -> i32 {
    told.as_raw_fd()
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use mcpmon_model::EventKind;

    use super::*;
    use crate::app::bridge::line;

    const MINUTE: i64 = 60_000_000_000;

    #[test]
    fn what_a_bridge_tells_is_recorded_but_not_again_and_again() -> io::Result<()> {
        let (pinned, shown) = (Digest::of(b"pinned"), Digest::of(b"shown"));
        let (mut certificates, told) = Certificates::of("https://a.example/mcp".to_owned(), pinned)?;
        assert_eq!(certificates.take(Timestamp(0)), None, "nothing was told");
        let mut told = File::from(told);
        told.write_all(&line(&shown))?;
        told.write_all(&line(&shown))?;
        let event = certificates.take(Timestamp(0)).map(|event| event.kind);
        let expected = EventKind::TlsMismatch {
            url: "https://a.example/mcp".to_owned(),
            expected: pinned,
            actual: shown,
        };
        assert_eq!(event, Some(expected));
        told.write_all(&line(&shown))?;
        assert_eq!(
            certificates.take(Timestamp(MINUTE)),
            None,
            "it was told a moment ago"
        );
        told.write_all(&line(&Digest::of(b"another")))?;
        assert!(certificates.take(Timestamp(MINUTE)).is_some());
        told.write_all(&[b'x'; CERTIFICATE_DIGEST_BYTES])?;
        assert_eq!(certificates.take(Timestamp(2 * MINUTE)), None);
        Ok(())
    }
}
