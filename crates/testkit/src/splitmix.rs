/// Sebastiano Vigna's SplitMix64: the numbers that corpora and tables are made of.
#[derive(Clone, Debug)]
pub struct SplitMix64 {
    state: u64,
}

impl SplitMix64 {
    /// The sequence that `seed` starts.
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next number of the sequence.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, each as likely but for a bias of `bound` / 2^64.
    pub fn below(&mut self, bound: usize) -> usize {
        assert!(bound > 0, "no number is below 0");
        ((u128::from(self.next_u64()) * bound as u128) >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seed_zero_gives_the_published_numbers() {
        let mut numbers = SplitMix64::new(0);
        assert_eq!(numbers.next_u64(), 0xE220_A839_7B1D_CDAF);
        assert_eq!(numbers.next_u64(), 0x6E78_9E6A_A1B9_65F4);
        assert_eq!(numbers.next_u64(), 0x06C4_5D18_8009_454F);
    }

    #[test]
    fn below_reaches_every_number_and_no_more() {
        let mut numbers = SplitMix64::new(1);
        let mut seen = [false; 7];
        for _ in 0..200 {
            seen[numbers.below(7)] = true;
        }
        assert_eq!(seen, [true; 7]);
    }
}
