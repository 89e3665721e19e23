//! Documents about a server that clients read before they authorise. They are fetched from the server, and rewritten
//! for the address by which the client knows it.

use bytes::Bytes;
use hyper::{
    Method, Response, StatusCode,
    body::Incoming,
    header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, HeaderValue},
};

use super::{call::Call, problem::Problem, route::Document, server::Kind};
use crate::{
    TOKEN_HEADER,
    body::OutgoingBody,
    chunks::{Share, gather},
};

/// Longest document, bytes.
const MAX_BYTES: usize = 256 << 10;
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// Fetches a document from the first place that has it.
pub(super) async fn fetch(call: Call, document: Document) -> Result<Response<OutgoingBody>, Problem> {
    if call.here.has_token && document != Document::ProtectedResource {
        let message = format!(
            "`{}` is not told by a path with a token in it: whoever finds there where to log in tells that path to whoever gives out tokens; use the path without, and send the token as `{TOKEN_HEADER}`",
            document.name()
        );
        return Err(Problem::new(StatusCode::NOT_FOUND, message));
    }
    let _permit = call.admit(Kind::Request)?;
    let mut headers = call.public_headers();
    headers.insert(ACCEPT, JSON);
    for uri in call.server.documents(document) {
        let response = call
            .send(Method::GET, &uri, headers.clone(), Bytes::new())
            .await?;
        let status = response.status();
        if status.is_success() {
            return read(&call, document, response).await;
        }
        if status.is_server_error() {
            return Err(call.unfit(format!("{uri} answers with {status}")));
        }
    }
    let (name, server) = (document.name(), call.server.id());
    let message = format!("`{server}` has no document `{name}`");
    Err(Problem::new(StatusCode::NOT_FOUND, message))
}

async fn read(
    call: &Call,
    document: Document,
    response: Response<Incoming>,
) -> Result<Response<OutgoingBody>, Problem> {
    let (head, body) = response.into_parts();
    let caps = call.caps();
    let chunks = call
        .chunks(&head.headers, body, caps.request_silence)
        .map_err(|error| call.unfit(error))?
        .within(caps.request_body);
    let body = gather(chunks, MAX_BYTES, call.room(), &mut Share::default())
        .await
        .map_err(|error| call.unfit(error))?;
    if serde_json::from_slice::<serde_json::Value>(&body).is_err() {
        return Err(call.unfit("its document is no JSON"));
    }
    let rewritten = match document {
        Document::ProtectedResource => {
            let rewritten = call.with_resource(|resource| resource.rewritten(&body));
            // Some clients fall back to their own URL if the resource does not match.
            if call.here.has_token && rewritten.is_none() {
                return Err(call.unfit("its document is of another resource"));
            }
            rewritten.map(String::into_bytes)
        }
        Document::AuthorizationServer | Document::OpenidConfiguration => None,
    };
    let body = rewritten.unwrap_or(body);
    let mut response = Response::new(OutgoingBody::whole(body));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, JSON);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}
