//! What fio writes: blocks of which a share come again, and of which a share compresses.

use anyhow::Result;

use crate::build::order::{Allowed, Choice};
use crate::build::site::Site;
use crate::build::tool::run;
use crate::build::{Cost, Recipe, Sameness, Tool};

const TOOL: Tool = Tool::new("fio", "fio");

pub(super) const FIO: Recipe = Recipe {
    name: "fio",
    kind: "synthetic blocks",
    about: "blocks of 4 KiB as fio writes them, a share of them duplicates",
    source: None,
    choices: &[
        Choice::length(4096),
        Choice {
            name: "dedupe",
            about: "blocks that are duplicates, in percent",
            standard: "50",
            allowed: Allowed::Number(0, 100),
        },
        Choice {
            name: "compress",
            about: "what compression can take from a block, in percent",
            standard: "50",
            allowed: Allowed::Number(0, 100),
        },
        Choice::seed("42"),
    ],
    sameness: Sameness::NotBytes("versions of fio draw differently"),
    tools: &[TOOL],
    cost: |choices| Cost { built: choices.number("bytes"), download: 0, scratch: 0 },
    build,
};

fn build(site: &Site) -> Result<()> {
    site.each(&["blocks.bin"], |_, to| {
        let mut command = TOOL.command();
        command.args(["--name=onefold", "--rw=write", "--ioengine=sync", "--bs=4k"]);
        command.args(["--refill_buffers=1", "--output=/dev/null"]);
        command.arg(format!("--size={}", site.number("bytes")));
        command.arg(format!("--randseed={}", site.number("seed")));
        command.arg(format!("--dedupe_percentage={}", site.number("dedupe")));
        command.arg(format!("--buffer_compress_percentage={}", site.number("compress")));
        // a colon would separate two files
        command.arg("--filename=unfinished.bin").current_dir(site.room("fio")?);
        run(&mut command)?;
        Ok(std::fs::rename(site.work.join("fio/unfinished.bin"), to)?)
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use onefold_bench::Dataset;

    use super::*;
    use crate::build::Plan;
    use crate::build::site::tests::Nobody;

    /// 4,096 blocks of which the share is a duplicate: four deviations are 3 %.
    #[test]
    fn as_many_blocks_come_again_as_were_asked_for() {
        if TOOL.find().is_none() {
            onefold_testkit::skip("no fio here to write blocks");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        for percent in [0, 50] {
            let order = format!("fio:bytes=16777216,dedupe={percent}").parse().unwrap();
            let plan = Plan::new(order, folder.path()).unwrap();
            let home = plan.folder.clone();
            plan.build(&Nobody).unwrap();
            let built = Dataset::read(&home, None).unwrap();
            let blocks: Vec<&[u8]> = built.bytes().chunks(4096).collect();
            let distinct = blocks.iter().collect::<HashSet<_>>().len();
            let found = 100.0 - 100.0 * distinct as f64 / blocks.len() as f64;
            assert_eq!(blocks.len(), 4096);
            assert!((found - f64::from(percent)).abs() < 3.0, "{found} %, expected {percent} %");
        }
    }
}
