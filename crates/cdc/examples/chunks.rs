//! Shows what files have in common: `chunks FILE...`, or `chunks` for data of its own.

use std::collections::HashSet;
use std::error::Error;
use std::fs::File;
use std::io::Read;

use onefold_cdc::{Algorithm, Chunker, Params, Stream};

fn main() -> Result<(), Box<dyn Error>> {
    let chunker = Chunker::new(&Params::for_mean(Algorithm::MinCdc, 8192)?)?;
    let mut known = HashSet::new();
    let files: Vec<String> = std::env::args().skip(1).collect();
    for file in &files {
        show(file, File::open(file)?, &chunker, &mut known)?;
    }
    if files.is_empty() {
        let mut state = 1_u64;
        let xorshift = |_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        };
        let first: Vec<u8> = (0..500_000).map(xorshift).collect();
        let mut second = first.clone();
        second.splice(1000..1000, *b"a few bytes more");
        show("first", &first[..], &chunker, &mut known)?;
        show("second", &second[..], &chunker, &mut known)?;
    }
    Ok(())
}

fn show(
    name: &str,
    input: impl Read,
    chunker: &Chunker,
    known: &mut HashSet<blake3::Hash>,
) -> Result<(), Box<dyn Error>> {
    let (mut chunks, mut bytes, mut new_bytes) = (0, 0, 0);
    let mut stream = Stream::new(chunker.clone(), input);
    while let Some(chunk) = stream.next()? {
        chunks += 1;
        bytes += chunk.len();
        if known.insert(blake3::hash(chunk)) {
            new_bytes += chunk.len();
        }
    }
    println!("{name}: {chunks} chunks of {bytes} bytes, {new_bytes} of them new");
    Ok(())
}
