//! Bytes that Python objects lend, and numbers that they may borrow.

use std::ffi::{CStr, c_int};
use std::ptr;
use std::slice;

use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;

/// The bytes of an object with the buffer protocol, held without a copy. While it lives, Python
/// refuses to resize the object.
pub(crate) struct Bytes(PyUntypedBuffer);

impl Bytes {
    /// Borrows the bytes of `object`, whatever the type of its elements.
    ///
    /// # Errors
    /// `TypeError` if it has no buffer, `BufferError` if the buffer is not contiguous in C order or
    /// holds references to objects.
    pub(crate) fn of(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let buffer = PyUntypedBuffer::get(object)?;
        if !buffer.is_c_contiguous() {
            return Err(PyBufferError::new_err(
                "the buffer is not contiguous, expected bytes in C order; \
                 numpy.ascontiguousarray makes a copy that is",
            ));
        }
        if buffer.format().to_bytes().contains(&b'O') {
            return Err(PyBufferError::new_err(
                "the buffer holds references to objects, expected numbers or bytes",
            ));
        }
        Ok(Self(buffer))
    }

    /// The bytes. Another thread may change those of a writable buffer, as with `hashlib`; then what
    /// is computed from them is undefined, but still in bounds: no code here trusts their values.
    pub(crate) fn as_slice(&self) -> &[u8] {
        let len = self.0.len_bytes();
        if len == 0 {
            return &[];
        }
        // SAFETY: the exporter keeps `len` contiguous bytes at this address until the buffer is
        // released, which `self` does when it is dropped; `of` checked that they are contiguous.
        unsafe { slice::from_raw_parts(self.0.buf_ptr().cast(), len) }
    }
}

/// Numbers in an object that lends them by the buffer protocol. All pointers are into the object,
/// which never moves and never changes.
pub(crate) struct Lent<'a> {
    /// The first element.
    pub(crate) data: *const u8,
    /// Bytes of an element.
    pub(crate) item_size: isize,
    /// What an element is, in the words of Python's `struct`.
    pub(crate) format: &'static CStr,
    /// Elements in each dimension.
    pub(crate) shape: &'a [isize],
    /// Bytes between elements of each dimension.
    pub(crate) strides: &'a [isize],
}

impl Lent<'_> {
    /// Fills `view` with the elements, to be read only.
    ///
    /// # Safety
    /// `view` is what Python passed to `__getbuffer__` of `owner`, and all pointers of `self` are valid
    /// as long as `owner` lives.
    pub(crate) unsafe fn fill(
        &self,
        owner: Bound<'_, PyAny>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        if view.is_null() {
            return Err(PyBufferError::new_err("no view to fill"));
        }
        // SAFETY: `view` is valid by the contract of this function. An error must leave `obj` empty.
        unsafe { (*view).obj = ptr::null_mut() };
        if flags & ffi::PyBUF_WRITABLE == ffi::PyBUF_WRITABLE {
            return Err(PyBufferError::new_err("the numbers cannot be changed"));
        }
        let wants = |flag| flags & flag == flag;
        let count: isize = self.shape.iter().product();
        // SAFETY: as above. `owner` is kept alive by `obj`, and with it all that is pointed to.
        unsafe {
            (*view).buf = self.data.cast_mut().cast();
            (*view).len = count * self.item_size;
            (*view).itemsize = self.item_size;
            (*view).readonly = 1;
            (*view).ndim = self.shape.len() as c_int;
            (*view).format = match wants(ffi::PyBUF_FORMAT) {
                true => self.format.as_ptr().cast_mut(),
                false => ptr::null_mut(),
            };
            (*view).shape = match wants(ffi::PyBUF_ND) {
                true => self.shape.as_ptr().cast_mut(),
                false => ptr::null_mut(),
            };
            (*view).strides = match wants(ffi::PyBUF_STRIDES) {
                true => self.strides.as_ptr().cast_mut(),
                false => ptr::null_mut(),
            };
            (*view).suboffsets = ptr::null_mut();
            (*view).internal = ptr::null_mut();
            (*view).obj = owner.into_ptr();
        }
        Ok(())
    }
}
