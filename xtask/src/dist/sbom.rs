//! The list of all crates that are in the program, as a CycloneDX document.
//!
//! cargo joins the features that packages of the workspace ask for, so a crate may be listed that only another
//! package turns on.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::texts;
use crate::workspace::Cargo;

/// What the document is called.
pub(crate) const NAME: &str = "onefold.cdx.json";

/// Writes the document to `file`, for the program with default features on Linux x86_64. `time` is that of the
/// commit.
///
/// # Errors
///
/// If cargo does not know the crates.
pub(crate) fn write(cargo: Cargo, file: &Path, time: &str) -> Result<()> {
    let mut metadata = cargo.command();
    metadata.args(["metadata", "--format-version", "1", "--locked"]);
    metadata.args(["--filter-platform", "x86_64-unknown-linux-gnu"]);
    let metadata = serde_json::from_slice(&texts::output(&mut metadata)?)?;
    let time = Timestamp::from_second(time.parse()?)?;
    let document = document(&metadata, &time.to_string())?;
    let text = serde_json::to_string_pretty(&document)? + "\n";
    fs::write(file, text).with_context(|| file.display().to_string())
}

/// The document from what `cargo metadata` says.
fn document(metadata: &Value, time: &str) -> Result<Value> {
    let by_id = |list: &Value| -> BTreeMap<String, Value> {
        let items = list.as_array().into_iter().flatten();
        items.map(|item| (text(&item["id"]), item.clone())).collect()
    };
    let packages = by_id(&metadata["packages"]);
    let nodes = by_id(&metadata["resolve"]["nodes"]);
    let program = packages.values().find(|package| package["name"] == "onefold");
    let program = program.context("cargo metadata names no package onefold")?;

    let mut found = BTreeSet::new();
    let mut waiting = vec![text(&program["id"])];
    let mut dependencies = Vec::new();
    while let Some(id) = waiting.pop() {
        if !found.insert(id.clone()) {
            continue;
        }
        let needs = needs(&nodes[&id]);
        let references: Vec<String> = needs.iter().map(|id| reference(&packages[id])).collect();
        dependencies.push(json!({"ref": reference(&packages[&id]), "dependsOn": references}));
        waiting.extend(needs);
    }
    dependencies.sort_by_key(|one| text(&one["ref"]));
    let libraries = found.iter().map(|id| &packages[id]).filter(|package| *package != program);
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"timestamp": time, "component": component(program, "application")},
        "components": libraries.map(|package| component(package, "library")).collect::<Vec<_>>(),
        "dependencies": dependencies,
    }))
}

/// The crates that one is built with, but those of its tests.
fn needs(node: &Value) -> Vec<String> {
    let is_built = |need: &&Value| {
        need["dep_kinds"]
            .as_array()
            .is_some_and(|kinds| kinds.iter().any(|kind| kind["kind"] != "dev"))
    };
    let needs = node["deps"].as_array().into_iter().flatten().filter(is_built);
    needs.map(|need| text(&need["pkg"])).collect()
}

fn component(package: &Value, kind: &str) -> Value {
    let reference = reference(package);
    let mut component = json!({
        "type": kind,
        "bom-ref": reference,
        "name": package["name"],
        "version": package["version"],
        "purl": reference,
    });
    if let Some(license) = package["license"].as_str() {
        // an older way to write a choice
        component["licenses"] = json!([{"expression": license.replace('/', " OR ")}]);
    }
    component
}

/// A package URL, by which scanners know a crate.
fn reference(package: &Value) -> String {
    format!("pkg:cargo/{}@{}", text(&package["name"]), text(&package["version"]))
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_has_what_is_built_in_and_nothing_of_the_tests() {
        let file = tempfile::NamedTempFile::new().unwrap();
        write(Cargo { offline: false }, file.path(), "1700000000").unwrap();
        let document: Value = serde_json::from_slice(&fs::read(file.path()).unwrap()).unwrap();
        assert_eq!(document["metadata"]["component"]["name"], "onefold");
        assert_eq!(document["metadata"]["timestamp"], "2023-11-14T22:13:20Z");
        let components = document["components"].as_array().unwrap();
        let named = |name: &str| components.iter().find(|component| component["name"] == name);
        let zstd = named("zstd").expect("containers are compressed by it");
        assert_eq!(zstd["purl"], format!("pkg:cargo/zstd@{}", zstd["version"].as_str().unwrap()));
        assert!(zstd["licenses"][0]["expression"].is_string(), "{zstd}");
        assert!(named("onefold-store").is_some() && named("cc").is_some());
        for of_tests in ["proptest", "onefold-testkit", "stateright", "onefold"] {
            assert!(named(of_tests).is_none(), "{of_tests}");
        }
        let references: Vec<&Value> = document["dependencies"].as_array().unwrap().iter().collect();
        assert_eq!(references.len(), components.len() + 1);
    }
}
