//! Which containers to condemn.

use super::options::Unused;

/// What a prune knows of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Candidate {
    /// Its number.
    pub(super) number: u32,
    /// Its length in bytes.
    pub(super) size: u64,
    /// Bytes of its chunks, before compression.
    pub(super) chunk_bytes: u64,
    /// Of these, bytes of live ones.
    pub(super) live_bytes: u64,
    /// How many chunks these are.
    pub(super) live_chunks: u64,
}

/// An entry of an index run, which a copied chunk takes besides.
const ENTRY: u64 = 44;

/// Headers, footers and checks of the containers, the run and the mark that any repacking writes.
const OVERHEAD: u64 = 512;

impl Candidate {
    /// About how many of its bytes nobody needs.
    pub(super) fn unused(&self) -> u64 {
        let dead = u128::from(self.chunk_bytes - self.live_bytes.min(self.chunk_bytes));
        (u128::from(self.size) * dead / u128::from(self.chunk_bytes.max(1))) as u64
    }

    /// How many bytes fewer the repository takes once it is repacked, about; none if it takes more.
    ///
    /// A copy takes up to a thirty-second more than its share of the container: chunks that lose
    /// their neighbours shrink less.
    fn gain(&self) -> u64 {
        let used = self.size - self.unused();
        self.unused().saturating_sub(used / 32 + ENTRY * self.live_chunks)
    }
}

/// What is to become of the containers; those in no list stay.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Choice {
    /// Nothing in them is live.
    pub(super) dead: Vec<Candidate>,
    /// What is live in them is copied first.
    pub(super) repack: Vec<Candidate>,
    /// The same, only because they are small.
    pub(super) merge: Vec<Candidate>,
    /// Bytes that stay though nobody needs them.
    pub(super) unused: u64,
}

/// Chooses all dead containers, and of the others those that waste the largest share of
/// themselves, until no more than `max_unused` would be wasted in all. No more than `max_repack`
/// bytes of containers are repacked, and none of which the copy would take what is freed.
pub(super) fn choose(
    candidates: impl IntoIterator<Item = Candidate>,
    max_unused: Unused,
    max_repack: u64,
) -> Choice {
    let (dead, mut partly): (Vec<_>, Vec<_>) =
        candidates.into_iter().partition(|candidate| candidate.live_bytes == 0);
    let mut unused: u64 = partly.iter().map(Candidate::unused).sum();
    let used = partly.iter().map(|candidate| candidate.size).sum::<u64>() - unused;
    let limit = max_unused.of(used);
    // The share unused / size, from the largest, compared without rounding.
    partly.sort_by(|a, b| {
        let share = |a: &Candidate, b: &Candidate| u128::from(a.unused()) * u128::from(b.size);
        share(b, a).cmp(&share(a, b)).then(a.number.cmp(&b.number))
    });
    let mut choice = Choice { dead, ..Choice::default() };
    let (mut repacked, mut gain) = (0, 0);
    for candidate in &partly {
        let is_wasteful = candidate.gain() > 0 && unused > limit;
        if is_wasteful && repacked + candidate.size <= max_repack {
            repacked += candidate.size;
            unused -= candidate.unused();
            gain += candidate.gain();
            choice.repack.push(*candidate);
        }
    }
    if gain <= OVERHEAD {
        unused += choice.repack.drain(..).map(|candidate| candidate.unused()).sum::<u64>();
    }
    choice.unused = unused;
    choice
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A container of 100,000 bytes, in a hundred chunks, of which `live` percent are needed.
    fn container(number: u32, live: u64) -> Candidate {
        let (chunk_bytes, live_bytes) = (200, 2 * live);
        Candidate { number, size: 100_000, chunk_bytes, live_bytes, live_chunks: live }
    }

    fn repacked(live: &[u64], max_unused: Unused, max_repack: u64) -> Vec<u32> {
        let candidates = (0..).zip(live).map(|(number, live)| container(number, *live));
        let choice = choose(candidates, max_unused, max_repack);
        choice.repack.iter().map(|candidate| candidate.number).collect()
    }

    #[test]
    fn dead_containers_go_whatever_the_limits_are() {
        let choice = choose([container(0, 0), container(1, 50)], Unused::Unlimited, 0);
        assert_eq!(choice.dead, [container(0, 0)]);
        assert!(choice.repack.is_empty());
        assert_eq!(choice.unused, 50_000);
    }

    #[test]
    fn the_most_wasteful_are_repacked_until_little_is_wasted() {
        // 10 + 90 + 40 of 300 KB are unused, 160 used. At most a fifth of what is left may be
        // unused, that is 40: it takes the second and the third.
        let live = [90, 10, 60];
        assert_eq!(repacked(&live, Unused::Percent(20.0), u64::MAX), [1, 2]);
        // 50 KB may be: the second is enough.
        assert_eq!(repacked(&live, Unused::Bytes(50_000), u64::MAX), [1]);
        assert_eq!(repacked(&live, Unused::Bytes(49_999), u64::MAX), [1, 2]);
        assert_eq!(repacked(&live, Unused::Bytes(0), u64::MAX), [1, 2, 0]);
        assert_eq!(repacked(&live, Unused::Unlimited, u64::MAX), [] as [u32; 0]);
    }

    #[test]
    fn what_is_wholly_needed_is_never_repacked() {
        assert_eq!(repacked(&[100, 100], Unused::Bytes(0), u64::MAX), [] as [u32; 0]);
    }

    #[test]
    fn what_takes_as_much_as_it_frees_is_not_repacked() {
        // A copy of 95 KB takes 3 KB more, and 4 KB of index; one of 92 KB is worth its while.
        assert_eq!(repacked(&[95, 92, 97], Unused::Bytes(0), u64::MAX), [1]);
        let choice = choose([container(0, 95)], Unused::Bytes(0), u64::MAX);
        assert_eq!(choice.unused, 5000);
        let small = Candidate { size: 700, ..container(0, 10) };
        assert!(small.gain() < OVERHEAD && small.gain() > 0);
        let choice = choose([small], Unused::Bytes(0), u64::MAX);
        assert_eq!((choice.repack, choice.unused), (vec![], 630));
    }

    #[test]
    fn no_more_is_repacked_than_allowed() {
        assert_eq!(repacked(&[10, 20, 30], Unused::Bytes(0), 299_999), [0, 1]);
        assert_eq!(repacked(&[10, 20, 30], Unused::Bytes(0), 99_999), [] as [u32; 0]);
    }
}
