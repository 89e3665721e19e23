//! The transport of 2024-11-05: one stream of events, the first of which gives the URL for messages.

use std::time::Duration;

use hyper::HeaderMap;

use super::{
    Address, AnswerFault,
    events::{EventContent, Stream},
    wire::Wire,
};

/// Longest wait for the first event.
const WELCOME: Duration = Duration::from_secs(15);

/// A stream, and the URL for messages that are answered on it.
#[derive(Debug)]
pub(crate) struct Mailbox {
    pub(crate) stream: Stream,
    pub(crate) endpoint: Address,
}

impl Mailbox {
    /// Opens a stream, and waits for the URL.
    pub(crate) async fn open(wire: &Wire) -> Result<Self, AnswerFault> {
        let welcome = async {
            let mut stream = wire.listen(HeaderMap::new()).await?;
            loop {
                match stream.next().await {
                    Some(Ok(EventContent::Endpoint(reference))) => {
                        let endpoint = wire.address().endpoint(&reference)?;
                        return Ok(Self { stream, endpoint });
                    }
                    Some(Ok(EventContent::Message(_))) => {}
                    Some(Err(fault)) => return Err(fault),
                    None => return Err(AnswerFault::Ended),
                }
            }
        };
        match tokio::time::timeout(WELCOME, welcome).await {
            Ok(opened) => opened,
            Err(_elapsed) => Err(AnswerFault::Late(WELCOME.as_secs())),
        }
    }
}
