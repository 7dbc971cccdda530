//! What qemu-io is told to do to a block device.

const MIB: u64 = 1 << 20;

/// Arguments with which qemu-io writes patterns to the device at `uri`, of 50 MiB or more, and reads
/// them: short and long ranges that begin at blocks and between them, some forced, some zeros, some
/// erased. It says "verification failed" where it reads something else.
pub fn qemu_io_patterns(uri: &str) -> Vec<String> {
    let mut arguments = vec!["-f".to_owned(), "raw".to_owned()];
    let mut command = |text: String| arguments.extend(["-c".to_owned(), text]);
    let range = |number: u64| {
        let offset = number * 2 * MIB + [0, 512, 1536, 4096][number as usize % 4];
        (offset, [512, 4096, 66_048, MIB][number as usize / 4 % 4])
    };
    for number in 0..24 {
        let ((offset, len), pattern) = (range(number), number + 1);
        let force = if number % 3 == 0 { "-f" } else { "" };
        command(format!("write {force} -P {pattern} {offset} {len}"));
    }
    command("flush".into());
    for number in 0..24 {
        let (offset, len) = range(number);
        command(format!("read -P {} {offset} {len}", number + 1));
    }
    command(format!("write -z 512 {MIB}"));
    command(format!("read -P 0 512 {MIB}"));
    command(format!("write -z -u {} {MIB}", 2 * MIB));
    command(format!("read -P 0 {} {MIB}", 2 * MIB));
    command(format!("discard {} {MIB}", 4 * MIB));
    command(format!("aio_write -P 7 {} {MIB}", 6 * MIB));
    command("aio_flush".into());
    command(format!("read -P 7 {} {MIB}", 6 * MIB));
    arguments.push(uri.to_owned());
    arguments
}
