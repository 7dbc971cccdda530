//! A secret decides where chunks end, or is refused.

use std::collections::HashSet;

use onefold_cdc::{
    Algorithm, BoundaryTest, Chunker, Cuts, Divisors, ParamError, Params, Preset, Secret,
    cut_points,
};
use onefold_testkit::random;

use crate::support::model_cuts;

fn keyed(algorithm: Algorithm, byte: u8) -> Params {
    let params = Params::for_mean(algorithm, 1024).unwrap();
    Params { secret: Some(Secret::new([byte; 32])), ..params }
}

fn keyed_algorithms() -> impl Iterator<Item = Algorithm> {
    Algorithm::ALL.iter().copied().filter(|algorithm| algorithm.takes_secret())
}

#[test]
fn the_same_secret_cuts_alike_and_another_elsewhere() {
    let data = random(1, 200_000);
    for algorithm in keyed_algorithms() {
        let cuts = |params| -> HashSet<usize> {
            let cuts = cut_points(&params, &data).unwrap();
            cuts.into_iter().filter(|&cut| cut < data.len()).collect()
        };
        let open = cuts(Params::for_mean(algorithm, 1024).unwrap());
        let (one, other) = (cuts(keyed(algorithm, 1)), cuts(keyed(algorithm, 2)));
        let reseeded = cuts(Params { seed: 1, ..keyed(algorithm, 1) });
        assert_eq!(one, cuts(keyed(algorithm, 1)), "{algorithm}");
        let all = [&open, &one, &other, &reseeded];
        for (i, a) in all.iter().enumerate() {
            assert!(a.len() > 100, "{algorithm}");
            for b in &all[..i] {
                // a position of 1024 is one by chance
                assert!(a.intersection(b).count() < a.len() / 20, "{algorithm}");
            }
        }
    }
}

#[test]
fn keyed_cut_points_are_those_of_the_model() {
    let data = random(2, 50_000);
    for algorithm in keyed_algorithms() {
        for (byte, seed) in [(0, 0), (1, u64::MAX), (255, 3)] {
            let params = Params { seed, ..keyed(algorithm, byte) };
            assert_eq!(
                cut_points(&params, &data).unwrap(),
                model_cuts(&params, &data),
                "{params:?}"
            );
        }
    }
}

#[test]
fn what_has_nothing_to_key_refuses_a_secret() {
    for &algorithm in Algorithm::ALL.iter().filter(|algorithm| !algorithm.takes_secret()) {
        let params = keyed(algorithm, 1);
        let refusal = Chunker::new(&params).unwrap_err();
        assert_eq!(refusal, ParamError::NothingToKey { algorithm });
        assert!(refusal.to_string().starts_with(&format!("{algorithm} has nothing to key")));
        assert_eq!(BoundaryTest::new(&params).err(), Some(refusal.clone()));
        assert_eq!(Cuts::new(&params, &[][..]).err(), Some(refusal));
    }
    let given = Divisors::from_pairs([[1, 2]]).unwrap();
    let bfbc = Params { divisors: Some(given), ..keyed(Algorithm::Bfbc, 1) };
    let algorithm = Algorithm::Bfbc;
    assert_eq!(Chunker::new(&bfbc).unwrap_err(), ParamError::NothingToKey { algorithm });
    for &preset in Preset::ALL {
        let params = Params { secret: Some(Secret::new([1; 32])), ..preset.params() };
        let message = Chunker::new(&params).unwrap_err().to_string();
        assert!(message.contains("expected no secret"), "{preset}: {message}");
    }
}

#[test]
fn parameters_with_a_secret_are_not_for_all_to_read() {
    assert!(!keyed(Algorithm::Gear, 1).is_plain());
}
