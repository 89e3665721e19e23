//! Pinned certificates: a server is recognised by the fingerprint of its certificate.
//!
//! A pin replaces the check by certificate authorities: its author has seen this very certificate. So a self-signed
//! certificate is accepted if it is pinned, and any other one is refused, whoever signed it. Names and dates in it are
//! not checked either. As always, the server has to prove that it has the certificate's key.

use std::{error::Error, io, sync::Arc};

use mcpmon_model::Digest;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, OtherError, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime},
};

/// Most causes of an error that are examined.
pub(super) const MAX_CAUSES: usize = 16;

/// The server's certificate is not the pinned one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("its certificate is {actual}, and {expected} is pinned (`tls_fingerprint`)")]
pub(super) struct CertificateMismatch {
    /// The pinned fingerprint.
    pub(super) expected: Digest,
    /// The server's fingerprint.
    pub(super) actual: Digest,
}

impl CertificateMismatch {
    /// Returns the mismatch behind `error`, if it is one.
    pub(super) fn behind(error: &(dyn Error + 'static)) -> Option<Self> {
        let mut cause = Some(error);
        for _ in 0..MAX_CAUSES {
            let error = cause?;
            if let Some(mismatch) = error.downcast_ref::<Self>() {
                return Some(*mismatch);
            }
            cause = inner(error);
        }
        None
    }
}

/// Returns the next cause of an error, also if `source` skips it.
pub(super) fn inner<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e (dyn Error + 'static)> {
    if let Some(error) = error.downcast_ref::<io::Error>() {
        return error.get_ref().map(|error| error as &(dyn Error + 'static));
    }
    match error.downcast_ref::<rustls::Error>() {
        Some(rustls::Error::InvalidCertificate(CertificateError::Other(OtherError(other)))) => {
            Some(other.as_ref())
        }
        _ => error.source(),
    }
}

/// Returns a TLS configuration that accepts only the certificate `pin`.
///
/// # Errors
/// Returns an error if no version of TLS is supported.
pub(super) fn config(pin: Digest) -> Result<ClientConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = Arc::new(Pinned {
        pin,
        provider: Arc::clone(&provider),
    });
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    Ok(config)
}

#[derive(Debug)]
struct Pinned {
    pin: Digest,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let actual = Digest::of(end_entity);
        if actual == self.pin {
            return Ok(ServerCertVerified::assertion());
        }
        let mismatch = CertificateMismatch {
            expected: self.pin,
            actual,
        };
        Err(CertificateError::Other(OtherError(Arc::new(mismatch))).into())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}
