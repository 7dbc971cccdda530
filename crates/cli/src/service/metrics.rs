//! The metrics of a served pool, which docs/volumes.md describes.

#[cfg(feature = "cluster")]
use std::collections::BTreeMap;
use std::fmt;
#[cfg(feature = "cluster")]
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

#[cfg(feature = "cluster")]
use onefold_backend::rados::{RadosCounters, RadosCounts};
use onefold_block::{LATENCIES, Measurements, Operation, Refusal};
#[cfg(feature = "cluster")]
use onefold_cluster::Gateway;
#[cfg(feature = "cluster")]
use onefold_cluster::pooled::{HintCounters, PooledHints};
use onefold_nbd::ExportList;
use onefold_volume::{Pool, Statistics};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

/// How old the count of a table may be: counting reads all of its memory.
const COUNT_EVERY: Duration = Duration::from_secs(60);

/// Size of the sample of the table's chains whose lengths are measured.
const CHAINS: usize = 4096;

/// Chains with at least this many entries are counted together. At a mean of eight, four of a million are
/// this long.
const LONG_CHAIN: usize = 24;

/// Computes the current metrics on request; it collects nothing between requests.
pub(crate) struct Metrics(Registry);

impl Metrics {
    pub(crate) fn new(pool: Pool, exports: ExportList, measurements: Arc<Measurements>) -> Self {
        let mut registry = Registry::with_prefix("onefold");
        let counted = Mutex::default();
        registry.register_collector(Box::new(Collected { pool, exports, measurements, counted }));
        Self(registry)
    }

    /// Adds those of the hints that gateways share.
    #[cfg(feature = "cluster")]
    pub(crate) fn add_hints(&mut self, hints: &Arc<PooledHints>) {
        self.0.register_collector(Box::new(Hinted(Arc::clone(hints))));
    }

    /// Adds those of the upkeep of containers that shards share.
    #[cfg(feature = "cluster")]
    pub(crate) fn add_space(&mut self, counts: &Arc<SpaceCounts>) {
        self.0.register_collector(Box::new(OfSpace(Arc::clone(counts))));
    }

    /// Adds the counters of operations and bytes that the process exchanges with RADOS.
    #[cfg(feature = "cluster")]
    pub(crate) fn add_rados(&mut self, counters: &Arc<RadosCounters>) {
        self.0.register_collector(Box::new(OfRados(Arc::clone(counters))));
    }

    /// Those of a gateway of a cluster.
    #[cfg(feature = "cluster")]
    pub(crate) fn of_gateway(
        gateway: &Arc<Gateway>,
        exports: ExportList,
        measurements: Arc<Measurements>,
    ) -> Self {
        let mut registry = Registry::with_prefix("onefold");
        let gateway = Arc::clone(gateway);
        registry.register_collector(Box::new(OfRoom(Arc::clone(&gateway))));
        registry.register_collector(Box::new(OfGateway { gateway, exports, measurements }));
        Self(registry)
    }

    /// All of them in the text format of OpenMetrics.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        encode(&mut text, &self.0).expect("a string takes everything");
        text
    }
}

#[cfg(feature = "cluster")]
struct OfGateway {
    gateway: Arc<Gateway>,
    exports: ExportList,
    measurements: Arc<Measurements>,
}

#[cfg(feature = "cluster")]
impl fmt::Debug for OfGateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("metrics of a gateway")
    }
}

#[cfg(feature = "cluster")]
impl Collector for OfGateway {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut page = Page(&mut encoder);
        let shards = self.gateway.open_shards();
        let all: Vec<Statistics> = shards.iter().map(|shard| shard.pool().statistics()).collect();
        let sum = |of: fn(&Statistics) -> u64| all.iter().map(of).sum::<u64>();
        page.gauge("shards", "Shards that this gateway has open", all.len() as u64)?;
        let help = "Milliseconds for which reads are answered unless the lease is renewed";
        page.gauge("lease_left_ms", help, self.gateway.lease().left().as_millis() as u64)?;
        let help = "Volumes in open shards, including snapshots";
        page.gauge("volumes", help, sum(|one| one.volumes))?;
        page.gauge("snapshots", "Read-only volumes", sum(|one| one.snapshots))?;
        let help = "Bytes of blocks that are not holes";
        page.gauge("mapped_bytes", help, sum(|one| one.mapped_bytes))?;
        page.gauge("pages", "Distinct pages in use, by shard", sum(|one| one.pages))?;
        page.gauge("page_bytes", "Bytes of these pages in containers", sum(|one| one.page_bytes))?;
        page.gauge("container_bytes", "Bytes of containers", sum(|one| one.container_bytes))?;
        let help = "Bytes of containers that a compaction would free";
        page.gauge("reclaimable_bytes", help, sum(|one| one.reclaimable_bytes))?;
        let help = "Containers that cannot be read or have lost pages";
        page.gauge("damaged_containers", help, sum(|one| one.damaged_containers))?;
        let help = "Bytes of the journals after the checkpoints";
        page.gauge("journal_bytes", help, sum(|one| one.journal_bytes))?;
        let help = "Bytes of tables of fingerprints";
        page.gauge("table_bytes", help, sum(|one| one.table_bytes as u64))?;
        page.gauge("resident_nodes", "Nodes in memory", sum(|one| one.resident_nodes))?;
        let connections = u64::from(self.exports.connections());
        page.gauge("connections", "Connected NBD clients", connections)?;
        requests(&mut page, &self.measurements)
    }
}

struct Collected {
    pool: Pool,
    exports: ExportList,
    measurements: Arc<Measurements>,
    /// The content of the table, and when it was counted.
    counted: Mutex<Option<(Instant, Counted)>>,
}

/// The content of the table of fingerprints.
#[derive(Clone)]
struct Counted {
    entries: u64,
    /// Of a sample of chains those with 0, 1, 2 and so on entries, if the table has chains.
    chains: Option<Vec<u64>>,
}

impl fmt::Debug for Collected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("metrics of a pool")
    }
}

/// The label of an operation.
pub(crate) fn label(operation: Operation) -> &'static str {
    match operation {
        Operation::Read => "read",
        Operation::Write => "write",
        Operation::Erase => "erase",
        Operation::WriteZeroes => "zeroes",
        Operation::Flush => "flush",
    }
}

fn error_label(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::NoSpace => "no_space",
        Refusal::Io => "io",
        Refusal::Other => "refused",
    }
}

impl Collector for Collected {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let sums = self.pool.statistics();
        let mut page = Page(&mut encoder);
        pool(&mut page, &sums)?;
        table(&mut page, &sums, &self.counted())?;
        let is_stopped = u64::from(self.pool.stopped().is_some());
        page.gauge("stopped", "Whether the pool has stopped accepting changes", is_stopped)?;
        let connections = u64::from(self.exports.connections());
        page.gauge("connections", "Connected NBD clients", connections)?;
        requests(&mut page, &self.measurements)
    }
}

impl Collected {
    fn counted(&self) -> Counted {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        match &*counted {
            Some((when, counted)) if when.elapsed() < COUNT_EVERY => counted.clone(),
            _ => {
                let entries = self.pool.table_entries() as u64;
                let chains = self.pool.chain_lengths(CHAINS);
                counted.insert((Instant::now(), Counted { entries, chains })).1.clone()
            }
        }
    }
}

fn pool(page: &mut Page<'_, '_>, sums: &Statistics) -> fmt::Result {
    let ratio = |of: u64, by: u64| if by == 0 { 1.0 } else { of as f64 / by as f64 };
    page.gauge("volumes", "Volumes, including snapshots", sums.volumes)?;
    page.gauge("snapshots", "Read-only volumes", sums.snapshots)?;
    page.gauge("mapped_bytes", "Bytes of blocks that are not holes", sums.mapped_bytes)?;
    page.gauge("pages", "Distinct pages in use", sums.pages)?;
    page.gauge("page_bytes", "Bytes of these pages in containers", sums.page_bytes)?;
    page.gauge("container_bytes", "Bytes of containers on disk", sums.container_bytes)?;
    let help = "Bytes of containers that a compaction would free";
    page.gauge("reclaimable_bytes", help, sums.reclaimable_bytes)?;
    let help = "Containers that cannot be read or have lost pages";
    page.gauge("damaged_containers", help, sums.damaged_containers)?;
    page.gauge("journal_bytes", "Bytes of the journal after the checkpoint", sums.journal_bytes)?;
    if let Some(quota) = sums.quota {
        page.gauge("quota_bytes", "Maximum bytes of containers", quota)?;
    }
    let deduplication = ratio(sums.mapped_blocks, sums.pages);
    page.ratio("deduplication_ratio", "Mapped blocks per page", deduplication)?;
    let compression = ratio(sums.new_bytes, sums.new_stored_bytes);
    let help = "Bytes per stored byte, of pages written since the start";
    page.ratio("compression_ratio", help, compression)?;
    let reduction = ratio(sums.mapped_bytes, sums.container_bytes);
    page.ratio("total_reduction", "Mapped bytes per byte of containers", reduction)?;
    page.counters(
        "written_pages",
        "Whole pages written, by outcome",
        "kind",
        [
            ("known", sums.known_pages),
            ("new", sums.new_pages),
            ("zero", sums.zero_pages),
            ("over_quota", sums.over_quota_pages),
        ],
    )?;
    page.counter("new_page_bytes", "Bytes of new pages before compression", sums.new_bytes)?;
    let help = "Bytes of new pages in containers";
    page.counter("new_page_stored_bytes", help, sums.new_stored_bytes)?;
    page.counter("commits", "Commits to the journal", sums.commits)?;
    nodes(page, sums)
}

/// What memory holds of maps and tables of pages, and what more of it would bring.
fn nodes(page: &mut Page<'_, '_>, sums: &Statistics) -> fmt::Result {
    page.gauge("nodes", "Nodes of maps and tables of pages, 4 KiB each", sums.nodes)?;
    page.gauge("resident_nodes", "Nodes in memory", sums.resident_nodes)?;
    let help = "Nodes in memory that were changed since they were stored";
    page.gauge("dirty_nodes", help, sums.dirty_nodes)?;
    if let Some(most) = sums.most_nodes {
        page.gauge("most_nodes", "Nodes that may be in memory", most)?;
    }
    page.counter("node_hits", "Steps whose nodes were all in memory", sums.node_hits)?;
    page.counter("node_misses", "Nodes that had to be read", sums.node_misses)?;
    let help = "Nodes that had to be read, and would not with twice the memory";
    page.counter("node_misses_for_want", help, sums.node_misses_for_want)?;
    let help = "References that are not counted with their pages yet";
    page.gauge("pending_references", help, sums.pending_references)
}

fn table(page: &mut Page<'_, '_>, sums: &Statistics, counted: &Counted) -> fmt::Result {
    page.gauge("table_entries", "Fingerprints in the table, up to a minute ago", counted.entries)?;
    let capacity = sums.table_capacity as u64;
    page.gauge("table_capacity", "Maximum fingerprints in the table", capacity)?;
    page.gauge("table_buckets", "Buckets of the table", sums.table_buckets as u64)?;
    if let Some(chains) = &counted.chains {
        let help = "Chains with this many entries, in a sample, up to a minute ago";
        page.lengths("table_chains", help, chains)?;
    }
    let help = "New pages that did not fit in the table and are not found again";
    page.counter("unindexed_pages", help, sums.unindexed_pages)?;
    let help = "Of this many fingerprints the table keeps about one; 1 while it keeps all";
    page.gauge("table_one_in", help, sums.table_one_in)?;
    let help = "Pages not in the table that were found beside one that is";
    page.counter("neighbour_pages", help, sums.neighbour_pages)?;
    let help = "Directories of containers that were read to find such pages";
    page.counter("directories_read", help, sums.directories_read)?;
    let help = "Directories of containers in memory, to find such pages";
    page.gauge("cached_directories", help, sums.cached_directories as u64)?;
    let help = "Memory of these directories";
    page.gauge("cached_directory_bytes", help, sums.cached_directory_bytes as u64)?;
    let counters = sums.table_counters;
    let help = "Chain walks after a false positive of a Bloom filter";
    page.counter("table_false_positives", help, counters.false_positives)?;
    page.counter("table_rebuilt_filters", "Rebuilt filters", counters.rebuilt_filters)
}

fn requests(page: &mut Page<'_, '_>, measurements: &Measurements) -> fmt::Result {
    let all = Operation::ALL.map(|operation| (operation, measurements.of(operation)));
    let bytes = all.each_ref().map(|(operation, measured)| (label(*operation), measured.bytes));
    page.counters("request_bytes", "Bytes of requests that succeeded", "operation", bytes)?;
    let help = "Requests that failed";
    let mut errors = page.metric("request_errors", help, MetricType::Counter)?;
    for (operation, measured) in &all {
        for (refusal, count) in Refusal::ALL.into_iter().zip(measured.errors) {
            let labels = [("operation", label(*operation)), ("error", error_label(refusal))];
            errors.encode_family(&labels)?.encode_counter::<NoLabelSet, _, f64>(&count, None)?;
        }
    }
    let help = "Time that the pool took for a request";
    let mut seconds = page.metric("request_duration_seconds", help, MetricType::Histogram)?;
    for (operation, measured) in &all {
        let bounds = LATENCIES.iter().map(Duration::as_secs_f64).chain([f64::MAX]);
        let buckets: Vec<(f64, u64)> = bounds.zip(measured.buckets).collect();
        let labels = [("operation", label(*operation))];
        let (time, count) = (measured.time.as_secs_f64(), measured.count());
        seconds
            .encode_family(&labels)?
            .encode_histogram::<NoLabelSet>(time, count, &buckets, None)?;
    }
    Ok(())
}

/// The hints that gateways share.
#[cfg(feature = "cluster")]
struct Hinted(Arc<PooledHints>);

#[cfg(feature = "cluster")]
impl fmt::Debug for Hinted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("metrics of hints")
    }
}

#[cfg(feature = "cluster")]
impl Collector for Hinted {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut page = Page(&mut encoder);
        let others = self.0.others();
        let up = others.iter().filter(|(.., is_up)| *is_up).count() as u64;
        page.gauge("peers", "Other gateways that are alive", others.len() as u64)?;
        page.gauge("connected_peers", "Other gateways with a connection", up)?;
        page.gauge("hints", "Pages that this gateway knows for all", self.0.count() as u64)?;
        let HintCounters { lookups, hits, late, added, dropped, .. } = self.0.counters();
        let HintCounters { asked, answered, passed_over, .. } = self.0.counters();
        let HintCounters { sent_bytes, received_bytes, .. } = self.0.counters();
        let HintCounters { finds, tells, footers, filled, .. } = self.0.counters();
        for (name, help, value) in [
            ("hint_lookups", "Fingerprints that shards looked up", lookups),
            ("hint_hits", "Looked up fingerprints that had a hint", hits),
            ("hint_late", "Looked up fingerprints whose gateway gave no answer in time", late),
            ("hint_added", "Pages that shards told of", added),
            ("hint_dropped", "Pages that another gateway was not told", dropped),
            ("hint_asked", "Fingerprints that other gateways looked up here", asked),
            ("hint_answered", "Fingerprints of other gateways that had a hint", answered),
            ("hint_passed_over", "Pages that had no room here", passed_over),
            ("hint_footers", "Footers of containers that are younger than dumps", footers),
            ("hint_filled", "Pages that such footers named and no dump", filled),
        ] {
            page.counter(name, help, value)?;
        }
        let bytes = [("sent", sent_bytes), ("received", received_bytes)];
        page.counters("hint_bytes", "Bytes of hints between gateways", "direction", bytes)?;
        let sent = [("find", finds), ("add", tells)];
        page.counters("hint_messages", "Messages of hints to other gateways", "kind", sent)
    }
}

/// What this gateway asked of RADOS.
#[cfg(feature = "cluster")]
#[derive(Debug)]
struct OfRados(Arc<RadosCounters>);

#[cfg(feature = "cluster")]
impl Collector for OfRados {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut page = Page(&mut encoder);
        let RadosCounts { updates, queries, lists, written_bytes, read_bytes } = self.0.counts();
        let operations = [("update", updates), ("query", queries), ("list", lists)];
        page.counters("rados_operations", "Operations sent to RADOS", "kind", operations)?;
        let bytes = [("written", written_bytes), ("read", read_bytes)];
        page.counters("rados_bytes", "Bytes written to and read from RADOS", "direction", bytes)
    }
}

/// What the upkeep of containers that shards share found and did.
#[cfg(feature = "cluster")]
#[derive(Debug, Default)]
pub(crate) struct SpaceCounts {
    /// Problems of the last check that are no leaks.
    pub(crate) problems: AtomicU64,
    /// Leaks that were removed.
    pub(crate) repaired: AtomicU64,
    /// Containers that were closed because little of them was used.
    pub(crate) closed: AtomicU64,
    /// Shards that nobody used and that were opened so that they let containers go.
    pub(crate) tended: AtomicU64,
    /// Containers that this gateway scrubbed.
    pub(crate) scrubbed: AtomicU64,
    /// Lost blocks of volumes that are open here, as far as scrubs found them.
    pub(crate) lost: Mutex<BTreeMap<String, u64>>,
}

#[cfg(feature = "cluster")]
#[derive(Debug)]
struct OfSpace(Arc<SpaceCounts>);

#[cfg(feature = "cluster")]
impl Collector for OfSpace {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut page = Page(&mut encoder);
        let SpaceCounts { problems, repaired, closed, tended, scrubbed, lost } = &*self.0;
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let help = "Damaged containers, or containers without protection, at the last check";
        page.gauge("container_problems", help, of(problems))?;
        let help = "Registrations and containers that no shard needed and that were removed";
        page.counter("container_leaks_removed", help, of(repaired))?;
        let help = "Containers that were closed because little of them was used";
        page.counter("containers_closed", help, of(closed))?;
        let help = "Shards that nobody used and that were opened so that they let containers go";
        page.counter("shards_tended", help, of(tended))?;
        let help = "Containers that this gateway read and verified";
        page.counter("containers_scrubbed", help, of(scrubbed))?;
        let help = "Blocks of a volume that are lost, as far as scrubs found them";
        let mut blocks = page.metric("lost_blocks", help, MetricType::Gauge)?;
        for (volume, count) in &*lost.lock().unwrap_or_else(PoisonError::into_inner) {
            blocks.encode_family(&[("volume", volume.as_str())])?.encode_gauge(count)?;
        }
        Ok(())
    }
}

#[cfg(feature = "cluster")]
/// What the domain has stored, as this gateway counted it last for its quota.
struct OfRoom(Arc<Gateway>);

#[cfg(feature = "cluster")]
impl fmt::Debug for OfRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("metrics of the quota")
    }
}

#[cfg(feature = "cluster")]
impl Collector for OfRoom {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut page = Page(&mut encoder);
        let Some(stored) = self.0.stored() else { return Ok(()) };
        let help =
            "Bytes of containers of the cluster, by the last count and what gateways said since";
        page.gauge("cluster_stored_bytes", help, stored.bytes)?;
        let help = "Bytes of containers that several shards use, at the last count";
        page.gauge("cluster_shared_bytes", help, stored.shared_bytes)?;
        if let Some(quota) = stored.quota {
            page.gauge("cluster_quota_bytes", "Maximum bytes of containers of the cluster", quota)?;
        }
        Ok(())
    }
}

/// Where metrics are written.
struct Page<'a, 'e>(&'a mut DescriptorEncoder<'e>);

impl Page<'_, '_> {
    fn metric<'s>(
        &'s mut self,
        name: &'s str,
        help: &str,
        kind: MetricType,
    ) -> Result<MetricEncoder<'s>, fmt::Error> {
        self.0.encode_descriptor(name, help, None, kind)
    }

    fn gauge(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        self.metric(name, help, MetricType::Gauge)?.encode_gauge(&value)
    }

    fn ratio(&mut self, name: &str, help: &str, value: f64) -> fmt::Result {
        self.metric(name, help, MetricType::Gauge)?.encode_gauge(&value)
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        let mut metric = self.metric(name, help, MetricType::Counter)?;
        metric.encode_counter::<NoLabelSet, _, f64>(&value, None)
    }

    /// A gauge for each length, and one for all from [`LONG_CHAIN`] on.
    fn lengths(&mut self, name: &str, help: &str, counts: &[u64]) -> fmt::Result {
        let mut metric = self.metric(name, help, MetricType::Gauge)?;
        for length in 0..=LONG_CHAIN {
            let (label, count) = match length {
                LONG_CHAIN => (format!("{length}+"), counts.iter().skip(length).sum()),
                _ => (length.to_string(), counts.get(length).copied().unwrap_or(0)),
            };
            metric.encode_family(&[("length", label.as_str())])?.encode_gauge(&count)?;
        }
        Ok(())
    }

    /// A counter for each value of one label.
    fn counters<const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        label: &str,
        values: [(&str, u64); N],
    ) -> fmt::Result {
        let mut metric = self.metric(name, help, MetricType::Counter)?;
        for (value, count) in values {
            let labels = [(label, value)];
            metric.encode_family(&labels)?.encode_counter::<NoLabelSet, _, f64>(&count, None)?;
        }
        Ok(())
    }
}
