//! Streamable HTTP, on a separate thread.

use std::{
    convert::Infallible,
    net::SocketAddr,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    thread,
    time::Duration,
};

use anyhow::{Context as _, Result};
use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use hyper::{
    Request, Response,
    body::{Body, Frame, Incoming, SizeHint},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use rmcp::transport::streamable_http_server::{
    StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager,
};
use tokio::{
    net::{TcpListener, TcpStream},
    runtime,
    sync::oneshot,
};

use crate::server::{Server, Shared};

/// The time after which a client whose stream was closed reconnects.
const RETRY: Duration = Duration::from_millis(200);

/// The form in which the server answers a request that needs one message only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answers {
    /// With a stream of events, and with sessions for clients that make a handshake.
    Events,
    /// With JSON, and without sessions.
    Json,
}

/// A running server; it ends with the process.
#[derive(Debug)]
pub struct ConformantServer {
    address: SocketAddr,
}

type Service = StreamableHttpService<Server, LocalSessionManager>;

impl ConformantServer {
    /// Listens on `address`, or on a free port if the address ends in `:0`.
    ///
    /// # Errors
    /// Returns an error if the server cannot listen there.
    pub fn start(address: SocketAddr, answers: Answers) -> Result<Self> {
        let listener =
            std::net::TcpListener::bind(address).with_context(|| format!("could not listen on {address}"))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        thread::spawn(move || runtime.block_on(accept(listener, service(answers))));
        Ok(Self { address })
    }

    /// Returns the URL at which the server listens.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }
}

fn service(answers: Answers) -> Service {
    let is_json = answers == Answers::Json;
    let configuration = StreamableHttpServerConfig::default()
        .enforce_origin_validation()
        .with_allowed_origins(["http://localhost:*", "http://127.0.0.1:*"])
        .with_sse_retry(Some(RETRY))
        .with_legacy_session_mode(!is_json)
        .with_json_response(is_json);
    let mut sessions = LocalSessionManager::default();
    sessions.session_config.sse_retry = Some(RETRY);
    let shared = Arc::new(Shared::new());
    let server = move || Ok(Server::new(Arc::clone(&shared)));
    StreamableHttpService::new(server, Arc::new(sessions), configuration)
}

async fn accept(listener: std::net::TcpListener, service: Service) -> Result<()> {
    let listener = TcpListener::from_std(listener)?;
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(serve(stream, service.clone()));
    }
}

async fn serve(stream: TcpStream, service: Service) {
    let service = service_fn(move |request| {
        let service = service.clone();
        async move { Ok::<_, Infallible>(answer(&service, request).await) }
    });
    // Errors are ignored: they only mean that the client has disconnected.
    drop(
        http1::Builder::new()
            .serve_connection(TokioIo::new(stream), service)
            .await,
    );
}

async fn answer(service: &Service, mut request: Request<Incoming>) -> Response<Cut> {
    let (line, hung_up) = Line::new();
    request.extensions_mut().insert(line);
    service.handle(request).await.map(|body| Cut {
        body,
        hung_up: Some(hung_up),
    })
}

/// The connection of a request: the stream of its answer can be closed before it is complete.
#[derive(Clone, Debug)]
pub(crate) struct Line(Arc<Mutex<Option<oneshot::Sender<()>>>>);

impl Line {
    fn new() -> (Self, oneshot::Receiver<()>) {
        let (sender, receiver) = oneshot::channel();
        (Self(Arc::new(Mutex::new(Some(sender)))), receiver)
    }

    /// Ends the stream after the data sent so far.
    pub(crate) fn hang_up(&self) {
        let sender = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        // Sending fails if the client is gone.
        let _gone = sender.map(|sender| sender.send(()));
    }
}

/// The body of an answer whose stream can be closed early.
#[derive(Debug)]
struct Cut {
    body: BoxBody<Bytes, Infallible>,
    hung_up: Option<oneshot::Receiver<()>>,
}

impl Body for Cut {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let ready @ Poll::Ready(_) = Pin::new(&mut self.body).poll_frame(context) {
            return ready;
        }
        let Some(hung_up) = &mut self.hung_up else {
            return Poll::Pending;
        };
        match Pin::new(hung_up).poll(context) {
            Poll::Ready(Ok(())) => Poll::Ready(None),
            Poll::Ready(Err(_)) => {
                self.hung_up = None;
                Poll::Pending
            }
            Poll::Pending => Poll::Pending,
        }
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
