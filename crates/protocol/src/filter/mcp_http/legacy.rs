//! HTTP+SSE of 2024-11-05: the first event of its stream gives the URL for posts.

use super::ResponseFault;
use crate::decode::url::Url;

/// The state of reading the stream of a server of this transport.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnnouncedEndpoint {
    /// The URL at which the stream was opened, as the server knows it.
    pub server: String,
    /// The path that clients of the proxy post messages to, sent in place of the server's own.
    pub announced: String,
}

/// Returns the URL at which a server at `server` wants messages posted, given its `reference`.
///
/// # Errors
///
/// Returns an error if the URL is not at the server itself, or readers could disagree about its host.
pub fn endpoint(server: &str, reference: &str) -> Result<String, ResponseFault> {
    let fault = |cause| ResponseFault::Endpoint { cause };
    let server = Url::read(server).ok_or_else(|| fault("the server's own URL is none"))?;
    let reference = reference.trim_matches(' ');
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'\\' | b'#');
    if !reference.bytes().all(is_plain) {
        return Err(fault("it is written in a way that readers take differently"));
    }
    server
        .join(reference)
        .ok_or_else(|| fault("it is at another origin"))
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case("/messages/?session_id=ab" => "https://a.example/messages/?session_id=ab"; "a path")]
    #[test_case(" /m " => "https://a.example/m"; "spaces around")]
    #[test_case("https://a.example:443/m" => "https://a.example/m"; "absolute")]
    #[test_case("https://b.example/m" => "elsewhere"; "another host")]
    #[test_case("//b.example/m" => "elsewhere"; "another host without a scheme")]
    #[test_case("/\\b.example/m" => "unclear"; "a backslash")]
    #[test_case("/\t/b.example/m" => "unclear"; "a tab that some leave out")]
    #[test_case("/m#x" => "unclear"; "a fragment")]
    #[test_case("/m\u{e9}" => "unclear"; "beyond ASCII")]
    fn endpoints(reference: &str) -> String {
        match endpoint("https://a.example/sse", reference) {
            Ok(url) => url,
            Err(ResponseFault::Endpoint { cause }) if cause.contains("origin") => "elsewhere".to_owned(),
            Err(_) => "unclear".to_owned(),
        }
    }
}
