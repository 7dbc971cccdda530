//! Options of any kind and content, then any bytes: each option is answered as the protocol has it,
//! or the connection ends.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onefold_fuzz::nbd::bench;

const EXPORT_NAME: u32 = 1;
const ABORT: u32 = 2;
const GO: u32 = 7;
const ACK: u32 = 1;

fuzz_target!(|input: (u8, Vec<(u8, u8, Vec<u8>)>, Vec<u8>)| {
    let (flags, options, rest) = input;
    let mut client = bench().connect(u32::from(flags));
    // fixed newstyle, with or without zeroes, or nothing
    let mut is_open = matches!(flags, 1 | 3);
    for (option, form, data) in options {
        let option = u32::from(option % 13);
        let data = match form % 4 {
            0 => data,
            // what comes near to a name with something behind it
            1 => [&[0, 0, 0, 4][..], b"disk", &data].concat(),
            2 => [&[0, 0, 0, 5][..], b"fixed", &data].concat(),
            _ => [&[0, 0, 0, 4][..], b"disk\0\0\0\x01\0\0\0\x0f", &data].concat(),
        };
        client.send_option(option, &data);
        if option == EXPORT_NAME {
            is_open = is_open && client.old_choice(flags & 2 == 0);
            break;
        }
        match client.answers(option) {
            Some(ACK) if option == GO => break,
            Some(ACK) if option == ABORT => is_open = false,
            Some(_) => continue,
            None => is_open = false,
        }
        break;
    }
    client.send(&rest);
    client.finish();
    // whatever was agreed on, any bytes may now be requests; what is said to them are replies
    while is_open && client.reply().is_some() {}
});
