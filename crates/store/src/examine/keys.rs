//! Checking keys, key epochs and write-only clients.

use crate::keys::epochs::{epoch_numbers, read_epochs};
use crate::keys::wrapped::{KeyObjects, read_listed};
use crate::objects::client::{ClientState, record_name};
use crate::objects::key::{EPOCHS, PREFIX, epoch_name, epoch_number, key_id, key_name};
use crate::{Repository, StoreError};

impl Repository {
    /// What is wrong with keys and epochs, by name, and what is only worth knowing.
    pub(crate) fn check_keys(&self) -> Result<(Vec<StoreError>, Vec<String>), StoreError> {
        let (objects, mut notes) = (&*self.objects, Vec::new());
        let Some(keys) = self.envelope.keys() else {
            let stray = objects.list(PREFIX)?.into_iter().chain(objects.list(EPOCHS)?);
            let note = |name| format!("{name} is not read: the repository is not encrypted");
            return Ok((Vec::new(), stray.map(|info| note(info.name)).collect()));
        };
        let (listed, found) = (objects.list_names(PREFIX)?, objects.list_names(EPOCHS)?);
        for name in listed.iter().chain(&found) {
            if key_id(name).is_none() && epoch_number(name).is_none() {
                notes.push(format!("{name} is no key and was not read"));
            }
        }
        let KeyObjects { read, unread } = read_listed(objects, &listed, "")?;
        let tried = read.len();
        let (infos, mut findings) = self.key_infos(read, keys);
        let left_behind = tried - infos.len() - findings.len();
        if let Some(first) = unread.first() {
            findings.push(StoreError::UntriedKeys {
                tried,
                left: unread.len(),
                first: key_name(*first),
            });
        }
        if left_behind > 0 {
            notes.push(format!(
                "{left_behind} keys belong to another repository, as an interrupted init leaves them"
            ));
        }
        let found = epoch_numbers(&found);
        // Garbage may have any number; only behind an epoch that opens is another one missing.
        for (_, read) in read_epochs(objects, self.id(), keys, found.clone())? {
            findings.extend(read.err());
        }
        for epoch in (1..keys.epoch()).filter(|epoch| !found.contains(epoch)) {
            findings.push(StoreError::MissingEpoch { object: epoch_name(epoch) });
        }
        let (clients, wrong) = self.clients()?;
        findings.extend(wrong);
        for client in clients.iter().filter(|client| client.is_hidden) {
            findings.push(StoreError::RemovalHidden {
                object: record_name(client.number, ClientState::Kept),
                client: client.number,
            });
        }
        for client in clients.iter().filter(|client| client.is_half_removed) {
            notes.push(format!(
                "the key of write-only client {:08x} was to be taken back, which was cut off: its \
                 snapshots still count; remove it again",
                client.number
            ));
        }
        Ok((findings, notes))
    }
}
