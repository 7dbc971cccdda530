use std::collections::BTreeMap;
use std::sync::Arc;

use onefold_seal::ObjectId;
use onefold_store::Snapshot;
use onefold_store::tree::{Entry, Time};

use crate::time::file_name;

/// Something with a name in the mounted file system.
#[derive(Clone, Debug)]
pub(crate) enum Item {
    /// A directory that is in no snapshot.
    Shelf(Arc<Shelf>),
    /// A symbolic link that is in no snapshot.
    Link(String),
    /// An entry of a snapshot.
    Entry(Arc<Entry>),
}

/// A directory that arranges snapshots.
#[derive(Debug, Default)]
pub(crate) struct Shelf {
    pub(crate) time: Time,
    pub(crate) items: BTreeMap<Vec<u8>, Item>,
}

/// The number of digits of an id that name a directory, unless two ids share them.
const SHORT: usize = 8;

/// The root of the file system:
///
/// ```text
/// ids/1a2b3c4d                     each snapshot by its id
/// snapshots/2026-11-22T10:00:00    by time, and `latest`
/// hosts/HOST/…  tags/TAG/…         the same, of one host or tag
/// ```
pub(crate) fn arrange(snapshots: &[(ObjectId, Snapshot)]) -> Shelf {
    let mut hosts: BTreeMap<&str, Vec<&(ObjectId, Snapshot)>> = BTreeMap::new();
    let mut tags: BTreeMap<&str, Vec<&(ObjectId, Snapshot)>> = BTreeMap::new();
    for named in snapshots {
        hosts.entry(&named.1.host).or_default().push(named);
        for tag in &named.1.tags {
            tags.entry(tag).or_default().push(named);
        }
    }
    let of_each = |groups: BTreeMap<&str, Vec<&(ObjectId, Snapshot)>>| {
        groups.into_iter().map(|(name, group)| (component(name), by_time(&group))).collect()
    };
    let all: Vec<_> = snapshots.iter().collect();
    shelf([
        (b"ids".to_vec(), by_id(&all)),
        (b"snapshots".to_vec(), by_time(&all)),
        (b"hosts".to_vec(), shelf_of(of_each(hosts))),
        (b"tags".to_vec(), shelf_of(of_each(tags))),
    ])
}

fn by_id(snapshots: &[&(ObjectId, Snapshot)]) -> Item {
    let name = |id: ObjectId| {
        let id = id.to_string();
        let alike = snapshots.iter().filter(|(other, _)| other.to_string()[..SHORT] == id[..SHORT]);
        if alike.count() == 1 { id[..SHORT].to_owned() } else { id }
    };
    let entry = |(id, snapshot): &&(ObjectId, Snapshot)| (name(*id).into_bytes(), root(snapshot));
    shelf_of(snapshots.iter().map(entry).collect())
}

/// Oldest first; a second snapshot of the same second gets `-2` after its name, and so on.
fn by_time(snapshots: &[&(ObjectId, Snapshot)]) -> Item {
    let mut items = BTreeMap::new();
    let mut latest = None;
    for (_, snapshot) in snapshots {
        let time = file_name(snapshot.time);
        let numbered = (2..).map(|number| format!("{time}-{number}"));
        let mut names = std::iter::once(time.clone()).chain(numbered);
        let name = names.find(|name| !items.contains_key(name.as_bytes())).expect("no end of them");
        items.insert(name.clone().into_bytes(), root(snapshot));
        latest = Some(name);
    }
    if let Some(latest) = latest {
        items.insert(b"latest".to_vec(), Item::Link(latest));
    }
    shelf_of(items)
}

fn root(snapshot: &Snapshot) -> Item {
    Item::Entry(Arc::new(snapshot.root.clone()))
}

fn shelf_of(items: BTreeMap<Vec<u8>, Item>) -> Item {
    Item::Shelf(Arc::new(shelf(items)))
}

/// A directory has the time of its newest snapshot.
fn shelf(items: impl IntoIterator<Item = (Vec<u8>, Item)>) -> Shelf {
    let items: BTreeMap<_, _> = items.into_iter().collect();
    let time = |item: &Item| match item {
        Item::Shelf(shelf) => shelf.time,
        Item::Entry(entry) => entry.meta.mtime,
        Item::Link(_) => Time::default(),
    };
    let time = items.values().map(time).max().unwrap_or_default();
    Shelf { time, items }
}

/// `name` as one component of a path.
fn component(name: &str) -> Vec<u8> {
    match name {
        "" => b"(none)".to_vec(),
        "." | ".." => [b"(", name.as_bytes(), b")"].concat(),
        _ => name.replace(['/', '\0'], "_").into_bytes(),
    }
}

#[cfg(test)]
mod tests {
    use onefold_store::Summary;
    use onefold_store::tree::{Meta, Node, Tree};

    use super::*;

    fn snapshot(id: &str, secs: i64, host: &str, tags: &[&str]) -> (ObjectId, Snapshot) {
        let root = Entry {
            name: Vec::new(),
            meta: Meta::default(),
            node: Node::Directory { tree: Tree::EMPTY },
        };
        let snapshot = Snapshot {
            time: Time { secs, nanos: 0 },
            host: host.into(),
            user: String::new(),
            paths: Vec::new(),
            tags: tags.iter().map(|&tag| tag.to_owned()).collect(),
            parent: None,
            program: String::new(),
            summary: Summary::default(),
            root,
            is_from_client: false,
        };
        (id.parse().unwrap(), snapshot)
    }

    /// The names on the shelf below `path`.
    fn names(shelf: &Shelf, path: &[&str]) -> Vec<String> {
        let Some((first, rest)) = path.split_first() else {
            return shelf.items.keys().map(|n| String::from_utf8(n.clone()).unwrap()).collect();
        };
        match &shelf.items[first.as_bytes()] {
            Item::Shelf(below) => names(below, rest),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn each_snapshot_is_under_its_id_time_host_and_tags() {
        let snapshots = [
            snapshot("1a2b3c4d000000000000000000000001", 0, "atlas", &["weekly", "a/b"]),
            snapshot("1a2b3c4d000000000000000000000002", 0, "atlas", &[]),
            snapshot("99999999000000000000000000000003", 86_400, "", &["weekly", ".."]),
        ];
        let root = arrange(&snapshots);
        assert_eq!(names(&root, &[]), ["hosts", "ids", "snapshots", "tags"]);
        let ids = names(&root, &["ids"]);
        assert_eq!(ids[0], "1a2b3c4d000000000000000000000001");
        assert_eq!(ids[2], "99999999");
        let first = file_name(Time::default());
        assert_eq!(
            names(&root, &["hosts", "atlas"]),
            [first.clone(), format!("{first}-2"), "latest".into()]
        );
        assert_eq!(names(&root, &["hosts"]), ["(none)", "atlas"]);
        assert_eq!(names(&root, &["tags"]), ["(..)", "a_b", "weekly"]);
        assert_eq!(names(&root, &["snapshots"]).len(), 4);
        let Item::Shelf(all) = &root.items[&b"snapshots"[..]] else { panic!() };
        let Item::Link(latest) = &all.items[&b"latest"[..]] else { panic!() };
        assert_eq!(*latest, file_name(Time { secs: 86_400, nanos: 0 }));
    }

    #[test]
    fn without_snapshots_the_shelves_are_empty() {
        let root = arrange(&[]);
        assert_eq!(names(&root, &["snapshots"]), [""; 0]);
        assert_eq!(names(&root, &["ids"]), [""; 0]);
    }
}
