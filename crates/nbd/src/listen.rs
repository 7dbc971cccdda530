//! The sockets on which clients arrive.

use std::fmt;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{Mode, fchmod};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with, sockopt,
};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

use crate::ServerError;
use crate::stream::Stream;

/// Clients of a Unix socket that may wait to be accepted.
const WAITING: i32 = 1024;
/// After so long without a packet the other machine is asked whether it is there, as often as this.
const SILENCE: Duration = Duration::from_secs(60);
const ASK_EVERY: Duration = Duration::from_secs(10);
const ASK_TIMES: u32 = 6;
/// It is not asked while it has not acknowledged all that was sent, for which it may take so long.
const UNANSWERED: Duration = Duration::from_secs(120);

/// Bytes that a Unix socket may hold until the client reads them, as the kernel counts. Who found no
/// room is woken when three quarters are free: with half as much, which is what Linux gives, the client
/// has read the rest before there is more.
const UNREAD: usize = 416 << 10;

/// Where a server is to listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// On a TCP port; 0 takes one that is free.
    Tcp(SocketAddr),
    /// On a Unix socket of this name. Who may connect is a matter of the permissions of its folder
    /// and of [`Config::unix_mode`](crate::Config::unix_mode). One that a dead server left behind is
    /// replaced.
    Unix(PathBuf),
}

/// Where a server listens, or where a client is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A host and a port.
    Tcp(SocketAddr),
    /// A Unix socket; clients have no other name than the server's.
    Unix(PathBuf),
    /// A connection that was handed over.
    Adopted,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(address) => address.fmt(f),
            Address::Unix(path) => path.display().fmt(f),
            Address::Adopted => f.write_str("a connection that was handed over"),
        }
    }
}

/// A socket that listens. A Unix socket loses its name when this is dropped.
pub(crate) enum Listener {
    Tcp(TcpListener, SocketAddr),
    Unix(UnixListener, PathBuf),
}

impl Listener {
    /// Must be called within a runtime.
    pub(crate) async fn bind(place: &Listen, unix_mode: u32) -> Result<Listener, ServerError> {
        match place {
            Listen::Tcp(address) => {
                let failed = |source| ServerError::Listen { address: address.to_string(), source };
                let listener = TcpListener::bind(address).await.map_err(failed)?;
                let bound = listener.local_addr().map_err(failed)?;
                Ok(Listener::Tcp(listener, bound))
            }
            Listen::Unix(path) => Ok(Listener::Unix(bind_unix(path, unix_mode)?, path.clone())),
        }
    }

    pub(crate) fn address(&self) -> Address {
        match self {
            Listener::Tcp(_, address) => Address::Tcp(*address),
            Listener::Unix(_, path) => Address::Unix(path.clone()),
        }
    }

    /// The next client.
    pub(crate) async fn accept(&self) -> io::Result<(Box<dyn Stream>, Address)> {
        match self {
            Listener::Tcp(listener, _) => {
                let (stream, peer) = listener.accept().await?;
                prepare(&stream)?;
                Ok((Box::new(stream), Address::Tcp(peer)))
            }
            Listener::Unix(listener, path) => {
                let (stream, _) = listener.accept().await?;
                widen(&stream);
                Ok((Box::new(stream), Address::Unix(path.clone())))
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Listener::Unix(_, path) = self {
            // the next server replaces what could not be removed
            let _ = fs::remove_file(path);
        }
    }
}

/// Replies leave at once, and a client whose machine died is noticed within two minutes: until then it
/// counts as one that uses its export.
fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    sockopt::set_tcp_keepidle(stream, SILENCE)?;
    sockopt::set_tcp_keepintvl(stream, ASK_EVERY)?;
    sockopt::set_tcp_keepcnt(stream, ASK_TIMES)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_user_timeout(stream, UNANSWERED.as_millis() as u32)?;
    Ok(())
}

/// Lets the socket hold [`UNREAD`] bytes; more, if the system has it so. A hint.
pub(crate) fn widen(stream: &UnixStream) {
    if sockopt::socket_send_buffer_size(stream).is_ok_and(|held| held < UNREAD) {
        // The kernel doubles what it is asked for, for what it keeps beside the bytes. A socket that
        // stays as it is works.
        let _ = sockopt::set_socket_send_buffer_size(stream, UNREAD / 2);
    }
}

/// A socket that has `mode` from the moment that anybody can connect to it.
fn listen_at(path: &Path, mode: u32) -> io::Result<UnixListener> {
    let (family, kind) = (AddressFamily::UNIX, SocketType::STREAM);
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, kind, flags, None)?;
    // what the umask takes from it is given back below, before there is anybody to let in
    fchmod(&socket, Mode::from_raw_mode(mode))?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    listen(&socket, WAITING)?;
    UnixListener::from_std(socket.into())
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
            // with replies on their way to it none of these counts
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
            // as much as the system gives to anybody: where that is little, it is widened, not cut
            let (before, after) = held_after(1 << 20);
            assert!(if before > UNREAD { after == before } else { after >= before });
        });
    }
}
