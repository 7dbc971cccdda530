//! The kernels: their names, their constants and their source.

/// Bytes that one work-item searches.
pub const STRIP: usize = 256;

/// Work-items of a group.
pub(crate) const GROUP: usize = 128;

/// Bytes that one group searches.
pub const TILE: usize = GROUP * STRIP;

/// Bytes that kernels may read behind the data, and that a lane's memory must have there.
pub const SPARE: usize = 64;

/// The mark of a candidate that passes the strict limit of two.
pub(crate) const STRICT: u32 = 1 << 31;

/// Registers and instructions of each kernel for each generation of devices of NVIDIA, as JSON: what
/// `cargo xtask gpu-kernels` counts.
pub const CODE_SIZES: &str = include_str!("../kernels.json");

/// A function that a device runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kernel {
    /// Candidates of Gear and FastCDC.
    CandidatesGear,
    /// Candidates of Gear in 32 bits.
    CandidatesGear32,
    /// Candidates of Gear in 16 bits.
    CandidatesGear16,
    /// Candidates of Rabin.
    CandidatesRabin,
    /// Candidates of CRC.
    CandidatesCrc,
    /// Candidates of Buzhash.
    CandidatesBuzhash,
    /// Candidates of Rabin, fetched byte by byte.
    DirectRabin,
    /// The least hash of each strip.
    Minima,
    /// The cut-points that least hashes give.
    SelectLeast,
    /// BLAKE3 of each leaf.
    Blake3Leaves,
    /// BLAKE3 of chunks from their leaves.
    Blake3Join,
    /// SHA-256 of chunks.
    Sha256,
    /// SHA3-256 of chunks.
    Sha3,
}

impl Kernel {
    /// Every kernel.
    pub const ALL: &[Self] = &[
        Self::CandidatesGear,
        Self::CandidatesGear32,
        Self::CandidatesGear16,
        Self::CandidatesRabin,
        Self::CandidatesCrc,
        Self::CandidatesBuzhash,
        Self::DirectRabin,
        Self::Minima,
        Self::SelectLeast,
        Self::Blake3Leaves,
        Self::Blake3Join,
        Self::Sha256,
        Self::Sha3,
    ];

    /// The name in the source.
    pub const fn name(self) -> &'static str {
        match self {
            Self::CandidatesGear => "candidates_gear",
            Self::CandidatesGear32 => "candidates_gear32",
            Self::CandidatesGear16 => "candidates_gear16",
            Self::CandidatesRabin => "candidates_rabin",
            Self::CandidatesCrc => "candidates_crc",
            Self::CandidatesBuzhash => "candidates_buzhash",
            Self::DirectRabin => "direct_rabin",
            Self::Minima => "minima",
            Self::SelectLeast => "select_least",
            Self::Blake3Leaves => "blake3_leaves",
            Self::Blake3Join => "blake3_join",
            Self::Sha256 => "sha256",
            Self::Sha3 => "sha3_256",
        }
    }
}

/// The files of the kernels that `kernels.h` includes.
const INCLUDED: [(&str, &str); 8] = [
    ("tile.h", include_str!("../kernels/tile.h")),
    ("candidates.h", include_str!("../kernels/candidates.h")),
    ("direct.h", include_str!("../kernels/direct.h")),
    ("minima.h", include_str!("../kernels/minima.h")),
    ("select.h", include_str!("../kernels/select.h")),
    ("blake3.h", include_str!("../kernels/blake3.h")),
    ("sha2.h", include_str!("../kernels/sha2.h")),
    ("sha3.h", include_str!("../kernels/sha3.h")),
];

/// All kernels in one text, as OpenCL's compiler takes them: it has no files to include.
pub fn opencl_source() -> String {
    let mut source = include_str!("../kernels/primitives.h").to_owned();
    for line in include_str!("../kernels/kernels.h").lines() {
        let included = line.strip_prefix("#include \"").and_then(|rest| rest.strip_suffix('"'));
        match included.and_then(|name| INCLUDED.iter().find(|(file, _)| *file == name)) {
            Some((_, text)) => source.push_str(text),
            None => source.push_str(line),
        }
        source.push('\n');
    }
    source
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_constants_are_those_of_the_source_and_every_kernel_is_in_it() {
        let source = opencl_source();
        assert!(!source.contains("#include"));
        assert!(source.contains(&format!("#define GROUP {GROUP} ")));
        assert!(source.contains(&format!("#define STRIP {STRIP} ")));
        assert!(source.contains(&format!("#define STRICT {STRICT:#x}u")));
        for kernel in Kernel::ALL {
            let name = kernel.name();
            let is_defined = source.contains(&format!("KERNEL({name})\n"))
                || source.contains(&format!("CANDIDATES({name}, "));
            assert!(is_defined, "{name}");
        }
    }
}
