//! Time of processors that processes took, by /proc.

use std::fs;

use anyhow::{Context, Result};

/// Parts of a second in which Linux counts.
const TICKS: f64 = 100.0;

/// Seconds of processors that a process took since it began.
pub(super) fn of_process(process: u32) -> Result<f64> {
    let path = format!("/proc/{process}/stat");
    let text = fs::read_to_string(&path).with_context(|| path.clone())?;
    ticks(&text).map(|ticks| ticks / TICKS).with_context(|| format!("{path}: {text}"))
}

/// Those in `text`, which begins with a number and a name in parentheses that may have any character.
fn ticks(text: &str) -> Option<f64> {
    let (_, rest) = text.rsplit_once(") ")?;
    let mut fields = rest.split(' ').skip(11);
    let (user, system) = (fields.next()?, fields.next()?);
    Some(user.parse::<f64>().ok()? + system.parse::<f64>().ok()?)
}

/// Seconds in which all processors of the machine were busy and idle since it began.
pub(super) fn of_machine() -> Result<(f64, f64)> {
    let text = fs::read_to_string("/proc/stat").context("/proc/stat")?;
    busy_and_idle(&text).with_context(|| format!("/proc/stat: {text}"))
}

fn busy_and_idle(text: &str) -> Option<(f64, f64)> {
    let line = text.lines().next()?.strip_prefix("cpu ")?;
    let times: Vec<f64> = line.split_whitespace().map_while(|one| one.parse().ok()).collect();
    let idle = times.get(3)? + times.get(4)?;
    // guests are counted in what is before them
    let all: f64 = times.iter().take(8).sum();
    Some(((all - idle) / TICKS, idle / TICKS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_found_behind_any_name() {
        let stat = "17 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 250 50 0 0 20 0";
        assert_eq!(ticks(stat), Some(300.0));
        assert_eq!(ticks("17 (a"), None);
        let stat = "cpu  100 0 50 700 50 10 20 30 5 5\ncpu0 1 2";
        assert_eq!(busy_and_idle(stat), Some((2.1, 7.5)));
        assert_eq!(busy_and_idle("cpu 1"), None);
    }
}
