//! What functions return, and what they say.

use std::any::Any;
use std::cell::RefCell;
use std::error::Error;
use std::ffi::{CString, c_char};
use std::panic::{self, AssertUnwindSafe};
use std::ptr;

/// How a function ended.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum onefold_status {
    /// It did what it promises.
    ONEFOLD_OK = 0,
    /// There is no more: of a stream no chunk, of a buffer too few bytes to tell where a chunk ends.
    ONEFOLD_END = 1,
    /// An argument was refused; nothing was done.
    ONEFOLD_REFUSED = -1,
    /// A stream's read function failed. The next call goes on with it.
    ONEFOLD_READ = -2,
    /// An error in Onefold itself. Free the handle and report it.
    ONEFOLD_BROKEN = -3,
}

use onefold_status::{ONEFOLD_BROKEN, ONEFOLD_OK, ONEFOLD_READ, ONEFOLD_REFUSED};

/// Why a function failed.
pub(crate) enum Failure {
    Refused(String),
    Read(String),
}

impl Failure {
    /// An argument that a crate refused.
    pub(crate) fn refused(error: impl Error) -> Self {
        Self::Refused(error.to_string())
    }

    pub(crate) fn argument(message: impl Into<String>) -> Self {
        Self::Refused(message.into())
    }
}

thread_local! {
    /// The message of this thread's last failure.
    static MESSAGE: RefCell<Option<CString>> = const { RefCell::new(None) };
}

/// What was wrong with the last call of this thread that failed, or NULL if none did. Valid until the
/// next call of this thread that fails.
#[unsafe(no_mangle)]
pub extern "C" fn onefold_last_error() -> *const c_char {
    let message = || {
        MESSAGE.with_borrow(|message| message.as_ref().map_or(ptr::null(), |text| text.as_ptr()))
    };
    panic::catch_unwind(message).unwrap_or(ptr::null())
}

/// Runs `call`, notes why it failed, and keeps a panic on this side.
pub(crate) fn guarded(call: impl FnOnce() -> Result<onefold_status, Failure>) -> onefold_status {
    let (status, message) = match panic::catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(status)) => return status,
        Ok(Err(Failure::Refused(message))) => (ONEFOLD_REFUSED, message),
        Ok(Err(Failure::Read(message))) => (ONEFOLD_READ, message),
        Err(panic) => (ONEFOLD_BROKEN, told(&*panic)),
    };
    let message = CString::new(message.replace('\0', "\\0")).ok();
    MESSAGE.set(message);
    status
}

/// As [`guarded`], for what returns nothing else than that it went well.
pub(crate) fn done(call: impl FnOnce() -> Result<(), Failure>) -> onefold_status {
    guarded(|| call().map(|()| ONEFOLD_OK))
}

fn told(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
    format!("an error in Onefold itself, please report it: {text}")
}
