//! What a client asks for without a message: the stream of what the server says unasked, and the end of a session.

use bytes::Bytes;
use hyper::{Method, Response, StatusCode};

use super::{
    answer::{self, Expected},
    call::{Call, SESSION_ID, single},
    old::Place,
    post::session,
    problem::Problem,
    server::Kind,
    sessions::Live,
    stream::Talk,
};
use crate::intercept::http::body::Outgoing;

/// Opens the stream of a session, or a session of the older transport, whose stream is all that it answers on.
pub(super) async fn listen(call: Call, is_old: bool) -> Result<Response<Outgoing>, Problem> {
    let permit = call.server.admit(Kind::Stream, call.caps())?;
    let (live, expected) = match is_old {
        true => {
            call.server.open(call.caps())?;
            let live = Live::old(&call.conversation, call.limits);
            (live, Expected::Places(Box::new(Place::new(&call))))
        }
        false => (session(&call)?, Expected::Unasked),
    };
    let headers = call.headers.clone();
    let response = call.send(Method::GET, &call.uri, headers, Bytes::new()).await?;
    answer::read(Talk { call, live }, response, expected, permit).await
}

/// Ends a session.
pub(super) async fn delete(call: Call) -> Result<Response<Outgoing>, Problem> {
    let permit = call.server.admit(Kind::Request, call.caps())?;
    let live = session(&call)?;
    let headers = call.headers.clone();
    let response = call
        .send(Method::DELETE, &call.uri, headers, Bytes::new())
        .await?;
    let is_over = response.status().is_success() || response.status() == StatusCode::NOT_FOUND;
    if let (true, Ok(Some(id))) = (is_over, single(&call.headers, &SESSION_ID)) {
        call.proxy.sessions.forget(&call.conversation, id);
    }
    answer::read(Talk { call, live }, response, Expected::Farewell, permit).await
}
