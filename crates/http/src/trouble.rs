//! Connection errors that a user can correct.

use std::error::Error;

use rustls::InvalidMessage;

use super::pin::{MAX_CAUSES, inner};

/// A correctable connection error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectTrouble {
    /// The other side's certificate is not trusted.
    Untrusted,
    /// The other side does not speak TLS.
    NoTls,
    /// The proxy named in the environment cannot connect.
    Proxy,
}

/// The error of a proxy that is named in the environment.
#[derive(Debug, thiserror::Error)]
#[error("the proxy {proxy} that `HTTPS_PROXY` or `ALL_PROXY` names does not lead there")]
pub(super) struct ProxyError {
    /// The proxy's URL without credentials.
    pub(super) proxy: String,
    pub(super) source: Box<dyn Error + Send + Sync>,
}

impl ConnectTrouble {
    /// Returns the correctable error behind `error`, if there is one.
    pub(super) fn behind(error: &(dyn Error + 'static)) -> Option<Self> {
        let mut cause = Some(error);
        for _ in 0..MAX_CAUSES {
            let error = cause?;
            if error.is::<ProxyError>() {
                return Some(Self::Proxy);
            }
            match error.downcast_ref::<rustls::Error>() {
                Some(rustls::Error::InvalidCertificate(_)) => return Some(Self::Untrusted),
                Some(rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType)) => {
                    return Some(Self::NoTls);
                }
                Some(_) | None => {}
            }
            cause = inner(error);
        }
        None
    }

    /// Returns the remedy: `url` is the setting of the URL, `pin` that of a fingerprint, if there is one.
    pub(super) fn remedy(self, url: &str, pin: Option<&str>) -> String {
        match (self, pin) {
            (Self::Untrusted, Some(pin)) => format!(
                "its certificate is not trusted on this host: if it is the right one, put its SHA-256 fingerprint into {pin}, or \
                 name a file with its authority in `SSL_CERT_FILE`"
            ),
            (Self::Untrusted, None) => {
                "its certificate is not trusted on this host: if it is the right one, name a file with its authority in \
                 `SSL_CERT_FILE`"
                    .to_owned()
            }
            (Self::NoTls, _) => format!(
                "what answers there does not speak TLS: if that is meant, {url} begins with `http://`, otherwise check the port"
            ),
            (Self::Proxy, _) => {
                "check that variable, or name the host in `NO_PROXY` if it is reached without a proxy".to_owned()
            }
        }
    }
}
