//! Pages that threads are about to append, so that two who were given the same pages at once do not
//! both compress them: the second waits for the first and finds them in the table.
//!
//! A claim is a hint: who has none, or finds a page claimed that is another one, does the work, and
//! whether a page is there already is looked up once more with the appender's lock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex};

use onefold_fingerprint::Fingerprint;

/// Some times as many as pages are on their way: 16 threads have 4,096.
const PLACES: usize = 1 << 14;

/// Who waits looks at most so many times whether pages are claimed. More look where a page is claimed
/// again and again, because the table of fingerprints has no room for it.
const MOST_LOOKS: usize = 256;

/// What is claimed, by the first bytes of fingerprints.
pub(crate) struct Claims {
    /// 0 where nothing is. Where another page is, no claim is made.
    places: Box<[AtomicU64]>,
    /// How many threads wait.
    waiting: Mutex<usize>,
    released: Condvar,
}

/// The claims of one thread, until this is dropped.
pub(crate) struct Claimed<'a> {
    claims: &'a Claims,
    /// Where they are.
    places: Vec<usize>,
}

/// What a claim on a page is, and its place.
fn key(fingerprint: &Fingerprint) -> (u64, usize) {
    let key = fingerprint.prefix_u64() | 1;
    (key, (key >> 1) as usize % PLACES)
}

impl Claims {
    pub(crate) fn new() -> Self {
        let places = (0..PLACES).map(|_| AtomicU64::new(0)).collect();
        Self { places, waiting: Mutex::new(0), released: Condvar::new() }
    }

    /// No claims yet.
    pub(crate) fn begin(&self) -> Claimed<'_> {
        Claimed { claims: self, places: Vec::new() }
    }

    /// Returns once each of these pages has been claimed by nobody for a moment, or others came and
    /// went [`MOST_LOOKS`] times. Who calls has no claims.
    pub(crate) fn wait<'f>(&self, pages: impl IntoIterator<Item = &'f Fingerprint>) {
        let mut waiting = self.waiting.lock().expect("nobody panics with it");
        *waiting += 1;
        let mut looks = 0;
        for page in pages {
            let (key, place) = key(page);
            while self.places[place].load(Ordering::Acquire) == key && looks < MOST_LOOKS {
                looks += 1;
                waiting = self.released.wait(waiting).expect("nobody panics with it");
            }
        }
        *waiting -= 1;
    }

    /// How many threads wait.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        *self.waiting.lock().expect("nobody panics with it")
    }
}

impl Claimed<'_> {
    /// Claims a page; false if another one did.
    pub(crate) fn claim(&mut self, page: &Fingerprint) -> bool {
        let (key, place) = key(page);
        let at = &self.claims.places[place];
        match at.compare_exchange(0, key, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => {
                self.places.push(place);
                true
            }
            Err(found) => found != key,
        }
    }
}

impl Drop for Claimed<'_> {
    fn drop(&mut self) {
        for place in &self.places {
            self.claims.places[*place].store(0, Ordering::Release);
        }
        // who waits looks at places with this lock
        if *self.claims.waiting.lock().expect("nobody panics with it") > 0 {
            self.claims.released.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    fn page(first: u64, last: u8) -> Fingerprint {
        let mut bytes = [last; Fingerprint::LEN];
        bytes[..8].copy_from_slice(&first.to_be_bytes());
        Fingerprint::from_bytes(bytes)
    }

    fn wait_for_one(claims: &Claims) {
        while claims.waiting() == 0 {
            thread::yield_now();
        }
    }

    #[test]
    fn a_page_has_one_claim_until_that_is_dropped() {
        let claims = Claims::new();
        let (mut one, mut other) = (claims.begin(), claims.begin());
        for first in [0, 1 << 5, u64::MAX] {
            assert!(one.claim(&page(first, 1)));
            assert!(!other.claim(&page(first, 1)));
        }
        // the same place, and another page: nobody waits for it
        let elsewhere = (2 * PLACES as u64) << 3;
        assert_eq!(key(&page(elsewhere, 1)).1, key(&page(0, 1)).1);
        assert!(other.claim(&page(elsewhere, 1)) && other.places.is_empty());
        drop(one);
        assert!(other.claim(&page(elsewhere, 1)) && other.claim(&page(1 << 5, 1)));
        assert_eq!(other.places.len(), 2);
        claims.wait(&[page(0, 1), page(u64::MAX, 1)]);
    }

    #[test]
    fn who_waits_goes_on_when_all_are_free_also_after_a_panic() {
        let claims = Claims::new();
        let pages: Vec<Fingerprint> = (1..100).map(|n| page(n << 1, 1)).collect();
        thread::scope(|scope| {
            let (mut one, mut other) = (claims.begin(), claims.begin());
            pages.iter().for_each(|page| {
                assert!(match page < &pages[50] {
                    true => one.claim(page),
                    false => other.claim(page),
                })
            });
            let waiting = scope.spawn(|| claims.wait(&pages));
            wait_for_one(&claims);
            drop(one);
            assert!(!waiting.is_finished());
            let failed = thread::scope(|inner| {
                inner
                    .spawn(move || {
                        let _other = other;
                        panic!("on purpose");
                    })
                    .join()
            });
            failed.unwrap_err();
            waiting.join().unwrap();
        });
        assert_eq!(claims.waiting(), 0);
    }

    #[test]
    fn nobody_waits_without_end_for_a_page_that_others_claim_again_and_again() {
        let claims = Claims::new();
        let mut held = claims.begin();
        assert!(held.claim(&page(2, 1)));
        thread::scope(|scope| {
            let waiting = scope.spawn(|| claims.wait(&[page(2, 1)]));
            wait_for_one(&claims);
            for _ in 0..1_000_000 {
                if waiting.is_finished() {
                    break;
                }
                // whoever waits sees that somebody came and went, and the page claimed as before
                drop(claims.begin());
                thread::yield_now();
            }
            let is_done = waiting.is_finished();
            drop(held);
            assert!(is_done, "it waits as long as the page is claimed");
        });
        assert_eq!(claims.waiting(), 0);
    }
}
