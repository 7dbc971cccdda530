//! Adds up what test binaries print, and turns skips into numbers.
//!
//! A test that cannot run here returns early and appends `SKIP: name: reason` to the skip log, so
//! its harness calls it passed. The log says otherwise: a skip whose name is a test's is taken out
//! of the passed ones. A skip of another name (one kernel inside a test that went on) is added.

use std::collections::BTreeMap;

/// How many checks passed, failed and were skipped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) skipped: u64,
}

/// What test binaries printed so far.
#[derive(Default)]
pub(crate) struct Tally {
    counts: Counts,
    passed: Vec<String>,
    failed: Vec<String>,
    /// Name of a failed test to the first lines that it printed.
    said: BTreeMap<String, Vec<String>>,
    /// The test whose output is being read.
    saying: Option<String>,
    /// Name to reason.
    skips: BTreeMap<String, String>,
}

/// How many lines of a failed test are kept: its panic stands first, and the summary stays short.
const SAID_LINES: usize = 12;

/// How many characters of each of them.
const SAID_CHARS: usize = 300;

impl Tally {
    /// Takes one line of a test binary's output; most lines say nothing.
    pub(crate) fn read_output_line(&mut self, line: &str) {
        if let Some(result) = line.strip_prefix("test result: ") {
            self.saying = None;
            self.counts.passed += number_before(result, " passed");
            self.counts.failed += number_before(result, " failed");
            self.counts.skipped += number_before(result, " ignored");
            return;
        }
        if self.read_failure_line(line) {
            return;
        }
        let Some((name, outcome)) =
            line.strip_prefix("test ").and_then(|test| test.rsplit_once(" ... "))
        else {
            return;
        };
        let name = name.trim_end_matches(" - should panic").to_owned();
        match outcome.split_once(", ").map_or((outcome, ""), |(word, reason)| (word, reason)) {
            ("ok", _) => self.passed.push(name),
            ("FAILED", _) => self.failed.push(name),
            ("ignored", reason) => {
                let reason = if reason.is_empty() { "marked #[ignore]" } else { reason };
                self.skips.insert(name, reason.to_owned());
            }
            _ => {}
        }
    }

    /// Keeps a line that a failed test printed: its harness shows those below the names of all tests. False
    /// for any other line.
    fn read_failure_line(&mut self, line: &str) -> bool {
        let begun = line.strip_prefix("---- ").and_then(|line| line.strip_suffix(" stdout ----"));
        if let Some(name) = begun {
            self.saying = Some(name.to_owned());
        } else if line == "failures:" {
            self.saying = None;
        } else if let Some(name) = &self.saying
            && !line.trim().is_empty()
        {
            let said = self.said.entry(name.clone()).or_default();
            if said.len() < SAID_LINES {
                said.push(line.chars().take(SAID_CHARS).collect());
            }
        }
        self.saying.is_some()
    }

    /// Takes one line of the output of Maven's test runner, which sums up each class.
    pub(crate) fn read_maven_line(&mut self, line: &str) {
        if let Some((_, sums)) = line.split_once("] Tests run: ")
            && let Some((sums, _)) = sums.split_once(" -- in ")
        {
            let run = number_before(sums, ", Failures");
            let failed = number_after(sums, "Failures: ") + number_after(sums, "Errors: ");
            let skipped = number_after(sums, "Skipped: ");
            self.counts.passed += run.saturating_sub(failed + skipped);
            self.counts.failed += failed;
            self.counts.skipped += skipped;
        } else if line.contains(" <<< FAILURE!") || line.contains(" <<< ERROR!") {
            let name = line.trim_start_matches("[ERROR] ");
            self.failed.push(name.split(" -- ").next().unwrap_or(name).to_owned());
        }
    }

    /// Takes one line of the skip log.
    ///
    /// A line of another form counts as a skip too: what a test wrote there is not lost.
    pub(crate) fn read_skip_line(&mut self, line: &str) {
        let line = line.trim();
        let line = line.strip_prefix("SKIP:").unwrap_or(line).trim();
        let (name, reason) = line.split_once(": ").unwrap_or((line, "no reason given"));
        if name.is_empty() || self.skips.contains_key(name) {
            return;
        }
        self.skips.insert(name.to_owned(), reason.to_owned());
        if self.failed.iter().any(|test| is_test(test, name)) {
            return;
        }
        if self.passed.iter().any(|test| is_test(test, name)) {
            self.counts.passed = self.counts.passed.saturating_sub(1);
        }
        self.counts.skipped += 1;
    }

    /// Counts a check that was left out.
    pub(crate) fn note_skip(&mut self, name: &str, reason: &str) {
        self.counts.skipped += 1;
        self.skips.insert(name.to_owned(), reason.to_owned());
    }

    /// Counts a check that failed before a test could say so.
    pub(crate) fn note_failure(&mut self, name: &str) {
        self.counts.failed += 1;
        self.failed.push(name.to_owned());
    }

    /// Adds what `other` counted, under names that begin with `place`.
    pub(crate) fn add(&mut self, place: &str, other: Self) {
        let named = |name: String| format!("{place}: {name}");
        self.counts.passed += other.counts.passed;
        self.counts.failed += other.counts.failed;
        self.counts.skipped += other.counts.skipped;
        self.passed.extend(other.passed.into_iter().map(named));
        self.failed.extend(other.failed.into_iter().map(named));
        self.said.extend(other.said.into_iter().map(|(name, lines)| (named(name), lines)));
        self.skips.extend(other.skips.into_iter().map(|(name, reason)| (named(name), reason)));
    }

    /// Counts a run that ended badly though no test said so: one that did not build, or crashed.
    pub(crate) fn note_unexplained_failure(&mut self) {
        if self.counts.failed == 0 {
            self.counts.failed = 1;
        }
    }

    pub(crate) fn counts(&self) -> Counts {
        self.counts
    }

    /// Names of the tests that failed.
    pub(crate) fn failed(&self) -> &[String] {
        &self.failed
    }

    /// The first lines that the failed test `name` printed.
    pub(crate) fn said(&self, name: &str) -> &[String] {
        self.said.get(name).map_or(&[], Vec::as_slice)
    }

    /// Name and reason of each skip.
    pub(crate) fn skips(&self) -> impl Iterator<Item = (&str, &str)> {
        self.skips.iter().map(|(name, reason)| (name.as_str(), reason.as_str()))
    }
}

/// Whether `name`, with or without its module path, names `test`.
fn is_test(test: &str, name: &str) -> bool {
    test.strip_suffix(name).is_some_and(|path| path.is_empty() || path.ends_with("::"))
}

/// The number that stands after `word`, or 0.
fn number_after(line: &str, word: &str) -> u64 {
    let Some((_, after)) = line.split_once(word) else { return 0 };
    let digits = after.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
    digits.parse().unwrap_or(0)
}

/// The number that stands before `word`, or 0.
fn number_before(line: &str, word: &str) -> u64 {
    let Some((before, _)) = line.split_once(word) else { return 0 };
    let digits = before.rsplit(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
    digits.parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "\
running 5 tests
test simd::every_kernel_cuts_where_scalar_cuts ... ok
test restores_the_dataset ... ok
test zero_is_refused - should panic ... ok
test long_run ... ignored, takes an hour
test broken ... FAILED

failures:

---- broken stdout ----

thread 'broken' panicked at src/lib.rs:1:2:
one is not two
test two ... ok

failures:
    broken

test result: FAILED. 3 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s
   Doc-tests onefold_cdc
test crates/cdc/src/lib.rs - cut_points (line 12) ... ok
test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.10s
";

    fn tally(skip_log: &str) -> Tally {
        let mut tally = Tally::default();
        OUTPUT.lines().for_each(|line| tally.read_output_line(line));
        skip_log.lines().for_each(|line| tally.read_skip_line(line));
        tally
    }

    #[test]
    fn result_lines_add_up() {
        let tally = tally("");
        assert_eq!(tally.counts(), Counts { passed: 4, failed: 1, skipped: 1 });
        assert_eq!(tally.failed(), ["broken"]);
        assert_eq!(tally.skips().collect::<Vec<_>>(), [("long_run", "takes an hour")]);
    }

    #[test]
    fn the_first_lines_of_a_failed_test_are_kept() {
        let mut tally = tally("");
        let said =
            ["thread 'broken' panicked at src/lib.rs:1:2:", "one is not two", "test two ... ok"];
        assert_eq!(tally.said("broken"), said);
        assert_eq!(tally.said("long_run"), [""; 0]);
        tally.read_output_line("---- long stdout ----");
        (0..100).for_each(|_| tally.read_output_line(&"é".repeat(1_000)));
        assert_eq!(tally.said("long"), vec!["é".repeat(SAID_CHARS); SAID_LINES]);
        let mut sum = Tally::default();
        sum.add("aarch64", tally);
        assert_eq!(sum.said("aarch64: broken"), said);
    }

    #[test]
    fn a_test_that_skipped_itself_did_not_pass() {
        let tally = tally("SKIP: restores_the_dataset: no network\n");
        assert_eq!(tally.counts(), Counts { passed: 3, failed: 1, skipped: 2 });
    }

    #[test]
    fn a_skipped_part_of_a_test_is_added() {
        let tally = tally("SKIP: kernel avx512: no such CPU\nSKIP: kernel avx512: no such CPU\n");
        assert_eq!(tally.counts(), Counts { passed: 4, failed: 1, skipped: 2 });
    }

    #[test]
    fn a_skip_that_failed_its_test_is_counted_once() {
        let tally = tally("SKIP: broken: no network\n");
        assert_eq!(tally.counts(), Counts { passed: 4, failed: 1, skipped: 1 });
    }

    #[test]
    fn what_other_machines_counted_is_added_under_their_names() {
        let mut sum = tally("");
        sum.add("aarch64", tally("SKIP: restores_the_dataset: no network\n"));
        assert_eq!(sum.counts(), Counts { passed: 7, failed: 2, skipped: 3 });
        assert_eq!(sum.failed(), ["broken", "aarch64: broken"]);
        let names: Vec<_> = sum.skips().map(|(name, _)| name).collect();
        assert_eq!(names, ["aarch64: long_run", "aarch64: restores_the_dataset", "long_run"]);
    }

    #[test]
    fn checks_that_are_no_tests_count_by_name() {
        let mut tally = Tally::default();
        tally.note_skip("riscv", "no emulator");
        tally.note_failure("aarch64");
        assert_eq!(tally.counts(), Counts { passed: 0, failed: 1, skipped: 1 });
        assert_eq!(tally.failed(), ["aarch64"]);
        assert_eq!(tally.skips().collect::<Vec<_>>(), [("riscv", "no emulator")]);
    }

    #[test]
    fn a_crash_without_a_failed_test_is_a_failure() {
        let mut tally = Tally::default();
        tally.note_unexplained_failure();
        assert_eq!(tally.counts().failed, 1);
    }

    #[test]
    fn what_maven_says_of_each_class_is_counted_once() {
        let mut tally = Tally::default();
        for line in [
            "[INFO] Running onefold.incremental.memo.MemoTest",
            "[INFO] Tests run: 10, Failures: 0, Errors: 0, Skipped: 1, Time elapsed: 1.2 s -- in a.MemoTest",
            "[ERROR] Tests run: 4, Failures: 1, Errors: 2, Skipped: 0, Time elapsed: 1 s <<< FAILURE! -- in a.B",
            "[ERROR] a.B.oneFails -- Time elapsed: 0.1 s <<< FAILURE!",
            "[ERROR] a.B.anotherFails -- Time elapsed: 0.1 s <<< ERROR!",
            "[INFO] Tests run: 14, Failures: 1, Errors: 2, Skipped: 1",
        ] {
            tally.read_maven_line(line);
        }
        assert_eq!(tally.counts(), Counts { passed: 10, failed: 3, skipped: 1 });
        assert_eq!(tally.failed(), ["a.B.oneFails", "a.B.anotherFails"]);
    }
}
