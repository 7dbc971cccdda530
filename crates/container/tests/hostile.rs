//! Footers of strangers cost no more memory than they have bytes.
//!
//! Allocations are counted for the whole process, so this file has one test.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use onefold_container::Directory;
use onefold_seal::wire::Put;
use onefold_seal::{Check, Envelope, Kind, ObjectId};
use onefold_testkit::SplitMix64;

/// The system's allocator, remembering the longest allocation.
struct Watched;

static LONGEST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is passed on to the system's allocator as it is.
unsafe impl GlobalAlloc for Watched {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LONGEST.fetch_max(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller promises what `System` asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller promises what `System` asks for.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, len: usize) -> *mut u8 {
        LONGEST.fetch_max(len, Ordering::Relaxed);
        // SAFETY: the caller promises what `System` asks for.
        unsafe { System.realloc(pointer, layout, len) }
    }
}

#[global_allocator]
static WATCHED: Watched = Watched;

#[test]
fn no_footer_makes_its_reader_allocate_more_than_a_few_times_its_length() {
    let (envelope, id) = (Envelope::plain(ObjectId::random()), ObjectId::random());
    let header = envelope.header(Kind::Container, id);
    let mut numbers = SplitMix64::new(1);
    for _ in 0..100_000 {
        let mut footer = vec![numbers.below(2) as u8];
        while footer.len() < 200 {
            // Numbers of every magnitude, so that counts and lengths are small and huge.
            let bits = numbers.below(64);
            footer.put_varint(numbers.next_u64() >> bits);
            let filler = numbers.below(50);
            footer.extend(std::iter::repeat_n(numbers.below(2) as u8, filler));
        }
        let mut object = [&header[..], &footer].concat();
        let mut len = Vec::new();
        len.put_u32(footer.len() as u32);
        let check = Check::of(&[&header, &footer, &len]);
        object.extend(len);
        object.extend(check.as_bytes());
        LONGEST.store(0, Ordering::Relaxed);
        let _ = Directory::of_object(&envelope, id, &object);
        let longest = LONGEST.load(Ordering::Relaxed);
        assert!(longest <= 10 * object.len(), "{longest} bytes for {footer:?}");
    }
}
