//! Kinds of CPU that this machine emulates to run the tests of the chunkers on them.

use std::process::Command;

use crate::programs::{self, Need};
use crate::workspace::Cargo;

/// A kind of CPU, and what it takes to run tests on it here.
pub(crate) struct Target {
    /// As the compiler calls it.
    pub(crate) triple: &'static str,
    /// As [`std::env::consts::ARCH`] calls it.
    pub(crate) arch: &'static str,
    /// Whether it is for runs that leave out nothing.
    pub(crate) is_left: bool,
    /// Compiler driver, C library and emulator.
    pub(crate) needs: &'static [Need],
    /// Links the tests.
    linker: &'static str,
    /// The emulator, told where the C library is.
    runner: &'static str,
    /// The kernels that must run, for `ONEFOLD_REQUIRE_KERNELS`.
    kernels: &'static str,
    /// Arguments of `cargo test`, one run each.
    runs: &'static [&'static [&'static str]],
}

/// The kind that has vector kernels of its own, and one that has none, and the other order of bytes.
pub(crate) const TARGETS: &[Target] = &[
    Target {
        triple: "aarch64-unknown-linux-gnu",
        arch: "aarch64",
        is_left: false,
        needs: &[
            Need {
                program: "aarch64-linux-gnu-gcc",
                package: "gcc-aarch64-linux-gnu",
                why: "links the tests of the NEON kernels",
            },
            Need {
                program: "/usr/aarch64-linux-gnu/lib/libc.so.6",
                package: "libc6-dev-arm64-cross",
                why: "the tests of the NEON kernels are linked with it",
            },
            Need {
                program: "qemu-aarch64",
                package: "qemu-user",
                why: "runs the tests of the NEON kernels",
            },
        ],
        linker: "aarch64-linux-gnu-gcc",
        runner: "qemu-aarch64 -L /usr/aarch64-linux-gnu",
        kernels: "neon,interleaved",
        runs: &[
            &["--lib", "--test", "kernels", "--", "--skip", FLOATS],
            &["--test", "cdc", "--", "golden::", "stream::"],
        ],
    },
    Target {
        triple: "s390x-unknown-linux-gnu",
        arch: "s390x",
        is_left: true,
        needs: &[
            Need {
                program: "s390x-linux-gnu-gcc",
                package: "gcc-s390x-linux-gnu",
                why: "links the tests without vector kernels",
            },
            Need {
                program: "/usr/s390x-linux-gnu/lib/libc.so.6",
                package: "libc6-dev-s390x-cross",
                why: "the tests without vector kernels are linked with it",
            },
            Need {
                program: "qemu-s390x",
                package: "qemu-user",
                why: "runs the tests without vector kernels",
            },
        ],
        linker: "s390x-linux-gnu-gcc",
        runner: "qemu-s390x -L /usr/s390x-linux-gnu",
        kernels: "interleaved",
        runs: &[
            &["--lib", "--test", "kernels", "--", "--skip", FLOATS],
            &[
                "--test",
                "cdc",
                "--",
                "golden::",
                "stream::",
                "window::",
                "presets::any",
                "presets::xet",
            ],
        ],
    },
];

/// Minutes of floating-point numbers that have little to do with the CPU, and are tested here.
const FLOATS: &str = "masks_of_another_mean";

impl Target {
    /// What cannot be had here, of all that the tests take.
    pub(crate) fn missing(&self) -> Vec<String> {
        let unmet = self.needs.iter().filter(|need| !need.is_met());
        let mut missing: Vec<String> = unmet
            .map(|need| format!("{} (Debian package {})", need.program, need.package))
            .collect();
        if !programs::has_standard_library(self.triple) {
            missing.push(format!("Rust's standard library for {}", self.triple));
        }
        missing
    }

    /// Makes `command`, one of cargo's, build for this kind.
    pub(crate) fn build_for(&self, command: &mut Command) {
        command.args(["--target", self.triple]).env(self.variable("LINKER"), self.linker);
    }

    /// What cargo takes a setting of this kind from.
    fn variable(&self, name: &str) -> String {
        let triple = self.triple.to_uppercase().replace('-', "_");
        format!("CARGO_TARGET_{triple}_{name}")
    }

    /// The commands that build and run the tests.
    pub(crate) fn commands(&self, cargo: Cargo) -> impl Iterator<Item = Command> {
        self.runs.iter().map(move |arguments| {
            let mut command = cargo.command();
            command.args(["test", "-p", "onefold-cdc", "--no-fail-fast"]);
            self.build_for(&mut command);
            command
                .args(*arguments)
                .env(self.variable("RUNNER"), self.runner)
                .env("ONEFOLD_REQUIRE_KERNELS", self.kernels);
            command
        })
    }
}
