//! Rules as numbers, for programs that run them by code of their own, such as the kernels of a GPU.

use std::fmt;

use zeroize::Zeroize;

use crate::buzhash::Buzhash;
use crate::crc::Crc;
use crate::descriptor::FromParams;
use crate::fastcdc::FastCdc;
use crate::gear::Gear;
use crate::gear16::Gear16;
use crate::gear32::Gear32;
use crate::mincdc::MinCdc;
use crate::rabin::Rabin;
use crate::{Algorithm, Chunker, ParamError};

/// A rule that looks at each position by itself: what it computes there, and how cut-points follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tables {
    /// A cut-point is the first position from min on that passes the test. With two limits the strict
    /// one holds before avg.
    Window(WindowTest),
    /// A cut-point is the position with the least hash.
    Least(LeastHash),
}

/// How the hash of a window follows from that of the window a byte before.
///
/// `t` is [`WindowTest::table`], `e` the byte that enters and `l` the one that leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WindowHash {
    /// h = 2 h + t\[e\] mod 2^64; passes where h ≤ limit.
    Gear,
    /// The same mod 2^32.
    Gear32,
    /// The same mod 2^16. Passes where h ≤ limit and h of 16 bytes earlier ≤ strict.
    Gear16,
    /// h = (h · 2^8 mod 2^53) ^ t\[⌊h / 2^45⌋ ^ e\] ^ t\[256 + l\]; passes where h ≥ limit.
    Rabin,
    /// h = ⌊h / 2^8⌋ ^ t\[(h mod 2^8) ^ e\] ^ t\[256 + l\]; passes where h ≥ limit.
    Crc,
    /// h = (h rotated left by 1 in 32 bits) ^ t\[e\] ^ t\[256 + l\]; passes where h ≥ limit.
    Buzhash,
}

/// The test of one position. It depends on the window before the position alone if the minimum chunk
/// size is no less than the window; otherwise it also depends on where the chunk began.
#[derive(Clone, PartialEq, Eq)]
pub struct WindowTest {
    /// The hash.
    pub hash: WindowHash,
    /// Bytes before a position that its test looks at, 1 to 256.
    pub window: usize,
    /// 256 entries for the byte that enters and, for Rabin, CRC and Buzhash, 256 for the one that
    /// leaves. Wiped when this is dropped, since a secret may have made them.
    pub table: Vec<u64>,
    /// The limit of a hash that passes.
    pub limit: u64,
    /// FastCDC's limit before avg, and Gear16's for its second test; otherwise `limit`.
    pub strict: u64,
}

impl Drop for WindowTest {
    fn drop(&mut self) {
        self.table.zeroize();
    }
}

impl fmt::Debug for WindowTest {
    /// Leaves out what a secret may have made.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { hash, window, .. } = self;
        f.debug_struct("WindowTest")
            .field("hash", hash)
            .field("window", window)
            .finish_non_exhaustive()
    }
}

/// MinCDC's hash: v · `factor` + `addend` mod 2^32 of the four bytes before a position, little-endian.
#[derive(Clone, PartialEq, Eq)]
pub struct LeastHash {
    /// The first position that is compared: a rest no longer than this is one chunk.
    pub first: usize,
    /// Odd.
    pub factor: u32,
    /// The addend.
    pub addend: u32,
}

impl fmt::Debug for LeastHash {
    /// Leaves out what a secret may have made.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeastHash").field("first", &self.first).finish_non_exhaustive()
    }
}

impl Chunker {
    /// The rule as numbers; `None` for rules that are not of this kind, and for presets.
    pub fn tables(&self) -> Option<Tables> {
        if self.params().preset.is_some() {
            return None;
        }
        Some(match self.params().algorithm {
            Algorithm::Rabin => Tables::Window(self.made(Rabin::window_test)),
            Algorithm::Crc => Tables::Window(self.made(Crc::window_test)),
            Algorithm::Buzhash => Tables::Window(self.made(Buzhash::window_test)),
            Algorithm::Gear => Tables::Window(self.made(Gear::window_test)),
            Algorithm::FastCdc => Tables::Window(self.made(FastCdc::window_test)),
            Algorithm::Gear32 => Tables::Window(self.made(Gear32::window_test)),
            Algorithm::Gear16 => Tables::Window(self.made(Gear16::window_test)),
            Algorithm::MinCdc => Tables::Least(self.made(MinCdc::least_hash)),
            _ => return None,
        })
    }

    fn made<R: FromParams, T>(&self, tell: impl Fn(&R) -> T) -> T {
        let rule: Result<R, ParamError> = R::from_params(self.params());
        tell(&rule.expect("a chunker has valid parameters"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ChunkSizes, Params, Secret};
    use onefold_testkit::{random, text};

    /// The definitions above, word for word.
    fn hash(test: &WindowTest, window: &[u8]) -> u64 {
        let t = |at: usize| test.table[at];
        window.iter().fold(0_u64, |h, &e| match test.hash {
            WindowHash::Gear => h.wrapping_mul(2).wrapping_add(t(e.into())),
            WindowHash::Gear32 => h.wrapping_mul(2).wrapping_add(t(e.into())) % (1 << 32),
            WindowHash::Gear16 => h.wrapping_mul(2).wrapping_add(t(e.into())) % (1 << 16),
            WindowHash::Rabin => ((h << 8) % (1 << 53)) ^ t((h >> 45) as usize ^ usize::from(e)),
            WindowHash::Crc => (h >> 8) ^ t((h as usize % 256) ^ usize::from(e)),
            WindowHash::Buzhash => u64::from((h as u32).rotate_left(1)) ^ t(e.into()),
        })
    }

    fn passes(test: &WindowTest, window: &[u8]) -> bool {
        match test.hash {
            WindowHash::Gear | WindowHash::Gear32 => hash(test, window) <= test.limit,
            WindowHash::Gear16 => {
                let (earlier, own) = window.split_at(16);
                hash(test, own) <= test.limit && hash(test, earlier) <= test.strict
            }
            _ => hash(test, window) >= test.limit,
        }
    }

    #[test]
    fn a_chunk_ends_at_the_first_window_that_passes() {
        let sizes = ChunkSizes::new(64, 90, 400).unwrap();
        for algorithm in [
            Algorithm::Gear,
            Algorithm::Gear32,
            Algorithm::Gear16,
            Algorithm::Rabin,
            Algorithm::Crc,
        ]
        .into_iter()
        .chain([Algorithm::Buzhash])
        {
            for secret in [None, algorithm.takes_secret().then(|| Secret::new([3; 32]))] {
                let params = Params { secret, ..Params::new(algorithm, sizes) };
                let chunker = Chunker::new(&params).unwrap();
                let Some(Tables::Window(test)) = chunker.tables() else { panic!("{algorithm}") };
                for data in [random(1, 5000), text(2, 5000)] {
                    let mut start = 0;
                    for cut in chunker.cut_points(&data) {
                        let last = data.len().min(start + 400);
                        let found = (start + 64..=last)
                            .find(|&at| passes(&test, &data[at - test.window..at]));
                        assert_eq!(cut, found.unwrap_or(last), "{algorithm}");
                        start = cut;
                    }
                }
            }
        }
    }

    #[test]
    fn what_leaves_a_window_is_taken_back_by_its_entry() {
        for algorithm in [Algorithm::Rabin, Algorithm::Crc, Algorithm::Buzhash] {
            let chunker = Chunker::new(&Params::for_mean(algorithm, 1000).unwrap()).unwrap();
            let Some(Tables::Window(test)) = chunker.tables() else { panic!("{algorithm}") };
            let data = random(3, test.window + 1);
            let longer = hash(&test, &data) ^ test.table[256 + usize::from(data[0])];
            assert_eq!(longer, hash(&test, &data[1..]), "{algorithm}");
        }
    }

    #[test]
    fn nothing_that_a_secret_made_is_shown() {
        let params = Params::for_mean(Algorithm::Gear, 1000).unwrap();
        let params = Params { secret: Some(Secret::new([3; 32])), ..params };
        let tables = Chunker::new(&params).unwrap().tables().unwrap();
        assert_eq!(format!("{tables:?}"), "Window(WindowTest { hash: Gear, window: 64, .. })");
    }
}
