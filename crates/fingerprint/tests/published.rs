//! Fingerprints equal the digests that the functions' authors published.

use onefold_fingerprint::{Fingerprint, Fingerprinter};

fn digest(fingerprinter: &Fingerprinter, bytes: &[u8]) -> String {
    fingerprinter.fingerprint(bytes).shortened(fingerprinter.algorithm()).to_string()
}

/// The input of BLAKE3's published vectors: 0 to 250, over and over.
fn counting(len: usize) -> Vec<u8> {
    (0..=250).cycle().take(len).collect()
}

/// FIPS 180 and 202 examples: the empty message, one block, and two blocks of SHA-256.
const MESSAGES: [&[u8]; 3] =
    [b"", b"abc", b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"];

#[test]
fn sha1_matches_fips_180() {
    let expected = [
        "da39a3ee5e6b4b0d3255bfef95601890afd80709",
        "a9993e364706816aba3e25717850c26c9cd0d89d",
        "84983e441c3bd26ebaae4aa1f95129e5e54670f1",
    ];
    assert_eq!(MESSAGES.map(|message| digest(&Fingerprinter::sha1(), message)), expected);
}

#[test]
fn sha256_matches_fips_180() {
    let expected = [
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1",
    ];
    assert_eq!(MESSAGES.map(|message| digest(&Fingerprinter::sha256(), message)), expected);
}

#[test]
fn sha3_matches_fips_202() {
    let expected = [
        "a7ffc6f8bf1ed76651c14756a061d662f580ff4de43b49fa82d80a4b80f8434a",
        "3a985da74fe225b2045c172d6bd390bd855f086e3e9d525b46bfe24511431532",
        "41c0dba2a9d6240849100376a8235e2c82e1b9998a999e21db32dd97496d3376",
    ];
    assert_eq!(MESSAGES.map(|message| digest(&Fingerprinter::sha3(), message)), expected);
}

#[test]
fn blake3_matches_its_vectors() {
    let expected = [
        (0, "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"),
        (1, "2d3adedff11b61f14c886e35afa036736dcd87a74d27b5c1510225d0f592e213"),
        (1023, "10108970eeda3eb932baac1428c7a2163b0e924c9a9e25b35bba72b28f70bd11"),
        (1024, "42214739f095a406f3fc83deb889744ac00df831c10daa55189b5d121c855af7"),
    ];
    for (len, digest_) in expected {
        assert_eq!(digest(&Fingerprinter::blake3(), &counting(len)), digest_, "{len}");
    }
}

#[test]
fn keyed_blake3_matches_its_vectors() {
    let keyed = Fingerprinter::blake3_keyed(*b"whats the Elvish word for friend");
    let expected = "92b2b75604ed3c761f9d6f62392c8a9227ad0ea3f09573e783f1498a4ed60d26";
    assert_eq!(digest(&keyed, b""), expected);
}

#[test]
fn sha1_is_padded_with_zeros() {
    let fingerprint = Fingerprinter::sha1().fingerprint(b"abc");
    assert_eq!(fingerprint.as_bytes()[20..], [0; 12]);
}

#[test]
fn many_are_as_one_by_one() {
    let input = counting(70_000);
    let lens = [0, 1, 63, 64, 65, 1023, 1024, 1025, 4096, 8192, 16_385, 70_000];
    let chunks = lens.map(|len| &input[..len]);
    for fingerprinter in [
        Fingerprinter::blake3(),
        Fingerprinter::blake3_keyed([7; 32]),
        Fingerprinter::sha256(),
        Fingerprinter::sha3(),
        Fingerprinter::sha1(),
    ] {
        let present = Fingerprint::from_bytes([1; 32]);
        let mut expected = vec![present];
        expected.extend(chunks.map(|chunk| fingerprinter.fingerprint(chunk)));
        let mut many = vec![present];
        fingerprinter.fingerprint_many(&chunks, &mut many);
        assert_eq!(many, expected, "{fingerprinter:?}");
        fingerprinter.fingerprint_many(&[], &mut many);
        assert_eq!(many, expected, "{fingerprinter:?}");
    }
}

#[test]
fn a_key_changes_the_fingerprint_and_stays_out_of_debug_output() {
    let keyed = Fingerprinter::blake3_keyed([0xab; 32]);
    assert_ne!(keyed.fingerprint(b"abc"), Fingerprinter::blake3().fingerprint(b"abc"));
    assert_eq!(format!("{keyed:?}"), "Fingerprinter(blake3-keyed)");
}
