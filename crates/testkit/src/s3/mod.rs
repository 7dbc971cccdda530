//! S3 for tests: a server process, and a proxy that makes the way to it unreliable.

mod http;
mod proxy;
mod server;

pub use proxy::{Fate, Mishaps, Outage, Proxy, Rules};
pub use server::S3Server;
