use std::env;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::thread;

/// Says that the running test leaves something out, and why: a skip is never silent.
///
/// Writes `SKIP: <test>: <reason>` to standard error and to the end of the file that
/// `ONEFOLD_SKIP_LOG` names. Panics if `ONEFOLD_REQUIRE_ALL` is 1 or if the log cannot be
/// written.
pub fn skip(reason: &str) {
    let thread = thread::current();
    let line = format!("SKIP: {}: {reason}\n", thread.name().unwrap_or("unnamed thread"));
    // not eprint!: the test harness swallows what passing tests print; and a closed standard
    // error is no reason to fail
    let _ = io::stderr().write_all(line.as_bytes());
    let log = env::var_os("ONEFOLD_SKIP_LOG");
    let forbidden = env::var_os("ONEFOLD_REQUIRE_ALL").is_some_and(|value| value == "1");
    record(&line, log.as_deref(), forbidden);
}

fn record(line: &str, log: Option<&OsStr>, forbidden: bool) {
    if let Some(log) = log {
        append(log, line)
            .unwrap_or_else(|error| panic!("cannot log a skip in {}: {error}", log.display()));
    }
    assert!(!forbidden, "ONEFOLD_REQUIRE_ALL=1 forbids {line}");
}

#[expect(clippy::disallowed_methods, reason = "a log of the tests, no durable byte")]
fn append(log: &OsStr, line: &str) -> io::Result<()> {
    File::options().append(true).create(true).open(log)?.write_all(line.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::panic;
    use std::process;

    #[test]
    fn every_skip_is_logged_even_a_forbidden_one() {
        let log = env::temp_dir().join(format!("onefold-skips-{}", process::id()));
        record("first\n", Some(log.as_os_str()), false);
        record("second\n", Some(log.as_os_str()), false);
        let third = || record("third\n", Some(log.as_os_str()), true);
        assert!(panic::catch_unwind(third).is_err());
        let logged = fs::read_to_string(&log).unwrap();
        fs::remove_file(&log).unwrap();
        assert_eq!(logged, "first\nsecond\nthird\n");
    }

    #[test]
    #[should_panic(expected = "cannot log a skip in /nowhere/log")]
    fn a_log_that_cannot_be_written_fails_the_test() {
        record("line\n", Some(OsStr::new("/nowhere/log")), false);
    }
}
