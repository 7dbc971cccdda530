//! Many connections, and the room that each has.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use onefold_nbd::{Address, Config, Export, Limits, Listen, Server, ServerError};
use onefold_testkit::random;

use crate::client::*;
use crate::device::Watched;
use crate::server::{Lab, MIB};

#[test]
fn tcp_serves_like_a_unix_socket() {
    let lab = Lab::with(Watched::new(MIB), |mut config| {
        config.listen.push(Listen::Tcp("127.0.0.1:0".parse().unwrap()));
        config
    });
    let [Address::Unix(socket), Address::Tcp(address)] = lab.server.addresses() else {
        panic!("{:?}", lab.server.addresses())
    };
    assert_eq!(*socket, lab.socket);
    let mut client = Client::served(tcp(*address), "disk");
    let data = random(3, 100_000);
    assert_eq!(client.write(0, 1, &data), 0);
    assert!(lab.client().read(0, 1, 100_000).unwrap() == data);
}

#[test]
fn a_host_name_is_listened_on_at_each_address_that_this_machine_has() {
    let lab = Lab::with(Watched::new(MIB), |mut config| {
        config.listen = vec![Listen::Host("localhost:0".into())];
        config
    });
    assert!(!lab.server.addresses().is_empty());
    for address in lab.server.addresses() {
        let Address::Tcp(address) = address else { panic!("{address:?}") };
        assert!(address.ip().is_loopback(), "{address}");
        assert_eq!(Client::served(tcp(*address), "disk").read(0, 0, 1), Ok(vec![0]));
    }
    let start = |host: &str| Server::start(Config::new(vec![Listen::Host(host.into())], vec![]));
    let unknown = start("no-such-host.invalid:0").err();
    assert!(matches!(&unknown, Some(ServerError::Listen { address, .. })
        if address == "no-such-host.invalid:0"));
}

#[test]
fn sockets_that_listen_already_are_served_and_keep_their_names() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("inherited");
    let tcp_socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let unix_socket = UnixListener::bind(&socket).unwrap();
    // who comes before the server waits for it
    let early = UnixStream::connect(&socket).unwrap();
    let lab = Lab::with(Watched::new(MIB), |mut config| {
        config.listen = Vec::new();
        config.inherited = vec![tcp_socket.into(), unix_socket.into()];
        config
    });
    let [Address::Tcp(address), Address::Unix(path)] = lab.server.addresses() else {
        panic!("{:?}", lab.server.addresses())
    };
    assert_eq!(*path, socket);
    assert_eq!(Client::served(early, "disk").write(0, 0, b"kept"), 0);
    assert_eq!(Client::served(tcp(*address), "disk").read(0, 0, 4), Ok(b"kept".to_vec()));
    drop(lab);
    assert!(socket.exists(), "it belongs to whoever made it");
}

#[test]
fn what_is_no_socket_that_listens_is_refused() {
    let (connected, _other) = UnixStream::pair().unwrap();
    let file = std::fs::File::open("/dev/null").unwrap();
    let datagrams = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    for socket in [OwnedFd::from(connected), file.into(), datagrams.into()] {
        let mut config = Config::new(vec![], vec![]);
        config.inherited = vec![socket];
        let refused = Server::start(config).err();
        assert!(matches!(refused, Some(ServerError::Inherited { .. })), "{refused:?}");
    }
}

#[test]
fn clients_of_a_server_that_is_bound_wait_until_it_serves() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let bind = || Server::bind(Config::new(vec![Listen::Unix(socket.clone())], vec![]));
    let bound = bind().unwrap();
    let taken = bind().err();
    assert!(matches!(taken, Some(ServerError::InUse { .. })), "{taken:?}");
    let early = UnixStream::connect(&socket).unwrap();
    let device = Watched::new(MIB);
    let server = bound.serve(vec![Export::new("disk", Arc::new(device))]).unwrap();
    assert_eq!(Client::served(early, "disk").read(0, 0, 1), Ok(vec![0]));
    drop(server);
}

#[test]
fn a_connection_can_be_handed_over() {
    let lab = Lab::with(Watched::new(MIB), |mut config| {
        config.limits.connections = 1;
        config
    });
    let pair = || UnixStream::pair().unwrap();
    let (ours, theirs) = pair();
    assert!(lab.server.adopt(theirs).unwrap());
    let mut client = Client::served(ours, "disk");
    assert_eq!(client.read(0, 0, 1), Ok(vec![0]));
    assert_eq!(lab.server.connections(), 1);
    assert!(!lab.server.adopt(pair().1).unwrap(), "there is one already");
}

#[test]
fn further_connections_wait_until_one_ends() {
    let lab = Lab::with(Watched::new(MIB), |mut config| {
        config.limits.connections = 2;
        config
    });
    let first = lab.client();
    let _second = lab.client();
    let socket = lab.socket.clone();
    let third = thread::spawn(move || Client::served(unix(&socket), "disk").read(0, 0, 1));
    thread::sleep(Duration::from_millis(100));
    assert!(!third.is_finished());
    drop(first);
    assert_eq!(third.join().unwrap(), Ok(vec![0]));
}

#[test]
fn who_is_not_served_in_time_learns_that() {
    let lab = Lab::with(Watched::new(MIB), |mut config| {
        config.limits.connections = 1;
        config.limits.handshake = Duration::from_millis(300);
        config
    });
    let mut first = lab.client();
    let mut second = Client::greet(lab.connect());
    second.send_option(GO, &info_query("disk", &[]));
    second.expect_end();
    assert_eq!(lab.next_end().unwrap(), "waiting its turn took longer than 300ms");
    assert_eq!(first.read(0, 0, 1), Ok(vec![0]));
}

#[test]
fn strangers_that_say_nothing_take_no_place_of_a_client() {
    let lab = Lab::with(Watched::new(MIB), |mut config| {
        config.limits.connections = 2;
        config.limits.handshakes = 4;
        // longer than a client of these tests waits
        config.limits.handshake = Duration::from_secs(300);
        config
    });
    let mut strangers: Vec<UnixStream> = (0..16).map(|_| lab.connect()).collect();
    let first = lab.client();
    let _second = lab.client();
    assert_eq!(lab.server.connections(), 2);
    // each of the clients was one of four
    let kept = strangers.split_off(13);
    for mut stranger in strangers {
        let mut greeting = Vec::new();
        stranger.read_to_end(&mut greeting).unwrap();
        let words = "the handshake was ended for a newer one, because 4 were in progress";
        assert_eq!(lab.next_end().unwrap(), words);
    }
    // who comes late may still choose
    let mut clients = kept.into_iter().map(Client::greet);
    let mut late = clients.next_back().unwrap();
    drop(first);
    late.go("disk");
    assert_eq!(late.read(0, 0, 1), Ok(vec![0]));
}

#[test]
fn clients_that_come_all_at_once_do_not_end_one_another() {
    const MANY: usize = 64;
    let lab = Lab::with(Watched::new(MIB), |mut config| {
        config.limits.handshakes = 4;
        config
    });
    let together = Barrier::new(MANY);
    let come = || {
        together.wait();
        lab.client()
    };
    let clients: Vec<Client> = thread::scope(|scope| {
        let coming: Vec<_> = (0..MANY).map(|_| scope.spawn(come)).collect();
        coming.into_iter().map(|client| client.join().unwrap()).collect()
    });
    for mut client in clients {
        assert_eq!(client.read(0, 0, 1), Ok(vec![0]));
    }
    let (ended, how) = lab.shut_down(Duration::from_secs(30));
    ended.unwrap();
    assert!(!how.iter().flatten().any(|error| error.contains("newer")), "{how:?}");
}

#[test]
fn requests_beyond_the_room_of_a_connection_are_not_read() {
    let lab = Lab::with(Watched::new(MIB), |config| Config {
        limits: Limits { in_flight: 3, ..Limits::default() },
        workers: 10,
        ..config
    });
    let mut client = lab.client();
    lab.device.hold("erase");
    for cookie in 0..6 {
        client.send_request((TRIM, 0), cookie, 0, 4096);
    }
    lab.device.wait_for(3);
    thread::sleep(Duration::from_millis(50));
    assert_eq!(lab.device.waiting(), 3);
    // another connection has room of its own
    let mut other = lab.client();
    assert_eq!(other.read(0, 0, 1), Ok(vec![0]));
    lab.device.release();
    for _ in 0..6 {
        assert!(matches!(client.reply(), Reply::Simple { errno: 0, .. }));
    }
}

#[test]
fn a_client_that_sends_more_than_there_is_room_for_is_held_back() {
    let lab = Lab::with(Watched::new(64 * MIB), |config| Config {
        limits: Limits { buffers: MIB, max_request: MIB as u32, ..Limits::default() },
        ..config
    });
    lab.device.hold("write");
    let (socket, len) = (lab.socket.clone(), 256 << 10);
    let writer = thread::spawn(move || {
        let mut client = Client::served(unix(&socket), "disk");
        for cookie in 0..40 {
            client.send(&request((WRITE, 0), cookie, cookie * len as u64, len));
            client.send(&vec![cookie as u8; len as usize]);
        }
        for _ in 0..40 {
            assert!(matches!(client.reply(), Reply::Simple { errno: 0, .. }));
        }
    });
    // four of them fill the memory of the server
    lab.device.wait_for(4);
    thread::sleep(Duration::from_millis(100));
    assert_eq!(lab.device.waiting(), 4);
    assert!(!writer.is_finished());
    lab.device.release();
    writer.join().unwrap();
    let mut client = lab.client();
    for cookie in 0..40_u8 {
        let read = client.read(0, u64::from(cookie) * u64::from(len), len).unwrap();
        assert!(read.iter().all(|byte| *byte == cookie));
    }
}

#[test]
fn clients_that_come_and_go_while_others_write_do_no_harm() {
    let lab = Lab::with(Watched::new(16 * MIB), |config| config);
    thread::scope(|scope| {
        for number in 0..4_u64 {
            let lab = &lab;
            scope.spawn(move || {
                let base = number * 4 * MIB;
                let mut client = lab.client();
                for round in 0..60 {
                    let data = random(round ^ number << 32, 1 + (round as usize * 997) % 70_000);
                    assert_eq!(client.write(0, base + round * 100, &data), 0);
                    let read = client.read(0, base + round * 100, data.len() as u32).unwrap();
                    assert!(read == data, "round {round} of client {number}");
                }
            });
        }
        scope.spawn(|| {
            for round in 0..60 {
                let mut client = lab.client();
                // in a place that nobody else writes to
                client.send_request((WRITE, 0), 1, 4 * MIB - 100, 100);
                let _ = client.wire.write(&vec![9; round]);
            }
        });
    });
    let read = lab.client().read(0, 4 * MIB - 100, 100).unwrap();
    assert_eq!(read, [0; 100], "a write of which only a part arrived");
}

#[test]
fn a_socket_that_a_dead_server_left_is_replaced_and_another_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let start =
        |socket: &Path| Server::start(Config::new(vec![Listen::Unix(socket.into())], vec![]));
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    assert!(socket.exists());
    let server = start(&socket).unwrap();
    assert!(matches!(start(&socket), Err(ServerError::InUse { path }) if path == socket));
    UnixStream::connect(&socket).expect("the first server still listens");
    drop(server);
    assert!(!socket.exists(), "a server takes its socket along");
    let folder_itself = folder.path().to_owned();
    assert!(matches!(start(&folder_itself), Err(ServerError::NotASocket { .. })));
    assert!(matches!(start(&folder.path().join("no/socket")), Err(ServerError::Listen { .. })));
}

#[test]
fn limits_that_leave_no_service_are_refused() {
    let start = |limits| Server::start(Config { limits, ..Config::new(vec![], vec![]) });
    for limits in [
        Limits { in_flight: 0, ..Limits::default() },
        Limits { connections: 0, ..Limits::default() },
        Limits { handshakes: 0, ..Limits::default() },
        Limits { buffers: 1 << 20, ..Limits::default() },
        Limits { max_request: 100, ..Limits::default() },
        Limits { least_rate: 0, ..Limits::default() },
        // too few for what is told of extents
        Limits { max_request: 4096, buffers: 4096, ..Limits::default() },
    ] {
        assert!(matches!(start(limits), Err(ServerError::Limits { .. })));
    }
}
