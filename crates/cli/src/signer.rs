//! The signer of a snapshot.

use anyhow::Result;
use onefold_seal::ObjectId;
use onefold_store::{Repository, Snapshot};
use serde::Serialize;

use crate::console::Console;

/// Whether a write-only client made a snapshot, and which, in JSON to be flattened.
#[derive(Clone, Serialize)]
pub(crate) struct Signer {
    from_client: bool,
    /// None for a copy, which the owner signs.
    client: Option<String>,
    client_label: Option<String>,
}

impl Signer {
    /// The signer of `snapshot`.
    pub(crate) fn of(repository: &Repository, id: ObjectId, snapshot: &Snapshot) -> Result<Self> {
        let signer = match snapshot.is_from_client {
            true => repository.signer(id)?,
            false => None,
        };
        let (client, remark) = signer.unzip();
        Ok(Self {
            from_client: snapshot.is_from_client,
            client: client.map(client_id),
            client_label: remark.flatten().map(|remark| remark.label),
        })
    }

    /// Warns a user who is about to use snapshot `id` if a write-only client made it.
    pub(crate) fn tell(&self, id: ObjectId, console: &Console) {
        if !self.from_client {
            return;
        }
        let by = match (&self.client, &self.client_label) {
            (Some(client), Some(label)) => format!("write-only key {client} '{label}' signed it"),
            (Some(client), None) => format!("write-only key {client} signed it"),
            (None, _) => "it is a copy of one that a write-only key signed".into(),
        };
        console.warn(format_args!(
            "snapshot {} may be forged: {by}, and a holder of such a key can name any host, path and \
             time",
            id.short()
        ));
    }
}

/// How users name a write-only client.
pub(crate) fn client_id(client: u32) -> String {
    format!("{client:08x}")
}
