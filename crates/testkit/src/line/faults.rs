use std::time::Duration;

use crate::SplitMix64;

/// What goes wrong with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// The server does it, and its answer stays away for [`Faults::stall`].
    Stall,
    /// The server does it, and the connection ends in the middle of the answer's body, or of its head
    /// if there is no body.
    Cut,
    /// The connection is reset before the request reaches the server.
    Reset,
    /// The line answers 503 SlowDown, and the server does not see the request.
    Refusal,
}

/// How many requests go wrong, as shares between 0 and 1 whose sum is at most 1.
///
/// The fault of a request is a function of the seed and of how many requests came before it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Faults {
    /// Chooses the requests.
    pub seed: u64,
    /// The share of stalled answers.
    pub stalled: f64,
    /// How long a stalled answer stays away.
    pub stall: Duration,
    /// The share of answers that are cut.
    pub cut: f64,
    /// The share of requests whose connection is reset.
    pub reset: f64,
    /// The share of requests that are refused; 1 for a server that is overloaded for ever.
    pub refused: f64,
}

impl Faults {
    /// The fault of the request that is number `number`, from 0.
    pub(super) fn of(&self, number: u64) -> Option<Fault> {
        let mut random = SplitMix64::new(self.seed ^ number.wrapping_mul(0xd134_2543_de82_ef95));
        let mut rest = random.next_u64() as f64 / u64::MAX as f64;
        let shares = [
            (self.stalled, Fault::Stall),
            (self.cut, Fault::Cut),
            (self.reset, Fault::Reset),
            (self.refused, Fault::Refusal),
        ];
        for (share, fault) in shares {
            // The last float below 1 and 1 itself are one number for a share of 1.
            if rest < share || share >= 1.0 {
                return Some(fault);
            }
            rest -= share;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_have_the_shares_that_are_asked_for() {
        let faults = Faults { seed: 7, stalled: 0.02, cut: 0.01, reset: 0.3, ..Faults::default() };
        let drawn: Vec<_> = (0..100_000).filter_map(|number| faults.of(number)).collect();
        for (fault, share) in
            [(Fault::Stall, 0.02), (Fault::Cut, 0.01), (Fault::Reset, 0.3), (Fault::Refusal, 0.0)]
        {
            let found = drawn.iter().filter(|drawn| **drawn == fault).count() as f64 / 1e5;
            assert!((found - share).abs() < 0.005, "{fault:?}: {found}, expected {share}");
        }
    }

    #[test]
    fn a_seed_draws_the_same_faults_again_and_another_draws_others() {
        let drawn = |seed| {
            let faults = Faults { seed, cut: 0.5, ..Faults::default() };
            (0..100).map(|number| faults.of(number)).collect::<Vec<_>>()
        };
        assert_eq!(drawn(1), drawn(1));
        assert_ne!(drawn(1), drawn(2));
    }

    #[test]
    fn a_share_of_one_spares_no_request() {
        let faults = Faults { refused: 1.0, ..Faults::default() };
        assert!((0..10_000).all(|number| faults.of(number) == Some(Fault::Refusal)));
        assert!((0..10_000).all(|number| Faults::default().of(number).is_none()));
    }
}
