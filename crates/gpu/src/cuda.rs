//! Devices of NVIDIA by the CUDA driver.
//!
//! The kernels are machine code, if the program was built with some that the device and its driver take, otherwise
//! PTX, which the driver compiles when the device is opened. The driver is looked for first: the library that calls it
//! panics without one.

use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr;
use std::slice;
use std::sync::{Arc, OnceLock};

use cudarc::driver::result::{self, DriverError, stream::StreamKind};
use cudarc::driver::sys::{
    self, CUdevice_attribute as Attribute, CUpointer_attribute as Pointer, CUresult,
};

use crate::kernel::GROUP;
use crate::nvml::Meter;
use crate::{Api, Argument, Device, GpuError, Info, Kernel, Lane, Memory, Resident, SPARE, Slot};

/// The kernels, for devices of compute capability 8.0 and later.
const PTX: &str = include_str!("../kernels/kernels.ptx");

/// The kernels as machine code, each with a major number of the compute capability.
pub(crate) type Cubins<'a> = &'a [(u32, &'a [u8])];

/// What the program was built with: `build.rs` takes it in.
const CUBINS: Cubins<'static> = include!(concat!(env!("OUT_DIR"), "/cubins.rs"));

/// The oldest driver that reads them.
const EXPECTED: &str = "NVIDIA's driver 450 or later";

/// The version of CUDA that this driver is of.
const OLDEST: i32 = 11_000;

/// A device of NVIDIA, and the kernels compiled for it.
pub(crate) struct Cuda {
    info: Info,
    context: Arc<Context>,
    meter: OnceLock<Result<Meter, String>>,
}

/// The device's primary context, and the module in it.
struct Context {
    device: sys::CUdevice,
    context: sys::CUcontext,
    functions: HashMap<Kernel, sys::CUfunction>,
    name: String,
}

// SAFETY: the driver's functions may be called from any thread once it has made the context current.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: retained when this was made; the module goes with the context.
        let _ = unsafe { result::primary_ctx::release(self.device) };
    }
}

impl Cuda {
    /// All devices.
    pub(crate) fn list() -> Result<Vec<Info>, GpuError> {
        let count = count()?;
        (0..count).map(|number| info(number).map(|(_, info)| info)).collect()
    }

    /// Device `number`, with the kernels loaded.
    pub(crate) fn open(number: usize) -> Result<Self, GpuError> {
        Self::with_cubins(number, CUBINS)
    }

    /// The same with this machine code.
    pub(crate) fn with_cubins(number: usize, cubins: Cubins<'_>) -> Result<Self, GpuError> {
        let count = count()?;
        if number >= count {
            let last = count - 1;
            return Err(GpuError::NoSuchDevice { api: Api::Cuda, number, last });
        }
        let (device, mut info) = info(number)?;
        let name = info.to_string();
        let major = major(device);
        if major < 8 {
            let reason = format!("compute capability {major}, expected 8.0 or later");
            return Err(GpuError::DeviceTooOld { device: name, reason });
        }
        // SAFETY: the device was just looked up; the context is released when it is dropped.
        let context = unsafe { result::primary_ctx::retain(device) };
        let context =
            context.map_err(|error| refused(error, "cuDevicePrimaryCtxRetain", &name, 0))?;
        let mut context = Context { device, context, functions: HashMap::new(), name };
        let cubin = cubins.iter().find(|(generation, _)| *generation == major);
        let loaded = context.load(cubin.map(|(_, image)| *image))?;
        info.driver = format!("{}, {loaded}", info.driver);
        Ok(Self { info, context: Arc::new(context), meter: OnceLock::new() })
    }
}

impl Device for Cuda {
    fn info(&self) -> &Info {
        &self.info
    }

    fn lane(&self, bytes: usize, memory: Memory) -> Result<Box<dyn Lane>, GpuError> {
        Ok(Box::new(CudaLane::new(Arc::clone(&self.context), bytes, memory)?))
    }

    fn settle(&self) -> Result<(), GpuError> {
        self.context.enter()?;
        result::ctx::synchronize()
            .map_err(|error| refused(error, "cuCtxSynchronize", &self.context.name, 0))
    }

    fn ensure_resident(&self, data: Resident) -> Result<(), GpuError> {
        self.context.enter()?;
        let device = self.context.name.clone();
        let mut on = 0_i32;
        let room = ptr::from_mut(&mut on).cast();
        // SAFETY: writes a number of 32 bits; the address is not read from.
        let code = unsafe {
            sys::cuPointerGetAttribute(
                room,
                Pointer::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                data.address(),
            )
        };
        match code {
            CUresult::CUDA_SUCCESS if usize::try_from(on) == Ok(self.info.number) => Ok(()),
            CUresult::CUDA_SUCCESS => Err(GpuError::Elsewhere { device, on: format!("cuda:{on}") }),
            CUresult::CUDA_ERROR_INVALID_VALUE => {
                Err(GpuError::Elsewhere { device, on: "no device".into() })
            }
            code => Err(refused(DriverError(code), "cuPointerGetAttribute", &device, 0)),
        }
    }

    fn joules(&self) -> Result<f64, String> {
        let meter = self.meter.get_or_init(|| Meter::of(&bus_address(self.context.device)?));
        meter.as_ref().map_err(Clone::clone)?.joules()
    }
}

/// What the bus knows `device` by.
fn bus_address(device: sys::CUdevice) -> Result<CString, String> {
    let mut text = [0_u8; 64];
    let (room, len) = (text.as_mut_ptr().cast::<c_char>(), text.len() as i32);
    // SAFETY: writes at most `len` bytes.
    let code = unsafe { sys::cuDeviceGetPCIBusId(room, len, device) };
    let address = CStr::from_bytes_until_nul(&text).map(CStr::to_owned);
    match (code.result(), address) {
        (Ok(()), Ok(address)) => Ok(address),
        _ => Err("the driver does not tell where the device is".into()),
    }
}

/// How many devices there are, at least one.
fn count() -> Result<usize, GpuError> {
    let no_driver =
        GpuError::NoDriver { api: Api::Cuda, library: "libcuda.so.1", expected: "NVIDIA's driver" };
    // SAFETY: looks for the library, and loads it if it is there.
    if !unsafe { sys::is_culib_present() } {
        return Err(no_driver);
    }
    let version = version();
    if version < OLDEST {
        let reason = format!("it has {}, expected {}", shown(version), shown(OLDEST));
        return Err(GpuError::DriverTooOld { api: Api::Cuda, reason, expected: EXPECTED });
    }
    let count = result::init().and_then(|()| result::device::get_count());
    match count {
        Ok(0) => Err(GpuError::NoDevices { api: Api::Cuda }),
        Ok(count) => Ok(count as usize),
        Err(DriverError(CUresult::CUDA_ERROR_NO_DEVICE)) => {
            Err(GpuError::NoDevices { api: Api::Cuda })
        }
        Err(error) => Err(refused(error, "cuInit", "cuda", 0)),
    }
}

/// The version of CUDA that the driver is of.
fn version() -> i32 {
    let mut version = 0;
    // SAFETY: writes one number; a failure leaves zero.
    unsafe { sys::cuDriverGetVersion(&mut version) };
    version
}

/// A version as NVIDIA writes it.
fn shown(version: i32) -> String {
    format!("CUDA {}.{}", version / 1000, version % 1000 / 10)
}

fn info(number: usize) -> Result<(sys::CUdevice, Info), GpuError> {
    let unnamed = format!("cuda:{number}");
    let refused = |call| move |error| refused(error, call, &format!("cuda:{number}"), 0);
    let device = result::device::get(number as i32).map_err(refused("cuDeviceGet"))?;
    let name = result::device::get_name(device).unwrap_or(unnamed);
    // SAFETY: the device was just looked up.
    let memory = unsafe { result::device::total_mem(device) };
    let memory = memory.map_err(refused("cuDeviceTotalMem"))? as u64;
    let units = attribute(device, Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT) as u32;
    let driver = shown(version());
    let generation = Some(major(device));
    // in kHz
    let clock = u64::try_from(attribute(device, Attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE));
    let clock = clock.ok().filter(|&clock| clock > 0).map(|clock| 1000 * clock);
    let api = Api::Cuda;
    let info = Info { api, number, name, memory, units, is_cpu: false, driver, generation, clock };
    Ok((device, info))
}

/// The major number of the compute capability.
fn major(device: sys::CUdevice) -> u32 {
    attribute(device, Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) as u32
}

/// A property of `device`; 0 if it is not told.
fn attribute(device: sys::CUdevice, attribute: Attribute) -> i32 {
    // SAFETY: the device was looked up before.
    unsafe { result::device::get_attribute(device, attribute) }.unwrap_or(0)
}

/// What the driver's `error` in a `call` means to a user.
fn refused(error: DriverError, call: &'static str, device: &str, bytes: usize) -> GpuError {
    let device = device.to_owned();
    let reason = match error.error_string() {
        Ok(text) => text.to_string_lossy().into_owned(),
        Err(_) => format!("error {:?}", error.0),
    };
    match error.0 {
        CUresult::CUDA_ERROR_OUT_OF_MEMORY => GpuError::NoMemory { device, bytes },
        CUresult::CUDA_ERROR_DEVICE_UNAVAILABLE => GpuError::Busy { device },
        CUresult::CUDA_ERROR_UNSUPPORTED_PTX_VERSION
        | CUresult::CUDA_ERROR_INVALID_PTX
        | CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU
        | CUresult::CUDA_ERROR_SYSTEM_DRIVER_MISMATCH => {
            GpuError::DriverTooOld { api: Api::Cuda, reason, expected: EXPECTED }
        }
        _ => GpuError::Failed { device, call, reason },
    }
}

impl Context {
    /// Loads the kernels from `cubin`, or from the PTX if the driver does not take that. Returns which it was.
    fn load(&mut self, cubin: Option<&[u8]>) -> Result<&'static str, GpuError> {
        self.enter()?;
        // SAFETY: an image of machine code tells its length.
        let load = |image: &[u8]| unsafe { result::module::load_data(image.as_ptr().cast()) };
        // a driver may be older than the compiler of the machine code
        let (module, loaded) = match cubin.map(load) {
            Some(Ok(module)) => (module, "machine code"),
            _ => {
                let text = CString::new(PTX).expect("a text without zeros");
                let module = load(text.as_bytes_with_nul());
                let refused = |error| refused(error, "cuModuleLoadData", &self.name, 0);
                (module.map_err(refused)?, "PTX")
            }
        };
        for &kernel in Kernel::ALL {
            let name = CString::new(kernel.name()).expect("a name without zeros");
            // SAFETY: the module was just loaded, and lives as long as the context.
            let function = unsafe { result::module::get_function(module, name) };
            let function =
                function.map_err(|error| refused(error, "cuModuleGetFunction", &self.name, 0))?;
            self.functions.insert(kernel, function);
        }
        Ok(loaded)
    }

    /// Makes the context the calling thread's.
    fn enter(&self) -> Result<(), GpuError> {
        // SAFETY: the context is retained as long as this lives.
        unsafe { result::ctx::set_current(self.context) }
            .map_err(|error| refused(error, "cuCtxSetCurrent", &self.name, 0))
    }
}

/// A stream, and memory on both sides.
struct CudaLane {
    context: Arc<Context>,
    stream: sys::CUstream,
    slots: HashMap<Slot, Buffer>,
    input: Input,
    /// What stands for the data, if it was lent.
    lent: Option<Resident>,
    /// A copy from the input may be in flight.
    is_copying: bool,
}

struct Buffer {
    address: sys::CUdeviceptr,
    bytes: usize,
}

/// The host's bytes.
enum Input {
    Pinned { start: *mut u8, bytes: usize },
    Pageable(Vec<u8>),
}

// SAFETY: the stream and the memory are the lane's own, and any thread may use them.
unsafe impl Send for CudaLane {}

impl Drop for CudaLane {
    fn drop(&mut self) {
        if self.context.enter().is_err() {
            return;
        }
        // SAFETY: all was made with the lane; after the stream has ended nothing uses it.
        unsafe {
            let _ = result::stream::synchronize(self.stream);
            for buffer in self.slots.values() {
                let _ = result::free_sync(buffer.address);
            }
            if let Input::Pinned { start, .. } = self.input {
                let _ = result::free_host(start.cast());
            }
            let _ = result::stream::destroy(self.stream);
        }
    }
}

impl CudaLane {
    fn new(context: Arc<Context>, bytes: usize, memory: Memory) -> Result<Self, GpuError> {
        context.enter()?;
        let stream = result::stream::create(StreamKind::NonBlocking)
            .map_err(|error| refused(error, "cuStreamCreate", &context.name, 0))?;
        let input = Input::Pageable(Vec::new());
        let slots = HashMap::new();
        let mut lane = Self { context, stream, slots, input, lent: None, is_copying: false };
        lane.input = match memory {
            Memory::Pageable => Input::Pageable(vec![0; bytes]),
            Memory::Pinned => {
                // SAFETY: the memory is freed when the lane is dropped.
                let start = unsafe { result::malloc_host(bytes, 0) };
                let start = start.map_err(lane.refused("cuMemHostAlloc", bytes))?.cast::<u8>();
                // SAFETY: `bytes` bytes were just allocated.
                unsafe { ptr::write_bytes(start, 0, bytes) };
                Input::Pinned { start, bytes }
            }
        };
        lane.reserve(Slot::Data, bytes + SPARE)?;
        Ok(lane)
    }

    fn refused(&self, call: &'static str, bytes: usize) -> impl Fn(DriverError) -> GpuError {
        let name = self.context.name.clone();
        move |error| refused(error, call, &name, bytes)
    }

    fn address(&self, slot: Slot, bytes: usize) -> sys::CUdeviceptr {
        let buffer = self.slots.get(&slot).unwrap_or_else(|| panic!("{slot:?} is not reserved"));
        assert!(bytes <= buffer.bytes, "{bytes} bytes of {slot:?}, which has {}", buffer.bytes);
        buffer.address
    }

    fn host(&mut self) -> &mut [u8] {
        match &mut self.input {
            // SAFETY: the lane's own memory of `bytes` bytes, all of which were set.
            Input::Pinned { start, bytes } => unsafe { slice::from_raw_parts_mut(*start, *bytes) },
            Input::Pageable(bytes) => bytes,
        }
    }
}

impl Lane for CudaLane {
    fn device(&self) -> &str {
        &self.context.name
    }

    fn input(&mut self) -> &mut [u8] {
        if self.is_copying {
            // after an error there is no copy any more; the next call reports it
            let _ = self.wait();
            self.is_copying = false;
        }
        self.host()
    }

    fn upload(&mut self, len: usize) -> Result<(), GpuError> {
        self.context.enter()?;
        let to = self.address(Slot::Data, len);
        self.is_copying = true;
        self.lent = None;
        let stream = self.stream;
        let from = &self.host()[..len];
        // SAFETY: there is room, and `input` waits before it lends the bytes again.
        unsafe { result::memcpy_htod_async(to, from, stream) }
            .map_err(self.refused("cuMemcpyHtoDAsync", len))
    }

    fn lend(&mut self, data: Resident) -> Result<(), GpuError> {
        self.lent = Some(data);
        Ok(())
    }

    fn copy_resident(&mut self, data: Resident) -> Result<(), GpuError> {
        self.context.enter()?;
        self.lent = None;
        let to = self.address(Slot::Data, data.len());
        // SAFETY: there is room, and the device can read the bytes, as whoever made `data` says.
        unsafe { result::memcpy_dtod_async(to, data.address(), data.len(), self.stream) }
            .map_err(self.refused("cuMemcpyDtoDAsync", data.len()))
    }

    fn reserve(&mut self, slot: Slot, bytes: usize) -> Result<(), GpuError> {
        let had = self.slots.get(&slot).map_or(0, |buffer| buffer.bytes);
        if bytes <= had && had > 0 {
            return Ok(());
        }
        self.context.enter()?;
        if let Some(old) = self.slots.remove(&slot) {
            self.wait()?;
            // SAFETY: the stream has ended, and nothing else has the address.
            unsafe { result::free_sync(old.address) }.map_err(self.refused("cuMemFree", 0))?;
        }
        let bytes = bytes.max(4);
        // SAFETY: the memory is written before a kernel or the host reads it.
        let address = unsafe { result::malloc_sync(bytes) };
        let address = address.map_err(self.refused("cuMemAlloc", bytes))?;
        self.slots.insert(slot, Buffer { address, bytes });
        Ok(())
    }

    fn write(&mut self, slot: Slot, bytes: &[u8]) -> Result<(), GpuError> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.context.enter()?;
        let to = self.address(slot, bytes.len());
        // SAFETY: there is room. From memory that is not pinned the driver copies before it returns.
        unsafe { result::memcpy_htod_async(to, bytes, self.stream) }
            .map_err(self.refused("cuMemcpyHtoDAsync", bytes.len()))
    }

    fn read(&mut self, slot: Slot, into: &mut [u8]) -> Result<(), GpuError> {
        self.context.enter()?;
        if !into.is_empty() {
            let from = self.address(slot, into.len());
            // SAFETY: the buffer holds as much, and the stream has ended before this returns.
            unsafe { result::memcpy_dtoh_async(into, from, self.stream) }
                .map_err(self.refused("cuMemcpyDtoHAsync", into.len()))?;
        }
        self.wait()
    }

    fn launch(
        &mut self,
        kernel: Kernel,
        groups: usize,
        arguments: &[Argument],
    ) -> Result<(), GpuError> {
        self.context.enter()?;
        // eight bytes each: the driver reads as many as the parameter has, the lower ones first
        let mut values: Vec<u64> = arguments
            .iter()
            .map(|argument| match argument {
                Argument::Slot(Slot::Data) if self.lent.is_some() => {
                    self.lent.map_or(0, Resident::address)
                }
                Argument::Slot(slot) => self.address(*slot, 0),
                Argument::U32(number) => u64::from(*number),
                Argument::U64(number) => *number,
            })
            .collect();
        let mut places: Vec<*mut c_void> =
            values.iter_mut().map(|value| ptr::from_mut(value).cast()).collect();
        let function = self.context.functions[&kernel];
        let (grid, block) = ((groups as u32, 1, 1), (GROUP as u32, 1, 1));
        // SAFETY: the arguments are those of the kernel, in its order; they are copied by the call.
        unsafe { result::launch_kernel(function, grid, block, 0, self.stream, &mut places) }
            .map_err(self.refused(kernel.name(), 0))
    }

    fn wait(&mut self) -> Result<(), GpuError> {
        self.context.enter()?;
        // SAFETY: the lane's own stream.
        unsafe { result::stream::synchronize(self.stream) }
            .map_err(self.refused("cuStreamSynchronize", 0))?;
        self.is_copying = false;
        Ok(())
    }
}
