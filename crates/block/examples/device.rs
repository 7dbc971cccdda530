//! Writes to a device in memory, reads back, and shows what its calls took.

use std::sync::Arc;

use onefold_block::{
    BlockDevice, BlockError, BlockSize, Durability, MeasuredDevice, Measurements, MemoryDevice,
};

fn main() -> Result<(), BlockError> {
    let measurements = Arc::new(Measurements::default());
    let memory = MemoryDevice::new(1 << 20, BlockSize::B4096)?;
    let device =
        MeasuredDevice::new(memory, Arc::clone(&measurements), |operation, range, error| {
            println!("{operation:?} of {range:?} failed: {error}");
        });
    device.write(4096, b"some bytes", Durability::OnReturn)?;
    let mut read = [0; 10];
    device.read(4096, &mut read)?;
    println!("{} bytes, of which {:?} lie at 4096", device.size(), String::from_utf8_lossy(&read));
    println!("beyond its end: {}", device.read(1 << 20, &mut read).unwrap_err());
    Ok(())
}
