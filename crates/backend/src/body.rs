//! Bodies of answers: received in memory, and resumed after a break.

use std::ops::Range;

use bytes::Bytes;
use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{GetOptions, GetRange, GetResult, GetResultPayload, ObjectStore};

/// An answer to a read, before its body is received.
pub(crate) struct Answer {
    result: GetResult,
}

impl Answer {
    /// Requests `range` of the object at `path`, or all of it.
    pub(crate) async fn ask(
        store: &impl ObjectStore,
        path: &Path,
        range: Option<Range<u64>>,
    ) -> object_store::Result<Self> {
        let range = range.map(GetRange::Bounded);
        let result = store.get_opts(path, GetOptions { range, ..Default::default() }).await?;
        Ok(Self { result })
    }

    /// The range of the body. A range beyond the end of the object is shortened.
    pub(crate) fn range(&self) -> Range<u64> {
        self.result.range.clone()
    }

    /// The object's size in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.result.meta.size
    }

    /// The body. If it breaks after some bytes, the rest of the same object is requested; each attempt
    /// must bring some bytes.
    pub(crate) async fn body(
        self,
        store: &impl ObjectStore,
        path: &Path,
    ) -> object_store::Result<Bytes> {
        if !matches!(self.result.payload, GetResultPayload::Stream(_)) {
            return self.result.bytes().await;
        }
        let (range, etag) = (self.result.range.clone(), self.result.meta.e_tag.clone());
        let mut bytes = Vec::with_capacity((range.end - range.start) as usize);
        let mut result = self.result;
        loop {
            let before = bytes.len();
            let mut stream = result.into_stream();
            let broken = loop {
                match stream.try_next().await {
                    Ok(Some(part)) => bytes.extend_from_slice(&part),
                    Ok(None) => return Ok(bytes.into()),
                    Err(error) => break error,
                }
            };
            // Without a tag nothing says that it would be the same object.
            if bytes.len() == before || etag.is_none() {
                return Err(broken);
            }
            // The stream holds a permit for a request, and the next request may wait for that one.
            drop(stream);
            let rest = range.start + bytes.len() as u64..range.end;
            if rest.is_empty() {
                return Ok(bytes.into());
            }
            let options = GetOptions {
                range: Some(GetRange::Bounded(rest)),
                if_match: etag.clone(),
                ..Default::default()
            };
            result = match store.get_opts(path, options).await {
                Ok(result) => result,
                // The caller repeats the whole read, and then sees what the object has become.
                Err(_) => return Err(broken),
            };
        }
    }
}
