//! What a pool's folder knows, of any mark, record of the last acknowledged frame, journals and
//! checkpoints whose frames are whole: taking it over ends, and what was told once is told again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use onefold_volume::fuzz::{AnyFile, AnyMark, AnyPool, AnyRecord};

/// Is a checkpoint, writer, first frame, bodies, bytes missing at the end.
type File = (bool, u8, u8, Vec<Vec<u8>>, u8);

/// Writer and first frame of a journal, the frame, where it ends, and whether on the mount of now.
type Acknowledged = (u8, u8, u8, u16, bool);

fuzz_target!(|input: ((u8, u8, u8, bool), Vec<File>, Option<Acknowledged>)| {
    let ((writer, cut_writer, first, is_begun), files, acknowledged) = input;
    let mark = AnyMark { writer, cut: (cut_writer, first, is_begun) };
    let file = |(is_checkpoint, writer, first, frames, torn)| AnyFile {
        is_checkpoint,
        begin: (writer, first),
        frames,
        torn,
    };
    let files: Vec<AnyFile> = files.into_iter().map(file).collect();
    let record = acknowledged.map(|(writer, first, frame, end, is_as_written)| AnyRecord {
        journal: (writer, first),
        frame,
        end,
        is_as_written,
    });
    let Ok(pool) = AnyPool::new(mark, &files, record) else { return };
    if let Ok((taken, told)) = pool.take_over() {
        let (again, told_again) = pool.take_over().expect("it was told before");
        assert_eq!((again.sequence, told_again), (taken.sequence, told));
    }
});
