//! Errors as Python exceptions, with the message of the crate that made them.

use std::any::Any;
use std::error::Error;
use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;

use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;

/// Parameters or arguments that were refused.
pub(crate) fn refused(error: impl Error) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// An error of the operating system at `path`, as Python raises its own.
pub(crate) fn of_file(error: &io::Error, path: &Path) -> PyErr {
    match error.raw_os_error() {
        Some(number) => {
            let reason = error.to_string();
            // Python appends the number itself.
            let reason = reason.split(" (os error").next().unwrap_or_default().to_owned();
            PyOSError::new_err((number, reason, path.as_os_str().to_owned()))
        }
        None => PyOSError::new_err(format!("'{}': {error}", path.display())),
    }
}

/// Runs `work` without the interpreter's lock. A panic, which is an error in Onefold, becomes a
/// `RuntimeError`.
pub(crate) fn detached<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> PyResult<T> {
    py.detach(|| panic::catch_unwind(AssertUnwindSafe(work)).map_err(|panic| broken(&*panic)))
}

pub(crate) fn broken(panic: &(dyn Any + Send)) -> PyErr {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
    PyRuntimeError::new_err(format!("an error in Onefold itself, please report it: {text}"))
}
