//! The signature as a self-contained SVG file (paper 001, figure 3).

use crate::plot::{LogAxis, delay_text, nanoseconds};
use clump_loggp::{Estimate, Signature};
use std::fmt::Write;

const WIDTH: f64 = 820.0;
const HEIGHT: f64 = 520.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 150.0;
const TOP: f64 = 50.0;
const BOTTOM: f64 = 60.0;
/// Okabe and Ito's colours, which colour-blind readers can distinguish too.
const COLOURS: [&str; 7] =
    ["#000000", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"];

fn x(place: f64) -> f64 {
    LEFT + place * (WIDTH - LEFT - RIGHT)
}

fn y(place: f64) -> f64 {
    HEIGHT - BOTTOM - place * (HEIGHT - TOP - BOTTOM)
}

/// Draws burst size against time per message, a curve per delay, with the levels that the estimate
/// reads from it.
pub fn signature(signature: &Signature, estimate: &Estimate) -> String {
    let medians = signature.bursts.iter().filter_map(|b| Some(b.per_message()?.value));
    let sizes = signature.bursts.iter().map(|b| f64::from(b.messages));
    let across = LogAxis::covering(sizes, 2.0);
    let levels = [estimate.o_s.value, estimate.g.value];
    let up = LogAxis::covering(medians.chain(levels), 10.0);
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write!(
        out,
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="13">
<title>LogP signature</title>
<rect width="100%" height="100%" fill="#ffffff"/>
<text x="{LEFT}" y="26" font-size="17">LogP signature: time per message by burst size and delay</text>
"##
    );
    if let (Some(across), Some(up)) = (across, up) {
        axes(&mut out, across, up);
        level(&mut out, up, "o_s", estimate.o_s.value);
        level(&mut out, up, "g", estimate.g.value);
        curves(&mut out, signature, across, up);
    }
    out += "</svg>\n";
    out
}

fn axes(out: &mut String, across: LogAxis, up: LogAxis) {
    let (left, right, bottom, top) = (x(0.0), x(1.0), y(0.0), y(1.0));
    for tick in across.ticks(2.0) {
        let at = x(across.place(tick));
        let _ = writeln!(
            out,
            r##"<line x1="{at:.1}" y1="{bottom}" x2="{at:.1}" y2="{top}" stroke="#eeeeee"/><text x="{at:.1}" y="{:.1}" text-anchor="middle">{tick:.0}</text>"##,
            bottom + 18.0
        );
    }
    for tick in up.ticks(10.0) {
        let at = y(up.place(tick));
        let _ = writeln!(
            out,
            r##"<line x1="{left}" y1="{at:.1}" x2="{right}" y2="{at:.1}" stroke="#cccccc"/><text x="{:.1}" y="{:.1}" text-anchor="end">{}</text>"##,
            left - 8.0,
            at + 4.0,
            nanoseconds(tick)
        );
    }
    let _ = writeln!(
        out,
        r#"<text x="{:.1}" y="{:.1}" text-anchor="middle">messages in a burst</text>"#,
        f64::midpoint(left, right),
        HEIGHT - 16.0
    );
}

/// Draws a construction line: a value that the estimate read from the curves.
fn level(out: &mut String, up: LogAxis, name: &str, ns: f64) {
    let at = y(up.place(ns));
    let _ = writeln!(
        out,
        r##"<line x1="{:.1}" y1="{at:.1}" x2="{:.1}" y2="{at:.1}" stroke="#888888" stroke-dasharray="6 4"/><text x="{:.1}" y="{:.1}" fill="#555555">{name} = {ns:.1} ns</text>"##,
        x(0.0),
        x(1.0),
        x(0.0) + 6.0,
        at - 5.0
    );
}

fn curves(out: &mut String, signature: &Signature, across: LogAxis, up: LogAxis) {
    for (d, delay) in signature.delays_ns().into_iter().enumerate() {
        let colour = COLOURS[d % COLOURS.len()];
        let points: Vec<(f64, f64)> = signature
            .curve(delay)
            .into_iter()
            .filter_map(|b| Some((f64::from(b.messages), b.per_message()?.value)))
            .map(|(m, ns)| (x(across.place(m)), y(up.place(ns))))
            .collect();
        let path: Vec<String> = points.iter().map(|(px, py)| format!("{px:.1},{py:.1}")).collect();
        let _ = writeln!(
            out,
            r#"<polyline points="{}" fill="none" stroke="{colour}" stroke-width="1.5"/>"#,
            path.join(" ")
        );
        for (px, py) in &points {
            let _ = writeln!(out, r#"<circle cx="{px:.1}" cy="{py:.1}" r="2.5" fill="{colour}"/>"#);
        }
        if let Some((_, py)) = points.last() {
            let _ = writeln!(
                out,
                r#"<text x="{:.1}" y="{:.1}" fill="{colour}">delay {}</text>"#,
                x(1.0) + 10.0,
                py + 4.0,
                delay_text(delay)
            );
        }
    }
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
        let text = signature(&m.signature, &m.estimate().unwrap());
        assert!(text.starts_with("<svg") && text.ends_with("</svg>\n"));
        assert_eq!(text.matches("<polyline").count(), plan.delays.len());
        assert_eq!(text.matches("<circle").count(), plan.delays.len() * plan.bursts.len());
        assert_eq!(text.matches("stroke-dasharray").count(), 2);
        assert!(!text.contains("NaN") && !text.contains("inf"));
        for part in text.split("cx=\"").skip(1) {
            let at: f64 = part.split('"').next().unwrap().parse().unwrap();
            assert!((LEFT..=WIDTH - RIGHT).contains(&at));
        }
    }
}
