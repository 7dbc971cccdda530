//! Which containers to condemn.

use super::Unused;

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
}

impl Candidate {
    /// About how many of its bytes nobody needs.
    pub(super) fn unused(&self) -> u64 {
        let dead = u128::from(self.chunk_bytes - self.live_bytes.min(self.chunk_bytes));
        (u128::from(self.size) * dead / u128::from(self.chunk_bytes.max(1))) as u64
    }
}

/// What is to become of the containers; those in neither list stay.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Choice {
    /// Nothing in them is live.
    pub(super) dead: Vec<Candidate>,
    /// What is live in them is copied first.
    pub(super) repack: Vec<Candidate>,
    /// Bytes that stay though nobody needs them.
    pub(super) unused: u64,
}

/// Chooses all dead containers, and of the others those that waste the largest share of
/// themselves, until no more than `max_unused` would be wasted in all. No more than `max_repack`
/// bytes of containers are repacked.
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
    let mut repacked = 0;
    for candidate in partly {
        let is_wasteful = candidate.unused() > 0 && unused > limit;
        if is_wasteful && repacked + candidate.size <= max_repack {
            repacked += candidate.size;
            unused -= candidate.unused();
            choice.repack.push(candidate);
        }
    }
    choice.unused = unused;
    choice
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A container of 1,000 bytes of which `live` percent are needed.
    fn container(number: u32, live: u64) -> Candidate {
        Candidate { number, size: 1000, chunk_bytes: 200, live_bytes: 2 * live }
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
        assert_eq!(choice.unused, 500);
    }

    #[test]
    fn the_most_wasteful_are_repacked_until_little_is_wasted() {
        // 100 + 900 + 400 of 3,000 bytes are unused, 1,600 used. At most a fifth of what is left
        // may be unused, that is 400 bytes: it takes the second and the third.
        let live = [90, 10, 60];
        assert_eq!(repacked(&live, Unused::Percent(20.0), u64::MAX), [1, 2]);
        // 500 bytes may be: the second is enough.
        assert_eq!(repacked(&live, Unused::Bytes(500), u64::MAX), [1]);
        assert_eq!(repacked(&live, Unused::Bytes(499), u64::MAX), [1, 2]);
        assert_eq!(repacked(&live, Unused::Bytes(0), u64::MAX), [1, 2, 0]);
        assert_eq!(repacked(&live, Unused::Unlimited, u64::MAX), [] as [u32; 0]);
    }

    #[test]
    fn what_is_wholly_needed_is_never_repacked() {
        assert_eq!(repacked(&[100, 100], Unused::Bytes(0), u64::MAX), [] as [u32; 0]);
    }

    #[test]
    fn no_more_is_repacked_than_allowed() {
        assert_eq!(repacked(&[10, 20, 30], Unused::Bytes(0), 2999), [0, 1]);
        assert_eq!(repacked(&[10, 20, 30], Unused::Bytes(0), 999), [] as [u32; 0]);
    }
}
