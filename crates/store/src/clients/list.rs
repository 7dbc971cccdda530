//! Which write-only clients there are, and adding one.

use std::collections::{BTreeMap, BTreeSet};

use onefold_backend::{BackendError, Objects};
use onefold_seal::ObjectId;

use crate::keys::removals::MAX_RECORDS;
use crate::objects::client::{ClientRecord, ClientState};
use crate::objects::key::{self, key_id};
use crate::{KeyRemark, Repository, Snapshot, StoreError, WriteOnlyKey};

/// So often another number is drawn if there is a client that has it.
const MAX_DRAWS: u32 = 16;

/// A write-only client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientInfo {
    /// By which it is known; not 0.
    pub number: u32,
    /// What is remembered of its key. Nothing where that is gone, and only its removal is left.
    pub remark: KeyRemark,
    /// Whether its key was taken back.
    pub is_removed: bool,
    /// Whether that was begun and cut off: its snapshots still count.
    pub is_half_removed: bool,
    /// Whether this was seen to be done and is not there any more: what was put since counts again.
    pub is_hidden: bool,
}

/// The clients that could be read, by their numbers, and what was wrong with others.
pub type ClientList = (Vec<ClientInfo>, Vec<StoreError>);

/// By what a key is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyId {
    /// A password's or a private key's: the id of its object.
    Key(ObjectId),
    /// A write-only client's: its number.
    Client(u32),
}

impl Repository {
    /// Adds a client that is to back up and not to read. The key is given once and stored nowhere.
    pub fn add_client(&self, remark: &KeyRemark) -> Result<WriteOnlyKey, StoreError> {
        let keys = self.expect_keys()?;
        for _ in 0..MAX_DRAWS {
            let [a, b, c, d, ..] = *ObjectId::random().as_bytes();
            let client = u32::from_be_bytes([a, b, c, d]).max(1);
            match self.put_record(client, &ClientRecord::Added(remark.clone())) {
                Err(StoreError::Backend(BackendError::AlreadyExists { .. })) => {}
                put => return put.and_then(|()| WriteOnlyKey::new(self, keys, client)),
            }
        }
        let text = "the numbers of clients are all taken: somebody filled 'clients/'";
        Err(StoreError::Unusable(text.into()))
    }

    /// Every write-only client. Those of which something cannot be read are given apart as well.
    pub fn clients(&self) -> Result<ClientList, StoreError> {
        self.expect_keys()?;
        let (mut infos, mut damaged) = (BTreeMap::<u32, ClientInfo>::new(), Vec::new());
        let records = self.listed_records()?;
        let left = records.len().saturating_sub(MAX_RECORDS);
        if left > 0 {
            damaged.push(StoreError::Unusable(format!(
                "{left} more client records are in 'clients/' and were not read: somebody put garbage \
                 there"
            )));
        }
        for (number, state) in records.into_iter().take(MAX_RECORDS) {
            let record = match self.record(number, state) {
                Ok(Some(record)) => record,
                Ok(None) => continue,
                Err(error) if error.is_unreachable() => return Err(error),
                Err(error) => {
                    damaged.push(error);
                    continue;
                }
            };
            let info = infos.entry(number).or_insert_with(|| ClientInfo {
                number,
                remark: KeyRemark::default(),
                is_removed: false,
                is_half_removed: false,
                is_hidden: false,
            });
            match record {
                ClientRecord::Added(remark) => info.remark = remark,
                ClientRecord::Removed(_) => info.is_half_removed = true,
                ClientRecord::Kept(..) => info.is_removed = true,
            }
        }
        // Who cannot remember is told so when the repository is opened.
        let remembered = self.last_remembered().unwrap_or_default();
        for info in infos.values_mut() {
            info.is_hidden = !info.is_removed && remembered.is_removed(info.number);
            info.is_half_removed &= !info.is_removed && !info.is_hidden;
        }
        Ok((infos.into_values().collect(), damaged))
    }

    /// The write-only client that sealed snapshot `id`, if one did, with what is remembered of its key
    /// where that can be read.
    pub fn signer(&self, id: ObjectId) -> Result<Option<(u32, Option<KeyRemark>)>, StoreError> {
        let (_, client) = Snapshot::look_alone(self, id)?;
        let Some(client) = client else { return Ok(None) };
        let remark = match self.record(client, ClientState::Added) {
            Ok(Some(ClientRecord::Added(remark))) => Some(remark),
            Ok(_) => None,
            Err(error) if self.is_damage(&error) => None,
            Err(error) => return Err(error),
        };
        Ok(Some((client, remark)))
    }

    /// The key whose id begins with `digits`.
    pub fn find_key(&self, digits: &str) -> Result<KeyId, StoreError> {
        self.expect_keys()?;
        let digits = digits.to_ascii_lowercase();
        let infos = self.objects.list(key::PREFIX)?;
        let ids = infos.iter().filter_map(|info| key_id(&info.name));
        let keys = ids.filter(|id| id.to_string().starts_with(&digits)).map(KeyId::Key);
        let clients: BTreeSet<u32> = self.listed_records()?.iter().map(|(one, _)| *one).collect();
        // A whole number: somebody may have put a key there whose id begins so.
        let whole = clients.iter().find(|one| format!("{one:08x}") == digits);
        if let Some(client) = whole {
            return Ok(KeyId::Client(*client));
        }
        let clients = clients.into_iter().filter(|one| format!("{one:08x}").starts_with(&digits));
        let fitting: Vec<_> = keys.chain(clients.map(KeyId::Client)).collect();
        match fitting[..] {
            [id] if !digits.is_empty() => Ok(id),
            _ => Err(StoreError::NoKey { spec: digits, count: fitting.len() }),
        }
    }
}
