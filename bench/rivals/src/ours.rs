//! Onefold's chunkers: every algorithm on every kernel that runs here, and the presets.

use std::num::NonZero;
use std::thread;

use anyhow::Result;
use onefold_bench::{Contender, read_all, read_kernel};
use onefold_cdc::{Algorithm, ChunkSizes, Chunker, Kernel, Params, Preset, cut_points_parallel};

use crate::entry::{Entry, hash_sizes, min_cdc_sizes, restic_sizes, seq_cdc_sizes, shown};
use crate::restic;

/// The name of the read limit, which is no chunker.
pub(crate) const LIMIT: &str = "read limit";

/// Ends the names of those whose work two threads share.
const TWO_THREADS: &str = ", 2 threads";

/// Whether threads that we do not time do the work of the contender of that name: then its wall time
/// counts.
pub(crate) fn is_by_wall(name: &str) -> bool {
    name.ends_with(TWO_THREADS) || name == restic::NAME
}

/// Algorithms that are measured with two threads: where one is far from the memory's speed.
const SHARED: [Algorithm; 3] = [Algorithm::Rabin, Algorithm::FastCdc, Algorithm::Gear];

/// Presets whose tool is a rival here, and is given the same sizes; the rest have their tool's own.
const HAVE_RIVALS: [Preset; 4] =
    [Preset::FastCdc2016, Preset::FastCdc2020, Preset::Xet, Preset::Restic];

/// Everything of ours over `data`.
pub(crate) fn entries(data: &[u8]) -> Result<Vec<Entry<'_>>> {
    let mut entries = vec![limit(data)];
    for &algorithm in Algorithm::ALL.iter().filter(|algorithm| algorithm.is_content_defined()) {
        let params = Params::new(algorithm, sizes(algorithm));
        for &kernel in Kernel::usable(algorithm) {
            entries.push(cutting(Chunker::with_kernel(&params, kernel)?, algorithm.name(), data));
        }
        if SHARED.contains(&algorithm) {
            let chunker = Chunker::with_kernel(&params, Kernel::Scalar)?;
            entries.push(halves(chunker.clone(), algorithm, data));
            entries.push(shared(chunker, algorithm, data));
        }
    }
    for &preset in Preset::ALL {
        let own = preset.params();
        let sizes = if HAVE_RIVALS.contains(&preset) { hash_sizes() } else { own.sizes };
        let params = Params { sizes, ..own };
        entries.extend(by_preset(preset, &params, &format!("preset {preset}"), data)?);
    }
    let restic = Params { sizes: restic_sizes(), ..Preset::Restic.params() };
    entries.extend(by_preset(Preset::Restic, &restic, "preset restic, 1 MiB", data)?);
    Ok(entries)
}

/// A preset on every kernel that runs it.
fn by_preset<'a>(
    preset: Preset,
    params: &Params,
    name: &str,
    data: &'a [u8],
) -> Result<Vec<Entry<'a>>> {
    let on = |&kernel: &Kernel| Ok(cutting(Chunker::with_kernel(params, kernel)?, name, data));
    preset.kernels().iter().map(on).collect()
}

fn sizes(algorithm: Algorithm) -> ChunkSizes {
    match algorithm {
        Algorithm::MinCdc => min_cdc_sizes(),
        Algorithm::SeqInc | Algorithm::SeqDec => seq_cdc_sizes(),
        _ => hash_sizes(),
    }
}

fn limit(data: &[u8]) -> Entry<'_> {
    let read = move |found: &mut Vec<usize>| {
        std::hint::black_box(read_all(data));
        found.push(data.len());
    };
    Entry {
        contender: Contender::new(LIMIT, read),
        by: "onefold",
        kernel: read_kernel().into(),
        parameters: String::new(),
    }
}

/// One thread; other kernels than the scalar one claim to cut as it does.
fn cutting<'a>(chunker: Chunker, name: &str, data: &'a [u8]) -> Entry<'a> {
    let params = *chunker.params();
    let kernel = chunker.kernel();
    let cut = move |found: &mut Vec<usize>| found.extend(chunker.cut_points(data));
    let scalar = format!("{name}, {}", Kernel::Scalar);
    let contender = Contender::new(format!("{name}, {kernel}"), cut);
    Entry {
        contender: if kernel == Kernel::Scalar { contender } else { contender.equal_to(scalar) },
        by: "onefold",
        kernel: kernel.to_string(),
        parameters: parameters(&params),
    }
}

fn shared(chunker: Chunker, algorithm: Algorithm, data: &[u8]) -> Entry<'_> {
    let params = *chunker.params();
    let kernel = chunker.kernel();
    let threads = NonZero::new(2).expect("two is not zero");
    let cut = move |found: &mut Vec<usize>| {
        found.extend(cut_points_parallel(&chunker, data, threads));
    };
    let name = format!("{algorithm}, {kernel}{TWO_THREADS}");
    Entry {
        contender: Contender::new(name, cut).equal_to(format!("{algorithm}, {kernel}")),
        by: "onefold",
        kernel: kernel.to_string(),
        parameters: parameters(&params),
    }
}

/// Two threads that have nothing to do with one another: what the machine gives to a second one.
fn halves(chunker: Chunker, algorithm: Algorithm, data: &[u8]) -> Entry<'_> {
    let params = *chunker.params();
    let kernel = chunker.kernel();
    let cut = move |found: &mut Vec<usize>| {
        let (first, second) = data.split_at(data.len() / 2);
        let cut_alone = |half| chunker.cut_points(half).collect::<Vec<_>>();
        thread::scope(|scope| {
            let second = scope.spawn(|| cut_alone(second));
            found.extend(cut_alone(first));
            let second = second.join().expect("cutting does not panic");
            found.extend(second.into_iter().map(|cut| first.len() + cut));
        });
    };
    Entry {
        contender: Contender::new(format!("{algorithm}, {kernel}, halves{TWO_THREADS}"), cut),
        by: "onefold",
        kernel: kernel.to_string(),
        parameters: parameters(&params),
    }
}

fn parameters(params: &Params) -> String {
    let sizes = shown(params.sizes);
    match params.algorithm {
        Algorithm::FastCdc => format!("{sizes}, level {}", params.level),
        Algorithm::Rabin | Algorithm::Tttd | Algorithm::Crc | Algorithm::Buzhash => {
            format!("{sizes}, window {}", params.window)
        }
        _ => sizes,
    }
}
