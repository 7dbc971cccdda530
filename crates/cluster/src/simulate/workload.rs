//! The pages that are written.

use super::numbers::Numbers;

/// Pages that a made-up workload has before it begins again.
const PAGES: usize = 1 << 18;

/// A page that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// The first 16 bits of its fingerprint.
    pub prefix: u16,
    /// Which of the contents it has: the same number for the same bytes.
    pub content: u32,
    /// Whether nothing with these bytes was written before.
    pub is_new: bool,
}

/// Pages in the order in which they are written. When all have been, they begin again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    /// For people.
    pub name: String,
    /// The length of a page.
    pub page_bytes: u32,
    /// All of them.
    pub pages: Vec<Page>,
}

impl Workload {
    /// Pages of 4 KiB of which some are new and the others chosen evenly, as in StreamDedup's
    /// synthetic workloads; `duplicates` is the share of the others, from 0 to 1.
    pub fn even(duplicates: f64, seed: u64) -> Self {
        let mut numbers = Numbers::new(seed);
        let pages = (0..PAGES as u32).map(|content| Page {
            prefix: (numbers.next() >> 48) as u16,
            content,
            is_new: numbers.share() >= duplicates,
        });
        Self { name: "even".into(), page_bytes: 4096, pages: pages.collect() }
    }

    /// The share of pages that are not new, from 0 to 1.
    pub fn duplicates(&self) -> f64 {
        let known = self.pages.iter().filter(|page| !page.is_new).count();
        known as f64 / self.pages.len() as f64
    }

    /// The share of pages with the content that comes most often: it is asked of one gateway.
    pub fn hottest(&self) -> f64 {
        let mut contents: Vec<u32> = self.pages.iter().map(|page| page.content).collect();
        contents.sort_unstable();
        let most = contents.chunk_by(|a, b| a == b).map(<[u32]>::len).max().unwrap_or(0);
        most as f64 / self.pages.len() as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_even_workload_has_its_share_of_duplicates_in_all_ranges() {
        let workload = Workload::even(0.8, 1);
        assert!((workload.duplicates() - 0.8).abs() < 0.005, "{}", workload.duplicates());
        let mut counts = [0; 16];
        for page in &workload.pages {
            counts[usize::from(page.prefix >> 12)] += 1;
        }
        assert!(counts.iter().all(|count| (15_500..17_300).contains(count)), "{counts:?}");
        assert_eq!(workload.hottest(), 1.0 / PAGES as f64);
    }

    #[test]
    fn the_hottest_content_is_counted() {
        let page = |content| Page { prefix: 0, content, is_new: false };
        let pages = [1, 2, 3, 2].map(page).to_vec();
        assert_eq!(Workload { name: "w".into(), page_bytes: 512, pages }.hottest(), 0.5);
    }
}
