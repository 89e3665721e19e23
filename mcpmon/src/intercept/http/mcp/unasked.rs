//! What a client asks for without a message: the stream of what the server says unasked, and the end of a session.

use bytes::Bytes;
use hyper::{Method, Response, StatusCode};
use mcpmon_core::filter::mcp_http::Session;

use super::{
    answer::{self, Expected},
    call::{Call, SESSION_ID, single},
    post::known,
    problem::Problem,
    server::Kind,
    sessions::Live,
};
use crate::intercept::http::body::Outgoing;

/// Opens the stream of a session, or a session of the older transport, whose stream is all that it answers on.
pub(super) async fn listen(call: Call, is_old: bool) -> Result<Response<Outgoing>, Problem> {
    let permit = call.server.admit(Kind::Stream, call.caps())?;
    let live = match is_old {
        true => {
            call.server.open(call.caps())?;
            Live::new(call.judge.clone(), Session::new(call.limits()))
        }
        false => known(&call)?,
    };
    let response = call
        .send(Method::GET, &call.uri, call.headers.clone(), Bytes::new())
        .await?;
    let expected = match is_old {
        true => Expected::Places,
        false => Expected::Unasked,
    };
    answer::read(call, live, response, expected, permit).await
}

/// Ends a session.
pub(super) async fn delete(call: Call) -> Result<Response<Outgoing>, Problem> {
    let permit = call.server.admit(Kind::Request, call.caps())?;
    let live = known(&call)?;
    let response = call
        .send(Method::DELETE, &call.uri, call.headers.clone(), Bytes::new())
        .await?;
    let is_over = response.status().is_success() || response.status() == StatusCode::NOT_FOUND;
    if let (true, Ok(id @ Some(_))) = (is_over, single(&call.headers, &SESSION_ID)) {
        call.proxy
            .sessions
            .forget(&call.server.remote.id, &call.judge, id);
    }
    answer::read(call, live, response, Expected::Nothing, permit).await
}
