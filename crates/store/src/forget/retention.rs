//! Which snapshots a policy keeps, and why. The words and rules are restic's.
//!
//! The snapshots are gone through from the newest to the oldest. A rule such as *daily 7* keeps the
//! newest snapshot of each day until it has kept seven; days without a snapshot do not count. While
//! a rule has not kept all that it may, it also keeps the oldest snapshot there is, so that the
//! history grows as long as the rule allows. *within* rules have no count: they look back from the
//! newest snapshot that is not in the future, so that neither a pause in backups nor a clock that
//! ran ahead makes them forget more. Snapshots in the future are kept and count for no rule; here
//! restic lets them take the place of others.
//!
//! Days, weeks, months and years are those of a time zone's calendar; weeks are those of ISO 8601.
//! An hour is told from the one before it even where clocks are set back and its number repeats;
//! there restic takes both for one.

use std::fmt;
use std::str::FromStr;

use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, Zoned};

use crate::tree::Time;

/// How many snapshots a rule keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Count {
    /// At most so many.
    AtMost(u64),
    /// One of every period.
    #[default]
    All,
}

/// A length of time as people say it: years, months, days and hours by the calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Duration {
    /// Whole years.
    pub years: u16,
    /// Whole months.
    pub months: u16,
    /// Whole days.
    pub days: u32,
    /// Whole hours.
    pub hours: u32,
}

/// The stretch of time of which a rule keeps one snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Period {
    /// None: every snapshot counts.
    Snapshot,
    /// An hour of the clock.
    Hour,
    /// A day of the calendar.
    Day,
    /// A week of ISO 8601, which begins on Monday.
    Week,
    /// A month of the calendar.
    Month,
    /// A year of the calendar.
    Year,
}

/// What is to be kept. Whatever one of the rules wants is kept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Policy {
    /// Of each of these periods the newest snapshot, up to a count.
    pub counts: Vec<(Period, Count)>,
    /// Of each of these periods the newest snapshot, if it is not older than this.
    pub within: Vec<(Period, Duration)>,
    /// Snapshots that have all the tags of one of these lists.
    pub tags: Vec<Vec<String>>,
}

impl Policy {
    /// Whether there is no rule, so that nothing would be kept.
    pub fn is_empty(&self) -> bool {
        let Self { counts, within, tags } = self;
        counts.is_empty() && within.is_empty() && tags.is_empty()
    }
}

/// What a policy needs to know of a snapshot.
#[derive(Debug, Clone, Copy)]
pub struct Candidate<'a> {
    /// When its backup began.
    pub time: Time,
    /// Its tags.
    pub tags: &'a [String],
}

/// Why a snapshot with a time after now is kept.
const FUTURE: &str = "in the future";

/// Why each of `candidates` is kept, in their order, which may be any; no reason means that it is
/// not kept.
///
/// Those with a time after `now` come from a clock that was wrong. They are kept and count for no
/// rule, because each would take the place of a snapshot whose time is right.
pub fn reasons(
    policy: &Policy,
    candidates: &[Candidate<'_>],
    now: Time,
    zone: &TimeZone,
) -> Vec<Vec<String>> {
    let mut newest_first: Vec<usize> = (0..candidates.len()).collect();
    newest_first.sort_by_key(|at| (std::cmp::Reverse(candidates[*at].time), *at));
    let zoned = |time: Time| timestamp(time).to_zoned(zone.clone());
    let mut rules: Vec<Rule> = policy.counts.iter().map(|(p, c)| Rule::counting(*p, *c)).collect();
    let newest = newest_first.iter().map(|at| candidates[*at].time).find(|time| *time <= now);
    if let Some(newest) = newest.map(zoned) {
        rules.extend(policy.within.iter().map(|(p, d)| Rule::within(*p, *d, &newest)));
    }
    let mut reasons = vec![Vec::new(); candidates.len()];
    for (nth, &at) in newest_first.iter().enumerate() {
        let Candidate { time, tags } = candidates[at];
        for wanted in &policy.tags {
            if wanted.iter().all(|tag| tags.contains(tag)) {
                reasons[at].push(format!("tag {}", wanted.join(",")));
            }
        }
        if time > now {
            reasons[at].push(FUTURE.to_owned());
            continue;
        }
        let is_oldest = nth + 1 == candidates.len();
        let time = zoned(time);
        reasons[at].extend(rules.iter_mut().filter_map(|rule| rule.judge(nth, &time, is_oldest)));
    }
    reasons
}

/// A rule on its way from the newest snapshot to the oldest.
struct Rule {
    period: Period,
    left: Count,
    /// How far back the rule looks, and how that is said.
    since: Option<(Timestamp, Duration)>,
    last: Option<Key>,
}

/// Equal for two times in the same period.
type Key = [i64; 4];

impl Rule {
    fn counting(period: Period, count: Count) -> Self {
        Self { period, left: count, since: None, last: None }
    }

    fn within(period: Period, duration: Duration, newest: &Zoned) -> Self {
        // A time before all that can be written down is before every snapshot.
        let since = duration.before(newest).unwrap_or(Timestamp::MIN);
        Self { period, left: Count::All, since: Some((since, duration)), last: None }
    }

    /// Why the rule keeps the snapshot of this time, the `nth` newest.
    fn judge(&mut self, nth: usize, time: &Zoned, is_oldest: bool) -> Option<String> {
        if self.left == Count::AtMost(0) {
            return None;
        }
        if self.since.is_some_and(|(since, _)| time.timestamp() <= since) {
            return None;
        }
        let key = self.period.key(nth, time);
        let is_first = self.last != Some(key);
        if !is_first && !is_oldest {
            return None;
        }
        self.last = Some(key);
        if let Count::AtMost(left) = &mut self.left {
            *left -= 1;
        }
        let oldest = if is_first { "" } else { "oldest " };
        Some(match self.since {
            Some((_, duration)) => format!("{oldest}{} within {duration}", self.period),
            None => format!("{oldest}{}", self.period),
        })
    }
}

impl Period {
    fn key(self, nth: usize, time: &Zoned) -> Key {
        let (year, month, day) = (time.year().into(), time.month().into(), time.day().into());
        match self {
            Self::Snapshot => [nth as i64, 0, 0, 0],
            // The offset tells the two hours apart that have one number when clocks are set back.
            Self::Hour => {
                let offset = i64::from(time.offset().seconds());
                [year, month, day, i64::from(time.hour()) * 1_000_000 + offset]
            }
            Self::Day => [year, month, day, 0],
            Self::Week => {
                let week = time.date().iso_week_date();
                [week.year().into(), week.week().into(), 0, 0]
            }
            Self::Month => [year, month, 0, 0],
            Self::Year => [year, 0, 0, 0],
        }
    }
}

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Snapshot => "last",
            Self::Hour => "hourly",
            Self::Day => "daily",
            Self::Week => "weekly",
            Self::Month => "monthly",
            Self::Year => "yearly",
        })
    }
}

/// `time`, or the nearest that a calendar can show.
fn timestamp(time: Time) -> Timestamp {
    let nearest = if time.secs < 0 { Timestamp::MIN } else { Timestamp::MAX };
    let nanos = i32::try_from(time.nanos).unwrap_or(0);
    Timestamp::new(time.secs, nanos).unwrap_or(nearest)
}

impl Duration {
    fn before(self, time: &Zoned) -> Option<Timestamp> {
        let span = Span::new()
            .try_years(self.years)
            .and_then(|span| span.try_months(self.months))
            .and_then(|span| span.try_days(self.days))
            .and_then(|span| span.try_hours(self.hours));
        Some(time.checked_sub(span.ok()?).ok()?.timestamp())
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { years, months, days, hours } = *self;
        let parts = [(years.into(), 'y'), (months.into(), 'm'), (days, 'd'), (hours, 'h')];
        parts
            .iter()
            .filter(|(number, _)| *number > 0)
            .try_for_each(|(n, unit)| write!(f, "{n}{unit}"))
    }
}

/// A text is no [`Duration`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected years, months, days and hours, such as 1y6m, 30d or 48h, and not nothing")]
pub struct ParseDurationError;

impl FromStr for Duration {
    type Err = ParseDurationError;

    fn from_str(text: &str) -> Result<Self, ParseDurationError> {
        let mut duration = Self { years: 0, months: 0, days: 0, hours: 0 };
        let mut seen = String::new();
        let mut rest = text;
        while !rest.is_empty() {
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            let (number, after) = rest.split_at(digits);
            let unit = after.chars().next().ok_or(ParseDurationError)?;
            let number: u32 = number.parse().map_err(|_| ParseDurationError)?;
            let narrow = u16::try_from(number);
            match unit {
                'y' => duration.years = narrow.map_err(|_| ParseDurationError)?,
                'm' => duration.months = narrow.map_err(|_| ParseDurationError)?,
                'd' => duration.days = number,
                'h' => duration.hours = number,
                _ => return Err(ParseDurationError),
            }
            if seen.contains(unit) {
                return Err(ParseDurationError);
            }
            seen.push(unit);
            rest = &after[unit.len_utf8()..];
        }
        let is_nothing = duration == Self { years: 0, months: 0, days: 0, hours: 0 };
        if is_nothing { Err(ParseDurationError) } else { Ok(duration) }
    }
}

impl FromStr for Count {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if matches!(text, "unlimited" | "-1") {
            return Ok(Self::All);
        }
        match text.parse() {
            Ok(count) if count > 0 => Ok(Self::AtMost(count)),
            _ => Err("expected a number above 0, or 'unlimited'".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seconds since 1970 of a moment written with its offset; independent of the zone under test.
    fn at(text: &str) -> Time {
        let timestamp: Timestamp = text.parse().unwrap();
        Time { secs: timestamp.as_second(), nanos: 0 }
    }

    fn zone(name: &str) -> TimeZone {
        TimeZone::get(name).unwrap()
    }

    fn count(period: Period, count: u64) -> Policy {
        Policy { counts: vec![(period, Count::AtMost(count))], ..Policy::default() }
    }

    fn within(period: Period, duration: &str) -> Policy {
        Policy { within: vec![(period, duration.parse().unwrap())], ..Policy::default() }
    }

    const LATER: Time = Time { secs: i64::MAX / 2, nanos: 0 };

    /// Which of `times` are kept, by position.
    fn kept(policy: &Policy, times: &[&str], zone: &TimeZone) -> Vec<usize> {
        kept_at(policy, times, zone, LATER)
    }

    fn kept_at(policy: &Policy, times: &[&str], zone: &TimeZone, now: Time) -> Vec<usize> {
        let times: Vec<Time> = times.iter().map(|text| at(text)).collect();
        let candidates: Vec<_> =
            times.iter().map(|time| Candidate { time: *time, tags: &[] }).collect();
        let reasons = reasons(policy, &candidates, now, zone);
        (0..times.len()).filter(|at| !reasons[*at].is_empty()).collect()
    }

    #[test]
    fn the_newest_of_each_day_is_kept_and_days_without_one_do_not_count() {
        let times = [
            "2024-01-01T08:00:00Z",
            "2024-01-01T20:00:00Z",
            "2024-01-02T09:00:00Z",
            // nothing on the 3rd and 4th
            "2024-01-05T10:00:00Z",
            "2024-01-05T11:00:00Z",
            "2024-01-06T01:00:00Z",
        ];
        assert_eq!(kept(&count(Period::Day, 3), &times, &TimeZone::UTC), [2, 4, 5]);
        assert_eq!(kept(&count(Period::Snapshot, 2), &times, &TimeZone::UTC), [4, 5]);
    }

    #[test]
    fn the_oldest_is_kept_while_the_count_is_not_reached() {
        let times = ["2024-01-01T01:00:00Z", "2024-01-01T02:00:00Z", "2024-01-02T00:00:00Z"];
        assert_eq!(kept(&count(Period::Day, 2), &times, &TimeZone::UTC), [1, 2]);
        assert_eq!(kept(&count(Period::Day, 3), &times, &TimeZone::UTC), [0, 1, 2]);
    }

    #[test]
    fn weeks_are_those_of_iso_8601() {
        // Sunday 2023-12-31 is in week 52 of 2023; Monday 2024-01-01 begins week 1 of 2024, and
        // Monday 2024-12-30 week 1 of 2025.
        let times = [
            "2023-12-31T12:00:00Z",
            "2024-01-01T12:00:00Z",
            "2024-01-07T12:00:00Z",
            "2024-12-29T12:00:00Z",
            "2024-12-30T12:00:00Z",
            "2025-01-05T12:00:00Z",
        ];
        assert_eq!(kept(&count(Period::Week, 9), &times, &TimeZone::UTC), [0, 2, 3, 5]);
        // By the calendar's year, 2024 has four of them.
        assert_eq!(kept(&count(Period::Year, 3), &times, &TimeZone::UTC), [0, 4, 5]);
    }

    #[test]
    fn a_day_is_one_of_the_time_zone() {
        // 23:30 and 00:30 in Berlin, both on the 9th in UTC.
        let times = ["2024-06-09T21:30:00Z", "2024-06-09T22:30:00Z"];
        assert_eq!(kept(&count(Period::Day, 1), &times, &zone("Europe/Berlin")), [1]);
        assert_eq!(kept(&count(Period::Day, 2), &times, &zone("Europe/Berlin")), [0, 1]);
        let in_utc = reasons(
            &count(Period::Day, 5),
            &times.map(|time| Candidate { time: at(time), tags: &[] }),
            LATER,
            &TimeZone::UTC,
        );
        assert_eq!(in_utc, [vec!["oldest daily".to_owned()], vec!["daily".to_owned()]]);
    }

    #[test]
    fn the_hour_that_comes_twice_is_two_hours() {
        // Berlin set clocks back on 2024-10-27 at 03:00 +02:00 to 02:00 +01:00.
        let times = [
            "2024-10-27T01:30:00+02:00",
            "2024-10-27T02:10:00+02:00",
            "2024-10-27T02:40:00+02:00",
            "2024-10-27T02:20:00+01:00",
            "2024-10-27T03:00:00+01:00",
        ];
        assert_eq!(kept(&count(Period::Hour, 9), &times, &zone("Europe/Berlin")), [0, 2, 3, 4]);
        // The day has 25 hours and is one day; its oldest snapshot is kept besides.
        assert_eq!(kept(&count(Period::Day, 1), &times, &zone("Europe/Berlin")), [4]);
    }

    #[test]
    fn a_day_without_an_hour_is_a_day() {
        // Berlin set clocks ahead on 2024-03-31 at 02:00 +01:00 to 03:00 +02:00: a day back from
        // noon of that day is noon of the 30th, 23 hours before.
        let times =
            ["2024-03-30T11:59:00+01:00", "2024-03-30T12:01:00+01:00", "2024-03-31T12:00:00+02:00"];
        let policy = within(Period::Snapshot, "1d");
        assert_eq!(kept(&policy, &times, &zone("Europe/Berlin")), [1, 2]);
        let policy = within(Period::Snapshot, "24h");
        assert_eq!(kept(&policy, &times, &zone("Europe/Berlin")), [0, 1, 2]);
    }

    #[test]
    fn a_year_back_from_the_leap_day_is_the_28th() {
        let times = ["2023-02-27T12:00:00Z", "2023-02-28T12:00:01Z", "2024-02-29T12:00:00Z"];
        assert_eq!(kept(&within(Period::Snapshot, "1y"), &times, &TimeZone::UTC), [1, 2]);
        // A month back from March 31 is February 29.
        let times = ["2024-02-29T11:00:00Z", "2024-02-29T13:00:00Z", "2024-03-31T12:00:00Z"];
        assert_eq!(kept(&within(Period::Snapshot, "1m"), &times, &TimeZone::UTC), [1, 2]);
    }

    #[test]
    fn within_keeps_one_of_each_period() {
        let times = [
            "2024-01-01T12:00:00Z",
            "2024-01-05T08:00:00Z",
            "2024-01-05T12:00:00Z",
            "2024-01-06T12:00:00Z",
        ];
        assert_eq!(kept(&within(Period::Day, "3d"), &times, &TimeZone::UTC), [2, 3]);
    }

    #[test]
    fn a_clock_that_ran_ahead_makes_nothing_older_than_it_is() {
        let times = ["2024-01-01T12:00:00Z", "2024-01-09T12:00:00Z", "2099-01-01T00:00:00Z"];
        let now = at("2024-01-10T00:00:00Z");
        let policy = within(Period::Snapshot, "7d");
        assert_eq!(kept_at(&policy, &times, &TimeZone::UTC, now), [1, 2]);
        // The clock of who forgets is behind: nothing goes.
        let now = at("1999-01-01T00:00:00Z");
        assert_eq!(kept_at(&policy, &times, &TimeZone::UTC, now), [0, 1, 2]);
    }

    #[test]
    fn snapshots_of_the_future_are_kept_and_take_no_place_of_others() {
        let times = [
            "2024-01-01T12:00:00Z",
            "2024-01-08T12:00:00Z",
            "2024-01-09T12:00:00Z",
            "2099-01-01T00:00:00Z",
            "2099-01-02T00:00:00Z",
        ];
        let now = at("2024-01-10T00:00:00Z");
        for (period, expected) in [(Period::Snapshot, 1..5), (Period::Year, 2..5)] {
            let kept = kept_at(&count(period, 2), &times, &TimeZone::UTC, now);
            assert!(expected.clone().all(|at| kept.contains(&at)), "{period}: {kept:?}");
        }
        let time = at("2099-01-01T00:00:00Z");
        let found =
            reasons(&count(Period::Day, 1), &[Candidate { time, tags: &[] }], now, &TimeZone::UTC);
        assert_eq!(found, [[FUTURE]]);
    }

    #[test]
    fn a_clock_that_ran_backwards_changes_only_the_order() {
        // The second backup was made after the first by a clock set back a year.
        let times = ["2024-05-01T12:00:00Z", "2023-05-01T12:00:00Z", "2024-05-02T12:00:00Z"];
        assert_eq!(kept(&count(Period::Snapshot, 2), &times, &TimeZone::UTC), [0, 2]);
        assert_eq!(kept(&count(Period::Year, 9), &times, &TimeZone::UTC), [1, 2]);
    }

    #[test]
    fn times_that_no_calendar_has_are_kept_apart_from_the_others() {
        let times = [i64::MIN, 0, i64::MAX].map(|secs| Time { secs, nanos: 0 });
        let candidates = times.map(|time| Candidate { time, tags: &[] });
        let all = reasons(&count(Period::Year, 5), &candidates, LATER, &TimeZone::UTC);
        assert!(all.iter().all(|reasons| !reasons.is_empty()));
        let none = reasons(&within(Period::Year, "9000y"), &[], LATER, &TimeZone::UTC);
        assert!(none.is_empty());
    }

    #[test]
    fn a_list_of_tags_wants_all_of_them() {
        let tags = [vec!["a".to_owned()], vec!["a".to_owned(), "b".to_owned()], vec![]];
        let candidates: Vec<_> = tags.iter().map(|tags| Candidate { time: LATER, tags }).collect();
        let policy = Policy { tags: vec![vec!["a".into(), "b".into()]], ..Policy::default() };
        let reasons = reasons(&policy, &candidates, LATER, &TimeZone::UTC);
        assert_eq!(reasons, [vec![], vec!["tag a,b".to_owned()], vec![]]);
    }

    #[test]
    fn several_rules_keep_what_any_of_them_wants_and_say_so() {
        let times = ["2024-01-01T00:00:00Z", "2024-02-01T00:00:00Z", "2024-02-02T00:00:00Z"];
        let candidates = times.map(|time| Candidate { time: at(time), tags: &[] });
        let counts = vec![(Period::Snapshot, Count::AtMost(1)), (Period::Month, Count::All)];
        let policy = Policy { counts, ..Policy::default() };
        let reasons = reasons(&policy, &candidates, LATER, &TimeZone::UTC);
        assert_eq!(reasons[0], ["monthly"]);
        assert!(reasons[1].is_empty());
        assert_eq!(reasons[2], ["last", "monthly"]);
    }

    #[test]
    fn durations_are_read_as_restic_writes_them() {
        let parsed: Duration = "1y5m7d2h".parse().unwrap();
        assert_eq!(parsed, Duration { years: 1, months: 5, days: 7, hours: 2 });
        assert_eq!(parsed.to_string(), "1y5m7d2h");
        for bad in ["", "1", "d", "1w", "1d1d", "0d", "-1d", "99999y", "1d 2h", "1é"] {
            assert!(bad.parse::<Duration>().is_err(), "{bad:?}");
        }
        assert_eq!("unlimited".parse(), Ok(Count::All));
        assert_eq!("7".parse(), Ok(Count::AtMost(7)));
        assert!("0".parse::<Count>().is_err() && "x".parse::<Count>().is_err());
    }
}
