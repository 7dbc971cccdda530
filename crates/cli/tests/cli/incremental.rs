//! `onefold incremental`, which becomes Hadoop's command or Java.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::Output;

use crate::lab::Lab;

/// Writes a program that says how it was called and ends with 7.
fn write_program(lab: &Lab, name: &str) {
    let path = lab.path(name);
    lab.write(name, "#!/bin/sh\necho \"$(basename $0)\" \"$@\"\nexit 7\n");
    fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
}

/// Runs the command with `bin` of the lab and the shell's own for PATH.
fn run(lab: &Lab, line: &str, variables: &[(&str, &str)]) -> Output {
    let mut command = lab.command(line);
    let path = format!("{}:/bin", lab.path("bin").display());
    command.env("PATH", path);
    for variable in ["ONEFOLD_HADOOP_JAR", "HADOOP_CLASSPATH", "JAVA_HOME"] {
        command.env_remove(variable);
    }
    for (name, value) in variables {
        command.env(name, lab.path(value));
    }
    command.output().unwrap()
}

const LINE: &str = "incremental run --memo file:/m -- job.jar -v --json in";
const WORDS: &str = "run --memo file:/m -- job.jar -v --json in";

#[test]
fn arguments_and_exit_code_are_passed_on_to_hadoop() {
    let lab = Lab::new();
    write_program(&lab, "bin/hadoop");
    lab.write("the.jar", "");
    let output = run(&lab, LINE, &[("ONEFOLD_HADOOP_JAR", "the.jar")]);
    assert_eq!(output.status.code(), Some(7));
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(said, format!("hadoop jar {} {WORDS}\n", lab.path("the.jar").display()));
}

#[test]
fn java_is_used_where_there_is_no_hadoop_command() {
    let lab = Lab::new();
    write_program(&lab, "home/bin/java");
    lab.write("the.jar", "");
    let variables =
        [("ONEFOLD_HADOOP_JAR", "the.jar"), ("JAVA_HOME", "home"), ("HADOOP_CLASSPATH", "jars")];
    let output = run(&lab, LINE, &variables);
    assert_eq!(output.status.code(), Some(7));
    let said = String::from_utf8(output.stdout).unwrap();
    let class_path = format!("{}:{}", lab.path("the.jar").display(), lab.path("jars").display());
    assert_eq!(said, format!("java -cp {class_path} onefold.incremental.mapreduce.Main {WORDS}\n"));
}

#[test]
fn a_signal_ends_the_program_that_does_the_work() {
    let lab = Lab::new();
    lab.write("bin/hadoop", "#!/bin/sh\nkill -TERM $$\n");
    fs::set_permissions(lab.path("bin/hadoop"), PermissionsExt::from_mode(0o755)).unwrap();
    lab.write("the.jar", "");
    let output = run(&lab, LINE, &[("ONEFOLD_HADOOP_JAR", "the.jar")]);
    assert_eq!(output.status.signal(), Some(15));
}

#[test]
fn what_is_missing_is_named_with_the_way_out() {
    let lab = Lab::new();
    lab.write("the.jar", "");
    let jar = ("ONEFOLD_HADOOP_JAR", "the.jar");
    type Variables<'a> = &'a [(&'a str, &'a str)];
    let cases: [(Variables<'_>, [&str; 2]); 4] = [
        (&[], ["onefold-hadoop.jar is not at", "set ONEFOLD_HADOOP_JAR"]),
        (&[("ONEFOLD_HADOOP_JAR", "none.jar")], ["none.jar", "which is no file"]),
        (&[jar], ["there is no `hadoop` command", "HADOOP_CLASSPATH"]),
        (&[jar, ("HADOOP_CLASSPATH", "jars")], ["JAVA_HOME", "install Java 17"]),
    ];
    for (variables, expected) in cases {
        // a PATH without Java, whatever this machine has
        let mut command = lab.command("incremental ls x");
        command.env("PATH", lab.path("bin"));
        for variable in ["ONEFOLD_HADOOP_JAR", "HADOOP_CLASSPATH", "JAVA_HOME"] {
            command.env_remove(variable);
        }
        for (name, value) in variables {
            command.env(name, lab.path(value));
        }
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(expected.iter().all(|part| said.contains(part)), "{said}");
    }
    assert_eq!(lab.run("incremental").code, 1);
}
