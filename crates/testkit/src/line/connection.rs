//! One connection of a client, forwarded message by message.

use std::io::{self, BufReader, Read};
use std::net::TcpStream;
use std::sync::{Arc, PoisonError};
use std::thread;

use super::exchange::{Exchange, Exchanges};
use super::gate::Ends;
use super::message::{Body, Head};
use super::wire::{Direction, Wire, wire};
use super::{Fault, Shared};

/// Bytes that are read at once.
const PIECE: usize = 1 << 16;

pub(super) struct Connection {
    ends: Arc<Ends>,
    exchanges: Exchanges,
    shared: Arc<Shared>,
}

/// Whether a connection can carry another request.
#[derive(PartialEq, Eq)]
enum Next {
    Request,
    Nothing,
}

impl Connection {
    /// # Errors
    /// Fails if the server does not listen or the line has vanished.
    pub(super) fn open(client: TcpStream, shared: Arc<Shared>) -> io::Result<Self> {
        let server = TcpStream::connect(shared.server)?;
        for end in [&client, &server] {
            end.set_nodelay(true)?;
        }
        let ends = Arc::new(Ends::new(client, server));
        if !shared.gate.register(&ends) {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        Ok(Self { ends, exchanges: Exchanges::new(Arc::clone(&shared)), shared })
    }

    /// Forwards requests and answers until one side or the line ends the connection.
    pub(super) fn run(self) {
        let (up, up_arrivals) = wire(Direction::Up, &self.shared);
        let (down, down_arrivals) = wire(Direction::Down, &self.shared);
        let refusals = down.clone();
        thread::scope(|scope| {
            scope.spawn(|| up_arrivals.deliver(&self.ends, &self.exchanges));
            scope.spawn(|| down_arrivals.deliver(&self.ends, &self.exchanges));
            // Wires move into their readers, so that deliveries end after the last reader.
            scope.spawn(|| {
                let down = down;
                // Whether the server ended in order or not, the client sees the end of its answers.
                // `close` fails only if the client is gone.
                let _ = self.forward_answers(&down);
                let _ = down.close();
            });
            scope.spawn(|| {
                let (up, refusals) = (up, refusals);
                // The same for the server and its requests.
                let _ = self.forward_requests(&up, &refusals);
                let _ = up.shutdown();
            });
        });
    }

    fn forward_requests(&self, up: &Wire, down: &Wire) -> io::Result<()> {
        let mut from = BufReader::with_capacity(PIECE, &self.ends.client);
        while let Some(head) = Head::read(&mut from)? {
            let exchange = self.exchanges.begin(&head);
            match exchange.fault {
                Some(Fault::Reset) => {
                    thread::sleep(2 * self.shared.shape.one_way);
                    self.ends.reset();
                    break;
                }
                Some(Fault::Refusal) => {
                    if self.refuse(&exchange, &head, &mut from, [up, down])? == Next::Nothing {
                        break;
                    }
                }
                _ => {
                    self.exchanges.await_answer(exchange);
                    up.send(&head.bytes())?;
                    head.request_body()?.pump(&mut from, |piece| up.send(piece))?;
                }
            }
        }
        Ok(())
    }

    /// Answers 503 in the place of the server.
    fn refuse(
        &self,
        exchange: &Exchange,
        head: &Head,
        from: &mut BufReader<impl Read>,
        [up, down]: [&Wire; 2],
    ) -> io::Result<Next> {
        up.occupy(head.bytes().len());
        // A client that waits for the word to send its body never sends it.
        let keeps_body = head.expects_continue();
        if !keeps_body {
            head.request_body()?.pump(from, |piece| {
                up.occupy(piece.len());
                Ok(())
            })?;
        }
        thread::sleep(self.shared.shape.one_way);
        down.send(&refusal(&exchange.method, keeps_body))?;
        down.end_answer(exchange.number)?;
        if keeps_body {
            down.close()?;
            return Ok(Next::Nothing);
        }
        Ok(Next::Request)
    }

    fn forward_answers(&self, down: &Wire) -> io::Result<()> {
        let mut from = BufReader::with_capacity(PIECE, &self.ends.server);
        while let Some(head) = Head::read(&mut from)? {
            if head.is_interim() {
                down.send(&head.bytes())?;
                continue;
            }
            let Some(exchange) = self.exchanges.next_answered() else {
                // The server ends an idle connection with a word that belongs to no request.
                return down.send(&head.bytes());
            };
            let body = head.answer_body(&exchange.method)?;
            match exchange.fault {
                Some(Fault::Cut) => return cut(&head, body, &mut from, down),
                Some(Fault::Stall) => thread::sleep(self.stall()),
                _ => {}
            }
            down.send(&head.bytes())?;
            body.pump(&mut from, |piece| down.send(piece))?;
            down.end_answer(exchange.number)?;
        }
        Ok(())
    }

    fn stall(&self) -> std::time::Duration {
        self.shared.faults.lock().unwrap_or_else(PoisonError::into_inner).stall
    }
}

/// Sends the first half of a body, or of the head where there is no body.
fn cut(head: &Head, body: Body, from: &mut BufReader<impl Read>, down: &Wire) -> io::Result<()> {
    let bytes = head.bytes();
    match body {
        Body::Sized(0) => down.send(&bytes[..bytes.len() / 2]),
        Body::Sized(len) => {
            down.send(&bytes)?;
            Body::Sized(len / 2).pump(from, |piece| down.send(piece))
        }
        // Nobody knows yet where the middle is.
        Body::Chunked | Body::UntilEnd => {
            down.send(&bytes)?;
            Body::Sized(1).pump(from, |piece| down.send(piece))
        }
    }
}

fn refusal(method: &str, ends_connection: bool) -> Vec<u8> {
    let body = "<Error><Code>SlowDown</Code><Message>refused by the line</Message></Error>";
    let connection = if ends_connection { "close" } else { "keep-alive" };
    let head = format!(
        "HTTP/1.1 503 Slow Down\r\nContent-Type: application/xml\r\nContent-Length: {}\r\n\
         Connection: {connection}\r\n\r\n",
        body.len()
    );
    let body = if method == "HEAD" { "" } else { body };
    (head + body).into_bytes()
}
