//! The S3 server that the tests start: moto, from the Python package index, with all that it
//! needs pinned. It lies in a virtual environment in the target folder.

use std::path::PathBuf;

use crate::python;
use crate::workspace::Cargo;

/// The server and what its S3 part needs, of the versions that the tests were written for.
const PACKAGES: &[&str] =
    &["moto[s3]==5.2.5", "boto3==1.44.5", "flask==3.1.3", "flask-cors==6.0.5", "werkzeug==3.1.9"];

/// The folder of the server, installed if it is missing, or `None` after saying why there is none.
pub fn install(cargo: Cargo) -> Option<PathBuf> {
    match python::environment(cargo, "s3-server", PACKAGES, &[]) {
        Ok(folder) => Some(folder),
        Err(error) => {
            println!("setup: no S3 server: {error:#}; tests that need it skip");
            None
        }
    }
}
