//! The header that is shipped is the one that cbindgen makes of the sources.

use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn the_header_is_what_the_sources_declare() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(package.join("cbindgen.toml")).unwrap();
    let mut sources: Vec<PathBuf> =
        fs::read_dir(package.join("src")).unwrap().map(|entry| entry.unwrap().path()).collect();
    sources.sort();
    let mut builder = cbindgen::Builder::new().with_config(config);
    for source in sources {
        builder = builder.with_src(source);
    }
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
