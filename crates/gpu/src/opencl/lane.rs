use std::collections::HashMap;
use std::ffi::{CString, c_int};
use std::ptr;
use std::sync::Arc;

use super::functions::Handle;
use super::{Program, check};
use crate::kernel::GROUP;
use crate::{Argument, GpuError, Kernel, Lane, SPARE, Slot};

const CL_MEM_READ_WRITE: u64 = 1;
const BLOCKING: u32 = 1;
const STARTED: u32 = 0;

/// A queue that runs one thing after another, and memory.
pub(super) struct OpenClLane {
    program: Arc<Program>,
    device: String,
    queue: Handle,
    kernels: HashMap<Kernel, Handle>,
    slots: HashMap<Slot, Buffer>,
    input: Vec<u8>,
    /// A copy from the input may be in flight.
    is_copying: bool,
}

struct Buffer {
    memory: Handle,
    bytes: usize,
}

// SAFETY: OpenCL's objects may be used from any thread, and these are the lane's own.
unsafe impl Send for OpenClLane {}

impl Drop for OpenClLane {
    fn drop(&mut self) {
        let functions = self.program.functions;
        // SAFETY: all were created with the lane and are used by it alone; after clFinish no command
        // uses them, nor the input.
        unsafe {
            (functions.clFinish)(self.queue);
            for buffer in self.slots.values() {
                (functions.clReleaseMemObject)(buffer.memory);
            }
            for &kernel in self.kernels.values() {
                (functions.clReleaseKernel)(kernel);
            }
            (functions.clReleaseCommandQueue)(self.queue);
        }
    }
}

impl OpenClLane {
    pub(super) fn new(
        program: Arc<Program>,
        device: String,
        bytes: usize,
    ) -> Result<Self, GpuError> {
        let mut code = 0;
        // SAFETY: the context and device of the program; no properties means in order.
        let queue = unsafe {
            (program.functions.clCreateCommandQueue)(program.context, program.device, 0, &mut code)
        };
        check(code, "clCreateCommandQueue", &device, 0)?;
        let mut lane = Self {
            program,
            device,
            queue,
            kernels: HashMap::new(),
            slots: HashMap::new(),
            input: vec![0; bytes],
            is_copying: false,
        };
        lane.reserve(Slot::Data, bytes + SPARE)?;
        Ok(lane)
    }

    fn check(&self, code: c_int, call: &'static str) -> Result<(), GpuError> {
        check(code, call, &self.device, 0)
    }

    fn buffer(&self, slot: Slot, bytes: usize) -> Handle {
        let buffer = self.slots.get(&slot).unwrap_or_else(|| panic!("{slot:?} is not reserved"));
        assert!(bytes <= buffer.bytes, "{bytes} bytes of {slot:?}, which has {}", buffer.bytes);
        buffer.memory
    }

    /// Starts a copy, or does it if it is `blocking`.
    ///
    /// # Safety
    /// Unless it is blocking, `bytes` must stay as they are until the queue has come past the copy.
    unsafe fn copy(&self, slot: Slot, bytes: &[u8], blocking: u32) -> Result<(), GpuError> {
        if bytes.is_empty() {
            return Ok(());
        }
        let memory = self.buffer(slot, bytes.len());
        // SAFETY: the buffer has room, and the caller keeps `bytes`.
        let code = unsafe {
            (self.program.functions.clEnqueueWriteBuffer)(
                self.queue,
                memory,
                blocking,
                0,
                bytes.len(),
                bytes.as_ptr().cast(),
                0,
                ptr::null(),
                ptr::null_mut(),
            )
        };
        self.check(code, "clEnqueueWriteBuffer")
    }

    fn kernel(&mut self, kernel: Kernel) -> Result<Handle, GpuError> {
        if let Some(&handle) = self.kernels.get(&kernel) {
            return Ok(handle);
        }
        let name = CString::new(kernel.name()).expect("a name without zeros");
        let mut code = 0;
        // SAFETY: a program that was built, and a name that ends with a zero.
        let handle = unsafe {
            (self.program.functions.clCreateKernel)(self.program.program, name.as_ptr(), &mut code)
        };
        self.check(code, "clCreateKernel")?;
        self.kernels.insert(kernel, handle);
        Ok(handle)
    }
}

impl Lane for OpenClLane {
    fn device(&self) -> &str {
        &self.device
    }

    fn input(&mut self) -> &mut [u8] {
        if self.is_copying {
            // after an error there is no copy any more; the next call reports it
            let _ = self.wait();
            self.is_copying = false;
        }
        &mut self.input
    }

    fn upload(&mut self, len: usize) -> Result<(), GpuError> {
        self.is_copying = true;
        // SAFETY: `input` waits before it lends the bytes, and so does drop before it frees them.
        unsafe { self.copy(Slot::Data, &self.input[..len], STARTED) }
    }

    fn reserve(&mut self, slot: Slot, bytes: usize) -> Result<(), GpuError> {
        let had = self.slots.get(&slot).map_or(0, |buffer| buffer.bytes);
        if bytes <= had && had > 0 {
            return Ok(());
        }
        let bytes = bytes.max(4);
        let functions = self.program.functions;
        if let Some(old) = self.slots.remove(&slot) {
            // SAFETY: the lane's own; commands in flight keep what they use.
            unsafe { (functions.clReleaseMemObject)(old.memory) };
        }
        let (mut code, flags) = (0, CL_MEM_READ_WRITE);
        let context = self.program.context;
        // SAFETY: no host memory is passed; the code is checked.
        let memory = unsafe {
            (functions.clCreateBuffer)(context, flags, bytes, ptr::null_mut(), &mut code)
        };
        check(code, "clCreateBuffer", &self.device, bytes)?;
        self.slots.insert(slot, Buffer { memory, bytes });
        Ok(())
    }

    fn write(&mut self, slot: Slot, bytes: &[u8]) -> Result<(), GpuError> {
        // SAFETY: it blocks.
        unsafe { self.copy(slot, bytes, BLOCKING) }
    }

    fn read(&mut self, slot: Slot, into: &mut [u8]) -> Result<(), GpuError> {
        if into.is_empty() {
            return self.wait();
        }
        let memory = self.buffer(slot, into.len());
        // SAFETY: the buffer holds as much, and the call returns when it has been copied.
        let code = unsafe {
            (self.program.functions.clEnqueueReadBuffer)(
                self.queue,
                memory,
                BLOCKING,
                0,
                into.len(),
                into.as_mut_ptr().cast(),
                0,
                ptr::null(),
                ptr::null_mut(),
            )
        };
        self.check(code, "clEnqueueReadBuffer")
    }

    fn launch(
        &mut self,
        kernel: Kernel,
        groups: usize,
        arguments: &[Argument],
    ) -> Result<(), GpuError> {
        let handle = self.kernel(kernel)?;
        for (index, argument) in (0..).zip(arguments) {
            let memory;
            let (bytes, value) = match argument {
                Argument::Slot(slot) => {
                    memory = self.buffer(*slot, 0);
                    (size_of::<Handle>(), ptr::from_ref(&memory).cast())
                }
                Argument::U32(number) => (4, ptr::from_ref(number).cast()),
                Argument::U64(number) => (8, ptr::from_ref(number).cast()),
            };
            // SAFETY: the value has as many bytes, and is copied during the call.
            let code =
                unsafe { (self.program.functions.clSetKernelArg)(handle, index, bytes, value) };
            self.check(code, "clSetKernelArg")?;
        }
        let (global, local) = (groups * GROUP, GROUP);
        // SAFETY: one dimension; every argument of the kernel was set, or the call is refused.
        let code = unsafe {
            (self.program.functions.clEnqueueNDRangeKernel)(
                self.queue,
                handle,
                1,
                ptr::null(),
                &global,
                &local,
                0,
                ptr::null(),
                ptr::null_mut(),
            )
        };
        self.check(code, "clEnqueueNDRangeKernel")
    }

    fn wait(&mut self) -> Result<(), GpuError> {
        // SAFETY: the lane's own queue.
        let code = unsafe { (self.program.functions.clFinish)(self.queue) };
        self.check(code, "clFinish")?;
        self.is_copying = false;
        Ok(())
    }
}
