//! Calls of a storage of objects that the one within answers.

/// Methods of `Objects`, by name, that objects around `self.objects` hand on as they are.
macro_rules! pass_on {
    ($($method:ident),*) => { $(crate::common::pass_on::pass_on!(@$method);)* };
    (@put) => {
        fn put(&self, name: &str, bytes: bytes::Bytes) -> Result<(), onefold_backend::BackendError> {
            self.objects.put(name, bytes)
        }
    };
    (@get) => {
        fn get(&self, name: &str) -> Result<bytes::Bytes, onefold_backend::BackendError> {
            self.objects.get(name)
        }

        fn get_range(
            &self,
            name: &str,
            range: std::ops::Range<u64>,
        ) -> Result<bytes::Bytes, onefold_backend::BackendError> {
            self.objects.get_range(name, range)
        }
    };
    (@size) => {
        fn size(&self, name: &str) -> Result<u64, onefold_backend::BackendError> {
            self.objects.size(name)
        }
    };
    (@list) => {
        fn list(
            &self,
            prefix: &str,
        ) -> Result<Vec<onefold_backend::ObjectInfo>, onefold_backend::BackendError> {
            self.objects.list(prefix)
        }
    };
    (@delete) => {
        fn delete(&self, name: &str) -> Result<(), onefold_backend::BackendError> {
            self.objects.delete(name)
        }
    };
}

pub(crate) use pass_on;
