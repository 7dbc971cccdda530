//! The pages of `cargo lab paper`, in a browser.

use onefold_bench::{Header, Record};
use onefold_lab::paper::{Effort, Paper, Session, page};
use onefold_testkit::Browser;

use crate::lab::Lab;

/// Shows what the claims of a paper come to on so little data that only the page counts.
#[test]
fn the_pages_of_papers_work_in_a_browser() {
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
    let Some(browser) = Browser::find() else { return };
    let lab = Lab::new();
    for paper in Paper::ALL {
        let silent = |_: &str| {};
        let folder = lab.path("");
        let results = paper.reproduce(Session::new(&folder, LITTLE, &silent, &|| false));
        let command = format!("cargo lab paper {}", paper.name());
        let header = Header::here(&lab.path("page.json"), command, "in memory").unwrap();
        let html = page(&Record { header, results }).unwrap().html().unwrap();
        let plots = html.matches("<svg ").count();
        assert!(plots > 0, "{}: no plots", paper.name());
        lab.write("page.html", html.replace("</body>", &format!("{CLICK}</body>")));
        let shown = browser.show(&lab.path(""), "page.html");
        assert_eq!(shown.said(), Vec::<String>::new(), "{}", paper.name());
        let dom = shown.dom();
        for mark in [r#"data-ready="yes""#, r#"data-sorted="true""#, r#"data-fits="true""#] {
            let end = &dom[dom.len().saturating_sub(3000)..];
            assert!(dom.contains(mark), "{}: {mark}: {end}", paper.name());
        }
        assert_eq!(dom.matches("<svg ").count(), plots, "{}", paper.name());
    }
}
