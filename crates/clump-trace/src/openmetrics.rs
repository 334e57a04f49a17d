//! Counters in the text format of OpenMetrics 1.0, which collectors of metrics read.

use crate::counter::{Counter, CounterUnit};
use crate::snapshot::Snapshot;

/// The media type of the text.
pub const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Counters of one rank or network interface, under the labels of their samples.
#[derive(Debug, Clone)]
pub struct Labelled {
    /// Name and value of each label, such as `rank` and `3`.
    pub labels: Vec<(&'static str, String)>,
    /// Counters of the rank or interface.
    pub counters: Snapshot,
}

/// Returns all counters of `samples` that are not zero everywhere. Times are in seconds, as the
/// format requires; moments of one machine's clock are left out.
pub fn text(samples: &[Labelled]) -> String {
    let mut text = String::new();
    for &counter in Counter::ALL {
        let is_used = samples.iter().any(|sample| sample.counters[counter] != 0);
        if !is_used || counter.unit() == CounterUnit::Moment {
            continue;
        }
        let (family, unit) = family(counter);
        text += &format!("# TYPE {family} counter\n");
        if let Some(unit) = unit {
            text += &format!("# UNIT {family} {unit}\n");
        }
        text += &format!("# HELP {family} {}\n", escaped(counter.help()));
        for sample in samples {
            let labels = sample.labels.iter();
            let labels = labels.map(|(name, value)| format!("{name}=\"{}\"", escaped(value)));
            let labels = labels.collect::<Vec<_>>().join(",");
            let value = value(counter, sample.counters[counter]);
            text += &format!("{family}_total{{{labels}}} {value}\n");
        }
    }
    text + "# EOF\n"
}

/// Returns the name of a counter's family, which ends with its unit if it has one.
fn family(counter: Counter) -> (String, Option<&'static str>) {
    let unit = match counter.unit() {
        CounterUnit::Bytes => Some("bytes"),
        CounterUnit::Nanoseconds => Some("seconds"),
        CounterUnit::Count | CounterUnit::Moment => None,
    };
    let is_plain = |c: char| c.is_ascii_alphanumeric();
    let plain: String = counter.name().chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
    let plain = plain.trim_end_matches("_ns");
    let name = match unit {
        Some(unit) if !plain.ends_with(unit) => format!("clump_{plain}_{unit}"),
        _ => format!("clump_{plain}"),
    };
    (name, unit)
}

fn value(counter: Counter, cell: u64) -> String {
    match counter.unit() {
        CounterUnit::Nanoseconds => {
            format!("{}.{:09}", cell / 1_000_000_000, cell % 1_000_000_000)
        }
        _ => cell.to_string(),
    }
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\n', "\\n").replace('"', "\\\"")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn sample(rank: u32, cells: &[(Counter, u64)]) -> Labelled {
        let mut counters = Snapshot::ZERO;
        for &(counter, value) in cells {
            counters[counter] = value;
        }
        Labelled { labels: vec![("rank", rank.to_string()), ("node", "0".into())], counters }
    }

    #[test]
    fn counters_have_types_units_and_samples() {
        let cells = [(Counter::NetPacketsSent, 7), (Counter::NetBytesSent, 900)];
        let text = text(&[sample(0, &cells), sample(1, &[])]);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines.contains(&"# TYPE clump_net_packets_sent counter"), "{text}");
        assert!(lines.contains(&"clump_net_packets_sent_total{rank=\"0\",node=\"0\"} 7"), "{text}");
        assert!(lines.contains(&"clump_net_packets_sent_total{rank=\"1\",node=\"0\"} 0"), "{text}");
        assert!(lines.iter().any(|line| line.starts_with("# UNIT") && line.ends_with(" bytes")));
        assert_eq!(lines.last(), Some(&"# EOF"));
    }

    #[test]
    fn times_are_seconds() {
        let of = |unit| Counter::ALL.iter().copied().find(|c| c.unit() == unit).unwrap();
        let time = of(CounterUnit::Nanoseconds);
        let text = text(&[sample(0, &[(time, 1_500_000_007), (of(CounterUnit::Moment), 5)])]);
        assert!(text.contains("_seconds_total{rank=\"0\",node=\"0\"} 1.500000007\n"), "{text}");
        assert_eq!(text.matches("# TYPE").count(), 1, "moments are left out: {text}");
    }

    #[test]
    fn families_are_distinct_and_well_named() {
        let names: HashSet<String> =
            Counter::ALL.iter().map(|&counter| family(counter).0).collect();
        assert_eq!(names.len(), Counter::COUNT, "two counters of one name");
        for (name, unit) in Counter::ALL.iter().map(|&counter| family(counter)) {
            assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'), "{name}");
            assert!(
                unit.is_none_or(|unit| name.ends_with(unit)) && !name.ends_with("_total"),
                "{name}"
            );
        }
    }

    #[test]
    fn values_of_labels_are_escaped() {
        assert_eq!(escaped("a\"b\\c\nd"), "a\\\"b\\\\c\\nd");
    }
}
