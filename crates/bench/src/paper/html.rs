//! A page of findings and tables, for a browser, with nothing from the network.

use std::fmt::Write as _;

use super::{Finding, Reproduction, Table, Verdict};

const STYLE: &str = "\
:root{color-scheme:light dark}\
body{font:16px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:72rem;padding:0 1rem}\
.wide{overflow-x:auto}\
table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:.9rem}\
th,td{border-bottom:1px solid #8886;padding:.3rem .6rem;text-align:right;vertical-align:top}\
th:first-child,td:first-child,.text td{text-align:left}\
.holds{color:#16803c}.differs{color:#b45309}.not-measured{color:#7778}";

pub(super) fn page(result: &Reproduction) -> String {
    let mut text = format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n<h1>{title}</h1>\n",
        title = escaped(&result.paper)
    );
    let [hold, differ, not_measured] = result.count();
    let _ = writeln!(
        text,
        "<p>{hold} claims hold, {differ} differ, {not_measured} were not measured.{}{}</p>",
        if result.quick { " Measured on little data and in few rounds." } else { "" },
        if result.interrupted { " Stopped before the end." } else { "" },
    );
    text.push_str("<ul>");
    for dataset in &result.datasets {
        let name = escaped(&dataset.name);
        let _ = writeln!(text, "<li>{name}: {} files, {} bytes", dataset.files, dataset.bytes);
    }
    text.push_str("</ul>\n");
    findings(&mut text, &result.findings);
    for table in &result.tables {
        figure(&mut text, table);
    }
    text
}

fn findings(text: &mut String, findings: &[Finding]) {
    text.push_str("<h2>Claims</h2><div class=wide><table class=text><tr>");
    for head in ["Claim", "Where", "Paper", "Here", "", "Reason", "Measured by"] {
        let _ = write!(text, "<th>{head}");
    }
    for one in findings {
        let class = match one.verdict {
            Verdict::Holds => "holds",
            Verdict::Differs => "differs",
            Verdict::NotMeasured => "not-measured",
        };
        text.push_str("\n<tr>");
        for cell in [&one.claim, &one.place, &one.reported, &one.found] {
            let _ = write!(text, "<td>{}", escaped(cell));
        }
        let _ = write!(text, "<td class={class}>{}", one.verdict.name());
        let _ = write!(text, "<td>{}<td>{}", escaped(&one.reason), escaped(&one.measured_by));
    }
    text.push_str("</table></div>\n");
}

fn figure(text: &mut String, table: &Table) {
    let _ = write!(text, "<h2>{}</h2><p>{}</p>", escaped(&table.place), escaped(&table.title));
    text.push_str("<div class=wide><table><tr>");
    for column in &table.columns {
        let _ = write!(text, "<th>{}", escaped(column));
    }
    for row in &table.rows {
        text.push_str("\n<tr>");
        for cell in row {
            let _ = write!(text, "<td>{}", escaped(cell));
        }
    }
    text.push_str("</table></div>\n");
}

/// As text that stands for itself in HTML.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_stand_for_themselves() {
        assert_eq!(escaped("a < b & \"c\" > d"), "a &lt; b &amp; &quot;c&quot; &gt; d");
    }
}
