//! What can be asked of a pool, and the answers: done here by a command that has the pool, or by
//! whoever serves it.

use anyhow::{Context, Result, anyhow, bail};
use indicatif::HumanBytes;
use onefold_block::{BlockDevice, BlockSize};
use onefold_volume::{BadPage, Codec, Hash, Pool, Scrubbed, Statistics, VolumeDetails, VolumeInfo};
use serde::{Deserialize, Serialize};

/// What can be asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Request {
    Create {
        name: String,
        size: u64,
        block_size: u32,
        /// What must name the pool's pages, and compress them.
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
    List,
    Info {
        name: String,
    },
    Check,
    Scrub,
    Stats,
    Compact,
}

/// What names pages.
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

/// How new pages are compressed.
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

/// What came of it.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", content = "value", rename_all = "snake_case")]
pub(crate) enum Answer {
    Done,
    Volumes(Vec<Shown>),
    Volume(ShownDetails),
    Problems(Vec<String>),
    Scrubbed(ShownScrub),
    Sums(Sums),
    GaveBack(u64),
    /// Why not: an error, then its causes.
    Refused(Vec<String>),
}

impl Answer {
    pub(crate) fn refused(why: &str) -> Self {
        Self::Refused(vec![why.to_owned()])
    }

    fn of_error(error: &anyhow::Error) -> Self {
        Self::Refused(error.chain().map(ToString::to_string).collect())
    }

    /// The answer, or the error that it is.
    pub(crate) fn accepted(self) -> Result<Self> {
        let Self::Refused(texts) = self else { return Ok(self) };
        let mut texts = texts.into_iter().rev();
        let innermost = texts.next().unwrap_or_else(|| "it was refused without a reason".into());
        Err(texts.fold(anyhow!(innermost), |error, text| error.context(text)))
    }
}

/// A volume in JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Shown {
    pub(crate) name: String,
    pub(crate) size: u64,
    pub(crate) block_size: u32,
    pub(crate) is_read_only: bool,
    pub(crate) mapped_blocks: u64,
}

impl Shown {
    pub(crate) fn mapped_bytes(&self) -> u64 {
        self.mapped_blocks * u64::from(self.block_size)
    }
}

impl From<VolumeInfo> for Shown {
    fn from(one: VolumeInfo) -> Self {
        Self {
            name: one.name,
            size: one.size,
            block_size: one.block_size,
            is_read_only: one.is_read_only,
            mapped_blocks: one.mapped_blocks,
        }
    }
}

/// A volume with what it has alone, in JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ShownDetails {
    #[serde(flatten)]
    pub(crate) volume: Shown,
    pub(crate) mapped_bytes: u64,
    pub(crate) own_pages: u64,
    pub(crate) own_bytes: u64,
    pub(crate) shared_pages: u64,
    pub(crate) shared_bytes: u64,
    pub(crate) dedup_ratio: f64,
    /// Seconds since 1970, if the clock told when it was made.
    pub(crate) made: Option<u64>,
    pub(crate) source: Option<String>,
    pub(crate) copies: Vec<String>,
}

impl From<VolumeDetails> for ShownDetails {
    fn from(one: VolumeDetails) -> Self {
        let made = (one.info.made > 0).then_some(one.info.made);
        let volume = Shown::from(one.info);
        Self {
            mapped_bytes: volume.mapped_bytes(),
            dedup_ratio: ratio(volume.mapped_blocks, one.own_pages + one.shared_pages),
            volume,
            own_pages: one.own_pages,
            own_bytes: one.own_bytes,
            shared_pages: one.shared_pages,
            shared_bytes: one.shared_bytes,
            made,
            source: one.source,
            copies: one.copies,
        }
    }
}

/// What a scrub found, in JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ShownScrub {
    pub(crate) pages: u64,
    pub(crate) bad: Vec<ShownPage>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ShownPage {
    pub(crate) container: String,
    pub(crate) slot: u32,
    pub(crate) problem: String,
    pub(crate) blocks: Vec<ShownBlock>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ShownBlock {
    pub(crate) volume: String,
    pub(crate) block: u64,
}

impl From<Scrubbed> for ShownScrub {
    fn from(Scrubbed { pages, bad, .. }: Scrubbed) -> Self {
        let block = |(volume, block)| ShownBlock { volume, block };
        let page = |one: BadPage| ShownPage {
            container: one.container,
            slot: one.slot,
            problem: one.problem,
            blocks: one.blocks.into_iter().map(block).collect(),
        };
        Self { pages, bad: bad.into_iter().map(page).collect() }
    }
}

/// Sums over a pool, in JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Sums {
    pub(crate) mapped_bytes: u64,
    pub(crate) pages: u64,
    pub(crate) page_bytes: u64,
    pub(crate) container_bytes: u64,
    pub(crate) reclaimable_bytes: u64,
    pub(crate) dedup_ratio: f64,
    pub(crate) total_reduction: f64,
}

impl From<Statistics> for Sums {
    fn from(one: Statistics) -> Self {
        Self {
            mapped_bytes: one.mapped_bytes,
            pages: one.pages,
            page_bytes: one.page_bytes,
            container_bytes: one.container_bytes,
            reclaimable_bytes: one.reclaimable_bytes,
            dedup_ratio: ratio(one.mapped_blocks, one.pages),
            total_reduction: ratio(one.mapped_bytes, one.container_bytes),
        }
    }
}

fn ratio(of: u64, by: u64) -> f64 {
    if by == 0 { 1.0 } else { of as f64 / by as f64 }
}

/// Who offers the volumes of a pool to clients.
pub(crate) trait Offers {
    /// Offers a volume that is there now.
    fn offer(&self, name: &str) -> Result<()>;

    /// Takes one back; if clients use it, only if `is_forced`.
    fn take_back(&self, name: &str, is_forced: bool) -> Result<()>;
}

/// Nobody does.
pub(crate) struct NotServed;

impl Offers for NotServed {
    fn offer(&self, _: &str) -> Result<()> {
        Ok(())
    }

    fn take_back(&self, _: &str, _: bool) -> Result<()> {
        Ok(())
    }
}

impl Request {
    /// Whether it changes which volumes there are, or how long they are.
    pub(crate) fn is_change(&self) -> bool {
        matches!(
            self,
            Self::Create { .. } | Self::Copy { .. } | Self::Resize { .. } | Self::Delete { .. }
        )
    }

    /// Does it in `pool`, whose volumes `offers` offers.
    pub(crate) fn perform(self, pool: &Pool, offers: &dyn Offers) -> Result<Answer> {
        match self {
            Self::Create { name, size, block_size, fingerprint, compression } => {
                expect_as_made(pool, fingerprint, compression)?;
                pool.create_volume(&name, size, block_size_of(block_size)?)?;
                offers.offer(&name)?;
            }
            Self::Copy { from, to, is_snapshot } => {
                pool.clone_volume(&from, &to, is_snapshot)?;
                offers.offer(&to)?;
            }
            Self::Resize { name, size, may_shrink } => resize(pool, &name, size, may_shrink)?,
            Self::Delete { name, is_forced } => delete(pool, offers, &name, is_forced)?,
            Self::List => {
                return Ok(Answer::Volumes(pool.volumes().into_iter().map(Shown::from).collect()));
            }
            Self::Info { name } => return Ok(Answer::Volume(pool.details(&name)?.into())),
            Self::Check => return Ok(Answer::Problems(pool.check())),
            Self::Scrub => return Ok(Answer::Scrubbed(pool.scrub()?.into())),
            Self::Stats => return Ok(Answer::Sums(pool.statistics().into())),
            Self::Compact => return compact(pool),
        }
        Ok(Answer::Done)
    }

    /// The same, with an error as an answer.
    pub(crate) fn answer(self, pool: &Pool, offers: &dyn Offers) -> Answer {
        self.perform(pool, offers).unwrap_or_else(|error| Answer::of_error(&error))
    }
}

fn expect_as_made(
    pool: &Pool,
    fingerprint: Option<Fingerprint>,
    compression: Option<Compression>,
) -> Result<()> {
    if fingerprint.is_some_and(|fingerprint| fingerprint.hash() != pool.hash()) {
        bail!("the pool names its pages otherwise; leave out --fingerprint");
    }
    if compression.is_some_and(|compression| compression.codec() != pool.own_codec()) {
        bail!(
            "the pool compresses its pages otherwise; leave out --compression here, and give it to \
             `onefold serve`"
        );
    }
    Ok(())
}

fn block_size_of(bytes: u32) -> Result<BlockSize> {
    let all = [BlockSize::B512, BlockSize::B4096];
    let found = all.into_iter().find(|one| one.bytes() == bytes);
    found.with_context(|| format!("blocks of {bytes} bytes, expected 512 or 4096"))
}

fn resize(pool: &Pool, name: &str, size: u64, may_shrink: bool) -> Result<()> {
    let volume = pool.volume(name)?;
    let before = volume.size();
    if size < before && !may_shrink {
        bail!(
            "volume '{name}' has {}: {} would lose what lies behind them; say --shrink if that is \
             meant",
            HumanBytes(before),
            HumanBytes(size)
        );
    }
    volume.resize(size).with_context(|| format!("volume '{name}'"))
}

fn delete(pool: &Pool, offers: &dyn Offers, name: &str, is_forced: bool) -> Result<()> {
    // one that is not there is told as such
    pool.volume(name)?;
    offers.take_back(name, is_forced)?;
    let deleted = pool.delete_volume(name);
    if deleted.is_err() && pool.volume(name).is_ok() {
        offers.offer(name)?;
    }
    Ok(deleted?)
}

fn compact(pool: &Pool) -> Result<Answer> {
    let before = pool.statistics().container_bytes;
    // what is dead already takes no work
    pool.flush()?;
    while pool.compact()? {}
    let after = pool.statistics().container_bytes;
    Ok(Answer::GaveBack(before.saturating_sub(after)))
}

#[cfg(test)]
mod tests {
    use super::*;

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
            mapped_blocks: 1,
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
        let error = anyhow!("the disk is gone").context("cannot put x").context("pool 'p'");
        let again = Answer::of_error(&error).accepted().unwrap_err();
        let texts: Vec<String> = again.chain().map(ToString::to_string).collect();
        assert_eq!(texts, ["pool 'p'", "cannot put x", "the disk is gone"]);
        assert_eq!(Answer::Done.accepted().unwrap(), Answer::Done);
    }
}
