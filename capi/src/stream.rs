//! Chunks of what a function reads.

use std::ffi::c_void;
use std::io::{self, Read};

use onefold_cdc::Stream;

use crate::chunker::onefold_chunker;
use crate::error::onefold_status::{ONEFOLD_END, ONEFOLD_OK};
use crate::error::{Failure, done, guarded, onefold_status};
use crate::pointers::{free, hand_over, handle, write};

/// Reads the next bytes into `buffer`, at most `len`, and returns how many they are: 0 at the end, and
/// any negative number for an error. It must not call a function of the same stream.
pub type onefold_read =
    Option<unsafe extern "C" fn(context: *mut c_void, buffer: *mut u8, len: usize) -> isize>;

/// The chunks of what a function reads, in bounded memory. For one thread at a time.
pub struct onefold_stream(Stream<Reader>);

/// A chunk. Its bytes are valid until the next call with the stream.
#[repr(C)]
pub struct onefold_chunk {
    /// The bytes.
    data: *const u8,
    /// How many.
    len: usize,
    /// Where in the stream the chunk begins.
    offset: u64,
}

struct Reader {
    read: unsafe extern "C" fn(*mut c_void, *mut u8, usize) -> isize,
    context: *mut c_void,
}

impl Read for Reader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // SAFETY: the caller of onefold_stream_new promised that the function may be called so.
        let count = unsafe { (self.read)(self.context, buffer.as_mut_ptr(), buffer.len()) };
        match usize::try_from(count) {
            Ok(count) if count <= buffer.len() => Ok(count),
            Ok(count) => Err(io::Error::other(format!(
                "the read function says it read {count} bytes, expected at most {}",
                buffer.len()
            ))),
            Err(_) => Err(io::Error::other(format!("the read function failed with {count}"))),
        }
    }
}

/// Makes a stream of what `read` yields, which onefold_stream_free frees. `context` is passed to it.
///
/// # Safety
/// `chunker` is a chunker, `out` has room, and `read` may be called with `context` until the stream is
/// freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onefold_stream_new(
    chunker: *const onefold_chunker,
    read: onefold_read,
    context: *mut c_void,
    out: *mut *mut onefold_stream,
) -> onefold_status {
    done(|| {
        // SAFETY: by the contract of this function.
        let chunker = unsafe { handle(chunker, "chunker") }?.chunker.clone();
        let read = read.ok_or_else(|| Failure::argument("read is NULL"))?;
        let stream = onefold_stream(Stream::new(chunker, Reader { read, context }));
        // SAFETY: as above.
        unsafe { hand_over(out, stream) }
    })
}

/// Puts the next chunk into `out`. ONEFOLD_END after the last one, ONEFOLD_READ if the read function
/// failed; then nothing is lost, and the next call goes on.
///
/// # Safety
/// `stream` is a stream that no other call uses; `out` has room.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onefold_stream_next(
    stream: *mut onefold_stream,
    out: *mut onefold_chunk,
) -> onefold_status {
    guarded(|| {
        // SAFETY: by the contract of this function.
        let stream = unsafe { stream.as_mut() };
        let stream = &mut stream.ok_or_else(|| Failure::argument("stream is NULL"))?.0;
        if out.is_null() {
            return Err(Failure::argument("out is NULL, expected room for the chunk"));
        }
        let offset = stream.offset();
        let chunk = stream.next().map_err(|error| Failure::Read(error.to_string()))?;
        let Some(chunk) = chunk else { return Ok(ONEFOLD_END) };
        let chunk = onefold_chunk { data: chunk.as_ptr(), len: chunk.len(), offset };
        // SAFETY: as above.
        unsafe { write(out, chunk, "out") }.map(|()| ONEFOLD_OK)
    })
}

/// Frees a stream; NULL is nothing.
///
/// # Safety
/// `stream` is NULL or of onefold_stream_new, and is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onefold_stream_free(stream: *mut onefold_stream) {
    // SAFETY: by the contract of this function.
    unsafe { free(stream) };
}
