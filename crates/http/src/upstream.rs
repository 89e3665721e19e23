//! Connections to providers and servers: TLS with the host's authorities or a pin, HTTP/2 if the server supports it,
//! kept open between requests.

use std::{
    convert::Infallible,
    error::Error,
    future::Future,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http_body_util::{Either, Full};
use hyper::{Request, Response, Uri, body::Incoming};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::{
        legacy::{
            self,
            connect::{HttpConnector, proxy::Tunnel},
        },
        proxy::matcher::Matcher,
    },
    rt::{TokioExecutor, TokioIo, TokioTimer},
};
use mcpmon_model::Digest;
use tokio::net::TcpStream;
use tower_service::Service;

use super::{pin, trouble::ProxyError};

/// Longest wait for a connection, TLS included.
const CONNECT: Duration = Duration::from_secs(15);
/// The time for which an unused connection is kept open.
const IDLE: Duration = Duration::from_secs(90);
/// Most unused connections to one provider.
const MAX_IDLE: usize = 32;
/// The interval of keep-alive pings on an HTTP/2 connection.
const KEEP_ALIVE: Duration = Duration::from_secs(30);

type Failure = Box<dyn Error + Send + Sync>;

/// The body to send: one that was read, or one that is streamed.
pub(super) type Sent = Either<Full<Bytes>, Incoming>;

/// A client for providers, or for one server.
#[derive(Clone, Debug)]
pub(super) struct Upstream(legacy::Client<Patient<HttpsConnector<Dialer>>, Sent>);

impl Upstream {
    /// A client with the authorities of this host (`SSL_CERT_FILE` and `SSL_CERT_DIR` name others), and with the proxy
    /// in `HTTPS_PROXY`.
    ///
    /// # Errors
    /// Returns an error if the host's authorities cannot be read.
    pub(super) fn new() -> io::Result<Self> {
        Self::pinned(None)
    }

    /// A client that, if `pin` is given, only connects to the server whose certificate has this fingerprint: without
    /// authorities, and never unencrypted. Another certificate causes an error with a [`pin::CertificateMismatch`]
    /// behind it.
    ///
    /// # Errors
    /// Returns an error if the host's authorities cannot be read.
    pub(super) fn pinned(pin: Option<Digest>) -> io::Result<Self> {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        let dialer = Dialer {
            tcp,
            environment: Arc::new(Matcher::from_env()),
        };
        let builder = HttpsConnectorBuilder::new();
        let builder = match pin {
            Some(pin) => builder
                .with_tls_config(pin::config(pin).map_err(io::Error::other)?)
                .https_only(),
            None => builder
                .try_with_platform_verifier()
                .map_err(io::Error::other)?
                .https_or_http(),
        };
        let connector = builder.enable_http1().enable_http2().wrap_connector(dialer);
        let client = legacy::Client::builder(TokioExecutor::new())
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(MAX_IDLE)
            .pool_timer(TokioTimer::new())
            .timer(TokioTimer::new())
            .http2_keep_alive_interval(KEEP_ALIVE)
            .build(Patient(connector));
        Ok(Self(client))
    }

    /// Sends a request, and waits for the head of its response.
    pub(super) async fn send(&self, request: Request<Sent>) -> Result<Response<Incoming>, legacy::Error> {
        self.0.request(request).await
    }
}

/// Opens connections, through a proxy if the environment names one for the destination.
#[derive(Clone, Debug)]
struct Dialer {
    tcp: HttpConnector,
    environment: Arc<Matcher>,
}

impl Service<Uri> for Dialer {
    type Response = TokioIo<TcpStream>;
    type Error = Failure;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Failure>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        self.tcp.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, destination: Uri) -> Self::Future {
        // An unencrypted destination is on this host or on its network.
        let is_far = destination.scheme_str() == Some("https");
        let proxy = self.environment.intercept(&destination).filter(|_| is_far);
        let Some(proxy) = proxy else {
            let connecting = self.tcp.call(destination);
            return Box::pin(async move { Ok(connecting.await?) });
        };
        let mut tunnel = Tunnel::new(proxy.uri().clone(), self.tcp.clone());
        if let Some(credentials) = proxy.basic_auth() {
            tunnel = tunnel.with_auth(credentials.clone());
        }
        let connecting = tunnel.call(destination);
        let proxy = shown(proxy.uri());
        Box::pin(async move {
            let connected = connecting.await;
            connected.map_err(|error| {
                let source = error.into();
                ProxyError { proxy, source }.into()
            })
        })
    }
}

/// Returns the URL of a proxy without its credentials.
fn shown(proxy: &Uri) -> String {
    let host = proxy.host().unwrap_or_default();
    let scheme = proxy.scheme_str().unwrap_or("http");
    match proxy.port_u16() {
        Some(port) => format!("{scheme}://{host}:{port}"),
        None => format!("{scheme}://{host}"),
    }
}

/// A connector with a time limit.
#[derive(Clone, Debug)]
struct Patient<C>(C);

impl<C> Service<Uri> for Patient<C>
where
    C: Service<Uri>,
    C::Error: Into<Failure>,
    C::Future: Send + 'static,
{
    type Response = C::Response;
    type Error = Failure;
    type Future = Pin<Box<dyn Future<Output = Result<C::Response, Failure>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        self.0.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, destination: Uri) -> Self::Future {
        let connecting = self.0.call(destination);
        Box::pin(async move {
            match tokio::time::timeout(CONNECT, connecting).await {
                Ok(connected) => connected.map_err(Into::into),
                Err(_elapsed) => Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    format!("no connection within {} s", CONNECT.as_secs()),
                )
                .into()),
            }
        })
    }
}

/// Returns a body that is complete.
pub(super) fn whole(body: impl Into<Bytes>) -> Sent {
    Either::Left(Full::<Bytes>::new(body.into()))
}

/// Converts the error of a body that cannot fail.
pub(super) const fn never(never: Infallible) -> Failure {
    match never {}
}
