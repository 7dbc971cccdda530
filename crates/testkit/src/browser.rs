//! A browser without a window, to see that pages work.

use std::path::Path;
use std::process::{Command, Output};

use crate::skip;

const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// A browser that is installed here.
pub struct Browser(&'static str);

impl Browser {
    /// The first that is here; without any the test is skipped.
    pub fn find() -> Option<Self> {
        let is_here = |browser: &&str| {
            Command::new(browser).arg("--version").output().is_ok_and(|out| out.status.success())
        };
        let found = BROWSERS.into_iter().find(is_here);
        if found.is_none() {
            skip("no chromium to show the page in");
        }
        found.map(Self)
    }

    /// What it makes of a page in `folder`, in a window as narrow as it lets one be.
    ///
    /// # Panics
    /// If it cannot be run.
    pub fn show(&self, folder: &Path, page: &str) -> Shown {
        let mut command = Command::new(self.0);
        command.args(["--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=500,900"]);
        command.args(["--enable-logging=stderr", "--virtual-time-budget=3000", "--dump-dom"]);
        command.arg(format!("--user-data-dir={}", folder.join("profile").display()));
        command.arg(format!("file://{}", folder.join(page).display()));
        Shown(command.output().expect("it was found"))
    }
}

/// What a browser made of a page.
pub struct Shown(Output);

impl Shown {
    /// The page as its scripts left it.
    pub fn dom(&self) -> String {
        String::from_utf8_lossy(&self.0.stdout).into_owned()
    }

    /// What the page said on the console.
    pub fn said(&self) -> Vec<String> {
        let log = String::from_utf8_lossy(&self.0.stderr);
        log.lines().filter(|line| line.contains("CONSOLE")).map(str::to_owned).collect()
    }
}
