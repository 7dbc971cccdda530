use std::collections::HashMap;

use super::shelf::Item;

/// The number of the root, as FUSE has it.
pub(super) const ROOT: u64 = 1;

/// What the kernel knows by number. A number is never given twice, and is forgotten when the kernel
/// forgets it, so that memory follows what is in use.
pub(super) struct Inodes {
    known: HashMap<u64, Inode>,
    numbers: HashMap<(u64, Vec<u8>), u64>,
    next: u64,
}

struct Inode {
    item: Item,
    /// Where its number is found: the parent's number and the name there.
    place: (u64, Vec<u8>),
    /// How often the kernel was told of it.
    lookups: u64,
}

impl Inodes {
    /// Nothing but the root, which is never forgotten.
    pub(super) fn new(root: Item) -> Self {
        let root = Inode { item: root, place: (0, Vec::new()), lookups: u64::MAX };
        Self { known: HashMap::from([(ROOT, root)]), numbers: HashMap::new(), next: ROOT + 1 }
    }

    pub(super) fn get(&self, number: u64) -> Option<&Item> {
        Some(&self.known.get(&number)?.item)
    }

    /// The number of `item`, which is called `name` in the directory `parent`, for one more answer
    /// to the kernel.
    pub(super) fn tell(&mut self, parent: u64, name: &[u8], item: Item) -> u64 {
        let place = (parent, name.to_vec());
        if let Some(&number) = self.numbers.get(&place)
            && let Some(inode) = self.known.get_mut(&number)
        {
            inode.lookups = inode.lookups.saturating_add(1);
            return number;
        }
        let number = self.next;
        self.next += 1;
        self.numbers.insert(place.clone(), number);
        self.known.insert(number, Inode { item, place, lookups: 1 });
        number
    }

    /// The kernel forgets `lookups` of the answers that told of `number`.
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

#[cfg(test)]
mod tests {
    use super::*;

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
