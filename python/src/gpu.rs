//! Arrays in the memory of a GPU, cut and fingerprinted where they are.

use std::ffi::{CStr, c_void};

use onefold_fingerprint::{Fingerprint, Fingerprinter};
use onefold_gpu::{Choice, Device as Gpu, GpuError, Resident, cut_resident, open};
use pyo3::exceptions::{PyBufferError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::chunker::Chunker;
use crate::errors::{detached, refused};
use crate::fingerprints::fingerprinter;
use crate::numbers::{CutPoints, Fingerprints};

/// A GPU, called "cuda:N".
///
/// Its methods take arrays in its memory: objects with `__cuda_array_interface__` or `__dlpack__`,
/// whose elements are contiguous in C order. All work on the device is waited for, and nothing is copied
/// to the host but cut-points and fingerprints, which are those of the CPU.
///
/// Raises ValueError for another name, and RuntimeError for a device that cannot be used, or fails.
#[pyclass(frozen, module = "onefold", name = "Device")]
pub(crate) struct Device(Box<dyn Gpu>);

#[pymethods]
impl Device {
    #[new]
    #[pyo3(signature = (name = "cuda:0"))]
    fn new(py: Python<'_>, name: &str) -> PyResult<Self> {
        match name.parse().map_err(refused)? {
            Choice::Device(name) => detached(py, || open(name))?.map(Self).map_err(failed),
            _ => Err(PyValueError::new_err(format!("'{name}' is no device, expected cuda:N"))),
        }
    }

    /// The cut-points of `array`, a whole input; the last is its length in bytes.
    fn cut(&self, array: &Bound<'_, PyAny>, chunker: &Chunker) -> PyResult<CutPoints> {
        Ok(self.run(array, chunker, None)?.0)
    }

    /// The cut-points of `array`, and the fingerprint of each chunk. `algorithm` is blake3,
    /// blake3-keyed (which takes a `key` of 32 bytes), sha256 or sha3-256.
    #[pyo3(signature = (array, chunker, *, algorithm = "blake3", key = None))]
    fn cut_and_fingerprint(
        &self,
        array: &Bound<'_, PyAny>,
        chunker: &Chunker,
        algorithm: &str,
        key: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<(CutPoints, Fingerprints)> {
        let fingerprinter = fingerprinter(algorithm, key)?;
        let (cuts, fingerprints) = self.run(array, chunker, Some(&fingerprinter))?;
        Ok((cuts, Fingerprints::new(&fingerprints, Fingerprint::LEN)))
    }

    fn __repr__(&self) -> String {
        format!("<onefold.Device: {}>", self.0.info())
    }
}

impl Device {
    fn run(
        &self,
        array: &Bound<'_, PyAny>,
        chunker: &Chunker,
        fingerprinter: Option<&Fingerprinter>,
    ) -> PyResult<(CutPoints, Vec<Fingerprint>)> {
        let held = Held::of(array, self.0.info().number)?;
        let chunks = detached(array.py(), || {
            self.0.settle()?;
            // SAFETY: whoever made the array says that there are as many bytes, and keeps them as long as
            // it is held; an allocation has whole pieces of 16 bytes, and all work has ended.
            let data = unsafe { Resident::new(held.address, held.len) };
            cut_resident(&*self.0, &chunker.0, fingerprinter, data)
        })?;
        let chunks = chunks.map_err(failed)?;
        let fingerprints = chunks.iter().filter_map(|chunk| chunk.fingerprint).collect();
        Ok((CutPoints::new(chunks.iter().map(|chunk| chunk.end).collect()), fingerprints))
    }
}

/// What a device cannot do is a wrong argument, all else its failure.
fn failed(error: GpuError) -> PyErr {
    match error {
        GpuError::NotCut { .. }
        | GpuError::Preset { .. }
        | GpuError::ShortMin { .. }
        | GpuError::Unbounded
        | GpuError::NotHashed { .. }
        | GpuError::NoSuchDevice { .. } => PyValueError::new_err(error.to_string()),
        GpuError::Elsewhere { .. } => PyBufferError::new_err(error.to_string()),
        error => PyRuntimeError::new_err(error.to_string()),
    }
}

/// Where the bytes of an array are, which stay there as long as this lives.
struct Held {
    address: u64,
    len: usize,
    /// What [`ManagedTensor::deleter`] is called with at the end.
    tensor: Option<Tensor>,
}

/// A tensor that a capsule gave away.
struct Tensor(*mut ManagedTensor);

// SAFETY: the tensor is used by whoever holds it alone.
unsafe impl Send for Tensor {}
// SAFETY: nothing is read through a shared reference.
unsafe impl Sync for Tensor {}

/// DLPack's `DLManagedTensor` (dlpack.h, version 0).
#[repr(C)]
struct ManagedTensor {
    data: *mut c_void,
    device_type: i32,
    device_id: i32,
    dimensions: i32,
    code: u8,
    bits: u8,
    lanes: u16,
    shape: *const i64,
    strides: *const i64,
    byte_offset: u64,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut ManagedTensor)>,
}

/// What DLPack calls memory of CUDA, and memory that CUDA moves.
const ON_DEVICE: [i32; 2] = [2, 13];

const UNUSED: &CStr = c"dltensor";
const USED: &CStr = c"used_dltensor";

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(Tensor(tensor)) = self.tensor.take() {
            // SAFETY: the capsule gave the tensor to this, which calls its deleter once.
            unsafe {
                if let Some(deleter) = (*tensor).deleter {
                    deleter(tensor);
                }
            }
        }
    }
}

impl Held {
    /// `array` on the device `number`.
    fn of(array: &Bound<'_, PyAny>, number: usize) -> PyResult<Self> {
        // a tensor that has both tells its device by DLPack alone
        if array.hasattr("__dlpack__")? {
            return Self::of_capsule(array, number);
        }
        if let Ok(interface) = array.getattr("__cuda_array_interface__") {
            return Self::of_interface(interface.cast::<PyDict>()?);
        }
        Err(PyTypeError::new_err(
            "the array is not on a device, expected one with __cuda_array_interface__ or __dlpack__",
        ))
    }

    fn of_interface(interface: &Bound<'_, PyDict>) -> PyResult<Self> {
        let field = |name: &str| {
            let missing = || PyBufferError::new_err(format!("the interface has no '{name}'"));
            interface.get_item(name)?.ok_or_else(missing)
        };
        let shape: Vec<i64> = field("shape")?.extract()?;
        let kind: String = field("typestr")?.extract()?;
        let (address, _): (u64, bool) = field("data")?.extract()?;
        let strides = interface.get_item("strides")?.filter(|strides| !strides.is_none());
        let strides: Option<Vec<i64>> = strides.map(|strides| strides.extract()).transpose()?;
        if interface.get_item("mask")?.is_some_and(|mask| !mask.is_none()) {
            return Err(PyBufferError::new_err("the array has a mask, expected one without"));
        }
        let size: i64 = kind.get(2..).and_then(|digits| digits.parse().ok()).ok_or_else(|| {
            PyBufferError::new_err(format!("elements of type '{kind}', expected one as '<f4'"))
        })?;
        Ok(Self { address, len: contiguous(&shape, strides.as_deref(), size, size)?, tensor: None })
    }

    fn of_capsule(array: &Bound<'_, PyAny>, number: usize) -> PyResult<Self> {
        let (kind, on): (i32, i32) = array.call_method0("__dlpack_device__")?.extract()?;
        if !ON_DEVICE.contains(&kind) {
            return Err(PyBufferError::new_err(format!(
                "the array is in memory of DLPack's type {kind}, expected 2, of CUDA"
            )));
        }
        if usize::try_from(on) != Ok(number) {
            return Err(PyBufferError::new_err(format!(
                "the array is on cuda:{on}, expected cuda:{number}"
            )));
        }
        let options = PyDict::new(array.py());
        // no stream has to wait: all work on the device ends before a byte is read
        options.set_item("stream", -1)?;
        let capsule = array.call_method("__dlpack__", (), Some(&options))?;
        // SAFETY: the call fails unless the object is a capsule of this name.
        let tensor = unsafe { ffi::PyCapsule_GetPointer(capsule.as_ptr(), UNUSED.as_ptr()) };
        if tensor.is_null() {
            return Err(PyErr::fetch(array.py()));
        }
        let tensor = tensor.cast::<ManagedTensor>();
        // SAFETY: by its name the capsule holds such a tensor, which belongs to whoever renames it.
        let mut held = unsafe {
            if ffi::PyCapsule_SetName(capsule.as_ptr(), USED.as_ptr()) != 0 {
                return Err(PyErr::fetch(array.py()));
            }
            let address = (*tensor).data as u64 + (*tensor).byte_offset;
            Self { address, len: 0, tensor: Some(Tensor(tensor)) }
        };
        // SAFETY: as above; shape and strides have an entry for each dimension.
        let (shape, strides, bits) = unsafe {
            let count = (*tensor).dimensions as usize;
            let entries = |first: *const i64| match first.is_null() || count == 0 {
                true => Vec::new(),
                false => std::slice::from_raw_parts(first, count).to_vec(),
            };
            let strides = (!(*tensor).strides.is_null()).then(|| entries((*tensor).strides));
            (
                entries((*tensor).shape),
                strides,
                i64::from((*tensor).bits) * i64::from((*tensor).lanes),
            )
        };
        if bits % 8 != 0 {
            return Err(PyBufferError::new_err(format!("elements of {bits} bits, expected bytes")));
        }
        held.len = contiguous(&shape, strides.as_deref(), bits / 8, 1)?;
        Ok(held)
    }
}

/// The bytes of an array whose elements have `size`, if they are contiguous in C order. Strides count in units
/// of which an element is `step`.
fn contiguous(shape: &[i64], strides: Option<&[i64]>, size: i64, step: i64) -> PyResult<usize> {
    let mut count: i64 = 1;
    let mut expected = Vec::new();
    for &len in shape.iter().rev() {
        expected.push((len, count.saturating_mul(step)));
        count = count.checked_mul(len).filter(|_| len >= 0).ok_or_else(|| {
            PyBufferError::new_err(format!("a shape of {shape:?}, expected no negative length"))
        })?;
    }
    expected.reverse();
    let fits = |strides: &[i64]| {
        let each = strides.iter().zip(&expected);
        strides.len() == shape.len()
            && each.into_iter().all(|(&at, &(len, to))| len < 2 || at == to)
    };
    if count > 0 && !strides.is_none_or(fits) {
        return Err(PyBufferError::new_err("the array is not contiguous, expected C order"));
    }
    let len = count.checked_mul(size).and_then(|len| usize::try_from(len).ok());
    len.ok_or_else(|| PyBufferError::new_err(format!("a shape of {shape:?} has too many bytes")))
}
