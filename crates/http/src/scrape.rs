//! The endpoint for Prometheus: `GET /metrics`, and nothing else.

use std::{future::Future, io, net::SocketAddr, time::Duration};

use bytes::Bytes;
use http_body_util::Full;
use hyper::{
    Method, Request, Response, StatusCode,
    header::{ALLOW, CONTENT_TYPE, HeaderValue},
};

use super::{
    admission,
    endpoint::{Endpoint, EndpointLimits},
};

const LIMITS: EndpointLimits = EndpointLimits {
    connections: 16,
    head: Duration::from_secs(5),
    connection: Duration::from_secs(30),
};
/// The format of the answer.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The error that the address cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[error("cannot serve metrics on {address}; name another address in `metrics.listen`")]
pub struct ScrapeError {
    /// The address.
    pub address: SocketAddr,
    /// The cause.
    #[source]
    pub source: io::Error,
}

/// A listener for Prometheus.
#[derive(Debug)]
pub struct ScrapeListener(Endpoint);

impl ScrapeListener {
    /// Listens on `address`.
    ///
    /// # Errors
    /// Returns an error if it cannot listen there.
    pub fn bind(address: SocketAddr) -> Result<Self, ScrapeError> {
        Endpoint::bind(address)
            .map(Self)
            .map_err(|source| ScrapeError { address, source })
    }

    /// Returns the address on which it listens.
    pub const fn address(&self) -> SocketAddr {
        self.0.address()
    }

    /// Answers each request with what `render` returns, or with its error. Has to be called within a runtime.
    ///
    /// # Errors
    /// Returns an error if the runtime cannot take the listener.
    pub async fn serve<F, R>(self, render: F) -> io::Result<()>
    where
        F: Fn() -> R + Clone + Send + Sync + 'static,
        R: Future<Output = Result<String, String>> + Send + 'static,
    {
        let is_loopback = self.address().ip().to_canonical().is_loopback();
        let answer = move |request: Request<_>| {
            let refused = refusal(&request, is_loopback);
            let render = render.clone();
            async move {
                match refused {
                    Some((status, message)) => text(status, message.into()),
                    None => metrics(render().await),
                }
            }
        };
        self.0.serve(LIMITS, answer).await
    }
}

fn metrics(rendered: Result<String, String>) -> Response<Full<Bytes>> {
    match rendered {
        Ok(metrics) => {
            let mut response = text(StatusCode::OK, metrics);
            let format = HeaderValue::from_static(OPEN_METRICS);
            response.headers_mut().insert(CONTENT_TYPE, format);
            response
        }
        Err(cause) => text(StatusCode::SERVICE_UNAVAILABLE, cause),
    }
}

/// Returns the reason why a request gets no metrics, if there is one.
fn refusal<B>(request: &Request<B>, is_loopback: bool) -> Option<(StatusCode, &'static str)> {
    if admission::is_of_page(request.headers(), is_loopback) {
        return Some((StatusCode::FORBIDDEN, "requests of web pages are refused\n"));
    }
    if request.uri().path() != "/metrics" {
        return Some((StatusCode::NOT_FOUND, "metrics are at /metrics\n"));
    }
    if request.method() != Method::GET {
        return Some((StatusCode::METHOD_NOT_ALLOWED, "only GET is answered\n"));
    }
    None
}

fn text(status: StatusCode, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(
        CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    if status == StatusCode::METHOD_NOT_ALLOWED {
        headers.insert(ALLOW, HeaderValue::from_static("GET"));
    }
    response
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpStream,
    };

    use super::*;

    async fn ask(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).await.expect("it listens");
        stream.write_all(request.as_bytes()).await.expect("it reads");
        let mut answer = String::new();
        stream
            .read_to_string(&mut answer)
            .await
            .expect("it answers and closes");
        answer
    }

    #[tokio::test]
    async fn metrics_are_served_to_a_scraper_and_nothing_to_a_page() {
        let listener = ScrapeListener::bind(([127, 0, 0, 1], 0).into()).expect("a free port");
        let address = listener.address();
        tokio::spawn(listener.serve(|| async { Ok("# EOF\n".to_owned()) }));
        let good = ask(address, "GET /metrics HTTP/1.1\r\nhost: 127.0.0.1:9\r\n\r\n").await;
        assert!(
            good.starts_with("HTTP/1.1 200 ") && good.ends_with("\r\n\r\n# EOF\n"),
            "{good}"
        );
        assert!(good.contains(OPEN_METRICS), "{good}");
        for (request, status) in [
            ("GET / HTTP/1.1\r\nhost: localhost\r\n\r\n", "404"),
            (
                "POST /metrics HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n",
                "405",
            ),
            ("GET /metrics HTTP/1.1\r\nhost: rebound.example\r\n\r\n", "403"),
            (
                "GET /metrics HTTP/1.1\r\nhost: localhost\r\norigin: https://page.example\r\n\r\n",
                "403",
            ),
            (
                "GET /metrics HTTP/1.1\r\nhost: localhost\r\nsec-fetch-site: cross-site\r\n\r\n",
                "403",
            ),
        ] {
            let answer = ask(address, request).await;
            assert!(
                answer.starts_with(&format!("HTTP/1.1 {status} ")),
                "{request}: {answer}"
            );
        }
        let broken = ask(address, "nonsense\r\n\r\n").await;
        assert!(broken.starts_with("HTTP/1.1 400 "), "{broken}");
    }

    #[tokio::test]
    async fn an_owner_that_does_not_answer_is_said_to_be_unavailable() {
        let listener = ScrapeListener::bind(([127, 0, 0, 1], 0).into()).expect("a free port");
        let address = listener.address();
        tokio::spawn(listener.serve(|| async { Err("it starts\n".to_owned()) }));
        let answer = ask(address, "GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
        assert!(
            answer.starts_with("HTTP/1.1 503 ") && answer.ends_with("it starts\n"),
            "{answer}"
        );
    }

    #[test]
    fn a_taken_address_is_named() {
        let taken = ScrapeListener::bind(([127, 0, 0, 1], 0).into()).expect("a free port");
        let error = ScrapeListener::bind(taken.address()).expect_err("it is taken");
        assert!(
            error.to_string().contains(&taken.address().to_string()),
            "{error}"
        );
    }
}
