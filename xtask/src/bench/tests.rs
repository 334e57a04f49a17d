//! The page and the stored results are in step, and runs replace what people wrote.

use super::instrument::Instrument;
use super::results::{ResultTable, Run};
use super::{PAGES, all, page};
use crate::host;
use serde_json::{Value, json};

fn tables() -> Vec<ResultTable> {
    ResultTable::load_all(&host::root().unwrap()).unwrap()
}

fn run(date: &str) -> Run {
    Run {
        instrument: "flood".into(),
        date: date.into(),
        commit: "c0ffee".into(),
        machine: Value::Null,
        load: 0.1,
        figures: Vec::new(),
    }
}

#[test]
fn the_pages_show_what_is_stored() {
    let (tables, mut shown) = (tables(), 0);
    for page in PAGES {
        let text = std::fs::read_to_string(host::root().unwrap().join(page)).unwrap();
        let (rendered, number) = page::render(&text, &tables).unwrap();
        assert!(text == rendered, "{page} is out of step: run `cargo xtask bench --render`");
        shown += number;
    }
    assert_eq!(shown, tables.len(), "each table has a place");
}

#[test]
fn every_figure_has_a_row() {
    let tables = tables();
    for (table, row, column) in all().iter().flat_map(Instrument::rows) {
        let table = tables.iter().find(|one| one.name == table).unwrap();
        assert!(table.rows.iter().any(|one| one.key == row), "{row}");
        assert!(column < table.columns.len(), "{row}");
    }
}

#[test]
fn runs_replace_figures_and_judge_them() {
    let all = all();
    let flood = all.iter().find(|one| one.name == "flood").unwrap();
    let mut tables = tables();
    let table = tables.iter_mut().find(|one| one.name == "between-nodes").unwrap();
    let mut measured = |date: &str, processor: f64| {
        let report = json!({ "data": { "processor": processor } });
        let (_, key, figure) = flood.figures_of(&report).remove(0);
        let row = table.rows.iter_mut().find(|one| one.key == key).unwrap();
        row.add(&run(date), figure);
        row.cells()
    };
    let cells = measured("2026-11-20", 0.074);
    assert_eq!((&cells[1][..], &cells[4][..]), ("7.4 % (AEAD)", "met"));
    let cells = measured("2026-11-21", 0.123);
    assert_eq!((&cells[1][..], &cells[4][..]), ("7.4 to 12.3 % (AEAD)", "**missed**"));
    for day in 1..=5 {
        measured(&format!("2026-12-0{day}"), 0.08);
    }
    let cells = measured("2026-12-06", 0.08);
    assert_eq!(&cells[1], "8.0 % (AEAD)", "old runs are forgotten");
}

#[test]
fn figures_are_found_in_either_form() {
    let all = all();
    let compare = all.iter().find(|one| one.name == "compare").unwrap();
    let figures = json!([{ "value": 0.15, "interval": [0.14, 0.16] }, null, { "value": 1.9, "interval": null }]);
    let report = json!({ "tables": [{ "rows": [{ "figures": figures }] }] });
    let found = compare.figures_of(&report);
    assert_eq!(found.len(), 2);
    assert_eq!((found[0].2.text(), found[0].2.interval), ("0.15 us".into(), Some((0.14, 0.16))));
    assert_eq!(found[1].2.text(), "1.9");
}

#[test]
fn a_place_without_a_table_is_refused() {
    assert_eq!(page::render("nothing here", &tables()).unwrap().1, 0);
    assert!(page::render("<!-- bench: none -->\n<!-- /bench -->", &[]).is_err());
}
