//! What a connection runs over.

use tokio::io::{AsyncRead, AsyncWrite, DuplexStream};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::server::TlsStream;

/// The half of a connection that is read.
pub(crate) type ReadHalf = Box<dyn AsyncRead + Send + Unpin>;
/// The half of a connection that is written.
pub(crate) type WriteHalf = Box<dyn AsyncWrite + Send + Unpin>;

/// Bytes in both directions.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {
    /// Both directions apart, for two tasks.
    fn split(self: Box<Self>) -> (ReadHalf, WriteHalf);
}

impl Stream for TcpStream {
    fn split(self: Box<Self>) -> (ReadHalf, WriteHalf) {
        let (read, write) = self.into_split();
        (Box::new(read), Box::new(write))
    }
}

impl Stream for UnixStream {
    fn split(self: Box<Self>) -> (ReadHalf, WriteHalf) {
        let (read, write) = self.into_split();
        (Box::new(read), Box::new(write))
    }
}

impl Stream for TlsStream<Box<dyn Stream>> {
    fn split(self: Box<Self>) -> (ReadHalf, WriteHalf) {
        let (read, write) = tokio::io::split(*self);
        (Box::new(read), Box::new(write))
    }
}

impl Stream for DuplexStream {
    fn split(self: Box<Self>) -> (ReadHalf, WriteHalf) {
        let (read, write) = tokio::io::split(*self);
        (Box::new(read), Box::new(write))
    }
}
