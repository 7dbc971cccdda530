//! Linux, as the tars in Debian's source packages.

use anyhow::Result;

use crate::build::site::Site;
use crate::build::tool::run_into;
use crate::build::{Cost, MB, Recipe, Sameness, Tool, apt};

const XZ: Tool = Tool::new("xz", "xz-utils");

pub(super) const KERNEL: Recipe = Recipe {
    name: "kernel",
    kind: "source code in tars",
    about: "Linux 6.1 as tars, each version that Debian 12 offers",
    source: Some(apt::ARCHIVE),
    choices: &[apt::VERSIONS],
    sameness: Sameness::NotBytes(apt::ROTATES),
    tools: &[apt::APT_GET, apt::APT_CACHE, apt::DPKG_DEB, XZ],
    cost: |choices| {
        let count = choices.number("count");
        Cost { built: count * 1370 * MB, download: count * 140 * MB, scratch: 300 * MB }
    },
    build,
};

fn build(site: &Site) -> Result<()> {
    const PACKAGE: &str = "linux-source-6.1";
    let versions = apt::versions(PACKAGE, site.count("count"))?;
    let parts: Vec<String> = versions.iter().map(|version| format!("{version}.tar")).collect();
    site.each(&parts, |part, to| {
        let version = part.trim_end_matches(".tar");
        let file = apt::download(&format!("{PACKAGE}={version}"), &site.room("package")?)?;
        let tree = site.room("tree")?;
        apt::unpack(&file, &tree)?;
        let packed = tree.join(format!("usr/src/{PACKAGE}.tar.xz"));
        run_into(XZ.command().arg("-dc").arg(packed), to)
    })
}
