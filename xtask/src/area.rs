//! Areas of the tests: parts that can be run alone. Every test is in one area.
//!
//! An area has whole packages, and modules of the tests that drive the command. What no other area has
//! is in the core, so that a new package or module is never left out.

use clap::ValueEnum;

/// A part of the tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Area {
    /// Chunkers, fingerprints, containers, index and repositories, and every check that is no test
    Core,
    /// Where repositories are kept: file systems, object stores, lines that fail
    Places,
    /// Volumes and the NBD server
    Volumes,
    /// Pages in a browser
    Web,
    /// Volumes over many machines, and Ceph, which keeps them
    Cluster,
    /// The packages for Python and C, and the crates that can be published
    Languages,
    /// What users install, in a clean root
    Packages,
    /// Kernels for GPUs on what needs none, and what uses them
    Gpu,
    /// Jobs of Hadoop and Spark that recompute only what changed
    Jobs,
}

/// The areas beside the core: packages, and modules of the command's tests.
const BESIDE_CORE: [(Area, &[&str], &[&str]); 8] = [
    (
        Area::Places,
        &["onefold-backend", "onefold-testkit"],
        &["azure", "far_away", "far_away_times", "import", "outages", "s3", "sftp"],
    ),
    (
        Area::Volumes,
        &["onefold-block", "onefold-nbd", "onefold-volume"],
        &[
            "guest",
            "nbd",
            "room",
            "serve_kill",
            "served",
            "served_pool",
            "serving",
            "streams",
            "systemd",
            "volume",
        ],
    ),
    (Area::Web, &[], &["bench_page"]),
    (
        Area::Cluster,
        &["onefold-cluster"],
        &["cluster", "cluster_care", "cluster_simulate", "cluster_space"],
    ),
    (Area::Languages, &["onefold-capi", "onefold-python"], &[]),
    (Area::Packages, &[], &[]),
    (Area::Gpu, &["onefold-gpu"], &["gpu"]),
    (Area::Jobs, &["onefold-jvm"], &["incremental"]),
];

/// Tests that need Ceph, in a package of the places: its name, the file of its tests, the module. They
/// are of the clusters.
const ON_CEPH: [&str; 3] = ["onefold-backend", "rados", "ceph::"];

/// Tests that install packages in a clean root: the package, the file, the module. They are an area of their own.
const IN_ROOT: [&str; 3] = ["xtask", "packages", "in_clean_root::"];

/// The package of the command.
const COMMAND: &str = "onefold";

impl Area {
    /// What an option calls it.
    pub(crate) fn name(self) -> String {
        let value = self.to_possible_value().expect("none is hidden");
        value.get_name().to_owned()
    }

    /// The arguments of each `cargo test` that together run the area's tests.
    pub(crate) fn arguments(self) -> Vec<Vec<String>> {
        if self == Self::Core {
            return core();
        }
        let (_, packages, modules) =
            BESIDE_CORE.iter().find(|(area, ..)| *area == self).expect("each has a row");
        let mut commands = Vec::new();
        if !packages.is_empty() {
            let each = |package: &&str| words(&["-p", package]);
            let mut command: Vec<String> = packages.iter().flat_map(each).collect();
            let [package, _, module] = ON_CEPH;
            if packages.contains(&package) {
                command.extend(words(&["--", "--skip", module]));
            }
            commands.push(command);
        }
        if self == Self::Cluster {
            let [package, tests, module] = ON_CEPH;
            commands.push(words(&["-p", package, "--test", tests, "--", module]));
        }
        if self == Self::Packages {
            let [package, tests, module] = IN_ROOT;
            commands.push(words(&["-p", package, "--test", tests, "--", module]));
        }
        if !modules.is_empty() {
            let mut command = words(&["--workspace", "--test", "cli", "--"]);
            command.extend(modules.iter().map(|module| format!("{module}::")));
            commands.push(command);
        }
        commands
    }
}

fn core() -> Vec<Vec<String>> {
    let mut libraries = words(&["--workspace", "--exclude", COMMAND]);
    let mut command = words(&["--workspace", "--test", "cli", "--"]);
    for (_, packages, modules) in BESIDE_CORE {
        libraries.extend(packages.iter().flat_map(|package| words(&["--exclude", package])));
        command
            .extend(modules.iter().flat_map(|module| words(&["--skip", &format!("{module}::")])));
    }
    let [.., in_root] = IN_ROOT;
    libraries.extend(words(&["--", "--skip", in_root]));
    vec![libraries, words(&["--workspace", "--bin", COMMAND]), command]
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// The arguments of each `cargo test` that runs `area`, or everything.
pub(crate) fn arguments(area: Option<Area>) -> Vec<Vec<String>> {
    area.map_or_else(|| vec![words(&["--workspace"])], Area::arguments)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::workspace;

    #[test]
    fn packages_and_modules_of_areas_are_there() {
        let members = fs::read_to_string(workspace::root().join("Cargo.lock")).unwrap();
        let tests = workspace::root().join("crates/cli/tests/cli/main.rs");
        let tests = fs::read_to_string(tests).unwrap();
        for (_, packages, modules) in BESIDE_CORE {
            for package in packages {
                assert!(members.contains(&format!("name = \"{package}\"")), "{package}");
            }
            for module in modules {
                assert!(tests.contains(&format!("\nmod {module};")), "{module}");
            }
        }
    }

    #[test]
    fn the_core_leaves_out_what_another_area_runs() {
        let core = Area::Core.arguments().concat();
        let [.., on_ceph] = ON_CEPH;
        for (area, ..) in BESIDE_CORE {
            for word in area.arguments().concat().into_iter().filter(|word| word != on_ceph) {
                let is_own = word.ends_with("::") || word.starts_with("onefold-");
                assert!(!is_own || core.contains(&word), "{area:?}: {word}");
            }
        }
    }

    #[test]
    fn the_tests_in_a_clean_root_are_there_and_run_once() {
        let [_, tests, module] = IN_ROOT;
        let folder = workspace::root().join("xtask/tests").join(tests);
        let declared = format!("mod {};", module.trim_end_matches("::"));
        assert!(fs::read_to_string(folder.join("main.rs")).unwrap().contains(&declared));
        assert!(Area::Core.arguments()[0].ends_with(&words(&["--", "--skip", module])));
        assert!(Area::Packages.arguments()[0].ends_with(&words(&["--", module])));
    }

    #[test]
    fn the_tests_on_ceph_are_there_and_run_once() {
        let [package, tests, module] = ON_CEPH;
        let file = workspace::root().join("crates/backend/tests").join(tests).with_extension("rs");
        let declared = format!("mod {};", module.trim_end_matches("::"));
        assert!(fs::read_to_string(file).unwrap().contains(&declared));
        let (places, cluster) = (Area::Places.arguments(), Area::Cluster.arguments());
        assert!(places[0].ends_with(&words(&["--", "--skip", module])));
        assert!(places[0].contains(&package.to_owned()));
        assert!(cluster[1].ends_with(&words(&["--", module])));
    }
}
