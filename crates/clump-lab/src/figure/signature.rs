//! The LogP signature (paper 001, figure 3): burst size against time per message, a curve for each
//! delay between messages, and lines at the values that the estimate reads from them.

use crate::figure::labels::{escaped, spread};
use crate::plot::{LogAxis, delay_text, nanoseconds};
use clump_loggp::{Estimate, Median, Signature};
use serde::{Deserialize, Serialize};
use std::fmt::Write;

const WIDTH: f64 = 820.0;
const HEIGHT: f64 = 520.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 220.0;
const TOP: f64 = 50.0;
const BOTTOM: f64 = 60.0;
/// Height of a line of text.
const LINE: f64 = 17.0;
/// Okabe and Ito's colours, which colour-blind readers can distinguish too.
const COLOURS: [&str; 7] =
    ["#888888", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"];

/// One point of a signature.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SignaturePoint {
    /// Messages of the burst.
    pub messages: u32,
    /// Delay between two of them, in ns.
    pub delay_ns: f64,
    /// Time of the burst over its messages, in ns.
    pub per_message_ns: Median,
}

/// Returns the points of what was measured.
pub fn points(signature: &Signature) -> Vec<SignaturePoint> {
    let point = |delay_ns: f64| {
        let curve = signature.curve(delay_ns).into_iter();
        curve.filter_map(move |burst| {
            let per_message_ns = burst.per_message()?;
            Some(SignaturePoint { messages: burst.messages, delay_ns, per_message_ns })
        })
    };
    signature.delays_ns().into_iter().flat_map(point).collect()
}

fn x(place: f64) -> f64 {
    LEFT + place * (WIDTH - LEFT - RIGHT)
}

fn y(place: f64) -> f64 {
    HEIGHT - BOTTOM - place * (HEIGHT - TOP - BOTTOM)
}

/// Draws burst size against time per message; `None` without points.
pub fn signature(title: &str, points: &[SignaturePoint], estimate: &Estimate) -> Option<String> {
    // Both axes are logarithmic; points may come from a file.
    let is_drawable =
        |point: &&SignaturePoint| point.messages > 0 && point.per_message_ns.value > 0.0;
    let points: Vec<SignaturePoint> = points.iter().filter(is_drawable).copied().collect();
    let points = &points[..];
    let medians = points.iter().map(|point| point.per_message_ns.value);
    let across = LogAxis::covering(points.iter().map(|point| f64::from(point.messages)), 2.0)?;
    let levels = levels(points, estimate);
    let up = LogAxis::covering(medians.chain(levels.iter().map(|level| level.1)), 10.0)?;
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write!(
        out,
        r##"<svg width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" xmlns="http://www.w3.org/2000/svg" font-family="sans-serif" font-size="14" fill="#000000">
<text x="{LEFT}" y="26" font-size="19">{}</text>
"##,
        escaped(title)
    );
    axes(&mut out, across, up);
    let mut names = Vec::new();
    for (name, ns) in levels {
        let at = y(up.place(ns));
        level(&mut out, at);
        names.push((at, name, "#888888"));
    }
    names.extend(curves(&mut out, points, across, up));
    labels(&mut out, &names);
    out += "</svg>\n";
    Some(out)
}

/// Returns the values that the estimate reads from the curves: the lone send, the steady interval,
/// and the interval at the longest delay, which is that delay with both overheads.
fn levels(points: &[SignaturePoint], estimate: &Estimate) -> Vec<(String, f64)> {
    let (o_s, g) = (estimate.o_s.value, estimate.g.value);
    let text = |name: &str, ns: f64| (format!("{name} = {}", nanoseconds(ns)), ns);
    let mut levels = vec![text("o_s", o_s), text("g", g)];
    let longest = points.iter().map(|point| point.delay_ns).fold(0.0, f64::max);
    if longest > 0.0 {
        levels.push(text("delay + o_s + o_r", longest + o_s + estimate.o_r.value));
    }
    levels.retain(|(_, ns)| ns.is_finite() && *ns > 0.0);
    levels
}

fn axes(out: &mut String, across: LogAxis, up: LogAxis) {
    let (left, right, bottom, top) = (x(0.0), x(1.0), y(0.0), y(1.0));
    for tick in across.ticks(2.0) {
        let at = x(across.place(tick));
        let _ = writeln!(
            out,
            r##"<line x1="{at:.1}" y1="{bottom}" x2="{at:.1}" y2="{top}" stroke="#888888" stroke-width="0.2"/><text x="{at:.1}" y="{:.1}" text-anchor="middle">{tick:.0}</text>"##,
            bottom + 20.0
        );
    }
    for tick in up.ticks(10.0) {
        let at = y(up.place(tick));
        let _ = writeln!(
            out,
            r##"<line x1="{left}" y1="{at:.1}" x2="{right}" y2="{at:.1}" stroke="#888888" stroke-width="0.4"/><text x="{:.1}" y="{:.1}" text-anchor="end">{}</text>"##,
            left - 8.0,
            at + 4.0,
            nanoseconds(tick)
        );
    }
    let _ = writeln!(
        out,
        r#"<text x="{:.1}" y="{:.1}" text-anchor="middle">messages in a burst; up: time per message</text>"#,
        f64::midpoint(left, right),
        HEIGHT - 14.0
    );
}

/// Draws a construction line: a value that the estimate read from the curves.
fn level(out: &mut String, at: f64) {
    let _ = writeln!(
        out,
        r##"<line x1="{:.1}" y1="{at:.1}" x2="{:.1}" y2="{at:.1}" stroke="#888888" stroke-dasharray="6 4"/>"##,
        x(0.0),
        x(1.0)
    );
}

/// Writes names right of the curves, each beside its line and none over another.
fn labels(out: &mut String, names: &[(f64, String, &str)]) {
    let wanted: Vec<f64> = names.iter().map(|name| name.0).collect();
    let places = spread(&wanted, LINE, (TOP, HEIGHT - BOTTOM));
    for ((at, text, colour), place) in names.iter().zip(places) {
        let end = x(1.0);
        let _ = writeln!(
            out,
            r#"<polyline points="{:.1},{at:.1} {:.1},{place:.1}" fill="none" stroke="{colour}" stroke-width="0.7"/><text x="{:.1}" y="{:.1}" fill="{colour}">{}</text>"#,
            end + 3.0,
            end + 16.0,
            end + 20.0,
            place + 4.0,
            escaped(text)
        );
    }
}

/// Draws the curves. Returns height, name and colour of the end of each.
fn curves(
    out: &mut String,
    points: &[SignaturePoint],
    across: LogAxis,
    up: LogAxis,
) -> Vec<(f64, String, &'static str)> {
    let mut ends = Vec::new();
    let curves = points.chunk_by(|a, b| a.delay_ns.total_cmp(&b.delay_ns).is_eq());
    for (curve, colour) in curves.zip(COLOURS.iter().cycle()) {
        let place = |point: &SignaturePoint| {
            let right = x(across.place(f64::from(point.messages)));
            (right, y(up.place(point.per_message_ns.value)))
        };
        let path: Vec<String> =
            curve.iter().map(place).map(|(px, py)| format!("{px:.1},{py:.1}")).collect();
        let _ = writeln!(
            out,
            r#"<polyline points="{}" fill="none" stroke="{colour}" stroke-width="1.5"/>"#,
            path.join(" ")
        );
        for point in curve {
            let ((px, py), Median { value, low, high, .. }) = (place(point), point.per_message_ns);
            let _ = writeln!(
                out,
                r#"<circle cx="{px:.1}" cy="{py:.1}" r="3" fill="{colour}"><title>delay {}, burst of {}: {} a message ({} to {})</title></circle>"#,
                delay_text(point.delay_ns),
                point.messages,
                nanoseconds(value),
                nanoseconds(low),
                nanoseconds(high)
            );
        }
        if let Some(last) = curve.last() {
            ends.push((place(last).1, format!("delay {}", delay_text(last.delay_ns)), *colour));
        }
    }
    ends
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::measure;
    use crate::pair::fake::FakePair;
    use crate::plan::MeasurementPlan;

    #[test]
    fn a_curve_per_delay_inside_the_frame() {
        let plan = MeasurementPlan::quick();
        let (m, _) = measure(&mut FakePair::default(), &plan).unwrap();
        let text = signature("LogP <shm>", &points(&m.signature), &m.estimate().unwrap()).unwrap();
        assert!(text.starts_with("<svg") && text.ends_with("</svg>\n"));
        // A curve for each delay, and a line from each end and each level to its name.
        assert_eq!(text.matches("<polyline").count(), 2 * plan.delays.len() + 3);
        let circles = text.matches("<circle").count();
        assert_eq!(circles, plan.delays.len() * plan.bursts.len());
        assert_eq!(text.matches("<title>").count(), circles, "a value for each point");
        assert_eq!(text.matches("stroke-dasharray").count(), 3);
        assert!(!text.contains("NaN") && !text.contains("inf") && text.contains("&lt;shm&gt;"));
        for part in text.split("cx=\"").skip(1) {
            let at: f64 = part.split('"').next().unwrap().parse().unwrap();
            assert!((LEFT..=WIDTH - RIGHT).contains(&at));
        }
    }

    #[test]
    fn the_signature_is_drawn_as_it_was() {
        let median =
            |value: f64| Median { low: value - 1.0, high: value + 1.0, ..Median::exact(value) };
        let point = |messages, delay_ns, ns| SignaturePoint {
            messages,
            delay_ns,
            per_message_ns: median(ns),
        };
        let points = [
            point(1, 0.0, 1_800.0),
            point(8, 0.0, 2_500.0),
            point(64, 0.0, 5_700.0),
            point(1, 10_000.0, 1_800.0),
            point(64, 10_000.0, 15_700.0),
        ];
        let (m, _) = measure(&mut FakePair::default(), &MeasurementPlan::quick()).unwrap();
        let mut estimate = m.estimate().unwrap();
        (estimate.o_s, estimate.o_r) = (Median::exact(1_800.0), Median::exact(4_000.0));
        estimate.g = Median::exact(5_800.0);
        let svg = signature("paper 001", &points, &estimate).unwrap();
        crate::golden::check("signature.svg", &svg);
        assert!(svg.contains(">delay + o_s + o_r = 15.8 us<"), "{svg}");
        assert!(svg.contains("delay 10.00 us, burst of 64: 15.7 us a message"), "{svg}");
        assert_eq!(signature("none", &[], &estimate), None);
        let odd = [point(0, 0.0, 5.0), point(8, 0.0, -5.0), point(8, 0.0, 0.0)];
        assert_eq!(signature("odd", &odd, &estimate), None);
        let svg = signature("odd", &[&points[..], &odd[..]].concat(), &estimate).unwrap();
        assert!(!svg.contains("NaN") && svg.matches("<circle").count() == 5, "{svg}");
    }
}
