//! Cuts and fingerprints equal the CPU's.

use onefold_cdc::{Algorithm, ChunkSizes, Chunker, Params, Secret};
use onefold_fingerprint::Fingerprinter;
use onefold_gpu::{Device, Range, Resident, STRIP, Simulated, TILE, cut_resident};
use onefold_testkit::random;
use serde_json::Value;

use crate::shim::{ADDRESS, THREAD, shim};
use crate::support::{
    ALGORITHMS, assert_hashes_like_cpu, assert_like_cpu, functions, inputs, opencl, params_of,
};

/// Every rule on lengths at and around the windows, the strips and the tiles.
fn cuts_at_every_kind_of_length(device: &dyn Device, algorithms: &[Algorithm]) {
    let random = random(1, 2 * TILE + 1);
    let lens = [
        0,
        1,
        2,
        3,
        4,
        5,
        15,
        16,
        17,
        31,
        32,
        33,
        63,
        64,
        65,
        255,
        256,
        257,
        258,
        511,
        512,
        513,
        1000,
        TILE - 1,
        TILE,
        TILE + 1,
        TILE + 4,
        TILE + STRIP - 1,
        TILE + STRIP,
        2 * TILE,
        2 * TILE + 1,
    ];
    let inputs: Vec<&[u8]> = lens.iter().map(|&len| &random[..len]).collect();
    for &algorithm in algorithms {
        let all = params_of(algorithm);
        assert_like_cpu(device, &all[0], None, &inputs);
        assert_like_cpu(device, &all[4], None, &inputs);
    }
}

/// Every rule with every kind of parameters on every kind of data.
fn cuts_of_every_kind_of_data(device: &dyn Device, algorithms: &[Algorithm], len: usize) {
    let inputs = inputs(2, len);
    let inputs: Vec<&[u8]> = inputs.iter().map(|data| &data[..]).collect();
    for &algorithm in algorithms {
        for params in params_of(algorithm) {
            assert_like_cpu(device, &params, None, &inputs);
        }
    }
}

/// Chunks of every length around blocks and leaves, at every alignment.
fn hashes_of_every_length(device: &dyn Device) {
    let data = random(3, 80_000);
    let mut ranges: Vec<Range> = (0..300).map(|len| Range { start: len % 7, len }).collect();
    for len in [511, 512, 513, 1023, 1024, 1025, 2047, 2048, 2049, 3073, 4096, 5121, 9000, 65_537] {
        ranges.extend((0..5).map(|start| Range { start, len }));
    }
    // the last byte of the data, and what ends with it
    ranges.extend((1..40).map(|len| Range { start: data.len() - len, len }));
    for function in &functions() {
        assert_hashes_like_cpu(device, function, &data, &ranges);
        assert_hashes_like_cpu(device, function, &data, &[]);
        assert_hashes_like_cpu(device, function, &data, &ranges[..1]);
    }
}

/// Cut and fingerprinted in one go.
fn both_together(device: &dyn Device) {
    let data = inputs(4, 50_000);
    let data: Vec<&[u8]> = data.iter().map(|data| &data[..]).collect();
    for function in &functions() {
        for algorithm in [Algorithm::MinCdc, Algorithm::FastCdc] {
            let params = Params::new(algorithm, ChunkSizes::new(1000, 2000, 3000).unwrap());
            assert_like_cpu(device, &params, Some(function), &data);
        }
    }
}

/// Data that are in the device's memory, at two alignments: a part in place, and the end by a copy.
fn resident(device: &dyn Device) {
    let room = random(6, 9000);
    for (algorithm, from) in [(Algorithm::MinCdc, 100), (Algorithm::Gear, 117)] {
        let chunker = Chunker::new(&Params::for_mean(algorithm, 700).unwrap()).unwrap();
        let bytes = &room[from..8900];
        // SAFETY: the device is the host, and `room` goes on on both sides.
        let data = unsafe { Resident::new(bytes.as_ptr() as u64, bytes.len()) };
        let chunks = cut_resident(device, &chunker, Some(&Fingerprinter::blake3()), data).unwrap();
        assert!(chunker.cut_points(bytes).eq(chunks.iter().map(|chunk| chunk.end as usize)));
        for chunk in chunks {
            let bytes = &bytes[chunk.start as usize..chunk.end as usize];
            assert_eq!(chunk.fingerprint, Some(Fingerprinter::blake3().fingerprint(bytes)));
        }
    }
}

#[test]
fn data_in_a_devices_memory_are_cut_like_the_cpu_cuts() {
    resident(&Simulated::new());
    for sanitizer in [ADDRESS, THREAD] {
        let Some(shim) = shim(sanitizer) else { return };
        resident(&shim.device());
    }
}

/// Only devices that take addresses.
#[test]
fn opencl_refuses_addresses() {
    let Some(device) = opencl() else { return };
    let chunker = Chunker::new(&Params::for_mean(Algorithm::Gear, 700).unwrap()).unwrap();
    let room = random(7, 64);
    // SAFETY: the device is the host.
    let data = unsafe { Resident::new(room.as_ptr() as u64, room.len()) };
    let error = cut_resident(&device, &chunker, None, data).unwrap_err().to_string();
    assert!(error.ends_with("cannot take 64 bytes by their address, expected a device of cuda"));
}

#[test]
fn the_simulated_device_is_like_the_cpu() {
    let device = Simulated::new();
    cuts_at_every_kind_of_length(&device, &ALGORITHMS);
    cuts_of_every_kind_of_data(&device, &ALGORITHMS, 3000);
    hashes_of_every_length(&device);
    both_together(&device);
}

#[test]
fn opencl_is_like_the_cpu_at_every_kind_of_length() {
    let Some(device) = opencl() else { return };
    cuts_at_every_kind_of_length(&device, &ALGORITHMS);
}

#[test]
fn opencl_is_like_the_cpu_on_every_kind_of_data() {
    let Some(device) = opencl() else { return };
    cuts_of_every_kind_of_data(&device, &ALGORITHMS, 2 * TILE + 777);
}

#[test]
fn opencl_hashes_like_the_cpu() {
    let Some(device) = opencl() else { return };
    hashes_of_every_length(&device);
    both_together(&device);
}

#[test]
fn kernels_touch_no_memory_but_their_own() {
    let Some(device) = shim(ADDRESS).map(|shim| shim.device()) else { return };
    cuts_at_every_kind_of_length(&device, &ALGORITHMS);
    cuts_of_every_kind_of_data(&device, &ALGORITHMS, 3000);
    hashes_of_every_length(&device);
    both_together(&device);
}

#[test]
fn work_items_wait_for_what_others_write() {
    let Some(device) = shim(THREAD).map(|shim| shim.device()) else { return };
    let data = inputs(5, TILE + 3000);
    let few = [&data[0][..], &data[2], &data[3]];
    for algorithm in ALGORITHMS {
        let all = params_of(algorithm);
        for params in [&all[1], &all[4]] {
            assert_like_cpu(&device, params, None, &few);
        }
    }
    for function in &functions() {
        let params = Params::for_mean(Algorithm::MinCdc, 4000).unwrap();
        assert_like_cpu(&device, &params, Some(function), &few[..1]);
    }
}

/// The cases of vectors/cdc.json that devices can do, on OpenCL and the simulated device.
#[test]
fn devices_cut_where_the_vectors_say() {
    let vectors: Value =
        serde_json::from_str(include_str!("../../../../vectors/cdc.json")).unwrap();
    let opencl = opencl();
    let mut seen = 0;
    for case in vectors["cases"].as_array().unwrap() {
        let number = |key: &str| case[key].as_u64().unwrap() as usize;
        let algorithm: Algorithm = case["algorithm"].as_str().unwrap().parse().unwrap();
        let sizes = ChunkSizes::new(number("min"), number("avg"), number("max")).unwrap();
        let secret = case["secret"].as_str().map(|digits| {
            let byte = |i: usize| u8::from_str_radix(&digits[2 * i..2 * i + 2], 16).unwrap();
            Secret::new(std::array::from_fn(byte))
        });
        let params = Params {
            window: number("window"),
            level: number("level") as u8,
            seed: number("seed") as u64,
            secret,
            ..Params::new(algorithm, sizes)
        };
        let window = match algorithm {
            Algorithm::Gear | Algorithm::FastCdc => 64,
            Algorithm::Gear32 | Algorithm::Gear16 => 32,
            Algorithm::MinCdc => 0,
            _ => params.window,
        };
        if !ALGORITHMS.contains(&algorithm) || params.sizes.min() < window {
            continue;
        }
        let input = &case["input"];
        let len = input["len"].as_u64().unwrap() as usize;
        if input["kind"] != "splitmix64" {
            continue;
        }
        let mask = input["mask"].as_u64().unwrap() as u8;
        let data = random(input["seed"].as_u64().unwrap(), len);
        let data: Vec<u8> = data.into_iter().map(|byte| byte & mask).collect();
        let simulated = Simulated::new();
        let devices = [Some(&simulated as &dyn Device), opencl.as_ref().map(|d| d as &dyn Device)];
        for device in devices.into_iter().flatten() {
            assert_vector(device, &params, &data, case);
        }
        seen += 1;
    }
    assert!(seen >= 20, "{seen} cases");
}

fn assert_vector(device: &dyn Device, params: &Params, data: &[u8], case: &Value) {
    let chunker = onefold_cdc::Chunker::new(params).unwrap();
    let work = onefold_gpu::Work::new(&chunker, Some(&Fingerprinter::blake3())).unwrap();
    let mut lane = device.lane(data.len(), onefold_gpu::Memory::Pinned).unwrap();
    lane.input().copy_from_slice(data);
    let (cuts, _) = work.whole(&mut *lane, data.len()).unwrap();
    assert_eq!(cuts.len() as u64, case["count"].as_u64().unwrap(), "{case}");
    let first: Vec<u64> = cuts.iter().take(8).map(|&cut| cut as u64).collect();
    let expected: Vec<u64> =
        case["first"].as_array().unwrap().iter().map(|cut| cut.as_u64().unwrap()).collect();
    assert_eq!(first, expected, "{case}");
}
