//! Where a domain is: a cluster of Ceph and the numbers of its pools, which tell apart what has the same name.

use std::fmt;

use bytes::Bytes;
use onefold_backend::Operation;
use onefold_backend::rados::{Query, RadosPool, Update};
use onefold_volume::VolumeError;

use crate::error::failed;

/// The attribute of a root object that says it.
pub(super) const PLACE: &str = "place";

/// Times that a place is written: another process may write one too.
const TRIES: u32 = 3;

/// The cluster of Ceph and the pools in which a domain is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The fsid of the cluster.
    pub(super) cluster: String,
    /// The number of the pool for metadata.
    pub(super) meta: i64,
    /// The number of the pool for containers, if they have one of their own.
    pub(super) data: Option<i64>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cluster, meta, data } = self;
        write!(f, "cluster {cluster}, pool number {meta}")?;
        data.map_or(Ok(()), |data| write!(f, ", containers in pool number {data}"))
    }
}

impl Place {
    /// Where these pools are.
    pub(super) fn of(meta: &dyn RadosPool, data: Option<&dyn RadosPool>) -> Self {
        let identity = &meta.kind().identity;
        let data = data.map(|data| data.kind().identity.number);
        Self { cluster: identity.cluster.clone(), meta: identity.number, data }
    }

    pub(super) fn encode(&self) -> Bytes {
        let data = self.data.map(|data| format!(" {data}")).unwrap_or_default();
        format!("{} {}{data}", self.cluster, self.meta).into()
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut parts = std::str::from_utf8(bytes).ok()?.split(' ');
        let cluster = parts.next().filter(|cluster| !cluster.is_empty())?.to_owned();
        let meta = parts.next()?.parse().ok()?;
        let data = parts.next().map(str::parse).transpose().ok()?;
        parts.next().is_none().then_some(Self { cluster, meta, data })
    }

    /// Writes it into the object `root` of `pool`; only where none is written unless `anyway`. Returns what is written
    /// there.
    pub(super) fn write(
        &self,
        pool: &dyn RadosPool,
        root: &str,
        anyway: bool,
    ) -> Result<Bytes, VolumeError> {
        let mut tries = 0;
        loop {
            let answer = pool.query(root, &Query { xattrs: true, ..Query::default() });
            let mut answer = answer.map_err(|error| failed(Operation::Read, error))?;
            let found = answer.xattrs.remove(PLACE).unwrap_or_default();
            if found == self.encode() || !(anyway || found.is_empty()) {
                return Ok(found);
            }
            let update = Update::existing().expect(PLACE, found).set(PLACE, self.encode());
            match pool.update(root, update) {
                Ok(_) => return Ok(self.encode()),
                // another process wrote it, or the answer was lost
                Err(_) if tries < TRIES => tries += 1,
                Err(error) => return Err(failed(Operation::Write, error)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_as_it_was_written() {
        let cluster = "5d1d5c1e-0b6f-4d6a-9c2f-0a4c6a1b7e11".to_owned();
        for data in [None, Some(4)] {
            let place = Place { cluster: cluster.clone(), meta: 3, data };
            assert_eq!(Place::decode(&place.encode()), Some(place));
        }
        for bad in ["", "a", " 3", "a b", "a 3 ", "a 3 4 5"] {
            assert_eq!(Place::decode(bad.as_bytes()), None, "{bad:?}");
        }
    }
}
