//! Handshake that proves that the connected process is the one that speaks.
//!
//! The credentials of a socket are those of the process that connected. A process could connect, leave the socket to a
//! child, and execute mcpmon: its id would then belong to this program while the child speaks. So a wrapper that was
//! found to run this program has to repeat a nonce, and the kernel reports the sender of that
//! ([unix(7)](https://man7.org/linux/man-pages/man7/unix.7.html), `SCM_CREDENTIALS`).

use std::{
    io::{self, IoSliceMut},
    os::fd::AsRawFd as _,
    time::Duration,
};

use mcpmon_model::ProcessId;
use mcpmon_session::protocol::{Hear, Say};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt, sockopt::PassCred};
use tokio::{
    io::{AsyncWriteExt as _, Interest},
    net::UnixStream,
    time::timeout,
};

/// The longest wait until a wrapper has repeated the nonce.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Longest line with the nonce, bytes.
const MAX_LINE: usize = 256;

/// Asks `peer` to repeat a nonce.
///
/// # Errors
/// Returns an error if another process answers, or none in time.
pub(super) async fn challenge(stream: &mut UnixStream, peer: ProcessId) -> io::Result<()> {
    setsockopt(&*stream, PassCred, &true)?;
    let nonce = uuid::Uuid::now_v7().to_string();
    let mut question = serde_json::to_vec(&Hear::Challenge(nonce.clone()))?;
    question.push(b'\n');
    stream.write_all(&question).await?;
    let (line, sender) = timeout(TIMEOUT, line_of(stream)).await??;
    let mut wanted = serde_json::to_vec(&Say::Repeat { nonce })?;
    wanted.push(b'\n');
    if line != wanted || sender != Some(peer.pid) {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "another process speaks than the one that connected",
        ));
    }
    Ok(())
}

/// Reads one line. Returns its sender, too, or `None` if several processes wrote parts of it.
async fn line_of(stream: &UnixStream) -> io::Result<(Vec<u8>, Option<u32>)> {
    let (mut line, mut senders) = (Vec::new(), Vec::new());
    while line.last() != Some(&b'\n') {
        let (part, sender) = stream
            .async_io(Interest::READABLE, || receive(stream.as_raw_fd()))
            .await?;
        if part.is_empty() || line.len() + part.len() > MAX_LINE {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        line.extend(part);
        senders.push(sender);
    }
    senders.dedup();
    Ok((
        line,
        if senders.len() == 1 {
            senders.remove(0)
        } else {
            None
        },
    ))
}

fn receive(socket: i32) -> io::Result<(Vec<u8>, Option<u32>)> {
    let mut bytes = [0; MAX_LINE];
    let mut space = nix::cmsg_space!(nix::sys::socket::UnixCredentials);
    let mut buffers = [IoSliceMut::new(&mut bytes)];
    let received = recvmsg::<()>(socket, &mut buffers, Some(&mut space), MsgFlags::MSG_DONTWAIT)?;
    let sender = received.cmsgs()?.find_map(|message| {
        let ControlMessageOwned::ScmCredentials(credentials) = message else {
            return None;
        };
        u32::try_from(credentials.pid()).ok()
    });
    let length = received.bytes;
    Ok((bytes[..length].to_vec(), sender))
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Write as _};

    use super::*;

    fn repeat(socket: &std::os::unix::net::UnixStream) {
        let mut question = String::new();
        BufReader::new(socket)
            .read_line(&mut question)
            .expect("a question");
        let Ok(Hear::Challenge(nonce)) = serde_json::from_str(&question) else {
            panic!("no challenge: {question}");
        };
        let answer = serde_json::to_string(&Say::Repeat { nonce }).expect("plain");
        writeln!(&mut &*socket, "{answer}").expect("written");
    }

    async fn challenged(
        pid: u32,
        answer: impl FnOnce(std::os::unix::net::UnixStream) + Send + 'static,
    ) -> io::Result<()> {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let mut ours = UnixStream::from_std(ours)?;
        let thread = std::thread::spawn(move || answer(theirs));
        let outcome = challenge(&mut ours, ProcessId { pid, start: 0 }).await;
        thread.join().expect("it ends");
        outcome
    }

    #[tokio::test]
    async fn the_process_that_connected_repeats_the_number() {
        challenged(std::process::id(), |socket| repeat(&socket))
            .await
            .expect("it is that one");
    }

    #[tokio::test]
    async fn another_process_cannot_speak_for_it() {
        let error = challenged(std::process::id() + 1, |socket| repeat(&socket)).await;
        assert_eq!(
            error.expect_err("refused").kind(),
            io::ErrorKind::PermissionDenied
        );
    }

    #[tokio::test]
    async fn a_wrong_number_and_silence_prove_nothing() {
        let wrong = challenged(std::process::id(), |mut socket| {
            let mut question = String::new();
            BufReader::new(&socket)
                .read_line(&mut question)
                .expect("a question");
            socket
                .write_all(b"{\"say\":\"repeat\",\"content\":{\"nonce\":\"1\"}}\n")
                .expect("written");
        });
        assert_eq!(
            wrong.await.expect_err("refused").kind(),
            io::ErrorKind::PermissionDenied
        );
        let silent = challenged(std::process::id(), |socket| {
            let mut question = String::new();
            BufReader::new(&socket)
                .read_line(&mut question)
                .expect("a question");
        })
        .await;
        assert_eq!(silent.expect_err("refused").kind(), io::ErrorKind::UnexpectedEof);
    }
}
