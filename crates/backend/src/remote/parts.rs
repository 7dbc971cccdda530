//! Multipart uploads of long objects over unreliable connections.
//!
//! A put in one request starts again whenever its connection breaks, so on an unreliable connection it may
//! never complete. After two breaks the object is sent in parts; parts that arrived are kept across retries.

use std::collections::HashMap;
use std::io;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use object_store::aws::AmazonS3;
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path;
use object_store::{Error, MultipartId, PutPayload, Result};

/// The length of a part in bytes. Services take no shorter one, except as the last.
const PART: usize = 5 << 20;

/// A put that broke this many times continues in parts.
const BROKEN: u32 = 2;

/// The state of puts that failed with transient errors, by the object's name.
#[derive(Debug, Default)]
pub(super) struct Attempts(Mutex<HashMap<String, Attempt>>);

/// The tries of one put so far.
#[derive(Debug, Default)]
pub(super) struct Attempt {
    broken: u32,
    /// Whether the service does not support multipart uploads.
    is_refused: bool,
    upload: Option<Upload>,
}

/// An upload that was begun, and the parts of it that arrived.
#[derive(Debug)]
struct Upload {
    id: MultipartId,
    /// The content of the parts. Other bytes may be put under the name later.
    bytes: Bytes,
    parts: Vec<PartId>,
}

/// The result of a multipart upload.
pub(super) enum Sent {
    /// The object was created.
    Whole,
    /// The name is taken.
    Taken,
    /// The service does not support multipart uploads.
    Refused,
}

impl Attempts {
    pub(super) fn take(&self, name: &str) -> Attempt {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(name).unwrap_or_default()
    }

    /// Records a put that a retry may continue, and whether its body broke.
    pub(super) fn keep(&self, name: &str, mut attempt: Attempt, broke: bool) {
        attempt.broken += u32::from(broke);
        let mut attempts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        attempts.insert(name.to_owned(), attempt);
    }
}

impl Attempt {
    /// Whether an object of `len` bytes is sent in parts now.
    pub(super) const fn goes_in_parts(&self, len: usize) -> bool {
        self.broken >= BROKEN && len > PART && !self.is_refused
    }

    /// Sends the parts of the object at `path` that have not arrived yet, and completes it.
    ///
    /// # Errors
    /// Fails like a request; another call continues the upload.
    pub(super) async fn send(&mut self, s3: &AmazonS3, path: &Path, bytes: &Bytes) -> Result<Sent> {
        match self.go_on(s3, path, bytes).await {
            Ok(()) => {
                self.upload = None;
                Ok(Sent::Whole)
            }
            Err(Error::Precondition { .. } | Error::AlreadyExists { .. }) => Ok(Sent::Taken),
            Err(error) if super::may_pass(&error) => Err(error),
            // It was completed and the answer lost, or it was aborted.
            Err(error @ Error::NotFound { .. }) if self.upload.take().is_some() => {
                let source = io::Error::new(io::ErrorKind::ConnectionAborted, error);
                Err(Error::Generic { store: "S3", source: Box::new(source) })
            }
            // A put in one request tells what else is wrong.
            Err(_) => {
                self.is_refused = true;
                Ok(Sent::Refused)
            }
        }
    }

    async fn go_on(&mut self, s3: &AmazonS3, path: &Path, bytes: &Bytes) -> Result<()> {
        if let Some(other) = self.upload.take_if(|upload| upload.bytes != *bytes) {
            // What cannot be aborted now is left for a prune.
            drop(s3.abort_multipart(path, &other.id).await);
        }
        let upload = match &mut self.upload {
            Some(upload) => upload,
            none => {
                let id = s3.create_multipart(path).await?;
                none.insert(Upload { id, bytes: bytes.clone(), parts: Vec::new() })
            }
        };
        upload.send(s3, path).await
    }

    /// The upload that was begun and is not complete.
    pub(super) fn unfinished(&self) -> Option<&MultipartId> {
        self.upload.as_ref().map(|upload| &upload.id)
    }
}

/// Whether the service supports multipart uploads and refuses to complete one under a name that is taken.
/// The object at `path` exists with this `content`, so nothing changes if the service does not refuse.
pub(super) async fn refuses_taken(s3: &AmazonS3, path: &Path, content: Bytes) -> Result<bool> {
    let mut upload =
        Upload { id: s3.create_multipart(path).await?, bytes: content, parts: Vec::new() };
    match upload.send(s3, path).await {
        Ok(()) => Ok(false),
        Err(error) => {
            // What cannot be aborted holds a few bytes.
            drop(s3.abort_multipart(path, &upload.id).await);
            match error {
                Error::Precondition { .. } | Error::AlreadyExists { .. } => Ok(true),
                error => Err(error),
            }
        }
    }
}

impl Upload {
    async fn send(&mut self, s3: &AmazonS3, path: &Path) -> Result<()> {
        while self.parts.len() * PART < self.bytes.len() {
            let start = self.parts.len() * PART;
            let part = self.bytes.slice(start..self.bytes.len().min(start + PART));
            let sent =
                s3.put_part(path, &self.id, self.parts.len(), PutPayload::from(part)).await?;
            self.parts.push(sent);
        }
        s3.complete_multipart(path, &self.id, self.parts.clone()).await?;
        Ok(())
    }
}
