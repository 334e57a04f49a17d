//! Every figure of a report as a line of comma-separated values (RFC 4180).

use crate::schema::InstrumentReport;

/// Returns the lines, a heading first.
pub fn csv(report: &InstrumentReport) -> String {
    let mut out = String::from("table,row,column,value,low,high,unit\n");
    for table in &report.tables {
        for row in &table.rows {
            for (column, figure) in table.columns.iter().zip(&row.figures) {
                let Some(figure) = figure else { continue };
                let unit = column.unit.as_ref().unwrap_or(&row.unit);
                let names = [&table.title, &row.name, &column.name].map(|name| quoted(name));
                let (low, high) = figure.interval.unzip();
                let end = |end: Option<f64>| end.map(|end| end.to_string()).unwrap_or_default();
                out += &format!("{},{},", names.join(","), figure.value);
                out += &format!("{},{},{}\n", end(low), end(high), quoted(unit));
            }
        }
    }
    out
}

fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{Figure, ReportColumn, ReportTable};

    #[test]
    fn figures_have_their_unit_and_interval_and_names_their_quotes() {
        let mut report = InstrumentReport::new("report", "t".into(), &()).unwrap();
        let mut table = ReportTable::new("a \"b\", c", vec![ReportColumn::ours("x")]);
        table.row("r", ("us", 1), vec![Some(Figure { interval: Some((1.0, 2.0)), ..1.5.into() })]);
        table.row("s", ("us", 1), vec![None]);
        report.tables.push(table);
        let expected = "table,row,column,value,low,high,unit\n\
                        \"a \"\"b\"\", c\",r,x,1.5,1,2,us\n";
        assert_eq!(csv(&report), expected);
    }
}
