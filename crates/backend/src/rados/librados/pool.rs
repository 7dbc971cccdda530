//! A namespace of a pool.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ops::ControlFlow;
use std::ptr;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use bytes::Bytes;
use rustix::io::Errno;

use super::CephError;
use super::cluster::{Connection, c_string, note_thread_of_library};
use super::error::{is, message, refusal};
use super::functions::{Completion, Functions, Io, Listing, OnComplete};
use super::operation::{Changes, Questions, c_name};
use crate::rados::{
    Answer, Compare, OnUpdated, PoolIdentity, PoolKind, Query, RadosError, RadosPool, Refusal,
    Step, Update,
};

/// An object that is never made: what asks for the kind of a pool changes nothing.
const PROBE: &str = "onefold.probe";

/// `LIBRADOS_OPERATION_FULL_FORCE`
const FULL_FORCE: c_int = 128;

/// A namespace of a pool of Ceph.
#[derive(Debug)]
pub struct CephPool {
    io: Arc<IoContext>,
    kind: Arc<PoolKind>,
}

/// A namespace of a pool, as the client library has it, and the connection that it needs.
#[derive(Debug)]
struct IoContext {
    handle: *mut Io,
    connection: Arc<Connection>,
}

// SAFETY: the library's documentation says that any thread may use it, at the same time as others,
// once its namespace is set, which `open` does before it gives it away.
unsafe impl Send for IoContext {}
// SAFETY: see there.
unsafe impl Sync for IoContext {}

impl Drop for IoContext {
    fn drop(&mut self) {
        // SAFETY: `open` made it, and nothing that needs it is left: each operation that was sent owns a
        // part of it until it is complete.
        unsafe { (self.connection.functions.rados_ioctx_destroy)(self.handle) };
    }
}

impl CephPool {
    pub(super) fn open(
        connection: &Arc<Connection>,
        pool: &str,
        namespace: &str,
    ) -> Result<Self, CephError> {
        let functions = connection.functions;
        let doing = format!("open the pool {pool}");
        let (name, space) = (c_string(pool)?, c_string(namespace)?);
        let mut handle = ptr::null_mut();
        // SAFETY: the connection is connected, the name ends with a NUL, and `handle` takes a pointer.
        let code = unsafe {
            (functions.rados_ioctx_create)(connection.handle, name.as_ptr(), &mut handle)
        };
        if is(code, Errno::NOENT) {
            return Err(CephError::NoPool { pool: pool.to_owned() });
        }
        connection.check(code, &doing)?;
        let io = IoContext { handle, connection: connection.clone() };
        // SAFETY: only this thread has the handle, and the name ends with a NUL.
        let number = unsafe {
            (functions.rados_ioctx_set_namespace)(handle, space.as_ptr());
            // Otherwise operations on a full pool wait until it is not full.
            (functions.rados_set_pool_full_try)(handle);
            (functions.rados_ioctx_get_id)(handle)
        };
        let kind = PoolKind {
            name: pool.to_owned(),
            identity: PoolIdentity { cluster: connection.fsid.clone(), number },
            has_omap: true,
            alignment: io.alignment().map_err(|code| connection.error(code, &doing))?,
            max_object: connection.number(c"osd_max_object_size").unwrap_or(128 << 20),
            max_update: connection.number(c"osd_max_write_size").unwrap_or(90) << 20,
        };
        let mut pool = Self { io: Arc::new(io), kind: Arc::new(kind) };
        let has_omap = pool.has_omap().map_err(|error| match error.refusal() {
            Some(Refusal::Forbidden) => {
                let doing = format!("write to the pool {}", pool.kind.name);
                CephError::Forbidden { user: connection.user.clone(), doing }
            }
            _ => CephError::Failed { doing, reason: error.to_string() },
        })?;
        Arc::make_mut(&mut pool.kind).has_omap = has_omap;
        Ok(pool)
    }

    /// Whether the pool takes an omap: tries to write one, and adds a guard that never holds.
    fn has_omap(&self) -> Result<bool, RadosError> {
        let steps = [
            Step::SetOmap(vec![(PROBE.to_owned(), Bytes::new())]),
            Step::Xattr { name: PROBE.to_owned(), is: Compare::Equal, value: "unset".into() },
        ];
        let (tell, told) = sync_channel(1);
        // The receiver below lives until it has received.
        self.send(PROBE, &steps, 0, Box::new(move |result| drop(tell.send(result))));
        match told.recv().expect("`send` answers once") {
            Ok(_) => Ok(true),
            Err(error) => match error.refusal() {
                Some(Refusal::Guard | Refusal::Absent) => Ok(true),
                Some(Refusal::Unsupported) => Ok(false),
                _ => Err(error),
            },
        }
    }

    /// Begins to apply `steps`, in their order, all of them or none, with `flags` of the library.
    fn send(&self, object: &str, steps: &[Step], flags: c_int, done: OnUpdated) {
        let functions = self.io.connection.functions;
        let changes = Changes::new(functions, steps);
        let name = c_name(object);
        let pending = Box::into_raw(Box::new(Pending {
            done,
            object: object.to_owned(),
            kind: self.kind.clone(),
            io: self.io.clone(),
        }));
        let completion = completion(functions, pending, Some(completed));
        // SAFETY: the three handles are valid and the name ends with a NUL. The library takes what is in
        // the list, and copies the name. The time of modification is the present.
        let code = unsafe {
            let (list, time) = (changes.list, ptr::null_mut());
            let (io, name) = (self.io.handle, name.as_ptr());
            (functions.rados_aio_write_op_operate)(list, io, completion, name, time, flags)
        };
        if code < 0 {
            // SAFETY: nothing was sent, so the library does not call `completed`.
            let pending = unsafe {
                (functions.rados_aio_release)(completion);
                Box::from_raw(pending)
            };
            (pending.done)(Err(failure(&self.kind, object, code)));
        }
    }
}

impl IoContext {
    /// What an append must be a multiple of, in bytes; or the code of an error.
    fn alignment(&self) -> Result<u64, c_int> {
        let functions = self.connection.functions;
        let (mut is_needed, mut alignment) = (0, 1);
        // SAFETY: the handle is valid, and the others take the answers.
        let codes = unsafe {
            [
                (functions.rados_ioctx_pool_requires_alignment2)(self.handle, &mut is_needed),
                (functions.rados_ioctx_pool_required_alignment2)(self.handle, &mut alignment),
            ]
        };
        match codes.into_iter().find(|code| *code < 0) {
            Some(code) => Err(code),
            None if is_needed == 0 => Ok(1),
            None => Ok(alignment),
        }
    }
}

/// An update that was sent.
struct Pending {
    done: OnUpdated,
    object: String,
    kind: Arc<PoolKind>,
    io: Arc<IoContext>,
}

/// Called by the client library when a [`Pending`] has its result, once, on a thread of its own.
extern "C" fn completed(completion: *mut Completion, pending: *mut c_void) {
    note_thread_of_library();
    // SAFETY: `start_update` made it from a box and left it to this call.
    let Pending { done, object, kind, io } = *unsafe { Box::from_raw(pending.cast::<Pending>()) };
    let functions = io.connection.functions;
    let result = take_result(functions, completion);
    // Before the caller hears of it: if the caller then drops the pool, it was the last to have it.
    drop(io);
    done(result.map_err(|code| failure(&kind, &object, code)));
}

/// The version, or the code of an error, of an operation that is complete; releases it.
fn take_result(functions: &Functions, completion: *mut Completion) -> Result<u64, c_int> {
    // SAFETY: the library made it, the operation is complete, and nobody uses it afterwards.
    unsafe {
        let code = (functions.rados_aio_get_return_value)(completion);
        let version = (functions.rados_aio_get_version)(completion);
        (functions.rados_aio_release)(completion);
        if code < 0 { Err(code) } else { Ok(version) }
    }
}

/// A place for the result of an operation, and what is called with `pending` when it is there.
fn completion(
    functions: &Functions,
    pending: *mut Pending,
    call: Option<OnComplete>,
) -> *mut Completion {
    let mut completion = ptr::null_mut();
    // SAFETY: the library keeps `pending` for the call only, and `completion` takes a pointer. It
    // allocates or aborts.
    unsafe { (functions.rados_aio_create_completion2)(pending.cast(), call, &mut completion) };
    completion
}

fn failure(kind: &PoolKind, object: &str, code: c_int) -> RadosError {
    match refusal(code) {
        Some(why) => refused(kind, object, why),
        None => RadosError::Unknown {
            object: object.to_owned(),
            pool: kind.name.clone(),
            code: message(code),
        },
    }
}

fn refused(kind: &PoolKind, object: &str, why: Refusal) -> RadosError {
    RadosError::Refused { object: object.to_owned(), pool: kind.name.clone(), why }
}

impl RadosPool for CephPool {
    fn kind(&self) -> &PoolKind {
        &self.kind
    }

    fn start_update(&self, object: &str, update: Update, done: OnUpdated) {
        update.expect_in_order();
        if update.bytes() > self.kind.max_update {
            return done(Err(refused(&self.kind, object, Refusal::TooLarge)));
        }
        let flags = if update.is_for_full_pool() { FULL_FORCE } else { 0 };
        self.send(object, update.steps(), flags, done);
    }

    fn query(&self, object: &str, query: &Query) -> Result<Answer, RadosError> {
        let functions = self.io.connection.functions;
        let mut questions = Questions::new(functions, query, self.kind.max_object);
        let name = c_name(object);
        let completion = completion(functions, ptr::null_mut(), None);
        // SAFETY: the three handles are valid and the name ends with a NUL. The places of the answers
        // stay until the operation is complete, for which this waits.
        let result = unsafe {
            let (list, io) = (questions.list, self.io.handle);
            match (functions.rados_aio_read_op_operate)(list, io, completion, name.as_ptr(), 0) {
                0.. => {
                    (functions.rados_aio_wait_for_complete)(completion);
                    take_result(functions, completion)
                }
                code => {
                    (functions.rados_aio_release)(completion);
                    Err(code)
                }
            }
        };
        let answer = result.and_then(|version| questions.answer(version));
        answer.map_err(|code| failure(&self.kind, object, code))
    }

    fn list(&self, each: &mut dyn FnMut(&str) -> ControlFlow<()>) -> Result<(), RadosError> {
        let failure = |code| failure(&self.kind, "the list of objects", code);
        let mut walk = Walk::begin(&self.io).map_err(failure)?;
        while let Some(name) = walk.next().map_err(failure)? {
            if each(&name.to_string_lossy()).is_break() {
                break;
            }
        }
        Ok(())
    }
}

/// A walk over the objects of a namespace.
struct Walk<'a> {
    io: &'a IoContext,
    handle: *mut Listing,
}

impl Drop for Walk<'_> {
    fn drop(&mut self) {
        // SAFETY: `begin` made it, and only this drops it.
        unsafe { (self.io.connection.functions.rados_nobjects_list_close)(self.handle) };
    }
}

impl<'a> Walk<'a> {
    fn begin(io: &'a IoContext) -> Result<Self, c_int> {
        let mut handle = ptr::null_mut();
        // SAFETY: the namespace is open, and `handle` takes a pointer.
        let code =
            unsafe { (io.connection.functions.rados_nobjects_list_open)(io.handle, &mut handle) };
        if code < 0 { Err(code) } else { Ok(Self { io, handle }) }
    }

    /// The name of the next object, if there is one; or the code of an error.
    fn next(&mut self) -> Result<Option<&CStr>, c_int> {
        let mut name: *const c_char = ptr::null();
        // SAFETY: the walk is open, and `name` takes a pointer; the others may be null.
        let code = unsafe {
            let (functions, none) = (self.io.connection.functions, ptr::null_mut());
            (functions.rados_nobjects_list_next)(self.handle, &mut name, none, none)
        };
        if is(code, Errno::NOENT) {
            return Ok(None);
        }
        if code < 0 {
            return Err(code);
        }
        // SAFETY: it ends with a NUL and stays until the next call, which needs this whole.
        Ok(Some(unsafe { CStr::from_ptr(name) }))
    }
}
