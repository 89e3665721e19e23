//! Compilation of the `policy.bundle` section: the source of bundles, and the keys that may sign them.

use std::{ops::RangeInclusive, path::PathBuf, time::Duration};

use mcpmon_bundle::{PublicKey, is_bundle_name};
use url::{Host, Url};

use crate::{
    load::{KeyMistake, KeyPath},
    raw,
    settings::BundleSettings,
};

/// Allowed intervals between two checks for a new bundle.
const INTERVALS: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(86_400);
/// Most keys of one host.
const MAX_KEYS: usize = 8;

/// Compiles the section. Returns `None` if no bundle is configured.
pub(super) fn bundle(raw: &raw::PolicyBundle, mistakes: &mut Vec<KeyMistake>) -> Option<BundleSettings> {
    let section = KeyPath::root().key("policy").key("bundle");
    let mut refuse = |path: KeyPath, message: String| mistakes.push(KeyMistake::new(path, message));
    let mut key = |path: KeyPath, text: &str| match text.parse::<PublicKey>() {
        Ok(key) => Some(key),
        Err(error) => {
            refuse(path, error.to_string());
            None
        }
    };
    let mut keys = Vec::new();
    if !raw.public_key.is_empty() {
        keys.extend(key(section.key("public_key"), &raw.public_key));
    }
    for (index, text) in raw.further_keys.iter().enumerate() {
        keys.extend(key(section.key("further_keys").index(index), text));
    }
    if raw.further_keys.len() >= MAX_KEYS {
        let message = format!("expected fewer than {MAX_KEYS} keys: remove those that sign no more");
        refuse(section.key("further_keys"), message);
    }
    if raw.url.is_empty() {
        let has_keys = !raw.public_key.is_empty() || !raw.further_keys.is_empty();
        if has_keys || *raw != raw::PolicyBundle::default() {
            let message = "no bundle is fetched that needs it: set `url` too";
            refuse(section, message.to_owned());
        }
        return None;
    }
    if raw.public_key.is_empty() {
        let message =
            "without a key any bundle of that server would be taken: make one with `mcpmon bundle keygen`";
        refuse(section.key("public_key"), message.to_owned());
    }
    if let Err(message) = check_url(&raw.url) {
        refuse(section.key("url"), message);
    }
    let interval = raw.interval.0.0;
    if !INTERVALS.contains(&interval) {
        let message = "expected a time from `1s` to `1d`";
        refuse(section.key("interval"), message.to_owned());
    }
    if !raw.name.is_empty() && !is_bundle_name(&raw.name) {
        let message = "expected letters, digits, `.`, `_` and `-`, 64 at most";
        refuse(section.key("name"), message.to_owned());
    }
    let ca_file = Some(PathBuf::from(&raw.ca_file)).filter(|path| !path.as_os_str().is_empty());
    if ca_file.as_ref().is_some_and(|path| path.is_relative()) {
        let message = "expected an absolute path: a daemon has no working directory to speak of";
        refuse(section.key("ca_file"), message.to_owned());
    }
    Some(BundleSettings {
        url: raw.url.clone(),
        keys,
        interval,
        name: Some(raw.name.clone()).filter(|name| !name.is_empty()),
        ca_file,
    })
}

/// Checks that no attacker in the network can hold a bundle back unnoticed, or learn which one a host has.
fn check_url(text: &str) -> Result<(), String> {
    let url = Url::parse(text).map_err(|error| {
        format!("`{text}` is no URL such as `https://policy.example.com/laptops.bundle`: {error}")
    })?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err("a URL in a policy cannot contain a user name or password".to_owned());
    }
    let is_here = match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.to_canonical().is_loopback(),
        None => false,
    };
    match url.scheme() {
        "https" => Ok(()),
        "http" if is_here => Ok(()),
        "http" => Err("`http` is taken from this host only: use `https`".to_owned()),
        "file" if url.to_file_path().is_ok() => Ok(()),
        "file" => Err("expected `file://` and an absolute path of this host".to_owned()),
        other => Err(format!(
            "`{other}` is no scheme of a bundle: expected `https` or `file`"
        )),
    }
}
