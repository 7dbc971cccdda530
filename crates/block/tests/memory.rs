//! The device in memory against a plain array.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use onefold_block::{BlockDevice, BlockError, BlockSize, Durability, Extent, MemoryDevice, Zeroes};
use onefold_testkit::SplitMix64;

const SIZES: [BlockSize; 2] = [BlockSize::B512, BlockSize::B4096];

/// What a device is: bytes, and of each block whether it has space.
struct Model {
    block: usize,
    bytes: Vec<u8>,
    has_space: Vec<bool>,
}

impl Model {
    fn new(size: usize, block_size: BlockSize) -> Model {
        let block = block_size.bytes() as usize;
        Model { block, bytes: vec![0; size], has_space: vec![false; size / block] }
    }

    fn write(&mut self, offset: usize, data: &[u8]) {
        self.bytes[offset..offset + data.len()].copy_from_slice(data);
        for byte in offset..offset + data.len() {
            self.has_space[byte / self.block] = true;
        }
    }

    fn erase(&mut self, range: Range<usize>) {
        for block in 0..self.has_space.len() {
            if range.start <= block * self.block && (block + 1) * self.block <= range.end {
                self.bytes[block * self.block..(block + 1) * self.block].fill(0);
                self.has_space[block] = false;
            }
        }
    }

    fn write_zeroes(&mut self, range: Range<usize>, keep_space: bool) {
        if keep_space {
            self.write(range.start, &vec![0; range.len()]);
        } else {
            self.bytes[range.clone()].fill(0);
            self.erase(range);
        }
    }

    fn resize(&mut self, size: usize) {
        self.bytes.resize(size, 0);
        self.has_space.resize(size / self.block, false);
    }
}

/// Whether each byte of `range` has space, as the device's extents say.
fn spaces(device: &MemoryDevice, range: Range<u64>, max: usize) -> Vec<bool> {
    let mut spaces = Vec::new();
    let mut start = range.start;
    while start < range.end {
        let extents = device.extents(start..range.end, max).unwrap();
        assert!(!extents.is_empty() && extents.len() <= max, "{extents:?}, at most {max}");
        for extent in extents {
            assert!(extent.len() > 0, "an empty extent at {start}");
            let has_space = matches!(extent, Extent::Data(_));
            spaces.extend(std::iter::repeat_n(has_space, extent.len() as usize));
            start += extent.len();
        }
    }
    assert_eq!(start, range.end, "extents reach beyond what was asked for");
    spaces
}

#[test]
fn any_sequence_of_calls_does_what_it_does_to_an_array() {
    for (seed, block_size) in (0..6).flat_map(|seed| SIZES.map(|size| (seed, size))) {
        let mut random = SplitMix64::new(seed);
        let block = block_size.bytes() as usize;
        let mut size = 300 << 10;
        let device = MemoryDevice::new(size as u64, block_size).unwrap();
        let mut model = Model::new(size, block_size);
        for step in 0..400 {
            let offset = random.below(size + 1);
            let longest = [block + 1, 20_000, 200_000][random.below(3)].min(size - offset);
            let (len, kind) = (random.below(longest + 1), random.below(8));
            // every other call is of whole blocks
            let (offset, len) = match random.below(2) {
                0 => (offset / block * block, len / block * block),
                _ => (offset, len),
            };
            let (range, bytes) = (offset as u64..(offset + len) as u64, offset..offset + len);
            match kind {
                0..=2 => {
                    let data: Vec<u8> = (0..len).map(|_| random.next_u64() as u8).collect();
                    device.write(range.start, &data, Durability::OnFlush).unwrap();
                    model.write(offset, &data);
                }
                3 => {
                    device.erase(range.clone(), Durability::OnReturn).unwrap();
                    model.erase(bytes.clone());
                }
                4 | 5 => {
                    let zeroes = Zeroes { keep_space: kind == 4, only_if_fast: false };
                    device.write_zeroes(range.clone(), zeroes, Durability::OnFlush).unwrap();
                    model.write_zeroes(bytes.clone(), kind == 4);
                }
                6 if step % 5 == 0 => {
                    size = (1 + random.below(100)) * 4096;
                    device.resize(size as u64).unwrap();
                    model.resize(size);
                    assert_eq!(device.size(), size as u64);
                    continue;
                }
                _ => device.flush().unwrap(),
            }
            let mut read = vec![0xAA; len];
            device.read(range.start, &mut read).unwrap();
            assert!(read == model.bytes[bytes.clone()], "seed {seed}, step {step}: {range:?}");
            let expected: Vec<bool> = bytes.map(|byte| model.has_space[byte / block]).collect();
            let found = spaces(&device, range.clone(), 1 + random.below(5));
            assert!(found == expected, "seed {seed}, step {step}: {range:?}");
        }
        let mut read = vec![0xAA; size];
        device.read(0, &mut read).unwrap();
        assert!(read == model.bytes, "seed {seed}: the whole device");
    }
}

#[test]
fn what_reaches_beyond_the_end_is_refused_and_changes_nothing() {
    let device = MemoryDevice::new(8192, BlockSize::B4096).unwrap();
    let is_refused = |result: Result<(), BlockError>| {
        assert!(matches!(result, Err(BlockError::OutOfRange { size: 8192, .. })), "{result:?}");
    };
    for (offset, len) in [(8192, 1), (8191, 2), (0, 8193), (u64::MAX, 1), (u64::MAX - 1, 2)] {
        let mut buffer = vec![7; len as usize];
        is_refused(device.read(offset, &mut buffer));
        is_refused(device.write(offset, &buffer, Durability::OnFlush));
        if let Some(end) = offset.checked_add(len) {
            is_refused(device.erase(offset..end, Durability::OnFlush));
            is_refused(device.write_zeroes(offset..end, Zeroes::default(), Durability::OnFlush));
            is_refused(device.cache(offset..end));
            is_refused(device.extents(offset..end, 1).map(|_| ()));
        }
    }
    device.write(8192, &[], Durability::OnFlush).unwrap();
    assert_eq!(device.allocated(), 0);
}

#[test]
fn zeroes_that_keep_space_are_not_fast() {
    let device = MemoryDevice::new(8192, BlockSize::B512).unwrap();
    device.write(0, &[1; 8192], Durability::OnFlush).unwrap();
    let zeroes = Zeroes { keep_space: true, only_if_fast: true };
    let refused = device.write_zeroes(0..8192, zeroes, Durability::OnFlush);
    assert!(matches!(refused, Err(BlockError::Slow)), "{refused:?}");
    let mut read = [0; 1];
    device.read(100, &mut read).unwrap();
    assert_eq!(read, [1], "a refused call changed something");
    let zeroes = Zeroes { keep_space: false, only_if_fast: true };
    device.write_zeroes(0..8192, zeroes, Durability::OnFlush).unwrap();
    assert_eq!(device.extents(0..8192, 9).unwrap(), [Extent::Hole(8192)]);
}

#[test]
fn a_large_device_takes_memory_for_what_is_written_and_gives_it_back() {
    let size = 1 << 60;
    let device = MemoryDevice::new(size, BlockSize::B4096).unwrap();
    device.write(size - 4096, &[1; 4096], Durability::OnFlush).unwrap();
    device.write(5 << 40, &[1; 100], Durability::OnFlush).unwrap();
    assert_eq!(device.allocated(), 2 * (64 << 10));
    device.erase(size - 4096..size, Durability::OnFlush).unwrap();
    assert_eq!(device.allocated(), 64 << 10);
    device.resize(1 << 40).unwrap();
    assert_eq!(device.allocated(), 0);
}

#[test]
fn a_size_is_a_multiple_of_the_block_size() {
    assert!(matches!(
        MemoryDevice::new(1000, BlockSize::B512),
        Err(BlockError::BadSize { size: 1000, .. })
    ));
    let device = MemoryDevice::new(512, BlockSize::B512).unwrap();
    assert!(matches!(device.resize(513), Err(BlockError::BadSize { size: 513, .. })));
    assert_eq!(device.size(), 512);
}

#[test]
fn no_reader_sees_a_torn_block() {
    let device = MemoryDevice::new(64 << 10, BlockSize::B4096).unwrap();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for byte in [1, 2] {
            let (device, stop) = (&device, &stop);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    device.write(0, &[byte; 8192], Durability::OnFlush).unwrap();
                }
            });
        }
        let mut read = [0; 8192];
        for _ in 0..2000 {
            device.read(0, &mut read).unwrap();
            let is_whole = |block: &[u8]| block.iter().all(|byte| *byte == block[0]);
            let whole = read.chunks(4096).all(is_whole);
            if !whole {
                stop.store(true, Ordering::Relaxed);
            }
            assert!(whole, "a block has bytes of two writes");
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn many_writes_are_done_one_after_another_where_nothing_else_is_said() {
    let device = MemoryDevice::new(8192, BlockSize::B512).unwrap();
    device.write_many(&[(1, &[1; 3]), (4000, &[2; 600])], Durability::OnReturn).unwrap();
    let mut found = vec![9; 8192];
    device.read(0, &mut found).unwrap();
    let mut expected = vec![0; 8192];
    expected[1..4].fill(1);
    expected[4000..4600].fill(2);
    assert_eq!(found, expected);
    let error = device.write_many(&[(8190, &[1; 3])], Durability::OnFlush).unwrap_err();
    assert!(matches!(error, BlockError::OutOfRange { .. }), "{error}");
}
