//! Network namespaces that a switch in this process joins, with a delay of choice.
//!
//! Each namespace has an interface whose frames this process gets (a TAP device), and so has the machine itself. A
//! frame goes to the interface with its address after the delay. `tc netem` would do the same in the kernel; many
//! kernels do not have it.

use std::fs::File;
use std::io::{Read, Write};
use std::net::Ipv4Addr;
use std::process::{self, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// The longest frame, in bytes.
const MTU: usize = 9000;
/// What a frame has before its payload.
const HEADER: usize = 14;
/// The last byte of the machine's address.
const MACHINE: u8 = 254;

/// Namespaces, each with an address, and the machine, which all reach one another. They go when this is dropped.
pub(super) struct Network {
    namespaces: Vec<String>,
    subnet: [u8; 3],
    machine: String,
    /// In nanoseconds.
    delay: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

/// A frame on its way.
struct Frame {
    due: Instant,
    from: usize,
    bytes: Vec<u8>,
}

/// Where frames go: the files of the interfaces, of which the last one is the machine's.
type Ports = Arc<Vec<File>>;

impl Network {
    /// Makes `count` namespaces, below 250.
    ///
    /// # Errors
    /// If this process may not make them, or the system has none.
    pub(super) fn new(count: usize) -> Result<Self> {
        Self::try_new(count).context(
            "cannot make network namespaces with TAP devices: this campaign must run as root, and needs the command \
             `ip` and /dev/net/tun",
        )
    }

    fn try_new(count: usize) -> Result<Self> {
        let id = process::id();
        let [.., high, low] = id.to_be_bytes();
        let mut this = Self {
            namespaces: Vec::new(),
            subnet: [10, high | 0x80, low],
            machine: format!("of{id}"),
            delay: Arc::default(),
            threads: Vec::new(),
        };
        let mut ports = Vec::new();
        for number in 0..count {
            let namespace = format!("onefold-{id}-{number}");
            let interface = format!("{}x{number}", this.machine);
            ip(&["netns", "add", &namespace])?;
            this.namespaces.push(namespace.clone());
            ports.push(tap(&interface)?);
            ip(&["link", "set", &interface, "netns", &namespace])?;
            let inside = |arguments: &[&str]| ip(&[&["-n", &*namespace], arguments].concat());
            inside(&["link", "set", "lo", "up"])?;
            this.set_up(&interface, number as u8 + 1, inside)?;
        }
        ports.push(tap(&this.machine)?);
        this.set_up(&this.machine, MACHINE, ip)?;
        this.begin(&Arc::new(ports))?;
        Ok(this)
    }

    /// Gives an interface its addresses, the last bytes of which are `host`.
    fn set_up(&self, interface: &str, host: u8, run: impl Fn(&[&str]) -> Result<()>) -> Result<()> {
        let (hardware, mtu) = (format!("02:00:00:00:00:{host:02x}"), MTU.to_string());
        let address = format!("{}/24", self.address_of(host));
        run(&["link", "set", interface, "address", &hardware, "mtu", &mtu, "txqueuelen", "10000"])?;
        run(&["addr", "add", &address, "dev", interface])?;
        run(&["link", "set", interface, "up"])
    }

    /// Begins to carry frames.
    fn begin(&mut self, ports: &Ports) -> Result<()> {
        let (tell, told) = channel();
        let carrier = Arc::clone(ports);
        let name = |name: &str| thread::Builder::new().name(name.into());
        self.threads.push(name("delay").spawn(move || carry(&carrier, &told))?);
        for port in 0..ports.len() {
            let (ports, tell, delay) = (Arc::clone(ports), tell.clone(), Arc::clone(&self.delay));
            self.threads.push(name("port").spawn(move || take(&ports, port, &tell, &delay))?);
        }
        Ok(())
    }

    fn address_of(&self, host: u8) -> Ipv4Addr {
        let [a, b, c] = self.subnet;
        Ipv4Addr::new(a, b, c, host)
    }

    /// The address of the machine.
    pub(super) fn machine(&self) -> Ipv4Addr {
        self.address_of(MACHINE)
    }

    /// The address in namespace `number`.
    pub(super) fn address(&self, number: usize) -> Ipv4Addr {
        self.address_of(number as u8 + 1)
    }

    /// The name of namespace `number`.
    pub(super) fn namespace(&self, number: usize) -> &str {
        &self.namespaces[number]
    }

    /// Lets each frame take so long from now on.
    pub(super) fn set_delay(&self, delay: Duration) {
        self.delay.store(delay.as_nanos() as u64, Ordering::Relaxed);
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        // what is left is named after this process
        for (number, namespace) in self.namespaces.iter().enumerate() {
            let interface = format!("{}x{number}", self.machine);
            let _ = ip(&["-n", namespace, "link", "delete", &interface]);
            let _ = ip(&["netns", "delete", namespace]);
        }
        let _ = ip(&["link", "delete", &self.machine]);
        // their devices are gone, which ends them
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Takes frames from one interface until it is gone.
fn take(ports: &Ports, from: usize, tell: &Sender<Frame>, delay: &AtomicU64) {
    let mut buffer = vec![0; MTU + HEADER];
    loop {
        let Ok(len) = (&ports[from]).read(&mut buffer) else { return };
        let delay = Duration::from_nanos(delay.load(Ordering::Relaxed));
        if delay.is_zero() {
            give(ports, from, &buffer[..len]);
            continue;
        }
        let frame = Frame { due: Instant::now() + delay, from, bytes: buffer[..len].to_vec() };
        if tell.send(frame).is_err() {
            return;
        }
    }
}

/// Gives frames to their interfaces when they are due.
fn carry(ports: &Ports, told: &Receiver<Frame>) {
    wake_in_time();
    while let Ok(Frame { due, from, bytes }) = told.recv() {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        give(ports, from, &bytes);
    }
}

/// Gives a frame to the interface with its address, or to all others.
fn give(ports: &Ports, from: usize, frame: &[u8]) {
    let Some(&[first, .., host]) = frame.first_chunk::<6>() else { return };
    let all = first & 1 == 1;
    let is_to = |port: usize| match host {
        _ if all => port != from,
        MACHINE => port == ports.len() - 1,
        host => port + 1 == usize::from(host),
    };
    for port in (0..ports.len()).filter(|port| is_to(*port)) {
        // one that is full or gone loses it, as a wire does
        let _ = (&ports[port]).write(frame);
    }
}

fn ip(arguments: &[&str]) -> Result<()> {
    let output = Command::new("ip").args(arguments).output().context("ip")?;
    if !output.status.success() {
        bail!("ip {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

/// Makes an interface whose frames are read from and written to the file. It goes with the file.
#[cfg(target_os = "linux")]
fn tap(name: &str) -> Result<File> {
    use std::os::fd::AsRawFd;

    let file = File::options().read(true).write(true).open("/dev/net/tun");
    let file = file.context("/dev/net/tun")?;
    // SAFETY: it is plain data, for which zeros are valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    anyhow::ensure!(name.len() < request.ifr_name.len(), "{name} is too long for an interface");
    for (to, byte) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = byte as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI) as libc::c_short;
    // SAFETY: the file is open, and the request lives until the call returns.
    let code = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut request) };
    if code < 0 {
        return Err(std::io::Error::last_os_error()).with_context(|| format!("make {name}"));
    }
    Ok(file)
}

#[cfg(not(target_os = "linux"))]
fn tap(name: &str) -> Result<File> {
    bail!("cannot make {name}: only Linux has network namespaces")
}

/// Lets sleeps of this thread end when they are due, as far as the machine is idle.
fn wake_in_time() {
    #[cfg(target_os = "linux")]
    // SAFETY: it changes how precisely this thread sleeps, in nanoseconds, and nothing else.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1000_u64, 0_u64, 0_u64, 0_u64);
    }
}
