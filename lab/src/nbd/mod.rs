//! A client of NBD that waits for each reply, to replay traces and to test servers.

mod client;
mod uri;

pub use client::{Client, Refused};
pub use uri::{Place, Uri};
