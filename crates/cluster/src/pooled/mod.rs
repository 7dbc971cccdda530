//! The pooled index as a shard uses it: its own store, and those of the other gateways.
//!
//! | file | content |
//! | --- | --- |
//! | options.rs | what is chosen, counted and told |
//! | gateway.rs | [`PooledHints`]: look-ups and pages, by the gateway that holds them |
//! | state.rs | what its threads share: the store, ranges, the other gateways |
//! | upkeep.rs | gateways come and go, and dumps |
//! | footers.rs | what footers of containers say fills what no dump has |

mod footers;
mod gateway;
mod options;
mod state;
mod upkeep;

pub use gateway::{OnControl, PeerPlace, PooledHints, Pools};
pub use options::{HintCounters, Notice, PooledOptions};
