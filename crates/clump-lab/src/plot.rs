//! The signature as a plot of characters: both axes logarithmic, at most 100 columns.

use clump_loggp::Signature;

const COLUMNS: usize = 84;
const ROWS: usize = 20;

/// A logarithmic axis with `cells` cells.
#[derive(Debug, Clone, Copy)]
pub struct LogAxis {
    low: f64,
    high: f64,
}

impl LogAxis {
    /// Returns an axis that covers the values, from the power of ten (or two) below to the one
    /// above.
    pub fn covering(values: impl Iterator<Item = f64>, base: f64) -> Option<Self> {
        let mut range: Option<(f64, f64)> = None;
        for v in values.filter(|v| *v > 0.0 && v.is_finite()) {
            let (low, high) = range.unwrap_or((v, v));
            range = Some((low.min(v), high.max(v)));
        }
        let (low, high) = range?;
        let low = base.powf((low.ln() / base.ln() + 1e-9).floor());
        let high = base.powf((high.ln() / base.ln() - 1e-9).ceil());
        Some(Self { low, high: if high > low { high } else { low * base } })
    }

    /// Returns the position of a value between 0 and 1, values outside on the border.
    pub fn place(self, value: f64) -> f64 {
        ((value / self.low).ln() / (self.high / self.low).ln()).clamp(0.0, 1.0)
    }

    /// Returns the powers of `base` on the axis, ends included.
    pub fn ticks(self, base: f64) -> Vec<f64> {
        let mut tick = self.low;
        let mut out = Vec::new();
        while tick <= self.high * 1.000_001 {
            out.push(tick);
            tick *= base;
        }
        out
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 <= place <= 1")]
#[expect(clippy::cast_precision_loss, reason = "a few dozen cells")]
fn cell(place: f64, cells: usize) -> usize {
    ((place * (cells - 1) as f64).round() as usize).min(cells - 1)
}

/// Formats a duration with three figures and a suitable unit.
pub fn nanoseconds(ns: f64) -> String {
    let (value, unit) = match ns.abs() {
        t if t < 999.5 => (ns, "ns"),
        t if t < 999_500.0 => (ns / 1e3, "us"),
        _ => (ns / 1e6, "ms"),
    };
    let digits = match value.abs() {
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    let text = format!("{value:.digits$}");
    let text = if digits > 0 { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text} {unit}")
}

/// Plots burst size to the right, time per message upwards, one letter per delay.
pub fn signature(signature: &Signature) -> String {
    let cells: Vec<(usize, f64, f64)> = signature
        .delays_ns()
        .iter()
        .enumerate()
        .flat_map(|(d, &delay)| signature.curve(delay).into_iter().map(move |b| (d, b)))
        .filter_map(|(d, b)| Some((d, f64::from(b.messages), b.per_message()?.value)))
        .collect();
    let across = LogAxis::covering(cells.iter().map(|c| c.1), 2.0);
    let (Some(across), Some(up)) = (across, LogAxis::covering(cells.iter().map(|c| c.2), 10.0))
    else {
        return "no bursts were measured\n".into();
    };
    let mut grid = vec![vec![' '; COLUMNS]; ROWS];
    for tick in up.ticks(10.0) {
        grid[ROWS - 1 - cell(up.place(tick), ROWS)].fill('.');
    }
    for &(d, messages, ns) in &cells {
        let row = ROWS - 1 - cell(up.place(ns), ROWS);
        let letter = char::from(b'a' + u8::try_from(d % 26).unwrap_or(0));
        grid[row][cell(across.place(messages), COLUMNS)] = letter;
    }
    let mut out = String::from("time per message (both axes logarithmic)\n");
    for (row, line) in grid.iter().enumerate() {
        let label = up
            .ticks(10.0)
            .into_iter()
            .find(|&t| ROWS - 1 - cell(up.place(t), ROWS) == row)
            .map_or(String::new(), nanoseconds);
        let line: String = line.iter().collect();
        out += format!("{label:>8} |{line}").trim_end();
        out.push('\n');
    }
    out += &format!("{:>8} +{}\n", "", "-".repeat(COLUMNS));
    let mut axis = vec![' '; COLUMNS + 6];
    for tick in across.ticks(2.0) {
        let at = cell(across.place(tick), COLUMNS);
        for (offset, digit) in format!("{tick:.0}").chars().enumerate() {
            axis[at + offset] = digit;
        }
    }
    let axis: String = axis.iter().collect();
    out += &format!("{:>8}  {}\n", "burst", axis.trim_end());
    let legend = signature.delays_ns().into_iter().enumerate().map(|(d, delay)| {
        format!("{} = {}", char::from(b'a' + u8::try_from(d % 26).unwrap_or(0)), delay_text(delay))
    });
    out += &format!("   delay  {}\n", legend.collect::<Vec<_>>().join(", "));
    out
}

/// Returns the name of a delay in legends.
pub fn delay_text(delay_ns: f64) -> String {
    if delay_ns < 1000.0 {
        format!("{delay_ns:.0} ns")
    } else {
        format!("{:.2} us", delay_ns / 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clump_loggp::Burst;

    fn burst(messages: u32, delay_ns: f64, per_message: f64) -> Burst {
        let samples_ns = vec![per_message * f64::from(messages)];
        Burst { messages, delay_ns, samples_ns }
    }

    #[test]
    fn axes_end_on_powers_and_place_by_logarithm() {
        let axis = LogAxis::covering([15.0, 900.0].into_iter(), 10.0).unwrap();
        assert_eq!(axis.ticks(10.0).len(), 3);
        assert!((axis.place(100.0) - 0.5).abs() < 1e-9);
        assert_eq!((axis.place(1.0), axis.place(1e9)), (0.0, 1.0));
        // A single value on a power still gives an axis with an extent.
        assert_eq!(LogAxis::covering([10.0].into_iter(), 10.0).unwrap().ticks(10.0).len(), 2);
        assert!(LogAxis::covering([0.0, f64::NAN].into_iter(), 10.0).is_none());
    }

    #[test]
    fn durations_have_three_figures() {
        let said = [10.0, 410.945, 39.86, 1500.0, 552_245.0, 2e6].map(nanoseconds);
        assert_eq!(said, ["10 ns", "411 ns", "39.9 ns", "1.5 us", "552 us", "2 ms"]);
    }

    #[test]
    fn plot_fits_and_puts_the_letters_in_order() {
        let s = Signature {
            bursts: vec![burst(1, 0.0, 12.0), burst(2048, 0.0, 40.0), burst(2048, 800.0, 950.0)],
        };
        let text = signature(&s);
        assert!(text.lines().all(|l| l.chars().count() <= 100), "{text}");
        let row = |needle: &str| text.lines().position(|l| l.trim_end().ends_with(needle)).unwrap();
        assert!(row("b") < row("a"), "slower is higher\n{text}");
        assert!(text.contains("a = 0 ns, b = 800 ns") && text.contains("2048"));
        assert_eq!(signature(&Signature::default()), "no bursts were measured\n");
    }
}
