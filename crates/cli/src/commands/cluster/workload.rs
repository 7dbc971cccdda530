//! What a simulation writes: a trace of a block device, or one that is made up.

use std::collections::HashMap;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use onefold_bench::trace::{Digest, Kind, Operation, Reader, Shape};
use onefold_cluster::simulate::{Page, Workload};

/// Pages of a trace that are simulated at most; then they begin again.
const MOST_PAGES: usize = 1 << 20;
/// Pages of a made-up trace.
const MADE_UP_PAGES: usize = 1 << 18;
/// Operations of which a made-up trace has as many pages: at least three of four write.
const MADE_UP_OPERATIONS: u64 = 400_000;

/// What a made-up workload resembles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Like {
    /// Pages of which half are known, chosen evenly: StreamDedup's synthetic workload
    Even,
    /// The FIU trace of a mail server
    Mail,
    /// The FIU trace of a web server
    Web,
    /// The FIU trace of home folders, with pages of 512 bytes
    Homes,
}

impl Like {
    pub(super) fn workload(self, seed: u64) -> Result<Workload> {
        let shape = match self {
            Self::Even => return Ok(Workload::even(0.5, seed)),
            Self::Mail => Shape::Mail,
            Self::Web => Shape::Web,
            Self::Homes => Shape::Homes,
        };
        let mut plan = shape.plan(MADE_UP_OPERATIONS);
        plan.seed = seed;
        let operations = plan.generate()?.map(Ok);
        pages(format!("made up like {}", shape.name()), operations, MADE_UP_PAGES)
    }
}

/// The first pages that the trace at `path` writes.
pub(super) fn of_trace(path: &Path) -> Result<Workload> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    pages(name, Reader::open(path)?, MOST_PAGES)
        .with_context(|| format!("cannot simulate trace '{}'", path.display()))
}

/// The pages of all writes, `most` of them at most. Reads need no index.
fn pages(
    name: String,
    operations: impl Iterator<Item = Result<Operation>>,
    most: usize,
) -> Result<Workload> {
    let mut contents: HashMap<Digest, u32> = HashMap::new();
    let mut workload = Workload { name, page_bytes: 0, pages: Vec::new() };
    for operation in operations {
        let operation = operation?;
        if operation.kind == Kind::Read {
            continue;
        }
        let page_bytes = operation.page_size.bytes() as u32;
        if workload.page_bytes == 0 {
            workload.page_bytes = page_bytes;
        }
        ensure!(
            workload.page_bytes == page_bytes,
            "pages of {page_bytes} bytes after pages of {}, expected one size",
            workload.page_bytes
        );
        for digest in operation.digests {
            let next = contents.len() as u32;
            let content = *contents.entry(digest).or_insert(next);
            let prefix = u16::from_be_bytes([digest.0[0], digest.0[1]]);
            workload.pages.push(Page { prefix, content, is_new: content == next });
        }
        if workload.pages.len() >= most {
            workload.pages.truncate(most);
            break;
        }
    }
    ensure!(!workload.pages.is_empty(), "it writes nothing, expected a line with W");
    Ok(workload)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operations(lines: &[String]) -> impl Iterator<Item = Result<Operation>> {
        lines.iter().map(|line| Operation::parse(line.as_bytes()))
    }

    fn line(kind: char, digest: u8) -> String {
        format!("0 1 x 0 8 {kind} 6 0 {}", Digest([digest; 16]))
    }

    #[test]
    fn a_page_is_new_when_its_digest_is_first_written() {
        let lines = [('W', 1), ('R', 2), ('W', 2), ('W', 1)].map(|(kind, one)| line(kind, one));
        let workload = pages("w".into(), operations(&lines), 100).unwrap();
        let page = |one: u16, content, is_new| Page { prefix: 257 * one, content, is_new };
        assert_eq!(workload.pages, [page(1, 0, true), page(2, 1, true), page(1, 0, false)]);
        assert_eq!(workload.page_bytes, 4096);
        assert_eq!(pages("w".into(), operations(&lines), 2).unwrap().pages.len(), 2);
    }

    #[test]
    fn a_trace_that_cannot_be_simulated_is_refused() {
        let error = |lines: &[String]| {
            format!("{:#}", pages("w".into(), operations(lines), 100).unwrap_err())
        };
        assert!(error(&[line('R', 1)]).contains("it writes nothing, expected a line with W"));
        assert!(error(&[line('W', 1), "x".into()]).contains("expected a time in nanoseconds"));
        let short = line('W', 1).replace(" 8 W", " 1 W");
        assert!(error(&[line('W', 1), short]).contains("pages of 512 bytes after pages of 4096"));
    }

    #[test]
    fn made_up_traces_have_the_shares_of_the_traces() {
        for (like, duplicates, page_bytes) in [
            (Like::Even, 0.5, 4096),
            (Like::Mail, 0.93, 4096),
            (Like::Web, 0.58, 4096),
            (Like::Homes, 0.77, 512),
        ] {
            let workload = like.workload(1).unwrap();
            assert_eq!(workload.pages.len(), MADE_UP_PAGES);
            assert_eq!(workload.page_bytes, page_bytes);
            let found = workload.duplicates();
            assert!((found - duplicates).abs() < 0.01, "{like:?}: {found}");
        }
    }
}
