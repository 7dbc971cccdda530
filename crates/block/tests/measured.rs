//! What is counted of a device is what was asked of it.

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use onefold_block::{
    BlockDevice, BlockError, BlockSize, Durability, LATENCIES, Measured, MeasuredDevice,
    Measurements, MemoryDevice, Operation, Zeroes,
};

const MIB: u64 = 1 << 20;
const NOW: Durability = Durability::OnReturn;

type Failures = Arc<Mutex<Vec<(Operation, std::ops::Range<u64>)>>>;

fn measured() -> (MeasuredDevice<MemoryDevice>, Arc<Measurements>, Failures) {
    let (measurements, failures) = (Arc::new(Measurements::default()), Failures::default());
    let device = MemoryDevice::new(MIB, BlockSize::B512).unwrap();
    let heard = Arc::clone(&failures);
    let on_error = move |operation, range, _: &BlockError| {
        heard.lock().unwrap().push((operation, range));
    };
    (MeasuredDevice::new(device, Arc::clone(&measurements), on_error), measurements, failures)
}

#[test]
fn calls_and_bytes_are_counted_by_operation() {
    let (device, measurements, failures) = measured();
    device.write(0, &[1; 5000], NOW).unwrap();
    device.write(9000, &[2; 100], NOW).unwrap();
    let mut bytes = [0; 200];
    device.read(8950, &mut bytes).unwrap();
    assert_eq!((bytes[49], bytes[50], bytes[149], bytes[150]), (0, 2, 2, 0));
    device.erase(0..1024, NOW).unwrap();
    device.write_zeroes(1024..1100, Zeroes::default(), NOW).unwrap();
    device.flush().unwrap();
    device.flush().unwrap();
    let counts = Operation::ALL.map(|operation| {
        let found = measurements.of(operation);
        assert_eq!(found.errors, [0; 3]);
        (found.count(), found.bytes)
    });
    assert_eq!(counts, [(1, 200), (2, 5100), (1, 1024), (1, 76), (2, 0)]);
    assert!(failures.lock().unwrap().is_empty());
    // what is not counted is passed on
    device.resize(2 * MIB).unwrap();
    assert_eq!((device.size(), device.block_size()), (2 * MIB, BlockSize::B512));
    device.cache(0..10).unwrap();
    assert!(!device.extents(0..10, 4).unwrap().is_empty());
}

#[test]
fn a_request_that_came_to_no_device_is_a_failure_and_no_call() {
    let (_, measurements, failures) = measured();
    measurements.refuse(Operation::Erase);
    let found = measurements.of(Operation::Erase);
    assert_eq!((found.count(), found.bytes, found.errors), (0, 0, [0, 0, 1]));
    assert!(failures.lock().unwrap().is_empty());
}

#[test]
fn writes_at_once_count_one_by_one_unless_they_fail() {
    let (device, measurements, failures) = measured();
    device.write_many(&[(0, &[1; 10]), (100, &[2; 20])], NOW).unwrap();
    device.write_many(&[(0, &[3; 10]), (MIB, &[2; 20])], NOW).unwrap_err();
    let found = measurements.of(Operation::Write);
    assert_eq!((found.count(), found.bytes, found.errors), (2, 30, [0; 3]));
    assert!(failures.lock().unwrap().is_empty());
}

#[test]
fn failures_are_counted_and_told_with_their_place() {
    let (device, measurements, failures) = measured();
    device.read(MIB - 10, &mut [0; 11]).unwrap_err();
    device.write(u64::MAX, &[0; 2], NOW).unwrap_err();
    let read = measurements.of(Operation::Read);
    assert_eq!((read.errors, read.bytes, read.count()), ([0, 0, 1], 0, 1));
    assert_eq!(measurements.of(Operation::Write).errors, [0, 0, 1]);
    let told = failures.lock().unwrap().clone();
    assert_eq!(told[0], (Operation::Read, MIB - 10..MIB + 1));
    assert_eq!(told[1], (Operation::Write, u64::MAX..u64::MAX));
}

/// A device of which every call takes as long, and seven writes are worth being one.
struct Slow(Duration);

impl BlockDevice for Slow {
    fn writes_at_once(&self) -> usize {
        7
    }

    fn size(&self) -> u64 {
        MIB
    }

    fn block_size(&self) -> BlockSize {
        BlockSize::B512
    }

    fn read(&self, _: u64, _: &mut [u8]) -> Result<(), BlockError> {
        thread::sleep(self.0);
        Err(BlockError::NoSpace { object: "nowhere".into() })
    }

    fn write(&self, _: u64, _: &[u8], _: Durability) -> Result<(), BlockError> {
        let source = "broken".into();
        Err(BlockError::Io { object: "it".into(), source })
    }

    fn erase(&self, _: std::ops::Range<u64>, _: Durability) -> Result<(), BlockError> {
        Ok(())
    }

    fn write_zeroes(
        &self,
        _: std::ops::Range<u64>,
        _: Zeroes,
        _: Durability,
    ) -> Result<(), BlockError> {
        Ok(())
    }

    fn flush(&self) -> Result<(), BlockError> {
        Ok(())
    }

    fn cache(&self, _: std::ops::Range<u64>) -> Result<(), BlockError> {
        Ok(())
    }

    fn extents(
        &self,
        _: std::ops::Range<u64>,
        _: usize,
    ) -> Result<Vec<onefold_block::Extent>, BlockError> {
        Ok(Vec::new())
    }
}

#[test]
fn calls_are_in_the_bucket_of_what_they_took() {
    let measurements = Arc::new(Measurements::default());
    let slept = Duration::from_millis(12);
    let device = MeasuredDevice::new(Slow(slept), Arc::clone(&measurements), |_, _, _| {});
    for _ in 0..3 {
        device.read(0, &mut []).unwrap_err();
    }
    device.write(0, &[], NOW).unwrap_err();
    assert_eq!(device.writes_at_once(), 7);
    let Measured { buckets, time, errors, .. } = measurements.of(Operation::Read);
    // a sleep may take longer than it should, never shorter
    let first = LATENCIES.iter().position(|bound| *bound >= slept).unwrap();
    assert_eq!(LATENCIES[first], Duration::from_millis(20));
    assert_eq!(buckets[..first].iter().sum::<u64>(), 0);
    assert_eq!(buckets[first..].iter().sum::<u64>(), 3);
    assert!(time >= 3 * slept, "{time:?}");
    assert_eq!(errors, [3, 0, 0]);
    assert_eq!(measurements.of(Operation::Write).errors, [0, 1, 0]);
}

#[test]
fn nothing_that_threads_count_is_lost() {
    let (device, measurements, _) = measured();
    thread::scope(|scope| {
        for _ in 0..40 {
            scope.spawn(|| (0..500).for_each(|_| device.read(0, &mut [0; 3]).unwrap()));
        }
    });
    let read = measurements.of(Operation::Read);
    assert_eq!((read.count(), read.bytes), (20_000, 60_000));
}
