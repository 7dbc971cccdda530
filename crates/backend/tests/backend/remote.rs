//! Objects in a real S3 server, over a way that is reliable and over one that is not.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::num::NonZero;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use onefold_backend::{
    BackendError, BucketLocation, ErrorKind, Objects, RateLimit, RemoteObjects, RemoteOptions,
    Request, RetryPolicy, Retrying, Span,
};
use onefold_testkit::random;
use onefold_testkit::s3::{Fate, Mishaps, Outage, Proxy, Rules, S3Server};

use crate::places::{MISHAPS, NO_MISHAPS, POLICY, conform, conform_over_mishaps};

/// A bucket's part at `url`, of which no other test knows.
fn open_at(url: &str, prefix: &str, conditional_put: bool) -> RemoteObjects {
    let location = BucketLocation::parse(&format!("s3://bucket/{prefix}")).unwrap();
    RemoteObjects::open(&location, &options(url, conditional_put)).unwrap()
}

fn options(url: &str, conditional_put: bool) -> RemoteOptions {
    let setting = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let settings =
        vec![setting("AWS_ACCESS_KEY_ID", "test"), setting("AWS_SECRET_ACCESS_KEY", "swordfish")];
    RemoteOptions {
        endpoint: Some(url.to_owned()),
        conditional_put,
        settings,
        ..RemoteOptions::from_environment()
    }
}

/// Runs a test with the server, one test at a time.
fn with_server(test: impl FnOnce(&S3Server)) {
    static SERVER: LazyLock<Mutex<Option<S3Server>>> =
        LazyLock::new(|| Mutex::new(S3Server::start()));
    let server = SERVER.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(server) = &*server {
        test(server);
    }
}

#[test]
fn remote_objects_conform() {
    with_server(|server| {
        conform(|prefix| open_at(&server.url(), prefix, true));
    });
}

#[test]
fn objects_conform_over_a_way_that_loses_every_fourth_request() {
    with_server(|server| {
        let proxy = Proxy::start(server.address(), Rules::Conditions, MISHAPS);
        conform_over_mishaps(&proxy, |prefix| open_at(&proxy.url(), prefix, true));
    });
}

#[test]
fn each_mishap_is_told_as_what_may_pass() {
    with_server(|server| {
        let proxy =
            Proxy::start(server.address(), Rules::Conditions, Mishaps { seed: 6, one_in: 1 });
        let remote = open_at(&proxy.url(), "mishaps", true);
        let before = open_at(&server.url(), "mishaps", true);
        before.put("a", Bytes::from(vec![1; 50_000])).unwrap();
        for number in 0..40 {
            let results = [
                remote.get("a").map(|bytes| assert_eq!(bytes, vec![1; 50_000])),
                remote.put(&format!("b{number}"), Bytes::from(vec![2; 50_000])),
                remote.list("").map(|_| ()),
            ];
            for error in results.into_iter().filter_map(Result::err) {
                assert!(error.may_retry(), "{error:?}");
                assert!(error.to_string().contains(&proxy.url()), "{error}");
            }
        }
        let fates = proxy.fates();
        assert_eq!(fates.len(), Fate::MISHAPS.len(), "{fates:?}");
    });
}

#[test]
fn a_server_that_puts_over_what_is_there_is_refused() {
    with_server(|server| {
        for (rules, prefix) in
            [(Rules::NoConditions, "careless"), (Rules::RefusedConditions, "unable")]
        {
            let proxy = Proxy::start(server.address(), rules, NO_MISHAPS);
            let remote = open_at(&proxy.url(), prefix, true);
            for _ in 0..2 {
                let error = remote.put("a", "1".into()).unwrap_err();
                assert!(matches!(error, BackendError::NoConditionalPut { .. }), "{error:?}");
                assert!(!error.may_retry());
            }
            assert!(remote.list("").unwrap().is_empty(), "nothing was put but the probe");

            let unconditional = open_at(&proxy.url(), prefix, false);
            unconditional.put("a", "1".into()).unwrap();
            unconditional.put("a", "1".into()).unwrap();
            let error = unconditional.put("a", "2".into()).unwrap_err();
            assert!(matches!(error, BackendError::AlreadyExists { .. }), "{error:?}");
            assert_eq!(unconditional.get("a").unwrap(), "1");
        }
    });
}

#[test]
fn listings_of_many_pages_are_whole() {
    with_server(|server| {
        // The server gives a thousand names a page.
        let remote = open_at(&server.url(), "many", true);
        let names: Vec<String> = (0..1_100).map(|number| format!("a/{number:04}")).collect();
        std::thread::scope(|scope| {
            for part in names.chunks(names.len() / 8) {
                let remote = &remote;
                scope.spawn(move || {
                    for name in part {
                        remote.put(name, Bytes::from(name.clone())).unwrap();
                    }
                });
            }
        });
        remote.put("b", "1".into()).unwrap();
        let listed: Vec<String> =
            remote.list("a/").unwrap().into_iter().map(|object| object.name).collect();
        assert_eq!(listed, names);
        assert_eq!(remote.list("").unwrap().len(), names.len() + 1);
    });
}

#[test]
fn repositories_in_one_bucket_do_not_see_each_other() {
    with_server(|server| {
        let outer = open_at(&server.url(), "near", true);
        let beside = open_at(&server.url(), "nearby", true);
        beside.put("a", "1".into()).unwrap();
        assert!(outer.list("").unwrap().is_empty());
        assert!(outer.get("a").unwrap_err().is_not_found());
        outer.put("a", "2".into()).unwrap();
        outer.delete("a").unwrap();
        assert_eq!(beside.get("a").unwrap(), "1");
    });
}

#[test]
fn what_is_wrong_with_the_bucket_is_said() {
    with_server(|server| {
        let location = BucketLocation::parse("s3://absent/a").unwrap();
        let options = options(&server.url(), true);
        let remote = RemoteObjects::open(&location, &options).unwrap();
        for error in [remote.put("a", "1".into()).unwrap_err(), remote.list("").unwrap_err()] {
            let text = format!("{error}: {}", std::error::Error::source(&error).unwrap());
            assert!(text.contains("s3://absent/a at http://127.0.0.1"), "{text}");
            assert!(text.contains("NoSuchBucket"), "{text}");
            assert!(!error.may_retry());
        }
    });
}

#[test]
fn a_service_that_is_not_there_may_be_there_later() {
    // Nothing listens on a port that was free a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let remote = open_at(&format!("http://127.0.0.1:{port}"), "a", true);
    let error = remote.get("a").unwrap_err();
    assert!(error.may_retry(), "{error:?}");
}

#[test]
fn secrets_are_not_shown() {
    let shown = format!("{:?}", options("http://localhost", true));
    assert!(shown.contains("AWS_SECRET_ACCESS_KEY") && !shown.contains("swordfish"), "{shown}");
}

#[test]
fn a_profile_is_not_silently_passed_over() {
    let location = BucketLocation::parse("s3://bucket").unwrap();
    let mut options = options("http://localhost", true);
    options.settings.push(("AWS_PROFILE".into(), "work".into()));
    RemoteObjects::open(&location, &options).unwrap();
    options.settings.retain(|(name, _)| name == "AWS_PROFILE");
    let error = RemoteObjects::open(&location, &options).unwrap_err();
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert!(cause.contains("AWS_PROFILE names a profile") && !error.may_retry(), "{cause}");
}

/// A server of one bucket that takes and gives `size` bytes with pauses, or stops in the middle.
struct SlowServer {
    address: SocketAddr,
}

impl SlowServer {
    const LEN: usize = 24 << 20;

    /// Bodies pass in steps, with a pause after each; half-way nothing more passes if it `stalls`.
    fn start(stalls: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        // It ends with the test's process.
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                // The client may have given up.
                thread::spawn(move || drop(Self::serve(client, stalls)));
            }
        });
        Self { address }
    }

    fn serve(mut client: TcpStream, stalls: bool) -> io::Result<()> {
        let mut from_client = BufReader::new(client.try_clone()?);
        let mut head = String::new();
        while from_client.read_line(&mut head)? > 2 {}
        let step = vec![7; Self::LEN / 20];
        let pass = |pass: &mut dyn FnMut() -> io::Result<()>| -> io::Result<()> {
            for number in 0..20 {
                if stalls && number == 10 {
                    thread::sleep(Duration::from_secs(30));
                }
                pass()?;
                thread::sleep(Duration::from_millis(200));
            }
            Ok(())
        };
        let found = "HTTP/1.1 200 OK\r\nETag: \"1\"\r\nConnection: close\r\n\
                     Last-Modified: Wed, 21 Oct 2015 07:28:00 GMT\r\n";
        match head.split(' ').next() {
            Some("PUT") => {
                let mut taken = step.clone();
                pass(&mut || from_client.read_exact(&mut taken))?;
                write!(client, "{found}Content-Length: 0\r\n\r\n")
            }
            Some("GET") => {
                write!(client, "{found}Content-Length: {}\r\n\r\n", 20 * step.len())?;
                pass(&mut || client.write_all(&step))
            }
            _ => write!(client, "HTTP/1.1 404 Not Found\r\nConnection: close\r\n\r\n"),
        }
    }

    fn open(&self) -> RemoteObjects {
        let location = BucketLocation::parse("s3://bucket/slow").unwrap();
        let options = options(&format!("http://{}", self.address), false);
        RemoteObjects::open(&location, &RemoteOptions { silence: SILENCE, ..options }).unwrap()
    }
}

const SILENCE: Duration = Duration::from_millis(1_500);

#[test]
fn a_request_may_last_longer_than_the_silence_that_ends_it() {
    let objects = SlowServer::start(false).open();
    let bytes = Bytes::from(vec![7; SlowServer::LEN / 20 * 20]);
    for work in
        [&(|| objects.put("a", bytes.clone())) as &dyn Fn() -> Result<(), BackendError>, &|| {
            objects.get("a").map(|found| assert_eq!(found, bytes))
        }]
    {
        let start = Instant::now();
        work().unwrap();
        assert!(start.elapsed() > 2 * SILENCE, "{:?}", start.elapsed());
    }
}

#[test]
fn a_request_that_stalls_fails_after_the_silence() {
    let objects = SlowServer::start(true).open();
    let bytes = Bytes::from(vec![7; SlowServer::LEN / 20 * 20]);
    for error in [objects.put("a", bytes).unwrap_err(), objects.get("a").unwrap_err()] {
        assert!(error.may_retry(), "{error:?}");
        assert_eq!(error.kind(), ErrorKind::Unreachable);
        let causes = std::iter::successors(error.source(), |&error| error.source());
        let texts: Vec<_> = causes.map(ToString::to_string).collect();
        assert!(
            texts.iter().any(|text| text.contains("no byte came or went for 1.5 s")),
            "{texts:?}"
        );
    }
}

#[test]
fn a_limit_is_kept_by_all_requests_together_and_is_no_silence() {
    const LEN: usize = 8_000;
    const COUNT: usize = 40;
    with_server(|server| {
        // Of 80,000 bytes a second a request gets 5,000 at a time, every two and a half seconds.
        let rate = NonZero::new(LEN as u64 * COUNT as u64 / 4).unwrap();
        let location = BucketLocation::parse("s3://bucket/limited").unwrap();
        let limited = RemoteOptions {
            upload_limit: Some(RateLimit::new(rate)),
            download_limit: Some(RateLimit::new(rate)),
            silence: Duration::from_secs(2),
            ..options(&server.url(), true)
        };
        let objects = RemoteObjects::open(&location, &limited).unwrap();
        let all = |work: &(dyn Fn(&str) -> Result<(), BackendError> + Sync)| {
            let start = Instant::now();
            thread::scope(|scope| {
                for number in 0..COUNT {
                    scope.spawn(move || work(&format!("a{number}")).unwrap());
                }
            });
            start.elapsed()
        };
        let bytes = Bytes::from(vec![9; LEN]);
        // What may pass at once after a pause is a tenth of what passes in a second.
        let least = Duration::from_millis(3_900);
        let sent = all(&|name| objects.put(name, bytes.clone()));
        assert!(sent >= least, "{sent:?}");
        let received = all(&|name| objects.get(name).map(|found| assert_eq!(found, bytes)));
        assert!(received >= least, "{received:?}");
    });
}

#[test]
fn requests_and_their_bytes_are_counted() {
    with_server(|server| {
        let options = options(&server.url(), true);
        let usage = options.usage.clone();
        let location = BucketLocation::parse("s3://bucket/counted").unwrap();
        let objects = RemoteObjects::open(&location, &options).unwrap();
        objects.put("a", Bytes::from(vec![9; 100_000])).unwrap();
        objects.get("a").unwrap();
        objects.get_range("a", 0..50_000).unwrap();
        objects.size("a").unwrap();
        objects.list("").unwrap();
        objects.delete("a").unwrap();
        let counted = usage.requests();
        let kinds = [counted.get, counted.head, counted.list, counted.put, counted.delete];
        // The probe is put twice.
        assert_eq!(kinds, [2, 1, 1, 3, 1]);
        assert_eq!((counted.multipart, counted.retries), (0, 0));
        for (bytes, bodies) in [(counted.sent_bytes, 100_000), (counted.received_bytes, 150_000)] {
            assert!(bytes > bodies && bytes < bodies + 20_000, "{counted:?}");
        }
    });
}

#[test]
fn a_request_under_way_is_broken_off_when_that_is_asked_for() {
    let server = SlowServer::start(true);
    let location = BucketLocation::parse("s3://bucket/slow").unwrap();
    let options = options(&format!("http://{}", server.address), false);
    let stop = options.stop.clone();
    let objects = RemoteObjects::open(&location, &options).unwrap();
    let start = Instant::now();
    thread::scope(|scope| {
        let one = scope.spawn(|| objects.get("a").map(drop));
        let many = scope.spawn(|| {
            let request = Request { name: "a".into(), span: Span::Whole { max: u64::MAX } };
            let mut kinds = Vec::new();
            let flow = objects.get_many(&mut std::iter::repeat_n(request, 3), &mut |_, answer| {
                kinds.push(answer.unwrap_err().kind());
                ControlFlow::Continue(())
            });
            assert!(flow.is_continue());
            kinds
        });
        thread::sleep(Duration::from_millis(300));
        stop.ask(Duration::from_millis(200));
        let error = one.join().unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Interrupted, "{error:?}");
        assert_eq!(many.join().unwrap(), [ErrorKind::Interrupted; 3]);
    });
    let took = start.elapsed();
    assert!(took >= Duration::from_millis(500) && took < Duration::from_secs(9), "{took:?}");
    // A later request is not made.
    assert_eq!(objects.size("a").unwrap_err().kind(), ErrorKind::Interrupted);
}

/// A server of objects whose content is their path, that leaves the first requests for some alone.
struct StallingServer {
    address: SocketAddr,
    /// How many requests came for each path.
    came: Arc<Mutex<BTreeMap<String, u64>>>,
}

/// Of the request for a path that has this number: after how many bytes of its answer's body the server
/// stalls, before the answer begins with 0, or not.
type Stalls = dyn Fn(&str, u64) -> Option<usize> + Send + Sync;

impl StallingServer {
    fn start(stalls: impl Fn(&str, u64) -> Option<usize> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let came = Arc::<Mutex<BTreeMap<String, u64>>>::default();
        let (counts, stalls) = (Arc::clone(&came), Arc::new(stalls));
        // It ends with the test's process.
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let (counts, stalls) = (Arc::clone(&counts), Arc::clone(&stalls));
                thread::spawn(move || {
                    let count = |path: &str| {
                        let mut counts = counts.lock().unwrap();
                        let count = counts.entry(path.to_owned()).or_default();
                        *count += 1;
                        *count
                    };
                    // The client may have given up.
                    drop(Self::serve(client, &count, &*stalls));
                });
            }
        });
        Self { address, came }
    }

    fn serve(
        mut client: TcpStream,
        count: &dyn Fn(&str) -> u64,
        stalls: &Stalls,
    ) -> io::Result<()> {
        let mut head = String::new();
        let mut from_client = BufReader::new(client.try_clone()?);
        while from_client.read_line(&mut head)? > 2 {}
        let path = head.split(' ').nth(1).unwrap_or_default();
        let stalls = stalls(path, count(path));
        if stalls == Some(0) {
            thread::sleep(STALL);
        }
        let value = |name| head.lines().find_map(|line: &str| line.strip_prefix(name));
        let len = path.len();
        let (first, status) = match value("range: bytes=").and_then(|range| range.split_once('-')) {
            Some((first, _)) => {
                assert_eq!(value("if-match: "), Some("\"1\""), "{head}");
                let status =
                    format!("206 Partial\r\nContent-Range: bytes {first}-{}/{len}", len - 1);
                (first.parse().unwrap(), status)
            }
            None => (0, "200 OK".to_owned()),
        };
        let body = &path[first..];
        let headers = "ETag: \"1\"\r\nConnection: close\r\n\
                       Last-Modified: Wed, 21 Oct 2015 07:28:00 GMT\r\n";
        let head = format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\n\r\n", body.len());
        let (now, later) = body.split_at(stalls.unwrap_or(body.len()));
        write!(client, "{head}{now}")?;
        if stalls.is_some() {
            thread::sleep(STALL);
        }
        write!(client, "{later}")
    }

    fn options(&self) -> RemoteOptions {
        options(&format!("http://{}", self.address), true)
    }

    fn count(&self, number: usize) -> u64 {
        self.came.lock().unwrap()[&format!("/bucket/stalls/a{number}")]
    }
}

/// Longer than a test on a busy machine takes.
const STALL: Duration = Duration::from_secs(120);

/// Reads `count` objects together, each of which must come.
fn read_many(options: &RemoteOptions, count: usize) {
    let location = BucketLocation::parse("s3://bucket/stalls").unwrap();
    let objects = RemoteObjects::open(&location, options).unwrap();
    let request =
        |number| Request { name: format!("a{number}"), span: Span::Whole { max: u64::MAX } };
    let mut came = 0;
    let flow = objects.get_many(&mut (0..count).map(request), &mut |at, answer| {
        assert_eq!(answer.unwrap(), format!("/bucket/stalls/a{at}"));
        came += 1;
        ControlFlow::Continue(())
    });
    assert!(flow.is_continue() && came == count);
}

/// Reads many objects of which a few stall after so many bytes.
fn read_while_a_few_stall(stall: usize) {
    let is_stalled = |number: usize| [40, 77, 195].contains(&number);
    let server = StallingServer::start(move |path, count| {
        let number = path.rsplit_once('a').unwrap().1;
        (is_stalled(number.parse().unwrap()) && count == 1).then_some(stall)
    });
    let options = server.options();
    let start = Instant::now();
    read_many(&options, 200);
    assert!(start.elapsed() < STALL / 2, "{:?}", start.elapsed());
    let usage = options.usage.requests();
    // One in fifty, and one.
    assert!((3..=5).contains(&usage.hedges), "{usage:?}");
    assert_eq!(usage.get, 200 + usage.hedges);
    for number in (0..200).filter(|number| is_stalled(*number)) {
        assert_eq!(server.count(number), 2, "{number}");
    }
}

#[test]
fn many_reads_do_not_wait_for_a_few_that_stall() {
    read_while_a_few_stall(0);
}

#[test]
fn many_reads_do_not_wait_for_a_few_whose_bodies_stall() {
    read_while_a_few_stall(7);
}

#[test]
fn a_service_that_is_slow_throughout_is_asked_for_little_twice() {
    let server = StallingServer::start(|_, _| {
        thread::sleep(Duration::from_millis(150));
        None
    });
    let options = server.options();
    read_many(&options, 100);
    let usage = options.usage.requests();
    assert!(usage.hedges <= 3, "{usage:?}");
}

/// Reads many objects of which one stalls after so many bytes, two at a time.
fn read_by_twos_while_one_stalls(stall: usize) {
    // The first object stalls until all others were answered.
    let answered = Arc::new(AtomicU64::new(0));
    let others = Arc::clone(&answered);
    let server = StallingServer::start(move |path, count| {
        let is_first = path.ends_with("/a20") && count == 1;
        if !is_first {
            others.fetch_add(1, Ordering::SeqCst);
        }
        is_first.then_some(stall)
    });
    let options = RemoteOptions { connections: NonZero::new(2), ..server.options() };
    let usage = options.usage.clone();
    thread::scope(|scope| {
        let reading = scope.spawn(|| read_many(&options, 400));
        while !reading.is_finished() {
            let (hedges, answered) = (usage.requests().hedges, answered.load(Ordering::SeqCst));
            assert!(hedges == 0 || answered >= 399, "{hedges} hedges after {answered} answers");
            thread::sleep(Duration::from_millis(1));
        }
    });
    assert_eq!(server.count(20), 2);
}

#[test]
fn nothing_is_asked_for_twice_while_requests_wait() {
    read_by_twos_while_one_stalls(0);
    read_by_twos_while_one_stalls(7);
}

/// A server that answers a request without a body as `answer` says of its head.
fn answering(answer: impl Fn(&str) -> String + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    // It ends with the test's process.
    thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            let mut from_client = BufReader::new(client.try_clone().unwrap());
            let mut head = String::new();
            while from_client.read_line(&mut head).unwrap_or(0) > 2 {}
            // The client may have given up.
            drop(client.write_all(answer(&head).as_bytes()));
        }
    });
    url
}

#[test]
fn a_body_that_breaks_is_resumed_over_the_only_connection() {
    const LEN: usize = 1_000;
    let url = answering(|head| {
        let range = head.lines().find_map(|line| line.strip_prefix("range: bytes="));
        let start = range.map_or(0, |range| range.split('-').next().unwrap().parse().unwrap());
        let status = match start {
            0 => "200 OK".to_owned(),
            _ => format!("206 Partial Content\r\nContent-Range: bytes {start}-{}/{LEN}", LEN - 1),
        };
        // Half of what was asked for comes, or the last ten bytes.
        let left = LEN - start;
        let body = "x".repeat(if left > 10 { left / 2 } else { left });
        format!(
            "HTTP/1.1 {status}\r\nETag: \"1\"\r\nConnection: close\r\n\
             Last-Modified: Wed, 21 Oct 2015 07:28:00 GMT\r\nContent-Length: {left}\r\n\r\n{body}"
        )
    });
    let location = BucketLocation::parse("s3://bucket/cut").unwrap();
    let one = RemoteOptions { connections: NonZero::new(1), ..options(&url, true) };
    let objects = RemoteObjects::open(&location, &one).unwrap();
    let (found, finds) = mpsc::channel();
    thread::spawn(move || found.send(objects.get("a").map_err(|error| format!("{error:?}"))));
    let bytes = finds.recv_timeout(Duration::from_secs(30)).expect("the read ends").unwrap();
    assert_eq!(bytes, "x".repeat(LEN));
}

#[test]
fn a_redirect_is_not_followed() {
    let (asked, asks) = mpsc::channel();
    let elsewhere = answering(move |head| {
        asked.send(head.to_owned()).unwrap();
        "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".to_owned()
    });
    let url = answering(move |_| {
        format!(
            "HTTP/1.1 307 Temporary Redirect\r\nLocation: {elsewhere}/a\r\n\
             Content-Length: 0\r\nConnection: close\r\n\r\n"
        )
    });
    let error = open_at(&url, "moved", true).get("a").unwrap_err();
    assert!(!error.may_retry(), "{error:?}");
    assert!(asks.try_recv().is_err(), "the other server was asked");
}

#[test]
fn without_signatures_uploads_are_listed_without_one() {
    let (asked, asks) = mpsc::channel();
    let url = answering(move |head| {
        asked.send(head.lines().next().unwrap().to_owned()).unwrap();
        "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".to_owned()
    });
    let mut unsigned = options(&url, true);
    unsigned.settings.push(("AWS_SKIP_SIGNATURE".into(), "true".into()));
    let location = BucketLocation::parse("s3://bucket/Team A+B/c").unwrap();
    let objects = RemoteObjects::open(&location, &unsigned).unwrap();
    assert_eq!(objects.discard_unfinished(Duration::ZERO).unwrap(), 0);
    let line = asks.try_recv().unwrap();
    assert_eq!(line, "GET /bucket?uploads=&prefix=Team%20A%2BB%2Fc%2F HTTP/1.1");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a test makes a file")]
fn requests_for_credentials_are_not_counted_as_the_bucket_s() {
    let credentials = answering(|_| {
        let text = r#"{"AccessKeyId":"a","SecretAccessKey":"b","Token":"c","Expiration":"2100-01-01T00:00:00Z"}"#;
        let head = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length:";
        format!("{head} {}\r\n\r\n{text}", text.len())
    });
    let url = answering(|head| {
        assert!(head.contains("Credential=a/"), "{head}");
        "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".to_owned()
    });
    let directory = tempfile::tempdir().unwrap();
    let token = directory.path().join("token");
    std::fs::write(&token, "t").unwrap();
    let settings = vec![
        ("AWS_CONTAINER_CREDENTIALS_FULL_URI".to_owned(), credentials),
        ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE".to_owned(), token.to_str().unwrap().to_owned()),
    ];
    let options = RemoteOptions { settings, ..options(&url, true) };
    let location = BucketLocation::parse("s3://bucket/role").unwrap();
    let objects = RemoteObjects::open(&location, &options).unwrap();
    assert!(objects.get("a").unwrap_err().is_not_found());
    assert_eq!(options.usage.requests().get, 1);
}

#[test]
fn no_request_is_made_beside_the_only_one_allowed() {
    let server = StallingServer::start(|path, _| path.ends_with("/a0").then_some(0));
    let one = RemoteOptions { connections: NonZero::new(1), ..server.options() };
    let location = BucketLocation::parse("s3://bucket/stalls").unwrap();
    let objects = RemoteObjects::open(&location, &one).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| objects.get("a0").unwrap_err());
        while server.came.lock().unwrap().is_empty() {
            thread::sleep(Duration::from_millis(1));
        }
        // The requests that object_store does not make are no exception. Once the first request has
        // ended, this one may be made, and answered before the stop reaches it.
        scope.spawn(|| drop(objects.discard_unfinished(Duration::ZERO)));
        thread::sleep(Duration::from_millis(300));
        assert_eq!(one.usage.requests().list, 0);
        one.stop.ask(Duration::ZERO);
    });
}

/// The name of a container.
const CONTAINER: &str = "containers/01/0123456789abcdef0123456789abcdef";

/// Longer than what [`Rules::ShortRequests`] lets pass, and than three parts.
fn long_object() -> Bytes {
    random(7, (16 << 20) + 1).into()
}

#[test]
fn a_put_that_broke_twice_goes_on_in_parts() {
    with_server(|server| {
        let proxy = Proxy::start(server.address(), Rules::ShortRequests, NO_MISHAPS);
        let options = options(&proxy.url(), true);
        let usage = options.usage.clone();
        let location = BucketLocation::parse("s3://bucket/in/parts").unwrap();
        let remote = RemoteObjects::open(&location, &options).unwrap();
        let retrying = Retrying::new(remote, &proxy.url(), POLICY).counted_by(usage.clone());
        let bytes = long_object();
        retrying.put("a/b", bytes.clone()).unwrap();
        let requests = usage.requests();
        // The probe and the object, twice each; begin, four parts, complete, after three of the probe.
        assert_eq!((requests.put, requests.multipart, requests.retries), (4, 9, 2), "{requests:?}");
        let direct = open_at(&server.url(), "in/parts", true);
        assert!(direct.get("a/b").unwrap() == bytes);
        assert_eq!(direct.list("").unwrap().len(), 1);
        assert_eq!(direct.discard_unfinished(Duration::ZERO).unwrap(), 0, "nothing is left");
        // What is there is found, and other bytes are refused.
        retrying.put("a/b", bytes).unwrap();
        let error = retrying.put("a/b", random(8, (16 << 20) + 1).into()).unwrap_err();
        assert!(matches!(error, BackendError::AlreadyExists { .. }), "{error:?}");
    });
}

#[test]
fn parts_arrive_over_a_way_that_loses_every_third_request() {
    with_server(|server| {
        for seed in 0..4 {
            let mishaps = Mishaps { seed, one_in: 3 };
            let proxy = Proxy::start(server.address(), Rules::ShortRequests, mishaps);
            let prefix = format!("broken/{seed}");
            let remote = open_at(&proxy.url(), &prefix, true);
            let retrying = Retrying::new(remote, &proxy.url(), POLICY);
            let bytes = long_object();
            retrying.put("a", bytes.clone()).unwrap();
            assert!(
                open_at(&server.url(), &prefix, true).get("a").unwrap() == bytes,
                "seed {seed}"
            );
        }
    });
}

#[test]
fn what_a_killed_upload_leaves_is_discarded() {
    with_server(|server| {
        let proxy = Proxy::start(server.address(), Rules::ShortRequests, NO_MISHAPS);
        let remote = open_at(&proxy.url(), "left/here", true);
        let beside = open_at(&server.url(), "left", true);
        beside.put("here-too", "1".into()).unwrap();
        // Both puts of the probe, both of the object, a look, four for the probe of parts, the begin and a
        // part are answered.
        proxy.begin_outage(Outage::Gone, 11);
        let policy = RetryPolicy { total: Duration::from_millis(200), ..POLICY };
        let retrying = Retrying::new(remote, &proxy.url(), policy);
        let error = retrying.put(CONTAINER, long_object()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unreachable, "{error:?}");
        assert!(proxy.unanswered() > 0);

        let direct = open_at(&server.url(), "left/here", true);
        let elsewhere = open_at(&server.url(), "left/her", true);
        assert_eq!(elsewhere.discard_unfinished(Duration::ZERO).unwrap(), 0);
        assert_eq!(direct.discard_unfinished(Duration::ZERO).unwrap(), 1);
        assert_eq!(direct.discard_unfinished(Duration::ZERO).unwrap(), 0);
        assert!(direct.list("").unwrap().is_empty());
        assert_eq!(beside.get("here-too").unwrap(), "1");
    });
}

#[test]
fn uploads_of_others_in_the_bucket_are_left_alone() {
    with_server(|server| {
        let proxy = Proxy::start(server.address(), Rules::ShortRequests, NO_MISHAPS);
        let others = open_at(&proxy.url(), "whole/others", true);
        // Both puts of the probe, both of the object, a look, four for the probe of parts, the begin and a
        // part are answered.
        proxy.begin_outage(Outage::Gone, 11);
        let policy = RetryPolicy { total: Duration::from_millis(200), ..POLICY };
        Retrying::new(others, &proxy.url(), policy).put(CONTAINER, long_object()).unwrap_err();

        let outer = open_at(&server.url(), "whole", true);
        assert_eq!(outer.discard_unfinished(Duration::ZERO).unwrap(), 0);
        let others = open_at(&server.url(), "whole/others", true);
        assert_eq!(others.discard_unfinished(Duration::ZERO).unwrap(), 1);
    });
}

#[test]
fn parts_of_other_bytes_are_not_mixed_in() {
    with_server(|server| {
        let proxy = Proxy::start(server.address(), Rules::ShortRequests, NO_MISHAPS);
        let remote = open_at(&proxy.url(), "mixed", true);
        // Both puts of the probe, both of the object, a look, four for the probe of parts, the begin and a
        // part are answered.
        proxy.begin_outage(Outage::Gone, 11);
        for _ in 0..3 {
            assert!(remote.put(CONTAINER, long_object()).unwrap_err().may_retry());
        }
        proxy.end_outage();
        let other = Bytes::from(random(8, long_object().len()));
        remote.put(CONTAINER, other.clone()).unwrap();
        let direct = open_at(&server.url(), "mixed", true);
        assert!(direct.get(CONTAINER).unwrap() == other);
        assert_eq!(direct.discard_unfinished(Duration::ZERO).unwrap(), 0, "nothing is left");
    });
}

#[test]
fn a_service_that_is_busy_gets_the_whole_again() {
    with_server(|server| {
        let proxy = Proxy::start(server.address(), Rules::Conditions, NO_MISHAPS);
        let options = options(&proxy.url(), true);
        let usage = options.usage.clone();
        let location = BucketLocation::parse("s3://bucket/busy").unwrap();
        let remote = RemoteObjects::open(&location, &options).unwrap();
        remote.put("first", "1".into()).unwrap();
        proxy.begin_outage(Outage::Unavailable, 0);
        for _ in 0..3 {
            assert!(remote.put("a", long_object()).unwrap_err().may_retry());
        }
        proxy.end_outage();
        remote.put("a", long_object()).unwrap();
        assert_eq!(usage.requests().multipart, 0);
    });
}

#[test]
fn a_service_that_would_complete_over_what_is_there_gets_the_whole_again() {
    with_server(|server| {
        let proxy = Proxy::start(server.address(), Rules::UncheckedCompletions, NO_MISHAPS);
        let options = options(&proxy.url(), true);
        let usage = options.usage.clone();
        let location = BucketLocation::parse("s3://bucket/over").unwrap();
        let remote = RemoteObjects::open(&location, &options).unwrap();
        remote.put("first", "1".into()).unwrap();
        for name in ["a", "b"] {
            proxy.begin_outage(Outage::Gone, 0);
            for _ in 0..2 {
                assert!(remote.put(name, long_object()).unwrap_err().may_retry());
            }
            proxy.end_outage();
            remote.put(name, long_object()).unwrap();
            assert!(remote.get(name).unwrap() == long_object());
        }
        // Begin, a part, complete: of the probe alone, and once.
        assert_eq!(usage.requests().multipart, 3);
        let direct = open_at(&server.url(), "over", true);
        assert_eq!(direct.discard_unfinished(Duration::ZERO).unwrap(), 0, "nothing is left");
        let refused = open_at(&proxy.url(), "over", true);
        refused.put("c", "1".into()).unwrap();
    });
}

#[test]
fn a_service_that_takes_no_parts_gets_the_whole_again() {
    with_server(|server| {
        // Parts are puts without the condition, which it refuses.
        let proxy = Proxy::start(server.address(), Rules::AppendOnly, NO_MISHAPS);
        let remote = open_at(&proxy.url(), "no/parts", true);
        remote.put("first", "1".into()).unwrap();
        proxy.begin_outage(Outage::Gone, 0);
        let bytes = long_object();
        for _ in 0..2 {
            assert!(remote.put("a", bytes.clone()).unwrap_err().may_retry());
        }
        proxy.end_outage();
        remote.put("a", bytes.clone()).unwrap();
        assert!(remote.get("a").unwrap() == bytes);
    });
}
