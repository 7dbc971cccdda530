//! `copy` between repositories.

use onefold_testkit::random;

use crate::lab::{Lab, number};
use crate::tree_equality::assert_same_tree;

#[test]
fn snapshots_are_copied_once_to_a_repository_with_other_keys() {
    let lab = Lab::with_repository();
    lab.write("src/a", random(1, 300_000));
    lab.write("src/sub/b", "b");
    lab.ok("backup --repo repo --tag first src");
    lab.write("src/c", random(2, 50_000));
    lab.ok("backup --repo repo src");
    lab.write("password", "second\n");
    lab.ok("init second --password-file password");
    let line = "copy --repo second --password-file password --from-repo repo --json";
    let done = lab.ok(&format!("{line} latest")).summary();
    assert_eq!(done["copied"].as_array().unwrap().len(), 1);
    let done = lab.ok(line).summary();
    assert_eq!(done["there"].as_array().unwrap().len(), 1, "{done}");
    assert!(number(&done, "new_bytes") < 10_000, "{done}");
    lab.ok("check --repo second --password-file password --read-data");
    lab.ok("restore --repo second --password-file password latest --target out");
    assert_same_tree(&lab.path("src"), &lab.path("out"));
    let tagged = lab.ok("snapshots --repo second --password-file password --tag first --json");
    assert_eq!(tagged.json().as_array().unwrap().len(), 1);
    // And back, with the other one's password.
    lab.ok("init third --no-encryption");
    lab.run("copy --repo third --from-repo second").expect(1).says(&["password"]);
    let back = "copy --repo third --from-repo second --from-password-file password --rechunk";
    lab.ok(back);
    lab.ok("check --repo third --read-data");
    lab.run("copy --repo third --from-repo nowhere").expect(10);
}
