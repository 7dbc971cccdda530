//! What a gateway cannot reach for a while, while others can.

use std::sync::{Arc, Mutex};

use onefold_backend::rados::Fate;
use onefold_cluster::hints::{Hint, Hints};
use onefold_fingerprint::Fingerprint;

/// What is cut off from a gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// RADOS: what the gateway sends is lost.
    Requests,
    /// RADOS: it does what the gateway asks for, and its answers are lost.
    Answers,
    /// RADOS: what the gateway sends arrives later, in any order.
    Stalled,
    /// The other gateways.
    Peers,
    /// RADOS and the other gateways.
    All,
}

impl Cut {
    const ALL: [Self; 5] = [Self::Requests, Self::Answers, Self::Stalled, Self::Peers, Self::All];

    pub(crate) fn chosen(number: u64) -> Self {
        Self::ALL[number as usize % Self::ALL.len()]
    }

    /// What becomes of an operation on an object.
    pub(crate) fn fate(self) -> Option<Fate> {
        match self {
            Self::Requests | Self::All => Some(Fate::Lost),
            Self::Answers => Some(Fate::AnswerLost),
            Self::Stalled => Some(Fate::Late),
            Self::Peers => None,
        }
    }

    fn is_of_peers(self) -> bool {
        matches!(self, Self::Peers | Self::All)
    }
}

/// The partitions of all gateways, by their numbers, and until when each lasts.
#[derive(Debug, Default)]
pub(crate) struct Partitions(Mutex<Vec<Option<(Cut, u64)>>>);

impl Partitions {
    pub(crate) fn new(gateways: usize) -> Self {
        Self(Mutex::new(vec![None; gateways]))
    }

    pub(crate) fn begin(&self, gateway: usize, cut: Cut, until: u64) {
        self.0.lock().unwrap()[gateway] = Some((cut, until));
    }

    /// What is cut off from a gateway at `time`, and until when.
    pub(crate) fn of(&self, gateway: usize, time: u64) -> Option<(Cut, u64)> {
        self.0.lock().unwrap()[gateway].filter(|(_, until)| time < *until)
    }
}

/// What one gateway gets and tells of the hints of all.
pub(crate) struct CutHints<N> {
    pub(crate) all: Arc<dyn Hints>,
    /// What is cut off from the gateway now.
    pub(crate) now: N,
}

impl<N: Fn() -> Option<Cut>> CutHints<N> {
    fn is_cut(&self) -> bool {
        (self.now)().is_some_and(Cut::is_of_peers)
    }
}

impl<N: Fn() -> Option<Cut> + Send + Sync> Hints for CutHints<N> {
    fn find(&self, fingerprints: &[Fingerprint]) -> Vec<Option<Hint>> {
        if self.is_cut() { ().find(fingerprints) } else { self.all.find(fingerprints) }
    }

    fn add(&self, pages: &[(Fingerprint, Hint)]) {
        if !self.is_cut() {
            self.all.add(pages);
        }
    }
}
