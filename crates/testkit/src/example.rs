use std::process::Command;

/// A command that runs the example `name` of the package whose integration test calls this. Cargo has
/// built it before.
pub fn example(name: &str) -> Command {
    let test = std::env::current_exe().expect("a test knows where it is");
    let built = test.ancestors().nth(2).expect("a test lies in deps, beside examples");
    let program = built.join("examples").join(name);
    assert!(
        program.exists(),
        "{} is not built: `cargo test` builds examples unless --test picks tests",
        program.display()
    );
    Command::new(program)
}
