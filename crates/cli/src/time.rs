//! Times, for people and for programs.

use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use onefold_store::tree::Time;

/// `time` in RFC 3339, in UTC with nanoseconds. A year that RFC 3339 cannot write, as a damaged
/// file system may have, is given as `@` and seconds since 1970.
pub(crate) fn rfc3339(time: Time) -> String {
    match timestamp(time) {
        Some(timestamp) => format!("{timestamp:.9}"),
        None => seconds(time),
    }
}

/// `time` as a clock on the wall would show it here.
pub(crate) fn local(time: Time) -> String {
    match timestamp(time) {
        Some(timestamp) => {
            timestamp.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string()
        }
        None => seconds(time),
    }
}

/// `time` as a clock on the wall would show it here, fit for a file's name.
pub(crate) fn file_name(time: Time) -> String {
    local(time).replace(' ', "T")
}

/// Reads a whole number of days or hours.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let expected = || "expected days or hours, such as 7d or 12h".to_owned();
    let (number, hours) = match text.strip_suffix('d') {
        Some(number) => (number, 24),
        None => (text.strip_suffix('h').ok_or_else(expected)?, 1),
    };
    let number: u32 = number.parse().map_err(|_| expected())?;
    Ok(Duration::from_secs(u64::from(number) * hours * 3600))
}

/// Reads a time: a date, or date and time of day by the clock on the wall here, or RFC 3339.
pub(crate) fn parse(text: &str) -> Result<Time, String> {
    parse_in(text, &TimeZone::system())
}

fn parse_in(text: &str, zone: &TimeZone) -> Result<Time, String> {
    let at = |civil: DateTime| zone.to_timestamp(civil).ok();
    let read = text.parse::<Timestamp>().ok();
    let read = read.or_else(|| text.parse::<DateTime>().ok().and_then(at));
    let read = read.or_else(|| text.parse::<Date>().ok().and_then(|date| at(date.into())));
    let timestamp = read.ok_or("expected a time such as 2026-01-31 or '2026-01-31 18:00:00'")?;
    let (secs, nanos) = (timestamp.as_second(), timestamp.subsec_nanosecond());
    // Before 1970 both count down.
    Ok(match u32::try_from(nanos) {
        Ok(nanos) => Time { secs, nanos },
        Err(_) => Time { secs: secs - 1, nanos: (nanos + 1_000_000_000) as u32 },
    })
}

fn timestamp(time: Time) -> Option<Timestamp> {
    let timestamp = Timestamp::new(time.secs, i32::try_from(time.nanos).ok()?).ok()?;
    // Below year 0 the year would have a sign.
    (timestamp.as_second() >= -62_167_219_200).then_some(timestamp)
}

fn seconds(time: Time) -> String {
    format!("@{}.{:09}", time.secs, time.nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nanoseconds_are_kept_on_either_side_of_1970() {
        let time = |secs, nanos| rfc3339(Time { secs, nanos });
        assert_eq!(time(0, 0), "1970-01-01T00:00:00.000000000Z");
        assert_eq!(time(1_700_000_000, 1), "2023-11-14T22:13:20.000000001Z");
        assert_eq!(time(-1, 999_999_999), "1969-12-31T23:59:59.999999999Z");
        assert_eq!(time(i64::MAX, 5), "@9223372036854775807.000000005");
        assert_eq!(time(-99_999_999_999, 0), "@-99999999999.000000000");
    }

    #[test]
    fn a_time_is_a_date_or_a_moment() {
        let read = |text: &str| parse_in(text, &TimeZone::UTC);
        let time = |secs, nanos| Ok(Time { secs, nanos });
        assert_eq!(read("1970-01-02"), time(86_400, 0));
        assert_eq!(read("1970-01-01 00:01"), time(60, 0));
        assert_eq!(read("1970-01-01 00:00:05.25"), time(5, 250_000_000));
        assert_eq!(read("1970-01-01T02:00:00+02:00"), time(0, 0));
        assert_eq!(read("1969-12-31T23:59:59.75Z"), time(-1, 750_000_000));
        for text in ["", "yesterday", "2026-13-01", "12:00"] {
            assert!(read(text).unwrap_err().contains("2026-01-31"), "{text}");
        }
    }
}
