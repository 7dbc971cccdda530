//! Every implementation passes the one suite.

use onefold_backend::conformance;
use onefold_backend::crash::CrashDisk;
use onefold_backend::fault::{Faults, Faulty};
use onefold_backend::{
    LocalFolder, LocalLog, LocalObjects, LocalPages, Log, MemoryFolder, MemoryLog, MemoryObjects,
    MemoryPages, Objects, Overlay, Pages,
};
use std::cell::Cell;
use std::sync::Arc;

#[test]
fn memory_objects_conform() {
    conformance::objects(|| Box::new(MemoryObjects::new()));
}

#[test]
fn local_objects_conform() {
    let folder = tempfile::tempdir().unwrap();
    let count = Cell::new(0);
    conformance::objects(|| {
        count.set(count.get() + 1);
        let root = folder.path().join(format!("new/root{}", count.get()));
        Box::new(LocalObjects::create(&root).unwrap())
    });
}

#[test]
fn crash_objects_conform() {
    conformance::objects(|| Box::new(CrashDisk::new().objects()));
}

#[test]
fn faultless_objects_conform() {
    conformance::objects(|| Box::new(Faulty::new(MemoryObjects::new(), "memory", &Faults::none())));
}

#[test]
fn pointers_to_objects_conform() {
    conformance::objects(|| {
        let shared: Arc<dyn Objects> = Arc::new(MemoryObjects::new());
        Box::new(shared)
    });
}

#[test]
fn every_log_conforms() {
    conformance::log(|| Box::new(MemoryLog::new()));
    conformance::log(|| Box::new(CrashDisk::new().log("journal").unwrap()));
    conformance::log(|| Box::new(Faulty::new(MemoryLog::new(), "journal", &Faults::none())));
    let folder = tempfile::tempdir().unwrap();
    let count = Cell::new(0);
    conformance::log(|| {
        count.set(count.get() + 1);
        Box::new(LocalLog::open(&folder.path().join(count.get().to_string())).unwrap())
    });
}

#[test]
fn every_folder_conforms() {
    conformance::folder(|| Box::new(MemoryFolder::new()));
    let empty = tempfile::tempdir().unwrap();
    conformance::folder(|| Box::new(Overlay::open(empty.path()).unwrap()));
    conformance::folder(|| Box::new(CrashDisk::new().folder()));
    conformance::folder(|| Box::new(Faulty::new(MemoryFolder::new(), "", &Faults::none())));
    let folder = tempfile::tempdir().unwrap();
    let count = Cell::new(0);
    conformance::folder(|| {
        count.set(count.get() + 1);
        let root = folder.path().join(format!("new/folder{}", count.get()));
        Box::new(LocalFolder::create(&root).unwrap())
    });
}

#[test]
fn all_pages_conform() {
    conformance::pages(|size| Box::new(MemoryPages::new(size)));
    conformance::pages(|size| Box::new(CrashDisk::new().pages("table", size).unwrap()));
    conformance::pages(|size| {
        Box::new(Faulty::new(MemoryPages::new(size), "table", &Faults::none()))
    });
    let folder = tempfile::tempdir().unwrap();
    let count = Cell::new(0);
    conformance::pages(|size| {
        count.set(count.get() + 1);
        let path = folder.path().join(count.get().to_string());
        Box::new(LocalPages::open(&path, size).unwrap())
    });
}

#[test]
fn boxes_forward() {
    let mut log: Box<dyn Log> = Box::new(Box::new(MemoryLog::new()) as Box<dyn Log>);
    log.append(b"a").unwrap();
    assert_eq!(log.len(), 1);
    let mut pages: Box<dyn Pages> = Box::new(Box::new(MemoryPages::new(2)) as Box<dyn Pages>);
    pages.set_count(1).unwrap();
    assert_eq!(pages.count(), 1);
}
