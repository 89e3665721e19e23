//! Requests to a collector: OTLP over HTTP, in protobuf, compressed.

use std::{
    fs::OpenOptions,
    io::{self, Read as _, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    time::Duration,
};

use flate2::{Compression, write::GzEncoder};
use nix::fcntl::OFlag;
use prost::Message;
use ureq::{
    http::{HeaderName, HeaderValue, StatusCode, header::RETRY_AFTER},
    tls::{PemItem, RootCerts, TlsConfig, parse_pem},
};

use super::{OtlpSettings, messages::ExportAnswer};

/// Time limit for one request.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Longest response that is read, bytes.
const MAX_ANSWER_BYTES: u64 = 64 << 10;
/// Longest file of headers or certificates that is read, bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// The longest pause that a receiver can ask for.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(300);

/// The signals, each with its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signal {
    Logs,
    Traces,
    Metrics,
}

impl Signal {
    const fn path(self) -> &'static str {
        match self {
            Self::Logs => "/v1/logs",
            Self::Traces => "/v1/traces",
            Self::Metrics => "/v1/metrics",
        }
    }
}

/// The outcome of a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Sent {
    /// It was accepted, except for this number of records, with the reason.
    Taken(u64, String),
    /// The receiver refused it for good.
    Refused(String),
    /// It is larger than the receiver accepts.
    TooLarge,
    /// It may be accepted later, after this pause if the receiver requested one.
    Later(String, Option<Duration>),
}

/// The reason why nothing can be exported.
#[derive(Debug, thiserror::Error)]
pub(super) enum SenderError {
    #[error("cannot read {path}: {source}", path = path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("others can read {path}, so that it is no secret: `chmod 600 {path}`", path = .0.display())]
    Public(PathBuf),
    #[error("line {line} of {path} is no header: expected `name: value`", path = path.display())]
    Header { path: PathBuf, line: usize },
    #[error("{path} holds no certificate in PEM", path = .0.display())]
    Certificate(PathBuf),
}

/// A collector.
#[derive(Debug)]
pub(super) struct Sender {
    endpoint: String,
    /// The file with the certificate authorities that are trusted; `None` for the public ones.
    ca_file: Option<PathBuf>,
    agent: ureq::Agent,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl Sender {
    pub(super) fn new(settings: &OtlpSettings) -> Result<Self, SenderError> {
        let headers = settings.headers_file.as_deref().map(read_headers).transpose()?;
        let roots = settings.ca_file.as_deref().map(read_roots).transpose()?;
        let mut config = ureq::Agent::config_builder()
            .timeout_global(Some(TIMEOUT))
            .max_redirects(0)
            .http_status_as_error(false)
            .user_agent(concat!("mcpmon/", env!("CARGO_PKG_VERSION")));
        if let Some(roots) = roots {
            config = config.tls_config(TlsConfig::builder().root_certs(roots).build());
        }
        Ok(Self {
            endpoint: settings.endpoint.trim_end_matches('/').to_owned(),
            ca_file: settings.ca_file.clone(),
            agent: config.build().into(),
            headers: headers.unwrap_or_default(),
        })
    }

    pub(super) fn send(&self, signal: Signal, request: &impl Message) -> Sent {
        let mut compressed = GzEncoder::new(Vec::new(), Compression::fast());
        let body = compressed
            .write_all(&request.encode_to_vec())
            .and_then(|()| compressed.finish());
        let body = match body {
            Ok(body) => body,
            Err(error) => return Sent::Refused(error.to_string()),
        };
        let mut post = self
            .agent
            .post(format!("{}{}", self.endpoint, signal.path()))
            .content_type("application/x-protobuf")
            .header("content-encoding", "gzip");
        for (name, value) in &self.headers {
            post = post.header(name, value);
        }
        let mut response = match post.send(&*body) {
            Ok(response) => response,
            Err(error) => return Sent::Later(self.cause(&error), None),
        };
        let status = response.status();
        if status.is_success() {
            let mut answer = Vec::new();
            let read = response
                .body_mut()
                .as_reader()
                .take(MAX_ANSWER_BYTES)
                .read_to_end(&mut answer);
            let is_read = read.is_ok();
            return taken(if is_read { &answer } else { &[] });
        }
        let pause = response.headers().get(RETRY_AFTER);
        let seconds = pause.and_then(|pause| pause.to_str().ok()?.trim().parse().ok());
        outcome(
            status,
            seconds.map(|seconds| Duration::from_secs(seconds).min(MAX_RETRY_AFTER)),
        )
    }

    /// Returns the cause of a failure. The URL may contain a secret, and is in none of these messages.
    fn cause(&self, error: &ureq::Error) -> String {
        let Some(objection) = certificate_objection(error) else {
            return error.to_string();
        };
        let authorities = match &self.ca_file {
            Some(file) => format!(
                "authorities are those in {}, by `record.otlp_ca_file`",
                file.display()
            ),
            None => "authorities are the public ones: `record.otlp_ca_file` names others".to_owned(),
        };
        format!("the collector's certificate is not accepted ({objection}); {authorities}")
    }
}

/// Returns the objection to a certificate, if an error is one.
fn certificate_objection(error: &ureq::Error) -> Option<&rustls::Error> {
    let found = if let ureq::Error::Rustls(error) = error {
        Some(error)
    } else if let ureq::Error::Io(error) = error {
        error.get_ref()?.downcast_ref()
    } else {
        None
    };
    found.filter(|error| matches!(error, rustls::Error::InvalidCertificate(_)))
}

/// Returns the outcome of a successful response. A response that cannot be decoded counts as full acceptance.
fn taken(answer: &[u8]) -> Sent {
    let rejected = ExportAnswer::decode(answer)
        .ok()
        .and_then(|answer| answer.partial_success)
        .map(|partial| (partial.rejected, partial.error_message));
    match rejected {
        Some((count, message)) if count > 0 => Sent::Taken(count.unsigned_abs(), message),
        Some(_) | None => Sent::Taken(0, String::new()),
    }
}

/// Returns the outcome for a status, according to the specification. Authentication errors may pass too, because the
/// receiver may be repaired.
fn outcome(status: StatusCode, pause: Option<Duration>) -> Sent {
    match status.as_u16() {
        401 | 403 | 408 | 425 | 429 | 500.. => {
            Sent::Later(format!("http status: {}", status.as_u16()), pause)
        }
        413 => Sent::TooLarge,
        other => Sent::Refused(format!("http status: {other}")),
    }
}

fn read(path: &Path) -> Result<(String, u32), SenderError> {
    let failed = |source| SenderError::Io {
        path: path.to_owned(),
        source,
    };
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(OFlag::O_NONBLOCK.bits())
        .open(path)
        .map_err(failed)?;
    let mode = file.metadata().map_err(failed)?.mode();
    let mut text = String::new();
    file.take(MAX_FILE_BYTES)
        .read_to_string(&mut text)
        .map_err(failed)?;
    Ok((text, mode))
}

/// Reads headers, one per line, from a file that only its owner may read.
fn read_headers(path: &Path) -> Result<Vec<(HeaderName, HeaderValue)>, SenderError> {
    let (text, mode) = read(path)?;
    if mode & 0o077 != 0 {
        return Err(SenderError::Public(path.to_owned()));
    }
    let lines = text.lines().enumerate();
    let written = lines.filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
    written
        .map(|(index, line)| {
            header(line).ok_or_else(|| SenderError::Header {
                path: path.to_owned(),
                line: index + 1,
            })
        })
        .collect()
}

fn header(line: &str) -> Option<(HeaderName, HeaderValue)> {
    let (name, value) = line.split_once(':')?;
    let mut value: HeaderValue = value.trim().parse().ok()?;
    value.set_sensitive(true);
    Some((name.trim().parse().ok()?, value))
}

fn read_roots(path: &Path) -> Result<RootCerts, SenderError> {
    let (text, _) = read(path)?;
    let items = parse_pem(text.as_bytes());
    let certificates: Vec<_> = items
        .filter_map(|item| match item {
            Ok(PemItem::Certificate(certificate)) => Some(certificate),
            Ok(_) | Err(_) => None,
        })
        .collect();
    match certificates.is_empty() {
        true => Err(SenderError::Certificate(path.to_owned())),
        false => Ok(RootCerts::new_with_certs(&certificates)),
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _};

    use super::*;
    use crate::sinks::otlp::messages::PartialSuccess;

    #[test]
    fn what_may_be_taken_later_is_told_from_what_is_refused() {
        let told = |status| outcome(StatusCode::from_u16(status).unwrap(), None);
        assert!(matches!(told(503), Sent::Later(..)));
        assert!(matches!(told(429), Sent::Later(..)));
        assert!(matches!(told(401), Sent::Later(..)));
        assert_eq!(told(413), Sent::TooLarge);
        assert!(matches!(told(400), Sent::Refused(_)));
        assert!(matches!(told(404), Sent::Refused(_)));
        assert!(
            matches!(told(301), Sent::Refused(_)),
            "events go where the configuration says"
        );
    }

    #[test]
    fn what_a_receiver_rejects_is_counted() {
        let answer = ExportAnswer {
            partial_success: Some(PartialSuccess {
                rejected: 3,
                error_message: "too old".to_owned(),
            }),
        };
        assert_eq!(
            taken(&answer.encode_to_vec()),
            Sent::Taken(3, "too old".to_owned())
        );
        assert_eq!(taken(b""), Sent::Taken(0, String::new()));
        assert_eq!(taken(b"{}"), Sent::Taken(0, String::new()), "no protobuf");
    }

    #[test]
    fn headers_are_read_from_a_file_that_only_its_owner_reads() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("headers");
        let write = |text: &str, mode| {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        };
        write(
            "# for the collector\n\nAuthorization: Bearer abc:def\nx-scope: a\n",
            0o600,
        );
        let headers = read_headers(&path).unwrap();
        let told: Vec<(&str, &str)> = headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.to_str().unwrap()))
            .collect();
        assert_eq!(told, [("authorization", "Bearer abc:def"), ("x-scope", "a")]);
        assert!(!format!("{headers:?}").contains("abc"), "a secret is not shown");
        write("Authorization: Bearer abc\n", 0o640);
        assert!(matches!(read_headers(&path), Err(SenderError::Public(_))));
        write("a: b\nno header\n", 0o600);
        let error = read_headers(&path).unwrap_err().to_string();
        assert!(error.contains("line 2"), "{error}");
        assert!(matches!(read_roots(&path), Err(SenderError::Certificate(_))));
    }
}
