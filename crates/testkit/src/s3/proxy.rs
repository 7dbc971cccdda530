use std::collections::BTreeMap;
use std::io::{self, BufReader, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::http::Head;
use crate::SplitMix64;

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fate {
    /// It is answered.
    Passed,
    /// It is answered 500 and not done.
    InternalError,
    /// It is answered 503 SlowDown and not done.
    SlowDown,
    /// It is done and answered late.
    Delayed,
    /// It ends in its middle, on its way to the server.
    CutRequest,
    /// It is done, and the answer lost.
    LostAnswer,
    /// It is done, and the answer ends in its middle.
    CutAnswer,
}

impl Fate {
    /// Every way in which a request can fare badly.
    pub const MISHAPS: [Self; 6] = [
        Self::InternalError,
        Self::SlowDown,
        Self::Delayed,
        Self::CutRequest,
        Self::LostAnswer,
        Self::CutAnswer,
    ];
}

/// Which requests fare badly: a function of the seed and of how many came before.
#[derive(Clone, Copy, Debug)]
pub struct Mishaps {
    /// Chooses which.
    pub seed: u64,
    /// One in so many fares badly; 0 for none.
    pub one_in: u64,
}

impl Mishaps {
    fn fate(self, number: u64) -> Fate {
        if self.one_in == 0 {
            return Fate::Passed;
        }
        let mut random = SplitMix64::new(self.seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        if !random.next_u64().is_multiple_of(self.one_in) {
            return Fate::Passed;
        }
        Fate::MISHAPS[(random.next_u64() % Fate::MISHAPS.len() as u64) as usize]
    }
}

/// What is allowed, and what becomes of a request to put only under a free name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rules {
    /// The condition is handed on.
    Conditions,
    /// The condition is passed over, as servers do that do not know it.
    NoConditions,
    /// The same, but only where an upload in parts is completed.
    UncheckedCompletions,
    /// The request is answered 501 NotImplemented.
    RefusedConditions,
    /// Requests with a body of more than 6 MiB are cut in its middle, as by a line that breaks often;
    /// uploads in parts must be completed under the condition, or are answered 403 AccessDenied.
    ShortRequests,
    /// Puts without the condition, and deletes, are answered 403 AccessDenied, as by a bucket's
    /// policy.
    AppendOnly,
}

/// How a service is that can no longer be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outage {
    /// Connections end without an answer.
    Gone,
    /// Requests are taken and never answered.
    Silent,
    /// Every request is answered 503 SlowDown.
    Unavailable,
}

/// When the service can no longer be used.
#[derive(Clone, Copy, Debug)]
struct Ahead {
    outage: Outage,
    /// How many requests are answered before.
    answered: u64,
}

/// A server between a client and an S3 server, or another object service. It takes Google's conditions for S3's,
/// so that moto serves clients of both.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    server: SocketAddr,
    rules: Rules,
    mishaps: Mishaps,
    fates: Mutex<BTreeMap<Fate, u64>>,
    ahead: Mutex<Option<Ahead>>,
    /// How many requests came, and how many of them in an outage.
    came: AtomicU64,
    unanswered: AtomicU64,
    over: AtomicBool,
}

impl Proxy {
    /// Starts to listen, on a thread that ends when this is dropped.
    pub fn start(server: SocketAddr, rules: Rules, mishaps: Mishaps) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("it is bound");
        let shared = Arc::new(Shared {
            server,
            rules,
            mishaps,
            fates: Mutex::default(),
            ahead: Mutex::default(),
            came: AtomicU64::new(0),
            unanswered: AtomicU64::new(0),
            over: AtomicBool::new(false),
        });
        let served = Arc::clone(&shared);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if served.over.load(Ordering::Relaxed) {
                    break;
                }
                let served = Arc::clone(&served);
                // A client that goes away is what a proxy has to live with.
                thread::spawn(move || drop(served.serve(client)));
            }
        });
        Self { address, shared }
    }

    /// The URL of the service.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Begins an outage after `answered` more requests.
    pub fn begin_outage(&self, outage: Outage, answered: u64) {
        *self.shared.ahead() = Some(Ahead { outage, answered });
    }

    /// Answers again.
    pub fn end_outage(&self) {
        *self.shared.ahead() = None;
    }

    /// How many requests came.
    pub fn requests(&self) -> u64 {
        self.shared.came.load(Ordering::SeqCst)
    }

    /// How many requests came in an outage.
    pub fn unanswered(&self) -> u64 {
        self.shared.unanswered.load(Ordering::SeqCst)
    }

    /// How many requests had which fate.
    pub fn fates(&self) -> BTreeMap<Fate, u64> {
        self.shared.fates.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Relaxed);
        // Wakes the listener, which then sees that it is over.
        drop(TcpStream::connect(self.address));
    }
}

impl Shared {
    /// Serves the one request of a connection.
    fn serve(&self, mut client: TcpStream) -> io::Result<()> {
        let mut from_client = BufReader::new(client.try_clone()?);
        let Some(mut request) = Head::read(&mut from_client)? else { return Ok(()) };
        let body = request.read_body(&mut from_client)?;
        self.came.fetch_add(1, Ordering::SeqCst);
        if let Some(outage) = self.outage() {
            return self.leave_undone(outage, &mut client);
        }
        // Google's way to say it, which moto does not know.
        if request.value("x-goog-if-generation-match") == Some("0") {
            request.remove("x-goog-if-generation-match");
            request.set("If-None-Match", "*");
        }
        let is_conditional = request.value("if-none-match").is_some();
        let method = request.lines[0].split(' ').next().unwrap_or_default();
        let completes = method == "POST" && request.lines[0].contains("?uploadId=");
        match self.rules {
            Rules::NoConditions => request.remove("if-none-match"),
            Rules::RefusedConditions if is_conditional => {
                return refuse(&mut client, "501 Not Implemented", "NotImplemented");
            }
            Rules::AppendOnly if method == "DELETE" || method == "PUT" && !is_conditional => {
                return refuse(&mut client, "403 Forbidden", "AccessDenied");
            }
            Rules::ShortRequests if body.len() > 6 << 20 => return client.shutdown(Shutdown::Both),
            Rules::ShortRequests if completes && !is_conditional => {
                return refuse(&mut client, "403 Forbidden", "AccessDenied");
            }
            Rules::UncheckedCompletions if completes => request.remove("if-none-match"),
            _ => {}
        }
        match self.draw() {
            Fate::InternalError => {
                return refuse(&mut client, "500 Internal Server Error", "InternalError");
            }
            Fate::SlowDown => return refuse(&mut client, "503 Slow Down", "SlowDown"),
            Fate::Delayed => thread::sleep(Duration::from_millis(100)),
            Fate::CutRequest => {
                let mut server = TcpStream::connect(self.server)?;
                server.write_all(&request.bytes())?;
                server.write_all(&body[..body.len() / 2])?;
                server.shutdown(Shutdown::Both)?;
                return client.shutdown(Shutdown::Both);
            }
            fate => return self.forward(&mut client, request, &body, fate),
        }
        self.forward(&mut client, request, &body, Fate::Passed)
    }

    /// Hands the request to the server, and as much of the answer to the client as `fate` wants.
    fn forward(
        &self,
        client: &mut TcpStream,
        mut request: Head,
        body: &[u8],
        fate: Fate,
    ) -> io::Result<()> {
        request.set("Connection", "close");
        let mut server = TcpStream::connect(self.server)?;
        server.write_all(&[&request.bytes()[..], body].concat())?;
        let mut from_server = BufReader::new(server);
        let Some(mut answer) = Head::read(&mut from_server)? else {
            return client.shutdown(Shutdown::Both);
        };
        // The answer to HEAD says how long the object is, and has no body.
        let body = match request.lines[0].starts_with("HEAD ") {
            true => Vec::new(),
            false => answer.read_body(&mut from_server)?,
        };
        answer.set("Connection", "close");
        let whole = [answer.bytes(), body].concat();
        let sent = match fate {
            Fate::LostAnswer => 0,
            Fate::CutAnswer => whole.len() - (whole.len() / 3).max(1),
            _ => whole.len(),
        };
        client.write_all(&whole[..sent])?;
        client.shutdown(Shutdown::Both)
    }

    fn ahead(&self) -> MutexGuard<'_, Option<Ahead>> {
        self.ahead.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The outage in which the request at hand falls.
    fn outage(&self) -> Option<Outage> {
        let mut ahead = self.ahead();
        let Ahead { outage, answered } = ahead.as_mut()?;
        if *answered > 0 {
            *answered -= 1;
            return None;
        }
        Some(*outage)
    }

    fn leave_undone(&self, outage: Outage, client: &mut TcpStream) -> io::Result<()> {
        self.unanswered.fetch_add(1, Ordering::SeqCst);
        match outage {
            Outage::Gone => client.shutdown(Shutdown::Both),
            Outage::Unavailable => refuse(client, "503 Slow Down", "SlowDown"),
            Outage::Silent => {
                while !self.over.load(Ordering::Relaxed) {
                    thread::sleep(Duration::from_millis(50));
                }
                Ok(())
            }
        }
    }

    fn draw(&self) -> Fate {
        let mut fates = self.fates.lock().unwrap_or_else(PoisonError::into_inner);
        let fate = self.mishaps.fate(fates.values().sum());
        *fates.entry(fate).or_default() += 1;
        fate
    }
}

fn refuse(client: &mut TcpStream, status: &str, code: &str) -> io::Result<()> {
    let body = format!("<Error><Code>{code}</Code><Message>by the proxy</Message></Error>");
    write!(
        client,
        "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )?;
    client.shutdown(Shutdown::Both)
}
