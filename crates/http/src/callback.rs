//! The endpoint for signed answers. It accepts a `POST` of a small body with the headers of a Standard Webhook, and
//! nothing else. The caller, which has the key, checks the signature.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{
    HeaderMap, Method, Request, Response, StatusCode,
    body::Incoming,
    header::{CONTENT_TYPE, HeaderValue},
};

use super::{
    admission,
    endpoint::{Endpoint, EndpointLimits},
};

const LIMITS: EndpointLimits = EndpointLimits {
    connections: 64,
    head: Duration::from_secs(2),
    connection: Duration::from_secs(5),
};
/// Longest body, bytes.
const MAX_BODY_BYTES: usize = 4 << 10;

/// A post with its signature, unverified.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SignedPost {
    /// Header `webhook-id`.
    pub id: String,
    /// Header `webhook-timestamp`.
    pub timestamp: String,
    /// Header `webhook-signature`.
    pub signature: String,
    /// The body.
    pub body: Bytes,
}

/// The answer to a post: a status, and a JSON text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostAnswer {
    /// The status.
    pub status: u16,
    /// The body.
    pub json: String,
}

/// The reason why the endpoint cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum CallbackError {
    /// The address is not a loopback address: other hosts could reach it, and read the questions.
    #[error(
        "{0} is no loopback address: listen on 127.0.0.1, and put a proxy with TLS in front where others answer"
    )]
    Reachable(SocketAddr),
    /// The address cannot be listened on.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The cause.
        #[source]
        source: io::Error,
    },
}

/// A listener for signed answers, on a loopback address.
#[derive(Debug)]
pub struct CallbackListener(Endpoint);

impl CallbackListener {
    /// Listens on `address`.
    ///
    /// # Errors
    /// [`CallbackError`].
    pub fn bind(address: SocketAddr) -> Result<Self, CallbackError> {
        if !address.ip().to_canonical().is_loopback() {
            return Err(CallbackError::Reachable(address));
        }
        Endpoint::bind(address)
            .map(Self)
            .map_err(|source| CallbackError::Listen { address, source })
    }

    /// Returns the address that it listens on.
    pub const fn address(&self) -> SocketAddr {
        self.0.address()
    }

    /// Answers each post with what `answer` returns. Needs a runtime around it.
    ///
    /// # Errors
    /// Returns an error if the runtime cannot take the listener.
    pub async fn serve(
        self,
        answer: impl Fn(SignedPost) -> PostAnswer + Send + Sync + 'static,
    ) -> io::Result<()> {
        let answer = Arc::new(answer);
        let respond = move |request| {
            let answer = Arc::clone(&answer);
            async move {
                response(match read(request).await {
                    Ok(post) => answer(post),
                    Err((status, message)) => PostAnswer {
                        status: status.as_u16(),
                        json: format!("{{\"error\":\"{message}\"}}"),
                    },
                })
            }
        };
        self.0.serve(LIMITS, respond).await
    }
}

fn response(answer: PostAnswer) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(answer.json + "\n")));
    *response.status_mut() = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let kind = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

async fn read(request: Request<Incoming>) -> Result<SignedPost, (StatusCode, &'static str)> {
    if admission::is_of_page(request.headers(), true) {
        return Err((StatusCode::FORBIDDEN, "requests of web pages are refused"));
    }
    if request.uri().path() != "/approvals" {
        return Err((StatusCode::NOT_FOUND, "answers are posted to /approvals"));
    }
    if request.method() != Method::POST {
        return Err((StatusCode::METHOD_NOT_ALLOWED, "only POST is answered"));
    }
    let (head, body) = request.into_parts();
    let unsigned = (
        StatusCode::UNAUTHORIZED,
        "webhook-id, webhook-timestamp and webhook-signature are needed once each",
    );
    let header = |name| only(&head.headers, name).ok_or(unsigned);
    let (id, timestamp, signature) = (
        header("webhook-id")?,
        header("webhook-timestamp")?,
        header("webhook-signature")?,
    );
    let body = Limited::new(body, MAX_BODY_BYTES).collect().await;
    let body = body.map_err(|_cause| {
        (
            StatusCode::PAYLOAD_TOO_LARGE,
            "the body is longer than 4 KiB, or broke off",
        )
    })?;
    Ok(SignedPost {
        id,
        timestamp,
        signature,
        body: body.to_bytes(),
    })
}

/// Returns the value of a header that occurs exactly once.
fn only(headers: &HeaderMap, name: &str) -> Option<String> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?.to_owned();
    values.next().is_none().then_some(value)
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpStream,
    };

    use super::*;

    const SIGNED: &str =
        "host: 127.0.0.1\r\nwebhook-id: a\r\nwebhook-timestamp: 1\r\nwebhook-signature: v1,x\r\n";

    async fn ask(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).await.expect("it listens");
        stream.write_all(request.as_bytes()).await.expect("it reads");
        let mut answer = Vec::new();
        // The listener resets the connection if it does not read the whole of a long body.
        drop(stream.read_to_end(&mut answer).await);
        String::from_utf8(answer).expect("text")
    }

    #[tokio::test]
    async fn only_a_small_signed_post_reaches_the_owner_of_the_key() {
        let listener = CallbackListener::bind(([127, 0, 0, 1], 0).into()).expect("a free port");
        let address = listener.address();
        tokio::spawn(listener.serve(|post| PostAnswer {
            status: 200,
            json: format!(
                "\"{} {} {} {}\"",
                post.id,
                post.timestamp,
                post.signature,
                post.body.len()
            ),
        }));
        let good = format!("POST /approvals HTTP/1.1\r\n{SIGNED}content-length: 2\r\n\r\n{{}}");
        let answer = ask(address, &good).await;
        assert!(
            answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("\"a 1 v1,x 2\"\n"),
            "{answer}"
        );
        let long = "x".repeat(MAX_BODY_BYTES + 1);
        for (request, status) in [
            (good.replace("POST", "GET"), "405"),
            (good.replace("/approvals", "/"), "404"),
            (good.replace("127.0.0.1", "rebound.example"), "403"),
            (
                good.replace("\r\n\r\n", "\r\norigin: https://page.example\r\n\r\n"),
                "403",
            ),
            (good.replace("webhook-id: a\r\n", ""), "401"),
            (
                good.replace("webhook-id: a\r\n", "webhook-id: a\r\nwebhook-id: b\r\n"),
                "401",
            ),
            (
                good.replace(
                    "content-length: 2\r\n\r\n{}",
                    &format!("content-length: {}\r\n\r\n{long}", long.len()),
                ),
                "413",
            ),
        ] {
            let answer = ask(address, &request).await;
            assert!(
                answer.starts_with(&format!("HTTP/1.1 {status} ")),
                "{request}: {answer}"
            );
        }
    }

    #[test]
    fn an_address_that_others_reach_is_refused() {
        let error = CallbackListener::bind(([0, 0, 0, 0], 0).into()).expect_err("it is no loopback");
        assert!(matches!(error, CallbackError::Reachable(_)), "{error}");
    }
}
