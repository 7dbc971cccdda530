//! What an open repository has read of its bundles.

use std::collections::HashMap;
use std::sync::OnceLock;

use bytes::Bytes;
use onefold_seal::ObjectId;

use crate::objects::bundle::{ListedBundle, Of};

/// Copies by the ids of their originals. Nothing vouches for them yet.
pub(crate) type Copies = HashMap<ObjectId, Bytes>;

/// The bundles of an open repository, as far as they were read.
#[derive(Debug, Default)]
pub(crate) struct Bundles {
    pub(crate) listed: OnceLock<Vec<ListedBundle>>,
    pub(crate) copies: [OnceLock<Copies>; Of::ALL.len()],
}
