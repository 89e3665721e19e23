//! The floor: a reverse proxy on the same library as mcpmon's that inspects nothing.

use std::net::SocketAddr;

use anyhow::Result;
use hyper::{Request, Response, Uri, body::Incoming, header::HOST, server::conn::http1, service::service_fn};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioIo},
};
use tokio::net::TcpListener;

use super::far_side::runtime;

/// Forwards until the process is killed.
///
/// # Errors
/// Returns an error if the proxy cannot listen.
pub fn serve(listen: SocketAddr, upstream: SocketAddr) -> Result<()> {
    runtime()?.block_on(async {
        let mut tcp = HttpConnector::new();
        tcp.set_nodelay(true);
        let client = Client::builder(TokioExecutor::new()).build(tcp);
        let listener = TcpListener::bind(listen).await?;
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            let client = client.clone();
            let service = service_fn(move |request| forward(client.clone(), upstream, request));
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        }
    })
}

async fn forward(
    client: Client<HttpConnector, Incoming>,
    upstream: SocketAddr,
    mut request: Request<Incoming>,
) -> Result<Response<Incoming>> {
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    *request.uri_mut() = format!("http://{upstream}{path}").parse::<Uri>()?;
    request.headers_mut().remove(HOST);
    Ok(client.request(request).await?)
}
