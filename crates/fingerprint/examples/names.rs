//! Names files by their content: `names FILE...`, or `names` for two texts of its own.

use std::error::Error;
use std::fs;

use onefold_fingerprint::Fingerprinter;

fn main() -> Result<(), Box<dyn Error>> {
    let files: Vec<String> = std::env::args().skip(1).collect();
    let contents = match files.is_empty() {
        true => vec![b"one".to_vec(), b"two".to_vec()],
        false => files.iter().map(fs::read).collect::<Result<_, _>>()?,
    };
    let contents: Vec<&[u8]> = contents.iter().map(Vec::as_slice).collect();
    let mut fingerprints = Vec::new();
    Fingerprinter::blake3().fingerprint_many(&contents, &mut fingerprints);
    for (number, fingerprint) in fingerprints.iter().enumerate() {
        println!("{fingerprint} {}", files.get(number).map_or("a text", String::as_str));
    }
    Ok(())
}
