//! Write-only clients: each has a number and a key of its own, which its owner can revoke.
//!
//! The repository keeps up to three records per client, put one after the other: `Added`, `Removed` (its
//! key is being revoked) and `Kept` (which of its snapshots stay valid). Once the `Kept` record exists,
//! every other snapshot of the client is ignored. It names each snapshot with the check of its object,
//! so nothing can take its place. Where these are too many for one object, *parts* name them, which are
//! put before it, and the record has the checks of the parts.
//!
//! A committing client looks for the `Removed` record after its snapshot is durable and before it
//! acknowledges. The owner writes that record before it lists the client's snapshots. So the `Kept`
//! record names every acknowledged snapshot.

pub(crate) mod clear;
pub(crate) mod list;
mod put;
mod revoke;
