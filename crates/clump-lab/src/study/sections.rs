//! Tables and figures of a report that no sweep is needed for.

use crate::figure::{LabFigure, signature};
use crate::schema::ReportTable;
use crate::study::input::Study;
use crate::study::{interfaces, shared_memory};

/// Most programs beside each other in a table.
const BESIDE: usize = 4;

/// Captions of figures.
const SIGNATURE: &str = "Time of a burst over its messages, by its size and the delay between two \
                         messages, both axes logarithmic. Dashed: what the parameters are read from.";
const STEPS: &str = "Time of each step; values are below the pointer.";

/// Returns what the files allow: LogP of paths, steps of messages, shared heaps, interfaces.
pub fn sections(study: &Study) -> (Vec<ReportTable>, Vec<LabFigure>) {
    let mut tables = study.results.tables();
    let mut figures = Vec::new();
    for column in &study.results.columns {
        let title = format!("LogP signature: {}", column.name);
        if let Some(svg) = signature::signature(&title, &column.signature, &column.estimate) {
            let name = file("signature", &column.name);
            figures.push(LabFigure { name, title, caption: SIGNATURE.into(), svg });
        }
    }
    for (at, steps) in study.results.steps.iter().enumerate() {
        for chart in &steps.charts {
            let side = chart.title.split(':').next().unwrap_or_default();
            if let Some(svg) = chart.svg() {
                let name = file("steps", &format!("{at}-{side}"));
                let title = chart.title.clone();
                figures.push(LabFigure { name, title, caption: STEPS.into(), svg });
            }
        }
    }
    for programs in study.programs.chunks(BESIDE) {
        tables.extend(shared_memory::table(programs));
        tables.extend(interfaces::stages(programs));
    }
    tables.extend(study.programs.iter().filter_map(interfaces::load));
    figures.extend(shared_memory::figures(&study.programs));
    (tables, figures)
}

/// Returns the name of a figure's file: words joined by hyphens.
fn file(kind: &str, of: &str) -> String {
    let words = of.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    [kind].into_iter().chain(words).collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logp;
    use crate::logp_tables::Extent;
    use crate::pair::fake::FakePair;
    use crate::plan::MeasurementPlan;
    use crate::schema::InstrumentReport;
    use crate::steps::Breakdown;
    use crate::study::fake::profile;
    use clump_trace::{Counter, Snapshot};

    #[test]
    fn files_of_figures_have_plain_names() {
        assert_eq!(file("signature", "shm, net idle"), "signature-shm-net-idle");
        assert_eq!(file("steps", "0-send"), "steps-0-send");
        let (tables, figures) = sections(&Study::default());
        assert!(tables.is_empty() && figures.is_empty());
    }

    /// Returns a study of a program with a shared heap, of a path, and of the steps of packets.
    fn study() -> Study {
        let mut counters = vec![Snapshot::ZERO; 2];
        for all in &mut counters {
            all[Counter::SvmOpen] = 10_000_000;
            all[Counter::SvmFaultWait] = 3_000_000;
            all[Counter::SvmProtectionTime] = 1_000_000;
        }
        let mut study = Study::default();
        let profile = serde_json::to_string(&profile(counters)).unwrap();
        study.add("fft", &profile).unwrap();
        let plan = MeasurementPlan { slices: 3, ..MeasurementPlan::quick() };
        let logp = logp::run(&mut FakePair::default(), &plan, Breakdown::unknown()).unwrap();
        let logp = logp.report(Extent::Everything).unwrap();
        study.add("logp", &serde_json::to_string(&logp).unwrap()).unwrap();
        let step =
            |name: &str, ns: f64| serde_json::json!({ "name": name, "ns": [[ns, ns], [ns, ns]] });
        let data = serde_json::json!({
            "send": [step("seal", 10.0), step("call", 900.0), step("sum of a send", 910.0)],
            "receive": [step("open", 20.0), step("sum of a receive", 20.0)],
        });
        let steps = InstrumentReport::new("steps", "a packet".into(), &data).unwrap();
        study.add("steps", &serde_json::to_string(&steps).unwrap()).unwrap();
        study
    }

    #[test]
    fn the_page_has_every_figure_with_its_values_and_is_readable_on_dark() {
        let (report, figures) = crate::study::tables::report(&study()).unwrap();
        let names: Vec<_> = figures.iter().map(|figure| figure.name.as_str()).collect();
        let expected = ["signature-shm", "steps-0-send", "steps-0-receive", "shared-heap"];
        assert_eq!(names[..4], expected);
        assert_eq!(names[4..], ["shared-heap-fft"]);
        assert!(figures.iter().all(|figure| figure.svg.contains("<title>")), "{names:?}");
        let text = crate::render::text(&report);
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        assert!(text.contains("o_s") && !text.contains("M1"), "no models without sweeps: {text}");
        let page = crate::page::page(&report, &figures).unwrap();
        // Text takes the colour of the page, and nothing is drawn on white but the page.
        assert!(!page.contains("#000000") && page.matches("#ffffff").count() == 1);
        assert_eq!(page.matches("fill=\"currentColor\"").count(), figures.len());
        assert!(page.contains("<dt>o</dt>") && !page.contains("<dt>M1</dt>"), "a key to symbols");
        crate::study::browser::open(&page);
    }
}
