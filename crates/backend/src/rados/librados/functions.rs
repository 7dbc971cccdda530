//! The functions of Ceph's client library, found when the program runs.

use std::error::Error;
use std::ffi::{c_char, c_int, c_uchar, c_void};
use std::sync::OnceLock;

use libloading::Library;

use super::CephError;

/// The library's name, for the dynamic linker.
const LIBRARY: &str = "librados.so.2";

/// A connection to a cluster.
pub(super) enum Cluster {}

/// A namespace of a pool.
pub(super) enum Io {}

/// A list of guards and changes.
pub(super) enum WriteOp {}

/// A list of guards and questions.
pub(super) enum ReadOp {}

/// An operation that was sent.
pub(super) enum Completion {}

/// Extended attributes that were read.
pub(super) enum Xattrs {}

/// Entries of an omap that were read.
pub(super) enum Omap {}

/// A walk over the objects of a namespace.
pub(super) enum Listing {}

/// Called when an operation has its result.
pub(super) type OnComplete = extern "C" fn(completion: *mut Completion, argument: *mut c_void);

/// What `rados_cluster_stat` answers, in KiB.
#[repr(C)]
#[derive(Default)]
pub(super) struct ClusterStat {
    pub(super) kib: u64,
    pub(super) kib_used: u64,
    pub(super) kib_available: u64,
    pub(super) objects: u64,
}

/// Declares the functions as they are in the documented C interface, and looks them up.
macro_rules! functions {
    ($(fn $name:ident($($kind:ty),* $(,)?) $(-> $answer:ty)?;)*) => {
        /// The functions that this program calls, each under its name in C.
        #[derive(Debug)]
        pub(super) struct Functions {
            $(pub(super) $name: unsafe extern "C" fn($($kind),*) $(-> $answer)?,)*
        }

        impl Functions {
            fn find(library: &Library, name: &str) -> Result<Self, CephError> {
                $(
                    // SAFETY: the type is the one that the library's documentation declares; its
                    // major version, which changes with any function's type, is in the file's name.
                    let $name = unsafe {
                        library.get(concat!(stringify!($name), "\0").as_bytes())
                    };
                )*
                Ok(Self {
                    $($name: *$name.map_err(|_| CephError::LibraryTooOld {
                        library: name.to_owned(),
                        function: stringify!($name),
                    })?,)*
                })
            }
        }
    };
}

functions! {
    fn rados_create2(*mut *mut Cluster, *const c_char, *const c_char, u64) -> c_int;
    fn rados_conf_read_file(*mut Cluster, *const c_char) -> c_int;
    fn rados_conf_set(*mut Cluster, *const c_char, *const c_char) -> c_int;
    fn rados_conf_get(*mut Cluster, *const c_char, *mut c_char, usize) -> c_int;
    fn rados_connect(*mut Cluster) -> c_int;
    fn rados_shutdown(*mut Cluster);
    fn rados_cluster_fsid(*mut Cluster, *mut c_char, usize) -> c_int;
    fn rados_cluster_stat(*mut Cluster, *mut ClusterStat) -> c_int;
    fn rados_get_instance_id(*mut Cluster) -> u64;
    fn rados_getaddrs(*mut Cluster, *mut *mut c_char) -> c_int;
    fn rados_buffer_free(*mut c_char);
    fn rados_blocklist_add(*mut Cluster, *mut c_char, u32) -> c_int;
    fn rados_wait_for_latest_osdmap(*mut Cluster) -> c_int;
    fn rados_ioctx_create(*mut Cluster, *const c_char, *mut *mut Io) -> c_int;
    fn rados_ioctx_destroy(*mut Io);
    fn rados_ioctx_get_id(*mut Io) -> i64;
    fn rados_ioctx_set_namespace(*mut Io, *const c_char);
    fn rados_ioctx_pool_requires_alignment2(*mut Io, *mut c_int) -> c_int;
    fn rados_ioctx_pool_required_alignment2(*mut Io, *mut u64) -> c_int;
    fn rados_set_pool_full_try(*mut Io);
    fn rados_nobjects_list_open(*mut Io, *mut *mut Listing) -> c_int;
    fn rados_nobjects_list_next(
        *mut Listing,
        *mut *const c_char,
        *mut *const c_char,
        *mut *const c_char,
    ) -> c_int;
    fn rados_nobjects_list_close(*mut Listing);
    fn rados_aio_create_completion2(*mut c_void, Option<OnComplete>, *mut *mut Completion) -> c_int;
    fn rados_aio_wait_for_complete(*mut Completion) -> c_int;
    fn rados_aio_get_return_value(*mut Completion) -> c_int;
    fn rados_aio_get_version(*mut Completion) -> u64;
    fn rados_aio_release(*mut Completion);
    fn rados_create_write_op() -> *mut WriteOp;
    fn rados_release_write_op(*mut WriteOp);
    fn rados_write_op_assert_exists(*mut WriteOp);
    fn rados_write_op_assert_version(*mut WriteOp, u64);
    fn rados_write_op_cmpxattr(*mut WriteOp, *const c_char, u8, *const c_char, usize);
    fn rados_write_op_omap_cmp2(
        *mut WriteOp,
        *const c_char,
        u8,
        *const c_char,
        usize,
        usize,
        *mut c_int,
    );
    fn rados_write_op_create(*mut WriteOp, c_int, *const c_char);
    fn rados_write_op_append(*mut WriteOp, *const c_char, usize);
    fn rados_write_op_write(*mut WriteOp, *const c_char, usize, u64);
    fn rados_write_op_truncate(*mut WriteOp, u64);
    fn rados_write_op_setxattr(*mut WriteOp, *const c_char, *const c_char, usize);
    fn rados_write_op_omap_set2(
        *mut WriteOp,
        *const *const c_char,
        *const *const c_char,
        *const usize,
        *const usize,
        usize,
    );
    fn rados_write_op_omap_rm_keys2(*mut WriteOp, *const *const c_char, *const usize, usize);
    fn rados_write_op_remove(*mut WriteOp);
    fn rados_aio_write_op_operate(
        *mut WriteOp,
        *mut Io,
        *mut Completion,
        *const c_char,
        *mut i64,
        c_int,
    ) -> c_int;
    fn rados_create_read_op() -> *mut ReadOp;
    fn rados_release_read_op(*mut ReadOp);
    fn rados_read_op_assert_exists(*mut ReadOp);
    fn rados_read_op_assert_version(*mut ReadOp, u64);
    fn rados_read_op_cmpxattr(*mut ReadOp, *const c_char, u8, *const c_char, usize);
    fn rados_read_op_stat(*mut ReadOp, *mut u64, *mut i64, *mut c_int);
    fn rados_read_op_read(*mut ReadOp, u64, usize, *mut c_char, *mut usize, *mut c_int);
    fn rados_read_op_getxattrs(*mut ReadOp, *mut *mut Xattrs, *mut c_int);
    fn rados_getxattrs_next(
        *mut Xattrs,
        *mut *const c_char,
        *mut *const c_char,
        *mut usize,
    ) -> c_int;
    fn rados_getxattrs_end(*mut Xattrs);
    fn rados_read_op_omap_get_vals2(
        *mut ReadOp,
        *const c_char,
        *const c_char,
        u64,
        *mut *mut Omap,
        *mut c_uchar,
        *mut c_int,
    );
    fn rados_omap_get_next2(
        *mut Omap,
        *mut *mut c_char,
        *mut *mut c_char,
        *mut usize,
        *mut usize,
    ) -> c_int;
    fn rados_omap_get_end(*mut Omap);
    fn rados_aio_read_op_operate(
        *mut ReadOp,
        *mut Io,
        *mut Completion,
        *const c_char,
        c_int,
    ) -> c_int;
}

impl Functions {
    /// The functions of the library that is installed. It is loaded once and stays.
    pub(super) fn get() -> Result<&'static Self, CephError> {
        static FOUND: OnceLock<Functions> = OnceLock::new();
        match FOUND.get() {
            Some(found) => Ok(found),
            None => Self::load(LIBRARY).map(|found| FOUND.get_or_init(|| found)),
        }
    }

    fn load(name: &str) -> Result<Self, CephError> {
        // SAFETY: the initializers of Ceph's client library may run at any time and on any thread.
        let library = unsafe { Library::new(name) };
        let library = library.map_err(|error| CephError::LibraryAbsent {
            library: name.to_owned(),
            // What the linker said is the cause.
            reason: error.source().map_or_else(|| error.to_string(), ToString::to_string),
        })?;
        let found = Self::find(&library, name)?;
        // The functions stay valid only while the library is loaded, and it starts threads.
        std::mem::forget(library);
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_absent_library_is_named_with_its_package() {
        let error = Functions::load("/nowhere/librados.so.2").err().unwrap();
        let text = error.to_string();
        for part in ["/nowhere/librados.so.2", "cannot open shared object file", "librados2"] {
            assert!(text.contains(part), "{text}");
        }
    }

    #[test]
    fn a_library_without_a_function_is_too_old() {
        let error = Functions::load("libc.so.6").err().unwrap();
        assert!(
            matches!(&error, CephError::LibraryTooOld { function: "rados_create2", .. }),
            "{error}"
        );
        assert!(error.to_string().contains("libc.so.6 has no function rados_create2"), "{error}");
    }
}
