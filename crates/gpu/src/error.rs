use onefold_cdc::Algorithm;
use onefold_fingerprint::FingerprintAlgorithm;

use crate::Api;

/// What a device cannot do, or did wrong: the device, what happened, and what was expected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GpuError {
    /// No device has the name.
    #[error("unknown device '{name}', expected auto, cpu, cuda, cuda:N, opencl or opencl:N")]
    UnknownName {
        /// The name as it was given.
        name: String,
    },
    /// The library of the driver is not installed.
    #[error("{api} has no driver here: {library} was not found; install {expected}")]
    NoDriver {
        /// What the driver is of.
        api: Api,
        /// The file that was sought.
        library: &'static str,
        /// What to install.
        expected: &'static str,
    },
    /// The driver lacks a function, or cannot read the kernels.
    #[error("the driver of {api} is too old: {reason}; install {expected}")]
    DriverTooOld {
        /// What the driver is of.
        api: Api,
        /// What it lacks.
        reason: String,
        /// The oldest that would do.
        expected: &'static str,
    },
    /// The driver is there and has no devices.
    #[error("{api} has a driver here but no devices")]
    NoDevices {
        /// What the driver is of.
        api: Api,
    },
    /// There are devices, but none with the number.
    #[error("{api} has no device {number}, expected 0 to {last}")]
    NoSuchDevice {
        /// What the device was sought by.
        api: Api,
        /// The number that was given.
        number: usize,
        /// The last there is.
        last: usize,
    },
    /// The device, or the host for it, has no memory left.
    #[error(
        "{device} has no memory left for {bytes} bytes more; end other programs on it, or use the CPU"
    )]
    NoMemory {
        /// The device.
        device: String,
        /// What was requested.
        bytes: usize,
    },
    /// Another process has the device for itself.
    #[error(
        "{device} is in use by a process that shares it with no other; wait for its end, or choose another device"
    )]
    Busy {
        /// The device.
        device: String,
    },
    /// The device is older than the kernels need.
    #[error("{device} is too old for the kernels: {reason}")]
    DeviceTooOld {
        /// The device.
        device: String,
        /// What it lacks.
        reason: String,
    },
    /// The compiler of the driver refused the kernels.
    #[error("{device} cannot compile the kernels: {log}")]
    Build {
        /// The device.
        device: String,
        /// What the compiler printed.
        log: String,
    },
    /// A call failed that worked on other devices: the device may be lost.
    #[error("{device} failed: {call}: {reason}")]
    Failed {
        /// The device.
        device: String,
        /// The function that was called.
        call: &'static str,
        /// What the driver says of it.
        reason: String,
    },
    /// A result that cannot be.
    #[error("{device} gave a wrong result: {what}")]
    Wrong {
        /// The device.
        device: String,
        /// The result, and what was expected of it.
        what: String,
    },
    /// No kernel cuts by the algorithm.
    #[error(
        "no device cuts by {algorithm}; expected one of gear, gear32, gear16, fastcdc, rabin, crc, buzhash, mincdc"
    )]
    NotCut {
        /// The algorithm.
        algorithm: Algorithm,
    },
    /// The preset of another tool.
    #[error("no device cuts as {preset} does; use the CPU for presets")]
    Preset {
        /// The preset.
        preset: String,
    },
    /// A hash window is longer than the minimum chunk.
    #[error(
        "a device cannot cut by {algorithm} with a minimum of {min} bytes, expected at least its window, {window}"
    )]
    ShortMin {
        /// The algorithm.
        algorithm: Algorithm,
        /// The minimum chunk size.
        min: usize,
        /// Bytes that the test of a position looks at.
        window: usize,
    },
    /// There is no maximum chunk size.
    #[error("a device cannot cut without a maximum chunk size")]
    Unbounded,
    /// No kernel hashes by the algorithm.
    #[error(
        "no device computes {algorithm}; expected one of blake3, blake3-keyed, sha256, sha3-256"
    )]
    NotHashed {
        /// The algorithm.
        algorithm: FingerprintAlgorithm,
    },
    /// The device has no addresses that others know.
    #[error("{device} cannot take {len} bytes by their address, expected a device of cuda")]
    NotResident {
        /// The device.
        device: String,
        /// How many bytes.
        len: usize,
    },
    /// The bytes are not in the device's memory.
    #[error("the bytes are on {on}, expected {device}")]
    Elsewhere {
        /// The device that was to take them.
        device: String,
        /// Where they are: another device, or none.
        on: String,
    },
    /// A segment is too short for the largest chunk, or too long for the kernels.
    #[error("segments of {segment} bytes, expected {least} to {most}")]
    Segment {
        /// The length that was given.
        segment: usize,
        /// The shortest for these chunk sizes.
        least: usize,
        /// The longest.
        most: usize,
    },
}
