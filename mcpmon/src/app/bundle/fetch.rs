//! Fetching of policy bundles, from a server or from a file of this host.

use std::{
    fs::OpenOptions,
    io::{self, Read as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
    time::Duration,
};

use mcpmon_bundle::MAX_BUNDLE_BYTES;
use mcpmon_config::BundleSettings;
use mcpmon_model::Digest;
use nix::fcntl::OFlag;
use ureq::{
    http::header::{ETAG, IF_NONE_MATCH, LOCATION},
    tls::{PemItem, RootCerts, TlsConfig, parse_pem},
};
use url::Url;

/// Longest time for one request.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Longest entity tag (version) of a server that is kept, bytes.
const MAX_TAG_BYTES: usize = 1024;
/// Longest file of certificates that is read, bytes.
const MAX_CA_BYTES: u64 = 1 << 20;

/// The result of a fetch.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FetchOutcome {
    /// The bundle has not changed.
    Unchanged,
    /// The bundle is a new one.
    Fetched {
        /// The content; one byte longer than the largest bundle if it is too large.
        bytes: Vec<u8>,
        /// The name of this version.
        tag: Option<String>,
    },
    /// The fetch failed; the reason.
    Failed(String),
}

/// Returns a URL without its query and fragment, which may contain a secret.
pub(crate) fn display_url(url: &str) -> &str {
    url.split(['?', '#']).next().unwrap_or(url)
}

/// Fetches the bundle, unless it still has the version `tag`.
pub(super) fn fetch(settings: &BundleSettings, tag: Option<&str>) -> FetchOutcome {
    let file = Url::parse(&settings.url)
        .ok()
        .filter(|url| url.scheme() == "file");
    let fetched = match file.and_then(|url| url.to_file_path().ok()) {
        Some(path) => from_file(&path, tag),
        None => from_server(settings, tag),
    };
    fetched.unwrap_or_else(FetchOutcome::Failed)
}

fn from_server(settings: &BundleSettings, tag: Option<&str>) -> Result<FetchOutcome, String> {
    let mut config = ureq::Agent::config_builder()
        .timeout_global(Some(TIMEOUT))
        // Redirects are not followed: a server could direct this privileged process to any address.
        .max_redirects(0)
        .http_status_as_error(false)
        .user_agent(concat!("mcpmon/", env!("CARGO_PKG_VERSION")));
    if let Some(path) = &settings.ca_file {
        config = config.tls_config(TlsConfig::builder().root_certs(roots(path)?).build());
    }
    let agent: ureq::Agent = config.build().into();
    let mut get = agent.get(&settings.url);
    if let Some(tag) = tag {
        get = get.header(IF_NONE_MATCH, tag);
    }
    let mut response = get.call().map_err(|error| error.to_string())?;
    let header = |name| {
        let value = response.headers().get(name)?;
        value.to_str().ok().map(str::to_owned)
    };
    let (found, location) = (header(ETAG), header(LOCATION));
    match response.status().as_u16() {
        200 => {}
        304 if tag.is_some() => return Ok(FetchOutcome::Unchanged),
        status @ 300..=399 => {
            let target = location.as_deref().map_or("elsewhere", display_url);
            return Err(format!(
                "http status {status}: the server points to {target}, and redirects are not followed; set `policy.bundle.url` to where the bundle is"
            ));
        }
        status => return Err(format!("http status {status}")),
    }
    let bytes = read(response.body_mut().as_reader()).map_err(|error| error.to_string())?;
    Ok(FetchOutcome::Fetched {
        bytes,
        tag: found.filter(|tag| tag.len() <= MAX_TAG_BYTES),
    })
}

/// Reads a file; its version is the digest of its content.
fn from_file(path: &Path, tag: Option<&str>) -> Result<FetchOutcome, String> {
    let told = |error: io::Error| format!("cannot read {}: {error}", path.display());
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(OFlag::O_NONBLOCK.bits())
        .open(path)
        .map_err(told)?;
    if !file.metadata().map_err(told)?.is_file() {
        return Err(format!("{} is no regular file", path.display()));
    }
    let bytes = read(file).map_err(told)?;
    let found = Digest::of(&bytes).to_string();
    Ok(match tag == Some(found.as_str()) {
        true => FetchOutcome::Unchanged,
        false => FetchOutcome::Fetched {
            bytes,
            tag: Some(found),
        },
    })
}

/// Reads at most one byte more than the largest bundle has.
fn read(source: impl io::Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.take(MAX_BUNDLE_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn roots(path: &Path) -> Result<RootCerts, String> {
    let told = |error: io::Error| format!("cannot read {}: {error}", path.display());
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(OFlag::O_NONBLOCK.bits())
        .open(path)
        .map_err(told)?;
    let mut text = Vec::new();
    file.take(MAX_CA_BYTES).read_to_end(&mut text).map_err(told)?;
    let certificates: Vec<_> = parse_pem(&text)
        .filter_map(|item| match item {
            Ok(PemItem::Certificate(certificate)) => Some(certificate),
            Ok(_) | Err(_) => None,
        })
        .collect();
    match certificates.is_empty() {
        true => Err(format!("{} holds no certificate in PEM", path.display())),
        false => Ok(RootCerts::new_with_certs(&certificates)),
    }
}
