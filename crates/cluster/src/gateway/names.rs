//! Which shard has the volume of a name.
//!
//! Only the gateway that has a shard changes names that lead to it. A new name is claimed before the volume
//! is made, and given up after it was deleted. A crash between the two leaves a name without a volume; the
//! next gateway that opens the shard, or claims the name, takes it away.

use std::sync::Arc;

use bytes::Bytes;
use onefold_backend::Operation;
use onefold_backend::rados::RadosPool;
use onefold_volume::VolumeError;

use super::records::{NameRecord, decode};
use super::table::{Changed, Table};
use crate::error::failed;

/// What a key ends with. No name has a control character, so that no key is between a name and its key.
const END: char = '\u{1}';

/// The names of all volumes of a domain.
#[derive(Clone)]
pub struct Names(Table);

impl Names {
    /// Those of the domain in `pool`.
    pub fn new(pool: &Arc<dyn RadosPool>) -> Self {
        Self(Table::new(pool, "names"))
    }

    pub(super) fn create_table(&self) -> Result<(), VolumeError> {
        self.0.create()
    }

    fn read(&self, key: &str, value: &Bytes) -> Result<NameRecord, VolumeError> {
        decode(self.0.object(), key, value, NameRecord::read)
    }

    /// Where the volume `name` is, if there is one.
    ///
    /// # Errors
    /// If the record cannot be read.
    pub fn find(&self, name: &str) -> Result<Option<NameRecord>, VolumeError> {
        if name.is_empty() || name.chars().any(char::is_control) {
            return Ok(None);
        }
        let key = format!("{name}{END}");
        let found = self.0.get(name.to_owned(), &key);
        let found = found.map_err(|error| failed(Operation::Read, error))?;
        found.map(|value| self.read(&key, &value)).transpose()
    }

    /// All volumes, by name.
    ///
    /// # Errors
    /// If a record cannot be read.
    pub fn all(&self) -> Result<Vec<(String, NameRecord)>, VolumeError> {
        let all = self.0.all().map_err(|error| failed(Operation::Read, error))?;
        let named = |(key, value): (String, Bytes)| {
            let record = self.read(&key, &value)?;
            Ok((key.strip_suffix(END).unwrap_or(&key).to_owned(), record))
        };
        all.into_iter().map(named).collect()
    }

    /// Changes the record of `name`; false if it was not `from`.
    pub(super) fn change(
        &self,
        name: &str,
        from: Option<&NameRecord>,
        to: Option<&NameRecord>,
    ) -> Result<bool, VolumeError> {
        let key = format!("{name}{END}");
        let (from, to) = (from.map(NameRecord::encode), to.map(NameRecord::encode));
        Ok(self.0.settle(name.to_owned(), &key, from.as_ref(), to)? == Changed::Done)
    }
}
