//! A reader through a device: chunks as the CPU's, whatever the lanes, the delays and the failures.

use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use onefold_cdc::{Algorithm, ChunkSizes, Chunker, Params};
use onefold_fingerprint::Fingerprinter;
use onefold_gpu::{
    Chunk, Device, Fault, GpuError, Kernel, OnLoss, ReadAt, RunError, Settings, Simulated, Stage,
    Summary, run, run_at,
};
use onefold_testkit::{cycle, low_entropy, random, text};

use crate::support::{ALGORITHMS, opencl};

fn settings(segment: usize, lanes: usize) -> Settings {
    let common = Settings::new(Some(Fingerprinter::blake3()));
    Settings { segment: Some(segment), lanes: Some(lanes), ..common }
}

/// Chunks of 64 to 800 bytes.
fn params(algorithm: Algorithm) -> Params {
    let sizes = match algorithm {
        Algorithm::MinCdc => ChunkSizes::new(100, 450, 800),
        _ => ChunkSizes::new(64, 200, 800),
    };
    Params::new(algorithm, sizes.unwrap())
}

fn on_cpu(chunker: &Chunker, data: &[u8]) -> Vec<Chunk> {
    let fingerprinter = Fingerprinter::blake3();
    let mut start = 0;
    chunker
        .cut_points(data)
        .map(|end| {
            let fingerprint = Some(fingerprinter.fingerprint(&data[start..end]));
            let chunk = Chunk { start: start as u64, end: end as u64, fingerprint };
            start = end;
            chunk
        })
        .collect()
}

/// The chunks that arrive, each with the right bytes.
fn chunks(
    device: &dyn Device,
    chunker: &Chunker,
    settings: &Settings,
    data: &[u8],
    reader: impl Read + Send,
) -> (Vec<Chunk>, Result<Summary, RunError>) {
    let mut all = Vec::new();
    let outcome = run(device, chunker, settings, reader, |piece| {
        for chunk in piece.chunks() {
            assert_eq!(piece.bytes(chunk), &data[chunk.start as usize..chunk.end as usize]);
            all.push(chunk);
        }
        Ok(())
    });
    (all, outcome)
}

/// The same, read at any place by several threads.
fn chunks_at(
    device: &dyn Device,
    chunker: &Chunker,
    settings: &Settings,
    source: &dyn ReadAt,
) -> (Vec<Chunk>, Result<Summary, RunError>) {
    let mut all = Vec::new();
    let outcome = run_at(device, chunker, settings, source, |piece| {
        all.extend(piece.chunks());
        Ok(())
    });
    (all, outcome)
}

/// A reader that gives a few bytes at a time.
struct Trickle<'a>(&'a [u8], usize);

impl Read for Trickle<'_> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        self.1 = self.1 * 7 % 1009 + 1;
        let len = self.1.min(room.len()).min(self.0.len());
        let (now, later) = self.0.split_at(len);
        room[..len].copy_from_slice(now);
        self.0 = later;
        Ok(len)
    }
}

#[test]
fn chunks_do_not_depend_on_segments_lanes_or_reads() {
    let device = Simulated::new();
    for algorithm in ALGORITHMS {
        let chunker = Chunker::new(&params(algorithm)).unwrap();
        for data in [random(1, 20_011), low_entropy(2, 9000, 2), cycle(&[0], 9000), text(3, 9000)] {
            let expected = on_cpu(&chunker, &data);
            for (segment, lanes) in [(1600, 1), (1601, 3), (4096, 2), (9000, 4), (1 << 20, 2)] {
                let settings = settings(segment, lanes);
                let (found, outcome) =
                    chunks(&device, &chunker, &settings, &data, Trickle(&data, 1));
                let summary = outcome.unwrap();
                assert!(found == expected, "{algorithm}, segments of {segment}");
                assert_eq!(summary.bytes, data.len() as u64);
                assert_eq!(summary.chunks, expected.len() as u64);
                assert_eq!((summary.on_cpu, summary.lost), (0, None));

                let (found, outcome) = chunks_at(&device, &chunker, &settings, &&data[..]);
                assert!(found == expected, "{algorithm}, segments of {segment} at any place");
                assert_eq!(outcome.unwrap().bytes, data.len() as u64);
            }
        }
    }
}

/// Inputs that end with a segment, just before and just after.
#[test]
fn every_length_around_the_ends_of_segments_is_cut_as_by_the_cpu() {
    let device = Simulated::new();
    let data = random(4, 5000);
    for algorithm in [Algorithm::Gear, Algorithm::FastCdc, Algorithm::MinCdc] {
        let chunker = Chunker::new(&params(algorithm)).unwrap();
        for len in (0..20).chain(1590..1620).chain(2390..2410).chain(3190..3210) {
            let expected = on_cpu(&chunker, &data[..len]);
            let (found, outcome) =
                chunks(&device, &chunker, &settings(1600, 2), &data, &data[..len]);
            outcome.unwrap();
            assert!(found == expected, "{algorithm}, {len} bytes");
            for lanes in [1, 3] {
                let settings = settings(1600, lanes);
                let (found, outcome) = chunks_at(&device, &chunker, &settings, &&data[..len]);
                outcome.unwrap();
                assert!(found == expected, "{algorithm}, {len} bytes at any place");
            }
        }
    }
}

#[test]
fn a_slow_device_and_a_slow_store_change_nothing() {
    let device = Simulated::new().with_delay(Duration::from_micros(200));
    let chunker = Chunker::new(&params(Algorithm::FastCdc)).unwrap();
    let data = random(5, 60_000);
    let expected = on_cpu(&chunker, &data);
    let mut found = Vec::new();
    let traced = Settings { trace_copies: true, ..settings(2000, 4) };
    let summary = run(&device, &chunker, &traced, &data[..], |piece| {
        thread::sleep(Duration::from_micros(300));
        found.extend(piece.chunks());
        Ok(())
    });
    let summary = summary.unwrap();
    assert!(found == expected);
    let segments = summary.on_device;
    for stage in Stage::ALL {
        let spans = summary.trace.spans().iter().filter(|span| span.stage == stage).count() as u64;
        assert!(spans >= segments, "{stage:?}: {spans} of {segments}");
    }
    assert!(summary.trace.total(Stage::Upload) >= Duration::from_micros(400) * segments as u32);
}

#[test]
fn opencl_and_the_cpu_agree_on_a_stream() {
    let Some(device) = opencl() else { return };
    let data = [random(6, 3 << 20), text(6, 2 << 20), cycle(&[0], 100_000)].concat();
    for algorithm in [Algorithm::MinCdc, Algorithm::Gear, Algorithm::Rabin] {
        let chunker = Chunker::new(&Params::for_mean(algorithm, 8192).unwrap()).unwrap();
        let expected = on_cpu(&chunker, &data);
        let (found, outcome) = chunks(&device, &chunker, &settings(1 << 20, 3), &data, &data[..]);
        assert_eq!(outcome.unwrap().lost, None);
        assert!(found == expected, "{algorithm}");
    }
}

/// The device is lost at every call there is: with the CPU to go on with nothing is lost, and without it
/// the error names the device and the chunks so far are right.
#[test]
fn a_device_that_is_lost_at_any_call_loses_no_chunk() {
    for algorithm in [Algorithm::Gear, Algorithm::MinCdc] {
        let chunker = Chunker::new(&params(algorithm)).unwrap();
        let data = random(7, 9000);
        let expected = on_cpu(&chunker, &data);
        let settings = settings(1600, 2);
        let healthy = Simulated::new();
        chunks(&healthy, &chunker, &settings, &data, &data[..]).1.unwrap();
        let calls = healthy.calls();
        assert!(calls > 50, "{calls}");
        for call in 0..calls {
            let lost = Simulated::new().with_fault(Fault::LostAt(call));
            let going_on = Settings { on_loss: OnLoss::UseCpu, ..settings.clone() };
            let (found, outcome) = chunks(&lost, &chunker, &going_on, &data, &data[..]);
            let summary = outcome.unwrap();
            assert!(found == expected, "{algorithm}, lost at call {call}");
            let reason = summary.lost.expect("the device was lost").to_string();
            assert!(reason.starts_with("simulated:0 (made up) failed: "), "{reason}");
            assert_eq!(summary.bytes, data.len() as u64);

            let lost = Simulated::new().with_fault(Fault::LostAt(call));
            let (found, outcome) = chunks(&lost, &chunker, &settings, &data, &data[..]);
            let error = outcome.expect_err("the device was lost");
            assert!(error.to_string().starts_with("simulated:0 (made up) failed: "), "{error}");
            assert!(found.len() < expected.len() && found == expected[..found.len()], "{call}");
        }
        let lost_after = Simulated::new().with_fault(Fault::LostAt(calls));
        assert_eq!(
            chunks(&lost_after, &chunker, &settings, &data, &data[..]).1.unwrap().lost,
            None
        );
    }
}

#[test]
fn with_little_memory_there_are_fewer_lanes_and_with_too_little_an_error() {
    let chunker = Chunker::new(&params(Algorithm::Gear)).unwrap();
    let data = random(8, 30_000);
    let expected = on_cpu(&chunker, &data);
    let settings = settings(4096, 4);
    let of = |bytes| Simulated::new().with_fault(Fault::Memory(bytes));
    let mut fitted = 0;
    for bytes in (0..80_000).step_by(1000) {
        let (found, outcome) = chunks(&of(bytes), &chunker, &settings, &data, &data[..]);
        match outcome {
            Ok(_) => {
                assert!(found == expected, "{bytes}");
                fitted += 1;
            }
            Err(RunError::Device(GpuError::NoMemory { device, .. })) => {
                assert_eq!(device, "simulated:0 (made up)");
            }
            Err(error) => panic!("{bytes}: {error}"),
        }
        let going_on = Settings { on_loss: OnLoss::UseCpu, ..settings.clone() };
        let (found, outcome) = chunks(&of(bytes), &chunker, &going_on, &data, &data[..]);
        outcome.unwrap();
        assert!(found == expected, "{bytes}, with the CPU");
    }
    assert!((1..80).contains(&fitted), "{fitted}");
}

#[test]
fn a_result_that_cannot_be_is_an_error_that_names_the_device() {
    let device = Simulated::new().with_fault(Fault::Miscounts);
    let chunker = Chunker::new(&params(Algorithm::Gear)).unwrap();
    let data = random(9, 3000);
    let (found, outcome) = chunks(&device, &chunker, &settings(1600, 2), &data, &data[..]);
    let error = outcome.unwrap_err().to_string();
    assert!(error.starts_with("simulated:0 (made up) gave a wrong result: "), "{error}");
    assert_eq!(found, []);
}

#[test]
fn a_kernel_that_computes_something_else_is_noticed_and_the_cpu_goes_on() {
    let data = random(11, 200_000);
    let gear = [Kernel::CandidatesGear, Kernel::Blake3Join];
    let least = [Kernel::SelectLeast, Kernel::Blake3Join];
    for (algorithm, kernels) in [(Algorithm::Gear, gear), (Algorithm::MinCdc, least)] {
        let chunker = Chunker::new(&params(algorithm)).unwrap();
        let expected = on_cpu(&chunker, &data);
        for kernel in kernels {
            let device = Simulated::new().with_fault(Fault::Idle(kernel));
            let settings = settings(8000, 2);
            let (_, outcome) = chunks(&device, &chunker, &settings, &data, &data[..]);
            let error = outcome.unwrap_err().to_string();
            let wrong = "simulated:0 (made up) gave a wrong result: ";
            assert!(error.starts_with(wrong), "{algorithm}, {kernel:?}: {error}");

            let going_on = Settings { on_loss: OnLoss::UseCpu, ..settings };
            let (found, outcome) = chunks(&device, &chunker, &going_on, &data, &data[..]);
            assert!(outcome.unwrap().lost.is_some());
            let fingerprinter = Fingerprinter::blake3();
            for Chunk { start, end, fingerprint } in &found {
                let bytes = &data[*start as usize..*end as usize];
                assert_eq!(*fingerprint, Some(fingerprinter.fingerprint(bytes)));
            }
            // where candidates were missed, chunks are longer until then, and nothing is lost
            assert_eq!(found.last().unwrap().end, data.len() as u64);
            assert!(kernel == Kernel::CandidatesGear || found == expected, "{algorithm}");
        }
    }
}

#[test]
fn an_input_that_cannot_be_read_ends_the_run_with_its_error() {
    struct Broken<'a>(&'a [u8]);
    impl Read for Broken<'_> {
        fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
            match self.0.read(room)? {
                0 => Err(io::Error::other("the disk is gone")),
                read => Ok(read),
            }
        }
    }
    let chunker = Chunker::new(&params(Algorithm::Gear)).unwrap();
    let data = random(10, 9000);
    let expected = on_cpu(&chunker, &data);
    let device = Simulated::new();
    let (found, outcome) = chunks(&device, &chunker, &settings(1600, 3), &data, Broken(&data));
    let Err(RunError::Read(error)) = outcome else { panic!("{outcome:?}") };
    assert_eq!(error.to_string(), "the disk is gone");
    assert!(!found.is_empty() && found == expected[..found.len()]);
}

/// Bytes up to the second, of which those from the third on cannot be read.
struct Part<'a>(&'a [u8], AtomicUsize, usize);

impl ReadAt for Part<'_> {
    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize> {
        if at as usize >= self.2 {
            return Err(io::Error::other("a bad sector"));
        }
        let until = self.1.load(Ordering::Relaxed).min(self.2);
        (&self.0[..until]).read_at(into, at)
    }
}

#[test]
fn a_place_that_cannot_be_read_ends_the_run_after_all_before_it() {
    let data = random(13, 30_000);
    let chunker = Chunker::new(&params(Algorithm::Gear)).unwrap();
    let expected = on_cpu(&chunker, &data);
    for lanes in [1, 4] {
        let source = Part(&data, AtomicUsize::new(data.len()), 20_000);
        let settings = settings(1600, lanes);
        let (found, outcome) = chunks_at(&Simulated::new(), &chunker, &settings, &source);
        let error = outcome.unwrap_err();
        assert!(matches!(&error, RunError::Read(error) if error.to_string() == "a bad sector"));
        // all that ends in whole segments of 800 new bytes
        assert_eq!(found[..], expected[..found.len()]);
        assert!(found.last().unwrap().end > 20_000 - 2 * 800, "{:?}", found.last());
    }
}

#[test]
fn an_input_that_becomes_shorter_is_an_error_that_says_where() {
    let data = random(14, 30_000);
    let chunker = Chunker::new(&params(Algorithm::MinCdc)).unwrap();
    let source = Part(&data, AtomicUsize::new(data.len()), usize::MAX);
    let outcome = run_at(&Simulated::new(), &chunker, &settings(1600, 1), &source, |_| {
        source.1.store(1500, Ordering::Relaxed);
        Ok(())
    });
    let error = outcome.unwrap_err();
    let text = std::error::Error::source(&error).unwrap().to_string();
    assert!(text.starts_with("it ends before byte "), "{text}");
}

#[test]
fn a_store_that_fails_ends_the_run_and_is_not_called_again() {
    let chunker = Chunker::new(&params(Algorithm::Gear)).unwrap();
    let data = random(11, 90_000);
    let failed = AtomicBool::new(false);
    let outcome = run(&Simulated::new(), &chunker, &settings(1600, 3), &data[..], |_| {
        assert!(!failed.swap(true, Ordering::Relaxed), "called after it had failed");
        Err(io::Error::other("no space"))
    });
    let Err(RunError::Store(error)) = outcome else { panic!("{outcome:?}") };
    assert_eq!(error.to_string(), "no space");
}

#[test]
fn segments_that_are_too_short_for_a_chunk_are_refused() {
    let chunker = Chunker::new(&params(Algorithm::Gear)).unwrap();
    for segment in [0, 1599, (1 << 30) + 1] {
        let outcome =
            run(&Simulated::new(), &chunker, &settings(segment, 1), io::empty(), |_| Ok(()));
        let expected = format!("segments of {segment} bytes, expected 1600 to 1073741824");
        assert_eq!(outcome.unwrap_err().to_string(), expected);
    }
}
