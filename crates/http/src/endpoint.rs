//! A small HTTP endpoint: one request per connection, with limits for the number of connections and the time of each.

use std::{convert::Infallible, future::Future, io, net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use http_body_util::Full;
use hyper::{Request, Response, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::timeout,
};

/// Longest head of a request, bytes.
const MAX_HEAD_BYTES: usize = 16 << 10;
/// The pause after a connection could not be accepted.
const PAUSE: Duration = Duration::from_millis(100);

/// The limits of an endpoint.
#[derive(Clone, Copy, Debug)]
pub(super) struct EndpointLimits {
    /// Most connections at a time; more of them wait.
    pub(super) connections: usize,
    /// Time limit for the head of a request.
    pub(super) head: Duration,
    /// Time limit for a whole connection.
    pub(super) connection: Duration,
}

/// A listener.
#[derive(Debug)]
pub(super) struct Endpoint {
    listener: std::net::TcpListener,
    address: SocketAddr,
}

impl Endpoint {
    /// Listens on `address`.
    pub(super) fn bind(address: SocketAddr) -> io::Result<Self> {
        let listener = std::net::TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address })
    }

    /// Returns the address on which it listens.
    pub(super) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers each request with what `answer` returns. Has to be called within a runtime.
    pub(super) async fn serve<F, R>(self, limits: EndpointLimits, answer: F) -> io::Result<()>
    where
        F: Fn(Request<Incoming>) -> R + Clone + Send + Sync + 'static,
        R: Future<Output = Response<Full<Bytes>>> + Send + 'static,
    {
        let listener = TcpListener::from_std(self.listener)?;
        let room = Arc::new(Semaphore::new(limits.connections));
        loop {
            let permit = Arc::clone(&room).acquire_owned().await;
            let permit = permit.map_err(io::Error::other)?;
            let stream = match listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::debug!(%error, address = %self.address, "a connection could not be accepted");
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            };
            let answer = answer.clone();
            tokio::spawn(async move {
                let served = timeout(limits.connection, connection(stream, limits, answer)).await;
                if !matches!(served, Ok(Ok(()))) {
                    tracing::debug!(?served, address = %self.address, "a connection broke off");
                }
                drop(permit);
            });
        }
    }
}

async fn connection<F, R>(stream: TcpStream, limits: EndpointLimits, answer: F) -> hyper::Result<()>
where
    F: Fn(Request<Incoming>) -> R,
    R: Future<Output = Response<Full<Bytes>>>,
{
    let service = service_fn(|request| {
        let answered = answer(request);
        async { Ok::<_, Infallible>(answered.await) }
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head)
        .max_buf_size(MAX_HEAD_BYTES)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service)
        .await
}
