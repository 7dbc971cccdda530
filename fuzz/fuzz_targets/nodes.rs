//! A file of nodes, whatever became of its bytes: a node is read as it was stored, or not at all.

#![no_main]

use libfuzzer_sys::fuzz_target;
use onefold_volume::fuzz::AnyNodes;

/// What nodes begin with, bytes written over, bytes missing at the end, bytes there instead.
type File = (Vec<Vec<u64>>, Vec<(u32, Vec<u8>)>, u32, Vec<u8>);

fuzz_target!(|input: (File, Vec<u32>)| {
    let ((nodes, written, torn, more), indices) = input;
    let file = AnyNodes { nodes, written, torn, more };
    // a file in memory takes whatever it is given
    file.read(&indices).expect("it was written");
});
