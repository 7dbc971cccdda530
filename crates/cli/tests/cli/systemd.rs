//! `onefold serve` as systemd starts it: with a socket that listens already, and somebody who waits
//! for news.

use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::process::{Command, Stdio};
use std::time::Duration;

use onefold_lab::nbd::{Client, Place, Uri};
use rustix::process::{Pid, Signal, kill_process};

use crate::lab::Lab;
use crate::served::ended;

/// `onefold serve` with standard input as its first inherited socket.
const AS_SYSTEMD_DOES: &str = "exec 3<&0 0</dev/null; LISTEN_PID=$$ exec \"$@\"";

#[test]
fn a_service_takes_its_socket_from_systemd_and_tells_it_when_it_is_ready_and_stops() {
    let lab = Lab::new();
    lab.ok("volume create --pool pool --size 1MiB disk");
    let socket = lab.path("activated");
    let listener = UnixListener::bind(&socket).unwrap();
    let news = UnixDatagram::bind(lab.path("notify")).unwrap();
    news.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let told = || {
        let mut bytes = [0; 64];
        let len = news.recv(&mut bytes).unwrap();
        String::from_utf8(bytes[..len].to_vec()).unwrap()
    };
    let serve = lab.command("serve --pool pool");
    let mut command = Command::new("sh");
    command.args(["-c", AS_SYSTEMD_DOES, "sh"]).arg(serve.get_program()).args(serve.get_args());
    command.current_dir(lab.path("")).stdin(Stdio::from(OwnedFd::from(listener)));
    command.env("LISTEN_FDS", "1").env("NOTIFY_SOCKET", lab.path("notify"));
    let mut child = command.spawn().unwrap();
    assert_eq!(told(), "READY=1");
    // also without a name: there is one volume
    let uri = Uri { place: Place::Unix(socket.clone()), export: String::new() };
    let client = Client::connect(&uri).unwrap();
    assert_eq!(client.size(), 1 << 20);
    drop(client);
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(told(), "STOPPING=1");
    assert_eq!(ended(&mut child), 0);
    assert!(socket.exists(), "it belongs to systemd");
}
