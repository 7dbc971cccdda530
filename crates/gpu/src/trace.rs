use std::fmt;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// What a segment goes through, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// Waiting for a lane.
    Lane,
    /// Reading the input.
    Read,
    /// Copying to the device. In a run without a trace this is the time to start it.
    Upload,
    /// Candidates or chains, by the device.
    Search,
    /// Waiting for the cut-points of the segment before.
    Turn,
    /// Selection of cut-points, by the host.
    Select,
    /// Fingerprints, by the device.
    Fingerprint,
    /// What takes the chunks.
    Store,
}

impl Stage {
    /// Every stage.
    pub const ALL: [Self; 8] = [
        Self::Lane,
        Self::Read,
        Self::Upload,
        Self::Search,
        Self::Turn,
        Self::Select,
        Self::Fingerprint,
        Self::Store,
    ];

    /// A word for tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lane => "lane",
            Self::Read => "read",
            Self::Upload => "upload",
            Self::Search => "search",
            Self::Turn => "turn",
            Self::Select => "select",
            Self::Fingerprint => "fingerprint",
            Self::Store => "store",
        }
    }
}

/// When a segment was in a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The segment, counted from 0.
    pub segment: u64,
    /// The stage.
    pub stage: Stage,
    /// Since the run began.
    pub start: Duration,
    /// How long.
    pub length: Duration,
}

/// The stages of all segments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace(Vec<Span>);

impl Trace {
    /// Every span, in no order.
    pub fn spans(&self) -> &[Span] {
        &self.0
    }

    /// How long segments were in `stage`, all together.
    pub fn total(&self, stage: Stage) -> Duration {
        self.0.iter().filter(|span| span.stage == stage).map(|span| span.length).sum()
    }
}

impl fmt::Display for Trace {
    /// As browsers show traces (`chrome://tracing`): an array of JSON, a row for each stage.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (i, Span { segment, stage, start, length }) in self.0.iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            let name = stage.name();
            let (start, length) = (start.as_micros(), length.as_micros());
            write!(
                f,
                "{comma}\n{{\"name\":\"{name} {segment}\",\"cat\":\"{name}\",\"ph\":\"X\",\"pid\":0,\
                 \"tid\":\"{name}\",\"ts\":{start},\"dur\":{length}}}"
            )?;
        }
        f.write_str("\n]\n")
    }
}

/// Takes the spans of a run as they end.
pub(crate) struct Clock {
    began: Instant,
    spans: Mutex<Vec<Span>>,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self { began: Instant::now(), spans: Mutex::new(Vec::new()) }
    }

    /// Does `work` and notes how long it took.
    pub(crate) fn time<T>(&self, segment: u64, stage: Stage, work: impl FnOnce() -> T) -> T {
        let start = self.began.elapsed();
        let done = work();
        let length = self.began.elapsed() - start;
        let mut spans = self.spans.lock().expect("no one panics while it adds a span");
        spans.push(Span { segment, stage, start, length });
        done
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    pub(crate) fn into_trace(self) -> Trace {
        Trace(self.spans.into_inner().expect("no one panics while it adds a span"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_adds_up_and_is_json() {
        let clock = Clock::start();
        for segment in 0..3 {
            clock.time(segment, Stage::Read, || std::thread::sleep(Duration::from_millis(2)));
            clock.time(segment, Stage::Store, || ());
        }
        let trace = clock.into_trace();
        assert_eq!(trace.spans().len(), 6);
        assert!(trace.total(Stage::Read) >= Duration::from_millis(6));
        assert_eq!(trace.total(Stage::Upload), Duration::ZERO);
        let events: serde_json::Value = serde_json::from_str(&trace.to_string()).unwrap();
        assert_eq!(events.as_array().unwrap().len(), 6);
        assert_eq!(events[0]["name"], "read 0");
    }
}
