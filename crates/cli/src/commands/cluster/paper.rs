//! What StreamDedup reports of its ten nodes, beside what is simulated.

use onefold_cluster::simulate::Point;

/// A figure of the paper's text, and the simulated one.
pub(super) struct Beside {
    pub(super) claim: &'static str,
    /// In the paper's words, shortened.
    pub(super) reported: &'static str,
    /// Where that stands.
    pub(super) source: &'static str,
    pub(super) simulated: String,
}

/// What can be compared where `points` has one node and ten.
pub(super) fn beside(points: &[Point]) -> Vec<Beside> {
    let of = |gateways| points.iter().find(|point| point.gateways == gateways);
    let (Some(one), Some(ten)) = (of(1), of(10)) else { return Vec::new() };
    let rate = |point: &Point| format!("{:.1} GB/s", point.bytes_per_second / 1e9);
    let latency = |point: &Point| format!("{:.1} µs", point.mean_us);
    let row = |claim, reported, source, simulated| Beside { claim, reported, source, simulated };
    vec![
        row("writes of one node", "12.7 GB/s", "section 5.1; figure 13(a)", rate(one)),
        row("writes of ten nodes", "about 125 GB/s", "section 5.3; figure 13(a)", rate(ten)),
        row(
            "ten nodes as a multiple of one",
            "nearly linear, 9.8",
            "sections 5.1 and 5.3",
            format!("{:.2}", ten.bytes_per_second / one.bytes_per_second),
        ),
        row(
            "a write on one node, mean",
            "less than 50 µs",
            "section 1; figure 13(b)",
            latency(one),
        ),
        row(
            "a write on ten nodes, mean",
            "less than 60 µs",
            "section 5.3; figure 13(b)",
            latency(ten),
        ),
        row(
            "what nine more nodes add to a write",
            "some 10 µs, if both bounds are tight",
            "sections 1 and 5.3",
            format!("{:.1} µs", ten.mean_us - one.mean_us),
        ),
        row(
            "messages, as a part of the links of ten nodes",
            "about 2 %",
            "section 5.3; figure 14",
            format!("{:.1} %", 100.0 * ten.index_link_share),
        ),
    ]
}
