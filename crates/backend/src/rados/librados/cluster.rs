//! A connection to a cluster.

use std::cell::Cell;
use std::env;
use std::ffi::{CStr, CString, c_char, c_int};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::io::Errno;

use super::error::{is, message, tried};
use super::functions::{Cluster, ClusterStat, Functions};
use super::{CephError, CephPool};

/// How to reach a cluster of Ceph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CephOptions {
    /// The configuration file. `None`: the one that `CEPH_CONF` names, or `/etc/ceph/ceph.conf`.
    pub conf: Option<PathBuf>,
    /// The user, without `client.`.
    pub user: String,
    /// The file with the user's key. `None`: the files that the configuration names.
    pub keyring: Option<PathBuf>,
    /// How long to wait for the monitors when connecting. The client library counts in seconds; a part
    /// of one counts as a whole one, here and below.
    pub connect_limit: Duration,
    /// How long to wait for the answer to an operation. Then its outcome is unknown.
    pub operation_limit: Duration,
}

impl Default for CephOptions {
    /// The user `admin`, 30 s to connect and 60 s for an operation, in which Ceph finds out that a
    /// server died and another one takes over.
    fn default() -> Self {
        Self {
            conf: None,
            user: "admin".to_owned(),
            keyring: None,
            connect_limit: Duration::from_secs(30),
            operation_limit: Duration::from_secs(60),
        }
    }
}

/// The space of a cluster, in bytes, copies and parities counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CephSpace {
    /// All of it.
    pub total: u64,
    /// What is taken.
    pub used: u64,
    /// What is free.
    pub available: u64,
}

/// A connection to a cluster of Ceph, by its client library.
///
/// A connection has some twenty threads: a process needs one only, and its pools share it. It ends when
/// the last pool, and this, are dropped.
#[derive(Debug)]
pub struct RadosCluster {
    connection: Arc<Connection>,
}

impl RadosCluster {
    /// Connects to the cluster of `options`.
    ///
    /// # Errors
    ///
    /// All of [`CephError`] but `NoPool`.
    pub fn connect(options: &CephOptions) -> Result<Self, CephError> {
        let mut connection = Connection::new(options)?;
        let conf = configuration(options.conf.as_deref())?;
        connection.configure(&conf, options)?;
        connection.connect(&conf, options)?;
        connection.fsid = connection.ask_fsid()?;
        Ok(Self { connection: Arc::new(connection) })
    }

    /// The cluster's identity, a UUID in lower case.
    pub fn fsid(&self) -> &str {
        &self.connection.fsid
    }

    /// The number of this connection, which no other one of the cluster has.
    pub fn instance(&self) -> u64 {
        let Connection { functions, handle, .. } = &*self.connection;
        // SAFETY: the handle is connected.
        unsafe { (functions.rados_get_instance_id)(*handle) }
    }

    /// The address of this connection, by which others can [`fence`](Self::fence) it.
    pub fn address(&self) -> Result<String, CephError> {
        let Connection { functions, handle, .. } = &*self.connection;
        let mut text = ptr::null_mut();
        // SAFETY: the handle is connected, and `text` takes a pointer.
        let code = unsafe { (functions.rados_getaddrs)(*handle, &mut text) };
        self.connection.check(code, "find its own address")?;
        // SAFETY: on success it is a text that ends with a NUL.
        let address = unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned();
        // SAFETY: the library allocated it, and it was copied.
        unsafe { (functions.rados_buffer_free)(text) };
        Ok(address)
    }

    /// Fences the connection at `address` off for `time`: after this no operation of it is applied
    /// to an object on which this connection has carried out an operation since.
    ///
    /// Needs the capability to blocklist clients (`mon 'profile rbd'`).
    pub fn fence(&self, address: &str, time: Duration) -> Result<(), CephError> {
        let Connection { functions, handle, .. } = &*self.connection;
        let doing = || format!("blocklist {address}");
        let text = c_string(address)?;
        let seconds = u32::try_from(whole_seconds(time)).unwrap_or(u32::MAX);
        // SAFETY: the handle is connected; the library only reads the text, although its type does
        // not say so.
        let code =
            unsafe { (functions.rados_blocklist_add)(*handle, text.as_ptr().cast_mut(), seconds) };
        self.connection.check(code, &doing())?;
        // Servers refuse the fenced client once they have a map that says so. An operation carries the
        // number of its client's map, and a server gets that map first.
        // SAFETY: the handle is connected.
        let code = unsafe { (functions.rados_wait_for_latest_osdmap)(*handle) };
        self.connection.check(code, &doing())
    }

    /// The space of the cluster.
    pub fn space(&self) -> Result<CephSpace, CephError> {
        let Connection { functions, handle, .. } = &*self.connection;
        let mut stat = ClusterStat::default();
        // SAFETY: the handle is connected, and `stat` is laid out as in C.
        let code = unsafe { (functions.rados_cluster_stat)(*handle, &mut stat) };
        self.connection.check(code, "ask for the cluster's space")?;
        let bytes = |kib: u64| kib.saturating_mul(1024);
        Ok(CephSpace {
            total: bytes(stat.kib),
            used: bytes(stat.kib_used),
            available: bytes(stat.kib_available),
        })
    }

    /// The namespace `namespace` of the pool `pool`; "" is the one without a name.
    ///
    /// # Errors
    ///
    /// [`CephError::NoPool`] if there is none, [`CephError::Forbidden`] if the user cannot write to it.
    pub fn pool(&self, pool: &str, namespace: &str) -> Result<CephPool, CephError> {
        CephPool::open(&self.connection, pool, namespace)
    }
}

/// How many handles of the client library this process has.
static HANDLES: Mutex<usize> = Mutex::new(0);
/// Notified when one is gone.
static IS_GONE: Condvar = Condvar::new();

fn handles() -> MutexGuard<'static, usize> {
    HANDLES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits until all connections of this process have ended; false if that takes longer than `limit`.
///
/// A connection that was dropped lives on while an operation is in flight, at most
/// [`CephOptions::operation_limit`], and its threads a moment longer. A program must not end meanwhile: at its
/// end the library's memory is taken apart under these threads, which may abort it.
pub fn wait_for_connections(limit: Duration) -> bool {
    let waited = IS_GONE.wait_timeout_while(handles(), limit, |count| *count > 0);
    *waited.unwrap_or_else(PoisonError::into_inner).0 == 0
}

/// A handle of the client library, connected or not.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) functions: &'static Functions,
    pub(super) handle: *mut Cluster,
    /// `client.` and the user.
    pub(super) user: String,
    pub(super) fsid: String,
}

// SAFETY: the library's documentation says that any thread may use a connected handle, at the same time
// as others. Before that only one thread has it.
unsafe impl Send for Connection {}
// SAFETY: see there.
unsafe impl Sync for Connection {}

thread_local! {
    /// Whether this thread is one of the client library's.
    static IS_OF_LIBRARY: Cell<bool> = const { Cell::new(false) };
}

/// Notes that this thread is one of the client library's.
pub(super) fn note_thread_of_library() {
    IS_OF_LIBRARY.set(true);
}

impl Drop for Connection {
    fn drop(&mut self) {
        let (functions, handle) = (self.functions, self.handle as usize);
        let shut_down = move || {
            // SAFETY: `new` made the handle, and nothing that needs it is left: each pool, and each
            // operation that was sent, owns a part of this connection.
            unsafe { (functions.rados_shutdown)(handle as *mut Cluster) };
            *handles() -= 1;
            IS_GONE.notify_all();
        };
        // It waits for the library's threads, so that none of them may call it.
        match IS_OF_LIBRARY.get() {
            true => drop(thread::spawn(shut_down)),
            false => shut_down(),
        }
    }
}

impl Connection {
    fn new(options: &CephOptions) -> Result<Self, CephError> {
        let functions = Functions::get()?;
        let user = format!("client.{}", options.user);
        let name = c_string(&user)?;
        if options.user.is_empty() {
            return Err(CephError::BadName { text: options.user.clone() });
        }
        let mut handle = ptr::null_mut();
        // SAFETY: `handle` takes a pointer, and the texts end with a NUL.
        let code =
            unsafe { (functions.rados_create2)(&mut handle, c"ceph".as_ptr(), name.as_ptr(), 0) };
        if code < 0 {
            return Err(CephError::Failed {
                doing: format!("begin a connection as {user}"),
                reason: message(code),
            });
        }
        *handles() += 1;
        Ok(Self { functions, handle, user, fsid: String::new() })
    }

    fn configure(&self, conf: &Path, options: &CephOptions) -> Result<(), CephError> {
        let bad = |reason| CephError::BadConfiguration { file: conf.display().to_string(), reason };
        let file = path(conf)?;
        // SAFETY: the handle is not connected yet, and the text ends with a NUL.
        let code = unsafe { (self.functions.rados_conf_read_file)(self.handle, file.as_ptr()) };
        if code < 0 {
            return Err(bad(message(code)));
        }
        let limit = |time| c_string(&whole_seconds(time).to_string());
        // An operation that is late makes the library ask for the newest map. By default one of less than
        // ten seconds is not late: were all given up before, the client would never learn that servers
        // came back at other addresses.
        let late = (whole_seconds(options.operation_limit) as f64 / 4.0).min(5.0).to_string();
        let mut settings = vec![
            (c"client_mount_timeout", limit(options.connect_limit)?),
            // Without these two an operation waits for ever.
            (c"rados_mon_op_timeout", limit(options.operation_limit)?),
            (c"rados_osd_op_timeout", limit(options.operation_limit)?),
            (c"objecter_timeout", c_string(&late)?),
            (c"objecter_tick_interval", c_string(&late)?),
        ];
        if let Some(keyring) = &options.keyring {
            settings.push((c"keyring", path(keyring)?));
        }
        for (name, value) in settings {
            // SAFETY: the handle is not connected yet, and the texts end with a NUL.
            let code = unsafe {
                (self.functions.rados_conf_set)(self.handle, name.as_ptr(), value.as_ptr())
            };
            if code < 0 {
                return Err(bad(format!("{name:?} cannot be {value:?}: {}", message(code))));
            }
        }
        Ok(())
    }

    fn connect(&self, conf: &Path, options: &CephOptions) -> Result<(), CephError> {
        // Without a key the library would wait for a monitor to let it in, and not say why.
        if self.setting(c"auth_client_required") != "none"
            && let Some(tried) = self.why_no_key()
        {
            return Err(CephError::NoKey { user: self.user.clone(), tried });
        }
        // SAFETY: the handle was configured and not connected yet.
        let code = unsafe { (self.functions.rados_connect)(self.handle) };
        if code >= 0 {
            return Ok(());
        }
        let (file, monitors) = (conf.display().to_string(), self.setting(c"mon_host"));
        if is(code, Errno::TIMEDOUT) {
            let limit = Duration::from_secs(whole_seconds(options.connect_limit));
            return Err(CephError::Unreachable { monitors, file, limit });
        }
        if monitors.is_empty() {
            let reason = "it has no mon_host, the addresses of the monitors".to_owned();
            return Err(CephError::BadConfiguration { file, reason });
        }
        self.check(code, "connect")
    }

    /// Why no file that the configuration names has the user's key; `None` if there is one.
    fn why_no_key(&self) -> Option<String> {
        let has = |name| !self.setting(name).is_empty();
        if has(c"key") || has(c"keyfile") {
            return None;
        }
        let heading = format!("[{}]", self.user);
        let mut files = Vec::new();
        for name in self.setting(c"keyring").split(',').map(str::trim) {
            match fs::read_to_string(name) {
                Ok(text) if text.lines().any(|line| line.trim() == heading) => return None,
                Ok(_) => files.push((name.into(), format!("it has no {heading}"))),
                Err(error) => files.push((name.into(), error.to_string())),
            }
        }
        Some(tried(&files))
    }

    /// The value of a setting; "" if there is none.
    pub(super) fn setting(&self, name: &CStr) -> String {
        let mut text = [0_u8; 4096];
        // SAFETY: the handle is valid, and the library writes at most so many bytes.
        let code = unsafe {
            let start = text.as_mut_ptr().cast::<c_char>();
            (self.functions.rados_conf_get)(self.handle, name.as_ptr(), start, text.len())
        };
        match CStr::from_bytes_until_nul(&text) {
            Ok(text) if code >= 0 => text.to_string_lossy().into_owned(),
            _ => String::new(),
        }
    }

    fn ask_fsid(&self) -> Result<String, CephError> {
        let mut text = [0_u8; 64];
        // SAFETY: the handle is connected, and the library writes at most so many bytes.
        let code = unsafe {
            let start = text.as_mut_ptr().cast::<c_char>();
            (self.functions.rados_cluster_fsid)(self.handle, start, text.len())
        };
        self.check(code, "ask for the cluster's identity")?;
        let text = CStr::from_bytes_until_nul(&text).unwrap_or_default();
        Ok(text.to_string_lossy().into_owned())
    }

    /// A setting that is a number, and is set.
    pub(super) fn number(&self, name: &CStr) -> Option<u64> {
        self.setting(name).parse().ok()
    }

    /// Fails if `code` tells of an error.
    pub(super) fn check(&self, code: c_int, doing: &str) -> Result<(), CephError> {
        if code < 0 { Err(self.error(code, doing)) } else { Ok(()) }
    }

    /// The error of `code`.
    pub(super) fn error(&self, code: c_int, doing: &str) -> CephError {
        let doing = doing.to_owned();
        if is(code, Errno::PERM) || is(code, Errno::ACCESS) {
            return CephError::Forbidden { user: self.user.clone(), doing };
        }
        CephError::Failed { doing, reason: message(code) }
    }
}

/// The configuration file: `named`, or else the file that `CEPH_CONF` names, or else the usual one.
fn configuration(named: Option<&Path>) -> Result<PathBuf, CephError> {
    let from_environment = || env::var_os("CEPH_CONF").map(PathBuf::from);
    let file = named.map(Path::to_owned).or_else(from_environment);
    let file = file.unwrap_or_else(|| "/etc/ceph/ceph.conf".into());
    match fs::File::open(&file) {
        Ok(_) => Ok(file),
        Err(error) => {
            Err(CephError::NoConfiguration { tried: tried(&[(file, error.to_string())]) })
        }
    }
}

/// `time` in seconds, rounded up, one at least: none would wait for ever.
fn whole_seconds(time: Duration) -> u64 {
    (time.as_secs() + u64::from(time.subsec_nanos() > 0)).max(1)
}

pub(super) fn c_string(text: &str) -> Result<CString, CephError> {
    CString::new(text).map_err(|_| CephError::BadName { text: text.to_owned() })
}

fn path(path: &Path) -> Result<CString, CephError> {
    CString::new(path.as_os_str().as_bytes())
        .map_err(|_| CephError::BadName { text: path.display().to_string() })
}
