//! Time of programs with a shared heap (paper 003: figure 3 and tables 1 and 2).

use crate::figure::LabFigure;
use crate::figure::bars::{BarChart, StackedBar};
use crate::schema::{Figure, ReportColumn, ReportTable};
use crate::study::input::StudiedProgram;
use clump_trace::shared_memory::SharedMemorySummary;
use clump_trace::{Counter, Profile, Snapshot};

/// Caption of the bars.
const BARS: &str = "Shares of time; values are below the pointer.";

/// Most ranks with a bar of their own. A job of more shows the mean of several ranks in a bar.
const MAX_BARS: usize = 32;

/// Name, unit and digits of a figure, and where it is.
type HeapRow = (&'static str, &'static str, usize, fn(&SharedMemorySummary) -> f64);

const ROWS: [HeapRow; 14] = [
    ("computation", "%", 2, |s| s.compute_percent),
    ("page faults", "%", 2, |s| s.data_percent),
    ("locks and flags", "%", 2, |s| s.lock_percent),
    ("flags, within these", "%", 2, |s| s.flag_percent),
    ("releases", "%", 2, |s| s.release_percent),
    ("barriers", "%", 2, |s| s.barrier_percent),
    ("waits for other ranks, within barriers", "%", 2, |s| s.others_percent),
    ("changes of rights, within these", "%", 2, |s| s.protection_percent),
    ("their share of what is no computation", "%", 1, rights_of_overhead),
    ("page faults per rank", "", 1, |s| s.faults_per_rank),
    ("a page fault", "us", 1, |s| s.fault_us),
    ("an acquire, or a wait for a flag", "us", 1, |s| s.lock_us),
    ("a barrier", "us", 1, |s| s.barrier_us),
    ("threads woken for others, per rank", "", 1, |s| s.woken_per_rank),
];

/// Returns the changes of rights as a share of all time that is no computation, in percent.
fn rights_of_overhead(s: &SharedMemorySummary) -> f64 {
    let overhead = s.data_percent + s.lock_percent + s.release_percent + s.barrier_percent;
    if overhead > 0.0 { 100.0 * s.protection_percent / overhead } else { 0.0 }
}

/// Returns the table of programs that have a shared heap.
pub fn table(programs: &[StudiedProgram]) -> Option<ReportTable> {
    let heap = |program: &StudiedProgram| program.profile.as_ref()?.summary.shared_memory.clone();
    let known: Vec<_> = programs.iter().filter_map(|p| Some((p, heap(p)?))).collect();
    if known.is_empty() {
        return None;
    }
    let columns = known.iter().map(|(program, _)| ReportColumn::ours(program.name.as_str()));
    let mut table = ReportTable::new("time with the shared heap open", columns.collect());
    for (name, unit, digits, pick) in ROWS {
        let figures = known.iter().map(|(_, heap)| Some(Figure::from(pick(heap)))).collect();
        table.row(name, (unit, digits), figures);
    }
    for (program, heap) in known.iter().filter(|(_, heap)| !heap.protocol.is_empty()) {
        table.notes.push(format!("{}: protocol {}", program.name, heap.protocol));
    }
    Some(table)
}

/// Returns the figures: a bar for each program, in percent and, of several, in time; and for each
/// program a bar for each rank.
pub fn figures(programs: &[StudiedProgram]) -> Vec<LabFigure> {
    let known: Vec<_> = programs
        .iter()
        .filter_map(|program| Some((program, program.profile.as_ref()?)))
        .filter(|(_, profile)| profile.counters.iter().any(|all| all[Counter::SvmOpen] != 0))
        .collect();
    let all = |profile: &Profile| -> Snapshot { profile.counters.iter().sum() };
    let shares = known.iter().map(|(program, profile)| {
        let all = all(profile);
        bar(&program.name, &all, 100.0 / all[Counter::SvmOpen].max(1) as f64)
    });
    let times = known.iter().map(|(program, profile)| {
        bar(&program.name, &all(profile), 1e-6 / profile.ranks().max(1) as f64)
    });
    let chart = |title: String, unit: &str, bars: Vec<StackedBar>| BarChart {
        title,
        unit: unit.into(),
        digits: 2,
        bars,
    };
    let mut figures = Vec::new();
    let mut add = |name: String, chart: BarChart| {
        if let Some(svg) = chart.svg() {
            figures.push(LabFigure { name, title: chart.title.clone(), caption: BARS.into(), svg });
        }
    };
    let title = "Time with the shared heap open, by program".to_owned();
    add("shared-heap".into(), chart(title, "%", shares.collect()));
    // Steps of the protocol ladder are compared by their times.
    if known.len() > 1 {
        let title = "Time with the shared heap open, by program, mean of ranks".to_owned();
        add("shared-heap-times".into(), chart(title, "ms", times.collect()));
    }
    for (program, profile) in &known {
        let title = format!("{}: time with the shared heap open, by rank", program.name);
        add(format!("shared-heap-{}", program.name), chart(title, "ms", ranks(profile)));
    }
    figures
}

/// Returns a bar for each rank, or for as many ranks each as there have to be in one.
fn ranks(profile: &Profile) -> Vec<StackedBar> {
    let each = profile.ranks().div_ceil(MAX_BARS).max(1);
    let of = |(at, ranks): (usize, &[Snapshot])| {
        let (first, last) = (at * each, at * each + ranks.len() - 1);
        let name =
            if first == last { format!("rank {first}") } else { format!("ranks {first}-{last}") };
        bar(&name, &ranks.iter().sum(), 1e-6 / ranks.len() as f64)
    };
    profile.counters.chunks(each).enumerate().map(of).collect()
}

/// Returns the bar of counters, times a factor.
fn bar(name: &str, all: &Snapshot, factor: f64) -> StackedBar {
    let time = |counter: Counter| all[counter] as f64 * factor;
    let waits = [
        ("page faults", Counter::SvmFaultWait),
        ("locks and flags", Counter::SvmLockWait),
        ("releases", Counter::SvmReleaseTime),
        ("barriers", Counter::SvmBarrierWait),
    ];
    let waits = waits.map(|(name, counter)| (name.to_owned(), time(counter)));
    let compute = time(Counter::SvmOpen) - waits.iter().map(|(_, time)| time).sum::<f64>();
    let mut parts = vec![("computation".to_owned(), compute.max(0.0))];
    parts.extend(waits);
    let rights = time(Counter::SvmProtectionTime);
    let within = ("changes of rights, within these".to_owned(), rights);
    StackedBar { name: name.into(), parts, within: Some(within) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::fake::profile;
    use Counter as C;

    fn program(ranks: usize) -> StudiedProgram {
        let mut counters = vec![Snapshot::ZERO; ranks];
        for (rank, all) in counters.iter_mut().enumerate() {
            all[C::SvmOpen] = 10_000_000;
            all[C::SvmFaults] = 20;
            all[C::SvmFaultWait] = 2_000_000;
            all[C::SvmLockWait] = 500_000 * (rank as u64 % 2);
            all[C::SvmReleaseTime] = 250_000;
            all[C::SvmBarrierWait] = 1_000_000;
            all[C::SvmProtectionTime] = 1_750_000;
        }
        StudiedProgram {
            name: "fft".into(),
            profile: Some(profile(counters)),
            ..Default::default()
        }
    }

    #[test]
    fn the_table_is_of_the_time_that_the_heap_was_open() {
        let table = table(&[program(2), StudiedProgram::default()]).unwrap();
        let value = |name: &str| {
            let row = table.rows.iter().find(|row| row.name == name).unwrap();
            row.figures[0].unwrap().value
        };
        assert_eq!((value("computation"), value("page faults")), (65.0, 20.0));
        assert_eq!((value("locks and flags"), value("a page fault")), (2.5, 100.0));
        assert_eq!(value("their share of what is no computation"), 50.0);
        let nothing = StudiedProgram { profile: Some(profile(vec![Snapshot::ZERO])), ..program(1) };
        assert_eq!(super::table(std::slice::from_ref(&nothing)), None);
        assert!(figures(&[nothing]).is_empty());
    }

    #[test]
    fn bars_are_of_programs_and_of_their_ranks() {
        let drawn = figures(&[program(2)]);
        let names: Vec<_> = drawn.iter().map(|figure| figure.name.as_str()).collect();
        assert_eq!(names, ["shared-heap", "shared-heap-fft"]);
        assert!(drawn[0].svg.contains("fft: locks and flags: 2.50 %, 2.5 %"), "{}", drawn[0].svg);
        crate::golden::check("shared-heap.svg", &drawn[1].svg);
        assert!(drawn[1].svg.contains("rank 1: locks and flags: 0.50 ms, 5.0 %"));
        assert!(drawn[1].svg.contains("rank 0: changes of rights, within these: 1.75 ms, 17.5 %"));
        let twice = figures(&[program(2), program(1)]);
        assert_eq!(twice[1].name, "shared-heap-times");
        assert!(twice[1].svg.contains("fft: page faults: 2.00 ms, 20.0 %"), "{}", twice[1].svg);
        let many = ranks(program(100).profile.as_ref().unwrap());
        assert_eq!((many.len(), many[24].name.as_str()), (25, "ranks 96-99"));
        assert_eq!(many[0].parts[1].1, 2.0, "the mean of the ranks of a bar");
    }
}
