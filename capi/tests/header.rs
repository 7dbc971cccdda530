//! The header that is shipped is the one that cbindgen makes of the sources.

#![allow(clippy::disallowed_methods, reason = "the header is no byte of a repository")]

use std::fs;
use std::path::Path;

#[test]
fn the_header_is_what_the_sources_declare() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(package.join("cbindgen.toml")).unwrap();
    // It follows the modules from there.
    let builder = cbindgen::Builder::new().with_config(config).with_src(package.join("src/lib.rs"));
    let mut made = Vec::new();
    builder.generate().unwrap().write(&mut made);
    let made = String::from_utf8(made).unwrap();

    let header = package.join("include/onefold_cdc.h");
    if std::env::var_os("ONEFOLD_WRITE_HEADER").is_some() {
        fs::write(&header, &made).unwrap();
    }
    let kept = fs::read_to_string(&header).unwrap();
    assert!(
        kept == made,
        "capi/include/onefold_cdc.h is not what cbindgen makes; \
         ONEFOLD_WRITE_HEADER=1 cargo test -p onefold-capi writes it"
    );
}
