//! Serves a device in memory until its standard input ends:
//! `memory SIZE_IN_MIB PATH_OR_ADDRESS [WORKERS]`.

use std::error::Error;
use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use onefold_block::{BlockSize, MemoryDevice};
use onefold_nbd::{Config, Export, Listen, Server};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [size, place, rest @ ..] = arguments.as_slice() else {
        return Err("expected a size in MiB and a path or an address".into());
    };
    let device = MemoryDevice::new(size.parse::<u64>()? << 20, BlockSize::B4096)?;
    let listen = match place.parse() {
        Ok(address) => Listen::Tcp(address),
        Err(_) => Listen::Unix(place.into()),
    };
    let mut config = Config::new(vec![listen], vec![Export::new("", Arc::new(device))]);
    if let [workers] = rest {
        config.workers = workers.parse()?;
    }
    let server = Server::start(config)?;
    println!("{}", server.addresses()[0]);
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(server.shutdown(Duration::from_secs(10))?)
}
