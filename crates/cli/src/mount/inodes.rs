use std::collections::HashMap;

use onefold_store::tree::Node;

use super::shelf::Item;

/// The number of the root, as FUSE has it.
pub(super) const ROOT: u64 = 1;

/// The items that the kernel knows by number. A number is never reused, and is forgotten when the kernel
/// forgets it, so that memory depends on the items in use.
pub(super) struct Inodes {
    known: HashMap<u64, Inode>,
    numbers: HashMap<Place, u64>,
    next: u64,
}

/// The key by which the number of an inode is found.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Place {
    /// By the number of the directory and the name there.
    Name(u64, Vec<u8>),
    /// Hard links in a snapshot: by the number of the snapshot's root, and the original device and inode,
    /// as long as it is the same file.
    Linked(u64, u64, u64, Node),
}

struct Inode {
    item: Item,
    place: Place,
    /// The number of the root of the snapshot that it is in; 0 outside of snapshots.
    snapshot: u64,
    /// The kernel's lookup count.
    lookups: u64,
}

impl Inodes {
    /// A table with only the root, which is never forgotten.
    pub(super) fn new(root: Item) -> Self {
        let place = Place::Name(0, Vec::new());
        let root = Inode { item: root, place, snapshot: 0, lookups: u64::MAX };
        Self { known: HashMap::from([(ROOT, root)]), numbers: HashMap::new(), next: ROOT + 1 }
    }

    pub(super) fn get(&self, number: u64) -> Option<&Item> {
        Some(&self.known.get(&number)?.item)
    }

    /// The number of `item`, named `name` in the directory `parent`; adds one to its lookup count.
    pub(super) fn tell(&mut self, parent: u64, name: &[u8], item: Item) -> u64 {
        let snapshot = self.known.get(&parent).map_or(0, |above| above.snapshot);
        let place = place(parent, name, snapshot, &item);
        if let Some(&number) = self.numbers.get(&place)
            && let Some(inode) = self.known.get_mut(&number)
        {
            inode.lookups = inode.lookups.saturating_add(1);
            return number;
        }
        let number = self.next;
        self.next += 1;
        self.numbers.insert(place.clone(), number);
        let is_root = snapshot == 0 && matches!(item, Item::Entry(_));
        let snapshot = if is_root { number } else { snapshot };
        self.known.insert(number, Inode { item, place, snapshot, lookups: 1 });
        number
    }

    /// Subtracts `lookups` from the lookup count of `number`.
    pub(super) fn forget(&mut self, number: u64, lookups: u64) {
        let Some(inode) = self.known.get_mut(&number) else { return };
        if number == ROOT {
            return;
        }
        inode.lookups = inode.lookups.saturating_sub(lookups);
        if inode.lookups == 0
            && let Some(inode) = self.known.remove(&number)
        {
            self.numbers.remove(&inode.place);
        }
    }
}

fn place(parent: u64, name: &[u8], snapshot: u64, item: &Item) -> Place {
    match item {
        Item::Entry(entry)
            if snapshot != 0
                && entry.meta.links > 1
                && !matches!(entry.node, Node::Directory { .. }) =>
        {
            Place::Linked(snapshot, entry.meta.dev, entry.meta.ino, entry.node.clone())
        }
        _ => Place::Name(parent, name.to_vec()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use onefold_store::tree::{Entry, Meta, Tree};

    use super::*;

    #[test]
    fn names_of_one_file_have_one_number_in_each_snapshot() {
        let entry = |name: &str, links, node| {
            let meta = Meta { links, dev: 1, ino: 2, ..Meta::default() };
            Item::Entry(Arc::new(Entry { name: name.into(), meta, node }))
        };
        let directory = || entry("", 2, Node::Directory { tree: Tree::EMPTY });
        let mut inodes = Inodes::new(link("root"));
        let first = inodes.tell(ROOT, b"first", directory());
        let second = inodes.tell(ROOT, b"second", directory());
        let below = inodes.tell(first, b"below", directory());
        assert!(first != second && first != below, "directories have one name");
        let a = inodes.tell(first, b"a", entry("a", 2, Node::Fifo));
        assert_eq!(inodes.tell(below, b"b", entry("b", 2, Node::Fifo)), a);
        assert_ne!(inodes.tell(second, b"a", entry("a", 2, Node::Fifo)), a, "another snapshot");
        assert_ne!(inodes.tell(first, b"c", entry("c", 2, Node::Socket)), a, "another file by now");
        let single = inodes.tell(first, b"d", entry("d", 1, Node::Fifo));
        assert_ne!(single, a);
        inodes.forget(a, 1);
        assert!(inodes.get(a).is_some(), "known by its other name");
        inodes.forget(a, 1);
        assert!(inodes.get(a).is_none());
    }

    fn link(target: &str) -> Item {
        Item::Link(target.into())
    }

    #[test]
    fn a_number_lives_as_long_as_the_kernel_knows_it() {
        let mut inodes = Inodes::new(link("root"));
        let a = inodes.tell(ROOT, b"a", link("a"));
        assert_eq!(inodes.tell(ROOT, b"a", link("a")), a);
        let b = inodes.tell(a, b"a", link("b"));
        assert!(a != b && a != ROOT && b != ROOT);

        inodes.forget(a, 1);
        assert!(matches!(inodes.get(a), Some(Item::Link(to)) if to == "a"));
        inodes.forget(a, 1);
        assert!(inodes.get(a).is_none());
        assert!(inodes.get(b).is_some());
        inodes.forget(a, 7);

        let again = inodes.tell(ROOT, b"a", link("a"));
        assert!(again != a && again != b);
        inodes.forget(ROOT, u64::MAX);
        assert!(inodes.get(ROOT).is_some());
        assert_eq!((inodes.known.len(), inodes.numbers.len()), (3, 2));
    }
}
