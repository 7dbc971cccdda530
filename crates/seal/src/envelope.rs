//! Framing the objects of one repository (docs/format.md, "Envelope").

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use crate::cipher::Cipher;
use crate::header::{self, HEADER_LEN, Header, header_of};
use crate::key::Purpose;
use crate::parts::wrong_suite;
use crate::{CHECK_LEN, Check, Key, Keys, Kind, ObjectId, Parts, SealError, Suite, padded_len};

/// Length in bytes of the random salt behind the header of an encrypted object.
pub const SALT_LEN: usize = 32;

/// Length in bytes of a [pseudonym](Envelope::pseudonym).
pub const PSEUDONYM_LEN: usize = 8;

/// Frames the objects of one repository and opens them again.
#[derive(Clone)]
pub struct Envelope {
    repository: ObjectId,
    keys: Option<Arc<Keys>>,
    /// Whether what is sealed is padded.
    pads: bool,
}

impl Envelope {
    /// The envelope of the repository `repository`, without encryption.
    pub const fn plain(repository: ObjectId) -> Self {
        Self { repository, keys: None, pads: false }
    }

    /// The envelope of the repository `repository`, whose keys are `keys`.
    pub fn encrypted(repository: ObjectId, keys: Keys) -> Self {
        Self { repository, keys: Some(Arc::new(keys)), pads: false }
    }

    /// The same, padding what it seals, or not. Nothing is padded without encryption.
    pub fn padding(self, pads: bool) -> Self {
        Self { pads: pads && self.keys.is_some(), ..self }
    }

    /// Whether the lengths of what is sealed are to be padded.
    pub const fn pads(&self) -> bool {
        self.pads
    }

    /// The repository whose objects this frames.
    pub const fn repository(&self) -> ObjectId {
        self.repository
    }

    /// The keys, if the repository is encrypted.
    pub fn keys(&self) -> Option<&Keys> {
        self.keys.as_deref()
    }

    /// How bodies are protected.
    pub const fn suite(&self) -> Suite {
        match self.keys {
            None => Suite::Plain,
            Some(_) => Suite::Aes256Gcm,
        }
    }

    /// Length in bytes of what stands before an object's body or parts: the header and the salt,
    /// if there is one.
    pub const fn start_len(&self) -> usize {
        match self.keys {
            None => HEADER_LEN,
            Some(_) => HEADER_LEN + SALT_LEN,
        }
    }

    /// The header of object `id`, if it were written now.
    pub fn header(&self, kind: Kind, id: ObjectId) -> [u8; HEADER_LEN] {
        self.expected(kind, id).encode()
    }

    fn expected(&self, kind: Kind, id: ObjectId) -> Header {
        let (suite, epoch) = match &self.keys {
            None => (Suite::Plain, 0),
            Some(_) if kind.is_under_root() => (Suite::Aes256Gcm, 0),
            Some(keys) => match keys.client() {
                Some(client) if kind.has_writers() => (Suite::Writer, client),
                _ => (Suite::Aes256Gcm, keys.epoch()),
            },
        };
        let is_padded = self.pads && !kind.is_under_root() && kind != Kind::Container;
        Header { kind, suite, epoch, is_padded, repository: self.repository, id }
    }

    /// Begins the new object `id`: appends what it starts with to `object`, and gives what seals
    /// its parts.
    ///
    /// # Panics
    /// If a write-only client is to seal what only others may.
    pub fn begin(&self, kind: Kind, id: ObjectId, object: &mut Vec<u8>) -> Parts {
        let expected = self.expected(kind, id);
        let header = expected.encode();
        object.extend_from_slice(&header);
        let cipher = self.keys.as_ref().map(|keys| match expected.suite {
            Suite::Writer => {
                let (key, share) = keys.new_object_key().expect("the client has the key");
                object.extend_from_slice(&share);
                Cipher::new(&key)
            }
            _ => {
                let salt = Key::random();
                object.extend_from_slice(salt.as_bytes());
                let sealing = sealing_key(keys, kind, expected.epoch);
                object_cipher(sealing.expect("whoever seals has the key"), salt.as_bytes())
            }
        });
        Parts::new(expected, header, cipher)
    }

    /// What opens the parts of object `id`, whose first [`start_len`](Self::start_len) bytes are
    /// `start`. They are believed only when a part was opened.
    pub fn parts(&self, kind: Kind, id: ObjectId, start: &[u8]) -> Result<Parts, SealError> {
        let header = *header_of(start)?;
        let cipher = match &self.keys {
            None => None,
            Some(keys) => {
                let salt = start.get(HEADER_LEN..self.start_len()).ok_or(SealError::Truncated {
                    found: start.len() as u64,
                    expected: self.start_len() as u64,
                })?;
                // Nothing vouches for a version that comes with an unknown suite. What is under the
                // root stays as it is, or anybody could keep a repository from being opened.
                let suite = header::suite(&header).map_err(|unknown| {
                    match header::later(kind, &header) {
                        Some(later) if !kind.is_under_root() => later,
                        _ => unknown,
                    }
                })?;
                Some(match suite {
                    Suite::Plain => return Err(wrong_suite(Suite::Plain)),
                    Suite::Writer => Cipher::new(&keys.object_key(header::epoch(&header), salt)?),
                    Suite::Aes256Gcm => {
                        object_cipher(sealing_key(keys, kind, header::epoch(&header))?, salt)
                    }
                })
            }
        };
        Ok(Parts::new(self.expected(kind, id), header, cipher))
    }

    /// Frames `body` as the whole object `id`.
    pub fn seal(&self, kind: Kind, id: ObjectId, body: &[u8]) -> Vec<u8> {
        let capacity = self.start_len() + body.len() + 2 * CHECK_LEN;
        let mut object = Vec::with_capacity(capacity);
        let parts = self.begin(kind, id, &mut object);
        let start = object.len();
        object.extend_from_slice(body);
        if parts.is_padded() {
            object.push(PADDING_BEGINS);
            let len = padded_len((object.len() + CHECK_LEN) as u64) as usize;
            object.resize(len - CHECK_LEN, 0);
        }
        let check = parts.seal_end(&mut object[start..], b"");
        object.extend_from_slice(check.as_bytes());
        if self.has_open_check(kind) {
            let check = Check::of(&[&object]);
            object.extend_from_slice(check.as_bytes());
        }
        object
    }

    /// The body of the whole object `id`, after all of it was found right.
    pub fn open<'a>(
        &self,
        kind: Kind,
        id: ObjectId,
        object: &'a [u8],
    ) -> Result<Cow<'a, [u8]>, SealError> {
        let object = match self.has_open_check(kind) {
            true => checked(object)?,
            false => object,
        };
        let start = self.start_len();
        let (found, expected) = (object.len() as u64, (start + CHECK_LEN) as u64);
        header_of(object)?;
        let (covered, check) = object
            .split_last_chunk::<CHECK_LEN>()
            .filter(|(covered, _)| covered.len() >= start)
            .ok_or(SealError::Truncated { found, expected })?;
        let parts = self.parts(kind, id, &covered[..start])?;
        let body = parts.open_end(&covered[start..], b"", check)?;
        match parts.is_padded() {
            true => without_padding(body.into_owned()).map(Cow::Owned),
            false => Ok(body),
        }
    }

    /// Which write-only client sealed `object`, which [`open`](Self::open) has found right; nothing if
    /// none did.
    pub fn client_of(object: &[u8]) -> Option<u32> {
        let header = header_of(object).ok()?;
        (header::suite(header) == Ok(Suite::Writer)).then(|| header::epoch(header))
    }

    /// In which key epoch `object`, or what begins as it does, says that it was sealed, if it says so.
    /// Nothing vouches for it.
    pub fn claimed_epoch(object: &[u8]) -> Option<u32> {
        let header = header_of(object).ok()?;
        (header::suite(header) == Ok(Suite::Aes256Gcm)).then(|| header::epoch(header))
    }

    /// What everybody who writes to the repository calls `name`, and nobody else can tell from
    /// another name. Without encryption everybody can.
    pub fn pseudonym(&self, name: &[u8]) -> [u8; PSEUDONYM_LEN] {
        let first = |bytes: &[u8]| bytes[..PSEUDONYM_LEN].try_into().expect("as many as asked for");
        match &self.keys {
            None => first(Check::of(&[name]).as_bytes()),
            Some(keys) => first(keys.index().derive(Purpose::Pseudonym, name).as_bytes()),
        }
    }

    /// Whether objects of `kind` end in one more check, which needs no key: those that are read
    /// before there is a key, so that damage is told from a wrong password.
    fn has_open_check(&self, kind: Kind) -> bool {
        kind == Kind::Config && self.suite() != Suite::Plain
    }

    /// Which repository the object is from that says so, and how it is protected. Its header's
    /// repository is believed, and the object must have the repository's id.
    pub fn discover(kind: Kind, object: &[u8]) -> Result<(ObjectId, Suite), SealError> {
        let covered = checked(object)?;
        let found = Header::read(kind, header_of(covered)?)?;
        if found.id != found.repository {
            return Err(SealError::WrongObject { found: found.id, expected: found.repository });
        }
        Ok((found.repository, found.suite))
    }
}

/// What stands behind a body, before zeros.
const PADDING_BEGINS: u8 = 1;

fn without_padding(mut body: Vec<u8>) -> Result<Vec<u8>, SealError> {
    match body.iter().rposition(|byte| *byte != 0) {
        Some(end) if body[end] == PADDING_BEGINS => {
            body.truncate(end);
            Ok(body)
        }
        _ => Err(SealError::Padding),
    }
}

/// What `object` has before its check, which is right.
pub(crate) fn checked(object: &[u8]) -> Result<&[u8], SealError> {
    header_of(object)?;
    let (found, expected) = (object.len() as u64, (HEADER_LEN + CHECK_LEN) as u64);
    let (covered, check) = object
        .split_last_chunk::<CHECK_LEN>()
        .filter(|(covered, _)| covered.len() >= HEADER_LEN)
        .ok_or(SealError::Truncated { found, expected })?;
    Check::from_bytes(*check).verify(&[covered])?;
    Ok(covered)
}

fn sealing_key(keys: &Keys, kind: Kind, epoch: u32) -> Result<&Key, SealError> {
    if kind.is_under_root() {
        keys.root()
    } else if kind.is_under_index() {
        // What a run tells of cannot be opened without the key of its epoch, so nobody relies on it.
        if !keys.is_write_only() {
            keys.sealing(epoch)?;
        }
        Ok(keys.index())
    } else {
        keys.sealing(epoch)
    }
}

/// The cipher of the object that has `salt`.
pub(crate) fn object_cipher(sealing: &Key, salt: &[u8]) -> Cipher {
    Cipher::new(&sealing.derive(Purpose::Object, salt))
}

impl fmt::Debug for Envelope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Envelope({}, {:?})", self.repository, self.suite())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FORMAT_VERSION;

    const REPOSITORY: ObjectId = ObjectId::from_bytes([7; 16]);
    const ID: ObjectId = ObjectId::from_bytes([9; 16]);
    const CLIENT: u32 = 7;

    fn plain() -> Envelope {
        Envelope::plain(REPOSITORY)
    }

    fn keys() -> Keys {
        let mut keys = Keys::new(Key::new([5; 32]));
        keys.add_epoch(1, Key::new([6; 32]));
        keys
    }

    fn encrypted() -> Envelope {
        Envelope::encrypted(REPOSITORY, keys())
    }

    #[test]
    fn what_was_sealed_opens() {
        for envelope in [plain(), encrypted()] {
            for body in [&b""[..], b"x", &[0; 1000]] {
                for kind in [Kind::Run, Kind::Config, Kind::Epoch] {
                    let object = envelope.seal(kind, ID, body);
                    assert_eq!(envelope.open(kind, ID, &object).unwrap(), body);
                }
            }
        }
    }

    #[test]
    fn a_padded_object_opens_and_its_length_says_little() {
        let envelope = encrypted().padding(true);
        let mut lengths = std::collections::BTreeSet::new();
        for len in 0..3000 {
            // Bodies that end as padding begins, or as it goes on.
            for end in [0, 1, 2] {
                let body = vec![end; len];
                let object = envelope.seal(Kind::Snapshot, ID, &body);
                assert_eq!(object[12], 1);
                assert_eq!(padded_len(object.len() as u64), object.len() as u64);
                assert_eq!(envelope.open(Kind::Snapshot, ID, &object).unwrap(), body);
                // Whoever does not pad opens it all the same.
                assert_eq!(encrypted().open(Kind::Snapshot, ID, &object).unwrap(), body);
                lengths.insert(object.len());
            }
        }
        assert!(lengths.len() < 80, "{} lengths of 3,000", lengths.len());
        let mut unflagged = envelope.seal(Kind::Snapshot, ID, b"body");
        unflagged[12] = 0;
        assert_eq!(encrypted().open(Kind::Snapshot, ID, &unflagged), Err(SealError::BadTag));
        for kind in [Kind::Config, Kind::Epoch, Kind::Container] {
            assert_eq!(envelope.header(kind, ID)[12], 0, "{kind}");
        }
        assert_eq!(plain().padding(true).seal(Kind::Run, ID, b"").len(), HEADER_LEN + CHECK_LEN);
    }

    #[test]
    fn every_flipped_bit_is_found() {
        for envelope in [plain(), encrypted(), encrypted().padding(true)] {
            for kind in [Kind::Snapshot, Kind::Config] {
                let object = envelope.seal(kind, ID, b"twenty bytes of body");
                for bit in 0..object.len() * 8 {
                    let mut damaged = object.clone();
                    damaged[bit / 8] ^= 1 << (bit % 8);
                    let opened = envelope.open(kind, ID, &damaged);
                    assert!(opened.is_err(), "{envelope:?} {kind}: bit {bit} flipped unseen");
                }
            }
        }
    }

    #[test]
    fn every_truncation_and_extension_is_found() {
        for envelope in [plain(), encrypted()] {
            let object = envelope.seal(Kind::Snapshot, ID, b"body");
            for len in 0..object.len() {
                assert!(envelope.open(Kind::Snapshot, ID, &object[..len]).is_err());
            }
            assert!(envelope.open(Kind::Snapshot, ID, &[&object[..], b"\0"].concat()).is_err());
        }
    }

    #[test]
    fn another_object_kind_or_repository_is_named() {
        let other = ObjectId::from_bytes([1; 16]);
        for (envelope, elsewhere) in [
            (plain(), Envelope::plain(other)),
            (encrypted(), Envelope::encrypted(other, Keys::new(Key::new([8; 32])))),
            // the same keys, which cannot happen, do not make it the same repository
            (encrypted(), Envelope::encrypted(other, keys())),
        ] {
            let object = envelope.seal(Kind::Receipt, ID, b"body");
            assert!(matches!(
                envelope.open(Kind::Receipt, other, &object),
                Err(SealError::WrongObject { found, .. }) if found == ID
            ));
            assert!(matches!(
                envelope.open(Kind::Snapshot, ID, &object),
                Err(SealError::WrongKind { .. })
            ));
            let error = elsewhere.open(Kind::Receipt, ID, &object).unwrap_err();
            let is_named = matches!(error, SealError::WrongRepository { .. });
            assert!(
                is_named || matches!(error, SealError::UnknownEpoch { found: 1, .. }),
                "{error}"
            );
            assert_eq!(
                envelope.open(
                    Kind::Receipt,
                    ID,
                    b"restic or anything else, long enough for a header"
                ),
                Err(SealError::NotOnefold)
            );
        }
    }

    fn renew_check(object: &mut [u8]) {
        let (covered, check) = object.split_last_chunk_mut::<CHECK_LEN>().unwrap();
        check.copy_from_slice(Check::of(&[covered]).as_bytes());
    }

    #[test]
    fn another_version_is_told_from_a_damaged_version_number() {
        let mut object = plain().seal(Kind::Run, ID, b"body");
        let later = FORMAT_VERSION + 1;
        object[4] = later;
        let opened = |object: &[u8]| plain().open(Kind::Run, ID, object).unwrap_err();
        assert!(matches!(opened(&object), SealError::BadCheck { .. }));
        renew_check(&mut object);
        assert_eq!(opened(&object), SealError::Version { found: later, known: FORMAT_VERSION });

        let mut object = encrypted().seal(Kind::Run, ID, b"body");
        object[4] = later;
        assert_eq!(encrypted().open(Kind::Run, ID, &object), Err(SealError::BadTag));
    }

    #[test]
    fn a_suite_of_a_later_version_is_that_and_of_this_one_it_is_damage() {
        for kind in Kind::ALL.iter().copied() {
            for envelope in [plain(), encrypted()] {
                if envelope.has_open_check(kind) {
                    continue;
                }
                let mut object = envelope.seal(kind, ID, b"body");
                object[6] = 3;
                let mut later = object.clone();
                later[4] = kind.version() + 1;
                if envelope.suite() == Suite::Plain {
                    renew_check(&mut object);
                    renew_check(&mut later);
                }
                let damaged = envelope.open(kind, ID, &object);
                assert_eq!(
                    damaged,
                    Err(SealError::Reserved { field: "suite", found: 3 }),
                    "{kind}"
                );
                let known = kind.version();
                let is_told = envelope.open(kind, ID, &later)
                    == Err(SealError::Version { found: known + 1, known });
                // Anybody may put a key epoch, or a word on a client, that nobody can open.
                let is_anybodys = kind.is_under_root() && envelope.suite() != Suite::Plain;
                assert_eq!(is_told, !is_anybodys, "{kind}");
            }
        }
    }

    #[test]
    fn what_version_1_reserves_must_be_zero() {
        for at in [6, 7, 8, 11, 12, 15] {
            let mut object = plain().seal(Kind::Run, ID, b"body");
            object[at] = 2;
            renew_check(&mut object);
            assert!(
                matches!(plain().open(Kind::Run, ID, &object), Err(SealError::Reserved { .. })),
                "byte {at}"
            );
        }
    }

    #[test]
    fn an_object_in_clear_is_refused_among_encrypted_ones_and_the_other_way_round() {
        let clear = plain().seal(Kind::Run, ID, &[0; SALT_LEN]);
        assert_eq!(encrypted().open(Kind::Run, ID, &clear), Err(SealError::NotEncrypted));
        let sealed = encrypted().seal(Kind::Run, ID, b"body");
        assert!(plain().open(Kind::Run, ID, &sealed).is_err());
        let mut claimed = clear;
        claimed[6] = 1;
        renew_check(&mut claimed);
        assert_eq!(plain().open(Kind::Run, ID, &claimed), Err(SealError::Encrypted));
    }

    #[test]
    fn an_object_opens_in_its_own_epoch_only() {
        let old = Envelope::encrypted(REPOSITORY, Keys::new(Key::new([5; 32])));
        let object = old.seal(Kind::Snapshot, ID, b"body");
        assert_eq!(encrypted().open(Kind::Snapshot, ID, &object).unwrap(), &b"body"[..]);
        let mut moved = object;
        moved[8] = 1;
        assert_eq!(encrypted().open(Kind::Snapshot, ID, &moved), Err(SealError::BadTag));
        let new = encrypted().seal(Kind::Snapshot, ID, b"body");
        assert_eq!(new[8..12], [1, 0, 0, 0]);
        let unknown = SealError::UnknownEpoch { found: 1, latest: 0 };
        assert_eq!(old.open(Kind::Snapshot, ID, &new), Err(unknown));
        // what belongs to no epoch opens whatever the latest is
        let config = encrypted().seal(Kind::Config, REPOSITORY, b"config");
        assert_eq!(old.open(Kind::Config, REPOSITORY, &config).unwrap(), &b"config"[..]);
    }

    #[test]
    fn equal_bodies_are_sealed_differently_each_time() {
        let body = [0; 64];
        let [one, two] = [(); 2].map(|()| encrypted().seal(Kind::Run, ID, &body));
        let blocks = |object: &[u8]| -> std::collections::BTreeSet<Vec<u8>> {
            object[HEADER_LEN..].windows(8).map(<[u8]>::to_vec).collect()
        };
        assert!(blocks(&one).is_disjoint(&blocks(&two)));
    }

    /// Python's blake3 1.0.11 and cryptography 50 (OpenSSL), with the salt that was drawn:
    ///
    ///     d = lambda key, purpose: blake3.blake3(key,
    ///         derive_key_context=f"onefold 2026 encryption: {purpose}").digest()
    ///     sealing = d(bytes([5] * 32), "sealing key of epoch 0")
    ///     header = b"1FLD" + bytes([1, 4, 1, 0]) + bytes(8) + bytes([7] * 16) + bytes([9] * 16)
    ///     salt = bytes(range(32))
    ///     AESGCM(d(sealing + salt, "object key")).encrypt(bytes(12), b"body", header).hex()
    #[test]
    fn an_object_that_another_implementation_sealed_opens() {
        let sealed = "5b832c163c30c283d3cfd54e9b80d6a826553cd5";
        let sealed: Vec<u8> = (0..sealed.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&sealed[at..at + 2], 16).unwrap())
            .collect();
        let header = Envelope::encrypted(REPOSITORY, Keys::new(Key::new([5; 32])))
            .header(Kind::Snapshot, ID);
        let salt: Vec<u8> = (0..32).collect();
        let object = [&header[..], &salt, &sealed].concat();
        assert_eq!(encrypted().open(Kind::Snapshot, ID, &object).unwrap(), &b"body"[..]);
    }

    fn writer() -> Envelope {
        let bytes = keys().of_client(CLIENT).unwrap().writer().unwrap();
        Envelope::encrypted(REPOSITORY, Keys::of_writer(&bytes))
    }

    /// Python's blake3 1.0.11 and cryptography 50 (OpenSSL), with a share that was drawn:
    ///
    ///     master = bytes([5] * 32)
    ///     reading = X25519PrivateKey.from_private_bytes(d(master, "reading key"))
    ///     public = reading.public_key().public_bytes_raw()
    ///     drawn = X25519PrivateKey.from_private_bytes(bytes(range(32)))
    ///     share = drawn.public_key().public_bytes_raw()
    ///     shared = drawn.exchange(reading.public_key())
    ///     client = (7).to_bytes(4, "little")
    ///     key = d(d(master + client, "write key") + shared + share + public,
    ///         "object key of a writer")
    ///     header = b"1FLD" + bytes([1, 4, 2, 0]) + client + bytes(4) + bytes([7] * 16) + bytes([9] * 16)
    ///     AESGCM(key).encrypt(bytes(12), b"body", header).hex()
    #[test]
    fn what_another_implementation_sealed_as_a_writer_opens() {
        let bytes = |hex: &str| -> Vec<u8> {
            let digit = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
            (0..hex.len()).step_by(2).map(digit).collect()
        };
        let share = bytes("8f40c5adb68f25624ae5b214ea767a6ec94d829d3d7b5e1ad1ba6f3e2138285f");
        let sealed = bytes("3bc30eb9cc85e994067058e606b37e239b0b205c");
        let object = [&writer().header(Kind::Snapshot, ID)[..], &share, &sealed].concat();
        assert_eq!(encrypted().open(Kind::Snapshot, ID, &object).unwrap(), &b"body"[..]);
        assert_eq!(writer().open(Kind::Snapshot, ID, &object), Err(SealError::WriteOnly));
    }

    #[test]
    fn a_writer_opens_nothing_but_what_everybody_has_to_read() {
        let seals = |kind: &Kind| kind.has_writers() || kind.is_under_index();
        for kind in Kind::ALL.iter().copied().filter(seals) {
            let [own, others] = [writer(), encrypted()].map(|one| one.seal(kind, ID, b"body"));
            for object in [&own, &others] {
                assert_eq!(encrypted().open(kind, ID, object).unwrap(), &b"body"[..], "{kind}");
                let opened = writer().open(kind, ID, object);
                match kind.is_under_index() {
                    true => assert_eq!(opened.unwrap(), &b"body"[..]),
                    false => assert_eq!(opened, Err(SealError::WriteOnly), "{kind}"),
                }
            }
            // Who has another write key, such as none, forges nothing.
            let mut bytes = *keys().of_client(CLIENT).unwrap().writer().unwrap();
            bytes[4 + 3 * Key::LEN] ^= 1;
            bytes[4 + 2 * Key::LEN] ^= 1;
            let stranger = Envelope::encrypted(REPOSITORY, Keys::of_writer(&bytes));
            let forged = stranger.seal(kind, ID, b"body");
            assert_eq!(encrypted().open(kind, ID, &forged), Err(SealError::BadTag), "{kind}");
        }
        let config = encrypted().seal(Kind::Config, ID, b"config");
        assert_eq!(writer().open(Kind::Config, ID, &config), Err(SealError::WriteOnly));
        assert!(writer().keys().unwrap().master().is_err());
    }

    #[test]
    fn a_writer_seals_no_kind_that_only_others_may() {
        // As if it sealed a snapshot and called it another kind: the header is covered by the tag,
        // so a kind is refused whether it is changed before or after.
        let (key, share) = keys().of_client(CLIENT).unwrap().new_object_key().unwrap();
        for kind in Kind::ALL.iter().copied().filter(|kind| !kind.has_writers()) {
            let mut header = writer().header(Kind::Snapshot, ID);
            (header[4], header[5]) = (kind.version(), kind.code());
            let mut body = *b"body";
            let tag = Cipher::new(&key).seal(0, &header, &mut body);
            let object = [&header[..], &share, &body, &tag].concat();
            let object = match kind {
                Kind::Config => [&object[..], Check::of(&[&object]).as_bytes()].concat(),
                _ => object,
            };
            let error = encrypted().open(kind, ID, &object).unwrap_err();
            assert!(matches!(error, SealError::Reserved { field: "suite", .. }), "{kind}: {error}");
        }
    }

    #[test]
    fn every_flipped_bit_of_a_writers_object_is_found() {
        let object = writer().padding(true).seal(Kind::Snapshot, ID, b"twenty bytes of body");
        for bit in 0..object.len() * 8 {
            let mut damaged = object.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            // X25519 ignores the highest bit of a public key; the object's key does not.
            assert!(encrypted().open(Kind::Snapshot, ID, &damaged).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_writer_passes_for_no_other() {
        let object = writer().seal(Kind::Snapshot, ID, b"body");
        assert_eq!(Envelope::client_of(&object), Some(CLIENT));
        assert_eq!(Envelope::client_of(&encrypted().seal(Kind::Snapshot, ID, b"body")), None);
        for number in [0, CLIENT + 1, u32::MAX] {
            let mut other = object.clone();
            other[8..12].copy_from_slice(&number.to_le_bytes());
            assert_eq!(encrypted().open(Kind::Snapshot, ID, &other), Err(SealError::BadTag));
            // Nor if it calls itself the other before it seals.
            let mut bytes = *keys().of_client(CLIENT).unwrap().writer().unwrap();
            bytes[..4].copy_from_slice(&number.to_le_bytes());
            let liar = Envelope::encrypted(REPOSITORY, Keys::of_writer(&bytes));
            let forged = liar.seal(Kind::Snapshot, ID, b"body");
            assert_eq!(encrypted().open(Kind::Snapshot, ID, &forged), Err(SealError::BadTag));
        }
        // There is no client 0, whoever has its key.
        let none = Envelope::encrypted(REPOSITORY, keys().of_client(0).unwrap());
        let object = none.seal(Kind::Snapshot, ID, b"body");
        let opened = encrypted().open(Kind::Snapshot, ID, &object);
        assert_eq!(opened, Err(SealError::Reserved { field: "key epoch", found: 0 }));
        assert_eq!(writer().keys().unwrap().of_client(8).map(drop), Err(SealError::WriteOnly));
    }

    #[test]
    fn parts_open_under_their_own_number_only() {
        for envelope in [plain(), encrypted()] {
            let mut object = Vec::new();
            let parts = envelope.begin(Kind::Container, ID, &mut object);
            assert_eq!(object.len(), envelope.start_len());
            let (mut one, mut end) = (b"one".to_vec(), b"end".to_vec());
            let check = parts.seal(0, &mut one);
            let end_check = parts.seal_end(&mut end, b"clear");
            let parts = envelope.parts(Kind::Container, ID, &object).unwrap();
            assert_eq!(parts.open_end(&end, b"clear", end_check.as_bytes()).unwrap(), &b"end"[..]);
            assert_eq!(parts.open(0, &one, &check).unwrap(), &b"one"[..]);
            assert!(parts.open_end(&end, b"cleaR", end_check.as_bytes()).is_err());
            assert!(parts.open_end(&one, b"", check.as_bytes()).is_err());
            assert!(parts.open(0, &end, &end_check).is_err());
            let is_plain = envelope.suite() == Suite::Plain;
            assert_eq!(
                parts.open(1, &one, &check).is_ok(),
                is_plain,
                "plain parts have no numbers"
            );
            let other = envelope.begin(Kind::Container, ID, &mut Vec::new());
            assert_eq!(other.open(0, &one, &check).is_ok(), is_plain, "nor an object");
        }
    }
}
