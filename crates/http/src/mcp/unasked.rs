//! Client requests without a message: the stream of the server's unasked messages, and the end of a session.

use bytes::Bytes;
use hyper::{HeaderMap, Method, Response, StatusCode, header::ACCEPT};

use super::{
    answer::{self, Expected},
    call::{Call, SESSION_ID, single},
    old::AnnouncedUrl,
    post::session,
    problem::Problem,
    server::Kind,
    sessions::Live,
    stream::Talk,
};
use crate::body::OutgoingBody;

/// The content type of a stream.
const EVENTS: &str = "text/event-stream";

/// Opens the stream of a session, or a session of the transport of 2024-11-05, whose stream carries all answers.
pub(super) async fn listen(call: Call, is_old: bool) -> Result<Response<OutgoingBody>, Problem> {
    if !accepts_events(&call.headers) {
        let message = format!("a stream is opened by who asks for one: send `Accept: {EVENTS}`");
        return Err(Problem::new(StatusCode::NOT_ACCEPTABLE, message));
    }
    let part = call.admit(Kind::Stream)?;
    let (live, expected) = match is_old {
        true => {
            call.open()?;
            let live = Live::old(&call.conversation, call.limits, call.owner);
            (live, Expected::Places(Box::new(AnnouncedUrl::new(&call))))
        }
        false => (session(&call)?, Expected::Unasked),
    };
    let headers = call.headers.clone();
    let response = call.send(Method::GET, &call.uri, headers, Bytes::new()).await?;
    answer::read(Talk { call, live }, response, expected, part).await
}

/// Returns whether the client accepts events by name. `*/*` does not count: browsers send it when they load a picture.
fn accepts_events(headers: &HeaderMap) -> bool {
    let values = headers.get_all(ACCEPT).iter();
    let mut names = values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|range| range.split(';').next().unwrap_or_default().trim());
    names.any(|name| name.eq_ignore_ascii_case(EVENTS))
}

/// Ends a session.
pub(super) async fn delete(call: Call) -> Result<Response<OutgoingBody>, Problem> {
    let part = call.admit(Kind::Request)?;
    let live = session(&call)?;
    let headers = call.headers.clone();
    let response = call
        .send(Method::DELETE, &call.uri, headers, Bytes::new())
        .await?;
    let is_over = response.status().is_success() || response.status() == StatusCode::NOT_FOUND;
    if let (true, Ok(Some(id))) = (is_over, single(&call.headers, &SESSION_ID)) {
        call.proxy.sessions.forget(&call.conversation, id);
    }
    answer::read(Talk { call, live }, response, Expected::Farewell, part).await
}
