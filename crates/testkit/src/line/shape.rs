use std::time::Duration;

/// The latency and bandwidth of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// Latency in each direction; a round trip takes twice as long.
    pub one_way: Duration,
    /// Bandwidth of each direction, which all connections share; `None` for no limit.
    pub bytes_per_second: Option<u64>,
    /// How many leading components of a request's path name the repository, the bucket included.
    /// The component behind them is the [`folder`](super::Request::folder) of a request.
    pub repository_depth: usize,
}
