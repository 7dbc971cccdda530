//! The byte stream of a connection.

use tokio::io::{AsyncRead, AsyncWrite, DuplexStream};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::client;
use tokio_rustls::server::TlsStream;

/// The reading half of a connection.
pub(crate) type ReadHalf = Box<dyn AsyncRead + Send + Unpin>;
/// The writing half of a connection.
pub(crate) type WriteHalf = Box<dyn AsyncWrite + Send + Unpin>;

/// Bytes in both directions.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Sync + Unpin {
    /// Splits the two directions, for two tasks.
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

impl Stream for client::TlsStream<Box<dyn Stream>> {
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
