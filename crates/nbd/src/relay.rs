//! A client's connection that is passed on to another server, byte by byte.
//!
//! The client negotiates with this server until it names an export that another server has. From then on this
//! server passes the options that name it on, and the answers back. When the client has its export, requests
//! and replies pass through unread. So nothing is ever sent twice: if the connection to the other server
//! breaks, that to the client ends, and the client connects again.
//!
//! This server first sends the option [`option::RELAYED`]. A server that received it passes nothing on, so
//! that no loop of servers arises.

use std::io;
use std::time::Duration;

use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;

use crate::finder::Upstream;
use crate::limits::{LINGER, MAX_OPTION};
use crate::server::Closing;
use crate::stream::Stream;
use crate::wire::{GREETING_MAGIC, OPTION_MAGIC, OPTION_REPLY_MAGIC, answer, greeting, option};
use crate::{NbdError, Tls};

/// How long each step of a negotiation with another server may take.
const STEP: Duration = Duration::from_secs(3);
/// Answers to one option together are no longer, in bytes.
const MAX_ANSWERS: usize = 1 << 20;
/// How often it is asked whether the other server must no longer be used.
const ASK_EVERY: Duration = Duration::from_millis(500);

/// What a client has agreed on so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    pub(crate) omits_zeroes: bool,
    pub(crate) is_structured: bool,
}

/// A connection to another server, on behalf of one client.
pub(crate) struct Relay {
    stream: Box<dyn Stream>,
    upstream: Upstream,
    terms: Terms,
    /// The export.
    pub(crate) name: String,
}

/// The answers to an option, as bytes, and the kind of the last.
pub(crate) struct Passed {
    pub(crate) bytes: Vec<u8>,
    pub(crate) last: u32,
}

impl Passed {
    /// Whether the export may be found elsewhere or later.
    pub(crate) fn is_gone(&self) -> bool {
        [answer::ERR_UNKNOWN, answer::ERR_SHUTDOWN].contains(&self.last)
    }
}

fn broken(what: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.into())
}

async fn step<T>(what: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    match timeout(STEP, what).await {
        Ok(done) => done,
        Err(_) => Err(io::Error::new(
            io::ErrorKind::TimedOut,
            format!("the other server did not answer within {STEP:?}"),
        )),
    }
}

impl Relay {
    /// Connects to `upstream` on behalf of a client that asks for the export `name`.
    pub(crate) async fn connect(
        upstream: Upstream,
        name: &str,
        terms: Terms,
        tls: Option<&Tls>,
    ) -> io::Result<Relay> {
        let mut stream = step(dial(&upstream.place)).await?;
        step(greet(&mut stream, terms)).await?;
        if let Some(tls) = tls {
            let connector = tls.connector.clone().ok_or_else(|| {
                broken("this server has no certificates of authorities, by which to trust another server")
            })?;
            step(agree(&mut stream, option::STARTTLS)).await?;
            stream = step(encrypt(stream, connector, &upstream.place)).await?;
        }
        step(agree(&mut stream, option::RELAYED)).await?;
        if terms.is_structured {
            step(agree(&mut stream, option::STRUCTURED_REPLY)).await?;
        }
        Ok(Relay { stream, upstream, terms, name: name.to_owned() })
    }

    /// Whether this connection is for such a client.
    pub(crate) fn fits(&self, place: &str, name: &str, terms: Terms) -> bool {
        self.upstream.place == place && self.name == name && self.terms == terms
    }

    /// Passes an option on; the answers to it.
    pub(crate) async fn pass(&mut self, option: u32, data: &[u8]) -> io::Result<Passed> {
        step(async {
            put(&mut self.stream, option, data).await?;
            answers(&mut self.stream, option).await
        })
        .await
    }

    /// Passes the old option for an export on, which has no answer that says an error.
    pub(crate) async fn choose_unanswered(&mut self, data: &[u8]) -> io::Result<()> {
        step(put(&mut self.stream, option::EXPORT_NAME, data)).await
    }

    /// Passes bytes on in both directions until one side ends.
    pub(crate) async fn run(
        self,
        client: Box<dyn Stream>,
        closing: &mut Closing,
    ) -> Result<(), NbdError> {
        let (mut requests, mut back) = client.split();
        let (mut replies, mut forth) = self.stream.split();
        let is_over = self.upstream.is_over;
        let sending = async {
            let sent = copy(&mut requests, &mut forth).await;
            // the other server completes what it has, if the client said farewell
            sent.and(forth.shutdown().await)
        };
        let receiving = async { copy(&mut replies, &mut back).await };
        let ending = async {
            while !is_over() {
                sleep(ASK_EVERY).await;
            }
        };
        let mut sending = Box::pin(sending);
        let ended = {
            let mut receiving = Box::pin(receiving);
            tokio::select! {
                received = &mut receiving => Err(received.err()),
                sent = &mut sending => match sent {
                    // the last replies; a client that is gone takes none
                    Ok(()) => {
                        let _ = timeout(LINGER, &mut receiving).await;
                        Ok(())
                    }
                    Err(error) => Err(Some(error)),
                },
                () = ending => Err(None),
                () = closing.wait() => Ok(()),
            }
        };
        // the client sees the end either way
        let _ = timeout(LINGER, back.shutdown()).await;
        // the other server also ends first if the client said farewell, and then the client ends too
        if matches!(ended, Err(None)) && matches!(timeout(LINGER, sending).await, Ok(Ok(()))) {
            return Ok(());
        }
        ended.map_err(|source| NbdError::Upstream { place: self.upstream.place, source })
    }
}

async fn dial(place: &str) -> io::Result<Box<dyn Stream>> {
    if place.starts_with('/') {
        return Ok(Box::new(UnixStream::connect(place).await?));
    }
    let stream = TcpStream::connect(place).await?;
    stream.set_nodelay(true)?;
    Ok(Box::new(stream))
}

/// Reads the greeting, and answers as the client did.
async fn greet(stream: &mut Box<dyn Stream>, terms: Terms) -> io::Result<()> {
    let (first, second) = (stream.read_u64().await?, stream.read_u64().await?);
    if (first, second) != (GREETING_MAGIC, OPTION_MAGIC) {
        return Err(broken("the other server does not greet as one of this protocol"));
    }
    let offered = stream.read_u16().await?;
    let wanted = greeting::FIXED_NEWSTYLE | greeting::NO_ZEROES;
    if offered & wanted != wanted {
        return Err(broken("the other server speaks an older version of this protocol"));
    }
    let zeroes = if terms.omits_zeroes { greeting::NO_ZEROES } else { 0 };
    stream.write_u32(u32::from(greeting::FIXED_NEWSTYLE | zeroes)).await?;
    stream.flush().await
}

async fn put(stream: &mut Box<dyn Stream>, option: u32, data: &[u8]) -> io::Result<()> {
    let mut bytes = Vec::with_capacity(16 + data.len());
    bytes.extend(OPTION_MAGIC.to_be_bytes());
    bytes.extend(option.to_be_bytes());
    bytes.extend((data.len() as u32).to_be_bytes());
    bytes.extend(data);
    stream.write_all(&bytes).await?;
    stream.flush().await
}

/// The answers to `option`, up to the last.
async fn answers(stream: &mut Box<dyn Stream>, option: u32) -> io::Result<Passed> {
    let mut bytes = Vec::new();
    loop {
        let magic = stream.read_u64().await?;
        let (of, kind, len) =
            (stream.read_u32().await?, stream.read_u32().await?, stream.read_u32().await?);
        if magic != OPTION_REPLY_MAGIC || of != option {
            return Err(broken("the other server answers another option"));
        }
        if len > MAX_OPTION || bytes.len() + len as usize > MAX_ANSWERS {
            return Err(broken("the other server's answer is too long"));
        }
        bytes.extend(magic.to_be_bytes());
        [of, kind, len].iter().for_each(|field| bytes.extend(field.to_be_bytes()));
        let at = bytes.len();
        bytes.resize(at + len as usize, 0);
        stream.read_exact(&mut bytes[at..]).await?;
        if ![answer::SERVER, answer::INFO, answer::META_CONTEXT].contains(&kind) {
            return Ok(Passed { bytes, last: kind });
        }
    }
}

/// Sends an option without data, to which the other server must agree.
async fn agree(stream: &mut Box<dyn Stream>, option: u32) -> io::Result<()> {
    put(stream, option, &[]).await?;
    match answers(stream, option).await?.last {
        answer::ACK => Ok(()),
        _ if option == option::STARTTLS => Err(broken("the other server has no TLS")),
        _ => Err(broken("the other server is no gateway of this version, or asks for TLS")),
    }
}

async fn encrypt(
    stream: Box<dyn Stream>,
    connector: TlsConnector,
    place: &str,
) -> io::Result<Box<dyn Stream>> {
    let host = place.rsplit_once(':').map_or("localhost", |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    let name = ServerName::try_from(host).map_err(|error| broken(error.to_string()))?;
    Ok(Box::new(connector.connect(name, stream).await?))
}
