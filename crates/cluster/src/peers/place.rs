//! Where a gateway answers others, as bytes of its record.

use std::net::SocketAddr;

/// The longest address, in bytes: of IPv6 with a scope and a port.
const MAX_LEN: usize = 64;

/// The bytes that tell `address`, for the record of a gateway.
pub fn encode_address(address: SocketAddr) -> Vec<u8> {
    address.to_string().into_bytes()
}

/// The address that `bytes` tell; none if they tell none that this version knows.
pub fn decode_address(bytes: &[u8]) -> Option<SocketAddr> {
    let text = str::from_utf8(bytes).ok().filter(|text| text.len() <= MAX_LEN)?;
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_come_back_and_others_are_none() {
        for text in ["10.0.0.1:4711", "[::1]:1", "[fe80::1%2]:65535"] {
            let address = text.parse().unwrap();
            assert_eq!(decode_address(&encode_address(address)), Some(address));
        }
        for bytes in [&b""[..], b"10.0.0.1", b"host:1", b"\xff", &[b'1'; 100]] {
            assert_eq!(decode_address(bytes), None);
        }
    }
}
