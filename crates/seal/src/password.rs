//! Passwords, and the master key wrapped by one or for a key pair (docs/format.md, "Keys").

use std::fmt;

use argon2::{Algorithm, Argon2, Params, Version};
use zeroize::Zeroizing;

use crate::cipher::Cipher;
use crate::envelope::{SALT_LEN, checked, object_cipher};
use crate::header::{HEADER_LEN, Header};
use crate::key::Purpose;
use crate::parts::wrong_suite;
use crate::wire::{Put, Reader, WireError};
use crate::{
    CHECK_LEN, Check, Key, Keys, Kind, ObjectId, PrivateKey, PublicKey, SealError, Suite, pair,
};

/// The message that is the master key, under the wrapping key.
const MASTER: u64 = 0;
/// The message that is the remark, under the object's key.
const REMARK: u64 = 0;

/// What unlocks a repository: bytes, not necessarily text, wiped from memory when dropped.
#[derive(Clone)]
pub struct Password(Zeroizing<Vec<u8>>);

impl Password {
    /// The password with these bytes.
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Argon2id of the password: what it takes `cost` to compute, for whoever guesses too.
    fn stretch(&self, salt: &[u8], cost: Cost) -> Result<Key, SealError> {
        let params = Params::new(cost.memory_kib, cost.passes, cost.lanes, Some(Key::LEN))
            .map_err(|_| SealError::Cost { cost })?;
        let mut output = Zeroizing::new([0; Key::LEN]);
        Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
            .hash_password_into(&self.0, salt, &mut *output)
            .map_err(|_| SealError::Cost { cost })?;
        Ok(Key::new(*output))
    }
}

impl PartialEq for Password {
    /// Takes a time that depends on the bytes: for what a user typed twice.
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl fmt::Debug for Password {
    /// Keeps the password to itself.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(…)")
    }
}

/// What it costs to try a password: the parameters of Argon2id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cost {
    /// Memory in KiB.
    pub memory_kib: u32,
    /// Passes over the memory.
    pub passes: u32,
    /// Lanes that could be computed at the same time.
    pub lanes: u32,
}

impl Cost {
    /// As many bytes gone through as in the second recommendation of RFC 9106 (64 MiB, 3 passes,
    /// 4 lanes), in three quarters of its memory: this is what sets the peak of every command.
    pub const STANDARD: Self = Self { memory_kib: 48 << 10, passes: 4, lanes: 4 };

    /// The most that is paid for a key that somebody else may have written.
    pub const MAX: Self = Self { memory_kib: 1 << 20, passes: 16, lanes: 16 };

    /// What it takes to try a password, in KiB gone through: by it costs are compared.
    pub const fn work(self) -> u64 {
        self.memory_kib as u64 * self.passes as u64
    }

    fn check(self) -> Result<Self, SealError> {
        let max = Self::MAX;
        let is_bounded = self.memory_kib <= max.memory_kib
            && self.passes <= max.passes
            && self.lanes <= max.lanes
            && self.passes >= 1
            && self.lanes >= 1
            && self.memory_kib >= 8 * self.lanes;
        if is_bounded { Ok(self) } else { Err(SealError::Cost { cost: self }) }
    }
}

/// The master key of a repository, wrapped by a password or for a public key: a whole object of
/// [`Kind::Key`] or [`Kind::KeyForPair`].
pub struct WrappedKey<'a> {
    /// Everything before the commitment.
    associated: &'a [u8],
    /// The salt of a password, or the share that leads to what was agreed on with a public key.
    salt: &'a [u8],
    /// Of a password.
    cost: Option<Cost>,
    commitment: [u8; Key::LEN],
    master: &'a [u8],
    master_tag: [u8; CHECK_LEN],
    /// Everything before the remark.
    before_remark: &'a [u8],
    remark: &'a [u8],
    remark_tag: [u8; CHECK_LEN],
}

impl<'a> WrappedKey<'a> {
    /// Wraps the master key in `keys` as the object `id`, with a `remark` that whoever has the
    /// master key can read.
    pub fn wrap(
        repository: ObjectId,
        id: ObjectId,
        keys: &Keys,
        password: &Password,
        cost: Cost,
        remark: &[u8],
    ) -> Result<Vec<u8>, SealError> {
        let salt = Key::random();
        Self::wrap_with(salt.as_bytes(), repository, id, keys, password, cost, remark)
    }

    fn wrap_with(
        salt: &[u8; SALT_LEN],
        repository: ObjectId,
        id: ObjectId,
        keys: &Keys,
        password: &Password,
        cost: Cost,
        remark: &[u8],
    ) -> Result<Vec<u8>, SealError> {
        let mut object = header(Kind::Key, repository, id).encode().to_vec();
        object.extend_from_slice(salt);
        for number in [cost.memory_kib, cost.passes, cost.lanes] {
            object.put_u32(number);
        }
        let secret = password.stretch(salt, cost.check()?)?;
        Self::finish(object, salt, &secret, keys, remark)
    }

    /// The same for the private half of `public`. Whoever has that knows the repository again by its
    /// [identity](Keys::identity): anybody can wrap another master key for a public key.
    pub fn wrap_for(
        repository: ObjectId,
        id: ObjectId,
        keys: &Keys,
        public: &PublicKey,
        remark: &[u8],
    ) -> Result<Vec<u8>, SealError> {
        let (secret, share) = pair::new_secret(public)?;
        let mut object = header(Kind::KeyForPair, repository, id).encode().to_vec();
        object.extend_from_slice(&share);
        Self::finish(object, &share, &secret, keys, remark)
    }

    fn finish(
        mut object: Vec<u8>,
        salt: &[u8],
        secret: &Key,
        keys: &Keys,
        remark: &[u8],
    ) -> Result<Vec<u8>, SealError> {
        let mut master = Zeroizing::new(*keys.master()?.as_bytes());
        let wrapping = Cipher::new(&secret.derive(Purpose::Wrapping, b""));
        let tag = wrapping.seal(MASTER, &object, &mut *master);
        let commitment = secret.derive(Purpose::Commitment, &object);
        object.extend_from_slice(commitment.as_bytes());
        object.extend_from_slice(&*master);
        object.extend_from_slice(&tag);
        let mut remark = remark.to_vec();
        let tag = object_cipher(keys.root()?, salt).seal(REMARK, &object, &mut remark);
        object.extend_from_slice(&remark);
        object.extend_from_slice(&tag);
        let check = Check::of(&[&object]);
        object.extend_from_slice(check.as_bytes());
        Ok(object)
    }

    /// Reads the object `id`. Whether a cost is too high is known before any is paid.
    pub fn read(repository: ObjectId, id: ObjectId, object: &'a [u8]) -> Result<Self, SealError> {
        let covered = checked(object)?;
        let start = covered.first_chunk::<HEADER_LEN>().expect("it was checked");
        let kind = match start[KIND_AT] == Kind::KeyForPair.code() {
            true => Kind::KeyForPair,
            false => Kind::Key,
        };
        let found = Header::read(kind, start)?;
        if found.suite != Suite::Aes256Gcm {
            return Err(wrong_suite(found.suite));
        }
        if found.repository != repository {
            return Err(SealError::WrongRepository {
                found: found.repository,
                expected: repository,
            });
        }
        if found.id != id {
            return Err(SealError::WrongObject { found: found.id, expected: id });
        }
        let too_short = |_: WireError| SealError::Truncated {
            found: object.len() as u64,
            expected: MIN_LEN as u64,
        };
        let mut reader = Reader::new(&covered[HEADER_LEN..]);
        let mut fields = || -> Result<_, WireError> {
            let salt = reader.take(SALT_LEN, "a salt")?;
            let mut number = || reader.u32("a cost");
            let cost = match kind {
                Kind::KeyForPair => None,
                _ => Some(Cost { memory_kib: number()?, passes: number()?, lanes: number()? }),
            };
            let associated = &covered[..HEADER_LEN + SALT_LEN + cost.map_or(0, |_| COST_LEN)];
            let before_remark = associated.len() + 2 * Key::LEN + CHECK_LEN;
            let commitment = reader.array("a commitment")?;
            let master = reader.take(Key::LEN, "a wrapped key")?;
            let master_tag = reader.array("a tag")?;
            let rest = reader.take(reader.remaining(), "a remark")?;
            let (remark, remark_tag) =
                rest.split_last_chunk::<CHECK_LEN>().ok_or(reader.error("a tag"))?;
            Ok(Self {
                associated,
                salt,
                cost,
                commitment,
                master,
                master_tag,
                before_remark: &covered[..before_remark],
                remark,
                remark_tag: *remark_tag,
            })
        };
        let wrapped = fields().map_err(too_short)?;
        wrapped.cost.map(Cost::check).transpose()?;
        Ok(wrapped)
    }

    /// What it costs to try a password; none if no password opens it.
    pub const fn cost(&self) -> Option<Cost> {
        self.cost
    }

    /// The keys that follow from the master key, or `None` if this is not the password.
    pub fn unwrap(&self, password: &Password) -> Result<Option<Keys>, SealError> {
        match self.cost {
            Some(cost) => self.open(&password.stretch(self.salt, cost)?),
            None => Ok(None),
        }
    }

    /// The keys that follow from the master key, or `None` if it was wrapped for another pair.
    pub fn unwrap_by(&self, private: &PrivateKey) -> Result<Option<Keys>, SealError> {
        match (self.cost, private.agreed(self.salt)) {
            (None, Some(secret)) => self.open(&secret),
            _ => Ok(None),
        }
    }

    fn open(&self, secret: &Key) -> Result<Option<Keys>, SealError> {
        // First, so that no object can be made that several passwords or pairs open.
        let commitment = secret.derive(Purpose::Commitment, self.associated);
        if !is_equal(commitment.as_bytes(), &self.commitment) {
            return Ok(None);
        }
        let wrapping = Cipher::new(&secret.derive(Purpose::Wrapping, b""));
        let opened = wrapping
            .open(MASTER, self.associated, self.master, &self.master_tag)
            .map(Zeroizing::new)
            .ok_or(SealError::BadTag)?;
        let master = opened.as_slice().try_into().expect("as many bytes as were wrapped");
        Ok(Some(Keys::new(Key::new(master))))
    }

    /// The remark, for whoever has the keys; it vouches for the whole object.
    pub fn remark(&self, keys: &Keys) -> Result<Vec<u8>, SealError> {
        object_cipher(keys.root()?, self.salt)
            .open(REMARK, self.before_remark, self.remark, &self.remark_tag)
            .ok_or(SealError::BadTag)
    }
}

/// Where a header says what an object is.
const KIND_AT: usize = 5;
/// Length in bytes of the cost of a password.
const COST_LEN: usize = 12;
/// Header, share, commitment, wrapped master key and tag, the tag of an empty remark, and the check.
const MIN_LEN: usize = HEADER_LEN + SALT_LEN + 2 * Key::LEN + 3 * CHECK_LEN;

const fn header(kind: Kind, repository: ObjectId, id: ObjectId) -> Header {
    Header { kind, suite: Suite::Aes256Gcm, epoch: 0, is_padded: false, repository, id }
}

/// Whether the bytes are equal, in a time that does not depend on them.
fn is_equal(a: &[u8; Key::LEN], b: &[u8; Key::LEN]) -> bool {
    aws_lc_rs::constant_time::verify_slices_are_equal(a, b).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPOSITORY: ObjectId = ObjectId::from_bytes([7; 16]);
    const ID: ObjectId = ObjectId::from_bytes([9; 16]);
    const CHEAP: Cost = Cost { memory_kib: 32, passes: 1, lanes: 2 };

    fn password(text: &str) -> Password {
        Password::new(text.into())
    }

    fn keys() -> Keys {
        Keys::new(Key::new(std::array::from_fn(|i| i as u8)))
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The test vectors of the reference implementation (phc-winner-argon2, src/test.c), version
    /// 0x13, password "password", salt "somesalt".
    #[test]
    fn passwords_are_stretched_as_the_reference_implementation_does() {
        for (passes, memory_kib, lanes, expected) in [
            (2, 256, 1, "9dfeb910e80bad0311fee20f9c0e2b12c17987b4cac90c2ef54d5b3021c68bfe"),
            (2, 256, 2, "6d093c501fd5999645e0ea3bf620d7b8be7fd2db59c20d9fff9539da2bf57037"),
            (1, 65_536, 1, "f6a5adc1ba723dddef9b5ac1d464e180fcd9dffc9d1cbf76cca2fed795d9ca98"),
            (2, 65_536, 1, "09316115d5cf24ed5a15a31a3ba326e5cf32edc24702987c02b6566f61913cf7"),
        ] {
            let cost = Cost { memory_kib, passes, lanes };
            let stretched = password("password").stretch(b"somesalt", cost).unwrap();
            assert_eq!(hex(stretched.as_bytes()), expected, "{cost:?}");
        }
    }

    fn wrapped() -> Vec<u8> {
        WrappedKey::wrap(REPOSITORY, ID, &keys(), &password("one"), CHEAP, b"remark").unwrap()
    }

    #[test]
    fn the_password_unwraps_and_no_other_does() {
        let object = wrapped();
        let key = WrappedKey::read(REPOSITORY, ID, &object).unwrap();
        let unwrapped = key.unwrap(&password("one")).unwrap().unwrap();
        assert_eq!(unwrapped.master().unwrap().as_bytes(), keys().master().unwrap().as_bytes());
        assert_eq!(key.remark(&unwrapped).unwrap(), b"remark");
        for wrong in ["", "On", "one ", "two"] {
            assert!(key.unwrap(&password(wrong)).unwrap().is_none(), "{wrong:?}");
        }
        let stranger = Keys::new(Key::new([1; 32]));
        assert_eq!(key.remark(&stranger), Err(SealError::BadTag));
        assert_ne!(wrapped(), object, "each has a salt of its own");
    }

    /// argon2-cffi 25.1, blake3 1.0.11 and cryptography 50 of Python:
    ///
    ///     d = lambda material, purpose: blake3.blake3(material,
    ///         derive_key_context=f"onefold 2026 encryption: {purpose}").digest()
    ///     o = b"1FLD" + bytes([1, 6, 1, 0]) + bytes(8) + bytes([7] * 16) + bytes([9] * 16)
    ///     o += bytes([4] * 32) + struct.pack("<3I", 32, 1, 2)
    ///     s = argon2.low_level.hash_secret_raw(b"one", bytes([4] * 32), time_cost=1,
    ///         memory_cost=32, parallelism=2, hash_len=32, type=argon2.Type.ID)
    ///     wrapped = AESGCM(d(s, "wrapping key")).encrypt(bytes(12), bytes(range(32)), o)
    ///     o += d(s + o, "commitment to a wrapping key") + wrapped
    ///     root = d(bytes(range(32)), "root sealing key")
    ///     o += AESGCM(d(root + bytes([4] * 32), "object key")).encrypt(bytes(12), b"remark", o)
    ///     print((o + blake3.blake3(o).digest()[:16]).hex())
    #[test]
    fn a_key_is_wrapped_as_other_implementations_wrap_it() {
        let object = WrappedKey::wrap_with(
            &[4; 32],
            REPOSITORY,
            ID,
            &keys(),
            &password("one"),
            CHEAP,
            b"remark",
        );
        assert_eq!(hex(&object.unwrap()), WRAPPED);
    }

    const WRAPPED: &str = "\
        31464c44010601000000000000000000070707070707070707070707070707070909090909090909090909\
        09090909090404040404040404040404040404040404040404040404040404040404040404200000000100\
        00000200000093c74940a1789efdabaa5db61b7437bee4b739e8e5d8ee29233b62d812c8d4e68ee732562f\
        8a8c9367079f1b46bf57c31f26429113676c1b4f2fd5a52e6b5bbc0e63e2b85c43891a7e975540654001ea\
        64029f1101ed25f0e353687cc567978ee35daace2de9aea482760d87ed8cca8c778fa4af144c";

    fn renewed(mut object: Vec<u8>) -> Vec<u8> {
        let (covered, check) = object.split_last_chunk_mut::<CHECK_LEN>().unwrap();
        check.copy_from_slice(Check::of(&[covered]).as_bytes());
        object
    }

    /// Whether `object` gives the right keys and the right remark.
    fn opens(object: &[u8]) -> bool {
        let Ok(key) = WrappedKey::read(REPOSITORY, ID, object) else { return false };
        match key.unwrap(&password("one")) {
            Ok(Some(keys)) => key.remark(&keys).is_ok(),
            _ => false,
        }
    }

    #[test]
    fn every_changed_byte_is_refused_even_if_the_check_is_made_to_fit() {
        let object = wrapped();
        assert!(opens(&object));
        for at in 0..object.len() {
            let mut changed = object.clone();
            changed[at] ^= 1;
            assert!(
                WrappedKey::read(REPOSITORY, ID, &changed).is_err(),
                "byte {at} changed unseen"
            );
            if at < object.len() - CHECK_LEN {
                assert!(!opens(&renewed(changed)), "byte {at} changed by somebody who can compute");
            }
        }
        for len in 0..object.len() {
            assert!(WrappedKey::read(REPOSITORY, ID, &object[..len]).is_err(), "{len} bytes");
        }
    }

    fn pair() -> PrivateKey {
        PrivateKey::new(Key::new([7; 32]))
    }

    fn wrapped_for_pair() -> Vec<u8> {
        WrappedKey::wrap_for(REPOSITORY, ID, &keys(), &pair().public(), b"remark").unwrap()
    }

    #[test]
    fn the_private_key_unwraps_and_nothing_else_does() {
        let object = wrapped_for_pair();
        let key = WrappedKey::read(REPOSITORY, ID, &object).unwrap();
        assert_eq!(key.cost(), None);
        let unwrapped = key.unwrap_by(&pair()).unwrap().unwrap();
        assert_eq!(unwrapped.master().unwrap().as_bytes(), keys().master().unwrap().as_bytes());
        assert_eq!(unwrapped.identity(), keys().identity());
        assert_eq!(key.remark(&unwrapped).unwrap(), b"remark");
        assert!(key.unwrap_by(&PrivateKey::random()).unwrap().is_none());
        assert!(key.unwrap(&password("one")).unwrap().is_none());
        let by_password = wrapped();
        let by_password = WrappedKey::read(REPOSITORY, ID, &by_password).unwrap();
        assert!(by_password.unwrap_by(&pair()).unwrap().is_none());
        assert_ne!(wrapped_for_pair(), object, "each has a share of its own");
        // Points of small order agree with every key on the same.
        let public = PublicKey::from_bytes([0; 32]);
        let refused = WrappedKey::wrap_for(REPOSITORY, ID, &keys(), &public, b"");
        assert_eq!(refused, Err(SealError::BadPublicKey));
    }

    #[test]
    fn every_changed_byte_of_a_key_for_a_pair_is_refused_even_if_the_check_is_made_to_fit() {
        let object = wrapped_for_pair();
        let opens = |object: &[u8]| {
            let Ok(key) = WrappedKey::read(REPOSITORY, ID, object) else { return false };
            match key.unwrap_by(&pair()) {
                Ok(Some(keys)) => key.remark(&keys).is_ok(),
                _ => false,
            }
        };
        assert!(opens(&object));
        for at in 0..object.len() {
            let mut changed = object.clone();
            changed[at] ^= 1;
            assert!(WrappedKey::read(REPOSITORY, ID, &changed).is_err(), "byte {at}");
            if at < object.len() - CHECK_LEN {
                assert!(!opens(&renewed(changed)), "byte {at} changed by somebody who can compute");
            }
        }
        assert!((0..object.len()).all(|len| !opens(&object[..len])));
    }

    #[test]
    fn a_key_of_another_name_or_repository_is_refused() {
        let object = wrapped();
        let other = ObjectId::from_bytes([1; 16]);
        let read = |repository, id| WrappedKey::read(repository, id, &object).map(drop);
        assert!(matches!(read(other, ID), Err(SealError::WrongRepository { .. })));
        assert!(matches!(read(REPOSITORY, other), Err(SealError::WrongObject { .. })));
    }

    #[test]
    fn a_cost_beyond_the_bounds_is_refused_before_it_is_paid() {
        let max = u32::MAX;
        for (at, number) in [
            (80, (1 << 20) + 1),
            (80, max),
            (80, 15),
            (80, 0),
            (84, 17),
            (84, max),
            (84, 0),
            (88, 17),
            (88, max),
            (88, 0),
        ] {
            let mut object = wrapped();
            object[at..at + 4].copy_from_slice(&u32::to_le_bytes(number));
            let read = WrappedKey::read(REPOSITORY, ID, &renewed(object)).map(drop);
            assert!(matches!(read, Err(SealError::Cost { .. })), "{number} at {at}: {read:?}");
        }
        let dear = Cost { memory_kib: (1 << 20) + 1, ..Cost::STANDARD };
        let wrap = WrappedKey::wrap(REPOSITORY, ID, &keys(), &password("x"), dear, b"");
        assert_eq!(wrap, Err(SealError::Cost { cost: dear }));
    }

    #[test]
    fn nothing_shows_a_password() {
        assert_eq!(format!("{:?}", password("secret")), "Password(…)");
    }
}
