//! Five figures of what messages cost here, for the end of a demonstration: without goals, and none
//! where other programs had the processors.

use serde_json::Value;

/// Share of its time, in percent, that a measuring rank may have waited for a processor.
const MAX_QUEUED_PERCENT: f64 = 5.0;

/// Returns the five figures and their meaning as lines, or, where they would say nothing, why.
/// `node` and `network` are the data of `clump lab logp` on a node and between two.
///
/// # Errors
/// Fails with the reason if the machine was busy, or if the measurements varied too much.
pub fn lines(node: &Value, network: &Value) -> Result<Vec<String>, String> {
    if let Some(why) = [node, network].into_iter().find_map(crowd) {
        return Err(why);
    }
    let figures = [
        (
            median(node, "round_trip_ns"),
            1e-3,
            "us",
            "a question of 8 bytes and its answer, on a node",
        ),
        (
            median(node, "rate_per_s"),
            1e-6,
            "M/s",
            "messages of 8 bytes from one rank to another of its node",
        ),
        (stream(node), 1e-9, "GB/s", "long messages between them, not read"),
        (
            median(network, "round_trip_ns"),
            1e-3,
            "us",
            "a question and its answer between two nodes: encrypted, by UDP",
        ),
        (stream(network), 1e-9, "GB/s", "long messages between nodes, encrypted"),
    ];
    let line = |(figure, scale, unit, meaning): (Option<f64>, f64, &str, &str)| {
        let value = figure? * scale;
        let digits = if value < 10.0 { 2 } else { 1 };
        // Times and rates that come out as none or less are noise.
        (value.is_finite() && value > 0.0)
            .then(|| format!("  {value:>8.digits$} {unit:<5} {meaning}"))
    };
    let lines: Option<Vec<String>> = figures.into_iter().map(line).collect();
    lines.ok_or_else(|| "the measurements varied too much".to_owned())
}

/// Returns the reason why a measurement says nothing, if other programs had the processors.
pub fn crowd(data: &Value) -> Option<String> {
    if let Some(queued) = data["queued_percent"].as_f64() {
        let why = || {
            format!(
                "this machine is busy: processes waited {queued:.0} % of their time for a processor"
            )
        };
        return (queued > MAX_QUEUED_PERCENT).then(why);
    }
    let load = data["crowd"].as_f64()?;
    Some(format!("this machine is busy: its load average is {load:.1}"))
}

fn median(data: &Value, name: &str) -> Option<f64> {
    data[name]["ours"]["value"].as_f64()
}

/// Returns the bandwidth of the longest messages, by the faster way, in bytes per second.
fn stream(data: &Value) -> Option<f64> {
    let all = data["bandwidth"].as_array()?;
    let longest = all.iter().filter_map(|one| one["bytes"].as_u64()).max()?;
    let longest = all.iter().filter(|one| one["bytes"] == longest);
    longest.filter_map(|one| median(one, "bytes_per_s")).max_by(f64::total_cmp)
}

#[cfg(test)]
mod tests {
    use super::lines;
    use serde_json::{Value, json};

    fn data(round_trip_ns: f64, bytes_per_s: f64) -> Value {
        let ours = |value: f64| json!({ "ours": { "value": value } });
        let stream = |bytes: u64, value| json!({ "bytes": bytes, "bytes_per_s": ours(value) });
        json!({
            "round_trip_ns": ours(round_trip_ns), "rate_per_s": ours(44.1e6),
            "bandwidth": [stream(4096, 9e12), stream(1 << 20, bytes_per_s), stream(1 << 20, -1e9)],
            "queued_percent": 0.3, "crowd": 7.0,
        })
    }

    #[test]
    fn there_are_five_figures_with_their_meaning() {
        let lines = lines(&data(150.0, 25.06e9), &data(6_300.0, 2.4e9)).unwrap();
        let figures = lines.iter().map(|line| line.split_whitespace().take(2).collect::<Vec<_>>());
        let figures: Vec<_> = figures.map(|words| words.join(" ")).collect();
        assert_eq!(figures, ["0.15 us", "44.1 M/s", "25.1 GB/s", "6.30 us", "2.40 GB/s"]);
        assert!(lines.iter().all(|line| line.len() <= 100), "{lines:?}");
    }

    #[test]
    fn there_are_none_on_a_busy_machine_and_none_that_are_noise() {
        let quiet = data(150.0, 25e9);
        let mut busy = data(6_300.0, 2.4e9);
        busy["queued_percent"] = json!(31.4);
        let why = lines(&quiet, &busy).unwrap_err();
        assert!(why.contains("busy") && why.contains("31 % of their time"), "{why}");
        // Where the kernel does not tell, the load average does.
        busy["queued_percent"] = Value::Null;
        assert!(lines(&busy, &quiet).unwrap_err().contains("load average is 7.0"));
        for noise in [data(150.0, -0.6e9), data(0.0, 25e9), json!({ "queued_percent": 0.0 })] {
            assert!(lines(&quiet, &noise).unwrap_err().contains("varied"), "{noise}");
        }
    }
}
