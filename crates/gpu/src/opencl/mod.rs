//! Devices by OpenCL 1.2.

mod functions;
mod lane;

use std::ffi::{CString, c_int, c_void};
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError};

use functions::{Functions, Handle, functions};
use lane::OpenClLane;

use crate::{Api, Device, GpuError, Info, Lane, Memory, opencl_source};

const CL_DEVICE_TYPE_ALL: u64 = 0xffff_ffff;
const CL_DEVICE_TYPE_CPU: u64 = 2;
const CL_DEVICE_TYPE: u32 = 0x1000;
const CL_DEVICE_MAX_COMPUTE_UNITS: u32 = 0x1002;
const CL_DEVICE_GLOBAL_MEM_SIZE: u32 = 0x101f;
const CL_DEVICE_NAME: u32 = 0x102b;
const CL_DRIVER_VERSION: u32 = 0x102d;
const CL_PLATFORM_NAME: u32 = 0x0902;
const CL_PROGRAM_BUILD_LOG: u32 = 0x1183;
const CL_PLATFORM_NOT_FOUND: c_int = -1001;
const CL_DEVICE_NOT_FOUND: c_int = -1;
const CL_DEVICE_NOT_AVAILABLE: c_int = -2;
/// Allocation failures of memory objects and of the host, and a size above the limit.
const OUT_OF_MEMORY: [c_int; 3] = [-4, -6, -61];

/// A device of OpenCL, and the kernels compiled for it.
pub struct OpenCl {
    info: Info,
    program: Arc<Program>,
}

/// A compiled program and the context that it lives in.
struct Program {
    functions: &'static Functions,
    device: Handle,
    context: Handle,
    program: Handle,
}

// SAFETY: OpenCL's functions may be called from any thread on these objects; the exception,
// clSetKernelArg, is called on kernels that each lane has for itself.
unsafe impl Send for Program {}
// SAFETY: as above.
unsafe impl Sync for Program {}

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: both were created with this, and nothing uses them any more; null is left alone.
        unsafe {
            if !self.program.is_null() {
                (self.functions.clReleaseProgram)(self.program);
            }
            (self.functions.clReleaseContext)(self.context);
        }
    }
}

impl OpenCl {
    /// All devices of all platforms, in the order in which OpenCL lists them.
    ///
    /// # Errors
    /// [`GpuError::NoDriver`] or [`GpuError::NoDevices`].
    pub fn list() -> Result<Vec<Info>, GpuError> {
        Ok(handles()?.into_iter().map(|(_, info)| info).collect())
    }

    /// Device `number`, with the kernels compiled.
    pub fn open(number: usize) -> Result<Self, GpuError> {
        Self::with_source(number, &opencl_source())
    }

    /// The same with kernels of another source, for tests: it has to have all of them.
    #[doc(hidden)]
    pub fn with_source(number: usize, source: &str) -> Result<Self, GpuError> {
        let mut handles = handles()?;
        if number >= handles.len() {
            let last = handles.len() - 1;
            return Err(GpuError::NoSuchDevice { api: Api::OpenCl, number, last });
        }
        let (device, info) = handles.swap_remove(number);
        let program = Program::build(device, source, &info)?;
        Ok(Self { info, program: Arc::new(program) })
    }
}

impl Device for OpenCl {
    fn info(&self) -> &Info {
        &self.info
    }

    fn lane(&self, bytes: usize, _: Memory) -> Result<Box<dyn Lane>, GpuError> {
        let name = self.info.to_string();
        Ok(Box::new(OpenClLane::new(Arc::clone(&self.program), name, bytes)?))
    }
}

impl Program {
    fn build(device: Handle, source: &str, info: &Info) -> Result<Self, GpuError> {
        let functions = functions()?;
        let name = info.to_string();
        let mut code = 0;
        // SAFETY: a device that was just listed, no properties, no callback; the code is checked.
        let context = unsafe {
            (functions.clCreateContext)(
                ptr::null(),
                1,
                &device,
                ptr::null_mut(),
                ptr::null_mut(),
                &mut code,
            )
        };
        check(code, "clCreateContext", &name, 0)?;
        let mut built = Self { functions, device, context, program: ptr::null_mut() };
        let (text, len) = (source.as_ptr().cast(), source.len());
        // SAFETY: one text and its length; both are read during the call.
        built.program =
            unsafe { (functions.clCreateProgramWithSource)(context, 1, &text, &len, &mut code) };
        check(code, "clCreateProgramWithSource", &name, 0)?;
        let options = CString::new("-cl-std=CL1.2").expect("no zeros");
        // SAFETY: the program and the device of its context, options that end with a zero.
        let code = unsafe {
            (functions.clBuildProgram)(
                built.program,
                1,
                &device,
                options.as_ptr(),
                ptr::null_mut(),
                ptr::null_mut(),
            )
        };
        if code != 0 {
            let log = built.log().trim().to_owned();
            let log = if log.is_empty() { format!("error {code}") } else { log };
            return Err(GpuError::Build { device: name, log });
        }
        Ok(built)
    }

    /// What the compiler printed.
    fn log(&self) -> String {
        let get = |size, value, len| {
            // SAFETY: `text` passes room of the size that it tells.
            unsafe {
                (self.functions.clGetProgramBuildInfo)(
                    self.program,
                    self.device,
                    CL_PROGRAM_BUILD_LOG,
                    size,
                    value,
                    len,
                )
            }
        };
        text(get)
    }
}

/// Every device and what is known of it.
fn handles() -> Result<Vec<(Handle, Info)>, GpuError> {
    // a driver sets itself up when it is first asked, and PoCL does not guard that
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let functions = functions()?;
    let mut found = Vec::new();
    for platform in platforms(functions)? {
        let platform_name = text(|size, value, len| {
            // SAFETY: `text` passes room of the size that it tells.
            unsafe { (functions.clGetPlatformInfo)(platform, CL_PLATFORM_NAME, size, value, len) }
        });
        for device in devices(functions, platform)? {
            let info = info(functions, device, found.len(), &platform_name);
            found.push((device, info));
        }
    }
    if found.is_empty() {
        return Err(GpuError::NoDevices { api: Api::OpenCl });
    }
    Ok(found)
}

fn platforms(functions: &Functions) -> Result<Vec<Handle>, GpuError> {
    let mut count = 0;
    // SAFETY: asks for the number alone.
    let code = unsafe { (functions.clGetPlatformIDs)(0, ptr::null_mut(), &mut count) };
    if code == CL_PLATFORM_NOT_FOUND {
        return Ok(Vec::new());
    }
    check(code, "clGetPlatformIDs", "opencl", 0)?;
    let mut platforms = vec![ptr::null_mut(); count as usize];
    // SAFETY: there is room for as many.
    let code =
        unsafe { (functions.clGetPlatformIDs)(count, platforms.as_mut_ptr(), ptr::null_mut()) };
    check(code, "clGetPlatformIDs", "opencl", 0)?;
    Ok(platforms)
}

fn devices(functions: &Functions, platform: Handle) -> Result<Vec<Handle>, GpuError> {
    let mut count = 0;
    let all = CL_DEVICE_TYPE_ALL;
    // SAFETY: asks for the number alone, of a platform that was just listed.
    let code = unsafe { (functions.clGetDeviceIDs)(platform, all, 0, ptr::null_mut(), &mut count) };
    if code == CL_DEVICE_NOT_FOUND {
        return Ok(Vec::new());
    }
    check(code, "clGetDeviceIDs", "opencl", 0)?;
    let mut devices = vec![ptr::null_mut(); count as usize];
    let (room, none) = (devices.as_mut_ptr(), ptr::null_mut());
    // SAFETY: there is room for as many.
    let code = unsafe { (functions.clGetDeviceIDs)(platform, all, count, room, none) };
    check(code, "clGetDeviceIDs", "opencl", 0)?;
    Ok(devices)
}

fn info(functions: &Functions, device: Handle, number: usize, platform: &str) -> Info {
    let words = |what| {
        text(|size, value, len| {
            // SAFETY: `text` passes room of the size that it tells.
            unsafe { (functions.clGetDeviceInfo)(device, what, size, value, len) }
        })
    };
    let number_of = |what, bytes: usize| {
        let mut value = 0_u64;
        // SAFETY: no property that is asked for has more than eight bytes; a failure leaves zero.
        unsafe {
            let room = ptr::from_mut(&mut value).cast();
            (functions.clGetDeviceInfo)(device, what, bytes, room, ptr::null_mut());
        }
        value
    };
    Info {
        api: Api::OpenCl,
        number,
        name: words(CL_DEVICE_NAME),
        memory: number_of(CL_DEVICE_GLOBAL_MEM_SIZE, 8),
        units: number_of(CL_DEVICE_MAX_COMPUTE_UNITS, 4) as u32,
        is_cpu: number_of(CL_DEVICE_TYPE, 8) & CL_DEVICE_TYPE_CPU != 0,
        driver: format!("{platform} {}", words(CL_DRIVER_VERSION)),
        generation: None,
        clock: None,
    }
}

/// A text that `get` tells: it takes room, where the room is, and where to put the length.
fn text(get: impl Fn(usize, *mut c_void, *mut usize) -> c_int) -> String {
    let mut len = 0;
    if get(0, ptr::null_mut(), &mut len) != 0 {
        return String::new();
    }
    let mut bytes = vec![0_u8; len];
    if get(len, bytes.as_mut_ptr().cast(), ptr::null_mut()) != 0 {
        return String::new();
    }
    String::from_utf8_lossy(&bytes).trim_end_matches('\0').to_owned()
}

/// The error that `code` stands for, of a `call` that was about `bytes`.
fn check(code: c_int, call: &'static str, device: &str, bytes: usize) -> Result<(), GpuError> {
    let device = device.to_owned();
    match code {
        0 => Ok(()),
        CL_DEVICE_NOT_AVAILABLE => Err(GpuError::Busy { device }),
        _ if OUT_OF_MEMORY.contains(&code) => Err(GpuError::NoMemory { device, bytes }),
        _ => Err(GpuError::Failed { device, call, reason: format!("OpenCL's error {code}") }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_told_in_sentences() {
        let told = |code| check(code, "clFinish", "opencl:0 (it)", 7).unwrap_err().to_string();
        assert_eq!(check(0, "clFinish", "opencl:0 (it)", 7), Ok(()));
        let busy = "opencl:0 (it) is in use by a process that shares it with no other; wait for its end, \
                    or choose another device";
        assert_eq!(told(CL_DEVICE_NOT_AVAILABLE), busy);
        for code in OUT_OF_MEMORY {
            assert!(told(code).starts_with("opencl:0 (it) has no memory left for 7 bytes more; "));
        }
        assert_eq!(told(-36), "opencl:0 (it) failed: clFinish: OpenCL's error -36");
    }
}
