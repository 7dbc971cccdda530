//! Connections that are encrypted, and those that should have been.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use onefold_nbd::{ServerError, Tls, TlsMode};
use onefold_testkit::{random, write_certificates};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::client::*;
use crate::device::Watched;
use crate::server::{Lab, MIB};

/// Certificates of an authority, a server and a client, in files as libnbd looks for them.
pub(crate) struct Certificates {
    folder: tempfile::TempDir,
}

impl Certificates {
    pub(crate) fn new() -> Certificates {
        let folder = tempfile::tempdir().unwrap();
        write_certificates(folder.path());
        Certificates { folder }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A server's settings; with `asks`, clients need a certificate.
    pub(crate) fn tls(&self, mode: TlsMode, asks: bool) -> Tls {
        let authority = self.file("ca-cert.pem");
        let (chain, key) = (self.file("server-cert.pem"), self.file("server-key.pem"));
        Tls::from_pem_files(mode, &chain, &key, asks.then_some(authority.as_path())).unwrap()
    }

    /// The settings of a gateway, whose certificate is for both sides.
    pub(crate) fn gateway_tls(&self) -> Tls {
        let authority = self.file("ca-cert.pem");
        let (chain, key) = (self.file("gateway-cert.pem"), self.file("gateway-key.pem"));
        Tls::from_pem_files(TlsMode::Required, &chain, &key, Some(&authority)).unwrap()
    }

    /// A client with a certificate that is encrypted.
    pub(crate) fn encrypted(&self, lab: &Lab) -> Client {
        encrypted(lab, self.client(true))
    }

    /// A client that trusts the authority, and shows a certificate if it is to.
    fn client(&self, shows: bool) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(self.file("ca-cert.pem")).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        Arc::new(if shows {
            let chain = CertificateDer::from_pem_file(self.file("client-cert.pem")).unwrap();
            let key = PrivateKeyDer::from_pem_file(self.file("client-key.pem")).unwrap();
            builder.with_client_auth_cert(vec![chain], key).unwrap()
        } else {
            builder.with_no_client_auth()
        })
    }
}

fn lab(tls: Tls) -> Lab {
    Lab::with(Watched::new(MIB), |mut config| {
        config.tls = Some(tls);
        config
    })
}

/// A client that has turned TLS on, as `config` says, and has not greeted anew: there is no second
/// greeting.
fn encrypted(lab: &Lab, config: Arc<ClientConfig>) -> Client {
    let mut socket = lab.connect();
    // greets, asks for TLS and gives the connection back bare
    let mut plain = Client::greet(socket.try_clone().unwrap());
    assert_eq!(plain.answer(STARTTLS, &[]), ACK);
    drop(plain);
    let name = ServerName::try_from("localhost").unwrap();
    let mut connection = ClientConnection::new(config, name).unwrap();
    while connection.is_handshaking() {
        connection.complete_io(&mut socket).unwrap();
    }
    Client::greeted(StreamOwned::new(connection, socket))
}

#[test]
fn an_encrypted_client_is_served_as_any_other() {
    let certificates = Certificates::new();
    for (mode, asks) in
        [(TlsMode::Required, false), (TlsMode::Required, true), (TlsMode::Allowed, true)]
    {
        let lab = lab(certificates.tls(mode, asks));
        let mut client = encrypted(&lab, certificates.client(asks));
        assert_eq!(client.answer(STARTTLS, &[]), ERR_INVALID, "TLS in TLS");
        assert_eq!(client.option(LIST, &[]).len(), 2);
        client.structure();
        client.go("disk");
        let data = random(7, 300_000);
        assert_eq!(client.write(0, 1, &data), 0);
        assert!(client.read(0, 1, 300_000).unwrap() == data);
        assert_eq!(client.read(0, MIB, 1), Err(EINVAL));
        client.send_request((DISCONNECT, 0), 1, 0, 0);
        client.expect_end();
        drop(client);
        assert_eq!(lab.next_end(), None);
    }
}

#[test]
fn what_was_agreed_on_before_tls_is_forgotten() {
    let certificates = Certificates::new();
    let lab = lab(certificates.tls(TlsMode::Allowed, false));
    let socket = lab.connect();
    let mut plain = Client::greet(socket.try_clone().unwrap());
    plain.structure();
    let query = context_query("disk", &["base:allocation"]);
    assert_eq!(plain.option(SET_META_CONTEXT, &query).len(), 2);
    assert_eq!(plain.answer(STARTTLS, &[]), ACK);
    let name = ServerName::try_from("localhost").unwrap();
    let connection = ClientConnection::new(certificates.client(false), name).unwrap();
    let mut client = Client::greeted(StreamOwned::new(connection, socket));
    assert_eq!(client.answer(SET_META_CONTEXT, &query), ERR_INVALID);
    client.go("disk");
    // replies are simple again
    assert_eq!(client.read(0, 0, 2), Ok(vec![0; 2]));
    assert_eq!(client.ask((BLOCK_STATUS, 0), 0, 1), EINVAL);
}

#[test]
fn a_server_that_requires_tls_says_nothing_without() {
    let certificates = Certificates::new();
    let lab = lab(certificates.tls(TlsMode::Required, false));
    let mut client = Client::greet(lab.connect());
    for option in [LIST, INFO, GO, STRUCTURED_REPLY, LIST_META_CONTEXT, SET_META_CONTEXT, 999] {
        assert_eq!(client.answer(option, &[]), ERR_TLS_REQD, "option {option}");
    }
    assert_eq!(client.answer(STARTTLS, b"data"), ERR_INVALID);
    client.send_option(EXPORT_NAME, b"disk");
    client.expect_end();
    assert!(lab.next_end().unwrap().contains("without TLS"));
    let mut client = Client::greet(lab.connect());
    assert_eq!(client.answer(ABORT, &[]), ACK);
}

#[test]
fn tls_that_is_allowed_may_be_left_out() {
    let certificates = Certificates::new();
    let lab = lab(certificates.tls(TlsMode::Allowed, true));
    assert_eq!(lab.client().read(0, 0, 1), Ok(vec![0]));
}

#[test]
fn a_client_without_the_certificate_that_is_asked_for_is_not_served() {
    let certificates = Certificates::new();
    let lab = lab(certificates.tls(TlsMode::Required, true));
    let foreign = Certificates::new();
    let mut stranger = (*foreign.client(true)).clone();
    // a stranger who trusts the server all the same
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(certificates.file("ca-cert.pem")).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let trusting =
        rustls::client::WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider);
    stranger.dangerous().set_certificate_verifier(trusting.build().unwrap());
    for config in [certificates.client(false), Arc::new(stranger)] {
        let mut client = encrypted(&lab, config);
        // in TLS 1.3 the client learns of it after its own handshake
        let mut byte = [0];
        client.wire.read(&mut byte).unwrap_err();
        assert!(lab.next_end().unwrap().starts_with("TLS: "));
    }
}

#[test]
fn bytes_that_are_no_tls_end_the_connection() {
    let certificates = Certificates::new();
    let lab = lab(certificates.tls(TlsMode::Allowed, false));
    let mut client = Client::greet(lab.connect());
    // an option that was sent ahead must not be taken for one that came encrypted
    let start = [&b"IHAVEOPT"[..], &STARTTLS.to_be_bytes(), &[0; 4]].concat();
    let list = [&b"IHAVEOPT"[..], &LIST.to_be_bytes(), &[0; 4]].concat();
    client.send(&[start, list].concat());
    assert_eq!(u32_at(&client.bytes(20), 12), ACK);
    let ended = lab.next_end().unwrap();
    assert!(ended.starts_with("TLS: "), "{ended}");
}

#[test]
fn certificates_that_cannot_be_used_are_named() {
    let certificates = Certificates::new();
    let (chain, key) = (certificates.file("server-cert.pem"), certificates.file("server-key.pem"));
    let authority = certificates.file("ca-cert.pem");
    let missing = certificates.file("missing.pem");
    let other_key = certificates.file("client-key.pem");
    for (chain, key, client_ca, named) in [
        (&missing, &key, None, &missing),
        (&chain, &missing, None, &missing),
        (&chain, &key, Some(&missing), &missing),
        (&key, &key, None, &key),
        (&chain, &chain, None, &chain),
        (&chain, &other_key, None, &chain),
        (&chain, &key, Some(&key), &key),
    ] {
        let client_ca = client_ca.map(PathBuf::as_path);
        match Tls::from_pem_files(TlsMode::Required, chain, key, client_ca) {
            Err(ServerError::Certificate { path, why }) => {
                assert_eq!(path, *named, "{why}");
            }
            Err(other) => panic!("{other}"),
            Ok(_) => panic!("{} and {} were taken", chain.display(), key.display()),
        }
    }
    Tls::from_pem_files(TlsMode::Required, &chain, &key, Some(&authority)).unwrap();
}
