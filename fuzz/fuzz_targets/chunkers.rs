//! Every chunker tiles any input within its bounds, and a stream cuts where a slice is cut.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onefold_cdc::{Algorithm, ChunkSizes, Chunker, Params, Secret, Stream};

fuzz_target!(|input: (u8, u16, u16, u16, Option<[u8; 32]>, Vec<u8>)| {
    let (algorithm, min, more, most, secret, data) = input;
    let algorithm = Algorithm::ALL[algorithm as usize % Algorithm::ALL.len()];
    let min = usize::from(min % 512) + 1;
    let avg = min + usize::from(more % 1024);
    let max = avg + usize::from(most % 2048);
    let Ok(sizes) = ChunkSizes::new(min, avg, max) else { return };
    let secret = secret.map(Secret::new);
    let params = Params { secret, ..Params::new(algorithm, sizes) };
    let Ok(chunker) = Chunker::new(&params) else { return };
    let cuts: Vec<usize> = chunker.cut_points(&data).collect();
    let mut start = 0;
    for (number, &cut) in cuts.iter().enumerate() {
        let len = cut - start;
        let is_last = number + 1 == cuts.len();
        assert!(len > 0 && len <= max && (is_last || len >= min), "{algorithm}: {len}");
        start = cut;
    }
    assert_eq!(start, data.len());
    let mut stream = Stream::new(chunker, &data[..]);
    let mut streamed = Vec::new();
    while let Some(chunk) = stream.next().expect("a slice can be read") {
        streamed.push(streamed.last().unwrap_or(&0) + chunk.len());
    }
    assert_eq!(streamed, cuts);
});
