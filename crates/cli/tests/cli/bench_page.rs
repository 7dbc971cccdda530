//! The page of `onefold bench run`, in a browser.

use std::fs;

use onefold_testkit::{Browser, random, text};

use crate::lab::Lab;

/// What the page is asked by a script of the test: each answer should be `true`.
const QUESTIONS: &str = r#"<script>
const isSeen = (element) => element.getClientRects().length > 0;
const all = (selector) => [...document.querySelectorAll(selector)];
const answers = {};
const ask = (name, isSo) => { answers[name] = Boolean(isSo); };

ask("fits", document.documentElement.scrollWidth <= innerWidth && innerWidth === 360);
const outside = all("svg text").filter(isSeen).filter((text) => {
  const [inner, outer] = [text, text.ownerSVGElement].map((one) => one.getBoundingClientRect());
  return inner.left < outer.left - 1 || inner.right > outer.right + 1
    || inner.top < outer.top - 1 || inner.bottom > outer.bottom + 1;
});
ask("nothing is cut off", outside.length === 0);

const dot = all(".dot").find(isSeen);
const tip = () => getComputedStyle(dot.querySelector(".tip")).visibility;
const before = tip();
dot.focus();
ask("focus shows values", before === "hidden" && tip() === "visible");

const panels = () => all(".panel").map(isSeen).join();
const first = panels();
all(".choice label")[1].click();
ask("each mean can be chosen", first === "true,false" && panels() === "false,true");
all(".choice label")[0].click();

const table = all("table").find(isSeen);
const box = table.parentElement;
const [corner] = table.tBodies[0].rows[3].cells;
const left = corner.getBoundingClientRect().left;
box.scrollLeft = 200;
ask("the first column stays",
  box.scrollLeft === 200 && Math.abs(corner.getBoundingClientRect().left - left) < 1);

table.tHead.rows[0].cells[1].firstElementChild.click();
const numbers = [...table.tBodies[0].rows].map((row) => Number(row.cells[1].dataset.number));
const isSorted = numbers.every((number, i) => i === 0 || numbers[i - 1] >= number);
ask("a table is sorted", isSorted && numbers[0] > numbers.at(-1));

all(".legend").at(-1).firstElementChild.click();
ask("a name stands out", all("svg .fade").length > 0);
parent.postMessage(answers, "*");
</script>"#;

/// Shows a page as wide as a phone, and writes down what it answers.
const PHONE: &str = r#"<!doctype html><meta charset="utf-8">
<iframe src="asked.html" width="360" height="800" style="border: 0"></iframe>
<script>
addEventListener("message", (event) => {
  document.body.dataset.answers = Object.entries(event.data).map((one) => one.join(": ")).join("; ");
});
</script>"#;

#[test]
fn the_page_works_in_a_browser_and_says_nothing_on_the_console() {
    let Some(browser) = Browser::find() else { return };
    let lab = Lab::new();
    lab.write("data/<script>", [random(1, 200_000), text(2, 200_000), random(1, 200_000)].concat());
    lab.ok("bench run --data data --mean 2KiB,8KiB --rounds 1 --html page.html");

    let page = fs::read_to_string(lab.path("page.html")).unwrap();
    lab.write("asked.html", page.replace("</body>", &format!("{QUESTIONS}</body>")));
    lab.write("phone.html", PHONE);
    let shown = browser.show(&lab.path(""), "phone.html");
    assert_eq!(shown.said(), Vec::<String>::new());
    let dom = shown.dom();
    let answers = dom.split("data-answers=\"").nth(1).and_then(|rest| rest.split('"').next());
    let answers: Vec<&str> = answers.expect("the page answers").split("; ").collect();
    assert_eq!(answers.len(), 7, "{answers:?}");
    assert!(answers.iter().all(|answer| answer.ends_with(": true")), "{answers:?}");

    // a page with an error would be noticed
    lab.write("wrong.html", page.replace("</body>", "<script>nonsense();</script></body>"));
    assert_eq!(browser.show(&lab.path(""), "wrong.html").said().len(), 1);
}
