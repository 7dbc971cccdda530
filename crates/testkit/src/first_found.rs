//! Trials that do not need each other, on all cores.

use std::num::NonZero;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

/// The lowest of `numbers` for which `look` finds something, and what it finds.
///
/// Each core looks for one number after the other, until one has found something. A panic of `look` is passed on.
pub fn first_found<T: Send>(
    numbers: Range<u64>,
    look: impl Fn(u64) -> Option<T> + Sync,
) -> Option<(u64, T)> {
    let next = AtomicU64::new(numbers.start);
    let is_found = AtomicBool::new(false);
    let search = || {
        while !is_found.load(Ordering::Relaxed) {
            // in order, and each is looked at to its end: so no lower one finds anything later
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= numbers.end {
                break;
            }
            if let Some(found) = look(number) {
                is_found.store(true, Ordering::Relaxed);
                return Some((number, found));
            }
        }
        None
    };
    thread::scope(|scope| {
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        let searches: Vec<_> = (0..cores).map(|_| scope.spawn(search)).collect();
        let found = searches.into_iter().map(|search| match search.join() {
            Ok(found) => found,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        found.flatten().min_by_key(|(number, _)| *number)
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_lowest_number_that_finds_something_counts() {
        // the lower one takes longer
        let slow = |number| {
            thread::sleep(Duration::from_millis(if number == 7 { 50 } else { 1 }));
            (number == 7 || number == 8).then_some(number * 10)
        };
        assert_eq!(first_found(0..1_000, slow), Some((7, 70)));
    }

    #[test]
    fn all_numbers_are_looked_at_once_if_none_finds_anything() {
        let seen = Mutex::new(Vec::new());
        let look = |number| {
            seen.lock().unwrap().push(number);
            None::<()>
        };
        assert_eq!(first_found(3..100, look), None);
        let mut seen = seen.into_inner().unwrap();
        seen.sort_unstable();
        assert_eq!(seen, (3..100).collect::<Vec<_>>());
    }

    #[test]
    #[should_panic(expected = "the fifth")]
    fn a_panic_is_passed_on() {
        first_found(0..10, |number| {
            assert_ne!(number, 5, "the fifth");
            None::<()>
        });
    }
}
