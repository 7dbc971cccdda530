//! Which crate may use which: the layering of the workspace as a table, and its check.
//!
//! Writes flow down the table and a lower crate never calls upward. Normal and build dependencies
//! are held to it; tests may use any crate.

use serde::Deserialize;

/// The crates that `name` may use.
struct Layer {
    name: &'static str,
    uses: Uses,
}

enum Uses {
    Only(&'static [&'static str]),
    /// All but the laboratory and `xtask`, which are no part of what is shipped.
    AnyLibrary,
    Anything,
}

use Uses::{AnyLibrary, Anything, Only};

const LAYERS: &[Layer] = &[
    Layer { name: "cdc", uses: Only(&[]) },
    Layer { name: "fingerprint", uses: Only(&[]) },
    Layer { name: "seal", uses: Only(&[]) },
    Layer { name: "backend", uses: Only(&[]) },
    Layer { name: "container", uses: Only(&["fingerprint", "seal", "backend"]) },
    Layer { name: "index", uses: Only(&["fingerprint", "seal", "backend"]) },
    Layer {
        name: "store",
        uses: Only(&["cdc", "fingerprint", "seal", "backend", "container", "index"]),
    },
    Layer { name: "block", uses: Only(&[]) },
    Layer {
        name: "volume",
        uses: Only(&["block", "fingerprint", "seal", "backend", "container", "index"]),
    },
    Layer {
        name: "cluster",
        uses: Only(&["block", "volume", "backend", "index", "seal", "fingerprint", "container"]),
    },
    Layer { name: "nbd", uses: Only(&["block"]) },
    Layer { name: "gpu", uses: Only(&["cdc", "fingerprint"]) },
    Layer { name: "capi", uses: Only(&["cdc", "fingerprint"]) },
    Layer { name: "jvm", uses: Only(&["cdc"]) },
    Layer {
        name: "python",
        uses: Only(&["cdc", "fingerprint", "gpu", "seal", "backend", "index", "store"]),
    },
    Layer { name: "terminal", uses: Only(&["bench"]) },
    Layer { name: "bench", uses: AnyLibrary },
    Layer { name: "cli", uses: AnyLibrary },
    Layer { name: "lab", uses: Anything },
    Layer { name: "testkit", uses: Only(&[]) },
    Layer { name: "xtask", uses: Only(&[]) },
];

/// Used by tests alone and the laboratory, which measures beside the same servers.
const TESTS_ONLY: &str = "testkit";

/// What no library and no program that is shipped may use.
const NOT_SHIPPED: [&str; 2] = ["lab", "xtask"];

/// A library returns its own error type; only programs may erase it.
const ANYHOW_USERS: &[&str] = &["cli", "bench", "terminal", "lab", "xtask"];

/// What `cargo metadata --no-deps` says of a workspace, as far as it is needed here.
#[derive(Deserialize)]
pub(crate) struct Metadata {
    pub(crate) workspace_root: String,
    pub(crate) packages: Vec<Package>,
}

/// One member of the workspace.
#[derive(Deserialize)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) manifest_path: String,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    kind: Option<String>,
}

impl Dependency {
    fn is_for_tests(&self) -> bool {
        self.kind.as_deref() == Some("dev")
    }
}

/// Every departure of `metadata` from the table: object, place and expectation in one line each.
pub(crate) fn violations(metadata: &Metadata) -> Vec<String> {
    let members: Vec<&str> = metadata.packages.iter().map(|p| noun(&p.name)).collect();
    metadata.packages.iter().flat_map(|package| violations_of(package, &members)).collect()
}

fn violations_of(package: &Package, members: &[&str]) -> Vec<String> {
    let user = noun(&package.name);
    let place = &package.manifest_path;
    let Some(layer) = LAYERS.iter().find(|layer| layer.name == user) else {
        return vec![format!(
            "{place}: crate `{user}` is not in the table of layers; \
             expected a row in xtask/src/edges.rs and its edges in ARCHITECTURE.md"
        )];
    };
    package
        .dependencies
        .iter()
        .filter(|dependency| !dependency.is_for_tests())
        .filter_map(|dependency| {
            let used = noun(&dependency.name);
            if used == "anyhow" && !ANYHOW_USERS.contains(&user) {
                return Some(format!(
                    "{place}: `{user}` uses anyhow; expected an error enum of its own, \
                     anyhow is for {}",
                    ANYHOW_USERS.join(", ")
                ));
            }
            if !members.contains(&used) || layer.allows(used) {
                return None;
            }
            Some(format!("{place}: `{user}` uses `{used}`; expected {}", layer.expectation(used)))
        })
        .collect()
}

impl Layer {
    fn allows(&self, used: &str) -> bool {
        match self.uses {
            Anything => true,
            _ if used == TESTS_ONLY => false,
            Only(allowed) => allowed.contains(&used),
            AnyLibrary => !NOT_SHIPPED.contains(&used),
        }
    }

    fn expectation(&self, used: &str) -> String {
        match self.uses {
            _ if used == TESTS_ONLY => format!("`{TESTS_ONLY}` as a dev-dependency only"),
            Only([]) => "no other crate of the workspace".into(),
            Only(allowed) => format!("none but {}", allowed.join(", ")),
            AnyLibrary | Anything => "any library".into(),
        }
    }
}

/// The crate's name in the table: `onefold-cdc` is `cdc`, the package `onefold` is `cli`.
fn noun(package: &str) -> &str {
    match package {
        "onefold" => "cli",
        other => other.strip_prefix("onefold-").unwrap_or(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Name and kind.
    type Edge<'a> = (&'a str, Option<&'a str>);

    /// Metadata of a workspace whose members are `packages`.
    fn metadata(packages: &[(&str, &[Edge])]) -> Metadata {
        let packages: Vec<_> = packages
            .iter()
            .map(|(name, dependencies)| {
                let dependencies: Vec<_> = dependencies
                    .iter()
                    .map(|(name, kind)| serde_json::json!({ "name": name, "kind": kind }))
                    .collect();
                serde_json::json!({
                    "name": name,
                    "manifest_path": format!("/w/{name}/Cargo.toml"),
                    "dependencies": dependencies,
                })
            })
            .collect();
        serde_json::from_value(serde_json::json!({ "workspace_root": "/w", "packages": packages }))
            .expect("the literal is metadata")
    }

    #[test]
    fn every_row_names_rows() {
        for layer in LAYERS {
            if let Only(allowed) = layer.uses {
                for used in allowed {
                    assert!(LAYERS.iter().any(|row| row.name == *used), "{} → {used}", layer.name);
                }
            }
        }
    }

    #[test]
    fn an_allowed_edge_passes() {
        let clean = metadata(&[
            ("onefold", &[("onefold-container", None), ("anyhow", None)]),
            ("onefold-container", &[("onefold-seal", None), ("zstd", None)]),
            ("onefold-seal", &[]),
        ]);
        assert_eq!(violations(&clean), Vec::<String>::new());
    }

    #[test]
    fn an_upward_edge_names_both_crates_and_what_is_allowed() {
        let upward = metadata(&[
            ("onefold-seal", &[]),
            ("onefold-nbd", &[("onefold-seal", None)]),
            ("onefold-block", &[("onefold-nbd", Some("build"))]),
        ]);
        assert_eq!(
            violations(&upward),
            [
                "/w/onefold-nbd/Cargo.toml: `nbd` uses `seal`; expected none but block",
                "/w/onefold-block/Cargo.toml: `block` uses `nbd`; \
                 expected no other crate of the workspace",
            ]
        );
    }

    #[test]
    fn tests_may_use_any_crate() {
        let tested = metadata(&[
            ("onefold-cdc", &[("onefold-testkit", Some("dev")), ("anyhow", Some("dev"))]),
            ("onefold-testkit", &[]),
        ]);
        assert_eq!(violations(&tested), Vec::<String>::new());
    }

    #[test]
    fn testkit_stays_out_of_programs() {
        let shipped =
            metadata(&[("onefold", &[("onefold-testkit", None)]), ("onefold-testkit", &[])]);
        assert_eq!(
            violations(&shipped),
            ["/w/onefold/Cargo.toml: `cli` uses `testkit`; \
              expected `testkit` as a dev-dependency only"]
        );
    }

    #[test]
    fn the_laboratory_stays_out_of_what_is_shipped() {
        let shipped = metadata(&[
            ("onefold", &[("onefold-lab", None)]),
            ("onefold-bench", &[("onefold-lab", Some("dev"))]),
            ("onefold-lab", &[("onefold-bench", None), ("xtask", None)]),
            ("xtask", &[]),
        ]);
        assert_eq!(
            violations(&shipped),
            ["/w/onefold/Cargo.toml: `cli` uses `lab`; expected any library"]
        );
    }

    #[test]
    fn a_library_does_not_use_anyhow() {
        let found = violations(&metadata(&[("onefold-index", &[("anyhow", None)])]));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("`index` uses anyhow"), "{found:?}");
    }

    #[test]
    fn an_unknown_crate_is_refused() {
        let found = violations(&metadata(&[("onefold-pack", &[])]));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("crate `pack` is not in the table"), "{found:?}");
    }
}
