//! Errors of repositories as Python exceptions.

use std::error::Error;

use onefold_store::StoreError;
use pyo3::create_exception;
use pyo3::exceptions::{
    PyException, PyFileExistsError, PyFileNotFoundError, PyPermissionError, PyUserWarning,
};
use pyo3::prelude::*;

create_exception!(
    onefold,
    RepositoryError,
    PyException,
    "A repository cannot do what was asked. What is missing is a FileNotFoundError, a wrong or\n\
     missing password a PermissionError instead."
);
create_exception!(
    onefold,
    RepositoryWarning,
    PyUserWarning,
    "Something is wrong with a repository, but did not stop the operation: a file that could not be\n\
     read, a damaged object, or a repository that is not as this client saw it last."
);

/// A failed operation on a repository. What is missing, exists or is locked is an `OSError` of that
/// kind, which file systems are expected to raise.
pub(crate) fn of_store(error: &StoreError) -> PyErr {
    let message = told(error);
    match error {
        StoreError::NoPath { .. } | StoreError::NoSnapshot { .. } | StoreError::NoRepository => {
            PyFileNotFoundError::new_err(message)
        }
        StoreError::Exists | StoreError::NotEmpty { .. } => PyFileExistsError::new_err(message),
        StoreError::Locked | StoreError::WrongPassword { .. } => {
            PyPermissionError::new_err(message)
        }
        _ => RepositoryError::new_err(message),
    }
}

/// An error with its causes on one line.
pub(crate) fn told(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let more = cause.to_string();
        // Some errors quote their source already.
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        source = cause.source();
    }
    text
}
