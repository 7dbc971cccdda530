//! What a backup and a restore leave out.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::lab::Lab;

fn lab() -> Lab {
    let lab = Lab::with_repository();
    for name in ["keep.txt", "drop.o", "sub/drop.o", "sub/keep.o", "sub/keep.txt", "logs/a.log"] {
        lab.write(format!("src/{name}"), name);
    }
    lab
}

fn listed(lab: &Lab) -> Vec<String> {
    lab.ok("ls --repo repo latest").stdout.lines().map(str::to_owned).collect()
}

#[test]
fn excludes_are_gitignores_patterns() {
    let lab = lab();
    lab.ok("backup --repo repo --exclude *.o --exclude !keep.o --exclude /logs src");
    assert_eq!(listed(&lab), ["keep.txt", "sub", "sub/keep.o", "sub/keep.txt"]);
    lab.write("patterns", "# objects\n*.o\n\n/logs\n");
    lab.ok("backup --repo repo --exclude-file patterns src");
    assert_eq!(listed(&lab), ["keep.txt", "sub", "sub/keep.txt"]);
    lab.run("backup --repo repo --exclude-file missing src").expect(1).says(&["'missing'"]);
}

#[test]
fn ignore_files_and_caches_are_honoured_on_request_only() {
    let lab = lab();
    lab.write("src/.gitignore", "*.o\n");
    lab.write("src/logs/CACHEDIR.TAG", "Signature: 8a477f597d28d172789f06886806bc55\n");
    lab.ok("backup --repo repo src");
    assert!(listed(&lab).contains(&"logs/a.log".into()));
    assert!(listed(&lab).contains(&"drop.o".into()));
    lab.ok("backup --repo repo --ignore-files --exclude-caches src");
    assert_eq!(
        listed(&lab),
        [".gitignore", "keep.txt", "logs", "logs/CACHEDIR.TAG", "sub", "sub/keep.txt"]
    );
}

#[test]
fn a_restore_takes_what_is_asked_for() {
    let lab = lab();
    lab.ok("backup --repo repo src");
    lab.ok("restore --repo repo latest:sub --target sub");
    assert_eq!(lab.ok("diff --repo repo latest latest --json").summary()["added"], 0);
    assert!(lab.path("sub/keep.txt").exists() && !lab.path("sub/sub").exists());
    lab.ok("restore --repo repo latest:sub/keep.o --target one");
    assert_eq!(std::fs::read_to_string(lab.path("one/keep.o")).unwrap(), "sub/keep.o");
    lab.ok("restore --repo repo latest --target texts --include *.txt");
    assert!(lab.path("texts/sub/keep.txt").exists() && !lab.path("texts/drop.o").exists());
}

#[test]
fn several_sources_stand_side_by_side() {
    let lab = lab();
    lab.write("other/x", "x");
    lab.ok("backup --repo repo src/sub other src/keep.txt");
    let expected = ["keep.txt", "other", "other/x", "sub", "sub/drop.o", "sub/keep.o"];
    assert_eq!(listed(&lab)[..6], expected);
    lab.run("backup --repo repo src/sub other/../src/sub").expect(0);
    lab.write("other/sub/x", "x");
    lab.ok("backup --repo repo src/sub other/sub");
    let root = lab.path("").canonicalize().unwrap().to_str().unwrap().to_owned();
    let full = |path: &str| format!("{}/{path}", root.trim_matches('/'));
    let found = listed(&lab);
    for path in ["src", "src/sub/keep.o", "other/sub/x"] {
        assert!(found.contains(&full(path)), "{path} in {found:?}");
    }
    assert!(!found.contains(&full("other/x")));
    lab.ok("backup --repo repo --full-paths src/sub");
    assert!(listed(&lab).contains(&full("src/sub/keep.o")));
    lab.ok(&format!("restore --repo repo latest:{} --target back", full("src/sub")));
    assert!(lab.path("back/keep.o").exists());
}

#[test]
fn a_missing_source_is_exit_code_3_unless_there_is_no_other() {
    let lab = lab();
    let run = lab.run("backup --repo repo src missing").expect(3);
    run.says(&["cannot back up 'missing'", "1 could not be read"]);
    assert!(listed(&lab).contains(&"src/keep.txt".into()));
    lab.run("backup --repo repo missing").expect(1).says(&["'missing'"]);
}

#[test]
fn a_pattern_that_matched_nothing_is_told() {
    let lab = lab();
    lab.write("patterns", "# none\n*.none\n\n*.o\n/none\n");
    let told = lab.ok("backup --repo repo --exclude src/logs --exclude nothing src");
    let told = told.says(&["warning: --exclude 'nothing' matched nothing"]);
    assert!(!told.stderr.contains("src/logs"), "{}", told.stderr);
    assert!(!listed(&lab).contains(&"logs".into()));
    let absolute = format!("--exclude {}/sub", lab.path("src").display());
    lab.ok(&format!("backup --repo repo {absolute} src"));
    assert!(!listed(&lab).contains(&"sub".into()));
    lab.ok("backup --repo repo --exclude-file patterns src").says(&["2 patterns"]);
    lab.ok("backup --repo repo --exclude-file patterns -v src").says(&["'*.none'", "'/none'"]);
    let json = lab.ok("backup --repo repo --exclude-file patterns --json src").summary();
    assert_eq!(json["unused_excludes"], serde_json::json!(["*.none", "/none"]));
}

#[test]
fn sources_come_from_lists() {
    let lab = lab();
    let files = |lab: &Lab| {
        let all = listed(lab).into_iter();
        let files = all.filter(|path| path.contains('.') && lab.path(format!("/{path}")).is_file());
        files.map(|path| path.rsplit_once("/src/").unwrap().1.to_owned()).collect::<Vec<_>>()
    };
    lab.write("globs", "# text\n\nsrc/*.txt\n  src/logs  \n");
    lab.ok("backup --repo repo --files-from globs");
    assert_eq!(files(&lab), ["keep.txt", "logs/a.log"]);
    lab.write("src/*.txt", "a name with a star");
    lab.write("lines", "src/*.txt\n");
    lab.ok("backup --repo repo --files-from-verbatim lines src/sub");
    assert_eq!(files(&lab), ["*.txt", "sub/drop.o", "sub/keep.o", "sub/keep.txt"]);
    lab.write("src/line\nend.x", "x");
    lab.write("raw", "src/line\nend.x\0src/drop.o\0");
    lab.ok("backup --repo repo --files-from-raw raw");
    assert_eq!(lab.ok("ls --repo repo latest --json").stdout.matches("line\\nend.x").count(), 1);

    lab.write("globs", "src/none*\nsrc/drop.o\n");
    lab.run("backup --repo repo --files-from globs").expect(3).says(&["'src/none*'"]);
    lab.write("globs", b"ok\n\xff*\n".as_slice());
    lab.run("backup --repo repo --files-from globs").expect(1).says(&["line 2 of 'globs'"]);
    // Names that are not UTF-8 match as others do, and braces are themselves.
    let name = OsStr::from_bytes(b"{a}\xff.bin");
    lab.write(Path::new("src").join(name), "x");
    lab.write("globs", b"src/{a}*.bin\nsrc/k[e]ep.txt\n".as_slice());
    lab.ok("backup --repo repo --files-from globs");
    assert_eq!(lab.ok("ls --repo repo latest --json").stdout.matches("_hex").count(), 1);
    assert!(listed(&lab).iter().any(|path| path.ends_with("src/keep.txt")));
    lab.run("backup --repo repo --files-from none src").expect(1).says(&["'none'"]);
    lab.write("globs", "");
    lab.run("backup --repo repo --files-from globs").expect(1).says(&["no path to back up"]);
}

#[test]
fn a_dry_run_stores_nothing() {
    let lab = lab();
    let told = lab.ok("backup --repo repo --dry-run src");
    assert!(told.stdout.contains("dry run: nothing was stored"), "{}", told.stdout);
    assert!(told.stdout.contains("6 files: 6 new"), "{}", told.stdout);
    let json = lab.ok("backup --repo repo -n --json src").summary();
    assert_eq!((&json["files"], json.get("snapshot")), (&serde_json::json!(6), None));
    assert_eq!(lab.ok("snapshots --repo repo --json").stdout.trim(), "[]");
    lab.ok("backup --repo repo --compression max src");
    let told = lab.ok("backup --repo repo --dry-run src").stdout;
    assert!(told.contains("nothing new"), "{told}");
}

#[test]
fn a_directory_with_a_marker_is_left_out() {
    let lab = lab();
    lab.write("src/logs/.nobackup", "");
    lab.write("src/sub/.mark", "keep");
    lab.ok("backup --repo repo --exclude-if-present .nobackup --exclude-if-present .mark:drop src");
    let found = listed(&lab);
    assert!(found.contains(&"logs/.nobackup".into()) && !found.contains(&"logs/a.log".into()));
    assert!(found.contains(&"sub/keep.txt".into()));
    lab.ok("backup --repo repo --exclude-if-present .mark:keep src");
    assert!(!listed(&lab).contains(&"sub/keep.txt".into()));
    lab.run("backup --repo repo --exclude-if-present a/b src").expect(1).says(&["without a dir"]);
}
