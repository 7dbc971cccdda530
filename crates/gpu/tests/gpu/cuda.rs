//! The code that calls CUDA's driver, on a driver that runs the kernels on the host.
//!
//! The driver is a library, which a process loads when it starts: so each test runs itself once more with
//! that library in the way of the real one.

use std::env;
use std::process::Command;

use onefold_cdc::{Algorithm, Chunker, Params};
use onefold_fingerprint::Fingerprinter;
use onefold_gpu::{
    Api, Chunk, Info, Name, OnLoss, Resident, Settings, cut_resident, list, open, open_cuda_with,
    run,
};
use onefold_testkit::{build_fake_cuda, random};

use crate::support::{ALGORITHMS, assert_like_cpu, functions, inputs, params_of};

/// Tells a run of the test program what to do with the driver.
const TASK: &str = "ONEFOLD_GPU_TASK";

const CUDA: Name = Name { api: Api::Cuda, number: 0 };

/// Runs the test `name` again with the driver, which does `wrong`; what it prints.
fn with_driver(name: &str, wrong: &str) -> Option<String> {
    let folder = tempfile::tempdir().unwrap();
    if !build_fake_cuda(folder.path()) {
        return None;
    }
    let output = Command::new(env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(TASK, wrong)
        .env("FAKE_CUDA", wrong)
        .env("LD_LIBRARY_PATH", folder.path())
        .output()
        .unwrap();
    let texts = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{texts}");
    Some(texts)
}

#[test]
fn cuda_is_like_the_cpu_on_a_driver_that_works() {
    if env::var_os(TASK).is_none() {
        let printed = with_driver("cuda::cuda_is_like_the_cpu_on_a_driver_that_works", "nothing");
        assert!(printed.is_none_or(|printed| printed.contains("cuda:0 (fake)")));
        return;
    }
    let device = open(CUDA).unwrap();
    println!("{}", device.info());
    let Info { units, driver, generation, clock, .. } = device.info();
    assert_eq!((*units, &driver[..], *generation), (3, "CUDA 12.4, PTX", Some(8)));
    assert_eq!(*clock, Some(1_500_000_000));
    let before = device.joules().unwrap();
    assert_eq!(device.joules(), Ok(before + 1.0));
    let inputs = inputs(1, 3000);
    let inputs: Vec<&[u8]> = inputs.iter().map(|data| &data[..]).collect();
    for algorithm in ALGORITHMS {
        for params in params_of(algorithm) {
            assert_like_cpu(&*device, &params, None, &inputs[..3]);
        }
    }
    for function in &functions() {
        let params = Params::for_mean(Algorithm::MinCdc, 700).unwrap();
        assert_like_cpu(&*device, &params, Some(function), &inputs);
    }
    let chunker = Chunker::new(&Params::for_mean(Algorithm::Gear, 1000).unwrap()).unwrap();
    let data = random(2, 100_000);
    let settings =
        Settings { segment: Some(20_000), ..Settings::new(Some(Fingerprinter::blake3())) };
    let mut cuts = Vec::new();
    let summary = run(&*device, &chunker, &settings, &data[..], |piece| {
        cuts.extend(piece.chunks().map(|chunk| chunk.end as usize));
        Ok(())
    });
    assert_eq!(summary.unwrap().lost, None);
    assert!(chunker.cut_points(&data).eq(cuts));
    for algorithm in [Algorithm::MinCdc, Algorithm::Gear] {
        let chunker = Chunker::new(&Params::for_mean(algorithm, 1000).unwrap()).unwrap();
        // SAFETY: the driver runs on the host, and there are bytes on both sides.
        let there = unsafe { Resident::new(data[50..].as_ptr() as u64, data.len() - 100) };
        let chunks = cut_resident(&*device, &chunker, Some(&Fingerprinter::sha3()), there).unwrap();
        let bytes = &data[50..data.len() - 50];
        assert!(chunker.cut_points(bytes).eq(chunks.iter().map(|chunk| chunk.end as usize)));
        for Chunk { start, end, fingerprint } in chunks {
            let expected = Fingerprinter::sha3().fingerprint(&bytes[start as usize..end as usize]);
            assert_eq!(fingerprint, Some(expected), "{algorithm}, {start}");
        }
    }
}

/// Machine code is for one generation of devices, and for drivers no older than its compiler.
#[test]
fn machine_code_is_loaded_where_device_and_driver_take_it() {
    const NAME: &str = "cuda::machine_code_is_loaded_where_device_and_driver_take_it";
    let Some(wrong) = env::var_os(TASK) else {
        for wrong in ["nothing", "new code"] {
            with_driver(NAME, wrong);
        }
        return;
    };
    let loaded = |cubins: &[(u32, &[u8])]| {
        let device = open_cuda_with(0, cubins).unwrap();
        assert_like_cpu(&*device, &params_of(Algorithm::Gear)[0], None, &[&random(4, 3000)]);
        device.info().driver.clone()
    };
    let code = b"\x7fELF of a generation";
    let fitting = if wrong == "nothing" { "CUDA 12.4, machine code" } else { "CUDA 12.4, PTX" };
    assert_eq!(loaded(&[(9, code), (8, code)]), fitting);
    assert_eq!(loaded(&[(9, code), (10, code)]), "CUDA 12.4, PTX");
}

/// Where an array is, is looked up before a kernel reads it.
#[test]
fn data_in_other_memory_are_refused() {
    const NAME: &str = "cuda::data_in_other_memory_are_refused";
    if env::var_os(TASK).is_none() {
        for (wrong, on) in [("other device", "cuda:1"), ("host memory", "no device")] {
            let Some(printed) = with_driver(NAME, wrong) else { return };
            let told = format!("told: the bytes are on {on}, expected cuda:0 (fake)");
            assert!(printed.contains(&told), "{wrong}: {printed}");
        }
        return;
    }
    let device = open(CUDA).unwrap();
    let chunker = Chunker::new(&Params::for_mean(Algorithm::Gear, 1000).unwrap()).unwrap();
    let room = random(5, 200);
    // SAFETY: the driver runs on the host, and there are bytes on both sides.
    let data = unsafe { Resident::new(room[50..].as_ptr() as u64, 100) };
    println!("told: {}", cut_resident(&*device, &chunker, None, data).unwrap_err());
}

/// A device whose energy is not known works as others do.
#[test]
fn why_the_energy_is_not_known_is_said() {
    const NAME: &str = "cuda::why_the_energy_is_not_known_is_said";
    if env::var_os(TASK).is_none() {
        for (wrong, reason) in [
            ("no energy", "nvmlInit_v2 failed with error 9"),
            ("no counter", "nvmlDeviceGetTotalEnergyConsumption is not supported here"),
        ] {
            let Some(printed) = with_driver(NAME, wrong) else { return };
            assert!(printed.contains(&format!("told: {reason}")), "{wrong}: {printed}");
        }
        return;
    }
    println!("told: {}", open(CUDA).unwrap().joules().unwrap_err());
}

/// What a user reads when something is wrong.
#[test]
fn what_is_wrong_with_cuda_is_said_in_a_sentence() {
    const NAME: &str = "cuda::what_is_wrong_with_cuda_is_said_in_a_sentence";
    let Some(wrong) = env::var_os(TASK) else {
        for (wrong, sentence) in [
            ("no device", "cuda has a driver here but no devices"),
            ("none", "cuda has a driver here but no devices"),
            (
                "old device",
                "cuda:0 (fake) is too old for the kernels: compute capability 7, expected 8.0",
            ),
            (
                "ancient driver",
                "the driver of cuda is too old: it has CUDA 10.2, expected CUDA 11.0; install NVIDIA's driver 450",
            ),
            (
                "old driver",
                "the driver of cuda is too old: an error; install NVIDIA's driver 450 or later",
            ),
            (
                "busy",
                "cuda:0 (fake) is in use by a process that shares it with no other; wait for its end",
            ),
            (
                "memory",
                "cuda:0 (fake) has no memory left for 20064 bytes more; end other programs on it",
            ),
            ("lost", "cuda:0 (fake) failed: cuStreamSynchronize: unspecified launch failure"),
        ] {
            let Some(printed) = with_driver(NAME, wrong) else { return };
            assert!(printed.contains(&format!("told: {sentence}")), "{wrong}: {printed}");
        }
        return;
    };
    let chunker = Chunker::new(&Params::for_mean(Algorithm::Gear, 1000).unwrap()).unwrap();
    let data = random(3, 100_000);
    let settings = Settings { segment: Some(20_000), lanes: Some(2), ..Settings::new(None) };
    match open(CUDA) {
        Err(error) => println!("told: {error}"),
        Ok(device) => {
            let error = run(&*device, &chunker, &settings, &data[..], |_| Ok(())).unwrap_err();
            println!("told: {error}");
            if wrong == "lost" {
                let going_on = Settings { on_loss: OnLoss::UseCpu, ..settings };
                let mut cuts = Vec::new();
                let summary = run(&*device, &chunker, &going_on, &data[..], |piece| {
                    cuts.extend(piece.chunks().map(|chunk| chunk.end as usize));
                    Ok(())
                });
                assert!(summary.unwrap().lost.is_some());
                assert!(chunker.cut_points(&data).eq(cuts));
            }
        }
    }
    let unlisted = ["no device", "none", "ancient driver"];
    assert_eq!(list()[0].devices.is_ok(), unlisted.iter().all(|one| wrong != *one));
}
