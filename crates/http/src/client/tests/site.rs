//! A server on loopback that answers as a test wants, and keeps the requests.

use std::{
    convert::Infallible,
    fmt,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::{
    HeaderMap, Request, Response,
    body::{Body, Frame, Incoming},
    header::{HeaderName, HeaderValue},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::mpsc};

use crate::client::{Address, ServerEndpoint};

/// A request as it came.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl Asked {
    /// The message in it.
    pub(crate) fn message(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }

    /// Returns the method of the message, or that of HTTP if there is no message.
    pub(crate) fn what(&self) -> String {
        match self.message()["method"].as_str() {
            Some(method) => method.to_owned(),
            None => self.method.clone(),
        }
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name);
        value.and_then(|value| value.to_str().ok()).unwrap_or("-")
    }
}

/// The answer of the test server.
pub(crate) struct Told {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: mpsc::Receiver<Bytes>,
}

impl Told {
    pub(crate) fn new(status: u16, kind: &str, body: impl Into<Bytes>) -> Self {
        let (sender, receiver) = mpsc::channel(1);
        sender.try_send(body.into()).expect("room");
        Self {
            status,
            headers: vec![("content-type", kind.to_owned())],
            body: receiver,
        }
    }

    pub(crate) fn empty(status: u16) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: mpsc::channel(1).1,
        }
    }

    /// The answer to a request, with this result.
    pub(crate) fn result(asked: &Asked, result: &Value) -> Self {
        let answer = json!({"jsonrpc": "2.0", "id": asked.message()["id"], "result": result});
        Self::new(200, "application/json", answer.to_string())
    }

    /// Returns an answer that is a stream of events, and a sender that writes them.
    pub(crate) fn events() -> (Self, mpsc::Sender<Bytes>) {
        let (sender, body) = mpsc::channel(64);
        let headers = vec![("content-type", "text/event-stream; charset=utf-8".to_owned())];
        let told = Self {
            status: 200,
            headers,
            body,
        };
        (told, sender)
    }

    /// Returns an answer that is a stream of exactly these events.
    pub(crate) fn these(events: &[String]) -> Self {
        let (told, sender) = Self::events();
        for event in events {
            sender.try_send(event.clone().into()).expect("room");
        }
        told
    }

    pub(crate) fn with(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }
}

/// A server.
pub(crate) struct Site {
    pub(crate) url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl fmt::Debug for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.url)
    }
}

impl Site {
    /// Starts a server that answers as `answer` says, as long as the test's runtime runs.
    pub(crate) async fn new(answer: impl Fn(&Asked) -> Told + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (answer, kept) = (Arc::new(answer), Arc::clone(&asked));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (answer, kept) = (Arc::clone(&answer), Arc::clone(&kept));
                let service = service_fn(move |request: Request<Incoming>| {
                    let (answer, kept) = (Arc::clone(&answer), Arc::clone(&kept));
                    async move {
                        let (head, body) = request.into_parts();
                        let body = body.collect().await.unwrap().to_bytes();
                        let asked = Asked {
                            method: head.method.to_string(),
                            path: head.uri.path_and_query().unwrap().to_string(),
                            headers: head.headers,
                            body: String::from_utf8(body.to_vec()).unwrap(),
                        };
                        kept.lock().unwrap().push(asked.clone());
                        let told = answer(&asked);
                        let mut response = Response::new(Piped(told.body));
                        *response.status_mut() = told.status.try_into().unwrap();
                        for (name, value) in told.headers {
                            let value = HeaderValue::from_str(&value).unwrap();
                            response
                                .headers_mut()
                                .insert(HeaderName::from_static(name), value);
                        }
                        Ok::<_, Infallible>(response)
                    }
                });
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
            }
        });
        Self { url, asked }
    }

    /// Returns the requests so far.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    /// Describes the requests so far.
    pub(crate) fn story(&self) -> Vec<String> {
        self.asked().iter().map(Asked::what).collect()
    }

    /// Returns the way to ask it.
    pub(crate) fn asking(&self) -> ServerEndpoint {
        ServerEndpoint {
            address: Address::new(&self.url).unwrap(),
            headers: vec!["Authorization: Bearer t".parse().unwrap()],
            pin: None,
            max_message: 1 << 20,
        }
    }
}

/// An event with a message.
pub(crate) fn event(message: &Value) -> String {
    format!("event: message\ndata: {message}\n\n")
}

struct Piped(mpsc::Receiver<Bytes>);

impl Body for Piped {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0
            .poll_recv(context)
            .map(|data| data.map(|data| Ok(Frame::data(data))))
    }
}
