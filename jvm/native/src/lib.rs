//! The native methods of `onefold.incremental.split.NativeGear`: gear's cut-points by onefold-cdc.

use jni::EnvUnowned;
use jni::errors::ThrowRuntimeExAndDefault;
use jni::objects::{JByteBuffer, JClass};
use jni::sys::{jint, jlong};
use onefold_cdc::{GearScan, ParamError};

/// What Java gets as an exception.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Sizes(#[from] ParamError),
    #[error("{length} bytes of a buffer of {capacity}")]
    Short { length: usize, capacity: usize },
    #[error(transparent)]
    Jni(#[from] jni::errors::Error),
}

/// A new search, which [`close`] frees. Throws if the sizes are out of order.
#[unsafe(export_name = "Java_onefold_incremental_split_NativeGear_open")]
pub extern "system" fn open<'local>(
    mut env: EnvUnowned<'local>,
    _: JClass<'local>,
    seed: jlong,
    min: jlong,
    avg: jlong,
    max: jlong,
) -> jlong {
    env.with_env(|_| {
        let [min, avg, max] = [min, avg, max].map(|size| usize::try_from(size).unwrap_or(0));
        let scan = GearScan::new(seed as u64, min, avg, max)?;
        Ok::<_, Error>(Box::into_raw(Box::new(scan)) as jlong)
    })
    .resolve::<ThrowRuntimeExAndDefault>()
}

/// Frees a search. The caller must not use `scan` again.
#[unsafe(export_name = "Java_onefold_incremental_split_NativeGear_close")]
pub extern "system" fn close<'local>(_: EnvUnowned<'local>, _: JClass<'local>, scan: jlong) {
    // SAFETY: Java passes what `open` returned, once, when no call can reach the search any more.
    drop(unsafe { Box::from_raw(scan as *mut GearScan) });
}

/// Begins a chunk with the next byte.
#[unsafe(export_name = "Java_onefold_incremental_split_NativeGear_restart")]
pub extern "system" fn restart<'local>(_: EnvUnowned<'local>, _: JClass<'local>, scan: jlong) {
    // SAFETY: Java passes what `open` returned and `close` has not seen, to one thread at a time.
    unsafe { &mut *(scan as *mut GearScan) }.restart();
}

/// The cut-point among the first `length` bytes of a direct buffer, or −1. Throws if the buffer is
/// not direct or shorter.
#[unsafe(export_name = "Java_onefold_incremental_split_NativeGear_scan")]
pub extern "system" fn scan<'local>(
    mut env: EnvUnowned<'local>,
    _: JClass<'local>,
    scan: jlong,
    bytes: JByteBuffer<'local>,
    length: jint,
) -> jint {
    env.with_env(|env| {
        let address = env.get_direct_buffer_address(&bytes)?;
        let capacity = env.get_direct_buffer_capacity(&bytes)?;
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length > capacity {
            return Err(Error::Short { length, capacity });
        }
        // SAFETY: the buffer lives as long as the reference in `bytes`, and has `capacity` bytes;
        // no other thread has it.
        let data = unsafe { std::slice::from_raw_parts(address, length) };
        // SAFETY: as in `restart`.
        let cut = unsafe { &mut *(scan as *mut GearScan) }.next_cut(data);
        Ok(cut.map_or(-1, |cut| cut as jint))
    })
    .resolve::<ThrowRuntimeExAndDefault>()
}
