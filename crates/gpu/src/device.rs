use std::fmt;

use crate::{GpuError, Kernel};

/// By what a device is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Api {
    /// CUDA, of NVIDIA.
    Cuda,
    /// OpenCL.
    OpenCl,
    /// A device that tests make up.
    Simulated,
}

impl fmt::Display for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Cuda => "cuda",
            Self::OpenCl => "opencl",
            Self::Simulated => "simulated",
        })
    }
}

/// What is known of a device without work on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Info {
    /// By what it is reached.
    pub api: Api,
    /// Its number there.
    pub number: usize,
    /// What its maker calls it.
    pub name: String,
    /// Bytes of its memory.
    pub memory: u64,
    /// Multiprocessors or compute units.
    pub units: u32,
    /// Whether it is the CPU in another form, and so no gain.
    pub is_cpu: bool,
    /// The driver and its version.
    pub driver: String,
    /// The major number of the compute capability, of a device of CUDA.
    pub generation: Option<u32>,
    /// The highest clock of its units in Hz, if the driver tells.
    pub clock: Option<u64>,
}

impl fmt::Display for Info {
    /// As a user names it, and its maker: `cuda:0 (name)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { api, number, name, .. } = self;
        write!(f, "{api}:{number} ({name})")
    }
}

/// Which host memory a lane reads from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Memory {
    /// Memory that stays where it is, so that the device can read it while the host works.
    #[default]
    Pinned,
    /// Ordinary memory, for comparison.
    Pageable,
}

/// Something that runs kernels.
pub trait Device: Send + Sync {
    /// What it is.
    fn info(&self) -> &Info;

    /// Memory for inputs of up to `bytes`, and a queue. The lanes of a device work independently.
    ///
    /// # Errors
    /// [`GpuError::NoMemory`] if host or device have too little.
    fn lane(&self, bytes: usize, memory: Memory) -> Result<Box<dyn Lane>, GpuError>;

    /// Waits for all work on the device that others of this process queued.
    fn settle(&self) -> Result<(), GpuError> {
        Ok(())
    }

    /// Checks that `data` are in this device's memory, as far as its driver tells.
    ///
    /// # Errors
    /// [`GpuError::Elsewhere`] if they are not.
    fn ensure_resident(&self, data: Resident) -> Result<(), GpuError> {
        let _ = data;
        Ok(())
    }

    /// Joules that the device has used since some moment in the past.
    ///
    /// # Errors
    /// Why that is not known, as a clause.
    fn joules(&self) -> Result<f64, String> {
        Err(format!("{} does not tell", self.info()))
    }
}

impl Device for &dyn Device {
    fn info(&self) -> &Info {
        (**self).info()
    }

    fn lane(&self, bytes: usize, memory: Memory) -> Result<Box<dyn Lane>, GpuError> {
        (**self).lane(bytes, memory)
    }

    fn settle(&self) -> Result<(), GpuError> {
        (**self).settle()
    }

    fn ensure_resident(&self, data: Resident) -> Result<(), GpuError> {
        (**self).ensure_resident(data)
    }

    fn joules(&self) -> Result<f64, String> {
        (**self).joules()
    }
}

/// An array in the memory of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Slot {
    /// The bytes to cut, with [`SPARE`](crate::SPARE) bytes of no meaning behind them.
    Data,
    /// The table of a rolling hash.
    Table,
    /// Candidates.
    List,
    /// Where in the list the candidates of each tile are.
    Tiles,
    /// How many candidates there are.
    Counter,
    /// The least key of each strip.
    Minima,
    /// Where chunks are.
    Chunks,
    /// The key and flags of BLAKE3.
    Key,
    /// Values of leaves.
    Values,
    /// Fingerprints.
    Digests,
}

impl Slot {
    /// Every slot.
    pub const ALL: &[Self] = &[
        Self::Data,
        Self::Table,
        Self::List,
        Self::Tiles,
        Self::Counter,
        Self::Minima,
        Self::Chunks,
        Self::Key,
        Self::Values,
        Self::Digests,
    ];
}

/// Bytes in the memory of a device that belong to the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resident {
    address: u64,
    len: usize,
}

impl Resident {
    /// Kernels read pieces of this many bytes, never a part of one.
    const PIECE: usize = 16;

    /// The `len` bytes from `address` on.
    ///
    /// # Safety
    /// As long as the value or a part of it is used, the device that it is passed to must be able to read
    /// the bytes, and all bytes of the pieces of 16 in which they begin and end. Nothing may write them:
    /// all work that does must have ended.
    pub const unsafe fn new(address: u64, len: usize) -> Self {
        Self { address, len }
    }

    /// How many bytes.
    pub const fn len(self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub const fn is_empty(self) -> bool {
        self.len == 0
    }

    /// Where the device finds them.
    pub const fn address(self) -> u64 {
        self.address
    }

    /// The same with all bytes of the first piece, and how many are in front.
    pub(crate) const fn whole_pieces(self) -> (usize, Self) {
        let lead = self.address as usize % Self::PIECE;
        (lead, Self { address: self.address - lead as u64, len: self.len + lead })
    }

    /// The last position up to `at` where a piece begins.
    pub(crate) const fn piece_before(at: usize) -> usize {
        at - at % Self::PIECE
    }

    /// The `len` bytes from byte `from` on, which are all among these.
    pub(crate) fn part(self, from: usize, len: usize) -> Self {
        assert!(from + len <= self.len, "{len} bytes from {from} of {}", self.len);
        Self { address: self.address + from as u64, len }
    }

    /// The bytes, for a device that is the host.
    pub fn on_host(&self) -> &[u8] {
        if self.len == 0 {
            return &[];
        }
        // SAFETY: whoever made this says that the device, which is the host, can read as many.
        unsafe { std::slice::from_raw_parts(self.address as *const u8, self.len) }
    }
}

/// What a kernel is called with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument {
    /// The address of an array.
    Slot(Slot),
    /// A number of 32 bits.
    U32(u32),
    /// A number of 64 bits.
    U64(u64),
}

/// Memory on host and device, and a queue of copies and kernels that run one after another.
///
/// Calls may return before their work is done, except [`read`](Self::read). A lane whose call failed
/// must not be used for the device again; its [`input`](Self::input) stays readable.
pub trait Lane: Send {
    /// The device, as errors name it.
    fn device(&self) -> &str;

    /// The host's bytes. Waits for a copy from them that is in flight.
    fn input(&mut self) -> &mut [u8];

    /// Starts to copy the first `len` bytes of the input to [`Slot::Data`].
    fn upload(&mut self, len: usize) -> Result<(), GpuError>;

    /// Makes `data`, which begin with a piece of 16 bytes, and after which [`SPARE`](crate::SPARE) bytes can be
    /// read, [`Slot::Data`] until the next
    /// [`upload`](Self::upload) or [`copy_resident`](Self::copy_resident).
    ///
    /// # Errors
    /// [`GpuError::NotResident`] if the device takes no addresses.
    fn lend(&mut self, data: Resident) -> Result<(), GpuError> {
        let Resident { len, .. } = data;
        Err(GpuError::NotResident { device: self.device().to_owned(), len })
    }

    /// Copies `data`, for which the lane has room, to the start of [`Slot::Data`].
    ///
    /// # Errors
    /// [`GpuError::NotResident`] if the device takes no addresses.
    fn copy_resident(&mut self, data: Resident) -> Result<(), GpuError> {
        self.lend(data)
    }

    /// Makes `slot` an array of at least `bytes`; what was in it may be lost.
    fn reserve(&mut self, slot: Slot, bytes: usize) -> Result<(), GpuError>;

    /// Copies `bytes` to the start of `slot`, which has room for them.
    fn write(&mut self, slot: Slot, bytes: &[u8]) -> Result<(), GpuError>;

    /// Copies the start of `slot` to `into`, after all that was queued before.
    fn read(&mut self, slot: Slot, into: &mut [u8]) -> Result<(), GpuError>;

    /// Runs `groups` groups of `kernel`, at least one.
    fn launch(
        &mut self,
        kernel: Kernel,
        groups: usize,
        arguments: &[Argument],
    ) -> Result<(), GpuError>;

    /// Waits for all that was queued.
    fn wait(&mut self) -> Result<(), GpuError>;
}
