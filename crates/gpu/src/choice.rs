use std::fmt;
use std::str::FromStr;

use crate::cuda::Cuda;
use crate::{Api, Device, GpuError, Info, OpenCl};

/// What a user can ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Choice {
    /// A GPU if one was measured to be faster than the CPU here; otherwise the CPU.
    #[default]
    Auto,
    /// The CPU.
    Cpu,
    /// One device, and no other.
    Device(Name),
}

/// How a user names a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name {
    /// By what it is reached.
    pub api: Api,
    /// Its number there.
    pub number: usize,
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.api, self.number)
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Cpu => f.write_str("cpu"),
            Self::Device(name) => name.fmt(f),
        }
    }
}

impl FromStr for Choice {
    type Err = GpuError;

    /// Reads `auto`, `cpu`, `cuda`, `cuda:N`, `opencl` and `opencl:N`.
    fn from_str(text: &str) -> Result<Self, GpuError> {
        let unknown = || GpuError::UnknownName { name: text.to_owned() };
        let (api, number) = match text.split_once(':') {
            None => (text, 0),
            Some((api, digits)) => {
                let is_number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
                let number = digits.parse().ok().filter(|_| is_number);
                (api, number.ok_or_else(unknown)?)
            }
        };
        match api {
            "auto" if text == api => Ok(Self::Auto),
            "cpu" if text == api => Ok(Self::Cpu),
            "cuda" => Ok(Self::Device(Name { api: Api::Cuda, number })),
            "opencl" => Ok(Self::Device(Name { api: Api::OpenCl, number })),
            _ => Err(unknown()),
        }
    }
}

/// What there is by one way, or why there is nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The way.
    pub api: Api,
    /// The devices.
    pub devices: Result<Vec<Info>, GpuError>,
}

/// All devices, by every way there is. Compiles nothing and runs nothing on them.
pub fn list() -> Vec<Listed> {
    vec![
        Listed { api: Api::Cuda, devices: Cuda::list() },
        Listed { api: Api::OpenCl, devices: OpenCl::list() },
    ]
}

/// Opens the device called `name`.
///
/// # Errors
/// Say why there is none: no driver, a driver that is too old, no such device, one in use.
pub fn open(name: Name) -> Result<Box<dyn Device>, GpuError> {
    match name.api {
        Api::Cuda => Ok(Box::new(Cuda::open(name.number)?)),
        Api::OpenCl => Ok(Box::new(OpenCl::open(name.number)?)),
        Api::Simulated => Err(GpuError::UnknownName { name: name.to_string() }),
    }
}

/// Opens device `number` of CUDA with other machine code, for tests: each for a major number of the compute
/// capability.
#[doc(hidden)]
pub fn open_cuda_with(number: usize, cubins: &[(u32, &[u8])]) -> Result<Box<dyn Device>, GpuError> {
    Ok(Box::new(Cuda::with_cubins(number, cubins)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_and_others_are_refused() {
        for name in ["auto", "cpu", "cuda:0", "cuda:3", "opencl:0", "opencl:12"] {
            assert_eq!(name.parse::<Choice>().unwrap().to_string(), name);
        }
        assert_eq!("cuda".parse(), "cuda:0".parse::<Choice>());
        assert_eq!("opencl".parse(), "opencl:0".parse::<Choice>());
        let too_many = "cuda:99999999999999999999";
        for name in [
            "",
            "gpu",
            "CUDA",
            "cuda:",
            "cuda:x",
            "cuda:+1",
            "cuda:1:2",
            "auto:0",
            "cpu:0",
            "simulated",
            too_many,
        ] {
            assert_eq!(
                name.parse::<Choice>().unwrap_err().to_string(),
                format!(
                    "unknown device '{name}', expected auto, cpu, cuda, cuda:N, opencl or opencl:N"
                )
            );
        }
    }
}
