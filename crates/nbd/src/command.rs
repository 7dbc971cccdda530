//! Validation of requests, and the device calls that execute them.

use std::ops::Range;

use onefold_block::{BlockDevice, BlockError, Durability, Extent, Zeroes};

use crate::buffers::Buffer;
use crate::error::Failure;
use crate::handshake::{ALLOCATION_ID, Agreed};
use crate::limits::MAX_EXTENTS;
use crate::wire::{Errno, Request, command, flag, state};

/// The lengths in bytes of the field before the descriptors of extents, and of one descriptor.
const CONTEXT_LEN: usize = 4;
const DESCRIPTOR_LEN: usize = 8;

/// A call of a device for a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Read { offset: u64, len: usize },
    Write { offset: u64, len: usize, durability: Durability },
    Flush,
    Erase(Range<u64>, Durability),
    WriteZeroes(Range<u64>, Zeroes, Durability),
    Cache(Range<u64>),
    Extents { range: Range<u64>, max: usize },
    Resize(u64),
}

/// Kinds of calls, by what they may wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Changes nothing.
    Read,
    /// A change that may have to wait for room.
    Change,
    /// Waits for the disk.
    Sync,
}

/// The result of a call.
pub(crate) enum Done {
    Nothing,
    Read(Buffer),
    /// The descriptors of extents, as sent to clients.
    Extents(Buffer),
}

/// The call for `request`, or why it is refused. The device has `size` bytes now.
pub(crate) fn judge(
    request: &Request,
    agreed: &Agreed,
    max_request: u32,
    size: u64,
) -> Result<Operation, Failure> {
    let allowed = match request.command {
        command::READ if agreed.is_structured => flag::DONT_FRAGMENT,
        command::WRITE_ZEROES => flag::NO_HOLE | flag::FAST_ZERO,
        command::BLOCK_STATUS => flag::REQ_ONE,
        _ => 0,
    };
    if request.flags & !(allowed | flag::FUA) != 0 {
        let message = format!("flags {:#x} do not go with this command", request.flags);
        return Err(Failure::new(Errno::Invalid, message));
    }
    let changes = matches!(
        request.command,
        command::WRITE | command::TRIM | command::WRITE_ZEROES | command::RESIZE
    );
    if changes && agreed.export.is_read_only {
        return Err(Failure::new(Errno::Perm, "the export is read-only"));
    }
    let (offset, len) = (request.offset, request.len as usize);
    let durability =
        if request.has(flag::FUA) { Durability::OnReturn } else { Durability::OnFlush };
    let within = |beyond| match BlockError::check_range(offset, u64::from(request.len), size) {
        Ok(range) => Ok(range),
        Err(error) => Err(Failure::new(beyond, error.to_string())),
    };
    let not_too_long = |errno| {
        if request.len <= max_request {
            return Ok(());
        }
        let message = format!("{len} bytes are more than {max_request}, the maximum per request");
        Err(Failure::new(errno, message))
    };
    match request.command {
        command::READ => {
            let is_whole = request.has(flag::DONT_FRAGMENT);
            not_too_long(if is_whole { Errno::Overflow } else { Errno::Invalid })?;
            within(Errno::Invalid)?;
            Ok(Operation::Read { offset, len })
        }
        command::WRITE => {
            not_too_long(Errno::Invalid)?;
            within(Errno::NoSpace)?;
            Ok(Operation::Write { offset, len, durability })
        }
        command::FLUSH if offset == 0 && len == 0 => Ok(Operation::Flush),
        command::TRIM => Ok(Operation::Erase(within(Errno::Invalid)?, durability)),
        command::CACHE => Ok(Operation::Cache(within(Errno::Invalid)?)),
        command::WRITE_ZEROES => {
            let zeroes = Zeroes {
                keep_space: request.has(flag::NO_HOLE),
                only_if_fast: request.has(flag::FAST_ZERO),
            };
            Ok(Operation::WriteZeroes(within(Errno::NoSpace)?, zeroes, durability))
        }
        command::BLOCK_STATUS if !agreed.has_allocation => {
            Err(Failure::new(Errno::Invalid, "no metadata context was selected for this export"))
        }
        command::BLOCK_STATUS if len > 0 => {
            let max = if request.has(flag::REQ_ONE) { 1 } else { MAX_EXTENTS };
            Ok(Operation::Extents { range: within(Errno::Invalid)?, max })
        }
        command::RESIZE if !agreed.export.may_resize => {
            Err(Failure::new(Errno::Perm, "clients may not resize this export"))
        }
        command::RESIZE if len == 0 => Ok(Operation::Resize(offset)),
        command::FLUSH | command::BLOCK_STATUS | command::RESIZE => {
            let message = format!("{len} bytes at {offset} are invalid here");
            Err(Failure::new(Errno::Invalid, message))
        }
        unknown => Err(Failure::new(Errno::Invalid, format!("there is no command {unknown}"))),
    }
}

/// The operation as which requests with `command` are counted, if any.
pub(crate) fn measured(command: u16) -> Option<onefold_block::Operation> {
    use onefold_block::Operation::{Erase, Flush, Read, Write, WriteZeroes};
    match command {
        command::READ => Some(Read),
        command::WRITE => Some(Write),
        command::TRIM => Some(Erase),
        command::WRITE_ZEROES => Some(WriteZeroes),
        command::FLUSH => Some(Flush),
        _ => None,
    }
}

impl Operation {
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Operation::Read { .. } | Operation::Cache(_) | Operation::Extents { .. } => Kind::Read,
            Operation::Write { durability, .. }
            | Operation::Erase(_, durability)
            | Operation::WriteZeroes(_, _, durability) => match durability {
                Durability::OnFlush => Kind::Change,
                Durability::OnReturn => Kind::Sync,
            },
            Operation::Flush | Operation::Resize(_) => Kind::Sync,
        }
    }

    /// The length of the buffer that the call needs for written or replied bytes.
    pub(crate) fn buffer_len(&self) -> Option<usize> {
        match self {
            Operation::Read { len, .. } | Operation::Write { len, .. } => Some(*len),
            Operation::Extents { max, .. } => Some(CONTEXT_LEN + max * DESCRIPTOR_LEN),
            _ => None,
        }
    }

    /// Calls `device`. `buffer` has the bytes to write, or receives the bytes to reply.
    pub(crate) fn perform(
        self,
        device: &dyn BlockDevice,
        buffer: Option<Buffer>,
    ) -> Result<Done, Failure> {
        match (self, buffer) {
            (Operation::Read { offset, .. }, Some(mut buffer)) => {
                device.read(offset, &mut buffer)?;
                return Ok(Done::Read(buffer));
            }
            (Operation::Write { offset, durability, .. }, Some(data)) => {
                device.write(offset, &data, durability)?;
            }
            (Operation::Extents { range, max }, Some(mut buffer)) => {
                let extents = fitting(device.extents(range.clone(), max)?, range, max)?;
                let len = describe(&extents, &mut buffer);
                buffer.truncate(len);
                return Ok(Done::Extents(buffer));
            }
            (
                Operation::Read { .. } | Operation::Write { .. } | Operation::Extents { .. },
                None,
            ) => {
                unreachable!("they were given a buffer of the length they asked for")
            }
            (Operation::Flush, _) => device.flush()?,
            (Operation::Erase(range, durability), _) => device.erase(range, durability)?,
            (Operation::WriteZeroes(range, zeroes, durability), _) => {
                device.write_zeroes(range, zeroes, durability)?;
            }
            (Operation::Cache(range), _) => device.cache(range)?,
            (Operation::Resize(size), _) => device.resize(size)?,
        }
        Ok(Done::Nothing)
    }
}

/// The extents, or an error if the device violates its contract: a client would treat them as a violation
/// of the protocol.
fn fitting(extents: Vec<Extent>, range: Range<u64>, max: usize) -> Result<Vec<Extent>, Failure> {
    let total: u64 = extents.iter().map(|extent| extent.len()).sum();
    let is_fitting = !extents.is_empty()
        && extents.len() <= max
        && total <= range.end - range.start
        && extents.iter().all(|extent| extent.len() > 0);
    if is_fitting {
        return Ok(extents);
    }
    Err(Failure::new(Errno::Io, "the device returned extents outside the requested range"))
}

/// Writes the context's number and pairs of length and state to `bytes`, and returns their length. The
/// extents of one request are shorter than 4 GiB in total.
fn describe(extents: &[Extent], bytes: &mut [u8]) -> usize {
    let (context, descriptors) = bytes.split_at_mut(CONTEXT_LEN);
    context.copy_from_slice(&ALLOCATION_ID.to_be_bytes());
    for (extent, descriptor) in extents.iter().zip(descriptors.chunks_exact_mut(DESCRIPTOR_LEN)) {
        let states = match extent {
            Extent::Data(_) => 0,
            Extent::Hole(_) => state::HOLE | state::ZERO,
        };
        let (len, rest) = descriptor.split_at_mut(4);
        len.copy_from_slice(&(extent.len() as u32).to_be_bytes());
        rest.copy_from_slice(&states.to_be_bytes());
    }
    CONTEXT_LEN + extents.len() * DESCRIPTOR_LEN
}
