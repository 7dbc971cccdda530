//! The simulated line, between a client and a server of this file.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use onefold_testkit::line::{Fault, Faults, Line, Request, Shape};

/// Answers `GET …/N` with N bytes and `PUT` with the length of what came, and counts requests.
struct Server {
    address: SocketAddr,
    requests: Arc<AtomicU64>,
}

impl Server {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&requests);
        thread::spawn(move || {
            for client in listener.incoming() {
                let requests = Arc::clone(&counted);
                thread::spawn(move || answer(client.unwrap(), &requests));
            }
        });
        Self { address, requests }
    }

    fn requests(&self) -> u64 {
        self.requests.load(Ordering::SeqCst)
    }
}

/// The end of a connection ends its thread, whichever way it comes.
fn answer(client: TcpStream, requests: &AtomicU64) -> io::Result<()> {
    let mut from = BufReader::new(client.try_clone()?);
    let mut to = client;
    while let Some((line, len)) = read_head(&mut from)? {
        requests.fetch_add(1, Ordering::SeqCst);
        let mut body = vec![0; len];
        from.read_exact(&mut body)?;
        let answer = match line.strip_prefix("GET ") {
            Some(rest) => content(rest.split([' ', '?']).next().unwrap()),
            None => len.to_string().into_bytes(),
        };
        to.write_all(
            format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", answer.len()).as_bytes(),
        )?;
        to.write_all(&answer)?;
    }
    Ok(())
}

/// What the server has at a path that ends in its length.
fn content(path: &str) -> Vec<u8> {
    let len: usize = path.rsplit('/').next().unwrap().parse().unwrap_or(0);
    (0..len).map(|at| (at * 31 + at / 256) as u8).collect()
}

/// The first line and the length of the body; `None` at the end of the connection.
fn read_head(from: &mut impl BufRead) -> io::Result<Option<(String, usize)>> {
    let (mut first, mut len) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if from.read_line(&mut line)? == 0 {
            return if first.is_empty() {
                Ok(None)
            } else {
                Err(io::ErrorKind::UnexpectedEof.into())
            };
        }
        match line.trim_end() {
            "" => return Ok(Some((first, len))),
            line if first.is_empty() => first = line.to_owned(),
            line => {
                if let Some(value) = line.strip_prefix("Content-Length: ") {
                    len = value.parse().unwrap();
                }
            }
        }
    }
}

/// A client with one connection.
struct Client {
    from: BufReader<TcpStream>,
}

impl Client {
    fn of(line: &Line) -> Self {
        let stream = TcpStream::connect(line.address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        Self { from: BufReader::new(stream) }
    }

    /// Sends a request; the first line and the body of the answer.
    fn ask(&mut self, method: &str, path: &str, body: &[u8]) -> io::Result<(String, Vec<u8>)> {
        let len = body.len();
        let head = format!("{method} {path} HTTP/1.1\r\nContent-Length: {len}\r\n\r\n");
        self.from.get_mut().write_all(&[head.as_bytes(), body].concat())?;
        self.answer()
    }

    fn get(&mut self, path: &str) -> io::Result<(String, Vec<u8>)> {
        self.ask("GET", path, b"")
    }

    fn answer(&mut self) -> io::Result<(String, Vec<u8>)> {
        let head = read_head(&mut self.from)?;
        let (status, len) = head.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?;
        let mut body = vec![0; len];
        self.from.read_exact(&mut body)?;
        Ok((status, body))
    }
}

fn line_to(server: &Server) -> Line {
    let shape = Shape { repository_depth: 2, ..Shape::default() };
    Line::start(server.address, shape).unwrap()
}

const OK: &str = "HTTP/1.1 200 OK";

#[test]
fn bodies_arrive_unchanged_and_are_counted_to_the_byte() {
    let server = Server::start();
    let line = line_to(&server);
    let mut client = Client::of(&line);
    let sent = vec![7; 300_000];
    for len in [0, 1, 65_535, 65_536, 1_000_000] {
        let path = format!("/bucket/of/containers/{len}");
        assert_eq!(client.get(&path).unwrap(), (OK.into(), content(&path)));
        let answer = client.ask("PUT", "/bucket/of/snapshots/x", &sent).unwrap();
        assert_eq!(answer, (OK.into(), b"300000".to_vec()));
    }
    let traffic = line.take_traffic();
    let heads = |get: usize| format!("HTTP/1.1 200 OK\r\nContent-Length: {get}\r\n\r\n").len();
    let received: usize =
        [0, 1, 65_535, 65_536, 1_000_000].iter().map(|len| heads(*len) + len + heads(6) + 6).sum();
    assert_eq!(traffic.received_bytes, received as u64);
    assert!((1_500_000..1_501_000).contains(&traffic.sent_bytes), "{traffic:?}");
    let of = |method: &str, folder: &str| {
        traffic.requests[&Request { method: method.into(), folder: folder.into() }]
    };
    assert_eq!((of("GET", "containers"), of("PUT", "snapshots")), (5, 5));
    assert_eq!((traffic.connections, traffic.request_count(), traffic.peak_under_way), (1, 10, 1));
    assert_eq!(line.take_traffic().request_count(), 0);
}

#[test]
fn each_round_trip_takes_the_latency_and_so_does_a_connection() {
    let server = Server::start();
    let one_way = Duration::from_millis(30);
    let line = Line::start(server.address, Shape { one_way, ..Shape::default() }).unwrap();
    let start = Instant::now();
    let mut client = Client::of(&line);
    for _ in 0..3 {
        client.get("/bucket/10").unwrap();
    }
    assert!(start.elapsed() >= 8 * one_way, "{:?}", start.elapsed());
}

#[test]
fn latency_costs_a_long_body_no_bandwidth() {
    let server = Server::start();
    let one_way = Duration::from_millis(100);
    let line = Line::start(server.address, Shape { one_way, ..Shape::default() }).unwrap();
    let mut client = Client::of(&line);
    let start = Instant::now();
    client.get("/bucket/20000000").unwrap();
    // In pieces of 64 KiB, one after the other, this would take half a minute.
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
}

#[test]
fn connections_share_the_bandwidth_of_each_direction() {
    let server = Server::start();
    let shape = Shape { bytes_per_second: Some(10_000_000), ..Shape::default() };
    let line = Line::start(server.address, shape).unwrap();
    let start = Instant::now();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| Client::of(&line).get("/bucket/500000").unwrap());
        }
    });
    let down = start.elapsed();
    assert!(down >= Duration::from_millis(190), "{down:?}");
    let start = Instant::now();
    Client::of(&line).ask("PUT", "/bucket/x", &vec![0; 2_000_000]).unwrap();
    assert!(start.elapsed() >= Duration::from_millis(190), "{:?}", start.elapsed());
}

#[test]
fn a_stalled_answer_comes_late_and_whole() {
    let server = Server::start();
    let line = line_to(&server);
    let stall = Duration::from_millis(300);
    line.set_faults(Faults { stalled: 1.0, stall, ..Faults::default() });
    let mut client = Client::of(&line);
    let start = Instant::now();
    assert_eq!(client.get("/bucket/1000").unwrap().1, content("/1000"));
    assert!(start.elapsed() >= stall, "{:?}", start.elapsed());
    assert_eq!(line.take_traffic().faults[&Fault::Stall], 1);
}

#[test]
fn a_cut_answer_ends_in_the_middle() {
    let server = Server::start();
    let line = line_to(&server);
    line.set_faults(Faults { cut: 1.0, ..Faults::default() });
    let mut client = Client::of(&line);
    client.from.get_mut().write_all(b"GET /bucket/200000 HTTP/1.1\r\n\r\n").unwrap();
    assert_eq!(read_head(&mut client.from).unwrap(), Some((OK.into(), 200_000)));
    let mut body = Vec::new();
    client.from.read_to_end(&mut body).unwrap();
    assert_eq!(body, content("/200000")[..100_000]);

    // Without a body the head is cut.
    let mut client = Client::of(&line);
    client.from.get_mut().write_all(b"GET /bucket/0 HTTP/1.1\r\n\r\n").unwrap();
    assert!(read_head(&mut client.from).is_err());
    assert_eq!(server.requests(), 2);
    assert_eq!(line.take_traffic().faults[&Fault::Cut], 2);
}

#[test]
fn a_reset_connection_fails_as_such_and_the_server_sees_no_request() {
    let server = Server::start();
    let line = line_to(&server);
    line.set_faults(Faults { reset: 1.0, ..Faults::default() });
    for body in [0, 10_000_000] {
        let error = Client::of(&line).ask("PUT", "/bucket/x", &vec![0; body]).unwrap_err();
        let kinds = [io::ErrorKind::ConnectionReset, io::ErrorKind::BrokenPipe];
        assert!(kinds.contains(&error.kind()), "{error:?}");
    }
    let error = Client::of(&line).get("/bucket/1").unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    assert_eq!(server.requests(), 0);
}

#[test]
fn a_refused_request_is_answered_503_and_the_connection_goes_on() {
    let server = Server::start();
    let line = line_to(&server);
    let mut client = Client::of(&line);
    line.set_faults(Faults { refused: 1.0, ..Faults::default() });
    for method in ["GET", "PUT"] {
        let (status, body) = client.ask(method, "/bucket/of/x/1", &[1; 100_000]).unwrap();
        assert_eq!(status, "HTTP/1.1 503 Slow Down");
        assert!(String::from_utf8(body).unwrap().contains("<Code>SlowDown</Code>"));
    }
    assert_eq!(server.requests(), 0);
    line.set_faults(Faults::default());
    assert_eq!(client.get("/bucket/of/x/5").unwrap(), (OK.into(), content("/5")));
    assert_eq!(line.take_traffic().connections, 1);
}

#[test]
fn a_refused_client_that_waits_with_its_body_is_answered_at_once() {
    let server = Server::start();
    let line = line_to(&server);
    line.set_faults(Faults { refused: 1.0, ..Faults::default() });
    let mut client = Client::of(&line);
    let head = b"PUT /bucket/x HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n";
    client.from.get_mut().write_all(head).unwrap();
    assert_eq!(client.answer().unwrap().0, "HTTP/1.1 503 Slow Down");
    assert_eq!(client.from.read(&mut [0]).unwrap(), 0, "the connection goes on");
}

#[test]
fn a_silent_line_keeps_connections_and_delivers_once_it_is_back() {
    let server = Server::start();
    let line = line_to(&server);
    let mut client = Client::of(&line);
    client.get("/bucket/5").unwrap();
    line.go_silent();
    client.from.get_mut().set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let error = client.get("/bucket/7").unwrap_err();
    assert!(
        matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut),
        "{error:?}"
    );
    let mut new = Client::of(&line);
    new.from.get_mut().write_all(b"GET /bucket/9 HTTP/1.1\r\n\r\n").unwrap();
    line.come_back().unwrap();
    client.from.get_mut().set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    assert_eq!(client.answer().unwrap().1, content("/7"));
    assert_eq!(new.answer().unwrap().1, content("/9"));
}

#[test]
fn a_line_that_vanished_refuses_and_comes_back_at_the_same_address() {
    let server = Server::start();
    let line = line_to(&server);
    let mut client = Client::of(&line);
    client.get("/bucket/5").unwrap();
    for silent_before in [false, true] {
        if silent_before {
            line.go_silent();
        }
        line.vanish();
        assert!(client.get("/bucket/5").is_err(), "the connection is still there");
        let refused = TcpStream::connect(line.address()).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        line.come_back().unwrap();
        client = Client::of(&line);
        assert_eq!(client.get("/bucket/6").unwrap().1, content("/6"));
    }
}

#[test]
fn requests_under_way_are_counted_until_their_answers_arrive() {
    let server = Server::start();
    let one_way = Duration::from_millis(50);
    let line = Line::start(server.address, Shape { one_way, ..Shape::default() }).unwrap();
    let clients: Vec<Client> = (0..5).map(|_| Client::of(&line)).collect();
    thread::scope(|scope| {
        for mut client in clients {
            scope.spawn(move || (0..2).for_each(|_| drop(client.get("/bucket/9").unwrap())));
        }
    });
    let traffic = line.take_traffic();
    assert_eq!((traffic.peak_under_way, traffic.request_count(), traffic.connections), (5, 10, 5));
}

#[test]
fn a_line_to_no_server_ends_connections() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let line = Line::start(address, Shape::default()).unwrap();
    assert!(Client::of(&line).get("/bucket/1").is_err());
    assert_eq!(line.take_traffic().connections, 1);
}
