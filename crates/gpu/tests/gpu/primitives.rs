//! Each primitive by itself: as C++ under sanitizers and, those that differ there, in OpenCL.

use onefold_testkit::{SplitMix64, random};

use crate::shim::{ADDRESS, Shim, THREAD, Value, shim};

const GROUP: usize = 128;
const GROUPS: usize = 3;
const COUNT: usize = GROUP * GROUPS;

fn words(numbers: &[u32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

fn read(bytes: &[u8]) -> Vec<u32> {
    bytes.as_chunks().0.iter().copied().map(u32::from_le_bytes).collect()
}

fn read_wide(bytes: &[u8]) -> Vec<u64> {
    bytes.as_chunks().0.iter().copied().map(u64::from_le_bytes).collect()
}

fn run(shim: &Shim, kernel: &str, arrays: &mut [Vec<u8>]) {
    let arguments: Vec<Value> = (0..arrays.len()).map(Value::Array).collect();
    shim.run(kernel, GROUPS, &arguments, arrays).unwrap();
}

fn numbers(seed: u64, below: usize) -> Vec<u32> {
    let mut numbers = SplitMix64::new(seed);
    (0..COUNT).map(|_| numbers.below(below) as u32).collect()
}

fn sums(shim: &Shim) {
    for below in [1, 2, 1000, 1 << 24] {
        let numbers = numbers(1, below);
        let mut arrays = [words(&numbers), vec![0; 8 * COUNT]];
        run(shim, "test_sums", &mut arrays);
        let found = read(&arrays[1]);
        for (at, pair) in found.as_chunks::<2>().0.iter().enumerate() {
            let start = at / GROUP * GROUP;
            let before: u32 = numbers[start..at].iter().sum();
            let all: u32 = numbers[start..start + GROUP].iter().sum();
            assert_eq!(*pair, [before, all], "{at}");
        }
    }
}

fn least(shim: &Shim) {
    let keys = random(2, 8 * COUNT);
    let numbers = read_wide(&keys);
    let mut arrays = [keys, vec![0; 8 * COUNT]];
    run(shim, "test_least", &mut arrays);
    for (at, found) in read_wide(&arrays[1]).into_iter().enumerate() {
        let group = &numbers[at / GROUP * GROUP..][..GROUP];
        assert_eq!(Some(found), group.iter().copied().min(), "{at}");
    }
}

fn append(shim: &Shim) {
    let numbers = numbers(3, 5);
    let total: u32 = numbers.iter().sum();
    let mut arrays = [words(&numbers), vec![0xff; 4 * total as usize], words(&[0])];
    run(shim, "test_append", &mut arrays);
    assert_eq!(read(&arrays[2]), [total]);
    let mut found = read(&arrays[1]);
    // in one piece each, in any order
    found.dedup();
    found.sort_unstable();
    let with_any = (0..).zip(&numbers).filter(|(_, count)| **count > 0).map(|(at, _)| at);
    assert_eq!(found, with_any.collect::<Vec<u32>>());
}

fn copy(shim: &Shim) {
    let bytes = random(4, 16 * COUNT);
    let mut arrays = [bytes.clone(), vec![0; 16 * COUNT]];
    run(shim, "test_copy", &mut arrays);
    for (at, found) in arrays[1].chunks(16).enumerate() {
        let neighbour = at / GROUP * GROUP + (at + 1) % GROUP;
        assert_eq!(found, &bytes[16 * neighbour..][..16], "{at}");
    }
}

fn words_at_any_byte(shim: &Shim) {
    // seven bytes behind the last that is read may be read as well
    let bytes = random(5, (COUNT + 7).next_multiple_of(4));
    let mut arrays = [bytes.clone(), vec![0; 4 * COUNT]];
    run(shim, "test_words", &mut arrays);
    for (at, found) in read(&arrays[1]).into_iter().enumerate() {
        let expected: [u8; 4] = bytes[at..at + 4].try_into().unwrap();
        assert_eq!(found, u32::from_be_bytes(expected), "{at}");
    }
}

fn shared(shim: &Shim) {
    let numbers = numbers(6, 1 << 30);
    let mut arrays = [words(&numbers), vec![0; 4 * COUNT]];
    run(shim, "test_shared", &mut arrays);
    let turned: Vec<u32> =
        numbers.chunks(GROUP).flat_map(|group| group.iter().rev().copied()).collect();
    assert_eq!(read(&arrays[1]), turned);
}

fn rotate(shim: &Shim) {
    let bytes = random(7, 8 * COUNT);
    let numbers = read_wide(&bytes);
    let mut arrays = [bytes, vec![0; 16 * COUNT]];
    run(shim, "test_rotate", &mut arrays);
    for (at, &[wide, halves]) in read_wide(&arrays[1]).as_chunks().0.iter().enumerate() {
        let (number, item) = (numbers[at], at % GROUP);
        let by = 1 + (item % 31) as u32;
        assert_eq!(wide, number.rotate_left(1 + (item % 63) as u32), "{at}");
        let low = number as u32;
        let expected = u64::from(low.rotate_left(by)) << 32 | u64::from(low.rotate_right(by));
        assert_eq!(halves, expected, "{at}");
    }
}

fn all(shim: &Shim) {
    sums(shim);
    least(shim);
    append(shim);
    copy(shim);
    words_at_any_byte(shim);
    shared(shim);
    rotate(shim);
}

#[test]
fn primitives_do_what_they_say_and_touch_no_memory_but_their_own() {
    let Some(shim) = shim(ADDRESS) else { return };
    all(&shim);
}

#[test]
fn primitives_have_the_barriers_that_they_need() {
    let Some(shim) = shim(THREAD) else { return };
    all(&shim);
}

#[test]
fn an_access_behind_an_array_is_found() {
    let Some(shim) = shim(ADDRESS) else { return };
    let mut arrays = [words(&[0; COUNT]), vec![0; 4 * COUNT - 4]];
    let arguments = [Value::Array(0), Value::Array(1)];
    let error = shim.run("test_shared", GROUPS, &arguments, &mut arrays).unwrap_err();
    assert!(error.contains("heap-buffer-overflow"), "{error}");
}
