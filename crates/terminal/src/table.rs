//! Columns for a terminal.

/// Lines in which every column is as wide as its widest cell, two spaces apart.
///
/// Columns listed in `right` are set to the right, as numbers are; the last column is not padded.
pub fn lines(rows: &[Vec<String>], right: &[usize]) -> Vec<String> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width_of = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max()
    };
    let widths: Vec<usize> = (0..columns).map(|column| width_of(column).unwrap_or(0)).collect();
    let line = |row: &Vec<String>| {
        let mut line = String::new();
        for (column, (cell, &width)) in row.iter().zip(&widths).enumerate() {
            if column > 0 {
                line.push_str("  ");
            }
            line.push_str(&match right.contains(&column) {
                true => format!("{cell:>width$}"),
                false => format!("{cell:<width$}"),
            });
        }
        line.truncate(line.trim_end().len());
        line
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let rows = [["é", "1", "x"], ["bcd", "200", ""]].map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(lines(&rows, &[1]), ["é      1  x", "bcd  200"]);
    }
}
