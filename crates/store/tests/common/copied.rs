//! A repository with two snapshots that are copied to another, while the power goes.

use std::sync::Arc;

use onefold_backend::{MemoryObjects, Objects};
use onefold_store::copy::{self, Options, Report};
use onefold_store::{Cancel, Config, Progress, StoreError};
use onefold_testkit::{random, text};
use tempfile::{TempDir, tempdir};

use super::picture::Picture;
use super::trials::Trial;
use super::{
    Protection, back_up, chain, expect_clean, init, open, restored, small_chunks, try_open, write,
};

/// A repository with two snapshots, and what each holds.
pub struct Copied {
    pub _source: TempDir,
    pub objects: Arc<dyn Objects>,
    pub pictures: [Picture; 2],
    /// A repository with nothing in it.
    pub target: Arc<dyn Objects>,
}

impl Copied {
    pub fn new(protection: Protection) -> Self {
        let source = tempdir().unwrap();
        let objects = made(small_chunks(), protection);
        let root = source.path();
        for number in 0..3 {
            write(root.join(format!("dir/{number}")), random(number, 40_000));
            write(root.join(format!("texts/{number}")), text(number, 3000));
        }
        for number in 0..40 {
            write(root.join(format!("many/file-with-a-long-name-{number}")), text(number, 100));
        }
        std::fs::hard_link(root.join("dir/1"), root.join("linked")).unwrap();
        std::os::unix::fs::symlink("dir/1", root.join("link")).unwrap();
        back_up(&open(&objects), root);
        let first = Picture::of(root);
        write(root.join("dir/1"), [random(1, 40_000), random(7, 30_000)].concat());
        write(root.join("new"), random(8, 20_000));
        back_up(&open(&objects), root);
        let pictures = [first, Picture::of(root)];
        let target = made(small_chunks(), Protection::Plain);
        Self { _source: source, objects, pictures, target }
    }

    /// Copies the first `count` snapshots.
    pub fn copy_to(
        &self,
        to: &Arc<dyn Objects>,
        count: usize,
        rechunk: bool,
    ) -> Result<Report, StoreError> {
        let from = open(&self.objects);
        let snapshots = from.snapshots()?.0.into_iter().take(count).collect();
        let to = try_open(Arc::clone(to))?;
        let options =
            Options { host: "host".into(), user: "user".into(), rechunk, container_len: 64 << 10 };
        copy::copy(&from, &to, snapshots, &options, &Progress::default(), &Cancel::default())
    }

    /// Every snapshot in `objects` is whole; how many there are.
    pub fn expect_whole(&self, objects: &Arc<dyn Objects>) -> Result<usize, String> {
        let repository = try_open(Arc::clone(objects)).map_err(|error| chain(&error))?;
        expect_clean(&repository)?;
        let (copies, damaged) = repository.snapshots().map_err(|error| chain(&error))?;
        if let Some(error) = damaged.first() {
            return Err(chain(error));
        }
        for (number, (_, copy)) in copies.iter().enumerate() {
            restored(&repository, copy)?.expect(&self.pictures[number])?;
        }
        Ok(copies.len())
    }
}

/// A new repository.
pub fn made(config: Config, protection: Protection) -> Arc<dyn Objects> {
    let objects: Arc<dyn Objects> = Arc::new(MemoryObjects::new());
    init(Arc::clone(&objects), config, protection).unwrap();
    objects
}

impl Trial for Copied {
    type Acknowledged = bool;

    fn before(&self) -> &dyn Objects {
        &*self.target
    }

    /// Copies both snapshots.
    fn run(&self, objects: Arc<dyn Objects>, acknowledged: &mut bool) -> Result<(), StoreError> {
        self.copy_to(&objects, 2, false)?;
        *acknowledged = true;
        Ok(())
    }

    fn expect_promises_kept(
        &self,
        objects: Arc<dyn Objects>,
        acknowledged: &bool,
    ) -> Result<(), String> {
        let there = self.expect_whole(&objects)?;
        if *acknowledged && there < 2 {
            return Err("a copy was acknowledged and is lost".into());
        }
        self.copy_to(&objects, 2, false).map_err(|error| chain(&error))?;
        match self.expect_whole(&objects)? {
            2 => Ok(()),
            _ => Err("the next copy did not finish it".into()),
        }
    }
}
