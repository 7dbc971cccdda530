//! The keys of an encrypted repository and what is derived from which (docs/format.md, "Keys").

use std::collections::BTreeMap;
use std::fmt;

use zeroize::Zeroizing;

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
        }
    }
}

/// All keys of an open repository.
#[derive(Clone, Debug)]
pub struct Keys {
    master: Key,
    root: Key,
    /// Sealing keys by epoch; never empty.
    epochs: BTreeMap<u32, Key>,
}

impl Keys {
    /// The keys that follow from `master`: those of later epochs are added as they are found.
    pub fn new(master: Key) -> Self {
        let root = master.derive(Purpose::Root, b"");
        let epochs = BTreeMap::from([(0, master.derive(Purpose::FirstEpoch, b""))]);
        Self { master, root, epochs }
    }

    /// Adds the sealing key of `epoch`. What is sealed from now on is sealed in the latest epoch.
    pub fn add_epoch(&mut self, epoch: u32, key: Key) {
        self.epochs.insert(epoch, key);
    }

    /// The latest epoch.
    pub fn epoch(&self) -> u32 {
        *self.epochs.last_key_value().expect("epoch 0 is always there").0
    }

    /// The epochs whose keys are known, in order.
    pub fn epochs(&self) -> impl Iterator<Item = u32> + '_ {
        self.epochs.keys().copied()
    }

    /// What everything is derived from, to be wrapped by another password.
    pub const fn master(&self) -> &Key {
        &self.master
    }

    /// What keys the fingerprints of chunks.
    pub fn fingerprint(&self) -> Key {
        self.master.derive(Purpose::Fingerprint, b"")
    }

    /// What picks the chunker's numbers.
    pub fn chunker(&self) -> Key {
        self.master.derive(Purpose::Chunker, b"")
    }

    /// What seals what belongs to no epoch.
    pub(crate) const fn root(&self) -> &Key {
        &self.root
    }

    /// What seals in `epoch`.
    pub(crate) fn sealing(&self, epoch: u32) -> Option<&Key> {
        self.epochs.get(&epoch)
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
        assert!(keys.sealing(3).is_none() && keys.sealing(0).is_some());
    }
}
