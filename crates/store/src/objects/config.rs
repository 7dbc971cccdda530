//! A repository's configuration: chosen once, when it is made.

use bytes::Bytes;
use onefold_backend::{BackendError, Objects};
use onefold_cdc::{Algorithm, ChunkSizes, Chunker, Params, Secret};
use onefold_fingerprint::FingerprintAlgorithm;
use onefold_seal::wire::{Put, Reader, WireError};
use onefold_seal::{Envelope, Keys, Kind, ObjectId, Suite};
use zeroize::Zeroize;

use onefold_container as container;
use onefold_index as index;

use crate::StoreError;
use crate::objects::read::read_object;
use crate::objects::snapshot;

/// The name of the configuration's object.
pub(crate) const NAME: &str = "config";

/// No configuration is longer than this.
const MAX_LEN: u64 = 64 << 10;

/// What stands for padding by Padmé.
const PADME: u8 = 1;

/// Everything that decides which chunks a backup makes and how they are named.
///
/// It cannot change afterwards: other parameters would cut the same data elsewhere.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// How data is cut.
    pub params: Params,
    /// How chunks are named.
    pub fingerprint: FingerprintAlgorithm,
    /// The level at which groups are compressed with zstd.
    pub compression_level: i32,
    /// Whether lengths of objects are padded; only an encrypted repository can.
    pub padding: bool,
}

impl Drop for Config {
    fn drop(&mut self) {
        self.params.secret.zeroize();
    }
}

impl Config {
    /// MinCDC around 16 KiB, BLAKE3, zstd level 3: chosen in docs/decisions/0008-chunking.md.
    pub fn standard() -> Self {
        let params =
            Params::for_mean(Algorithm::MinCdc, 16 << 10).expect("the standard sizes are valid");
        Self {
            params,
            fingerprint: FingerprintAlgorithm::Blake3,
            compression_level: 3,
            padding: false,
        }
    }

    /// Fails unless a chunker can be made of the parameters and a repository can note them down.
    pub(crate) fn check_recordable(&self) -> Result<(), StoreError> {
        Chunker::new(&self.params)?;
        if !self.params.is_plain() {
            return Err(StoreError::Unusable(
                "a repository cuts by an algorithm, sizes, window, level and seed; divisors, \
                 secrets, presets and chunks without a maximum cannot be recorded in it"
                    .into(),
            ));
        }
        Ok(())
    }

    /// The same with what follows from `keys`: keyed fingerprints, and a secret for a chunker that
    /// has anything to key.
    pub(crate) fn keyed(self, keys: &Keys) -> Self {
        let mut params = self.params;
        if params.algorithm.takes_secret() {
            params.secret = Some(Secret::new(*keys.chunker().as_bytes()));
        }
        Self { params, fingerprint: FingerprintAlgorithm::Blake3Keyed, ..self }
    }

    /// Puts the configuration of the new repository of `envelope`.
    pub(crate) fn create(
        &self,
        objects: &dyn Objects,
        envelope: &Envelope,
    ) -> Result<(), StoreError> {
        let object = envelope.seal(Kind::Config, envelope.repository(), &self.encode());
        match objects.put(NAME, Bytes::from(object)) {
            Ok(()) => Ok(()),
            Err(BackendError::AlreadyExists { .. }) => Err(StoreError::Exists),
            Err(error) => Err(error.into()),
        }
    }

    /// Finds the configuration and with it which repository this is and how it is protected.
    pub(crate) fn find(objects: &dyn Objects) -> Result<(ObjectId, Suite, Bytes), StoreError> {
        let object = match read_object(objects, NAME, MAX_LEN) {
            Ok(object) => object,
            Err(StoreError::Backend(error)) if error.is_not_found() => {
                return Err(match any_own_object(objects)? {
                    Some(found) => StoreError::LostConfig { found },
                    None => StoreError::NoRepository,
                });
            }
            Err(error) => return Err(error),
        };
        let (id, suite) = Envelope::discover(Kind::Config, &object)
            .map_err(|source| StoreError::Envelope { object: NAME.into(), source })?;
        Ok((id, suite, object))
    }

    /// Reads the configuration that was found.
    pub(crate) fn open(envelope: &Envelope, object: &[u8]) -> Result<Self, StoreError> {
        let body = envelope
            .open(Kind::Config, envelope.repository(), object)
            .map_err(|source| StoreError::Envelope { object: NAME.into(), source })?;
        let config = Self::decode(&body)
            .map_err(|source| StoreError::Malformed { object: NAME.into(), source })?;
        let config = match envelope.keys() {
            // Another fingerprint than the keyed one is for `fingerprinter` to refuse.
            Some(keys) => Self { fingerprint: config.fingerprint, ..config.keyed(keys) },
            None => config,
        };
        config.expect_possible(envelope.keys())?;
        Chunker::new(&config.params)?;
        Ok(config)
    }

    /// Fails if lengths are to be padded and nothing is encrypted.
    pub(crate) fn expect_possible(&self, keys: Option<&Keys>) -> Result<(), StoreError> {
        match self.padding && keys.is_none() {
            true => Err(StoreError::Unusable("only an encrypted repository can be padded".into())),
            false => Ok(()),
        }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut body = Vec::new();
        let Params { algorithm, sizes, window, level, seed, .. } = &self.params;
        body.put_u8(algorithm.code());
        body.put_varint(sizes.min() as u64);
        body.put_varint(sizes.avg() as u64);
        body.put_varint(sizes.max() as u64);
        body.put_varint(*window as u64);
        body.put_u8(*level);
        body.put_u64(*seed);
        body.put_u8(self.fingerprint.code());
        body.put_signed(self.compression_level.into());
        if self.padding {
            body.put_u8(PADME);
        }
        body
    }

    pub(crate) fn decode(body: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(body);
        let algorithm = Algorithm::from_code(reader.u8("a chunking algorithm")?)
            .ok_or(reader.error("a chunking algorithm that this program knows"))?;
        let mut size = || reader.varint_to(u32::MAX.into(), "a chunk size").map(|n| n as usize);
        let (min, avg, max) = (size()?, size()?, size()?);
        let sizes =
            ChunkSizes::new(min, avg, max).map_err(|_| reader.error("chunk sizes in order"))?;
        let mut params = Params::new(algorithm, sizes);
        params.window = reader.varint_to(256, "a window of at most 256 bytes")? as usize;
        params.level = reader.u8("a normalisation level")?;
        params.seed = reader.u64("a seed")?;
        let fingerprint = FingerprintAlgorithm::from_code(reader.u8("a fingerprint")?)
            .ok_or(reader.error("a fingerprint that this program knows"))?;
        let compression_level = reader.signed("a compression level")?;
        let compression_level = i32::try_from(compression_level)
            .ok()
            .filter(|level| (-7..=22).contains(level))
            .ok_or(reader.error("a compression level from -7 to 22"))?;
        let padding = reader.remaining() > 0;
        if padding && reader.u8("a padding")? != PADME {
            return Err(reader.error("padding 1 (Padmé), or none"));
        }
        reader.finish()?;
        Ok(Self { params, fingerprint, compression_level, padding })
    }
}

/// Any object that only a repository has; anything else under the same root is not looked at.
fn any_own_object(objects: &dyn Objects) -> Result<Option<String>, StoreError> {
    for prefix in [snapshot::PREFIX, container::PREFIX, index::PREFIX] {
        if let Some(name) = objects.list_names(prefix)?.into_iter().next() {
            return Ok(Some(name));
        }
    }
    Ok(None)
}
