//! The bytes of replies.

use std::io::IoSlice;

use tokio::sync::OwnedSemaphorePermit;

use crate::buffers::Buffer;
use crate::command::Done;
use crate::error::Failure;
use crate::limits::MAX_MESSAGE;
use crate::wire::{CHUNK_MAGIC, SIMPLE_REPLY_MAGIC, chunk, command};

/// The longest head: that of a chunk, and the offset of its data.
const MAX_HEAD: usize = 28;

/// The request that a reply belongs to, and the form of the reply.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReplyTo {
    pub(crate) cookie: u64,
    pub(crate) command: u16,
    pub(crate) offset: u64,
    pub(crate) is_structured: bool,
}

/// A reply in wire format.
pub(crate) struct Reply {
    head: [u8; MAX_HEAD],
    head_len: usize,
    body: Body,
    /// The slot among the requests of its connection.
    _room: OwnedSemaphorePermit,
}

enum Body {
    None,
    Data(Buffer),
    Words(Vec<u8>),
}

impl Reply {
    /// The reply to a request with this `outcome`, which occupies `room` until the reply is written.
    pub(crate) fn new(
        to: ReplyTo,
        outcome: Result<Done, Failure>,
        room: OwnedSemaphorePermit,
    ) -> Reply {
        let mut reply = Reply { head: [0; MAX_HEAD], head_len: 0, body: Body::None, _room: room };
        match outcome {
            Ok(Done::Nothing) => reply.simple(to, 0),
            Ok(Done::Read(data)) if !to.is_structured => {
                reply.simple(to, 0);
                reply.body = Body::Data(data);
            }
            // a chunk of data has at least one byte
            Ok(Done::Read(data)) if data.is_empty() => reply.chunk(to, chunk::NONE, 0),
            Ok(Done::Read(data)) => {
                reply.chunk(to, chunk::OFFSET_DATA, 8 + data.len());
                reply.push(&to.offset.to_be_bytes());
                reply.body = Body::Data(data);
            }
            Ok(Done::Extents(descriptors)) => {
                reply.chunk(to, chunk::BLOCK_STATUS, descriptors.len());
                reply.body = Body::Data(descriptors);
            }
            Err(failure) if to.is_structured => {
                let bytes = error(&failure);
                reply.chunk(to, chunk::ERROR, bytes.len());
                reply.body = Body::Words(bytes);
            }
            Err(failure) => reply.simple(to, failure.errno as u32),
        }
        reply
    }

    fn simple(&mut self, to: ReplyTo, errno: u32) {
        let needs_chunk = to.is_structured && to.command == command::READ;
        assert!(!needs_chunk, "a structured read has no simple reply");
        self.push(&SIMPLE_REPLY_MAGIC.to_be_bytes());
        self.push(&errno.to_be_bytes());
        self.push(&to.cookie.to_be_bytes());
    }

    /// The header of the only chunk of a reply, followed by `len` bytes.
    fn chunk(&mut self, to: ReplyTo, kind: u16, len: usize) {
        self.push(&CHUNK_MAGIC.to_be_bytes());
        self.push(&chunk::DONE.to_be_bytes());
        self.push(&kind.to_be_bytes());
        self.push(&to.cookie.to_be_bytes());
        self.push(&(len as u32).to_be_bytes());
    }

    fn push(&mut self, bytes: &[u8]) {
        self.head[self.head_len..self.head_len + bytes.len()].copy_from_slice(bytes);
        self.head_len += bytes.len();
    }

    /// Its length in bytes.
    pub(crate) fn len(&self) -> usize {
        self.parts().iter().map(|part| part.len()).sum()
    }

    /// Its bytes; the second part may be empty.
    pub(crate) fn parts(&self) -> [IoSlice<'_>; 2] {
        let body = match &self.body {
            Body::None => &[],
            Body::Data(buffer) => &buffer[..],
            Body::Words(bytes) => bytes,
        };
        [IoSlice::new(&self.head[..self.head_len]), IoSlice::new(body)]
    }
}

/// A failure as its error number and a message of limited length.
fn error(failure: &Failure) -> Vec<u8> {
    let mut message = failure.message.replace('\0', " ");
    while message.len() > MAX_MESSAGE {
        message.pop();
    }
    let mut bytes = Vec::with_capacity(6 + message.len());
    bytes.extend((failure.errno as u32).to_be_bytes());
    bytes.extend((message.len() as u16).to_be_bytes());
    bytes.extend(message.as_bytes());
    bytes
}
