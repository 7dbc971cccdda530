//! The example for readers runs.

use std::io::{BufRead, BufReader, Read};
use std::net::TcpStream;
use std::process::Stdio;

use onefold_testkit::example;

#[test]
fn the_example_greets_a_client_until_its_input_ends() {
    let mut child = example("memory")
        .args(["1", "127.0.0.1:0"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut address = String::new();
    output.read_line(&mut address).unwrap();
    let mut client = TcpStream::connect(address.trim().trim_start_matches("tcp://")).unwrap();
    let mut greeting = [0; 16];
    client.read_exact(&mut greeting).unwrap();
    assert_eq!(&greeting, b"NBDMAGICIHAVEOPT");
    drop((client, child.stdin.take()));
    assert!(child.wait().unwrap().success());
}
