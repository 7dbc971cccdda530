//! Every kernel on short inputs, each in an allocation of its own length: what reads a byte outside
//! is seen by the address sanitizer and by Miri, for which this is small enough.
//!
//! `cargo xtask campaign asan` and `miri` run it; by itself it compares kernels with the scalar rule.

use onefold_cdc::{Algorithm, ChunkSizes, Chunker, Kernel, Params};
use onefold_testkit::{cycle, low_entropy, random};

/// Lengths at and next to the widths of vectors, and some blocks of them.
fn lens() -> Vec<usize> {
    if cfg!(miri) { vec![0, 17, 33] } else { (0..700).collect() }
}

fn all_params(algorithm: Algorithm) -> Vec<Params> {
    let sizes = [(1, 33, 65), (16, 48, 80), (65, 130, 195)];
    let sizes = if cfg!(miri) { &sizes[1..2] } else { &sizes[..] };
    let sizes = sizes.iter().map(|&(min, avg, max)| ChunkSizes::new(min, avg, max).unwrap());
    let params = sizes.map(|sizes| Params::new(algorithm, sizes));
    params
        .chain(Params::for_mean(algorithm, 40))
        .filter(|params| Chunker::new(params).is_ok())
        .collect()
}

#[test]
fn every_kernel_keeps_within_its_input() {
    for &algorithm in Algorithm::ALL {
        let kernels = Kernel::usable(algorithm);
        let vectors = kernels.iter().filter(|&&kernel| kernel != Kernel::Scalar);
        for (&kernel, params) in vectors.flat_map(|kernel| {
            all_params(algorithm).into_iter().map(move |params| (kernel, params))
        }) {
            let scalar = Chunker::with_kernel(&params, Kernel::Scalar).unwrap();
            let vector = Chunker::with_kernel(&params, kernel).unwrap();
            for len in lens() {
                let inputs = [random(1, len), low_entropy(2, len, 2), cycle(&[0xff], len)];
                for data in inputs.map(Vec::into_boxed_slice) {
                    let expected: Vec<_> = scalar.cut_points(&data).collect();
                    let found: Vec<_> = vector.cut_points(&data).collect();
                    assert_eq!(found, expected, "{kernel}, {params:?}, {len} bytes");
                    assert_eq!(
                        vector.next_cut(&data),
                        scalar.next_cut(&data),
                        "{kernel}, {params:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn the_kernels_that_are_demanded_are_here() {
    let demanded = std::env::var("ONEFOLD_REQUIRE_KERNELS").unwrap_or_default();
    for name in demanded.split(',').filter(|name| !name.is_empty()) {
        let kernel: Kernel = name.parse().unwrap();
        let is_usable = |&algorithm: &Algorithm| Kernel::usable(algorithm).contains(&kernel);
        assert!(Algorithm::ALL.iter().any(is_usable), "ONEFOLD_REQUIRE_KERNELS: no {kernel} here");
    }
}
