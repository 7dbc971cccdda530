use std::fs;
use std::io;
use std::path::Path;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

/// Writes certificates to the folder `folder`, in the files that libnbd looks for: `ca-cert.pem` is
/// an authority's, and it signed a server's and a client's for `localhost`, `server-cert.pem` and
/// `client-cert.pem` with `server-key.pem` and `client-key.pem`. `gateway-cert.pem` with `gateway-key.pem` is
/// for both purposes.
///
/// The folder is made if it is not there. Each call has other keys: what one authority signed is
/// foreign to the next.
///
/// Panics if a file cannot be written.
pub fn write_certificates(folder: &Path) {
    let put = |name: &str, text: String| {
        put(folder, name, &text)
            .unwrap_or_else(|error| panic!("{name} in {}: {error}", folder.display()));
    };
    let authority_key = new_key();
    let mut authority = CertificateParams::default();
    authority.distinguished_name.push(DnType::CommonName, "tests");
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    put("ca-cert.pem", authority.self_signed(&authority_key).expect("a key that signs").pem());
    let issuer = Issuer::new(authority, authority_key);
    let (server, client) =
        (ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth);
    for (name, purposes) in [
        ("server", vec![server.clone()]),
        ("client", vec![client.clone()]),
        ("gateway", vec![server, client]),
    ] {
        let key = new_key();
        let names = vec!["localhost".into()];
        let mut params = CertificateParams::new(names).expect("it is a name of a host");
        params.distinguished_name.push(DnType::CommonName, name);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = purposes;
        let certificate = params.signed_by(&key, &issuer).expect("a key that signs");
        put(&format!("{name}-cert.pem"), certificate.pem());
        put(&format!("{name}-key.pem"), key.serialize_pem());
    }
}

fn new_key() -> KeyPair {
    KeyPair::generate().expect("there are random numbers")
}

#[expect(clippy::disallowed_methods, reason = "a file of a test, no durable byte")]
fn put(folder: &Path, name: &str, text: &str) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    fs::write(folder.join(name), text)
}
