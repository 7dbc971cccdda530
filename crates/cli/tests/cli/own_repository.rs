//! A repository inside the source does not feed on itself.

use crate::lab::Lab;

#[test]
fn a_repository_inside_the_source_is_left_out() {
    let lab = Lab::new();
    lab.write("home/letter", "x");
    lab.ok("init home/backups/repo --no-encryption");
    for _ in 0..2 {
        lab.ok("backup --repo home/backups/repo home").says(&["home/backups/repo", "left out"]);
    }
    let listed = lab.ok("ls --repo home/backups/repo latest").stdout;
    assert_eq!(listed, "backups\nletter\n");
}

#[test]
fn the_repository_itself_is_no_source() {
    let lab = Lab::with_repository();
    std::os::unix::fs::symlink("repo", lab.path("link")).unwrap();
    for source in ["repo", "./repo/config", "link"] {
        let ran = lab.run(&format!("backup --repo repo {source}")).expect(1);
        ran.says(&[source, "in the repository itself"]);
    }
}
