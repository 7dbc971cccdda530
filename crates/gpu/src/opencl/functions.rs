//! The functions of OpenCL 1.2, found when the program runs.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;

use libloading::Library;

use crate::{Api, GpuError};

/// The library's name, for the dynamic linker.
const LIBRARY: &str = "libOpenCL.so.1";

/// What to install.
pub(super) const EXPECTED: &str = "ocl-icd-libopencl1 and the OpenCL driver of the device";

/// A handle: of a platform, device, context, queue, program, kernel or memory.
pub(super) type Handle = *mut c_void;

type Notify = *mut c_void;

/// Declares the functions as they are in the documented C interface, and looks them up.
macro_rules! functions {
    ($(fn $name:ident($($kind:ty),* $(,)?) -> $answer:ty;)*) => {
        /// The functions that this program calls, each under its name in C.
        #[expect(non_snake_case, reason = "the names are those of the C interface")]
        pub(super) struct Functions {
            $(pub(super) $name: unsafe extern "C" fn($($kind),*) -> $answer,)*
        }

        impl Functions {
            #[expect(non_snake_case, reason = "the names are those of the C interface")]
            fn find(library: &Library) -> Result<Self, GpuError> {
                $(
                    // SAFETY: the type is the one that the standard of OpenCL 1.2 declares; the
                    // library's major version is in the file's name.
                    let $name = unsafe {
                        library.get(concat!(stringify!($name), "\0").as_bytes())
                    };
                )*
                Ok(Self {
                    $($name: *$name.map_err(|_| GpuError::DriverTooOld {
                        api: Api::OpenCl,
                        reason: format!("{LIBRARY} has no {}", stringify!($name)),
                        expected: EXPECTED,
                    })?,)*
                })
            }
        }
    };
}

functions! {
    fn clGetPlatformIDs(c_uint, *mut Handle, *mut c_uint) -> c_int;
    fn clGetPlatformInfo(Handle, c_uint, usize, *mut c_void, *mut usize) -> c_int;
    fn clGetDeviceIDs(Handle, u64, c_uint, *mut Handle, *mut c_uint) -> c_int;
    fn clGetDeviceInfo(Handle, c_uint, usize, *mut c_void, *mut usize) -> c_int;
    fn clCreateContext(*const isize, c_uint, *const Handle, Notify, *mut c_void, *mut c_int) -> Handle;
    fn clReleaseContext(Handle) -> c_int;
    fn clCreateCommandQueue(Handle, Handle, u64, *mut c_int) -> Handle;
    fn clReleaseCommandQueue(Handle) -> c_int;
    fn clCreateProgramWithSource(Handle, c_uint, *const *const c_char, *const usize, *mut c_int)
        -> Handle;
    fn clBuildProgram(Handle, c_uint, *const Handle, *const c_char, Notify, *mut c_void) -> c_int;
    fn clGetProgramBuildInfo(Handle, Handle, c_uint, usize, *mut c_void, *mut usize) -> c_int;
    fn clReleaseProgram(Handle) -> c_int;
    fn clCreateKernel(Handle, *const c_char, *mut c_int) -> Handle;
    fn clSetKernelArg(Handle, c_uint, usize, *const c_void) -> c_int;
    fn clReleaseKernel(Handle) -> c_int;
    fn clCreateBuffer(Handle, u64, usize, *mut c_void, *mut c_int) -> Handle;
    fn clReleaseMemObject(Handle) -> c_int;
    fn clEnqueueWriteBuffer(
        Handle, Handle, c_uint, usize, usize, *const c_void, c_uint, *const Handle, *mut Handle,
    ) -> c_int;
    fn clEnqueueReadBuffer(
        Handle, Handle, c_uint, usize, usize, *mut c_void, c_uint, *const Handle, *mut Handle,
    ) -> c_int;
    fn clEnqueueNDRangeKernel(
        Handle, Handle, c_uint, *const usize, *const usize, *const usize, c_uint, *const Handle,
        *mut Handle,
    ) -> c_int;
    fn clFinish(Handle) -> c_int;
}

/// The functions; the library stays loaded. It is sought again after it was not found.
pub(super) fn functions() -> Result<&'static Functions, GpuError> {
    static FOUND: OnceLock<Functions> = OnceLock::new();
    if let Some(functions) = FOUND.get() {
        return Ok(functions);
    }
    // SAFETY: loading runs the initialisers of the system's own OpenCL library.
    let library = unsafe { Library::new(LIBRARY) }.map_err(|_| GpuError::NoDriver {
        api: Api::OpenCl,
        library: LIBRARY,
        expected: EXPECTED,
    })?;
    let functions = Functions::find(&library)?;
    // never unloaded, since the functions are kept
    std::mem::forget(library);
    Ok(FOUND.get_or_init(|| functions))
}
