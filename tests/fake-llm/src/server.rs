//! The server: one thread, loopback, any number of clients.

use std::{
    convert::Infallible,
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    thread,
    time::Duration,
};

use anyhow::{Context as _, Result as Outcome};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, combinators::BoxBody};
use hyper::{
    Request, Response, StatusCode,
    body::{Frame, Incoming},
    header::{CONTENT_TYPE, HeaderName, HeaderValue},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::{
    net::{TcpListener, TcpStream},
    runtime,
    sync::mpsc,
    time,
};

use crate::{
    Script,
    dialect::{Asked, Dialect, Part, openai_responses},
    kept::Kept,
};

/// A running model; it ends with the process.
#[derive(Debug)]
pub struct FakeLlm {
    address: SocketAddr,
    shared: Arc<Shared>,
}

/// A request as it arrived.
#[derive(Clone, Debug)]
pub struct Received {
    /// Path, with the query.
    pub path: String,
    /// The header fields, with names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

#[derive(Debug)]
struct Shared {
    script: Mutex<Script>,
    /// The status and body with which every request is answered, if set.
    failure: Mutex<Option<(u16, String)>>,
    received: Mutex<Vec<Received>>,
    kept: Mutex<Kept>,
    number: AtomicUsize,
}

type Body = BoxBody<Bytes, Infallible>;

impl FakeLlm {
    /// Listens on `address`, or on a free port if the address ends in `:0`.
    ///
    /// # Errors
    /// Returns an error if the model cannot listen there.
    pub fn start(address: SocketAddr, script: Script) -> Outcome<Self> {
        let shared = Arc::new(Shared {
            script: Mutex::new(script),
            failure: Mutex::default(),
            received: Mutex::default(),
            kept: Mutex::default(),
            number: AtomicUsize::new(1),
        });
        let listener =
            std::net::TcpListener::bind(address).with_context(|| format!("could not listen on {address}"))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let served = Arc::clone(&shared);
        thread::spawn(move || runtime.block_on(accept(listener, served)));
        Ok(Self { address, shared })
    }

    /// Returns the address at which the model listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Replaces the script from now on.
    pub fn follow(&self, script: Script) {
        *self.shared.script.lock().unwrap_or_else(PoisonError::into_inner) = script;
    }

    /// Answers every request with this status and body from now on; with `None`, as the script says.
    pub fn fail(&self, failure: Option<(u16, &str)>) {
        let failure = failure.map(|(status, body)| (status, body.to_owned()));
        *self.shared.failure.lock().unwrap_or_else(PoisonError::into_inner) = failure;
    }

    /// Returns the requests received so far.
    #[must_use]
    pub fn received(&self) -> Vec<Received> {
        self.shared
            .received
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

async fn accept(listener: std::net::TcpListener, shared: Arc<Shared>) -> Outcome<()> {
    let listener = TcpListener::from_std(listener)?;
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(serve(stream, Arc::clone(&shared)));
    }
}

async fn serve(stream: TcpStream, shared: Arc<Shared>) {
    let service = service_fn(move |request| {
        let shared = Arc::clone(&shared);
        async move { Ok::<_, Infallible>(answer(&shared, request).await) }
    });
    // Errors are ignored: they only mean that the client has disconnected.
    drop(
        http1::Builder::new()
            .serve_connection(TokioIo::new(stream), service)
            .await,
    );
}

async fn answer(shared: &Shared, request: Request<Incoming>) -> Response<Body> {
    let (head, body) = request.into_parts();
    let path = head.uri.path().to_owned();
    let Ok(body) = body.collect().await.map(|body| body.to_bytes()) else {
        return told(StatusCode::BAD_REQUEST, "the request was not whole");
    };
    let field = |(name, value): (&HeaderName, &HeaderValue)| {
        (
            name.as_str().to_owned(),
            String::from_utf8_lossy(value.as_bytes()).into_owned(),
        )
    };
    let received = Received {
        path: head.uri.to_string(),
        headers: head.headers.iter().map(field).collect(),
        body: body.to_vec(),
    };
    let number = shared.number.fetch_add(1, Ordering::Relaxed);
    shared
        .received
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(received);
    let failure = shared
        .failure
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clone();
    if let Some((status, body)) = failure {
        let mut response = Response::new(Full::new(Bytes::from(body)).boxed());
        *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        response
            .headers_mut()
            .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        return response;
    }
    let Some(dialect) = Dialect::of(&path) else {
        return told(StatusCode::NOT_FOUND, "no such path");
    };
    let Ok(asked) = serde_json::from_slice::<Value>(&body) else {
        return told(StatusCode::BAD_REQUEST, "the request is no JSON");
    };
    let mut kept = shared.kept.lock().unwrap_or_else(PoisonError::into_inner);
    let before = match dialect {
        Dialect::OpenaiResponses => kept.before(&asked),
        Dialect::Anthropic | Dialect::OpenaiChat | Dialect::Gemini { .. } | Dialect::Ollama => Ok(0),
    };
    let before = match before {
        Ok(before) => before,
        Err(refusal) => return told(StatusCode::BAD_REQUEST, &refusal),
    };
    let answer = {
        let script = shared.script.lock().unwrap_or_else(PoisonError::into_inner);
        dialect.answer(&Asked {
            script: &script,
            body: &asked,
            number,
            before,
        })
    };
    kept.keep(openai_responses::id(number), answer.calls, before);
    drop(kept);
    let mut response = Response::new(sent(answer.parts));
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(answer.content_type));
    response
}

fn told(status: StatusCode, message: &str) -> Response<Body> {
    let body = json!({"type": "error", "error": {"type": "invalid_request_error", "message": message}});
    let mut response = Response::new(Full::new(Bytes::from(body.to_string())).boxed());
    *response.status_mut() = status;
    response
}

/// Returns a body of these parts. A body without pauses is sent as a whole, with its length.
fn sent(parts: Vec<Part>) -> Body {
    if let [Part::Bytes(whole)] = &*parts {
        return Full::new(Bytes::from(whole.clone())).boxed();
    }
    let (sender, receiver) = mpsc::channel::<Bytes>(1);
    tokio::spawn(async move {
        for part in parts {
            match part {
                Part::Pause(milliseconds) => time::sleep(Duration::from_millis(milliseconds)).await,
                Part::Bytes(bytes) => {
                    if sender.send(Bytes::from(bytes)).await.is_err() {
                        return;
                    }
                }
            }
        }
    });
    Parts(receiver).boxed()
}

/// A body that arrives in parts.
struct Parts(mpsc::Receiver<Bytes>);

impl hyper::body::Body for Parts {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0
            .poll_recv(context)
            .map(|part| part.map(|part| Ok(Frame::data(part))))
    }
}
