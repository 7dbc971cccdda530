//! Keys and key epochs: the names of their objects, and what is remembered of a key.

use onefold_seal::ObjectId;
use onefold_seal::wire::{Put, Reader, WireError};

use crate::objects::read::text;
use crate::tree::Time;

/// Under which prefix of a repository wrapped keys lie.
pub(crate) const PREFIX: &str = "keys/";

/// Under which prefix of a repository the sealing keys of later epochs lie.
pub(crate) const EPOCHS: &str = "epochs/";

/// No wrapped key is longer than this, and no epoch.
pub(crate) const MAX_LEN: u64 = 64 << 10;

/// So many objects below `keys/` or `epochs/` are read at most: anybody may put some.
pub(crate) const MAX_READ: usize = 1024;

/// The name of key `id`.
pub(crate) fn key_name(id: ObjectId) -> String {
    format!("{PREFIX}{id}")
}

/// The id that `name` stands for, or `None` if it is no key's name.
pub(crate) fn key_id(name: &str) -> Option<ObjectId> {
    name.strip_prefix(PREFIX)?.parse().ok()
}

/// The object id of `epoch`: its number, big-endian.
pub(crate) fn epoch_object(epoch: u32) -> ObjectId {
    ObjectId::from_bytes(u128::from(epoch).to_be_bytes())
}

/// The name of the sealing key of `epoch`.
pub(crate) fn epoch_name(epoch: u32) -> String {
    format!("{EPOCHS}{}", epoch_object(epoch))
}

/// The epoch whose sealing key `name` is, or `None` if it is no such name. Epoch 0 has none.
pub(crate) fn epoch_number(name: &str) -> Option<u32> {
    let id: ObjectId = name.strip_prefix(EPOCHS)?.parse().ok()?;
    u32::try_from(u128::from_be_bytes(*id.as_bytes())).ok().filter(|epoch| *epoch > 0)
}

/// What is remembered of a key, for people to tell keys apart.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KeyRemark {
    /// When the key was added.
    pub created: Time,
    /// On which host.
    pub host: String,
    /// By which user.
    pub user: String,
    /// What the user called it; may be empty.
    pub label: String,
}

impl KeyRemark {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut body = Vec::new();
        self.created.encode(&mut body);
        for text in [&self.host, &self.user, &self.label] {
            body.put_bytes(text.as_bytes());
        }
        body
    }

    /// Decodes a remark.
    pub fn decode(body: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(body);
        let created = Time::decode(&mut reader)?;
        let mut next = || text(&mut reader);
        let (host, user, label) = (next()?, next()?, next()?);
        reader.finish()?;
        Ok(Self { created, host, user, label })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_of_epochs_stand_for_each_other() {
        assert_eq!(epoch_name(1), "epochs/00000000000000000000000000000001");
        for epoch in [1, 255, 256, u32::MAX] {
            assert_eq!(epoch_number(&epoch_name(epoch)), Some(epoch));
        }
        for wrong in ["0".repeat(32), format!("{:032x}", 1u64 << 32), "1".into(), String::new()] {
            assert_eq!(epoch_number(&format!("epochs/{wrong}")), None, "{wrong}");
        }
    }

    #[test]
    fn what_was_remarked_decodes_and_nothing_shorter_does() {
        let remark = KeyRemark {
            created: Time { secs: -1, nanos: 2 },
            host: "host".into(),
            user: "user".into(),
            label: "größer".into(),
        };
        let body = remark.encode();
        assert_eq!(KeyRemark::decode(&body), Ok(remark));
        assert!((0..body.len()).all(|len| KeyRemark::decode(&body[..len]).is_err()));
    }
}
