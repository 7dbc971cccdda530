//! How much three gateways store of disk images that resemble one another, beside one pool in a folder; and
//! whether the space returns when volumes are deleted.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use anyhow::{Context, Result, bail, ensure};
use onefold_lab::nbd::{Client, Place, Uri};
use onefold_testkit::ceph::Gateways;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::cost::{self, Cost};
use super::counters::{Counted, Metrics};
use super::load::at;
use super::space::{Held, Space};
use crate::measuring::backups::{self, Work};
use crate::measuring::record::Dataset;

/// What `cargo lab campaign cluster-dedup` was asked for.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The program whose gateways are measured
    #[arg(long)]
    onefold: PathBuf,
    /// The folder of the disk images: the first three by name are written; without it, costs alone are measured
    #[arg(long)]
    images: Option<PathBuf>,
    /// How many MiB of each image are written at most, pieces of zeros not counted
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u64).range(1..))]
    most: u64,
    /// How many writes of 4 KiB are counted for each share of duplicates
    #[arg(long, default_value_t = 4096, value_parser = clap::value_parser!(u64).range(16..=16_384))]
    writes: u64,
    /// How many milliseconds gateways wait for hints, unless it is their default
    #[arg(long)]
    hints_wait: Option<u64>,
    /// What a reader of the record must know of this run, such as how the program was built
    #[arg(long)]
    note: Vec<String>,
    /// The record to write, e.g. docs/records/NAME.json
    #[arg(long)]
    out: PathBuf,
}

/// One measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "of", rename_all = "snake_case")]
pub(crate) enum Sample {
    /// What a pool in a folder stores of images.
    OnePool { images: u64, written_bytes: u64, container_bytes: u64 },
    /// What three gateways store.
    Stored(Stored),
    /// What is there after volumes were deleted and upkeep was done.
    Left {
        order: String,
        deleted: u64,
        held: Held,
        /// What a pool in a folder stores of the volumes that are left.
        one_pool_bytes: u64,
    },
    /// What a write costs.
    Cost(Cost),
}

/// What three gateways store of three images.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Stored {
    /// Whether the images were written one after the other.
    order: String,
    written_bytes: u64,
    held: Held,
    /// Bytes of containers by those of one pool with the same images.
    by_one_pool: f64,
    /// What each gateway counted, in the order of the images.
    gateways: Vec<Asked>,
}

/// What a gateway asked others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Asked {
    /// Fingerprints that were looked up, those that had a hint, and those whose gateway was late or away.
    lookups: u64,
    hits: u64,
    late: u64,
    /// Pages that it told of, and those that another one was not told.
    added: u64,
    dropped: u64,
}

impl Asked {
    fn of(metrics: &Metrics) -> Self {
        let get = |name: &str| metrics.get(name) as u64;
        Self {
            lookups: get("onefold_hint_lookups_total"),
            hits: get("onefold_hint_hits_total"),
            late: get("onefold_hint_late_total"),
            added: get("onefold_hint_added_total"),
            dropped: get("onefold_hint_dropped_total"),
        }
    }
}

const IN_TURN: &str = "in turn";
const AT_ONCE: &str = "at once";

/// How much is read and written at once, in bytes.
const PIECE: usize = 1 << 20;
/// How many connections write an image.
const CLIENTS: usize = 4;

const CACHE_STATE: &str = "the images are in memory; gateways begin with nothing";

const NOTES: [&str; 5] = [
    "each image is written by four connections, 1 MiB at a time; pieces of zeros are left out",
    "in turn: an image at each of three gateways, one after the other; at once: all three begin together",
    "stored are bytes of containers, footers included, copies of Ceph not counted; one pool is a pool in a folder \
     with all images, written one after the other, or with those that are left",
    "after volumes were deleted this process does the upkeep of the shards that are left, while no gateway runs",
    "Ceph is a monitor, a manager and three OSDs on the loopback interface, on one disk, in a pool with three \
     copies",
];

/// Measures, prints and writes the record.
pub(crate) fn measure(options: &Options) -> Result<()> {
    let (onefold, work) = backups::program_and_work(&options.onefold, None)?;
    let mut samples = Vec::new();
    let mut gateways = Gateways::new(super::begin_ceph()?, &onefold);
    let dataset = match &options.images {
        Some(images) => {
            share_images(images, options, &onefold, &work, &mut gateways, &mut samples)?
        }
        None => Dataset {
            name: "pages of random bytes, half of each zeros".into(),
            digest: "none: drawn from the number of each page".into(),
            files: 0,
            bytes: 0,
        },
    };
    gateways.use_namespace("cost");
    samples.extend(cost::measure(&mut gateways, options.writes)?.into_iter().map(Sample::Cost));
    drop(gateways);
    work.end()?;
    print!("{}", table(&samples));
    let tools = super::versions(&[&onefold, Path::new("ceph")]);
    let notes = super::notes(&options.note, &NOTES);
    let notes: Vec<&str> = notes.into_iter().chain(cost::NOTES).collect();
    backups::write_record(&options.out, dataset, CACHE_STATE, tools, samples, &notes)
}

/// Measures what gateways store of the images in `folder`.
fn share_images(
    folder: &Path,
    options: &Options,
    onefold: &Path,
    work: &Work,
    gateways: &mut Gateways,
    samples: &mut Vec<Sample>,
) -> Result<Dataset> {
    let (folder, dataset) = backups::read_dataset(folder)?;
    let images = images(&folder, options.most)?;
    let all = one_pool(onefold, &work.fresh("all")?, &images)?;
    let last = one_pool(onefold, &work.fresh("last")?, &images[2..])?;
    samples.extend([all.clone(), last.clone()]);
    let reference = (bytes(&all), bytes(&last));
    for order in [IN_TURN, AT_ONCE] {
        if order == AT_ONCE {
            gateways.use_namespace("at-once");
        }
        samples.extend(share(gateways, &images, order, reference, options.hints_wait)?);
    }
    Ok(dataset)
}

/// An image, and which of its pieces are written.
struct Image {
    file: File,
    size: u64,
    pieces: Vec<u64>,
}

impl Image {
    fn open(path: &Path, most: u64) -> Result<Self> {
        let place = || path.display().to_string();
        let file = File::open(path).with_context(place)?;
        let size = file.metadata().with_context(place)?.len() / PIECE as u64 * PIECE as u64;
        let mut image = Self { file, size, pieces: Vec::new() };
        for piece in 0..size / PIECE as u64 {
            if image.pieces.len() as u64 == most {
                break;
            }
            if image.read(piece).with_context(place)?.iter().any(|byte| *byte != 0) {
                image.pieces.push(piece);
            }
        }
        ensure!(!image.pieces.is_empty(), "{}: nothing but zeros", place());
        Ok(image)
    }

    fn read(&self, piece: u64) -> Result<Vec<u8>> {
        let mut bytes = vec![0; PIECE];
        self.file.read_exact_at(&mut bytes, piece * PIECE as u64)?;
        Ok(bytes)
    }

    fn written(&self) -> u64 {
        (self.pieces.len() * PIECE) as u64
    }

    /// Calls `each` for each piece, with a connection of several.
    fn for_each(
        &self,
        uri: &Uri,
        each: impl Fn(&mut Client, u64, &[u8]) -> Result<()> + Sync,
    ) -> Result<()> {
        let one = |first: usize| -> Result<()> {
            let mut client = Client::connect(uri)?;
            for piece in self.pieces.iter().skip(first).step_by(CLIENTS) {
                each(&mut client, piece * PIECE as u64, &self.read(*piece)?)?;
            }
            client.flush()
        };
        thread::scope(|scope| {
            let clients: Vec<_> =
                (0..CLIENTS).map(|first| scope.spawn(move || one(first))).collect();
            clients.into_iter().try_for_each(|one| one.join().expect("a client does not panic"))
        })
    }

    fn write(&self, uri: &Uri) -> Result<()> {
        self.for_each(uri, |client, offset, bytes| client.write(offset, bytes))
    }

    /// Fails if `uri` has anything else where this was written.
    fn compare(&self, uri: &Uri) -> Result<()> {
        self.for_each(uri, |client, offset, bytes| {
            let mut found = vec![0; bytes.len()];
            client.read(offset, &mut found)?;
            ensure!(found == bytes, "the volume has something else than was written at {offset}");
            Ok(())
        })
    }
}

/// The images that are written.
fn images(folder: &Path, most: u64) -> Result<Vec<Image>> {
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let mut paths = entries.map(|one| Ok(one?.path())).collect::<Result<Vec<_>>>()?;
    paths.retain(|path| path.is_file());
    paths.sort();
    let found = paths.len();
    ensure!(found >= 3, "{}: {found} files, expected three images", folder.display());
    paths[..3].iter().map(|path| Image::open(path, most)).collect()
}

fn written(images: &[Image]) -> u64 {
    images.iter().map(Image::written).sum()
}

fn volume(number: usize) -> String {
    format!("disk{number}")
}

fn bytes(pool: &Sample) -> u64 {
    match pool {
        Sample::OnePool { container_bytes, .. } => *container_bytes,
        _ => 0,
    }
}

/// Writes images to a pool in a folder.
fn one_pool(onefold: &Path, folder: &Path, images: &[Image]) -> Result<Sample> {
    let pool = folder.join("pool");
    let run = |arguments: &[&str]| {
        xtask::programs::succeed(Command::new(onefold).args(arguments).arg("--pool").arg(&pool))
    };
    for (number, image) in images.iter().enumerate() {
        run(&["volume", "create", &volume(number), "--size", &image.size.to_string()])?;
    }
    let socket = folder.join("socket");
    let mut command = Command::new(onefold);
    command.arg("serve").arg("--pool").arg(&pool).arg("--unix").arg(&socket);
    let mut server = command.spawn().with_context(|| format!("{command:?}"))?;
    let written_all = (|| {
        while std::os::unix::net::UnixStream::connect(&socket).is_err() {
            if let Some(status) = server.try_wait()? {
                bail!("the server of the pool ended: {status}");
            }
            thread::sleep(std::time::Duration::from_millis(10));
        }
        images.iter().enumerate().try_for_each(|(number, image)| {
            image.write(&Uri { place: Place::Unix(socket.clone()), export: volume(number) })
        })
    })();
    rustix::process::kill_process(
        rustix::process::Pid::from_child(&server),
        rustix::process::Signal::TERM,
    )?;
    let status = server.wait()?;
    written_all?;
    ensure!(status.success(), "the server of the pool ended with {status}");
    let stats = Command::new(onefold)
        .args(["--json", "volume", "stats", "--pool"])
        .arg(&pool)
        .output()
        .context("onefold volume stats")?;
    ensure!(stats.status.success(), "onefold volume stats ended with {}", stats.status);
    let stats: Value = serde_json::from_slice(&stats.stdout).context("onefold volume stats")?;
    let container_bytes = stats["container_bytes"].as_u64();
    let sample = Sample::OnePool {
        images: images.len() as u64,
        written_bytes: written(images),
        container_bytes: container_bytes.context("onefold volume stats names no containers")?,
    };
    println!("campaign: {sample:?}");
    Ok(sample)
}

/// Writes an image at each of three gateways, and deletes the volumes; `one_pool` has what pools in folders store,
/// with all images and with the last one.
fn share(
    gateways: &mut Gateways,
    images: &[Image],
    order: &str,
    one_pool: (u64, u64),
    hints_wait: Option<u64>,
) -> Result<Vec<Sample>> {
    for (number, image) in images.iter().enumerate() {
        let size = image.size.to_string();
        gateways.onefold(0, &["volume", "create", &volume(number), "--size", &size]);
    }
    let counted = Counted::start(gateways, images.len(), hints_wait)?;
    let uris: Vec<Uri> =
        (0..images.len()).map(|number| at(&gateways.socket(number), &volume(number))).collect();
    // the first gateway that is asked has the volume
    for uri in &uris {
        Client::connect(uri)?.flush()?;
    }
    let both = || uris.iter().zip(images);
    if order == IN_TURN {
        both().try_for_each(|(uri, image)| {
            image.write(uri)?;
            counted.wait_for_hints()
        })?;
    } else {
        thread::scope(|scope| {
            let all: Vec<_> =
                both().map(|(uri, image)| scope.spawn(move || image.write(uri))).collect();
            all.into_iter().try_for_each(|one| one.join().expect("a writer does not panic"))
        })?;
        counted.wait_for_hints()?;
    }
    let asked = counted.all()?.iter().map(Asked::of).collect();
    end(gateways, images.len())?;
    let space = Space::of(gateways)?;
    let held = space.held()?;
    let stored = Sample::Stored(Stored {
        order: order.into(),
        written_bytes: written(images),
        held,
        by_one_pool: held.container_bytes as f64 / one_pool.0 as f64,
        gateways: asked,
    });
    println!("campaign: {stored:?}");
    let mut samples = vec![stored];
    let delete = |number| gateways.onefold(0, &["volume", "delete", &volume(number)]);
    let mut left = |deleted, one_pool_bytes| -> Result<()> {
        space.keep_up()?;
        let held = space.held()?;
        let left = Sample::Left { order: order.into(), deleted, held, one_pool_bytes };
        println!("campaign: {left:?}, objects: {:?}", space.kinds()?);
        samples.push(left);
        Ok(())
    };
    delete(0);
    delete(1);
    left(2, one_pool.1)?;
    gateways.start(0, &[]);
    if let Err(ended) = gateways.wait_until_it_listens(0) {
        bail!("the gateway ended, {}: {}", ended.status, ended.said);
    }
    images[2].compare(&at(&gateways.socket(0), &volume(2)))?;
    end(gateways, 1)?;
    gateways.onefold(0, &["volume", "delete", &volume(2)]);
    left(3, 0)?;
    Ok(samples)
}

/// Ends gateways, which give their shards back.
pub(super) fn end(gateways: &mut Gateways, count: usize) -> Result<()> {
    for number in 0..count {
        let status = gateways.end(number).context("the gateway does not run any more")?;
        ensure!(status.success(), "gateway {number} ended, {status}: {}", gateways.said(number));
    }
    Ok(())
}

fn table(samples: &[Sample]) -> String {
    let mib = |bytes: u64| bytes as f64 / 1048576.0;
    let mut text = "| written | MiB written | MiB stored | by one pool | look-ups | hints | late | not told |\n\
                    | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n"
        .to_owned();
    for sample in samples {
        match sample {
            Sample::OnePool { images, written_bytes, container_bytes } => {
                let (written, stored) = (mib(*written_bytes), mib(*container_bytes));
                text +=
                    &format!("| {images} in one pool | {written:.0} | {stored:.1} | 1 | | | | |\n");
            }
            Sample::Stored(one) => {
                let Stored { order, by_one_pool, .. } = one;
                let each = |field: fn(&Asked) -> u64| {
                    one.gateways
                        .iter()
                        .map(|one| field(one).to_string())
                        .collect::<Vec<_>>()
                        .join(", ")
                };
                let (lookups, hits) = (each(|one| one.lookups), each(|one| one.hits));
                let (late, dropped) = (each(|one| one.late), each(|one| one.dropped));
                text += &format!(
                    "| {order} | {:.0} | {:.1} | {by_one_pool:.4} | {lookups} | {hits} | {late} | {dropped} |\n",
                    mib(one.written_bytes),
                    mib(one.held.container_bytes)
                );
            }
            _ => {}
        }
    }
    text += "\n| written | deleted | containers | guards | MiB | one pool, MiB |\n\
             | --- | ---: | ---: | ---: | ---: | ---: |\n";
    for sample in samples {
        if let Sample::Left { order, deleted, held, one_pool_bytes } = sample {
            text += &format!(
                "| {order} | {deleted} | {} | {} | {:.1} | {:.1} |\n",
                held.containers,
                held.guards,
                mib(held.container_bytes),
                mib(*one_pool_bytes)
            );
        }
    }
    let costs = samples.iter().filter_map(|sample| match sample {
        Sample::Cost(cost) => Some(cost),
        _ => None,
    });
    text + "\n" + &cost::table(costs)
}
