//! The sockets on which clients arrive.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{Mode, RawMode, fchmod};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType, getsockname, sockopt};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixSocket, UnixStream};

use crate::ServerError;
use crate::stream::Stream;

/// Clients of a Unix socket that may wait to be accepted.
const WAITING: u32 = 1024;
/// The keep-alive interval: after this time without a packet the kernel probes the other machine.
const SILENCE: Duration = Duration::from_secs(60);
const ASK_EVERY: Duration = Duration::from_secs(10);
const ASK_TIMES: u32 = 6;
/// The user timeout: how long sent bytes may stay unacknowledged. The kernel sends no probes meanwhile.
#[cfg(target_os = "linux")]
const UNANSWERED: Duration = Duration::from_secs(120);

/// Bytes that a Unix socket may hold until the client reads them, as the kernel counts. The kernel wakes a
/// blocked writer when three quarters are free. With half of this, the default of Linux, the client reads
/// the rest before the writer adds more.
const UNREAD: usize = 416 << 10;

/// An address on which a server is to listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// A TCP port; 0 selects a free one.
    Tcp(SocketAddr),
    /// A TCP port of a host, such as `localhost:10809`: each address of the name when the server starts.
    /// Addresses that this machine does not have are skipped, unless it has none of them.
    Host(String),
    /// A Unix socket of this name. The permissions of its folder and
    /// [`Config::unix_mode`](crate::Config::unix_mode) decide which users may connect. The socket of a
    /// dead server is replaced.
    Unix(PathBuf),
}

/// The address of a listening server, or of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A host and a port.
    Tcp(SocketAddr),
    /// A Unix socket; clients have the name of the server's socket.
    Unix(PathBuf),
    /// A Unix socket without a name in the file system.
    Unnamed,
    /// A connection that the caller passed in.
    Adopted,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(address) => address.fmt(f),
            Address::Unix(path) => path.display().fmt(f),
            Address::Unnamed => f.write_str("a Unix socket without a path"),
            Address::Adopted => f.write_str("an inherited connection"),
        }
    }
}

/// A listening socket.
pub(crate) enum Listener {
    Tcp(TcpListener, SocketAddr),
    /// A socket that this server bound.
    Unix(UnixListener, BoundPath),
    /// A socket that was inherited, and its address.
    InheritedUnix(UnixListener, Address),
}

/// The name of a Unix socket, which is removed when this is dropped.
pub(crate) struct BoundPath(PathBuf);

impl Drop for BoundPath {
    fn drop(&mut self) {
        // the next server replaces what could not be removed
        let _ = fs::remove_file(&self.0);
    }
}

impl Listener {
    /// The sockets of one address. Must be called within a runtime.
    pub(crate) async fn bind(place: &Listen, unix_mode: u32) -> Result<Vec<Listener>, ServerError> {
        match place {
            Listen::Tcp(address) => {
                let failed = |source| ServerError::Listen { address: address.to_string(), source };
                Ok(vec![bind_tcp(*address).await.map_err(failed)?])
            }
            Listen::Host(name) => {
                let failed = |source| ServerError::Listen { address: name.clone(), source };
                bind_host(name).await.map_err(failed)
            }
            Listen::Unix(path) => {
                let listener = bind_unix(path, unix_mode)?;
                Ok(vec![Listener::Unix(listener, BoundPath(path.clone()))])
            }
        }
    }

    /// A socket that already listens for TCP or Unix clients. Must be called within a runtime.
    pub(crate) fn inherit(socket: OwnedFd) -> Result<Listener, ServerError> {
        let number = socket.as_raw_fd();
        inherit(socket).map_err(|source| ServerError::Inherited { socket: number, source })
    }

    pub(crate) fn address(&self) -> Address {
        match self {
            Listener::Tcp(_, address) => Address::Tcp(*address),
            Listener::Unix(_, BoundPath(path)) => Address::Unix(path.clone()),
            Listener::InheritedUnix(_, address) => address.clone(),
        }
    }

    /// Accepts the next client.
    pub(crate) async fn accept(&self) -> io::Result<(Box<dyn Stream>, Address)> {
        match self {
            Listener::Tcp(listener, _) => {
                let (stream, peer) = listener.accept().await?;
                prepare(&stream)?;
                Ok((Box::new(stream), Address::Tcp(peer)))
            }
            Listener::Unix(listener, _) | Listener::InheritedUnix(listener, _) => {
                let (stream, _) = listener.accept().await?;
                widen(&stream);
                Ok((Box::new(stream), self.address()))
            }
        }
    }
}

async fn bind_tcp(address: SocketAddr) -> io::Result<Listener> {
    let listener = TcpListener::bind(address).await?;
    let bound = listener.local_addr()?;
    Ok(Listener::Tcp(listener, bound))
}

/// A socket for each address of `host` that this machine has.
async fn bind_host(host: &str) -> io::Result<Vec<Listener>> {
    let (mut listeners, mut missing) = (Vec::new(), None);
    let addresses: BTreeSet<SocketAddr> = tokio::net::lookup_host(host).await?.collect();
    for address in addresses {
        match bind_tcp(address).await {
            Ok(listener) => listeners.push(listener),
            Err(error) if is_of_elsewhere(&error) => missing = Some(error),
            Err(error) => return Err(error),
        }
    }
    if listeners.is_empty() {
        let nothing = || io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        return Err(missing.unwrap_or_else(nothing));
    }
    Ok(listeners)
}

/// Whether binding failed because this machine does not have the address.
fn is_of_elsewhere(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::AddrNotAvailable
        || error.raw_os_error() == Some(Errno::AFNOSUPPORT.raw_os_error())
}

fn inherit(socket: OwnedFd) -> io::Result<Listener> {
    let is_stream = sockopt::socket_type(&socket)? == SocketType::STREAM;
    if is_stream && listens(&socket)? {
        match getsockname(&socket)?.address_family() {
            AddressFamily::UNIX => return inherit_unix(socket.into()),
            AddressFamily::INET | AddressFamily::INET6 => return inherit_tcp(socket.into()),
            _ => {}
        }
    }
    let expected = "expected a TCP or Unix stream socket that listens";
    Err(io::Error::new(io::ErrorKind::InvalidInput, expected))
}

/// Whether the socket listens, as far as the system tells.
fn listens(socket: &OwnedFd) -> io::Result<bool> {
    #[cfg(target_os = "linux")]
    let listens = sockopt::socket_acceptconn(socket)?;
    #[cfg(not(target_os = "linux"))]
    let listens = getsockname(socket).is_ok();
    Ok(listens)
}

fn inherit_tcp(listener: std::net::TcpListener) -> io::Result<Listener> {
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    Ok(Listener::Tcp(TcpListener::from_std(listener)?, address))
}

fn inherit_unix(listener: std::os::unix::net::UnixListener) -> io::Result<Listener> {
    listener.set_nonblocking(true)?;
    let bound = listener.local_addr()?;
    let address = bound.as_pathname().map_or(Address::Unnamed, |path| Address::Unix(path.into()));
    Ok(Listener::InheritedUnix(UnixListener::from_std(listener)?, address))
}

/// Makes replies leave immediately, and detects a dead machine within two minutes: until then its client
/// counts as a user of its export.
fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    sockopt::set_tcp_keepidle(stream, SILENCE)?;
    sockopt::set_tcp_keepintvl(stream, ASK_EVERY)?;
    sockopt::set_tcp_keepcnt(stream, ASK_TIMES)?;
    sockopt::set_socket_keepalive(stream, true)?;
    #[cfg(target_os = "linux")]
    sockopt::set_tcp_user_timeout(stream, UNANSWERED.as_millis() as u32)?;
    Ok(())
}

/// Lets the socket hold at least [`UNREAD`] bytes. A hint.
pub(crate) fn widen(stream: &UnixStream) {
    if sockopt::socket_send_buffer_size(stream).is_ok_and(|held| held < UNREAD) {
        // The kernel doubles what it is asked for, for what it keeps beside the bytes. A socket that
        // stays as it is works.
        let _ = sockopt::set_socket_send_buffer_size(stream, UNREAD / 2);
    }
}

/// A socket that has `mode` before any client can connect to it.
fn listen_at(path: &Path, mode: u32) -> io::Result<UnixListener> {
    let socket = UnixSocket::new_stream()?;
    // the umask may restrict the mode; it is corrected below, before clients are accepted
    fchmod(&socket, Mode::from_raw_mode(mode as RawMode))?;
    socket.bind(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    socket.listen(WAITING)
}

fn bind_unix(path: &Path, mode: u32) -> Result<UnixListener, ServerError> {
    let failed = |source| ServerError::Listen { address: path.display().to_string(), source };
    match listen_at(path, mode) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
        bound => return bound.map_err(failed),
    }
    if !path.symlink_metadata().map_err(failed)?.file_type().is_socket() {
        return Err(ServerError::NotASocket { path: path.to_owned() });
    }
    match std::os::unix::net::UnixStream::connect(path) {
        Ok(_) => Err(ServerError::InUse { path: path.to_owned() }),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            fs::remove_file(path).map_err(failed)?;
            listen_at(path, mode).map_err(failed)
        }
        Err(error) => Err(failed(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_that_is_gone_is_noticed_within_two_minutes() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            prepare(&stream).unwrap();
            assert!(sockopt::socket_keepalive(&stream).unwrap());
            let silence = sockopt::tcp_keepidle(&stream).unwrap();
            let each = sockopt::tcp_keepintvl(&stream).unwrap();
            let times = sockopt::tcp_keepcnt(&stream).unwrap();
            assert!(silence + each * times <= Duration::from_secs(120));
            // while replies to it are in flight, none of these applies
            let unanswered = sockopt::tcp_user_timeout(&stream).unwrap();
            assert!((1..=120_000).contains(&unanswered), "{unanswered} ms");
        });
    }

    #[test]
    fn a_unix_socket_holds_more_than_it_did_unless_that_was_enough() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        runtime.block_on(async {
            let (stream, _other) = UnixStream::pair().unwrap();
            let held_after = |asked: usize| {
                sockopt::set_socket_send_buffer_size(&stream, asked).unwrap();
                let before = sockopt::socket_send_buffer_size(&stream).unwrap();
                widen(&stream);
                (before, sockopt::socket_send_buffer_size(&stream).unwrap())
            };
            let (before, after) = held_after(64 << 10);
            assert!(after > before, "{before} and then {after}");
            // the maximum of the system: a smaller default is raised to it, a larger one is not lowered
            let (before, after) = held_after(1 << 20);
            assert!(if before > UNREAD { after == before } else { after >= before });
        });
    }
}
