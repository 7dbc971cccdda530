//! A simulated disk that knows what a power cut would leave of it.
//!
//! The disk keeps two pictures: the live one that calls see, and the durable one that syncs build.
//! What was written but not synced is between the two, and [`CrashDisk::durable_states`] draws
//! from it what may be found after the power returns:
//!
//! * bytes of a file that was not synced may all be there, be missing, end anywhere, or be new in
//!   some sectors (512 or 4,096 bytes) and old or zero in the others, the file's length included;
//! * a name that was made or removed since its directory was synced may be there or not, each
//!   independently of every other; a directory whose own name is lost takes its content along;
//! * a sync of a file makes its bytes durable, not its name; a sync of a directory makes its
//!   names durable, not the bytes behind them.
//!
//! This is less than journalling file systems promise, and what POSIX does.
//!
//! [`CrashObjects`], [`CrashLog`], [`CrashPages`] and [`CrashFolder`] take the steps of [`LocalObjects`],
//! [`LocalLog`], [`LocalPages`] and [`LocalFolder`], in the same order. A step is a call that changes the disk
//! or syncs part of it; steps of all handles are counted together.
//!
//! To test that a program keeps its promises, run it once to learn how many steps it takes. Then,
//! for each count up to that, run it on a new disk told to [crash](CrashDisk::crash_after) after so
//! many, noting what was acknowledged, and check every state the disk may be in:
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
