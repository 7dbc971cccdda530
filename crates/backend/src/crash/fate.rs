//! The fate of each unsynced change in a power cut.

/// Decides over the unsynced changes of one disk.
#[derive(Clone, Debug)]
pub(super) enum Fate {
    /// Nothing unsynced reached the disk.
    Lost,
    /// Everything did, as if synced.
    Kept,
    /// Each change is decided on its own.
    Mixed(Chance),
}

/// The fate of one write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteFate {
    Lost,
    Kept,
    /// Only this many of its first bytes reached the disk.
    Prefix(usize),
    /// The file's length did, and some of the sectors, drawn with `chance`.
    Sectors {
        size: usize,
        chance: Chance,
    },
}

impl Fate {
    pub(super) fn name_change_happens(&mut self) -> bool {
        match self {
            Self::Lost => false,
            Self::Kept => true,
            Self::Mixed(chance) => chance.below(2) == 1,
        }
    }

    pub(super) fn resize_happens(&mut self) -> bool {
        self.name_change_happens()
    }

    pub(super) fn write(&mut self, len: usize) -> WriteFate {
        match self {
            Self::Lost => WriteFate::Lost,
            Self::Kept => WriteFate::Kept,
            Self::Mixed(chance) => match chance.below(8) {
                0 | 1 => WriteFate::Lost,
                2 | 3 => WriteFate::Kept,
                4 | 5 => WriteFate::Prefix(chance.below(len as u64 + 1) as usize),
                6 => WriteFate::Sectors { size: 512, chance: chance.fork() },
                _ => WriteFate::Sectors { size: 4_096, chance: chance.fork() },
            },
        }
    }
}

/// A seeded sequence of numbers: SplitMix64 (Steele, Lea and Flood 2014).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chance(u64);

impl Chance {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `bound`, which is small: the bias of the remainder does not matter here.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// A sequence of its own.
    pub(super) fn fork(&mut self) -> Self {
        Self(self.next())
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}
