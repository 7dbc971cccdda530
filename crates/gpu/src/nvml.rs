//! The energy that a device of NVIDIA has used, by NVML, which is installed with the driver.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

use libloading::Library;

const LIBRARY: &str = "libnvidia-ml.so.1";

type Handle = *mut c_void;

/// The counter of energy of one device.
pub(crate) struct Meter {
    library: Library,
    device: Handle,
}

// SAFETY: NVML may be called from any thread, and a handle is valid in all of them.
unsafe impl Send for Meter {}
// SAFETY: as above.
unsafe impl Sync for Meter {}

impl Drop for Meter {
    fn drop(&mut self) {
        // SAFETY: the function has this type in NVML's header; it ends what `of` began.
        let _ = unsafe {
            function::<unsafe extern "C" fn() -> c_int>(&self.library, c"nvmlShutdown")
                .map(|shutdown| shutdown())
        };
    }
}

impl Meter {
    /// That of the device which the bus knows by `address`.
    ///
    /// # Errors
    /// Why there is none, as a clause.
    pub(crate) fn of(address: &CStr) -> Result<Self, String> {
        // SAFETY: the library of the driver runs nothing when it is loaded that others could notice.
        let library = unsafe { Library::new(LIBRARY) };
        let library = library.map_err(|_| format!("{LIBRARY} was not found"))?;
        // SAFETY: the functions have these types in NVML's header.
        unsafe {
            let init = function::<unsafe extern "C" fn() -> c_int>(&library, c"nvmlInit_v2")?;
            check("nvmlInit_v2", init())?;
        }
        let mut meter = Self { library, device: ptr::null_mut() };
        // SAFETY: as above; it writes the handle.
        unsafe {
            let find = function::<unsafe extern "C" fn(*const c_char, *mut Handle) -> c_int>(
                &meter.library,
                c"nvmlDeviceGetHandleByPciBusId_v2",
            )?;
            let mut device = ptr::null_mut();
            check("nvmlDeviceGetHandleByPciBusId_v2", find(address.as_ptr(), &mut device))?;
            meter.device = device;
        }
        meter.joules().map(|_| meter)
    }

    /// What the device used since the driver was loaded, in joules.
    pub(crate) fn joules(&self) -> Result<f64, String> {
        let mut millijoules = 0_u64;
        // SAFETY: the function has this type in NVML's header, and writes one number.
        unsafe {
            let read = function::<unsafe extern "C" fn(Handle, *mut u64) -> c_int>(
                &self.library,
                c"nvmlDeviceGetTotalEnergyConsumption",
            )?;
            let code = read(self.device, &mut millijoules);
            check("nvmlDeviceGetTotalEnergyConsumption", code)?;
        }
        Ok(millijoules as f64 / 1e3)
    }
}

/// # Safety
/// `F` must be the function's type.
unsafe fn function<F: Copy>(library: &Library, name: &CStr) -> Result<F, String> {
    // SAFETY: the caller knows the type.
    let found = unsafe { library.get::<F>(name) };
    found.map(|found| *found).map_err(|_| format!("{LIBRARY} lacks {}", name.to_string_lossy()))
}

fn check(call: &str, code: c_int) -> Result<(), String> {
    match code {
        0 => Ok(()),
        3 => Err(format!("{call} is not supported here")),
        4 => Err(format!("{call} is not permitted")),
        _ => Err(format!("{call} failed with error {code}")),
    }
}
