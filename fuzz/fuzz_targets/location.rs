//! A location is read or refused, and what is read is shown as the same.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use onefold_backend::Location;

fuzz_target!(|text: &str| {
    let shown = match Location::parse(Path::new(text)) {
        Ok(Location::Bucket(location)) => {
            (Location::Bucket(location.clone()), location.to_string())
        }
        Ok(Location::Sftp(location)) => (Location::Sftp(location.clone()), location.to_string()),
        Ok(_) | Err(_) => return,
    };
    assert_eq!(Location::parse(Path::new(&shown.1)).unwrap(), shown.0);
});
