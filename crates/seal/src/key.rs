//! The keys of an encrypted repository and what is derived from which (docs/format.md, "Keys").

use std::collections::BTreeMap;
use std::fmt;

use zeroize::Zeroizing;

use crate::SealError;
use crate::envelope::SALT_LEN;
use crate::writer::{PublicKey, ReadingKey};

/// 32 secret bytes, wiped from memory when they are dropped.
#[derive(Clone)]
pub struct Key(Zeroizing<[u8; Self::LEN]>);

impl Key {
    /// Length of a key in bytes.
    pub const LEN: usize = 32;

    /// The key with these bytes.
    pub fn new(bytes: [u8; Self::LEN]) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// Draws a key from the operating system's random source.
    ///
    /// # Panics
    /// If the operating system has no randomness to give; nothing can be sealed safely then.
    pub fn random() -> Self {
        let mut key = Self::new([0; Self::LEN]);
        getrandom::fill(&mut *key.0).expect("the operating system's random source failed");
        key
    }

    /// The key's bytes.
    pub fn as_bytes(&self) -> &[u8; Self::LEN] {
        &self.0
    }

    /// The key for `purpose` that this one and `salt` give.
    ///
    /// BLAKE3 in its key derivation mode, over the key and the salt behind it; the purpose is part
    /// of the context, so no key can stand in for another.
    pub(crate) fn derive(&self, purpose: Purpose, salt: &[u8]) -> Self {
        let mut material = Zeroizing::new(Vec::with_capacity(Self::LEN + salt.len()));
        material.extend_from_slice(self.as_bytes());
        material.extend_from_slice(salt);
        Self::new(blake3::derive_key(purpose.context(), &material))
    }
}

impl fmt::Debug for Key {
    /// Keeps the key to itself.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

/// What a derived key is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Root,
    FirstEpoch,
    Fingerprint,
    Chunker,
    Object,
    Wrapping,
    Commitment,
    Index,
    Write,
    Reading,
    WriterObject,
    Pseudonym,
    Agreed,
    Identity,
}

impl Purpose {
    const fn context(self) -> &'static str {
        match self {
            Self::Root => "onefold 2026 encryption: root sealing key",
            Self::FirstEpoch => "onefold 2026 encryption: sealing key of epoch 0",
            Self::Fingerprint => "onefold 2026 encryption: fingerprint key",
            Self::Chunker => "onefold 2026 encryption: chunker secret",
            Self::Object => "onefold 2026 encryption: object key",
            Self::Wrapping => "onefold 2026 encryption: wrapping key",
            Self::Commitment => "onefold 2026 encryption: commitment to a wrapping key",
            Self::Index => "onefold 2026 encryption: index key",
            Self::Write => "onefold 2026 encryption: write key",
            Self::Reading => "onefold 2026 encryption: reading key",
            Self::WriterObject => "onefold 2026 encryption: object key of a writer",
            Self::Agreed => "onefold 2026 encryption: secret agreed on for a key",
            Self::Identity => "onefold 2026 encryption: identity of a repository",
            Self::Pseudonym => "onefold 2026 encryption: pseudonym",
        }
    }
}

/// Length in bytes of the number and the keys of a write-only client.
pub const WRITER_LEN: usize = NUMBER_LEN + 5 * Key::LEN;

/// Length in bytes of a client's number.
const NUMBER_LEN: usize = 4;

/// The keys of an open repository: all of them, or those of a client that may write and not read.
#[derive(Clone, Debug)]
pub struct Keys {
    fingerprint: Key,
    chunker: Key,
    /// Seals index runs and marks.
    index: Key,
    public: PublicKey,
    side: Side,
}

/// Whose keys they are.
#[derive(Clone, Debug)]
enum Side {
    Owner(Owner),
    Client(Client),
}

/// What one write-only client has and no other.
#[derive(Clone, Debug)]
struct Client {
    /// Never 0.
    number: u32,
    /// Without it nobody can seal what the reading key opens for an object of this client.
    write: Key,
}

/// What opens everything.
#[derive(Clone, Debug)]
struct Owner {
    master: Key,
    root: Key,
    reading: ReadingKey,
    /// Sealing keys by epoch; never empty.
    epochs: BTreeMap<u32, Key>,
}

impl Keys {
    /// The keys that follow from `master`: those of later epochs are added as they are found.
    pub fn new(master: Key) -> Self {
        let derive = |purpose| master.derive(purpose, b"");
        let reading = ReadingKey::new(&derive(Purpose::Reading));
        let owner = Owner {
            root: derive(Purpose::Root),
            epochs: BTreeMap::from([(0, derive(Purpose::FirstEpoch))]),
            master: master.clone(),
            reading,
        };
        Self {
            fingerprint: derive(Purpose::Fingerprint),
            chunker: derive(Purpose::Chunker),
            index: derive(Purpose::Index),
            public: owner.reading.public(),
            side: Side::Owner(owner),
        }
    }

    /// The keys of the write-only client that has `number`, which is not 0.
    pub fn of_client(&self, number: u32) -> Result<Self, SealError> {
        let write = self.owner()?.write(number);
        Ok(Self { side: Side::Client(Client { number, write }), ..self.clone() })
    }

    /// The keys of a write-only client, as [`of_writer`](Self::of_writer) takes them; nothing if these
    /// are its owner's.
    pub fn writer(&self) -> Option<Zeroizing<[u8; WRITER_LEN]>> {
        let Side::Client(client) = &self.side else { return None };
        let mut bytes = Zeroizing::new([0; WRITER_LEN]);
        let (number, rest) = bytes.split_at_mut(NUMBER_LEN);
        number.copy_from_slice(&client.number.to_le_bytes());
        let keys = [&self.fingerprint, &self.chunker, &self.index, &client.write];
        let parts = keys.map(Key::as_bytes).into_iter().chain([self.public.as_bytes()]);
        for (to, part) in rest.chunks_exact_mut(Key::LEN).zip(parts) {
            to.copy_from_slice(part);
        }
        Some(bytes)
    }

    /// The keys of a write-only client.
    pub fn of_writer(bytes: &[u8; WRITER_LEN]) -> Self {
        let (number, keys) = bytes.split_first_chunk().expect("as long as that");
        let part =
            |at: usize| <[u8; Key::LEN]>::try_from(&keys[at * Key::LEN..][..Key::LEN]).expect("32");
        let key = |at| Key::new(part(at));
        Self {
            fingerprint: key(0),
            chunker: key(1),
            index: key(2),
            public: PublicKey::from_bytes(part(4)),
            side: Side::Client(Client { number: u32::from_le_bytes(*number), write: key(3) }),
        }
    }

    /// Whether these are the keys of a client that can write and not read.
    pub const fn is_write_only(&self) -> bool {
        self.client().is_some()
    }

    /// The number of the write-only client whose keys these are.
    pub const fn client(&self) -> Option<u32> {
        match &self.side {
            Side::Owner(_) => None,
            Side::Client(client) => Some(client.number),
        }
    }

    /// Adds the sealing key of `epoch`. What is sealed from now on is sealed in the latest epoch.
    /// A write-only client has no use for one.
    pub fn add_epoch(&mut self, epoch: u32, key: Key) {
        if let Side::Owner(owner) = &mut self.side {
            owner.epochs.insert(epoch, key);
        }
    }

    /// The latest epoch; 0 for a write-only client, which seals in none.
    pub fn epoch(&self) -> u32 {
        self.epochs().last().unwrap_or(0)
    }

    /// The epochs whose keys are known, in order.
    pub fn epochs(&self) -> impl Iterator<Item = u32> + '_ {
        self.owner().into_iter().flat_map(|owner| owner.epochs.keys().copied())
    }

    /// What everything is derived from, to be wrapped by another password.
    pub fn master(&self) -> Result<&Key, SealError> {
        self.owner().map(|owner| &owner.master)
    }

    /// By what it is known that a repository is the one whose master key this is, without knowing it.
    pub fn identity(&self) -> Result<[u8; Key::LEN], SealError> {
        Ok(*self.master()?.derive(Purpose::Identity, b"").as_bytes())
    }

    /// What keys the fingerprints of chunks.
    pub const fn fingerprint(&self) -> &Key {
        &self.fingerprint
    }

    /// What picks the chunker's numbers.
    pub const fn chunker(&self) -> &Key {
        &self.chunker
    }

    /// What seals what belongs to no epoch, but for index runs and marks.
    pub(crate) fn root(&self) -> Result<&Key, SealError> {
        self.owner().map(|owner| &owner.root)
    }

    /// What seals index runs and marks.
    pub(crate) const fn index(&self) -> &Key {
        &self.index
    }

    /// What seals in `epoch`.
    pub(crate) fn sealing(&self, epoch: u32) -> Result<&Key, SealError> {
        let unknown = SealError::UnknownEpoch { found: epoch, latest: self.epoch() };
        self.owner()?.epochs.get(&epoch).ok_or(unknown)
    }

    /// A key for a new object of a write-only client, and the share that leads to it; nothing if these
    /// are its owner's keys.
    pub(crate) fn new_object_key(&self) -> Option<(Key, [u8; SALT_LEN])> {
        match &self.side {
            Side::Owner(_) => None,
            Side::Client(client) => Some(self.public.new_object_key(&client.write)),
        }
    }

    /// The key of an object that the write-only client `number` sealed.
    pub(crate) fn object_key(&self, number: u32, share: &[u8]) -> Result<Key, SealError> {
        let owner = self.owner()?;
        owner.reading.object_key(&owner.write(number), share).ok_or(SealError::BadTag)
    }

    fn owner(&self) -> Result<&Owner, SealError> {
        match &self.side {
            Side::Owner(owner) => Ok(owner),
            Side::Client(_) => Err(SealError::WriteOnly),
        }
    }
}

impl Owner {
    /// What the write-only client `number` has and no other.
    fn write(&self, number: u32) -> Key {
        self.master.derive(Purpose::Write, &number.to_le_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Python's blake3 1.0.11, with `purpose` as below:
    ///
    ///     import blake3
    ///     context = f"onefold 2026 encryption: {purpose}"
    ///     blake3.blake3(bytes(range(32)) + salt, derive_key_context=context).hexdigest()
    #[test]
    fn derived_keys_are_those_of_another_implementation_of_blake3() {
        let master = Key::new(std::array::from_fn(|i| i as u8));
        for (purpose, salt, expected) in [
            (
                Purpose::Root,
                &b""[..],
                "cbf2f9eec17b260310896ec4999bbbf2678bd1b938bbb6af7acf8098698b2b4b",
            ),
            (
                Purpose::FirstEpoch,
                b"",
                "826cdfd7280071757b2dc96cbbb02013494aaa0bce8b77fffcfcf1af95def59f",
            ),
            (
                Purpose::Fingerprint,
                b"",
                "487cc86a144aed30fee8643018cef92ba8b05fc07ff894a85477260f5cc95b3d",
            ),
            (
                Purpose::Chunker,
                b"",
                "0db5052bf6b3b2f0056101ad4723bd311ffa21fc734f3634ed939fa0807295a6",
            ),
            (
                Purpose::Object,
                b"salt",
                "2a61b0725fd28c33cc8150fb5a424384fe51387fc4414a05f3e1e63c887033d5",
            ),
            (
                Purpose::Wrapping,
                b"",
                "ba80dca7b4258314c4f53cb813c5b929bb804a924a517910fecfe2af913a5c35",
            ),
            (
                Purpose::Commitment,
                b"salt",
                "6fd0b3b86551784abece0774112ff6a2ea7de1991fea4207c2b3e1d35383a068",
            ),
            (
                Purpose::Index,
                b"",
                "c53d4fbb178846096371ce075d6a0186a14fed189583913136f554151d250fad",
            ),
            (
                Purpose::Write,
                b"",
                "529a3c9986974d1fd46b184fd16dffc04c103a4e85b43f9bf41712dfcebdd1bc",
            ),
            (
                Purpose::Reading,
                b"",
                "01e05857debe45843a754c0e3e65d89796b0a829ee74d0a51dff6b33b56e41a2",
            ),
            (
                Purpose::WriterObject,
                b"salt",
                "4660f10864a5e6202a82ea56a267967ad3818475836b8ed956ba728857207057",
            ),
            (
                Purpose::Pseudonym,
                b"salt",
                "1774ac1a06c9b82a21adcb7d88fe9686770df85a747b84ec4ab54603eec0fdf8",
            ),
            (
                Purpose::Agreed,
                b"salt",
                "1def6c17248ea8d2f4385c0a8533c7e6bd58b256ba37bf01d9d63439f7a05b7e",
            ),
            (
                Purpose::Identity,
                b"",
                "e7aee90796928a40bdfd05e906a7c6f667d4086c60dc510e5d5e605807dfcdc4",
            ),
        ] {
            let key = master.derive(purpose, salt);
            let hex: String = key.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(hex, expected, "{purpose:?}");
        }
    }

    #[test]
    fn nothing_shows_a_key() {
        let show =
            |byte| format!("{:?} {:#?}", Key::new([byte; 32]), Keys::new(Key::new([byte; 32])));
        assert_eq!(show(1), show(2));
    }

    #[test]
    fn the_latest_epoch_seals_and_all_open() {
        let mut keys = Keys::new(Key::random());
        assert_eq!(keys.epoch(), 0);
        keys.add_epoch(2, Key::new([2; 32]));
        keys.add_epoch(1, Key::new([1; 32]));
        assert_eq!(keys.epoch(), 2);
        assert_eq!(keys.sealing(1).unwrap().as_bytes(), &[1; 32]);
        assert!(keys.sealing(3).is_err() && keys.sealing(0).is_ok());
    }
}
