//! The server as clients meet it: one written here, byte by byte, and the programs that people use.

mod client;
mod clients;
mod connections;
mod device;
mod exports;
mod handshake;
mod lanes;
mod malformed;
mod relay;
mod server;
mod shutdown;
mod slow;
mod tls;
mod transmission;
