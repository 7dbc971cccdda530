//! Certificates and keys for encrypted connections.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::ServerError;

/// Whether clients must use TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsMode {
    /// Clients may use TLS. Without it they need no certificate either.
    Allowed,
    /// Clients get no information and no export before TLS is active.
    Required,
}

/// The TLS configuration, for TLS 1.2 or 1.3.
#[derive(Clone)]
pub struct Tls {
    pub(crate) mode: TlsMode,
    pub(crate) acceptor: TlsAcceptor,
    /// By which this server is a client of another one, if there are authorities to trust.
    pub(crate) connector: Option<TlsConnector>,
}

impl Tls {
    /// Reads the server's certificate chain, its own certificate first, and its private key, all in PEM.
    ///
    /// With `client_ca`, a file of certificates in PEM, a client must have a certificate signed by one of
    /// them. A server with a [`Finder`](crate::Finder) trusts other servers by these certificates, and shows
    /// them its own.
    ///
    /// # Errors
    ///
    /// [`ServerError::Certificate`] names the file that cannot be read or used.
    pub fn from_pem_files(
        mode: TlsMode,
        certificates: &Path,
        key: &Path,
        client_ca: Option<&Path>,
    ) -> Result<Tls, ServerError> {
        let private_key =
            PrivateKeyDer::from_pem_file(key).map_err(|error| unusable(key, &error))?;
        let builder = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .expect("the provider knows TLS 1.2 and 1.3");
        let builder = match client_ca {
            Some(file) => builder.with_client_cert_verifier(verifier(file)?),
            None => builder.with_no_client_auth(),
        };
        let chain = read_certificates(certificates)?;
        let connector = match client_ca {
            Some(file) => {
                let config = ClientConfig::builder_with_provider(provider())
                    .with_safe_default_protocol_versions()
                    .expect("the provider knows TLS 1.2 and 1.3")
                    .with_root_certificates(roots(file)?)
                    .with_client_auth_cert(chain.clone(), private_key.clone_key())
                    .map_err(|error| unusable(certificates, &error))?;
                Some(TlsConnector::from(Arc::new(config)))
            }
            None => None,
        };
        let config = builder
            .with_single_cert(chain, private_key)
            .map_err(|error| unusable(certificates, &error))?;
        Ok(Tls { mode, acceptor: TlsAcceptor::from(Arc::new(config)), connector })
    }
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

fn roots(file: &Path) -> Result<RootCertStore, ServerError> {
    let mut roots = RootCertStore::empty();
    for certificate in read_certificates(file)? {
        roots.add(certificate).map_err(|error| unusable(file, &error))?;
    }
    Ok(roots)
}

fn verifier(file: &Path) -> Result<Arc<dyn ClientCertVerifier>, ServerError> {
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots(file)?), provider())
        .build()
        .map_err(|error| unusable(file, &error))
}

fn read_certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, ServerError> {
    let certificates: Vec<_> = CertificateDer::pem_file_iter(file)
        .and_then(Iterator::collect)
        .map_err(|error| unusable(file, &error))?;
    if certificates.is_empty() {
        return Err(unusable(file, &"no certificate in it, expected at least one in PEM"));
    }
    Ok(certificates)
}

fn unusable(file: &Path, why: &dyn ToString) -> ServerError {
    ServerError::Certificate { path: file.to_owned(), why: why.to_string() }
}
