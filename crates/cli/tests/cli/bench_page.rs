//! The pages of `onefold bench run` and `onefold bench paper`, in a browser.

use std::fs;
use std::process::{Command, Output};

use onefold_bench::paper::{Effort, Paper, Session, page};
use onefold_bench::{Header, Record};
use onefold_testkit::{random, skip, text};

use crate::lab::Lab;

const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// Sorts the first table by its second column, and presses the first button of the last legend.
const CLICKS: &str = r#"<script>
const table = document.querySelector("table");
table.tHead.rows[0].cells[1].firstElementChild.click();
const numbers = [...table.tBodies[0].rows].map((row) => Number(row.cells[1].dataset.number));
const isSorted = numbers.every((number, i) => i === 0 || numbers[i - 1] >= number);
document.body.dataset.sorted = isSorted && numbers[0] > numbers.at(-1);
[...document.querySelectorAll(".legend")].at(-1).firstElementChild.click();
document.body.dataset.faded = document.querySelectorAll("svg .fade").length > 0;
const width = document.documentElement.scrollWidth;
document.body.dataset.fits = width <= innerWidth;
</script>"#;

/// What a browser makes of a page in a window as narrow as it lets one be.
fn browse(browser: &str, lab: &Lab, page: &str) -> Output {
    let mut command = Command::new(browser);
    command.args(["--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=500,900"]);
    command.args(["--enable-logging=stderr", "--virtual-time-budget=3000", "--dump-dom"]);
    command.arg(format!("--user-data-dir={}", lab.path("profile").display()));
    command.arg(format!("file://{}", lab.path(page).display())).output().unwrap()
}

/// What the page said on the console.
fn said(output: &Output) -> Vec<String> {
    let log = String::from_utf8_lossy(&output.stderr);
    log.lines().filter(|line| line.contains("CONSOLE")).map(str::to_owned).collect()
}

/// The first that is here; without any the test is skipped.
fn browser() -> Option<&'static str> {
    let is_here = |browser: &&str| {
        Command::new(browser).arg("--version").output().is_ok_and(|out| out.status.success())
    };
    let found = BROWSERS.into_iter().find(is_here);
    if found.is_none() {
        skip("no chromium to show the page in");
    }
    found
}

/// Shows what the claims of a paper come to on so little data that only the page counts.
#[test]
fn the_pages_of_papers_work_in_a_browser_too() {
    const LITTLE: Effort = Effort { bytes: 300_000, random_bytes: 200_000, chunks: 100, rounds: 2 };
    /// Sorts the claims by their verdict.
    const CLICK: &str = r#"<script>
const claims = document.querySelector("table");
claims.tHead.rows[0].cells[1].firstElementChild.click();
const verdicts = [...claims.tBodies[0].rows].map((row) => row.cells[1].textContent);
const isSorted = verdicts.join() === [...verdicts].sort().join();
document.body.dataset.sorted = isSorted || verdicts.join() === [...verdicts].sort().reverse().join();
document.body.dataset.fits = document.documentElement.scrollWidth <= innerWidth;
</script>"#;
    let Some(browser) = browser() else { return };
    let lab = Lab::new();
    for paper in Paper::ALL {
        let silent = |_: &str| {};
        let folder = lab.path("");
        let results = paper.reproduce(Session::new(&folder, LITTLE, &silent, &|| false));
        let command = format!("onefold bench paper {}", paper.name());
        let header = Header::here(&lab.path("page.json"), command, "in memory").unwrap();
        let html = page(&Record { header, results }).unwrap().html().unwrap();
        let plots = html.matches("<svg ").count();
        assert!(plots > 0, "{}: no plots", paper.name());
        lab.write("page.html", html.replace("</body>", &format!("{CLICK}</body>")));
        let shown = browse(browser, &lab, "page.html");
        assert_eq!(said(&shown), Vec::<String>::new(), "{}", paper.name());
        let dom = String::from_utf8_lossy(&shown.stdout);
        for mark in [r#"data-ready="yes""#, r#"data-sorted="true""#, r#"data-fits="true""#] {
            let end = &dom[dom.len().saturating_sub(3000)..];
            assert!(dom.contains(mark), "{}: {mark}: {end}", paper.name());
        }
        assert_eq!(dom.matches("<svg ").count(), plots, "{}", paper.name());
    }
}

#[test]
fn the_page_works_in_a_browser_and_says_nothing_on_the_console() {
    let Some(browser) = browser() else { return };
    let lab = Lab::new();
    lab.write("data/<script>", [random(1, 200_000), text(2, 200_000), random(1, 200_000)].concat());
    lab.ok("bench run --data data --mean 2KiB,8KiB --rounds 1 --html page.html");

    let page = fs::read_to_string(lab.path("page.html")).unwrap();
    // four plots, and a histogram for each algorithm
    let plots = page.matches("<svg ").count();
    assert!(plots >= 4 + 20, "{plots} plots");
    lab.write("clicked.html", page.replace("</body>", &format!("{CLICKS}</body>")));
    let shown = browse(browser, &lab, "clicked.html");
    assert_eq!(said(&shown), Vec::<String>::new());
    let dom = String::from_utf8_lossy(&shown.stdout);
    for mark in [
        r#"data-ready="yes""#,
        r#"data-sorted="true""#,
        r#"data-faded="true""#,
        r#"data-fits="true""#,
    ] {
        assert!(dom.contains(mark), "{mark}: {}", &dom[dom.len().saturating_sub(3000)..]);
    }
    assert_eq!(dom.matches("<svg ").count(), plots);

    // a page with an error would be noticed
    lab.write("wrong.html", page.replace("</body>", "<script>nonsense();</script></body>"));
    assert_eq!(said(&browse(browser, &lab, "wrong.html")).len(), 1);
}
