//! What tests of several crates share: corpora, reference models, damage, certificates, servers
//! of S3, Azure, SFTP and Ceph, a line to a server far away.
//!
//! Everything but keys is a function of its arguments: a test that fails can be run again. Depends on
//! no crate of this workspace, so that a model cannot lean on what it judges.

#[cfg(feature = "proptest")]
mod any;
mod azure;
mod browser;
pub mod ceph;
#[cfg(feature = "certificates")]
mod certificates;
#[cfg(feature = "command")]
pub mod command;
mod corpus;
mod cutter;
mod damage;
mod edit;
mod example;
mod fake_cuda;
mod first_found;
pub mod line;
pub mod model;
mod qemu;
pub mod s3;
mod skip;
mod splitmix;
mod ssh;

#[cfg(feature = "proptest")]
pub use any::any_bytes;
pub use azure::AzureServer;
pub use browser::{Browser, Shown};
#[cfg(feature = "certificates")]
pub use certificates::write_certificates;
pub use corpus::{cycle, low_entropy, random, text};
pub use cutter::Cutter;
pub use damage::flip_bit;
pub use edit::{Edit, versions};
pub use example::example;
pub use fake_cuda::build_fake_cuda;
pub use first_found::first_found;
pub use qemu::qemu_io_patterns;
pub use skip::skip;
pub use splitmix::SplitMix64;
pub use ssh::{SshServer, make_key};
