//! Calls of a folder that the one within answers.

/// Methods of `Folder`, by name, that a folder around `self.inner` hands on as they are.
macro_rules! pass_on {
    ($($method:ident),*) => { $(pass_on!(@$method);)* };
    (@reader) => {
        fn reader(&self, name: &str) -> Result<Box<dyn LogReader>, BackendError> {
            self.inner.reader(name)
        }
    };
    (@pages) => {
        fn pages(&self, name: &str, size: usize) -> Result<Box<dyn Pages + Sync>, BackendError> {
            self.inner.pages(name, size)
        }
    };
    (@names) => {
        fn names(&self) -> Result<Vec<String>, BackendError> {
            self.inner.names()
        }
    };
    (@remove) => {
        fn remove(&self, name: &str) -> Result<(), BackendError> {
            self.inner.remove(name)
        }
    };
    (@rename) => {
        fn rename(&self, from: &str, to: &str) -> Result<(), BackendError> {
            self.inner.rename(from, to)
        }
    };
}

pub(crate) use pass_on;
