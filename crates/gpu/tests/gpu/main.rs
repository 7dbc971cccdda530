//! Every kernel on every device that can be had without a GPU: the simulated one, the source as C++ under
//! sanitizers, and OpenCL on the CPU.

mod cuda;
mod on_devices;
mod pipeline;
mod primitives;
mod races;
mod shim;
mod support;
