//! Options for chunker, sizes and kernel.

use anyhow::{Context, Result, bail};
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use onefold_cdc::{Algorithm, ChunkSizes, Chunker, Kernel, Parameter, Params, Preset, Scheme};

use crate::size;

/// Options for how a repository cuts data.
#[derive(Debug, Args)]
pub(crate) struct ChunkingArgs {
    /// The chunking algorithm; `onefold algorithms` lists them
    #[arg(long, value_name = "NAME", default_value = "mincdc", value_parser = algorithms())]
    algorithm: Algorithm,
    #[command(flatten)]
    sizes: SizeArgs,
}

impl ChunkingArgs {
    /// The requested parameters, with suitable defaults for the others. They are valid for a chunker.
    pub(crate) fn params(&self) -> Result<Params> {
        let params = Params::new(self.algorithm, self.sizes.of(self.algorithm.into())?);
        Chunker::new(&params)?;
        Ok(params)
    }
}

/// Options for how commands without a repository cut data, which may use presets.
#[derive(Debug, Args)]
pub(crate) struct SchemeArgs {
    /// The chunking algorithm, or a preset; `onefold algorithms` lists them
    #[arg(long, value_name = "NAME", default_value = "mincdc", value_parser = schemes())]
    algorithm: Scheme,
    #[command(flatten)]
    sizes: SizeArgs,
    /// The number that seeds the algorithm's hash, with 0x for hexadecimal: for borg the key's
    /// chunk_seed, for restic the polynomial
    #[arg(long, value_name = "N", value_parser = parse_seed, allow_negative_numbers = true)]
    seed: Option<i128>,
    /// With restic: the repository's chunker_polynomial, as `restic cat config` prints it
    #[arg(long, value_name = "HEX", value_parser = parse_polynomial, conflicts_with = "seed")]
    polynomial: Option<u64>,
    /// With rabin, tttd, crc, buzhash and borg: the length of the hash window in bytes
    #[arg(long, value_name = "BYTES", value_parser = size::parse)]
    window: Option<usize>,
    /// With fastcdc, fastcdc-2016 and fastcdc-2020: the normalisation level, 0 to 3
    #[arg(long, value_name = "N")]
    level: Option<u8>,
    /// With borg: sizes and window as borg writes them, 19,23,21,4095 for a CHUNK_MIN_EXP of 19, a
    /// CHUNK_MAX_EXP of 23, a HASH_MASK_BITS of 21 and a HASH_WINDOW_SIZE of 4095
    #[arg(long, value_name = "[buzhash,]N,N,N,N", value_parser = parse_chunker_params)]
    #[arg(conflicts_with_all = ["min", "avg", "max", "window"])]
    chunker_params: Option<ChunkerParams>,
}

impl SchemeArgs {
    /// The requested parameters, with suitable defaults, or the preset's, for the others. The chunker
    /// decides whether they are valid.
    pub(crate) fn params(&self) -> Result<Params> {
        let scheme = self.algorithm;
        self.refuse_what_changes_nothing()?;
        let mut params = match scheme {
            Scheme::Own(algorithm) => Params::new(algorithm, self.sizes.of(scheme)?),
            Scheme::Tool(preset) => Params { sizes: self.sizes.of(scheme)?, ..preset.params() },
        };
        if let Some(ChunkerParams { sizes, window }) = self.chunker_params {
            params = Params { sizes, window, ..params };
        }
        params.window = self.window.unwrap_or(params.window);
        params.level = self.level.unwrap_or(params.level);
        if let Some(seed) = self.seed {
            params.seed = seed_of(scheme, seed)?;
        }
        params.seed = self.polynomial.unwrap_or(params.seed);
        Ok(params)
    }

    /// Refuses options that the scheme does not use, so that none is ignored.
    fn refuse_what_changes_nothing(&self) -> Result<()> {
        let takes = |parameter| move |scheme: Scheme| scheme.takes(parameter);
        let is_tool = |wanted: Preset| move |scheme: Scheme| scheme == Scheme::Tool(wanted);
        let window = self.window.is_some();
        ensure_taken("--window", window, self.algorithm, takes(Parameter::Window))?;
        ensure_taken("--level", self.level.is_some(), self.algorithm, takes(Parameter::Level))?;
        ensure_taken("--seed", self.seed.is_some(), self.algorithm, takes(Parameter::Seed))?;
        let polynomial = self.polynomial.is_some();
        ensure_taken("--polynomial", polynomial, self.algorithm, is_tool(Preset::Restic))?;
        let chunker_params = self.chunker_params.is_some();
        ensure_taken("--chunker-params", chunker_params, self.algorithm, is_tool(Preset::Borg))
    }
}

/// Refuses an option that is given and that `scheme` does not take, and names those that do.
fn ensure_taken(
    option: &str,
    is_given: bool,
    scheme: Scheme,
    takes: impl Fn(Scheme) -> bool,
) -> Result<()> {
    if is_given && !takes(scheme) {
        let others: Vec<&str> = Scheme::all().filter(|&one| takes(one)).map(Scheme::name).collect();
        bail!("{scheme} takes no {option}, expected one of {}", others.join(", "));
    }
    Ok(())
}

/// The number as the library wants it; borg's key has it as 32 bits with a sign.
fn seed_of(scheme: Scheme, seed: i128) -> Result<u64> {
    if scheme == Scheme::Tool(Preset::Borg)
        && let Ok(signed) = i32::try_from(seed)
    {
        return Ok(u64::from(signed as u32));
    }
    u64::try_from(seed).with_context(|| format!("--seed {seed}, expected 0 to {}", u64::MAX))
}

/// Reads a whole number, decimal or hexadecimal.
fn parse_seed(text: &str) -> Result<i128, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok().map(i128::from),
        None => text.parse().ok(),
    };
    parsed.ok_or_else(|| "expected a whole number, decimal, or hexadecimal with 0x".to_owned())
}

/// Reads hexadecimal digits, with or without 0x.
fn parse_polynomial(text: &str) -> Result<u64, String> {
    u64::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16)
        .map_err(|_| "expected up to 16 hexadecimal digits".to_owned())
}

/// The chunker parameters of borg.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ChunkerParams {
    sizes: ChunkSizes,
    window: usize,
}

/// Reads borg's chunker parameters, which have the maximum before the average.
fn parse_chunker_params(text: &str) -> Result<ChunkerParams, String> {
    let expectation = || {
        "expected CHUNK_MIN_EXP,CHUNK_MAX_EXP,HASH_MASK_BITS,HASH_WINDOW_SIZE, such as 19,23,21,4095"
            .to_owned()
    };
    let numbers = text.strip_prefix("buzhash,").unwrap_or(text);
    let numbers: Vec<usize> = numbers
        .split(',')
        .map(str::parse::<usize>)
        .collect::<Result<_, _>>()
        .map_err(|_| expectation())?;
    let [min, max, avg, window] = numbers[..] else { return Err(expectation()) };
    // more than any chunk may be long, so that it is refused as a size
    let size = |exponent: usize| 1_usize << exponent.min(62);
    let sizes = ChunkSizes::new(size(min), size(avg), size(max)).map_err(|e| e.to_string())?;
    Ok(ChunkerParams { sizes, window })
}

/// Options for the bounds and the mean of chunk lengths.
#[derive(Debug, Args)]
pub(crate) struct SizeArgs {
    /// The minimum chunk size [default: depends on algorithm and average]
    #[arg(long, value_name = "BYTES", value_parser = size::parse)]
    min: Option<usize>,
    /// The average chunk size [default: 16KiB, or the preset's]
    #[arg(long, value_name = "BYTES", value_parser = size::parse)]
    avg: Option<usize>,
    /// The maximum chunk size [default: depends on algorithm and average]
    #[arg(long, value_name = "BYTES", value_parser = size::parse)]
    max: Option<usize>,
}

impl SizeArgs {
    /// The requested sizes, with defaults for `scheme` for the others.
    fn of(&self, scheme: Scheme) -> Result<ChunkSizes> {
        Ok(scheme.sizes(self.min, self.avg, self.max)?)
    }
}

/// Reads the name of an algorithm.
fn algorithms() -> impl TypedValueParser<Value = Algorithm> {
    PossibleValuesParser::new(Algorithm::ALL.iter().map(|algorithm| algorithm.name()))
        .try_map(|name| name.parse::<Algorithm>())
}

/// Reads the name of an algorithm or preset.
fn schemes() -> impl TypedValueParser<Value = Scheme> {
    PossibleValuesParser::new(Scheme::all().map(Scheme::name))
        .try_map(|name| name.parse::<Scheme>())
}

/// Reads the name of a kernel.
pub(crate) fn kernels() -> impl TypedValueParser<Value = Kernel> {
    PossibleValuesParser::new(Kernel::ALL.iter().map(|kernel| kernel.name()))
        .try_map(|name| name.parse::<Kernel>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use onefold_store::Config;

    #[derive(Parser)]
    struct Typed {
        #[command(flatten)]
        chunking: ChunkingArgs,
    }

    #[derive(Parser)]
    struct TypedScheme {
        #[command(flatten)]
        scheme: SchemeArgs,
    }

    fn scheme(line: &str) -> Result<Params> {
        let words = ["onefold"].into_iter().chain(line.split(' '));
        let params = TypedScheme::try_parse_from(words)?.scheme.params()?;
        Chunker::new(&params)?;
        Ok(params)
    }

    #[test]
    fn a_preset_has_the_sizes_of_its_tool_unless_others_are_asked_for() {
        for &preset in Preset::ALL {
            assert_eq!(scheme(&format!("--algorithm {preset}")).unwrap(), preset.params());
        }
        let sizes = scheme("--algorithm restic --avg 2MiB --max 9MiB").unwrap().sizes;
        assert_eq!([sizes.min(), sizes.avg(), sizes.max()], [1 << 20, 2 << 20, 9 << 20]);
    }

    #[test]
    fn the_parameters_of_a_tool_are_taken_as_the_tool_writes_them() {
        let polynomial = 0x3d_a335_8b4d_c173;
        for given in ["--seed 0x3da3358b4dc173", "--polynomial 3da3358b4dc173"] {
            assert_eq!(scheme(&format!("--algorithm restic {given}")).unwrap().seed, polynomial);
        }
        let borg = Preset::Borg.params();
        for given in ["--chunker-params 19,23,21,4095", "--chunker-params buzhash,19,23,21,4095"] {
            assert_eq!(scheme(&format!("--algorithm borg {given}")).unwrap(), borg);
        }
        assert_eq!(scheme("--algorithm borg --seed -5").unwrap().seed, 0xffff_fffb);
        assert_eq!(scheme("--algorithm borg --window 63").unwrap().window, 63);
        let fast = scheme("--algorithm fastcdc-2020 --level 3 --seed 666").unwrap();
        assert_eq!((fast.level, fast.seed), (3, 666));
    }

    #[test]
    fn what_a_preset_fixes_or_has_no_use_for_is_refused() {
        for (line, reason) in [
            ("--algorithm restic --avg 10000", "expected a power of two for an average"),
            ("--algorithm restic --seed 8", "polynomial 0x8, expected an irreducible one"),
            ("--algorithm restic --polynomial 0xyz", "expected up to 16 hexadecimal digits"),
            ("--algorithm borg --max 3MiB", "expected powers of two for sizes"),
            ("--algorithm borg --seed 0x100000000", "expected a seed of 32 bits"),
            ("--algorithm borg --window 8MiB", "fit into max"),
            ("--algorithm borg --chunker-params 19,23,21", "such as 19,23,21,4095"),
            ("--algorithm borg --chunker-params 19,99,21,4095", "maximum chunk size"),
            ("--algorithm borg --chunker-params 19,23,21,9 --min 4", "cannot be used with"),
            ("--algorithm casync --window 64", "casync takes no --window, expected one of rabin"),
            ("--algorithm casync --seed 1", "casync takes no --seed"),
            ("--algorithm fastcdc-2016 --seed 1", "fastcdc-2016 takes no --seed"),
            ("--algorithm fastcdc-2016 --level 4", "expected a level from 0 to 3"),
            ("--algorithm gear --level 1", "gear takes no --level"),
            ("--algorithm rabin --seed -1", "--seed -1, expected 0 to"),
            ("--algorithm xet --min 60", "64 bytes"),
            ("--polynomial 3da3358b4dc173", "mincdc takes no --polynomial, expected one of restic"),
            ("--algorithm restic --chunker-params 19,23,21,4095", "expected one of borg"),
        ] {
            let error = format!("{:#}", scheme(line).unwrap_err());
            assert!(error.contains(reason), "{line}: {error}");
        }
    }

    fn sizes(line: &str) -> [usize; 3] {
        let sizes = Typed::parse_from(line.split(' ')).chunking.params().unwrap().sizes;
        [sizes.min(), sizes.avg(), sizes.max()]
    }

    #[test]
    fn two_sizes_of_mincdc_give_the_third() {
        assert_eq!(sizes("onefold --min 4KiB"), [4 << 10, 16 << 10, 28 << 10]);
        assert_eq!(sizes("onefold --max 20KiB"), [12 << 10, 16 << 10, 20 << 10]);
        assert_eq!(sizes("onefold --min 4KiB --max 12KiB"), [4 << 10, 8 << 10, 12 << 10]);
        assert_eq!(sizes("onefold --min 4KiB --avg 8KiB"), [4 << 10, 8 << 10, 12 << 10]);
        assert_eq!(sizes("onefold --avg 8KiB --max 16383"), [1, 8 << 10, 16383]);
    }

    #[test]
    fn who_asks_for_nothing_gets_the_standard_of_the_store() {
        let params = Typed::parse_from(["onefold"]).chunking.params().unwrap();
        assert_eq!(params, Config::standard().params);
    }
}
