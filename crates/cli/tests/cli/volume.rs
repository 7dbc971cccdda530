//! `volume` and `serve`: pools by the commands, and by programs that speak NBD.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use onefold_backend::LocalFolder;
use onefold_testkit::{qemu_io_patterns, random, skip};
use onefold_volume::{Codec, Hash, Pool, Version};
use rustix::process::Signal;

use crate::lab::{Lab, Ran, number};
use crate::served::{Served, have, run};

const BLOCK: usize = 4096;

fn bytes_of(path: &Path, len: usize) -> Vec<u8> {
    let mut bytes = fs::read(path).unwrap();
    bytes.resize(len, 0);
    bytes
}

#[test]
fn volumes_are_made_listed_kept_and_deleted() {
    let lab = Lab::new();
    lab.run("volume list --pool pool").expect(10).says(&["there is no pool", "volume create"]);
    lab.ok("volume create --pool pool --size 8MiB --fingerprint sha3-256 disk");
    lab.run("volume create --pool pool --size 8MiB --fingerprint blake3 b").expect(1);
    lab.run("volume create --pool pool --size 8MiB disk").expect(1).says(&["'disk' already"]);
    lab.run("volume create --pool pool --size 1000 b").expect(1).says(&["a multiple of 4096"]);
    lab.ok("volume create --pool pool --size 1000KiB --block-size 512 small");
    lab.ok("volume snapshot --pool pool disk monday");
    lab.ok("volume clone --pool pool monday again");
    let listed = lab.ok("volume list --pool pool --json").json();
    let names: Vec<_> = listed.as_array().unwrap().iter().map(|one| one["name"].clone()).collect();
    assert_eq!(names, ["again", "disk", "monday", "small"]);
    assert_eq!(number(&listed[1], "size"), 8 << 20);
    assert_eq!(listed[2]["is_read_only"], true);
    assert_eq!(number(&listed[3], "block_size"), 512);
    assert!(lab.ok("volume list --pool pool").stdout.contains("snapshot"));

    lab.run("volume resize --pool pool --size 4MiB disk").expect(1).says(&["--shrink"]);
    lab.ok("volume resize --pool pool --size 4MiB --shrink disk");
    lab.ok("volume resize --pool pool --size 16MiB again");
    lab.run("volume resize --pool pool --size 16MiB monday").expect(1).says(&["read-only"]);
    lab.ok("volume delete --pool pool monday");
    lab.run("volume delete --pool pool monday").expect(1).says(&["no volume 'monday'"]);
    assert!(lab.ok("volume check --pool pool").stdout.contains("no problems"));
    let sums = lab.ok("volume stats --pool pool --json").json();
    assert_eq!(number(&sums, "pages"), 0);
    lab.ok("volume compact --pool pool");
    // nor is a pool made for a volume that cannot be
    lab.run("volume create --pool none --size 5 a").expect(1).says(&["a multiple of 4096"]);
    let long = "n".repeat(300);
    lab.run(&format!("volume create --pool none --size 1MiB {long}")).expect(1).says(&["255"]);
    assert!(!lab.path("none").exists());
    // a folder of something else is not touched
    lab.write("letters/letter", "dear");
    lab.run("volume create --pool letters --size 1MiB a").expect(10);
    assert_eq!(fs::read_dir(lab.path("letters")).unwrap().count(), 1);
}

#[test]
fn a_pool_is_upgraded_where_nobody_serves_it_and_nothing_is_damaged() {
    let lab = Lab::new();
    let folder = LocalFolder::create(&lab.path("pool")).unwrap();
    Pool::create_as(&folder, Hash::Blake3, Codec::Zstd, Version::Whole).unwrap();
    lab.run("volume upgrade --pool none").expect(10).says(&["there is no pool"]);
    lab.ok("volume create --pool pool --size 1MiB disk");
    let content = random(1, 100 * BLOCK);
    {
        let mut served = Served::start(&lab);
        let mut client = served.client("disk");
        client.write(0, &content).unwrap();
        client.flush().unwrap();
        lab.run("volume upgrade --pool pool").expect(11).says(&["in use", "end `onefold serve`"]);
        assert_eq!(served.signal(Signal::TERM), 0);
    }
    let version = || number(&lab.ok("volume stats --pool pool --json").json(), "format_version");
    assert_eq!(version(), 1);
    let container = lab.path("pool/container-00000001");
    let kept = fs::read(&container).unwrap();
    fs::remove_file(&container).unwrap();
    let refused = lab.run("volume upgrade --pool pool").expect(1);
    refused.says(&["container-00000001", "was not upgraded", "volume scrub"]);
    assert_eq!(version(), 1);
    fs::write(&container, kept).unwrap();
    let done = lab.ok("volume upgrade --pool pool");
    assert!(done.stderr.contains("from format version 1 to 2"), "{}", done.stderr);
    assert_eq!(version(), 2);
    let again = lab.ok("volume upgrade --pool pool --json").json();
    let versions = ["format_version", "previous_format_version"].map(|name| number(&again, name));
    assert_eq!(versions, [2, 2]);
    let served = Served::start(&lab);
    let mut found = vec![0; content.len()];
    served.client("disk").read(0, &mut found).unwrap();
    assert!(found == content);
}

#[test]
fn a_new_pool_or_repository_is_open_to_nobody_but_its_owner() {
    let lab = Lab::new();
    let mode = |name: &str| fs::metadata(lab.path(name)).unwrap().permissions().mode() & 0o777;
    fs::create_dir(lab.path("usual")).unwrap();
    lab.ok("volume create --pool above/pool --size 1MiB disk");
    lab.ok("init above/repo --no-encryption");
    assert_eq!((mode("above/pool"), mode("above/repo")), (0o700, 0o700));
    assert_eq!(mode("above"), mode("usual"), "what is above is as the umask says");
    // who made it may have given it to a group
    fs::set_permissions(lab.path("usual"), fs::Permissions::from_mode(0o750)).unwrap();
    lab.ok("volume create --pool usual --size 1MiB disk");
    assert_eq!(mode("usual"), 0o750);
}

#[test]
fn a_pool_that_is_only_read_stays_as_it_is_served_or_not() {
    let lab = Lab::new();
    lab.ok("volume create --pool pool --size 1MiB disk");
    {
        let served = Served::start(&lab);
        let mut client = served.client("disk");
        client.write(0, &random(1, 100 * BLOCK)).unwrap();
        client.flush().unwrap();
        // it is killed, and leaves what the next one would tidy up
    }
    let everything = || -> Vec<_> {
        let mut all: Vec<_> = fs::read_dir(lab.path("pool"))
            .unwrap()
            .map(|entry| entry.unwrap())
            .filter(|entry| entry.file_type().unwrap().is_file())
            .map(|entry| {
                let modified = entry.metadata().unwrap().modified().unwrap();
                (entry.file_name(), modified, fs::read(entry.path()).unwrap())
            })
            .collect();
        all.sort();
        all
    };
    let before = everything();
    lab.run("serve --pool pool --read-only --allow-resize").expect(1);
    let line = "serve --pool pool --unix socket --read-only";
    let mut served = Served::start_with(&lab, line).unwrap();
    let mut client = served.client("disk");
    assert!(client.is_read_only());
    let mut found = vec![0; 100 * BLOCK];
    client.read(0, &mut found).unwrap();
    assert!(found == random(1, 100 * BLOCK));
    assert!(client.write(0, &[1]).is_err());
    client.flush().unwrap();
    for reads in ["list", "info disk", "check", "scrub", "stats"] {
        lab.ok(&format!("volume {reads} --pool pool"));
    }
    lab.run("volume snapshot --pool pool disk monday").expect(11);
    assert_eq!(served.signal(Signal::TERM), 0);
    for reads in ["list", "info disk", "check", "scrub", "stats"] {
        lab.ok(&format!("volume {reads} --pool pool"));
    }
    assert!(everything() == before, "something was written");
    lab.ok("volume snapshot --pool pool disk monday");
}

#[test]
fn a_volume_moves_to_another_pool_by_its_stream_and_what_changed_follows() {
    let lab = Lab::new();
    let (first, second) = (random(1, 100 * BLOCK), random(2, 3 * BLOCK));
    let write = |at: u64, bytes: &[u8]| {
        let mut served = Served::start(&lab);
        let mut client = served.client("disk");
        client.write(at, bytes).unwrap();
        drop(client);
        assert_eq!(served.signal(Signal::TERM), 0);
    };
    lab.ok("volume create --pool pool --size 4MiB disk");
    lab.ok("volume create --pool other --size 4KiB unrelated");
    write(0, &first);
    lab.ok("volume snapshot --pool pool disk monday");
    write(8192, &second);
    lab.ok("volume snapshot --pool pool disk tuesday");
    let export = |line: &str, to: &str| {
        let out = fs::File::create(lab.path(to)).unwrap();
        let mut command = lab.command(&format!("volume export --pool pool {line}"));
        assert!(command.stdout(out).status().unwrap().success(), "{line}");
    };
    export("monday", "all");
    export("--from monday tuesday", "changes");
    let import = |line: &str, from: &str| {
        let mut command = lab.command(&format!("volume import --pool other {line}"));
        command.stdin(fs::File::open(lab.path(from)).unwrap());
        Ran::of(line, command.output().unwrap())
    };
    let all = fs::read(lab.path("all")).unwrap();
    lab.write("cut", &all[..all.len() / 2]);
    import("monday", "cut").expect(1).says(&["cut off"]);
    import("--onto unrelated tuesday", "changes").expect(1).says(&["its content is another"]);
    let shown = import("monday --json", "all").expect(0).json();
    assert_eq!((&shown["name"], &shown["is_read_only"]), (&"monday".into(), &true.into()));
    import("--onto monday tuesday", "changes").expect(0);
    assert!(fs::metadata(lab.path("changes")).unwrap().len() < 4 * BLOCK as u64);
    let listed = lab.ok("volume list --pool other --json").json();
    let names: Vec<_> = listed.as_array().unwrap().iter().map(|one| one["name"].clone()).collect();
    assert_eq!(names, ["monday", "tuesday", "unrelated"]);
    let line = "serve --pool other --unix socket --read-only";
    let served = Served::start_with(&lab, line).unwrap();
    let mut found = vec![0; first.len()];
    served.client("tuesday").read(0, &mut found).unwrap();
    assert!(found[8192..][..second.len()] == second && found[..8192] == first[..8192]);
    served.client("monday").read(0, &mut found).unwrap();
    assert!(found == first);
}

#[test]
fn room_that_killed_servers_kept_is_given_back_at_the_next_opening() {
    let lab = Lab::new();
    lab.ok("volume create --pool pool --size 1MiB disk");
    let taken = || -> u64 {
        let files = fs::read_dir(lab.path("pool")).unwrap().map(|entry| entry.unwrap());
        let journals = files.filter(|file| file.file_name().to_str().unwrap().contains("journal"));
        journals.map(|file| file.metadata().unwrap().blocks() * 512).sum()
    };
    for _ in 0..3 {
        let served = Served::start(&lab);
        let mut client = served.client("disk");
        client.write(0, &random(1, BLOCK)).unwrap();
        client.flush().unwrap();
        // and killed as it is dropped
    }
    if taken() < 8 << 20 {
        skip("the file system keeps no room for files");
        return;
    }
    assert!(taken() < 20 << 20, "that of one server: {} bytes", taken());
    lab.ok("volume snapshot --pool pool disk monday");
    assert!(taken() < 1 << 20, "{} bytes", taken());
}

#[test]
fn a_stream_that_nobody_takes_is_an_error() {
    let lab = Lab::new();
    lab.ok("volume create --pool pool --size 4MiB disk");
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let mut command = lab.command("volume export --pool pool disk");
    let ran = Ran::of("export", command.stdout(full).output().unwrap());
    ran.expect(1).says(&["the stream"]);
}

#[test]
fn programs_that_speak_nbd_use_a_volume() {
    if !have(&["qemu-img", "nbdcopy", "nbdinfo"]) {
        return;
    }
    let lab = Lab::new();
    let len = 12 << 20;
    lab.ok("volume create --pool pool --size 12MiB disk");
    lab.ok("volume create --pool pool --size 12MiB copy");
    // half of it twice, and a hole
    let mut image = random(1, 4 << 20);
    image.extend(vec![0; 3 << 20]);
    image.extend_from_within(..4 << 20);
    image.resize(len, 7);
    lab.write("image", &image);
    let path = lab.path("image").display().to_string();
    {
        let mut served = Served::start(&lab);
        let (disk, copy) = (served.uri("disk"), served.uri("copy"));
        run("qemu-img", &["convert", "-n", "-f", "raw", "-O", "raw", &path, &disk]);
        run("qemu-img", &["compare", "-f", "raw", "-F", "raw", &path, &disk]);
        run("nbdcopy", &[&disk, &copy]);
        run("qemu-img", &["compare", "-f", "raw", "-F", "raw", &path, &copy]);
        let map = run("nbdinfo", &["--map", &disk]);
        assert!(map.contains("hole,zero"), "{map}");
        assert!(lab.ok("volume list --pool pool").stdout.contains("copy"));
        assert_eq!(served.signal(Signal::TERM), 0);
    }
    let sums = lab.ok("volume stats --pool pool --json").json();
    // 4 MiB of random pages and one of sevens, written four times or more
    assert_eq!(number(&sums, "pages"), (4 << 20) / BLOCK as u64 + 1);
    let scrubbed = lab.ok("volume scrub --pool pool --json").json();
    assert_eq!(number(&scrubbed, "pages"), number(&sums, "pages"));
    // the snapshot stays as it is, and is read-only
    lab.ok("volume snapshot --pool pool disk monday");
    {
        let served = Served::start(&lab);
        let (disk, monday) = (served.uri("disk"), served.uri("monday"));
        run("qemu-io", &["-f", "raw", "-c", "write -P 0x55 1000 5000", "-c", "flush", &disk]);
        run("qemu-img", &["compare", "-f", "raw", "-F", "raw", &path, &monday]);
        run("nbdcopy", &[&disk, &lab.path("out").display().to_string()]);
    }
    image[1000..6000].fill(0x55);
    assert!(bytes_of(&lab.path("out"), len) == image);
}

#[test]
fn qemu_io_reads_its_patterns_from_volumes() {
    if !have(&["qemu-io"]) {
        return;
    }
    let lab = Lab::new();
    for (name, block_size) in [("disk", "4KiB"), ("small", "512")] {
        let size = "--size 50MiB --block-size";
        lab.ok(&format!("volume create --pool pool {size} {block_size} {name}"));
        let mut served = Served::start(&lab);
        let arguments = qemu_io_patterns(&served.uri(name));
        let told = run("qemu-io", &arguments.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(!told.contains("verification failed") && !told.contains("failed:"), "{told}");
        // what was erased last is a hole, the patterns around it are not
        let mut found = vec![1; 1 << 20];
        served.client(name).read(4 << 20, &mut found).unwrap();
        assert!(found == vec![0; 1 << 20]);
        assert_eq!(served.signal(Signal::TERM), 0);
    }
    // 24 patterns, and what is left of them at the ends of blocks
    let sums = lab.ok("volume stats --pool pool --json").json();
    assert!((24..200).contains(&number(&sums, "pages")), "{sums}");
    assert!(lab.ok("volume check --pool pool").stdout.contains("no problems"));
    assert!(lab.ok("volume scrub --pool pool").stdout.contains(" 0 are not"));
}

#[test]
fn what_a_flush_acknowledged_is_there_after_a_kill() {
    if !have(&["qemu-io"]) {
        return;
    }
    let lab = Lab::new();
    lab.ok("volume create --pool pool --size 4MiB disk");
    let mut image = vec![0; 4 << 20];
    for round in 0..12_u8 {
        let mut served = Served::start(&lab);
        let (offset, len) = (usize::from(round) * 300_000, 10_000 * (1 + usize::from(round)));
        let write = format!("write -P {} {offset} {len}", round + 1);
        run("qemu-io", &["-f", "raw", "-c", &write, "-c", "flush", &served.uri("disk")]);
        image[offset..offset + len].fill(round + 1);
        served.signal(Signal::KILL);
    }
    let served = Served::start(&lab);
    let out = lab.path("out").display().to_string();
    run("qemu-img", &["convert", "-f", "raw", "-O", "raw", &served.uri("disk"), &out]);
    assert!(bytes_of(&lab.path("out"), image.len()) == image);
}
