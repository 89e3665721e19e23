//! Pinned certificates: the pinned one, another one, and a stolen one.

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::Arc,
    thread::{self, JoinHandle},
};

use hyper::{Request, StatusCode};
use mcpmon_model::Digest;
use ring::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _},
};
use rustls::{
    ServerConfig, ServerConnection, StreamOwned,
    pki_types::{CertificateDer, PrivatePkcs8KeyDer},
    sign::{CertifiedKey, SingleCertAndKey},
};
use test_case::test_case;

use crate::{
    pin::CertificateMismatch,
    trouble::{ConnectTrouble, ProxyError},
    upstream::{Upstream, whole},
};

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n";

/// A key, and a certificate that is signed with it.
struct Identity {
    key: Vec<u8>,
    certificate: CertificateDer<'static>,
}

impl Identity {
    /// A certificate for a name without a host, valid for one day of 2000.
    fn new() -> Self {
        let random = SystemRandom::new();
        let algorithm = &ECDSA_P256_SHA256_ASN1_SIGNING;
        let key = EcdsaKeyPair::generate_pkcs8(algorithm, &random).expect("a key");
        let pair = EcdsaKeyPair::from_pkcs8(algorithm, key.as_ref(), &random).expect("a key");
        // See RFC 5280, section 4.1; object identifiers from RFC 5480 and RFC 5758.
        let ecdsa_sha256 = der(0x30, &[&[6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2]]);
        let p256 = der(
            0x30,
            &[
                &[6, 7, 0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1],
                &[6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7],
            ],
        );
        let common_name = der(0x30, &[&[6, 3, 0x55, 4, 3], &der(0x0c, &[b"nobody.example"])]);
        let name = der(0x30, &[&der(0x31, &[&common_name])]);
        let validity = der(
            0x30,
            &[&der(0x17, &[b"000101000000Z"]), &der(0x17, &[b"000102000000Z"])],
        );
        let public = der(0x30, &[&p256, &der(3, &[&[0], pair.public_key().as_ref()])]);
        let version = der(0xa0, &[&[2, 1, 2]]);
        let serial: &[u8] = &[2, 1, 1];
        let said = der(
            0x30,
            &[&version, serial, &ecdsa_sha256, &name, &validity, &name, &public],
        );
        let signature = pair.sign(&random, &said).expect("signed");
        let signed = der(
            0x30,
            &[&said, &ecdsa_sha256, &der(3, &[&[0], signature.as_ref()])],
        );
        Self {
            key: key.as_ref().to_vec(),
            certificate: signed.into(),
        }
    }

    fn fingerprint(&self) -> Digest {
        Digest::of(&self.certificate)
    }
}

/// A value of ASN.1: its tag, its length, what is in it.
fn der(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let content = parts.concat();
    let length = content.len().to_be_bytes();
    let length = &length[length.iter().take_while(|byte| **byte == 0).count()..];
    let mut value = vec![tag];
    if content.len() > 0x7f {
        value.push(0x80 | u8::try_from(length.len()).expect("short"));
    }
    value.extend(length);
    value.extend(content);
    value
}

/// Serves one connection with `certificate` and `key`; what it heard comes back.
fn serve(
    certificate: &Identity,
    key: &Identity,
    protocols: &[&[u8]],
) -> (SocketAddr, JoinHandle<Option<String>>) {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let key = PrivatePkcs8KeyDer::from(key.key.clone());
    let key = rustls::crypto::ring::sign::any_ecdsa_type(&key.into()).expect("a key");
    let certified = CertifiedKey::new(vec![certificate.certificate.clone()], key);
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(certified)));
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let config = Arc::new(config);
    let served = thread::spawn(move || {
        let (stream, _) = listener.accept().expect("a client");
        answer(config, stream)
    });
    (address, served)
}

/// Returns `None` if the handshake failed.
fn answer(config: Arc<ServerConfig>, stream: TcpStream) -> Option<String> {
    let connection = ServerConnection::new(config).expect("a connection");
    let mut stream = StreamOwned::new(connection, stream);
    let mut heard = Vec::new();
    while !heard.ends_with(b"\r\n\r\n") && !heard.starts_with(PREFACE) {
        let mut bytes = [0; 1024];
        let read = stream.read(&mut bytes).ok()?;
        if read == 0 {
            return None;
        }
        heard.extend(&bytes[..read]);
    }
    stream.write_all(ANSWER).ok()?;
    stream.conn.send_close_notify();
    stream.flush().ok()?;
    Some(String::from_utf8_lossy(&heard).into_owned())
}

type Asked = Result<StatusCode, hyper_util::client::legacy::Error>;

fn ask(address: SocketAddr, pin: Digest, scheme: &str) -> Asked {
    asked(address, Some(pin), scheme)
}

/// Sends a request to `address`; without a pin, the host's certificate authorities decide.
fn asked(address: SocketAddr, pin: Option<Digest>, scheme: &str) -> Asked {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let upstream = Upstream::pinned(pin).expect("an upstream");
        let request = Request::get(format!("{scheme}://{address}/mcp"))
            .body(whole(""))
            .expect("a request");
        upstream.send(request).await.map(|response| response.status())
    })
}

#[test]
fn the_pinned_certificate_needs_no_authority_name_or_date() {
    let own = Identity::new();
    let (address, served) = serve(&own, &own, &[b"http/1.1"]);
    let status = ask(address, own.fingerprint(), "https").expect("an answer");
    assert_eq!(status, StatusCode::OK);
    let heard = served.join().expect("it ends").expect("a request");
    assert!(heard.starts_with("GET /mcp HTTP/1.1\r\n"), "{heard}");
}

#[test]
fn http_2_is_spoken_where_the_server_speaks_it() {
    let own = Identity::new();
    let (address, served) = serve(&own, &own, &[b"h2", b"http/1.1"]);
    let _no_frames = ask(address, own.fingerprint(), "https").expect_err("what it says is no HTTP/2");
    let heard = served.join().expect("it ends").expect("a request");
    assert!(heard.as_bytes().starts_with(PREFACE), "{heard}");
}

#[test]
fn another_certificate_is_refused_with_both_fingerprints() {
    let (pinned, other) = (Identity::new(), Identity::new());
    let (address, served) = serve(&other, &other, &[]);
    let error = ask(address, pinned.fingerprint(), "https").expect_err("another certificate");
    let mismatch = CertificateMismatch {
        expected: pinned.fingerprint(),
        actual: other.fingerprint(),
    };
    assert_eq!(CertificateMismatch::behind(&error), Some(mismatch));
    assert_eq!(served.join().expect("it ends"), None, "nothing was said to it");
}

#[test]
fn a_certificate_without_its_key_proves_nothing() {
    let (pinned, thief) = (Identity::new(), Identity::new());
    let (address, served) = serve(&pinned, &thief, &[]);
    let error = ask(address, pinned.fingerprint(), "https").expect_err("it has no key");
    assert!(error.is_connect(), "{error:?}");
    assert_eq!(CertificateMismatch::behind(&error), None);
    assert_eq!(served.join().expect("it ends"), None, "nothing was said to it");
}

#[test]
fn a_certificate_that_nobody_vouches_for_is_told_with_what_to_do() {
    let identity = Identity::new();
    let (address, served) = serve(&identity, &identity, &[]);
    let error = asked(address, None, "https").expect_err("nobody vouches for it");
    assert_eq!(served.join().expect("it ends"), None, "nothing was said to it");
    let trouble = ConnectTrouble::behind(&error).expect("something can be done");
    assert_eq!(trouble, ConnectTrouble::Untrusted);
    let remedy = trouble.remedy("the URL", Some("`tls_fingerprint`"));
    assert!(
        remedy.contains("`tls_fingerprint`") && remedy.contains("`SSL_CERT_FILE`"),
        "{remedy}"
    );
    assert!(
        !trouble.remedy("the URL", None).contains("fingerprint"),
        "none can be pinned"
    );
}

#[test]
fn a_port_that_speaks_no_tls_is_told_as_that() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let served = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        let _read = stream.read(&mut [0; 512]).expect("a greeting");
        stream
            .write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            .expect("it is said");
    });
    let error = asked(address, None, "https").expect_err("that is no TLS");
    served.join().expect("it ends");
    assert_eq!(
        ConnectTrouble::behind(&error),
        Some(ConnectTrouble::NoTls),
        "{error:?}"
    );
}

#[test]
fn a_proxy_that_leads_nowhere_is_told_as_that() {
    let error = ProxyError {
        proxy: "http://127.0.0.1:1".to_owned(),
        source: "connection refused".into(),
    };
    assert!(
        error
            .to_string()
            .contains("the proxy http://127.0.0.1:1 that `HTTPS_PROXY`")
    );
    let wrapped = std::io::Error::other(error);
    assert_eq!(ConnectTrouble::behind(&wrapped), Some(ConnectTrouble::Proxy));
    assert_eq!(ConnectTrouble::behind(&std::io::Error::other("no")), None);
}

#[test_case("http"; "in clear")]
#[test_case("https"; "no TLS")]
fn nothing_is_said_in_clear_to_a_pinned_server(scheme: &str) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let served = (scheme == "https").then(|| {
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            stream
                .write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                .expect("written");
        })
    });
    let error = ask(address, Identity::new().fingerprint(), scheme).expect_err("no TLS");
    assert!(error.is_connect(), "{error:?}");
    if let Some(served) = served {
        served.join().expect("it ends");
    }
}
