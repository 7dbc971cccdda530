//! The root object of a namespace: which domain it holds, and how its pages are named and compressed.

use std::sync::Arc;

use bytes::Bytes;
use onefold_backend::rados::{Query, RadosPool, Refusal, Update};
use onefold_backend::{BackendError, Operation};
use onefold_seal::ObjectId;
use onefold_volume::{Codec, Hash, VolumeError};

use super::names::Names;
use super::shards::Shards;
use crate::error::failed;
use crate::gateway::lease::gateways_table;
use crate::peers::Authority;
use crate::shard;

/// The object that says what the namespace holds.
const ROOT: &str = "onefold";
const FORMAT: &str = "format";
const DOMAIN: &str = "domain";
const HASH: &str = "hash";
const CODEC: &str = "codec";

/// The version that is written.
const VERSION: u8 = 1;

/// What all shards of a namespace have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Domain {
    /// The id of the domain.
    pub id: ObjectId,
    /// What names pages.
    pub hash: Hash,
    /// How new pages are compressed, unless the options of a gateway say otherwise.
    pub codec: Codec,
}

impl Domain {
    /// Makes a domain in the empty namespace `pool`. The root object is made last, so that all else exists
    /// once it does.
    ///
    /// # Errors
    /// [`BackendError::AlreadyExists`] if there is a domain. After any other error the call may be
    /// repeated.
    pub fn create(
        pool: &Arc<dyn RadosPool>,
        hash: Hash,
        codec: Codec,
    ) -> Result<Self, VolumeError> {
        let exists = || -> VolumeError {
            let place = format!("pool {}", pool.kind().name);
            BackendError::AlreadyExists { name: ROOT.to_owned(), place }.into()
        };
        shard::ensure_fitting(pool)?;
        if Self::find(&**pool)?.is_some() {
            return Err(exists());
        }
        Authority::create(&**pool)?;
        gateways_table(pool).create()?;
        Shards::new(pool).create_table()?;
        Names::new(pool).create_table()?;
        let domain = Self { id: ObjectId::random(), hash, codec };
        let named = Update::creating()
            .set(FORMAT, vec![VERSION])
            .set(DOMAIN, Bytes::copy_from_slice(domain.id.as_bytes()))
            .set(HASH, vec![hash.code()])
            .set(CODEC, vec![codec.code()]);
        match pool.update(ROOT, named) {
            Ok(_) => Ok(domain),
            // an update whose answer was lost may have made it
            Err(_) if Self::find(&**pool)? == Some(domain) => Ok(domain),
            Err(error) if error.refusal() == Some(Refusal::Exists) => Err(exists()),
            Err(error) => Err(failed(Operation::Put, error)),
        }
    }

    /// The domain that the namespace `pool` holds, if any.
    ///
    /// # Errors
    /// [`VolumeError::NewerVersion`] if a later version made it; [`VolumeError::Damaged`] if the root object
    /// has not the attributes that it must have.
    pub fn find(pool: &dyn RadosPool) -> Result<Option<Self>, VolumeError> {
        let answer = match pool.query(ROOT, &Query { xattrs: true, ..Query::default() }) {
            Ok(answer) => answer,
            Err(error) if error.refusal() == Some(Refusal::Absent) => return Ok(None),
            Err(error) => return Err(failed(Operation::Read, error)),
        };
        let of = |name: &str| answer.xattrs.get(name).map_or(&b""[..], |value| value);
        let damaged = |name: &str, expected: &str| VolumeError::Damaged {
            object: ROOT.to_owned(),
            at: 0,
            problem: format!("attribute '{name}' is {:02x?}, expected {expected}", of(name)),
        };
        match of(FORMAT) {
            [VERSION] => {}
            [found] if *found > VERSION => {
                let (found, newest) = ((*found).into(), VERSION.into());
                return Err(VolumeError::NewerVersion { found, newest });
            }
            _ => return Err(damaged(FORMAT, "[01]")),
        }
        let id = <[u8; ObjectId::LEN]>::try_from(of(DOMAIN));
        let id = id.map_err(|_| damaged(DOMAIN, "16 bytes"))?;
        let byte = |name: &str| <[u8; 1]>::try_from(of(name)).map(|[byte]| byte).ok();
        let hash = byte(HASH).and_then(Hash::from_code);
        let codec = byte(CODEC).and_then(Codec::from_code);
        Ok(Some(Self {
            id: ObjectId::from_bytes(id),
            hash: hash.ok_or_else(|| damaged(HASH, "the code of SHA3-256 or BLAKE3"))?,
            codec: codec.ok_or_else(|| damaged(CODEC, "the code of a codec"))?,
        }))
    }
}
