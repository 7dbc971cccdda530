//! Which gateway holds the hints of a fingerprint, and on which way a request gets there.
//!
//! | file | what it is |
//! | --- | --- |
//! | ranges.rs | the first 16 bits of a fingerprint, divided among gateways |
//! | table.rs | what one gateway knows of the others, and the next gateway on the way |
//!
//! After StreamDedup (ACM TRETS, 2026), section 4.3.3: gateways form a ring in the order of their
//! ranges, and each has a table of some of the others. A request goes from gateway to gateway until
//! one holds the range itself; its answer goes back by the same rule.

mod ranges;
#[cfg(test)]
mod shortest;
mod table;

pub use ranges::{Gateway, MAX_GATEWAYS, Range, Ranges, RangesError};
pub use table::{Route, Routing, Table, way};
