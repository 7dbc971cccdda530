//! A simulated disk that computes what a power cut would leave of it.
//!
//! The disk keeps two images: the live one, which calls see, and the durable one, which syncs update.
//! From the unsynced changes between them [`CrashDisk::durable_states`] draws states that may exist after
//! a power cut:
//!
//! * Unsynced bytes of a file may all be present, be missing, end anywhere, or be new in some sectors
//!   (512 or 4,096 bytes) and old or zero in others. The same holds for the file's length.
//! * A name that was created or removed after the last sync of its directory may be present or not,
//!   independently of every other name. If the name of a directory is lost, so is its content.
//! * A name that a rename gave to another file names either the one or the other.
//! * A sync of a file makes its bytes durable, but not its name. A sync of a directory makes its names
//!   durable, but not the bytes of its files.
//!
//! This is weaker than the guarantees of journalling file systems, and equal to those of POSIX.
//!
//! [`CrashObjects`], [`CrashLog`], [`CrashPages`] and [`CrashFolder`] take the steps of [`LocalObjects`],
//! [`LocalLog`], [`LocalPages`] and [`LocalFolder`], in the same order. A step is a call that changes the disk
//! or syncs part of it; steps of all handles are counted together.
//!
//! To test a program, run it once to learn how many steps it takes. Then, for each number of steps up to
//! that, run it on a new disk that [crashes](CrashDisk::crash_after) after that number, note what was
//! acknowledged, and check every possible state of the disk:
//!
//! ```
//! # use onefold_backend::{crash::CrashDisk, Objects};
//! fn program(disk: &CrashDisk) -> bool {
//!     disk.objects().put("name", "content".into()).is_ok()
//! }
//!
//! let whole = CrashDisk::new();
//! program(&whole);
//! for steps in 0..=whole.operations() {
//!     let disk = CrashDisk::new();
//!     disk.crash_after(steps);
//!     let acknowledged = program(&disk);
//!     for state in disk.durable_states(16, 0) {
//!         match state.objects().get("name") {
//!             Ok(bytes) => assert_eq!(bytes, "content"),
//!             Err(error) => assert!(error.is_not_found() && !acknowledged),
//!         }
//!     }
//! }
//! ```
//!
//! [`LocalObjects`]: crate::LocalObjects
//! [`LocalLog`]: crate::LocalLog
//! [`LocalPages`]: crate::LocalPages
//! [`LocalFolder`]: crate::LocalFolder

mod content;
mod disk;
mod fate;
mod file_system;
mod folder;
mod objects;
mod owned;
mod seeded;

pub use disk::{CrashDisk, Step};
pub use folder::CrashFolder;
pub use objects::CrashObjects;
pub use owned::{CrashLog, CrashPages};
#[cfg(feature = "seeded-bugs")]
pub use seeded::DiskBug;
