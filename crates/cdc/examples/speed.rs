//! How fast the kernels cut, next to what memory can deliver and to other crates.
//!
//!     cargo run --release -p onefold-cdc --example speed -- [FILE] [--only NAME]…
//!
//! Every contender cuts the same data in turn, seven rounds over, in one thread, whose time on the
//! CPU is what counts; the median is shown. Before the clock
//! starts, every kernel's cut-points are compared with those of the scalar rule, and MinCDC's
//! with the crate's. Without a file the data are 256 MiB of random bytes, then of text-like ones.

use std::env;
use std::fs;
use std::hint::black_box;
use std::time::Duration;

use onefold_cdc::{Algorithm, ChunkSizes, Chunker, Kernel, Params};
use onefold_testkit::{random, text};

const LEN: usize = 256 << 20;
const ROUNDS: usize = 7;

/// Cuts data and tells into how many chunks.
type Cutter = Box<dyn Fn(&[u8]) -> usize>;

struct Contender {
    name: String,
    run: Cutter,
    seconds: Vec<f64>,
    chunks: usize,
}

fn main() {
    let mut only = Vec::new();
    let mut inputs = Vec::new();
    let mut args = env::args().skip(1);
    while let Some(arg) = args.next() {
        if arg == "--only" {
            only.push(args.next().expect("--only takes a name"));
        } else {
            let data = fs::read(&arg).unwrap_or_else(|error| panic!("cannot read {arg}: {error}"));
            inputs.push((arg, data));
        }
    }
    if inputs.is_empty() {
        inputs = vec![("random".into(), random(1, LEN)), ("text".into(), text(1, LEN))];
    }
    for (name, data) in inputs {
        println!("{name}, {} bytes", data.len());
        measure(&data, &only);
    }
}

fn measure(data: &[u8], only: &[String]) {
    let mut contenders = vec![
        contender("read limit", read_all),
        contender("crate mincdc 0.1.0, 4K to 12K", mincdc_crate),
        contender("crate fastcdc 5.0.0 v2020, 2K/8K/64K", fastcdc_crate),
    ];
    for &algorithm in Algorithm::ALL.iter().filter(|&&algorithm| algorithm != Algorithm::Fixed) {
        if only.is_empty() || only.iter().any(|name| name == algorithm.name()) {
            let params = common_params(algorithm);
            for &kernel in Kernel::usable(algorithm) {
                let chunker = Chunker::with_kernel(&params, kernel).expect("a usable kernel");
                assert_as_scalar(&chunker, data);
                contenders.push(contender(&format!("{algorithm}, {kernel}"), move |data| {
                    count(chunker.cut_points(data))
                }));
            }
        }
    }
    assert_as_crate(data);

    for _ in 0..ROUNDS {
        for contender in &mut contenders {
            let start = now();
            contender.chunks = black_box((contender.run)(black_box(data)));
            contender.seconds.push((now() - start).as_secs_f64());
        }
    }
    report(&contenders, data.len());
}

/// Time that this thread has run, since others may want the CPU as well.
#[cfg(unix)]
fn now() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the clock exists, by the assertion, and the time is ours to write.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    assert_eq!(failed, 0, "no clock for threads");
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Time since the first call.
#[cfg(not(unix))]
fn now() -> Duration {
    static START: std::sync::LazyLock<std::time::Instant> =
        std::sync::LazyLock::new(std::time::Instant::now);
    START.elapsed()
}

fn contender(name: &str, run: impl Fn(&[u8]) -> usize + 'static) -> Contender {
    Contender { name: name.into(), run: Box::new(run), seconds: Vec::new(), chunks: 0 }
}

/// Bounds that the other crates are known by, at means of about 8 KiB.
fn common_params(algorithm: Algorithm) -> Params {
    let sizes = match algorithm {
        Algorithm::MinCdc => ChunkSizes::new(4096, 8192, 12288),
        Algorithm::FastCdc => ChunkSizes::new(2048, 8192, 65536),
        _ => return Params::for_mean(algorithm, 8192).expect("sizes in order"),
    };
    Params::new(algorithm, sizes.expect("sizes in order"))
}

fn assert_as_scalar(chunker: &Chunker, data: &[u8]) {
    let scalar = Chunker::with_kernel(chunker.params(), Kernel::Scalar).expect("always usable");
    // all of it would take minutes for the slow ones
    let data = &data[..data.len().min(64 << 20)];
    assert!(chunker.cut_points(data).eq(scalar.cut_points(data)), "{chunker:?}");
}

fn assert_as_crate(data: &[u8]) {
    let chunker = Chunker::new(&common_params(Algorithm::MinCdc)).expect("known to be good");
    let theirs = mincdc::SliceChunker::new(data, 4096, 12288, mincdc::MinCdcHash4::new());
    assert!(theirs.map(|chunk| chunk.offset() + chunk.len()).eq(chunker.cut_points(data)));
}

fn mincdc_crate(data: &[u8]) -> usize {
    let chunks = mincdc::SliceChunker::new(data, 4096, 12288, mincdc::MinCdcHash4::new());
    count(chunks.map(|chunk| chunk.offset()))
}

fn fastcdc_crate(data: &[u8]) -> usize {
    let chunks = fastcdc::v2020::FastCDC::new(data, 2048, 8192, 65536);
    count(chunks.map(|chunk| chunk.offset))
}

/// How many `places` there are, each of which is worked out.
fn count(places: impl Iterator<Item = usize>) -> usize {
    places.fold(0, |count, place| {
        black_box(place);
        count + 1
    })
}

/// Reads everything as fast as vectors can, and pretends to find one chunk.
fn read_all(data: &[u8]) -> usize {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512f") {
        // SAFETY: AVX-512 F is here, by the line before.
        black_box(unsafe { sum_avx512(data) });
        return 1;
    }
    black_box(data.chunks_exact(8).fold(0_u64, |sum, eight| {
        sum.wrapping_add(u64::from_le_bytes(eight.try_into().expect("eight bytes")))
    }));
    1
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn sum_avx512(data: &[u8]) -> i64 {
    use std::arch::x86_64::*;
    let mut sums = [_mm512_setzero_si512(); 4];
    for block in data.chunks_exact(256) {
        for (i, sum) in sums.iter_mut().enumerate() {
            // SAFETY: a block has four vectors.
            let vector = unsafe { _mm512_loadu_si512(block.as_ptr().add(64 * i).cast()) };
            *sum = _mm512_add_epi64(*sum, vector);
        }
    }
    let [a, b, c, d] = sums;
    _mm512_reduce_add_epi64(_mm512_add_epi64(_mm512_add_epi64(a, b), _mm512_add_epi64(c, d)))
}

fn report(contenders: &[Contender], len: usize) {
    let median = |contender: &Contender| {
        let mut seconds = contender.seconds.clone();
        seconds.sort_by(f64::total_cmp);
        seconds[seconds.len() / 2]
    };
    let [limit, mincdc, fastcdc] = [0, 1, 2].map(|i| median(&contenders[i]));
    println!(
        "{:<38} {:>7} {:>8} {:>7} {:>8} {:>9}",
        "", "GB/s", "mean", "/limit", "/mincdc", "/fastcdc"
    );
    for contender in contenders {
        let seconds = median(contender);
        println!(
            "{:<38} {:>7.2} {:>8} {:>7.2} {:>8.2} {:>9.2}",
            contender.name,
            len as f64 / seconds / 1e9,
            len / contender.chunks,
            limit / seconds,
            mincdc / seconds,
            fastcdc / seconds
        );
    }
}
