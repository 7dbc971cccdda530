//! The page of `onefold bench run`, in a browser.

use std::fs;
use std::process::{Command, Output};

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

#[test]
fn the_page_works_in_a_browser_and_says_nothing_on_the_console() {
    let is_here = |browser: &&str| {
        Command::new(browser).arg("--version").output().is_ok_and(|out| out.status.success())
    };
    let Some(browser) = BROWSERS.into_iter().find(is_here) else {
        return skip("no chromium to show the page in");
    };
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
