//! Taking snapshots away.

use onefold_backend::Objects;
use onefold_seal::ObjectId;

use crate::history::fence::{self, Fate};
use crate::history::log;
use crate::objects::intent::intent_name;
use crate::objects::receipt::{self, receipt_name};
use crate::objects::snapshot::{self, snapshot_name};
use crate::seeded::fault;
use crate::{Repository, StoreError};

/// Takes snapshots away. When this returns, none of them can come back.
///
/// The log says it first, so that nobody takes them for lost. Then their receipts go: a receipt
/// without its snapshot would say that the snapshot was lost. Stopped half-way it leaves snapshots
/// without receipts that no log names, which are whole. Of a backup that has not ended it takes the
/// snapshot as well: either the receipt is found here once the snapshot is deleted, or the backup
/// finds no snapshot once it has put the receipt, and fails.
pub fn forget(repository: &Repository, ids: &[ObjectId]) -> Result<(), StoreError> {
    repository.expect_reading()?;
    let objects = &*repository.objects;
    // Before anything is written: one that only a later program reads is not forgotten by this one.
    if let Some(early) = &repository.early {
        let names = ids.iter().map(|id| snapshot_name(*id));
        early.ask(&[], names.collect(), snapshot::MAX_LEN);
    }
    let mut over = Vec::new();
    for id in ids {
        if fence::fate(repository, *id)? != Fate::Open {
            over.push(*id);
        }
    }
    if !fault!(ForgottenLoggedLast) {
        let appended = log::append(repository, &[], ids)?;
        repository.remember(&appended);
    }
    // A client that may not delete leaves its intent behind. Without its snapshot it would look like
    // that of a running backup, for which prunes wait.
    objects.delete_many(&over.into_iter().map(intent_name).collect::<Vec<_>>())?;
    let receipts = || delete(objects, receipt::PREFIX, ids, receipt_name);
    let snapshots = || delete(objects, snapshot::PREFIX, ids, snapshot_name);
    match fault!(ReceiptForgottenLast) {
        // A backup that was about to acknowledge a snapshot may have put its receipt since. One that
        // puts it later finds no snapshot any more.
        false => receipts().and_then(|()| snapshots()).and_then(|()| receipts())?,
        true => snapshots().and_then(|()| receipts())?,
    }
    fault!(ForgottenLoggedLast => log::append(repository, &[], ids)?);
    Ok(())
}

/// Deletes an object for each id, all of which lie right below `prefix`, for good.
fn delete(
    objects: &dyn Objects,
    prefix: &str,
    ids: &[ObjectId],
    name: fn(ObjectId) -> String,
) -> Result<(), StoreError> {
    objects.delete_many(&ids.iter().map(|id| name(*id)).collect::<Vec<_>>())?;
    // A listing makes deletes durable.
    objects.list_names(prefix)?;
    Ok(())
}
