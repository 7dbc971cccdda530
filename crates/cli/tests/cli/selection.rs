//! What a backup and a restore leave out.

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
    lab.run("backup --repo repo src/sub other/sub").expect(1).says(&["would both be 'sub'"]);
}
