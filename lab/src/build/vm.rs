//! Disk images of small Debian systems, made without mounting anything.

use anyhow::{Result, ensure};

use crate::build::order::{Allowed, Choice};
use crate::build::site::{Site, remove};
use crate::build::tool::{fetch, run};
use crate::build::{Cost, MB, Recipe, Sameness, Tool, apt};

const DEBOOTSTRAP: Tool = Tool::new("debootstrap", "debootstrap");
const UNSHARE: Tool = Tool::new("unshare", "util-linux");
const MKE2FS: Tool = Tool::new("mke2fs", "e2fsprogs");

pub(super) const VM: Recipe = Recipe {
    name: "vm",
    kind: "disk images",
    about: "four ext4 images of Debian 12, bare and with a server each; mostly zeros",
    source: Some(apt::ARCHIVE),
    choices: &[Choice {
        name: "count",
        about: "images, the bare one first",
        standard: "4",
        allowed: Allowed::Number(1, IMAGES.len() as u64),
    }],
    sameness: Sameness::NotBytes("installing notes down times, and packages are updated"),
    tools: &[DEBOOTSTRAP, UNSHARE, MKE2FS],
    cost: |choices| {
        let count = choices.number("count");
        Cost { built: count * 2148 * MB, download: count * 100 * MB, scratch: 1000 * MB }
    },
    build,
};

/// What is put in besides the smallest system, by the name of the image.
const IMAGES: [(&str, &str); 4] = [
    ("image1.raw", ""),
    ("image2.raw", "nginx"),
    ("image3.raw", "postgresql"),
    ("image4.raw", "python3,git"),
];

fn build(site: &Site) -> Result<()> {
    ensure!(
        rustix::process::geteuid().is_root(),
        "vm: debootstrap installs a system, which only root may; expected to be run by root"
    );
    let images = &IMAGES[..site.count("count")];
    let names: Vec<_> = images.iter().map(|(image, _)| *image).collect();
    site.each(&names, |part, to| {
        let (number, (_, added)) =
            (1..).zip(images).find(|(_, (image, _))| *image == part).expect("one of the images");
        let root = site.work.join("root");
        remove(&root)?;
        // what it mounts ends with it, however it ends: another build could not remove the rest
        let mut command = UNSHARE.command();
        command.args(["--mount", "--"]).arg(DEBOOTSTRAP.place()).arg("--variant=minbase");
        if !added.is_empty() {
            command.arg(format!("--include={added}"));
        }
        fetch(command.arg("bookworm").arg(&root), "a Debian 12 system", apt::ARCHIVE)?;
        let uuid = format!("0000000{number}-1111-4222-8333-444444444444");
        let mut command = MKE2FS.command();
        command.args(["-q", "-t", "ext4", "-U", &uuid, "-E"]);
        command.arg(format!("hash_seed={uuid},root_owner=0:0,lazy_itable_init=0"));
        run(command.arg("-d").arg(&root).arg(to).arg("2G"))?;
        remove(&root)
    })
}
