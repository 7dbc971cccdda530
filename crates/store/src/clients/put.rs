//! Putting words on clients.

use bytes::Bytes;
use onefold_backend::Objects;
use onefold_seal::{Check, Kind, ObjectId};

use crate::objects::client::{ClientWord, MAX_LEN, word_id, word_name};
use crate::{Repository, StoreError};

impl Repository {
    pub(super) fn put_word(&self, client: u32, word: &ClientWord) -> Result<(), StoreError> {
        let (id, name) = (word_id(client, word.step()), word_name(client, word.step()));
        self.put_object(id, name, &word.encode()).map(drop)
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
