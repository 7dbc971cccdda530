//! Pools whose shards lose requests and answers.

use std::sync::Arc;

use super::retried::take_turns;
use super::shards::Shards;

/// Pools take turns at `shards`. How many requests went wrong.
pub(crate) fn lose_answers(seed: u64, shards: Shards) -> u64 {
    let shards = Arc::new(shards);
    take_turns(seed, &(Arc::clone(&shards) as _));
    shards.troubles()
}
