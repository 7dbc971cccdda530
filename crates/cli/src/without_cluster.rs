//! A build without the feature `cluster`: types of the same names as those of clusters, without values. Where a
//! user names a cluster, the program says that it has none.

use std::convert::Infallible;
use std::fmt;

use anyhow::Result;
use clap::Args;

use crate::exit::Exit;

/// The location of a cluster, which there is none of.
#[derive(Clone, Debug)]
pub(crate) enum CephLocation {}

impl fmt::Display for CephLocation {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {}
    }
}

/// Refuses a location, for an option.
pub(crate) fn location(_: &str) -> Result<CephLocation, String> {
    Err(format!("{Unavailable}: {}", Unavailable.hint()))
}

/// How to reach a cluster: no options.
#[derive(Clone, Debug, Args)]
pub(crate) struct CephArgs {}

impl CephArgs {
    pub(crate) fn reach(&self, location: &CephLocation) -> Result<Reached> {
        match *location {}
    }
}

/// A namespace of a pool of Ceph, which there is none of.
pub(crate) enum Reached {}

/// The program was built without clusters.
#[derive(Debug)]
pub(crate) struct Unavailable;

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("this build of onefold has no clusters")
    }
}

impl std::error::Error for Unavailable {}

impl Unavailable {
    /// How the program ends for it.
    pub(crate) fn exit(&self) -> Exit {
        Exit::Fatal
    }

    /// What to do about it.
    pub(crate) fn hint(&self) -> String {
        "a static program cannot load Ceph's client library; use the Debian package or build onefold from \
         source, which have clusters"
            .to_owned()
    }
}

/// Requests to volumes in a cluster.
pub(crate) mod domain {
    use onefold_volume::{Options, Pool, Repaired};

    use super::{Infallible, Reached, Result};
    use crate::service::answer::Answer;
    use crate::service::request::Request;

    /// The volumes of a cluster, which there are none of.
    pub(crate) enum Volumes {}

    /// A shard that this process has.
    pub(crate) struct Shard(Infallible);

    impl Shard {
        pub(crate) fn pool(&self) -> &Pool {
            match self.0 {}
        }
    }

    impl Volumes {
        pub(crate) fn new(
            reached: Reached,
            _: Options,
            _: impl Fn(&str) + 'static,
        ) -> Result<Self> {
            match reached {}
        }

        pub(crate) fn ask(&mut self, _: Request) -> Result<Answer> {
            match *self {}
        }

        pub(crate) fn ask_all(&mut self, _: Request) -> Result<(Answer, Result<()>)> {
            match *self {}
        }

        pub(crate) fn open(&mut self, _: &str) -> Result<Shard> {
            match *self {}
        }

        pub(crate) fn repair(&mut self, _: impl Fn(String)) -> Result<Repaired> {
            match *self {}
        }
    }
}
