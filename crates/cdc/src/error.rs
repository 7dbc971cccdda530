use crate::{Algorithm, Kernel, MAX_CHUNK, Parameter, Preset, Scheme};

/// Why parameters were refused: the value, and what was expected of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParamError {
    /// The minimum chunk size is zero.
    #[error("minimum chunk size is 0, expected at least 1")]
    ZeroMin,
    /// The average chunk size lies below the minimum.
    #[error("average chunk size {avg} is below the minimum {min}")]
    AvgBelowMin {
        /// The minimum it should reach.
        min: usize,
        /// The average that was asked for.
        avg: usize,
    },
    /// The maximum chunk size lies below the average.
    #[error("maximum chunk size {max} is below the average {avg}")]
    MaxBelowAvg {
        /// The average it should reach.
        avg: usize,
        /// The maximum that was asked for.
        max: usize,
    },
    /// The maximum chunk size lies above [`MAX_CHUNK`].
    #[error("maximum chunk size {max} is above the limit {limit}", limit = MAX_CHUNK)]
    MaxTooLarge {
        /// The maximum that was asked for.
        max: usize,
    },
    /// The window of a rolling hash is empty or too long.
    #[error("window of {window} bytes, expected 1 to 256")]
    Window {
        /// The window that was asked for, in bytes.
        window: usize,
    },
    /// The normalisation level of FastCDC is unknown.
    #[error("normalisation level {level}, expected 0 to 3")]
    Level {
        /// The level that was asked for.
        level: u8,
    },
    /// The mean of MinCDC follows from its bounds, and the one asked for is another.
    #[error(
        "average chunk size {avg}, expected {expected}: \
         mincdc with chunks of {min} to {max} bytes has no other mean",
        expected = min.midpoint(*max)
    )]
    MinCdcMean {
        /// The minimum chunk size.
        min: usize,
        /// The average that was asked for.
        avg: usize,
        /// The maximum chunk size.
        max: usize,
    },
    /// The average chunk size lies above [`MAX_CHUNK`].
    #[error("average chunk size {avg} is above the limit {limit}", limit = MAX_CHUNK)]
    AvgTooLarge {
        /// The average that was asked for.
        avg: usize,
    },
    /// The algorithm chooses among all positions up to the maximum, and there is none.
    #[error("{algorithm} needs a maximum chunk size, and these sizes are unbounded")]
    NeedsMax {
        /// The algorithm that was asked for.
        algorithm: Algorithm,
    },
    /// RapidCDC keeps lengths of chunks, and these have no maximum.
    #[error("next-chunk hints need a maximum chunk size, and these sizes are unbounded")]
    RapidNeedsMax,
    /// The algorithm has no window to test a hint by.
    #[error(
        "{algorithm} has no window that tells whether a chunk may end at a position: \
         it compares bytes all over the chunk"
    )]
    NoWindowTest {
        /// The algorithm that was asked for.
        algorithm: Algorithm,
    },
    /// The same bytes need not be a chunk again, so that a known fingerprint proves nothing.
    #[error(
        "the fingerprint test is not exact for {algorithm}: \
         where its chunks end depends on bytes behind them"
    )]
    InexactFingerprintTest {
        /// The algorithm that was asked for.
        algorithm: Algorithm,
    },
    /// The marker is too long, or empty.
    #[error("marker of {bytes} bytes, expected 1 to 4")]
    MarkerBytes {
        /// How many bytes were asked for.
        bytes: u8,
    },
    /// The sample to find divisors in holds no pair of bytes.
    #[error("sample of {len} bytes holds no pair of bytes to train on, expected at least 2 bytes")]
    EmptySample {
        /// How long the sample is.
        len: usize,
    },
    /// A set of divisors without any.
    #[error("no pairs of bytes to divide at, expected at least 1")]
    NoDivisors,
    /// A secret would not change where chunks end.
    #[error(
        "{algorithm} has nothing to key: with these parameters no hash decides where its chunks \
         end, and a secret would change nothing"
    )]
    NothingToKey {
        /// The algorithm that was asked for.
        algorithm: Algorithm,
    },
    /// The rule has no candidates that could be found before the cut-points.
    #[error(
        "{name} cannot be cut in two stages: which positions qualify depends \
         on more than a window of bytes just before them"
    )]
    NotTwoStage {
        /// The algorithm or preset that was asked for.
        name: &'static str,
    },
    /// In two stages chunks are at least a window long.
    #[error(
        "minimum chunk size {min} is below the window of {window} bytes: \
         which positions qualify would depend on where chunks start"
    )]
    TwoStageMin {
        /// The minimum chunk size.
        min: usize,
        /// The bytes that the test of a position sees.
        window: usize,
    },
    /// The tool of a preset cannot have these parameters.
    #[error("{preset} cannot have these parameters, expected {expected}")]
    Preset {
        /// The preset that was asked for.
        preset: Preset,
        /// What the tool takes.
        expected: &'static str,
    },
    /// The modulus of a fingerprint is no irreducible polynomial of degree 53.
    #[error("polynomial {polynomial:#x}, expected an irreducible one of degree 53")]
    Polynomial {
        /// The polynomial that was asked for; bit i is the coefficient of x^i.
        polynomial: u64,
    },
    /// A parameter was chosen that does not change where chunks end.
    #[error("{scheme} takes no {parameter}, expected one of {taken}", taken = taken(*parameter))]
    NotTaken {
        /// The algorithm or preset.
        scheme: Scheme,
        /// What was chosen.
        parameter: Parameter,
    },
    /// No preset has this name.
    #[error("unknown preset '{name}', expected one of {known}", known = names(Preset::ALL))]
    UnknownPreset {
        /// The name that was asked for.
        name: String,
    },
    /// No algorithm has this name.
    #[error("unknown algorithm '{name}', expected one of {known}", known = names(Algorithm::ALL))]
    UnknownAlgorithm {
        /// The name that was asked for.
        name: String,
    },
    /// No kernel has this name.
    #[error("unknown kernel '{name}', expected one of {known}", known = names(Kernel::ALL))]
    UnknownKernel {
        /// The name that was asked for.
        name: String,
    },
    /// The demanded kernel does not exist for the algorithm or preset, or this CPU cannot run it.
    #[error("kernel '{kernel}' cannot run {name} here, usable: {usable}", usable = names(usable))]
    KernelUnusable {
        /// The kernel that was demanded.
        kernel: Kernel,
        /// The algorithm or preset it was demanded for.
        name: &'static str,
        /// The kernels that would run.
        usable: &'static [Kernel],
    },
}

fn names<T: ToString>(all: &[T]) -> String {
    all.iter().map(T::to_string).collect::<Vec<_>>().join(", ")
}

/// The schemes that take `parameter`.
fn taken(parameter: Parameter) -> String {
    names(&Scheme::all().filter(|scheme| scheme.takes(parameter)).collect::<Vec<_>>())
}
