//! Putting client records.

use bytes::Bytes;
use onefold_backend::Objects;
use onefold_seal::{Check, Kind, ObjectId};

use crate::objects::client::{ClientRecord, MAX_LEN, record_id, record_name};
use crate::{Repository, StoreError};

impl Repository {
    pub(super) fn put_record(&self, client: u32, record: &ClientRecord) -> Result<(), StoreError> {
        let (id, name) = (record_id(client, record.state()), record_name(client, record.state()));
        self.put_object(id, name, &record.encode()).map(drop)
    }

    /// Puts an object about a client, and gives its check.
    pub(super) fn put_object(
        &self,
        id: ObjectId,
        name: String,
        body: &[u8],
    ) -> Result<Check, StoreError> {
        let object = self.envelope.seal(Kind::Client, id, body);
        let (check, len) = (Check::of(&[&object]), object.len() as u64);
        if len > MAX_LEN {
            return Err(StoreError::TooLong { object: name, len, max: MAX_LEN });
        }
        self.objects.put(&name, Bytes::from(object))?;
        Ok(check)
    }
}
