//! Lists of guards, changes and questions, as the client library has them.
//!
//! The library copies every name and value that it is given, and keeps only the pointers to which it
//! writes answers.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_int};
use std::marker::PhantomData;
use std::{mem, ptr, slice};

use bytes::Bytes;

use super::functions::{Functions, Omap, ReadOp, WriteOp, Xattrs};
use crate::rados::{Answer, Compare, OmapRange, Query, Step};

/// `LIBRADOS_CREATE_EXCLUSIVE`
const EXCLUSIVE: c_int = 1;

/// `LIBRADOS_CMPXATTR_OP_*`
const EQUAL: u8 = 1;
const DIFFERENT: u8 = 2;
const GREATER: u8 = 3;

/// The guards and changes of an [`Update`](crate::rados::Update).
pub(super) struct Changes {
    functions: &'static Functions,
    pub(super) list: *mut WriteOp,
}

impl Drop for Changes {
    fn drop(&mut self) {
        // SAFETY: `new` made it, and only this drops it.
        unsafe { (self.functions.rados_release_write_op)(self.list) };
    }
}

impl Changes {
    /// Those of `steps`.
    pub(super) fn new(functions: &'static Functions, steps: &[Step]) -> Self {
        // SAFETY: it has no preconditions, and allocates or aborts.
        let changes = Self { functions, list: unsafe { (functions.rados_create_write_op)() } };
        steps.iter().for_each(|step| changes.add(step));
        changes
    }

    fn add(&self, step: &Step) {
        let (f, list) = (self.functions, self.list);
        // SAFETY, of all blocks below: `list` lives until this drops, lengths are those of the slices
        // that the pointers begin, names end with a NUL, and the library has copied both on return.
        match step {
            // SAFETY: see above.
            Step::Exists => unsafe { (f.rados_write_op_assert_exists)(list) },
            // SAFETY: see above.
            Step::Version(version) => unsafe { (f.rados_write_op_assert_version)(list, *version) },
            Step::Xattr { name, is, value } => {
                let (name, (value, length)) = (c_name(name), parts(value));
                // SAFETY: see above.
                unsafe {
                    (f.rados_write_op_cmpxattr)(
                        list,
                        name.as_ptr(),
                        xattr_operator(*is),
                        value,
                        length,
                    )
                }
            }
            Step::Omap { key, value } => {
                let ((key, key_length), (value, length)) = (parts(key.as_bytes()), parts(value));
                // SAFETY: see above. No result is asked for beside that of the whole list.
                unsafe {
                    let result = ptr::null_mut();
                    (f.rados_write_op_omap_cmp2)(
                        list, key, EQUAL, value, key_length, length, result,
                    );
                }
            }
            // SAFETY: see above. The category is out of use, and may be null.
            Step::Create => unsafe { (f.rados_write_op_create)(list, EXCLUSIVE, ptr::null()) },
            Step::Append(bytes) => {
                let (bytes, length) = parts(bytes);
                // SAFETY: see above.
                unsafe { (f.rados_write_op_append)(list, bytes, length) }
            }
            Step::Write(offset, bytes) => {
                let (bytes, length) = parts(bytes);
                // SAFETY: see above.
                unsafe { (f.rados_write_op_write)(list, bytes, length, *offset) }
            }
            // SAFETY: see above.
            Step::Truncate(length) => unsafe { (f.rados_write_op_truncate)(list, *length) },
            Step::SetXattr(name, value) => {
                let (name, (value, length)) = (c_name(name), parts(value));
                // SAFETY: see above.
                unsafe { (f.rados_write_op_setxattr)(list, name.as_ptr(), value, length) }
            }
            Step::SetOmap(entries) => {
                let keys = Slices::new(entries.iter().map(|(key, _)| key.as_bytes()));
                let values = Slices::new(entries.iter().map(|(_, value)| &value[..]));
                let (keys, key_lengths, count) = keys.arrays();
                let (values, lengths, _) = values.arrays();
                // SAFETY: see above. The four arrays have `count` elements.
                unsafe {
                    (f.rados_write_op_omap_set2)(list, keys, values, key_lengths, lengths, count);
                }
            }
            Step::RemoveOmap(keys) => {
                let keys = Slices::new(keys.iter().map(String::as_bytes));
                let (keys, lengths, count) = keys.arrays();
                // SAFETY: see above. Both arrays have `count` elements.
                unsafe { (f.rados_write_op_omap_rm_keys2)(list, keys, lengths, count) }
            }
            // SAFETY: see above.
            Step::Remove => unsafe { (f.rados_write_op_remove)(list) },
        }
    }
}

/// The guards and questions of a [`Query`], and the places of the answers.
///
/// The library writes to the places until the operation that has the list is complete; this must not be
/// dropped before.
pub(super) struct Questions {
    functions: &'static Functions,
    pub(super) list: *mut ReadOp,
    places: *mut Places,
}

/// Places of answers.
struct Places {
    length: u64,
    /// In seconds since 1970: a `time_t`.
    changed: i64,
    bytes: Vec<u8>,
    bytes_read: usize,
    xattrs: *mut Xattrs,
    omap: *mut Omap,
    has_more: u8,
    /// The result of each part. That of the whole list says as much.
    result: c_int,
}

impl Drop for Questions {
    fn drop(&mut self) {
        // SAFETY: `new` made the places and the list, the library the walks if they are not null, and
        // only this drops them. The library does not use the places any more, as the type demands.
        unsafe {
            let places = Box::from_raw(self.places);
            if !places.xattrs.is_null() {
                (self.functions.rados_getxattrs_end)(places.xattrs);
            }
            if !places.omap.is_null() {
                (self.functions.rados_omap_get_end)(places.omap);
            }
            (self.functions.rados_release_read_op)(self.list);
        }
    }
}

impl Questions {
    /// Those of `query`, of an object with at most `longest` bytes.
    ///
    /// # Panics
    ///
    /// If a guard is none that a query can have.
    pub(super) fn new(functions: &'static Functions, query: &Query, longest: u64) -> Self {
        let places = Box::into_raw(Box::new(Places {
            length: 0,
            changed: 0,
            bytes: Vec::new(),
            bytes_read: 0,
            xattrs: ptr::null_mut(),
            omap: ptr::null_mut(),
            has_more: 0,
            result: 0,
        }));
        // SAFETY: it has no preconditions, and allocates or aborts.
        let list = unsafe { (functions.rados_create_read_op)() };
        let questions = Self { functions, list, places };
        query.guards.iter().for_each(|guard| questions.guard(guard));
        questions.ask(query, longest);
        questions
    }

    fn guard(&self, guard: &Step) {
        let (f, list) = (self.functions, self.list);
        match guard {
            // SAFETY: `list` lives until this drops.
            Step::Exists => unsafe { (f.rados_read_op_assert_exists)(list) },
            // SAFETY: as above.
            Step::Version(version) => unsafe { (f.rados_read_op_assert_version)(list, *version) },
            Step::Xattr { name, is, value } => {
                let (name, operator, (value, length)) =
                    (c_name(name), xattr_operator(*is), parts(value));
                // SAFETY: as above; `value` has `length` bytes, the name ends with a NUL, and the library
                // has copied both on return.
                unsafe {
                    (f.rados_read_op_cmpxattr)(list, name.as_ptr(), operator, value, length);
                }
            }
            other => panic!("{other:?} is no guard of a query"),
        }
    }

    fn ask(&self, query: &Query, longest: u64) {
        let (f, list, places) = (self.functions, self.list, self.places);
        // SAFETY: `list` and `places` live until this drops, and nothing else uses the places meanwhile.
        unsafe {
            let (length, changed) = (&raw mut (*places).length, &raw mut (*places).changed);
            let result = &raw mut (*places).result;
            (f.rados_read_op_stat)(list, length, changed, result);
        }
        let range = query.range.clone().unwrap_or_default();
        // Asked for no byte, the engine would answer all.
        let wanted = range.end.saturating_sub(range.start).min(longest) as usize;
        if wanted > 0 {
            // SAFETY: as above, and the vector has room for so many bytes.
            unsafe {
                let bytes = &mut (*places).bytes;
                bytes.reserve_exact(wanted);
                let (start, read) = (bytes.as_mut_ptr().cast(), &raw mut (*places).bytes_read);
                let result = &raw mut (*places).result;
                (f.rados_read_op_read)(list, range.start, wanted, start, read, result);
            }
        }
        if query.xattrs {
            // SAFETY: as above.
            unsafe {
                let result = &raw mut (*places).result;
                (f.rados_read_op_getxattrs)(list, &raw mut (*places).xattrs, result);
            }
        }
        if let Some(OmapRange { after, limit }) = &query.omap {
            let after = c_name(after);
            // SAFETY: as above; the texts end with a NUL, and the library has copied them on return.
            unsafe {
                let (omap, result) = (&raw mut (*places).omap, &raw mut (*places).result);
                let (all, more) = (c"".as_ptr(), &raw mut (*places).has_more);
                let after = after.as_ptr();
                (f.rados_read_op_omap_get_vals2)(list, after, all, *limit, omap, more, result);
            }
        }
    }

    /// The answer of the operation, which must be complete and without error; or the code of an error.
    pub(super) fn answer(&mut self, version: u64) -> Result<Answer, c_int> {
        // SAFETY: `new` made the places, and the library does not use them any more.
        let places = unsafe { &mut *self.places };
        let mut bytes = mem::take(&mut places.bytes);
        assert!(places.bytes_read <= bytes.capacity(), "the library wrote past the end");
        // SAFETY: the library wrote so many bytes to its start.
        unsafe { bytes.set_len(places.bytes_read) };
        // The caller may have asked for far more than there was.
        bytes.shrink_to_fit();
        Ok(Answer {
            version,
            length: places.length,
            changed: places.changed.try_into().unwrap_or_default(),
            bytes: bytes.into(),
            xattrs: xattrs(self.functions, places.xattrs)?,
            omap: omap(self.functions, places.omap)?,
            has_more: places.has_more != 0,
        })
    }
}

/// What `walk` has, which is null if it was not asked for.
fn xattrs(f: &Functions, walk: *mut Xattrs) -> Result<BTreeMap<String, Bytes>, c_int> {
    let mut found = BTreeMap::new();
    while !walk.is_null() {
        let (mut name, mut value, mut length) = (ptr::null(), ptr::null(), 0);
        // SAFETY: the library made `walk`, and the others take what it says.
        let code = unsafe { (f.rados_getxattrs_next)(walk, &mut name, &mut value, &mut length) };
        if code < 0 {
            return Err(code);
        }
        if name.is_null() {
            break;
        }
        // SAFETY: until the next call the name is a text that ends with a NUL, and the value has so
        // many bytes.
        let (name, value) = unsafe { (CStr::from_ptr(name), copied(value, length)) };
        found.insert(name.to_string_lossy().into_owned(), value);
    }
    Ok(found)
}

/// What `walk` has, which is null if it was not asked for.
fn omap(f: &Functions, walk: *mut Omap) -> Result<Vec<(String, Bytes)>, c_int> {
    let mut found = Vec::new();
    while !walk.is_null() {
        let (mut key, mut value) = (ptr::null_mut(), ptr::null_mut());
        let (mut key_length, mut length) = (0, 0);
        // SAFETY: the library made `walk`, and the others take what it says.
        let code = unsafe {
            (f.rados_omap_get_next2)(walk, &mut key, &mut value, &mut key_length, &mut length)
        };
        if code < 0 {
            return Err(code);
        }
        if key.is_null() {
            break;
        }
        // SAFETY: until the walk ends both have so many bytes.
        let (key, value) = unsafe { (copied(key, key_length), copied(value, length)) };
        found.push((String::from_utf8_lossy(&key).into_owned(), value));
    }
    Ok(found)
}

/// A copy of `length` bytes at `start`, which may be null if there are none.
///
/// # Safety
///
/// `start` must have so many bytes.
unsafe fn copied(start: *const c_char, length: usize) -> Bytes {
    match length {
        0 => Bytes::new(),
        // SAFETY: the caller says so.
        _ => Bytes::copy_from_slice(unsafe { slice::from_raw_parts(start.cast(), length) }),
    }
}

fn xattr_operator(is: Compare) -> u8 {
    match is {
        Compare::Equal => EQUAL,
        Compare::Different => DIFFERENT,
        Compare::Greater => GREATER,
    }
}

/// Pointers to slices and their lengths, as arrays in C.
struct Slices<'a> {
    starts: Vec<*const c_char>,
    lengths: Vec<usize>,
    slices: PhantomData<&'a [u8]>,
}

impl<'a> Slices<'a> {
    fn new(slices: impl Iterator<Item = &'a [u8]>) -> Self {
        let (starts, lengths) = slices.map(parts).unzip();
        Self { starts, lengths, slices: PhantomData }
    }

    /// The arrays and their length.
    fn arrays(&self) -> (*const *const c_char, *const usize, usize) {
        (self.starts.as_ptr(), self.lengths.as_ptr(), self.starts.len())
    }
}

fn parts(bytes: &[u8]) -> (*const c_char, usize) {
    (bytes.as_ptr().cast(), bytes.len())
}

/// The name of an object, an attribute or a key, as a text in C.
///
/// # Panics
///
/// If it has a NUL, which the contract of [`RadosPool`](crate::rados::RadosPool) excludes.
pub(super) fn c_name(name: &str) -> CString {
    CString::new(name).unwrap_or_else(|_| panic!("{name:?} has a NUL"))
}
