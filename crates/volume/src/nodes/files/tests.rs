use std::sync::mpsc::{Receiver, Sender, channel};

use onefold_backend::crash::CrashDisk;
use onefold_backend::fault::{Failure, Fault, Faults, Faulty};
use onefold_backend::{BackendError, MemoryFolder, Operation, Pages};
use onefold_seal::Check;

use super::*;
use crate::nodes::format::{CHECK_AT, FILE_AT, LIMIT, POOL_AT, VERSION_AT, ZEROS_AT, slots_in};
use crate::nodes::table::Entry;

const POOL: ObjectId = ObjectId::from_bytes([7; ObjectId::LEN]);
const WRITER: Writer = Writer(5);

/// The most nodes of a file in these tests.
const NODES: u32 = 4;

fn files_of(folder: &Arc<dyn Folder>) -> NodeFiles {
    NodeFiles::with_bounds(Arc::clone(folder), POOL, NODES, READERS)
}

fn memory() -> Arc<dyn Folder> {
    Arc::new(MemoryFolder::new())
}

fn begun(folder: &Arc<dyn Folder>) -> NodeFiles {
    let files = files_of(folder);
    files.begin(WRITER).unwrap();
    files
}

/// A folder with faults, and its files of nodes, to which `WRITER` appends.
fn faulty() -> (Arc<dyn Folder>, Faults, NodeFiles) {
    let faults = Faults::none();
    let folder: Arc<dyn Folder> = Arc::new(Faulty::new(MemoryFolder::new(), "pool", &faults));
    let files = begun(&folder);
    (folder, faults, files)
}

/// A node unlike all others.
fn node(number: u64) -> Node {
    std::array::from_fn(|at| number << 32 | at as u64)
}

fn file(number: u64) -> NodeFile {
    NodeFile { writer: WRITER, number }
}

fn append(files: &NodeFiles, numbers: Range<u64>) -> Vec<NodeAddress> {
    let nodes: Vec<Node> = numbers.map(node).collect();
    files.append(&nodes.iter().collect::<Vec<_>>()).unwrap()
}

fn assert_read(files: &NodeFiles, addresses: &[NodeAddress], numbers: Range<u64>) {
    assert_eq!(addresses.len() as u64, numbers.end - numbers.start);
    for (address, number) in addresses.iter().zip(numbers) {
        assert!(*files.read(*address).unwrap() == node(number), "{number}");
    }
}

/// What `result` names as damaged: the file and the byte.
fn damage<T>(result: Result<T, VolumeError>) -> (String, u64) {
    match result.err() {
        Some(VolumeError::Damaged { object, at, .. }) => (object, at),
        other => panic!("{other:?}"),
    }
}

fn bytes_of(folder: &dyn Folder, name: &str) -> Vec<u8> {
    let reader = folder.reader(name).unwrap();
    let mut bytes = vec![0; reader.len() as usize];
    reader.read(0, &mut bytes).unwrap();
    bytes
}

fn put(folder: &dyn Folder, name: &str, bytes: &[u8]) {
    let mut log = folder.log(name).unwrap();
    log.truncate(0).unwrap();
    log.append(bytes).unwrap();
}

/// The bytes of a file with nodes 0 to 2.
fn three_nodes() -> Vec<u8> {
    let folder = memory();
    append(&begun(&folder), 0..3);
    bytes_of(&*folder, &file(1).name())
}

/// What reads of nodes 0 to 2 of file 1 give if it has `bytes`.
fn read_three(bytes: &[u8]) -> Vec<Result<Box<Node>, VolumeError>> {
    let folder = memory();
    put(&*folder, &file(1).name(), bytes);
    let files = files_of(&folder);
    let addresses: Vec<_> = (0..3).map(|index| files.address(file(1), index)).collect();
    files.read_many(&addresses)
}

#[test]
fn a_name_stands_for_one_file_and_other_forms_for_none() {
    for (writer, number) in [(0, 0), (5, 0xab), (LIMIT - 1, LIMIT - 1)] {
        let file = NodeFile { writer: Writer(writer), number };
        assert_eq!(NodeFile::parse(&file.name()), Some(file));
    }
    assert_eq!(file(0x2a).name(), "nodes-0000000000000005-000000000000002a");
    for name in [
        "",
        "nodes-",
        "nodes--",
        "nodes-5-2a",
        "nodes-0000000000000005",
        "nodes-0000000000000005-",
        "nodes-0000000000000005-000000000000002A",
        "nodes-0000000000000005-00000000000002a",
        "nodes-0000000000000005-0000000000000002a",
        "nodes-0000000000000005-000000000000002a-",
        "nodes-0000000000000005-000000000000002a ",
        "nodes-+000000000000005-000000000000002a",
        "nodes-0000000000000005-+00000000000002a",
        "nodes-0000000000000005-800000000000002a",
        "nodes-8000000000000005-000000000000002a",
        "nodes-0000000000000005-00000000000000é",
        "Nodes-0000000000000005-000000000000002a",
        "node-0000000000000005-000000000000002a",
        "journal-0000000000000005-000000000000002a",
    ] {
        assert_eq!(NodeFile::parse(name), None, "{name}");
    }
}

#[test]
fn a_file_has_the_documented_bytes() {
    assert!(offset_of(NODES_PER_FILE) <= 64 << 20 && offset_of(NODES_PER_FILE + 1) > 64 << 20);
    let bytes = three_nodes();
    assert_eq!(bytes.len(), 4096 + 3 * 4112);
    let numbers = [5u64.to_le_bytes(), 1u64.to_le_bytes()].concat();
    let fields = [&b"onefold node\x02\0\0\0"[..], &[7; 16], &numbers].concat();
    assert_eq!(bytes[..48], fields);
    assert_eq!(bytes[48..64], Check::of(&[&fields]).as_bytes()[..]);
    assert!(bytes[64..4096].iter().all(|byte| *byte == 0));
    for (index, slot) in (0..).zip(bytes[4096..].chunks(4112)) {
        let words: Vec<u8> = node(index).iter().flat_map(|word| word.to_le_bytes()).collect();
        assert_eq!(slot[..4096], words);
        let covered = [&words, &[7; 16][..], &numbers, &(index as u32).to_le_bytes()].concat();
        assert_eq!(slot[4096..], Check::of(&[&covered]).as_bytes()[..]);
    }
}

#[test]
fn nodes_come_back_from_several_files_in_the_process_that_wrote_them_and_in_the_next() {
    let folder = memory();
    let files = begun(&folder);
    let mut addresses = append(&files, 0..3);
    // two files end within this run
    addresses.extend(append(&files, 3..10));
    assert_eq!(append(&files, 10..10), []);
    addresses.extend((10..13).flat_map(|number| append(&files, number..number + 1)));
    assert_read(&files, &addresses, 0..13);
    files.sync().unwrap();
    let places: Vec<_> = addresses.iter().map(|address| files.place(*address)).collect();
    let expected = (0..13).map(|number| (file(1 + number / 4), number as u32 % 4));
    assert!(places.iter().copied().eq(expected));
    for (address, (file, index)) in addresses.iter().zip(&places) {
        assert_eq!(files.address(*file, *index), *address);
    }
    let lens = [(file(1), 4), (file(2), 4), (file(3), 4), (file(4), 1)];
    assert_eq!(files.lens(), lens);
    let next = files_of(&folder);
    let place = |&(file, index)| next.address(file, index);
    let addresses: Vec<_> = places.iter().map(place).collect();
    assert_eq!(next.lens(), lens);
    assert_read(&next, &addresses, 0..13);
}

#[test]
fn the_first_file_of_a_writer_has_a_number_above_all_that_are_there() {
    let folder = memory();
    folder.log(&NodeFile { writer: Writer(2), number: 0x11 }.name()).unwrap();
    folder.log("nodes-0000000000000002-000000000000ffff.old").unwrap();
    let files = begun(&folder);
    let first = append(&files, 0..1);
    assert_eq!(files.place(first[0]), (file(0x12), 0));
    // nor does it get that of a file that was removed
    files.begin(WRITER).unwrap();
    files.retain(&HashSet::new()).unwrap();
    files.begin(WRITER).unwrap();
    let second = append(&files, 1..2);
    assert_eq!(files.place(second[0]), (file(0x13), 0));
    assert!(files.read(first[0]).is_err());
}

#[test]
fn a_file_that_was_not_made_now_gets_no_nodes() {
    let folder = memory();
    let files = begun(&folder);
    put(&*folder, &file(1).name(), b"of somebody");
    assert_eq!(damage(files.append(&[&node(0)])), (file(1).name(), 0));
    let addresses = append(&files, 0..1);
    assert_eq!(files.place(addresses[0]), (file(2), 0));
    assert_eq!(bytes_of(&*folder, &file(1).name()), b"of somebody");
    // numbers that no name can have are refused as well
    folder.log(&file(LIMIT - 1).name()).unwrap();
    let files = begun(&folder);
    assert_eq!(damage(files.append(&[&node(0)])), (file(LIMIT).name(), 0));
}

#[test]
fn many_are_read_in_the_order_asked_and_those_near_one_another_with_one_read() {
    let faults = Faults::none();
    let folder: Arc<dyn Folder> = Arc::new(Faulty::new(MemoryFolder::new(), "pool", &faults));
    let many = RUN as u64 + 10;
    let files = NodeFiles::with_bounds(folder, POOL, many as u32, READERS);
    files.begin(WRITER).unwrap();
    let addresses = append(&files, 0..many + 3);
    let read = |numbers: &[u64]| {
        let before = faults.count(Operation::Read);
        let asked: Vec<_> = numbers.iter().map(|number| addresses[*number as usize]).collect();
        let found = files.read_many(&asked);
        assert_eq!(found.len(), numbers.len());
        for (found, number) in found.into_iter().zip(numbers) {
            assert!(*found.unwrap() == node(*number), "{number}");
        }
        faults.count(Operation::Read) - before
    };
    let all: Vec<_> = (0..many + 3).rev().collect();
    // two runs and a header, then a run and a header of the next file
    assert_eq!(read(&all), 5);
    assert_eq!(read(&all), 3);
    assert_eq!(read(&[]), 0);
    assert_eq!(read(&[5, 3, 4, 4, 5, 9, many, many - 1]), 3);
    // as near as NEAR, and not
    assert_eq!(read(&[20, 24, 29]), 2);
}

#[test]
fn one_node_that_cannot_be_read_spoils_no_other() {
    let mut bytes = three_nodes();
    bytes[offset_of(1) as usize + 100] ^= 1;
    let mut found = read_three(&bytes);
    assert_eq!(damage(found.remove(1)), (file(1).name(), offset_of(1)));
    assert!(*found.remove(0).unwrap() == node(0) && *found.remove(0).unwrap() == node(2));
    let mut found = read_three(&bytes[..offset_of(2) as usize + SLOT - 1]);
    assert_eq!(damage(found.remove(2)), (file(1).name(), offset_of(2)));
    assert_eq!(damage(found.remove(1)), (file(1).name(), offset_of(1)));
    assert!(*found.remove(0).unwrap() == node(0));
}

#[test]
fn a_flipped_bit_anywhere_is_refused_with_file_and_byte() {
    let whole = three_nodes();
    for at in 0..offset_of(2) as usize {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        let found = read_three(&bytes);
        for (index, found) in (0..).zip(found) {
            let slot = offset_of(index);
            if at < HEADER {
                assert_eq!(damage(found), (file(1).name(), at as u64));
            } else if (slot..slot + SLOT as u64).contains(&(at as u64)) {
                assert_eq!(damage(found), (file(1).name(), slot), "{at}");
            } else {
                assert!(*found.unwrap() == node(index.into()), "{at}");
            }
        }
    }
}

#[test]
fn swapped_slots_are_refused() {
    let bytes = three_nodes();
    let [first, second, third] = [0, 1, 2].map(|index| offset_of(index) as usize);
    let slots = [&bytes[second..third], &bytes[first..second], &bytes[third..]];
    let swapped = [&bytes[..first], slots[0], slots[1], slots[2]].concat();
    let mut found = read_three(&swapped);
    assert!(*found.remove(2).unwrap() == node(2));
    for (index, found) in (0..).zip(found) {
        assert_eq!(damage(found), (file(1).name(), offset_of(index)));
    }
}

#[test]
fn bytes_of_another_pool_writer_or_file_are_refused_whatever_the_header_says() {
    let own = three_nodes();
    let other_pool = ObjectId::from_bytes([8; ObjectId::LEN]);
    let others = [
        (other_pool, file(1), POOL_AT),
        (POOL, NodeFile { writer: Writer(6), number: 1 }, FILE_AT),
        (POOL, file(2), FILE_AT + 8),
    ];
    for (pool, of, at) in others {
        let folder = memory();
        let files = NodeFiles::new(Arc::clone(&folder), pool);
        for number in 1..of.number {
            folder.log(&NodeFile { number, ..of }.name()).unwrap();
        }
        files.begin(of.writer).unwrap();
        append(&files, 0..3);
        let bytes = bytes_of(&*folder, &of.name());
        for found in read_three(&bytes) {
            assert_eq!(damage(found), (file(1).name(), at as u64), "{of:?}");
        }
        let disguised = [&own[..HEADER], &bytes[HEADER..]].concat();
        for (index, found) in (0..).zip(read_three(&disguised)) {
            assert_eq!(damage(found), (file(1).name(), offset_of(index)), "{of:?}");
        }
    }
}

#[test]
fn a_header_of_another_version_is_refused() {
    let mut bytes = three_nodes();
    bytes[VERSION_AT] = 3;
    let check = Check::of(&[&bytes[..CHECK_AT]]);
    bytes[CHECK_AT..ZEROS_AT].copy_from_slice(check.as_bytes());
    let error = read_three(&bytes).remove(0).unwrap_err();
    assert!(error.to_string().contains("version, expected 2"), "{error}");
    assert_eq!(damage::<()>(Err(error)), (file(1).name(), VERSION_AT as u64));
}

#[test]
fn a_torn_tail_hides_nothing_before_it() {
    let whole = three_nodes();
    let ends = [0, 1, HEADER - 1, HEADER, HEADER + 1, HEADER + SLOT, whole.len() - 1];
    for end in ends {
        let found = read_three(&whole[..end]);
        for (index, found) in (0..).zip(found) {
            if end < HEADER {
                assert_eq!(damage(found), (file(1).name(), end as u64));
            } else if end < offset_of(index) as usize + SLOT {
                assert_eq!(damage(found), (file(1).name(), offset_of(index)), "{end}");
            } else {
                assert!(*found.unwrap() == node(index.into()), "{end}");
            }
        }
        let folder = memory();
        let torn = [&whole[..end], &[0; SLOT - 1][..]].concat();
        put(&*folder, &file(1).name(), &torn);
        let files = files_of(&folder);
        files.address(file(1), 0);
        let nodes = slots_in(torn.len() as u64);
        let lens = if nodes == 0 { vec![] } else { vec![(file(1), nodes)] };
        assert_eq!(files.lens(), lens, "{end}");
    }
}

#[test]
fn a_missing_file_is_named_and_has_no_nodes() {
    let files = files_of(&memory());
    let missing = files.address(file(9), u32::MAX);
    assert_eq!(damage(files.read_despite_header(missing)), (file(9).name(), 0));
    match files.read(missing) {
        Err(VolumeError::Damaged { object, at: 0, problem }) => {
            assert_eq!((object, &problem[..]), (file(9).name(), "the file is not there"));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(files.lens(), []);
    assert_eq!(files.place(missing), (file(9), u32::MAX));
}

#[test]
fn a_reader_follows_a_file_that_another_process_appends_to() {
    let whole = three_nodes();
    let folder = memory();
    let files = files_of(&folder);
    let address = |index| files.address(file(1), index);
    for end in 1..=3 {
        put(&*folder, &file(1).name(), &whole[..offset_of(end) as usize]);
        assert!(*files.read(address(end - 1)).unwrap() == node(u64::from(end) - 1));
        assert!(end == 3 || files.read(address(end)).is_err());
    }
}

#[test]
fn a_failed_append_leaves_nothing_in_the_way_of_the_next() {
    for failure in [Failure::Io, Failure::Full] {
        let (folder, faults, files) = faulty();
        let fail = || faults.add(Fault::new(failure).on(Operation::Append));
        let refused = |numbers: Range<u64>| {
            let nodes: Vec<Node> = numbers.map(node).collect();
            let error = files.append(&nodes.iter().collect::<Vec<_>>()).unwrap_err();
            assert_eq!(error.is_full(), failure == Failure::Full);
        };
        // of a file without nodes: it is tried again, so that no more of these come
        for _ in 0..3 {
            fail();
            refused(90..92);
        }
        let mut addresses = append(&files, 0..2);
        assert_eq!(files.place(addresses[0]), (file(1), 0));
        // of a file with nodes: what the write left stays behind them, and the next file follows
        fail();
        refused(92..93);
        let mut torn = bytes_of(&*folder, &file(1).name());
        torn.resize(torn.len() + SLOT / 2, 0xaa);
        put(&*folder, &file(1).name(), &torn);
        addresses.extend(append(&files, 2..4));
        assert_eq!(files.place(addresses[2]), (file(2), 0));
        // of the second file of a run: neither part counts
        faults.add(Fault::new(failure).on(Operation::Append).skip(1));
        refused(93..97);
        addresses.extend(append(&files, 4..5));
        assert_eq!(files.place(addresses[4]), (file(3), 0));
        assert_read(&files, &addresses, 0..5);
        files.sync().unwrap();
        assert_eq!(files.lens(), [(file(1), 2), (file(2), 4), (file(3), 1)]);
    }
}

#[test]
fn a_file_that_cannot_be_made_is_made_by_the_next_append() {
    let (_, faults, files) = faulty();
    faults.add(Fault::new(Failure::Io).on(Operation::Open));
    assert!(files.append(&[&node(0)]).is_err());
    let addresses = append(&files, 0..1);
    assert_eq!(files.place(addresses[0]), (file(1), 0));
    assert_read(&files, &addresses, 0..1);
}

#[test]
fn after_a_failed_sync_other_files_take_nodes_and_no_sync_succeeds_before_that_one_goes() {
    let (_, faults, files) = faulty();
    let mut addresses = append(&files, 0..2);
    faults.add(Fault::new(Failure::Io).on(Operation::Sync));
    assert!(files.sync().is_err());
    addresses.extend(append(&files, 2..4));
    assert_eq!(files.place(addresses[2]), (file(2), 0));
    assert_read(&files, &addresses, 0..4);
    for _ in 0..2 {
        assert!(matches!(
            files.sync(),
            Err(VolumeError::Backend(BackendError::Poisoned { name, .. })) if name == file(1).name()
        ));
    }
    files.retain(&HashSet::from([file(2)])).unwrap();
    files.sync().unwrap();
    assert_read(&files, &addresses[2..], 2..4);
}

#[test]
fn a_file_is_synced_once_for_what_was_appended() {
    let (_, faults, files) = faulty();
    let sync = |expected: u64| {
        let before = faults.count(Operation::Sync);
        files.sync().unwrap();
        assert_eq!(faults.count(Operation::Sync) - before, expected);
    };
    sync(0);
    append(&files, 0..3);
    sync(1);
    sync(0);
    // one that is full by now, another, and the one that grows
    append(&files, 3..9);
    sync(3);
    sync(0);
    append(&files, 9..10);
    sync(1);
    // full already when it was synced
    append(&files, 10..12);
    sync(1);
    append(&files, 12..13);
    sync(1);
}

/// Appends and syncs in turn, as long as the disk of `folder` runs. Returns the nodes that a sync
/// covered, and where they are.
fn append_and_sync(folder: Arc<dyn Folder>) -> Vec<(NodeFile, u32, u64)> {
    let files = files_of(&folder);
    let mut durable = Vec::new();
    let mut run = || -> Result<(), VolumeError> {
        files.begin(WRITER)?;
        for numbers in [0..2, 2..7, 7..8] {
            let nodes: Vec<Node> = numbers.clone().map(node).collect();
            let addresses = files.append(&nodes.iter().collect::<Vec<_>>())?;
            files.sync()?;
            for (address, number) in addresses.into_iter().zip(numbers) {
                let (file, index) = files.place(address);
                durable.push((file, index, number));
            }
        }
        Ok(())
    };
    let _ = run();
    durable
}

#[test]
fn synced_nodes_survive_every_crash() {
    let whole = CrashDisk::new();
    assert_eq!(append_and_sync(Arc::new(whole.folder())).len(), 8);
    for steps in 0..=whole.operations() {
        let disk = CrashDisk::new();
        disk.crash_after(steps);
        let durable = append_and_sync(Arc::new(disk.folder()));
        for state in disk.durable_states(8, steps) {
            let folder: Arc<dyn Folder> = Arc::new(state.folder());
            let files = files_of(&folder);
            for (file, index, number) in &durable {
                let found = files.read(files.address(*file, *index)).unwrap();
                assert!(*found == node(*number), "{steps}: {number}");
            }
            // the next writer appends beside what a crash left
            files.begin(Writer(6)).unwrap();
            let addresses = append(&files, 20..22);
            assert_read(&files, &addresses, 20..22);
        }
    }
}

#[test]
fn only_unused_files_of_nodes_are_removed() {
    let folder = memory();
    let of = |writer, number| NodeFile { writer: Writer(writer), number };
    let others = [
        "pool".to_owned(),
        "nodes".to_owned(),
        "nodes-0000000000000001-1".to_owned(),
        "nodes-0000000000000001-8000000000000000".to_owned(),
        "lost-0000000000000001-nodes-0000000000000001-0000000000000001".to_owned(),
        "journal-0000000000000001-0000000000000001".to_owned(),
    ];
    let earlier = [of(1, 1), of(1, 2), of(4, 1)];
    let listed = others.iter().cloned().chain(earlier.iter().map(|file| file.name()));
    listed.for_each(|name| drop(folder.log(&name).unwrap()));
    let files = begun(&folder);
    let addresses = append(&files, 0..11);
    assert_read(&files, &addresses, 0..11);
    // an unused file that was never opened, and one that is not there
    files.address(of(1, 1), 0);
    files.address(of(1, 9), 0);
    files.retain(&HashSet::from([of(1, 2), file(3), of(1, 8)])).unwrap();
    let mut left: Vec<_> = others.to_vec();
    // the last takes nodes
    left.extend([of(1, 2), file(3), file(5)].map(NodeFile::name));
    left.sort();
    assert_eq!(folder.names().unwrap(), left);
    assert_eq!(files.lens(), [(file(3), 4), (file(5), 3)]);
    assert_read(&files, &addresses[..4], 0..4);
    assert_read(&files, &addresses[8..], 8..11);
    for address in &addresses[4..8] {
        assert!(matches!(
            files.read(*address),
            Err(VolumeError::Damaged { object, at: 0, .. }) if object == file(4).name()
        ));
    }
    assert_eq!(files.place(addresses[4]), (file(4), 0));
    assert_eq!(files.address(file(4), 0), addresses[4]);
    // the one that takes nodes takes more, and is kept for being used
    let more = append(&files, 11..13);
    assert_read(&files, &more, 11..13);
    files.retain(&HashSet::from([file(5)])).unwrap();
    assert_eq!(files.lens(), [(file(5), 4), (file(6), 1)]);
    files.sync().unwrap();
}

#[test]
fn a_file_that_could_not_be_removed_goes_with_the_next_call() {
    let (folder, faults, files) = faulty();
    let addresses = append(&files, 0..5);
    assert_read(&files, &addresses, 0..5);
    faults.add(Fault::new(Failure::Io).on(Operation::Delete));
    files.retain(&HashSet::new()).unwrap();
    assert_eq!(folder.names().unwrap(), [file(1).name(), file(2).name()]);
    assert_eq!(files.lens(), [(file(2), 1)]);
    assert!(files.table().hand.len() == 1, "it was closed");
    // nor is it kept open if it is read meanwhile
    assert_read(&files, &addresses[..1], 0..1);
    assert!(files.table().hand.len() == 1);
    files.retain(&HashSet::new()).unwrap();
    assert_eq!(folder.names().unwrap(), [file(2).name()]);
    faults.add(Fault::new(Failure::Io).on(Operation::List));
    assert!(files.retain(&HashSet::new()).is_err());
    assert_read(&files, &addresses[4..], 4..5);
}

#[test]
fn no_more_files_are_open_than_may_be_and_those_in_use_stay() {
    let faults = Faults::none();
    let folder: Arc<dyn Folder> = Arc::new(Faulty::new(MemoryFolder::new(), "pool", &faults));
    let files = NodeFiles::with_bounds(folder, POOL, 1, 3);
    files.begin(WRITER).unwrap();
    let addresses = append(&files, 0..20);
    let opened = |number: usize| {
        let before = faults.count(Operation::Open);
        assert!(*files.read(addresses[number]).unwrap() == node(number as u64));
        let table = files.table();
        let is_open = |entry: &&Entry| entry.reader.is_some();
        let open = table.entries.iter().filter(is_open).count();
        assert!(open <= 3 && table.hand.len() == open, "{number}");
        faults.count(Operation::Open) - before
    };
    assert_eq!((0..20).map(opened).sum::<u64>(), 20);
    // file 0 is read before each of the others, and opened once
    let with_first = (1..20).flat_map(|number| [0, number]).filter(|&number| opened(number) > 0);
    let with_first: Vec<_> = with_first.collect();
    assert_eq!(with_first.iter().filter(|number| **number == 0).count(), 1, "{with_first:?}");
}

#[test]
fn many_threads_append_sync_and_read_at_once() {
    const THREADS: u64 = 6;
    const ROUNDS: u64 = 30;
    let folder = memory();
    // fewer readers than files, so that files are closed while they are read
    let files = NodeFiles::with_bounds(Arc::clone(&folder), POOL, NODES, 2);
    files.begin(WRITER).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let files = &files;
            scope.spawn(move || {
                let mut own = Vec::new();
                let start = thread * 1000;
                for round in 0..ROUNDS {
                    let next = start + 3 * round;
                    own.extend(append(files, next..next + 3));
                    if round % 4 == thread % 4 {
                        files.sync().unwrap();
                    }
                    assert_read(files, &own[own.len() - 3..], next..next + 3);
                }
                for (number, found) in (start..).zip(files.read_many(&own)) {
                    assert!(*found.unwrap() == node(number), "{number}");
                }
            });
        }
    });
    let nodes: u32 = files.lens().iter().map(|(_, nodes)| nodes).sum();
    assert_eq!(u64::from(nodes), THREADS * ROUNDS * 3);
}

/// A folder whose appends and syncs tell that they came and wait for an answer.
struct Stalling {
    inner: MemoryFolder,
    gate: Arc<Gate>,
}

struct Gate {
    came: Mutex<Sender<()>>,
    go: Mutex<Receiver<()>>,
}

impl Gate {
    fn pass(&self) {
        self.came.lock().unwrap().send(()).unwrap();
        self.go.lock().unwrap().recv().unwrap();
    }
}

impl Folder for Stalling {
    fn log(&self, name: &str) -> Result<Box<dyn Log + Sync>, BackendError> {
        let inner = self.inner.log(name)?;
        Ok(Box::new(StallingLog { inner, gate: Arc::clone(&self.gate) }))
    }

    fn reader(&self, name: &str) -> Result<Box<dyn LogReader>, BackendError> {
        self.inner.reader(name)
    }

    fn pages(&self, _: &str, _: usize) -> Result<Box<dyn Pages + Sync>, BackendError> {
        unreachable!("nodes are in logs")
    }

    fn names(&self) -> Result<Vec<String>, BackendError> {
        self.inner.names()
    }

    fn remove(&self, name: &str) -> Result<(), BackendError> {
        self.inner.remove(name)
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), BackendError> {
        self.inner.rename(from, to)
    }
}

struct StallingLog {
    inner: Box<dyn Log + Sync>,
    gate: Arc<Gate>,
}

impl Log for StallingLog {
    fn append(&mut self, bytes: &[u8]) -> Result<u64, BackendError> {
        self.gate.pass();
        self.inner.append(bytes)
    }

    fn sync(&mut self) -> Result<(), BackendError> {
        unreachable!("its syncer syncs")
    }

    fn truncate(&mut self, len: u64) -> Result<(), BackendError> {
        self.inner.truncate(len)
    }

    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), BackendError> {
        self.inner.read(offset, into)
    }

    fn syncer(&self) -> Arc<dyn Syncer> {
        Arc::new(StallingSyncer(Arc::clone(&self.gate)))
    }
}

struct StallingSyncer(Arc<Gate>);

impl Syncer for StallingSyncer {
    fn sync(&self) -> Result<(), BackendError> {
        self.0.pass();
        Ok(())
    }
}

#[test]
fn reads_wait_for_no_append_and_no_sync_and_appends_wait_for_no_sync() {
    let (came, told) = channel();
    let (answer, go) = channel();
    let gate = Arc::new(Gate { came: Mutex::new(came), go: Mutex::new(go) });
    let folder: Arc<dyn Folder> = Arc::new(Stalling { inner: MemoryFolder::new(), gate });
    let files = begun(&folder);
    let let_go = || answer.send(()).unwrap();
    let_go();
    let first = append(&files, 0..2);
    told.recv().unwrap();
    std::thread::scope(|scope| {
        let syncing = scope.spawn(|| files.sync());
        told.recv().unwrap();
        assert_read(&files, &first, 0..2);
        let appending = scope.spawn(|| append(&files, 2..3));
        // it came to the disk though the sync is there
        told.recv().unwrap();
        for (number, found) in (0..).zip(files.read_many(&first)) {
            assert!(*found.unwrap() == node(number));
        }
        assert_eq!(files.lens(), [(file(1), 2)]);
        let_go();
        let_go();
        assert_read(&files, &appending.join().unwrap(), 2..3);
        syncing.join().unwrap().unwrap();
    });
    // the node that came during the sync is not yet durable
    let_go();
    files.sync().unwrap();
    told.try_recv().unwrap();
    files.sync().unwrap();
    assert!(told.try_recv().is_err());
}
