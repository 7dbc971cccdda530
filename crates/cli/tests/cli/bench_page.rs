//! The page of `onefold bench run`, in a browser.

use std::fs;

use onefold_testkit::{Browser, random, text};

use crate::lab::Lab;

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

#[test]
fn the_page_works_in_a_browser_and_says_nothing_on_the_console() {
    let Some(browser) = Browser::find() else { return };
    let lab = Lab::new();
    lab.write("data/<script>", [random(1, 200_000), text(2, 200_000), random(1, 200_000)].concat());
    lab.ok("bench run --data data --mean 2KiB,8KiB --rounds 1 --html page.html");

    let page = fs::read_to_string(lab.path("page.html")).unwrap();
    // four plots, and a histogram for each algorithm
    let plots = page.matches("<svg ").count();
    assert!(plots >= 4 + 20, "{plots} plots");
    lab.write("clicked.html", page.replace("</body>", &format!("{CLICKS}</body>")));
    let shown = browser.show(&lab.path(""), "clicked.html");
    assert_eq!(shown.said(), Vec::<String>::new());
    let dom = shown.dom();
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
    assert_eq!(browser.show(&lab.path(""), "wrong.html").said().len(), 1);
}
