//! Bodies: codings in both directions, and headers that are removed because they are no longer valid.

use std::io::Write as _;

use flate2::{
    Compression,
    write::{DeflateEncoder, GzEncoder, ZlibEncoder},
};
use serde_json::json;
use test_case::test_case;

use super::scene::{CHAT, END, JSON, PLAIN, SAID, STREAMED, Scene, answer, event};

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

fn zlib(text: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

fn deflate(text: &[u8]) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

fn zstd(text: &[u8]) -> Vec<u8> {
    zstd::encode_all(text, 3).unwrap()
}

/// A body in the uncompressed form of brotli: a window of 64 KiB, one stored block, and an empty last one.
fn brotli(text: &[u8]) -> Vec<u8> {
    assert!(
        (1..=1 << 16).contains(&text.len()),
        "a block has four digits of length"
    );
    let length = u32::try_from(text.len() - 1).unwrap();
    // WBITS 0, ISLAST 0, MNIBBLES 00, MLEN - 1 in 16 bits, ISUNCOMPRESSED 1, then to the next byte.
    let header = (length << 4) | (1 << 20);
    let mut coded = header.to_le_bytes()[..3].to_vec();
    coded.extend_from_slice(text);
    coded.push(0b11);
    coded
}

#[test_case("gzip", gzip; "gzip")]
#[test_case("GZip", gzip; "gzip in another case")]
#[test_case("deflate", zlib; "deflate")]
#[test_case("deflate", deflate; "deflate without its header")]
#[test_case("zstd", zstd; "zstd")]
#[test_case("br", brotli; "brotli")]
#[test_case("identity", <[u8]>::to_vec; "none")]
fn answers_are_decoded(coding: &'static str, encode: fn(&[u8]) -> Vec<u8>) {
    let headers = format!("{JSON}content-encoding: {coding}\r\netag: \"x\"\r\n");
    let coded = encode(SAID.as_bytes());
    let scene = Scene::new(move |_, wire| wire.send(answer("200 OK", &headers, &coded)));
    let heard = scene.ask(CHAT, "accept-encoding: gzip, deflate, br, zstd\r\n", PLAIN);
    assert_eq!((heard.status(), heard.text().as_str()), ("200", SAID));
    assert_eq!(heard.header("content-encoding"), None);
    assert_eq!(heard.header("etag"), None);
}

#[test_case("gzip", gzip; "gzip")]
#[test_case("deflate", zlib; "deflate")]
#[test_case("zstd", zstd; "zstd")]
#[test_case("br", brotli; "brotli")]
fn streams_are_decoded_wherever_they_are_cut(coding: &'static str, encode: fn(&[u8]) -> Vec<u8>) {
    let said = format!("{}{}{END}", event("one"), event("two"));
    let coded = encode(said.as_bytes());
    let scene = Scene::new(move |_, wire| {
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-encoding: {coding}\r\ntransfer-encoding: chunked\r\n\r\n"
        );
        wire.send(head);
        for byte in &coded {
            wire.chunk([*byte]);
        }
        wire.chunk("");
    });
    let heard = scene.ask(CHAT, "", STREAMED);
    assert_eq!(heard.text(), said);
}

#[test]
fn what_a_provider_flushed_is_there_before_more_comes() {
    let scene = Scene::new(move |_, wire| {
        wire.send(
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-encoding: gzip\r\ntransfer-encoding: chunked\r\n\r\n",
        );
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(event("one").as_bytes()).unwrap();
        encoder.flush().unwrap();
        wire.chunk(std::mem::take(encoder.get_mut()));
        // The rest is withheld.
        wire.is_closed();
    });
    let mut client = scene.connect();
    client.send(super::scene::post(CHAT, "", STREAMED));
    client.head().expect("a head");
    assert_eq!(client.next_chunk().unwrap(), event("one").as_bytes());
}

#[test]
fn members_of_a_gzip_stream_follow_each_other() {
    let coded = [gzip(&SAID.as_bytes()[..20]), gzip(&SAID.as_bytes()[20..])].concat();
    let headers = format!("{JSON}content-encoding: gzip\r\n");
    let scene = Scene::new(move |_, wire| wire.send(answer("200 OK", &headers, &coded)));
    assert_eq!(scene.ask(CHAT, "", PLAIN).text(), SAID);
}

#[test_case("gzip", &|| gzip(SAID.as_bytes())[..30].to_vec() => "502 its gzip ends too early"; "cut off")]
#[test_case("gzip", &|| SAID.as_bytes().to_vec() => "502 it is no valid gzip"; "no gzip")]
#[test_case("deflate", &|| [zlib(SAID.as_bytes()), b"more".to_vec()].concat() => "502 it is no valid deflate"; "more behind the end")]
#[test_case("gzip", &|| { let mut coded = gzip(SAID.as_bytes()); let at = coded.len() - 6; coded[at] ^= 1; coded } => "502 it is no valid gzip"; "a wrong checksum")]
#[test_case("zstd", &|| zstd(SAID.as_bytes())[..20].to_vec() => "502 its zstd ends too early"; "zstd cut off")]
#[test_case("br", &|| brotli(SAID.as_bytes())[..20].to_vec() => "502 its br ends too early"; "brotli cut off")]
#[test_case("compress", &|| SAID.as_bytes().to_vec() => "502 it is encoded as 'compress', which mcpmon does not decode"; "unknown")]
#[test_case("gzip, br", &|| SAID.as_bytes().to_vec() => "502 it is encoded as 'gzip, br', which mcpmon does not decode"; "two of them")]
#[test_case("gzip", &|| gzip(&vec![b' '; 32 << 20]) => "502 its gzip expands more than 512 times"; "made to fill memory")]
fn answers_that_cannot_be_decoded_do_not_go_on(
    coding: &'static str,
    coded: &'static (dyn Fn() -> Vec<u8> + Sync),
) -> String {
    let headers = format!("{JSON}content-encoding: {coding}\r\n");
    let coded = coded();
    let scene = Scene::new(move |_, wire| wire.send(answer("200 OK", &headers, &coded)));
    let heard = scene.ask(CHAT, "", PLAIN);
    let body: serde_json::Value = serde_json::from_slice(&heard.body).expect("an error of the dialect");
    let message = body["error"]["message"].as_str().expect("a message").to_owned();
    let start = "[mcpmon] the provider's answer is not forwarded: ";
    format!(
        "{} {}",
        heard.status(),
        message.strip_prefix(start).unwrap_or(&message)
    )
}

#[test_case("gzip", gzip; "gzip")]
#[test_case("zstd", zstd; "zstd")]
#[test_case("br", brotli; "brotli")]
fn requests_are_decoded_and_go_on_plain(coding: &'static str, encode: fn(&[u8]) -> Vec<u8>) {
    let scene = Scene::new(|_, wire| wire.send(answer("200 OK", JSON, SAID)));
    let headers = format!("content-encoding: {coding}\r\ncontent-md5: x\r\n");
    let heard = scene.ask(CHAT, &headers, encode(PLAIN.as_bytes()));
    assert_eq!(heard.status(), "200");
    let sent = scene.provider_heard();
    assert_eq!(sent.text(), PLAIN);
    assert_eq!(sent.header("content-encoding"), None);
    assert_eq!(sent.header("content-md5"), None);
}

#[test_case("/anthropic/v1/messages", "content-encoding: compress\r\n" => ("415".to_owned(), json!({"type": "error", "error": {"type": true, "message": true}})); "anthropic reads no coding")]
#[test_case("/anthropic/v1/messages", "origin: https://evil.example\r\n" => ("403".to_owned(), json!({"type": "error", "error": {"type": true, "message": true}})); "a page asks anthropic")]
#[test_case("/gemini/v1beta/models/m:generateContent", "content-encoding: compress\r\n" => ("415".to_owned(), json!({"error": {"code": true, "message": true, "status": true}})); "gemini")]
#[test_case("/ollama/api/chat", "content-encoding: compress\r\n" => ("415".to_owned(), json!({"error": true})); "ollama")]
fn an_error_is_in_the_words_of_its_api_before_there_is_a_body(
    path: &'static str,
    headers: &str,
) -> (String, serde_json::Value) {
    let scene = Scene::new(|_, wire| wire.send(answer("200 OK", JSON, SAID)));
    let heard = scene.ask(path, headers, PLAIN);
    let body = serde_json::from_slice(&heard.body).expect("an error in JSON");
    (heard.status().to_owned(), shape(&body))
}

/// Returns the names of the members, and checks that they are those of an API.
fn shape(body: &serde_json::Value) -> serde_json::Value {
    let Some(members) = body.as_object() else {
        return true.into();
    };
    let shown = members.iter().filter(|(_, value)| !value.is_null());
    let shown = shown.map(|(name, value)| match (&**name, value) {
        ("type", value) if value == "error" => (name.clone(), value.clone()),
        _ => (name.clone(), shape(value)),
    });
    shown.collect::<serde_json::Map<_, _>>().into()
}

#[test]
fn a_request_in_an_unknown_coding_is_refused() {
    let scene = Scene::new(|_, wire| wire.send(answer("200 OK", JSON, SAID)));
    let heard = scene.ask(CHAT, "content-encoding: compress\r\n", PLAIN);
    assert_eq!(heard.status(), "415");
    assert!(
        heard.text().contains("'compress', which mcpmon does not decode"),
        "{}",
        heard.text()
    );
    assert!(scene.provider_heard_nothing());
}

#[test]
fn errors_of_a_provider_go_on_as_they_came() {
    let coded = gzip(b"{\"error\":{\"message\":\"slow down\"}}");
    let sent = coded.clone();
    let scene = Scene::new(move |_, wire| {
        let headers = format!("{JSON}content-encoding: gzip\r\nretry-after: 7\r\n");
        wire.send(answer("429 Too Many Requests", &headers, &sent));
    });
    let heard = scene.ask(CHAT, "accept-encoding: gzip\r\n", STREAMED);
    assert_eq!(heard.status(), "429");
    assert_eq!(heard.header("retry-after"), Some("7"));
    assert_eq!(heard.header("content-encoding"), Some("gzip"));
    assert_eq!(heard.body, coded);
}
