//! The authority of a cluster: the key that signs the certificates of its gateways.
//!
//! The object `authority` of the namespace has the key. Whoever may read the namespace may thus sign certificates,
//! and is trusted by all gateways: it could read and change every volume there anyway. A gateway or a command
//! signs its own certificate, which is valid for [`VALID`] and renewed long before. No operator handles any.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use onefold_backend::Operation;
use onefold_backend::rados::{Answer, Query, RadosPool, Refusal, Update};
use onefold_volume::VolumeError;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, date_time_ymd,
};
use rustls::client::{ResolvesClientCert, Resumption};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::{
    ClientHello, NoServerSessionStorage, ResolvesServerCert, WebPkiClientVerifier,
};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, RootCertStore, ServerConfig, SignatureScheme};
use zeroize::Zeroizing;

use super::error::PeerError;
use crate::error::failed;

/// The object of the namespace that has the authority.
const OBJECT: &str = "authority";
/// Attributes: the version of the format, one byte; a certificate and its private key, in DER.
const FORMAT: &str = "format";
const CERTIFICATE: &str = "certificate";
const KEY: &str = "key";
const VERSION: u8 = 1;

/// How long before and after it was made a certificate is valid: by how much clocks may differ.
pub(super) const VALID: Duration = Duration::from_secs(2 * 86_400);
/// How old a certificate is when it is replaced.
const RENEWED: Duration = Duration::from_secs(3600);

/// What gateways speak within TLS, as TLS names it.
const PROTOCOL: &[u8] = b"onefold-peer";

/// The key and the certificate that all gateways of a cluster trust.
pub struct Authority {
    certificate: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Authority(key not shown)")
    }
}

fn damaged(problem: impl fmt::Display) -> VolumeError {
    VolumeError::Damaged { object: OBJECT.to_owned(), at: 0, problem: problem.to_string() }
}

impl Authority {
    /// Makes the authority of the namespace `pool`, or reads it if an earlier attempt made it.
    ///
    /// # Errors
    /// As of [`read`](Self::read).
    pub fn create(pool: &dyn RadosPool) -> Result<Self, VolumeError> {
        let made = KeyPair::generate().and_then(|key| Ok((params().self_signed(&key)?, key)));
        let (certificate, key) =
            made.map_err(|error| damaged(format!("no key can be made: {error}")))?;
        let secret = Zeroizing::new(key.serialize_der());
        let update = Update::creating()
            .set(FORMAT, vec![VERSION])
            .set(CERTIFICATE, Bytes::copy_from_slice(certificate.der()))
            .set(KEY, Bytes::copy_from_slice(&secret));
        match pool.update(OBJECT, update) {
            Ok(_) => {
                Ok(Self { certificate: certificate.into(), issuer: Issuer::new(params(), key) })
            }
            // also if the answer was lost of an update that made it
            Err(error) => match Self::look(pool)? {
                Some(authority) => Ok(authority),
                None => Err(failed(Operation::Put, error)),
            },
        }
    }

    /// The authority of the namespace `pool`.
    ///
    /// # Errors
    /// [`VolumeError::Damaged`] if there is none or it cannot be used, [`VolumeError::NewerVersion`] if a later
    /// version made it, or that the pool refuses to read it.
    pub fn read(pool: &dyn RadosPool) -> Result<Self, VolumeError> {
        let missing =
            || damaged("it does not exist, expected the key that `onefold cluster init` makes");
        Self::look(pool)?.ok_or_else(missing)
    }

    fn look(pool: &dyn RadosPool) -> Result<Option<Self>, VolumeError> {
        match pool.query(OBJECT, &Query { xattrs: true, ..Query::default() }) {
            Ok(answer) => Self::parse(&answer).map(Some),
            Err(error) if error.refusal() == Some(Refusal::Absent) => Ok(None),
            Err(error) => Err(failed(Operation::Read, error)),
        }
    }

    fn parse(answer: &Answer) -> Result<Self, VolumeError> {
        let of = |name: &str| answer.xattrs.get(name).map_or(&b""[..], |value| value);
        match of(FORMAT) {
            &[VERSION] => {}
            &[found] if found > VERSION => {
                return Err(VolumeError::NewerVersion {
                    found: found.into(),
                    newest: VERSION.into(),
                });
            }
            found => {
                return Err(damaged(format!(
                    "attribute '{FORMAT}' is {found:?}, expected [{VERSION}]"
                )));
            }
        }
        // neither error says anything of the key
        let key = KeyPair::try_from(of(KEY))
            .map_err(|_| damaged(format!("attribute '{KEY}' is not a private key in PKCS #8")))?;
        let certificate = CertificateDer::from(of(CERTIFICATE).to_vec());
        let public = key.public_key_raw();
        if !certificate.windows(public.len()).any(|window| window == public) {
            return Err(damaged(format!("attribute '{CERTIFICATE}' is not of the key")));
        }
        roots(&certificate)
            .map_err(|error| damaged(format!("attribute '{CERTIFICATE}': {error}")))?;
        Ok(Self { certificate, issuer: Issuer::new(params(), key) })
    }

    /// A certificate for `name` that is valid from `begin` until `end`, with its key.
    fn sign(
        &self,
        name: &str,
        begin: SystemTime,
        end: SystemTime,
    ) -> Result<CertifiedKey, PeerError> {
        let refused = |error: &dyn fmt::Display| PeerError::Certificate(error.to_string());
        let date = |time: SystemTime| {
            date_time_ymd(1970, 1, 1) + time.duration_since(UNIX_EPOCH).unwrap_or_default()
        };
        let key = KeyPair::generate().map_err(|error| refused(&error))?;
        let mut params =
            CertificateParams::new([name.to_owned()]).map_err(|error| refused(&error))?;
        params.distinguished_name = named(name);
        (params.not_before, params.not_after) = (date(begin), date(end));
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let signed = params.signed_by(&key, &self.issuer).map_err(|error| refused(&error))?;
        let secret = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        CertifiedKey::from_der(vec![signed.into()], secret, &provider())
            .map_err(|error| refused(&error))
    }
}

fn named(name: &str) -> DistinguishedName {
    let mut distinguished = DistinguishedName::new();
    distinguished.push(DnType::CommonName, name);
    distinguished
}

/// What the certificate of each authority says; authorities differ by their keys.
fn params() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = named("onefold cluster");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

fn roots(certificate: &CertificateDer<'static>) -> Result<Arc<RootCertStore>, PeerError> {
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).map_err(|error| PeerError::Certificate(error.to_string()))?;
    Ok(Arc::new(roots))
}

/// Who one side of a connection is: a name, and certificates for it as they are needed.
pub(crate) struct Identity {
    authority: Arc<Authority>,
    name: String,
    /// For tests: all certificates are made as of then.
    as_of: Option<SystemTime>,
    last: Mutex<Option<(SystemTime, Arc<CertifiedKey>)>>,
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Identity").field(&self.name).finish()
    }
}

impl Identity {
    pub(crate) fn new(authority: &Arc<Authority>, name: String) -> Arc<Self> {
        let authority = Arc::clone(authority);
        Arc::new(Self { authority, name, as_of: None, last: Mutex::default() })
    }

    /// One that has certificates as of `time`.
    #[cfg(test)]
    pub(super) fn as_of(authority: &Arc<Authority>, name: String, time: SystemTime) -> Arc<Self> {
        let authority = Arc::clone(authority);
        Arc::new(Self { authority, name, as_of: Some(time), last: Mutex::default() })
    }

    /// A certificate that is valid now.
    fn current(&self) -> Result<Arc<CertifiedKey>, PeerError> {
        let now = self.as_of.unwrap_or_else(SystemTime::now);
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((made, key)) = &*last {
            // a clock that went back makes a new one as well
            if now.duration_since(*made).is_ok_and(|age| age < RENEWED) {
                return Ok(Arc::clone(key));
            }
        }
        let begin = now.checked_sub(VALID).unwrap_or(UNIX_EPOCH);
        let key = Arc::new(self.authority.sign(&self.name, begin, now + VALID)?);
        *last = Some((now, Arc::clone(&key)));
        Ok(key)
    }

    /// How to accept connections. Resumed sessions are off: certificates are checked every time.
    pub(super) fn server(self: &Arc<Self>) -> Result<Arc<ServerConfig>, PeerError> {
        let refused = |error: &dyn fmt::Display| PeerError::Certificate(error.to_string());
        self.current()?;
        let verifier = WebPkiClientVerifier::builder_with_provider(
            roots(&self.authority.certificate)?,
            provider(),
        )
        .build()
        .map_err(|error| refused(&error))?;
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|error| refused(&error))?
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(Arc::<Self>::clone(self));
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Arc::new(config))
    }

    /// How to connect.
    pub(crate) fn client(self: &Arc<Self>) -> Result<Arc<ClientConfig>, PeerError> {
        let refused = |error: &dyn fmt::Display| PeerError::Certificate(error.to_string());
        self.current()?;
        let mut config = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|error| refused(&error))?
            .with_root_certificates(roots(&self.authority.certificate)?)
            .with_client_cert_resolver(Arc::<Self>::clone(self));
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        config.resumption = Resumption::disabled();
        Ok(Arc::new(config))
    }
}

impl ResolvesServerCert for Identity {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.current().ok()
    }
}

impl ResolvesClientCert for Identity {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.current().ok()
    }

    fn has_certs(&self) -> bool {
        true
    }
}
