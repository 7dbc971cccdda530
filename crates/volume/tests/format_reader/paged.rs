//! "Version 2" of docs/pool-format.md: nodes, and checkpoints that say where they are.

use std::collections::{BTreeMap, BTreeSet};

use super::{Fields, Place, Pool, check};

/// A page: container and slot.
type At = (u32, u32);

/// Numbers of a node.
const NODE: usize = 512;

/// What records of a checkpoint told so far.
#[derive(Default)]
pub(super) struct Checkpoint {
    /// Writers and numbers.
    node_files: Vec<(u64, u64)>,
    segments: Vec<Vec<Option<At>>>,
    /// The segments of each volume, and of each map that no volume has, by their places there.
    maps: BTreeMap<Owner, BTreeMap<u64, usize>>,
    tables: BTreeMap<u32, Table>,
    /// References to be added, and where pages went.
    pending: BTreeMap<At, i64>,
    moved: BTreeMap<At, At>,
}

/// A volume, or a map that is dying.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Owner {
    Volume(u64),
    Dying(u64),
}

struct Table {
    len: u64,
    pages: Vec<Place>,
    references: Vec<u32>,
    lost_references: u64,
}

impl Pool {
    /// Number by number what node `index` of a file has.
    fn node(&self, (writer, number): (u64, u64), index: u64) -> Vec<u64> {
        let file = &self.files[&format!("nodes-{writer:016x}-{number:016x}")];
        assert!(file.len() <= 64 << 20);
        let mut header = Fields(&file[..4096]);
        assert_eq!(header.take(12), b"onefold node");
        assert_eq!(u32::from_le_bytes(header.array()), 2);
        assert_eq!(header.array(), self.id);
        let (of, its) = (u64::from_le_bytes(header.array()), u64::from_le_bytes(header.array()));
        assert_eq!((of, its), (writer, number));
        assert_eq!(header.array(), check(&[&file[..48]]));
        assert!(header.0.iter().all(|byte| *byte == 0));
        let slot = &file[4096 + 4112 * index as usize..][..4112];
        let (numbers, found) = slot.split_at(4096);
        let index = u32::try_from(index).unwrap().to_le_bytes();
        let covered: [&[u8]; 5] =
            [numbers, &self.id, &writer.to_le_bytes(), &number.to_le_bytes(), &index];
        assert_eq!(found, check(&covered));
        numbers.chunks(8).map(|number| u64::from_le_bytes(number.try_into().unwrap())).collect()
    }

    /// The numbers of `count` pages, of nodes of which runs tell.
    fn runs(&self, fields: &mut Fields<'_>, files: &[(u64, u64)], count: usize) -> Vec<u64> {
        let mut numbers = Vec::new();
        while numbers.len() < count {
            let (file, first, nodes) = (fields.varint() as usize, fields.varint(), fields.varint());
            assert!(nodes > 0 && numbers.len() + (nodes as usize - 1) * NODE < count);
            for index in first..first + nodes {
                numbers.extend(self.node(files[file], index));
            }
        }
        let behind = numbers.split_off(count);
        assert!(behind.iter().all(|number| *number == 0), "numbers of no page");
        numbers
    }

    /// A record of a checkpoint behind record 12.
    pub(super) fn place_paged(&mut self, fields: &mut Fields<'_>, paged: &mut Checkpoint) {
        if fields.0[0] == 5 {
            return self.volume(fields, false);
        }
        match fields.u8() {
            1 => {
                let (container, page) = fields.new_page();
                self.containers.entry(container).or_default().pages.push(page);
            }
            8 => {
                let (from, to) = (fields.page().unwrap(), fields.page().unwrap());
                assert!(from < to, "a page moves to a later place only");
                assert!(paged.moved.insert(from, to).is_none());
            }
            11 => {
                let (_volume, _container) = (fields.varint(), fields.container());
            }
            13 => {
                let (writer, number) = (fields.varint(), fields.varint());
                assert!(writer < 1 << 63 && number < 1 << 63);
                paged.node_files.push((writer, number));
            }
            14 => {
                let (file, index) = (fields.varint() as usize, fields.varint());
                let page = |page: u64| match page {
                    0 => None,
                    page => Some(((page >> 32) as u32, page as u32)),
                };
                let node = self.node(paged.node_files[file], index);
                let segment: Vec<_> = node.into_iter().map(page).collect();
                assert!(segment.iter().flatten().all(|(container, _)| *container > 0));
                assert_eq!(segment.iter().flatten().count() as u64, fields.varint());
                paged.segments.push(segment);
            }
            15 => {
                let volume = fields.varint();
                assert!(self.volumes.contains_key(&volume));
                paged.place(Owner::Volume(volume), fields);
            }
            16 => {
                let (map, _volume) = (fields.varint(), fields.varint());
                paged.place(Owner::Dying(map), fields);
            }
            17 => self.table(fields, paged),
            18 => {
                let (page, times) = (fields.page().unwrap(), i32::from_le_bytes(fields.array()));
                *paged.pending.entry(page).or_default() += i64::from(times);
            }
            19..=21 => panic!("a pool of a cluster"),
            kind => panic!("record {kind} in a checkpoint of version 2"),
        }
    }

    /// Record 17, behind its kind.
    fn table(&self, fields: &mut Fields<'_>, paged: &mut Checkpoint) {
        let container = fields.container();
        let (len, begin, end) = (fields.varint(), fields.varint(), fields.varint());
        let (count, live, live_bytes) =
            (fields.varint() as usize, fields.varint(), fields.varint());
        let lost_references = fields.varint();
        assert!(count <= 1 << 19);
        let places = self.runs(fields, &paged.node_files, count);
        let references = self.runs(fields, &paged.node_files, count);
        let lens = references.iter().map(|entry| entry >> 32);
        let ends = places.iter().skip(1).map(|next| next >> 32 & 0x3fff_ffff).chain([end]);
        let pages = places.iter().zip(ends).zip(lens).map(|((place, end), stored)| {
            let offset = place >> 32 & 0x3fff_ffff;
            assert_eq!(end - offset, stored, "where a page ends");
            Place {
                offset: offset as usize,
                stored: stored as usize,
                codec: (place >> 62) as u8,
                check: (*place as u32).to_le_bytes(),
            }
        });
        let pages: Vec<_> = pages.collect();
        assert!(pages.first().is_none_or(|first| first.offset as u64 == begin));
        let references: Vec<u32> = references.iter().map(|entry| *entry as u32).collect();
        let is_live = |(_, times): &(&Place, &u32)| **times > 0;
        let alive = || pages.iter().zip(&references).filter(is_live);
        assert_eq!(alive().count() as u64, live);
        assert_eq!(alive().map(|(page, _)| page.stored as u64).sum::<u64>(), live_bytes);
        let table = Table { len, pages, references, lost_references };
        assert!(paged.tables.insert(container, table).is_none());
    }

    /// All records of a checkpoint were read.
    pub(super) fn end_paged(&mut self, paged: Checkpoint) {
        let now = |mut page: At| {
            while let Some(to) = paged.moved.get(&page) {
                page = *to;
            }
            page
        };
        for (owner, map) in &paged.maps {
            let Owner::Volume(volume) = owner else { continue };
            let volume = self.volumes.get_mut(volume).unwrap();
            for (index, segment) in map {
                for (block, page) in (512 * index..).zip(&paged.segments[*segment]) {
                    if let Some(page) = page {
                        assert!(block < volume.size / volume.block_size);
                        volume.blocks.insert(block, now(*page));
                    }
                }
            }
        }
        // a page has as many references as there are entries of distinct segments that name it
        let distinct: BTreeSet<_> = paged.maps.values().flat_map(BTreeMap::values).collect();
        let mut counted: BTreeMap<At, u32> = BTreeMap::new();
        for page in distinct.iter().flat_map(|segment| &paged.segments[**segment]).flatten() {
            *counted.entry(now(*page)).or_default() += 1;
        }
        for (number, table) in paged.tables {
            for (slot, stored) in (0..).zip(&table.references) {
                let pending = paged.pending.get(&(number, slot)).copied().unwrap_or(0);
                let found = counted.remove(&(number, slot)).unwrap_or(0);
                assert!(
                    *stored == u32::MAX || i64::from(*stored) + pending == i64::from(found),
                    "page {slot} of container {number}: {stored}, {pending} to be added, {found} found"
                );
            }
            assert_eq!(table.lost_references, 0, "container {number} is damaged");
            let container = self.containers.entry(number).or_default();
            container.is_sealed = container.pages.is_empty() && !table.pages.is_empty();
            container.places = table.pages;
            container.len = container.is_sealed.then_some(table.len);
        }
        assert!(counted.is_empty(), "of no container: {counted:?}");
    }
}

impl Checkpoint {
    /// Records 15 and 16, behind the map.
    fn place(&mut self, owner: Owner, fields: &mut Fields<'_>) {
        let (index, segment, count) = (fields.varint(), fields.varint() as usize, fields.varint());
        assert!(count > 0 && segment + count as usize <= self.segments.len());
        let map = self.maps.entry(owner).or_default();
        for (index, segment) in (index..index + count).zip(segment..) {
            assert!(map.insert(index, segment).is_none(), "a part of a map is told twice");
        }
    }
}
