//! Datasets as recipes: what package registries offer, what databases write, and random bytes.
//!
//! A [`Recipe`] fills a folder with files whose names sort in the order in which they are to be
//! cut. An [`Order`] is a recipe with choices made; a [`Plan`] says, before anything happens, what
//! will be downloaded and what disk it takes, and then builds. A part that is there is complete and
//! left alone, so a broken run is resumed. What is fetched or unpacked on the way lies beside the
//! folder until it is done, and so does the receipt, which tells that all of it was built.
#![allow(
    clippy::disallowed_methods,
    reason = "a dataset is nothing to keep: lost, it is built anew"
)]

mod apt;
mod error;
mod fio;
mod go;
mod image_series;
mod kernel;
mod npm;
mod order;
mod plan;
mod postgres;
mod random;
mod redis;
mod roots;
pub(crate) mod series;
pub(crate) mod site;
mod tool;
mod vm;
mod wheels;

pub use error::BuildError;
pub use order::{Choices, Order};
pub(crate) use plan::Standing;
pub use plan::{Built, Plan, Receipt};
pub use site::Watch;
pub use tool::Tool;

use anyhow::Result;
use order::Choice;
use site::Site;

/// How to build one dataset.
pub struct Recipe {
    /// What it is ordered by.
    pub name: &'static str,
    /// What kind of data it is, in a word or two.
    pub kind: &'static str,
    /// What it is made of, in a line.
    pub about: &'static str,
    /// Where what it downloads comes from, if it downloads anything.
    pub source: Option<&'static str>,
    /// What may be chosen.
    pub choices: &'static [Choice],
    /// What a second build has in common with the first.
    pub sameness: Sameness,
    /// Programs without which it cannot be built.
    pub tools: &'static [Tool],
    cost: fn(&Choices) -> Cost,
    build: fn(&Site) -> Result<()>,
}

/// What a second build has in common with the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sameness {
    /// Every byte. The digest is that of the standard choices, as [`Dataset::digest`](onefold_bench::Dataset::digest) has it.
    Bytes(&'static str),
    /// Not every byte, for the reason given.
    NotBytes(&'static str),
}

/// What building takes, in bytes, about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// Of the dataset.
    pub built: u64,
    /// Over the network.
    pub download: u64,
    /// On the disk besides the dataset, while it is built.
    pub scratch: u64,
}

const MB: u64 = 1_000_000;

/// Every dataset there is a recipe for.
pub const RECIPES: &[&Recipe] = &[
    &go::KUBERNETES,
    &npm::TYPESCRIPT,
    &wheels::NUMPY,
    &wheels::RUFF,
    &npm::ESBUILD,
    &kernel::KERNEL,
    &vm::VM,
    &roots::ROOTS,
    &redis::REDIS,
    &postgres::POSTGRES,
    &apt::WEB,
    &apt::PDF,
    &fio::FIO,
    &random::RAND,
    &series::SERIES,
    &image_series::IMAGE_SERIES,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_recipe_says_what_it_takes_and_where_it_comes_from() {
        for recipe in RECIPES {
            let order: Order = recipe.name.parse().unwrap();
            let cost = order.cost();
            assert!(cost.built > 0, "{}", recipe.name);
            assert_eq!(cost.download > 0, recipe.source.is_some(), "{}", recipe.name);
            match recipe.sameness {
                Sameness::Bytes(digest) => {
                    assert_eq!(digest.len(), "blake3:".len() + 64, "{}", recipe.name);
                }
                Sameness::NotBytes(reason) => assert!(!reason.is_empty(), "{}", recipe.name),
            }
        }
    }
}
