//! Requests to a pool. A command that has opened the pool executes them itself; otherwise the server
//! of the pool does.

use anyhow::{Context, Result, bail, ensure};
use indicatif::HumanBytes;
use onefold_block::{BlockDevice, BlockSize};
use onefold_volume::{Checked, Codec, Hash, Maintained, Pool, Scrubbed, VolumeError};
use serde::{Deserialize, Serialize};

use super::answer::{Answer, Shown, ShownCheck, Sums};
use crate::count::count;

/// A request to a pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Request {
    Create {
        name: String,
        size: u64,
        block_size: u32,
        /// The fingerprint and the compression that the pool must have.
        fingerprint: Option<Fingerprint>,
        compression: Option<Compression>,
    },
    Copy {
        from: String,
        to: String,
        is_snapshot: bool,
    },
    Resize {
        name: String,
        size: u64,
        may_shrink: bool,
    },
    Delete {
        name: String,
        /// Also while clients use it.
        is_forced: bool,
    },
    Rename {
        name: String,
        to: String,
        /// Also while clients use it.
        is_forced: bool,
    },
    RollBack {
        name: String,
        snapshot: String,
        /// Also while clients use it.
        is_forced: bool,
    },
    List,
    Info {
        name: String,
    },
    Check,
    Scrub,
    Stats,
    Compact,
    /// Makes `to` in a shard of its own as `from` is now.
    Detach {
        from: String,
        to: String,
    },
    /// Checks the containers that shards share, by those shards that the gateway has.
    Fsck {
        /// Whether leaks are removed.
        repair: bool,
    },
    /// A request for one shard of a cluster, by its id.
    InShard {
        shard: String,
        asked: Box<Request>,
    },
}

/// The fingerprint that identifies pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Fingerprint {
    #[value(name = "sha3-256")]
    Sha3,
    Blake3,
}

impl Fingerprint {
    pub(crate) fn hash(self) -> Hash {
        match self {
            Self::Sha3 => Hash::Sha3,
            Self::Blake3 => Hash::Blake3,
        }
    }
}

/// The compression of new pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Compression {
    Zstd,
    Lz4,
    Gzip,
    None,
}

impl Compression {
    pub(crate) fn codec(self) -> Codec {
        match self {
            Self::Zstd => Codec::Zstd,
            Self::Lz4 => Codec::Lz4,
            Self::Gzip => Codec::Deflate,
            Self::None => Codec::Raw,
        }
    }
}

/// The server that offers the volumes of a pool to clients.
pub(crate) trait Offers {
    /// Offers a new volume.
    fn offer(&self, name: &str) -> Result<()>;

    /// Offers a volume after a change of it failed, which memory may show and which may not be durable.
    fn offer_failed(&self, name: &str) -> Result<()> {
        self.offer(name)
    }

    /// Withdraws a volume; if clients use it, only if `is_forced`.
    fn take_back(&self, name: &str, is_forced: bool) -> Result<()>;

    /// Whether a long request should continue: there is time left and a client waits for the answer.
    /// Otherwise the request stops at its next step.
    fn goes_on(&self) -> bool;

    /// Whether the pool stays open after this request, so that a failed sync may still succeed later.
    fn is_serving(&self) -> bool;
}

/// No server offers the volumes.
pub(crate) struct NotServed;

impl Offers for NotServed {
    fn offer(&self, _: &str) -> Result<()> {
        Ok(())
    }

    fn take_back(&self, _: &str, _: bool) -> Result<()> {
        Ok(())
    }

    fn goes_on(&self) -> bool {
        true
    }

    fn is_serving(&self) -> bool {
        false
    }
}

impl Request {
    /// Whether it creates, deletes, renames or resizes volumes.
    pub(crate) fn is_change(&self) -> bool {
        matches!(
            self,
            Self::Create { .. }
                | Self::Copy { .. }
                | Self::Detach { .. }
                | Self::Resize { .. }
                | Self::Delete { .. }
                | Self::Rename { .. }
                | Self::RollBack { .. }
        )
    }

    /// Whether it changes nothing in the pool.
    pub(crate) fn only_reads(&self) -> bool {
        matches!(self, Self::List | Self::Info { .. } | Self::Check | Self::Scrub | Self::Stats)
    }

    /// The existing volume that it is about, or the one that it creates; none if it is about all.
    pub(crate) fn volume(&self) -> Option<&str> {
        match self {
            Self::Create { name, .. }
            | Self::Copy { from: name, .. }
            | Self::Detach { from: name, .. }
            | Self::Resize { name, .. }
            | Self::Delete { name, .. }
            | Self::Rename { name, .. }
            | Self::RollBack { name, .. }
            | Self::Info { name } => Some(name),
            Self::InShard { asked, .. } => asked.volume(),
            Self::List
            | Self::Check
            | Self::Scrub
            | Self::Stats
            | Self::Compact
            | Self::Fsck { .. } => None,
        }
    }

    /// The name that a volume has only after it.
    pub(crate) fn new_name(&self) -> Option<&str> {
        match self {
            Self::Create { name, .. } => Some(name),
            Self::Copy { to, .. } | Self::Detach { to, .. } | Self::Rename { to, .. } => Some(to),
            _ => None,
        }
    }

    /// Executes the request in `pool`, whose volumes `offers` offers.
    pub(crate) fn perform(self, pool: &Pool, offers: &dyn Offers) -> Result<Answer> {
        match self {
            Self::Create { name, size, block_size, fingerprint, compression } => {
                ensure_as_made((pool.hash(), pool.own_codec()), fingerprint, compression)?;
                let block_size = block_size_of(block_size)?;
                make(pool, offers, &name, || pool.create_volume(&name, size, block_size))?;
            }
            Self::Copy { from, to, is_snapshot } => {
                make(pool, offers, &to, || pool.clone_volume(&from, &to, is_snapshot))?;
            }
            Self::Resize { name, size, may_shrink } => resize(pool, &name, size, may_shrink)?,
            Self::Delete { name, is_forced } => delete(pool, offers, &name, is_forced)?,
            Self::Rename { name, to, is_forced } => rename(pool, offers, &name, &to, is_forced)?,
            Self::RollBack { name, snapshot, is_forced } => {
                roll_back(pool, offers, &name, &snapshot, is_forced)?;
            }
            Self::List => {
                return Ok(Answer::Volumes(pool.volumes().into_iter().map(Shown::from).collect()));
            }
            Self::Info { name } => return info(pool, offers, &name),
            Self::Check => return check(pool, offers),
            Self::Scrub => return Ok(Answer::Scrubbed(scrub(pool, offers)?.into())),
            Self::Stats => {
                pool.settle()?;
                return Ok(Answer::Sums(Sums::of(pool.version(), &pool.statistics())));
            }
            Self::Compact => return compact(pool, offers),
            Self::InShard { .. } | Self::Detach { .. } | Self::Fsck { .. } => {
                bail!("the pool is no cluster: it has no shards")
            }
        }
        Ok(Answer::Done)
    }

    /// The same, with an error as an answer.
    pub(crate) fn answer(self, pool: &Pool, offers: &dyn Offers) -> Answer {
        self.perform(pool, offers).unwrap_or_else(|error| Answer::of_error(&error))
    }
}

/// Fails unless a pool or domain was made with this fingerprint and compression.
pub(crate) fn ensure_as_made(
    (hash, codec): (Hash, Codec),
    fingerprint: Option<Fingerprint>,
    compression: Option<Compression>,
) -> Result<()> {
    if fingerprint.is_some_and(|fingerprint| fingerprint.hash() != hash) {
        bail!("the pool has another fingerprint; leave out --fingerprint");
    }
    if compression.is_some_and(|compression| compression.codec() != codec) {
        bail!(
            "the pool has another compression; leave out --compression here, and give it to `onefold \
             serve`"
        );
    }
    Ok(())
}

pub(crate) fn block_size_of(bytes: u32) -> Result<BlockSize> {
    let all = [BlockSize::B512, BlockSize::B4096];
    let found = all.into_iter().find(|one| one.bytes() == bytes);
    found.with_context(|| format!("blocks of {bytes} bytes, expected 512 or 4096"))
}

fn resize(pool: &Pool, name: &str, size: u64, may_shrink: bool) -> Result<()> {
    let volume = pool.volume(name)?;
    let before = volume.size();
    if size < before && !may_shrink {
        bail!(
            "volume '{name}' has {}: {} would lose all data after the new end; use --shrink if you want \
             that",
            HumanBytes(before),
            HumanBytes(size)
        );
    }
    volume.resize(size).with_context(|| format!("volume '{name}'"))
}

fn delete(pool: &Pool, offers: &dyn Offers, name: &str, is_forced: bool) -> Result<()> {
    // report a missing volume as such
    pool.volume(name)?;
    offers.take_back(name, is_forced)?;
    let deleted = pool.delete_volume(name);
    if deleted.is_err() && pool.volume(name).is_ok() {
        offers.offer_failed(name)?;
    }
    Ok(deleted?)
}

fn rename(pool: &Pool, offers: &dyn Offers, name: &str, to: &str, is_forced: bool) -> Result<()> {
    pool.volume(name)?;
    offers.take_back(name, is_forced)?;
    let renamed = pool.rename_volume(name, to);
    // a failed change may be partly done: the volume exists under one of the names
    let offered = if pool.volume(name).is_ok() { name } else { to };
    offer_after(renamed, offers, offered)
}

fn roll_back(
    pool: &Pool,
    offers: &dyn Offers,
    name: &str,
    snapshot: &str,
    is_forced: bool,
) -> Result<()> {
    pool.volume(name)?;
    offers.take_back(name, is_forced)?;
    offer_after(pool.roll_back_volume(name, snapshot), offers, name)
}

/// Offers the volume `name` again after a change of it, which succeeded or not.
fn offer_after(changed: Result<(), VolumeError>, offers: &dyn Offers, name: &str) -> Result<()> {
    match changed {
        Ok(()) => offers.offer(name),
        Err(error) => {
            // the error of the change matters more
            let _ = offers.offer_failed(name);
            Err(error.into())
        }
    }
}

/// Makes a volume by `made`, and offers it.
fn make(
    pool: &Pool,
    offers: &dyn Offers,
    name: &str,
    made: impl FnOnce() -> Result<(), VolumeError>,
) -> Result<()> {
    let was_there = pool.volume(name).is_ok();
    let error = match made() {
        Ok(()) => return offers.offer(name),
        Err(error) => error,
    };
    // in a stopped pool it is unknown what is durable
    if was_there || pool.volume(name).is_err() || pool.stopped().is_some() {
        return Err(error.into());
    }
    if !offers.is_serving() {
        return Err(error).with_context(|| format!("volume '{name}' was not made"));
    }
    // clients that see it in the list can use and delete it
    offers.offer_failed(name)?;
    Err(error).with_context(|| {
        format!(
            "volume '{name}' exists, but is not durable yet: the next successful flush makes it durable"
        )
    })
}

fn info(pool: &Pool, offers: &dyn Offers, name: &str) -> Result<Answer> {
    let found = pool.details_while(name, || offers.goes_on())?;
    let found = found.context("the server is stopping, and stopped the count of pages")?;
    Ok(Answer::Volume(found.into()))
}

fn check(pool: &Pool, offers: &dyn Offers) -> Result<Answer> {
    let Checked { pages, changed, problems, more, is_stopped } =
        pool.check_while(|| offers.goes_on());
    ensure!(
        !is_stopped,
        "the server is stopping, and stopped the check; problems found before: {}",
        problems.len() as u64 + more
    );
    Ok(Answer::Checked(ShownCheck { pages, changed, problems, more }))
}

pub(crate) fn scrub(pool: &Pool, offers: &dyn Offers) -> Result<Scrubbed> {
    let scrubbed = pool.scrub_while(|| offers.goes_on());
    ensure!(
        !scrubbed.is_stopped,
        "the server is stopping, and stopped the scrub after {}; lost pages found before: {}",
        count(scrubbed.pages, "page", "pages"),
        scrubbed.bad.len() as u64 + scrubbed.more
    );
    Ok(scrubbed)
}

fn compact(pool: &Pool, offers: &dyn Offers) -> Result<Answer> {
    let before = pool.statistics().container_bytes;
    // what is dead already takes no work
    pool.flush()?;
    let Maintained { left, why_left, is_stopped, .. } = pool.compact_while(|| offers.goes_on())?;
    let gave_back = before.saturating_sub(pool.statistics().container_bytes);
    ensure!(
        !is_stopped,
        "the server is stopping, and stopped the compaction; it freed {} before",
        HumanBytes(gave_back)
    );
    match why_left {
        None => Ok(Answer::GaveBack(gave_back)),
        Some(error) => Err(error).with_context(|| {
            format!(
                "containers that could not be compacted: {left}; the others freed {}",
                HumanBytes(gave_back)
            )
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::sync::Arc;

    use onefold_backend::fault::{Failure, Fault, Faults, Faulty};
    use onefold_backend::{MemoryFolder, Operation};
    use onefold_block::Durability;
    use onefold_testkit::random;
    use onefold_volume::Options;

    use super::*;
    use crate::service::answer::ShownDetails;

    #[test]
    fn requests_and_answers_come_back_from_json() {
        let requests = [
            Request::Create {
                name: "größe\"".into(),
                size: 1 << 50,
                block_size: 512,
                fingerprint: Some(Fingerprint::Sha3),
                compression: None,
            },
            Request::Delete { name: "a".into(), is_forced: true },
            Request::List,
        ];
        for request in requests {
            let line = serde_json::to_string(&request).unwrap();
            assert!(!line.contains('\n'));
            assert_eq!(serde_json::from_str::<Request>(&line).unwrap(), request);
        }
        let volume = Shown {
            name: "a".into(),
            size: 4096,
            block_size: 4096,
            is_read_only: false,
            mapped_blocks: Some(1),
            gateway: None,
            shard: None,
            shard_unique_bytes: None,
        };
        let details = ShownDetails {
            volume: volume.clone(),
            mapped_bytes: 4096,
            own_pages: 1,
            own_bytes: 30,
            shared_pages: 0,
            shared_bytes: 0,
            dedup_ratio: 1.0,
            made: None,
            source: None,
            copies: vec!["b".into()],
        };
        for answer in [Answer::Done, Answer::Volumes(vec![volume]), Answer::Volume(details)] {
            let line = serde_json::to_string(&answer).unwrap();
            assert_eq!(serde_json::from_str::<Answer>(&line).unwrap(), answer);
        }
    }

    /// What is offered, and how often it was asked whether there is time left.
    #[derive(Default)]
    struct Server {
        offered: RefCell<Vec<String>>,
        failed: RefCell<Vec<String>>,
        asked: Cell<u32>,
    }

    impl Offers for Server {
        fn offer(&self, name: &str) -> Result<()> {
            self.offered.borrow_mut().push(name.to_owned());
            Ok(())
        }

        fn offer_failed(&self, name: &str) -> Result<()> {
            self.failed.borrow_mut().push(name.to_owned());
            self.offer(name)
        }

        fn take_back(&self, _: &str, _: bool) -> Result<()> {
            Ok(())
        }

        fn goes_on(&self) -> bool {
            self.asked.set(self.asked.get() + 1);
            false
        }

        fn is_serving(&self) -> bool {
            true
        }
    }

    fn pool(faults: &Faults) -> Pool {
        pool_in(faults).0
    }

    fn pool_in(faults: &Faults) -> (Pool, Arc<Faulty<MemoryFolder>>) {
        let folder = Arc::new(Faulty::new(MemoryFolder::new(), "pool", faults));
        Pool::create(&folder, Hash::Blake3).unwrap();
        (open(&folder), folder)
    }

    fn open(folder: &Arc<Faulty<MemoryFolder>>) -> Pool {
        let options = Options { container_len: 40_000, ..Options::default() };
        Pool::open(folder.clone(), options).unwrap().0
    }

    fn create(name: &str) -> Request {
        let (name, size, block_size) = (name.to_owned(), 1 << 20, 4096);
        Request::Create { name, size, block_size, fingerprint: None, compression: None }
    }

    #[test]
    fn what_a_full_disk_keeps_from_being_durable_is_offered_all_the_same() {
        let (faults, server) = (Faults::none(), Server::default());
        let pool = pool(&faults);
        create("a").perform(&pool, &server).unwrap();
        create("a").perform(&pool, &server).unwrap_err();
        faults.add(Fault::new(Failure::Full).on(Operation::Append).times(2));
        let error = create("b").perform(&pool, &server).unwrap_err();
        assert!(
            error.to_string().contains("volume 'b' exists, but is not durable yet"),
            "{error:#}"
        );
        let copy = Request::Copy { from: "a".into(), to: "c".into(), is_snapshot: true };
        copy.perform(&pool, &server).unwrap_err();
        assert_eq!(*server.offered.borrow(), ["a", "b", "c"]);
        assert_eq!(*server.failed.borrow(), ["b", "c"]);
        pool.flush().unwrap();
        faults.add(Fault::new(Failure::Full).on(Operation::Append));
        let (name, snapshot) = ("a".to_owned(), "c".to_owned());
        let back = Request::RollBack { name, snapshot, is_forced: false };
        back.perform(&pool, &server).unwrap_err();
        assert_eq!(
            (server.offered.take().len(), server.failed.take()[2..].to_vec()),
            (4, vec!["a".into()])
        );
        // what never came to be is not
        let copy = Request::Copy { from: "z".into(), to: "d".into(), is_snapshot: true };
        copy.perform(&pool, &server).unwrap_err();
        assert!(server.offered.borrow().is_empty());
    }

    #[test]
    fn what_cannot_be_kept_is_not_said_to_come_where_nobody_serves_or_the_pool_stopped() {
        let faults = Faults::none();
        let (pool, folder) = pool_in(&faults);
        create("a").perform(&pool, &NotServed).unwrap();
        faults.add(Fault::new(Failure::Full).on(Operation::Append));
        let error = create("b").perform(&pool, &NotServed).unwrap_err();
        assert_eq!(error.to_string(), "volume 'b' was not made");
        // the command is over now
        drop(pool);
        let pool = open(&folder);
        let names: Vec<_> = pool.volumes().into_iter().map(|volume| volume.name).collect();
        assert_eq!(names, ["a"]);
        let server = Server::default();
        faults.add(Fault::new(Failure::Io).on(Operation::Sync));
        let copy = Request::Copy { from: "a".into(), to: "c".into(), is_snapshot: true };
        let error = format!("{:#}", copy.perform(&pool, &server).unwrap_err());
        assert!(pool.stopped().is_some());
        assert!(!error.contains("volume 'c'") && error.contains("sync"), "{error}");
        assert!(server.offered.borrow().is_empty());
    }

    #[test]
    fn what_takes_long_stops_at_a_step_if_the_server_ends() {
        let (faults, server) = (Faults::none(), Server::default());
        let pool = pool(&faults);
        create("a").perform(&pool, &server).unwrap();
        let volume = pool.volume("a").unwrap();
        volume.write(0, &random(1, 200 << 10), Durability::OnReturn).unwrap();
        // of each container two pages of ten are left
        for block in (0..50).filter(|block| block % 10 > 1) {
            volume.erase(block * 4096..(block + 1) * 4096, Durability::OnReturn).unwrap();
        }
        for (request, word) in [
            (Request::Info { name: "a".into() }, "count"),
            (Request::Check, "check"),
            (Request::Scrub, "scrub"),
            (Request::Compact, "compaction"),
        ] {
            let asked = server.asked.get();
            let error = request.perform(&pool, &server).unwrap_err().to_string();
            assert!(error.contains("the server is stopping") && error.contains(word), "{error}");
            assert_eq!(server.asked.get(), asked + 1);
        }
        assert!(pool.statistics().reclaimable_bytes > 0, "it compacted all of them");
        let answer = Request::Compact.perform(&pool, &NotServed).unwrap();
        assert!(matches!(answer, Answer::GaveBack(bytes) if bytes > 0), "{answer:?}");
    }

    #[test]
    fn a_container_that_cannot_be_emptied_is_named_and_the_others_are() {
        let faults = Faults::none();
        let folder = Arc::new(Faulty::new(MemoryFolder::new(), "pool", &faults));
        Pool::create(&folder, Hash::Blake3).unwrap();
        let options = Options { container_len: 40_000, open_files: 1, ..Options::default() };
        let (pool, _) = Pool::open(folder, options).unwrap();
        create("a").perform(&pool, &NotServed).unwrap();
        let volume = pool.volume("a").unwrap();
        volume.write(0, &random(1, 200 << 10), Durability::OnReturn).unwrap();
        // less is left of the first than of the second
        volume.erase(4096..10 * 4096, Durability::OnReturn).unwrap();
        volume.erase(12 * 4096..20 * 4096, Durability::OnReturn).unwrap();
        let name = "container-00000001";
        faults.add(Fault::new(Failure::Io).on(Operation::Open).named(name).times(u64::MAX));
        for freed in ["KiB", "freed 0 B"] {
            let error = Request::Compact.perform(&pool, &NotServed).unwrap_err();
            let told = format!("{error:#}");
            let parts = ["could not be compacted: 1;", freed, name];
            assert!(parts.iter().all(|part| told.contains(part)), "{told}");
        }
    }

    #[test]
    fn what_nobody_knows_is_refused() {
        for line in [
            "",
            "{}",
            "[]",
            r#"{"request":"destroy"}"#,
            r#"{"request":"delete","name":"a"}"#,
            r#"{"request":"info","name":"a","and":1}"#,
            r#"{"request":"info","name":7}"#,
        ] {
            assert!(serde_json::from_str::<Request>(line).is_err(), "{line}");
        }
    }

    #[test]
    fn errors_keep_their_causes_over_the_socket() {
        let error = anyhow::anyhow!("the disk is gone").context("cannot put x").context("pool 'p'");
        let again = Answer::of_error(&error).accepted().unwrap_err();
        let texts: Vec<String> = again.chain().map(ToString::to_string).collect();
        assert_eq!(texts, ["pool 'p'", "cannot put x", "the disk is gone"]);
        assert_eq!(Answer::Done.accepted().unwrap(), Answer::Done);
    }
}
