use std::fmt;
use std::sync::{Arc, Mutex};

use crate::{Argument, Device, GpuError, Info, Kernel, Lane, Memory, Resident, Slot};

/// A device whose lanes are kept for the next run, since memory that a device reads from takes long to get.
pub struct KeptLanes<'a> {
    device: Box<dyn Device + 'a>,
    free: Free,
}

/// Lanes that no run has, with the memory that they were asked for.
type Free = Arc<Mutex<Vec<(usize, Memory, Box<dyn Lane>)>>>;

impl<'a> KeptLanes<'a> {
    /// Keeps the lanes of `device`.
    pub fn new(device: Box<dyn Device + 'a>) -> Self {
        Self { device, free: Free::default() }
    }
}

impl fmt::Debug for KeptLanes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeptLanes({})", self.info())
    }
}

impl Device for KeptLanes<'_> {
    fn info(&self) -> &Info {
        self.device.info()
    }

    fn settle(&self) -> Result<(), GpuError> {
        self.device.settle()
    }

    fn ensure_resident(&self, data: Resident) -> Result<(), GpuError> {
        self.device.ensure_resident(data)
    }

    fn lane(&self, bytes: usize, memory: Memory) -> Result<Box<dyn Lane>, GpuError> {
        let mut free = self.free.lock().expect("no one panics while it has the lanes");
        let found = free.iter().position(|&(len, kind, _)| (len, kind) == (bytes, memory));
        let lane = match found {
            Some(place) => free.swap_remove(place).2,
            None => self.device.lane(bytes, memory)?,
        };
        let home = Arc::clone(&self.free);
        Ok(Box::new(KeptLane { lane: Some(lane), bytes, memory, has_failed: false, home }))
    }
}

/// A lane that goes back when it is dropped, unless one of its calls failed.
struct KeptLane {
    /// None only while it is dropped.
    lane: Option<Box<dyn Lane>>,
    bytes: usize,
    memory: Memory,
    has_failed: bool,
    home: Free,
}

impl Drop for KeptLane {
    fn drop(&mut self) {
        if let (Some(lane), false) = (self.lane.take(), self.has_failed)
            && let Ok(mut free) = self.home.lock()
        {
            free.push((self.bytes, self.memory, lane));
        }
    }
}

impl KeptLane {
    fn noted(
        &mut self,
        call: impl FnOnce(&mut dyn Lane) -> Result<(), GpuError>,
    ) -> Result<(), GpuError> {
        let done = call(&mut **self.lane.as_mut().expect("it is not dropped"));
        self.has_failed |= done.is_err();
        done
    }
}

impl Lane for KeptLane {
    fn device(&self) -> &str {
        self.lane.as_ref().expect("it is not dropped").device()
    }

    fn input(&mut self) -> &mut [u8] {
        self.lane.as_mut().expect("it is not dropped").input()
    }

    fn upload(&mut self, len: usize) -> Result<(), GpuError> {
        self.noted(|lane| lane.upload(len))
    }

    fn lend(&mut self, data: Resident) -> Result<(), GpuError> {
        self.noted(|lane| lane.lend(data))
    }

    fn copy_resident(&mut self, data: Resident) -> Result<(), GpuError> {
        self.noted(|lane| lane.copy_resident(data))
    }

    fn reserve(&mut self, slot: Slot, bytes: usize) -> Result<(), GpuError> {
        self.noted(|lane| lane.reserve(slot, bytes))
    }

    fn write(&mut self, slot: Slot, bytes: &[u8]) -> Result<(), GpuError> {
        self.noted(|lane| lane.write(slot, bytes))
    }

    fn read(&mut self, slot: Slot, into: &mut [u8]) -> Result<(), GpuError> {
        self.noted(|lane| lane.read(slot, into))
    }

    fn launch(
        &mut self,
        kernel: Kernel,
        groups: usize,
        arguments: &[Argument],
    ) -> Result<(), GpuError> {
        self.noted(|lane| lane.launch(kernel, groups, arguments))
    }

    fn wait(&mut self) -> Result<(), GpuError> {
        self.noted(|lane| lane.wait())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Fault, Simulated};

    #[test]
    fn a_lane_is_used_again_unless_it_failed() {
        let lane = |device: &dyn Device, bytes| device.lane(bytes, Memory::Pinned).unwrap();
        let working = Simulated::new();
        let device = KeptLanes::new(Box::new(working.clone()));
        drop((lane(&device, 100), lane(&device, 100)));
        let made = working.calls();
        drop((lane(&device, 100), lane(&device, 100)));
        assert_eq!(working.calls(), made);
        drop(lane(&device, 200));
        assert_ne!(working.calls(), made);
        let failing = Simulated::new().with_fault(Fault::LostAt(1));
        let device = KeptLanes::new(Box::new(failing));
        lane(&device, 100).upload(3).unwrap_err();
        assert!(device.lane(100, Memory::Pinned).is_err());
    }
}
