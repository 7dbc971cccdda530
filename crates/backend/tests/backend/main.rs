//! What storage promises, each kind held to the same suite.

#[path = "../places/mod.rs"]
mod places;

mod azure;
mod conformance;
mod crash;
mod google;
mod local;
mod remote;
mod retrying;
mod sftp;
mod steps;
