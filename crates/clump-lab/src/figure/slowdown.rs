//! Slowdown curves (paper 001, figures 5 to 8): setting against slowdown, a curve for each program,
//! dashed what a model predicts.

use crate::figure::labels::{escaped, log_ticks, plain, round_ticks, spread};
use crate::time_limit::FEWEST_SAMPLES;
use clump_loggp::Median;
use std::fmt::Write;

/// Colours that can be read on light and on dark; the first of them are near to Okabe and Ito's,
/// which colour-blind readers can distinguish too.
const COLOURS: [&str; 10] = [
    "#2a8cc9", "#d55e00", "#009e73", "#cc79a7", "#c98b00", "#4aa6dd", "#888888", "#9467bd",
    "#8c6d51", "#17a2b8",
];
const WIDTH: f64 = 620.0;
const HEIGHT: f64 = 380.0;
const LEFT: f64 = 60.0;
/// Room for names beside the ends of lines.
const RIGHT: f64 = 210.0;
const TOP: f64 = 62.0;
const BOTTOM: f64 = 52.0;
/// Height of a line of text.
const LINE: f64 = 17.0;
/// Most characters of a name.
const MAX_NAME: usize = 21;

/// A setting at which a program was measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MeasuredPoint {
    /// The setting.
    pub across: f64,
    /// The slowdown.
    pub slowdown: Median,
    /// True if each run has this slowdown.
    pub is_exact: bool,
    /// Processor time that ranks lost there, where that is more than the predictions miss.
    pub lost: Option<LostTime>,
}

/// Processor time that ranks of a program lost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LostTime {
    /// Time for which a rank waited for a processor beyond that at no setting, in s.
    pub waited_s: f64,
    /// Times that the kernel took the processor from a rank beyond those at no setting, if known.
    pub preemptions: Option<u64>,
}

impl LostTime {
    /// Returns it in words, to follow a setting.
    pub fn text(&self) -> String {
        let Self { waited_s, preemptions } = self;
        let taken =
            preemptions.map(|times| format!(", which was taken from it {times} times more"));
        format!("a rank waited {waited_s:.3} s more for a processor{}", taken.unwrap_or_default())
    }
}

/// The curve of one program.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Curve {
    /// The program.
    pub name: String,
    /// The model that predicts; empty: none does.
    pub model: String,
    /// The settings at which it was measured.
    pub measured: Vec<MeasuredPoint>,
    /// Setting and slowdown that the model predicts.
    pub predicted: Vec<(f64, f64)>,
    /// Settings at which it did not finish.
    pub unfinished: Vec<f64>,
}

/// A chart of slowdowns.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SlowdownChart {
    /// Heading.
    pub title: String,
    /// Name and unit of the settings.
    pub across: String,
    /// True if settings are drawn by their logarithm.
    pub logarithmic: bool,
    /// The curves.
    pub curves: Vec<Curve>,
}

impl Curve {
    fn settings(&self) -> impl Iterator<Item = f64> {
        let measured = self.measured.iter().map(|point| point.across);
        let predicted = self.predicted.iter().map(|point| point.0);
        let all = measured.chain(predicted).chain(self.unfinished.iter().copied());
        all.filter(|setting| setting.is_finite())
    }

    /// Returns its name, as far as there is room for it.
    fn label(&self) -> String {
        self.name.chars().take(MAX_NAME).collect()
    }

    fn top(&self) -> f64 {
        let measured = self.measured.iter().map(|point| point.slowdown.high);
        let all = measured.chain(self.predicted.iter().map(|point| point.1));
        all.filter(|top| top.is_finite()).fold(1.2, f64::max)
    }
}

/// A setting at which a program did not finish, and its place.
#[derive(Debug)]
struct CrossMark<'a> {
    setting: f64,
    curve: &'a Curve,
    colour: &'static str,
    x: f64,
    y: f64,
}

/// The axes of a chart.
#[derive(Debug)]
struct Frame {
    across: Vec<f64>,
    up: Vec<f64>,
    logarithmic: bool,
}

impl Frame {
    /// Returns the place of a setting, and of a slowdown.
    fn x(&self, setting: f64) -> f64 {
        let ends = self.across.first().zip(self.across.last());
        let (least, most) = ends.map_or((0.0, 1.0), |(least, most)| (*least, *most));
        let share = match self.logarithmic {
            true => (setting / least).ln() / (most / least).ln(),
            false => (setting - least) / (most - least).max(f64::MIN_POSITIVE),
        };
        LEFT + share.clamp(0.0, 1.0) * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, slowdown: f64) -> f64 {
        let most = self.up.last().copied().unwrap_or(1.0).max(f64::MIN_POSITIVE);
        HEIGHT - BOTTOM - (slowdown / most).clamp(0.0, 1.0) * (HEIGHT - TOP - BOTTOM)
    }

    fn axes(&self, out: &mut String, across: &str) {
        let (bottom, right) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
        for &tick in &self.across {
            let x = self.x(tick);
            let _ = writeln!(
                out,
                r##"<line x1="{x:.1}" y1="{bottom}" x2="{x:.1}" y2="{:.1}" stroke="#888888"/><text x="{x:.1}" y="{:.1}" text-anchor="middle">{}</text>"##,
                bottom + 5.0,
                bottom + 20.0,
                plain(tick)
            );
        }
        for &tick in &self.up {
            let y = self.y(tick);
            let _ = writeln!(
                out,
                r##"<line x1="{LEFT}" y1="{y:.1}" x2="{right}" y2="{y:.1}" stroke="#888888" stroke-width="0.4"/><text x="{:.1}" y="{:.1}" text-anchor="end">{}</text>"##,
                LEFT - 8.0,
                y + 4.0,
                plain(tick)
            );
        }
        // As fast as without a knob.
        let y = self.y(1.0);
        let _ = writeln!(
            out,
            r##"<line x1="{LEFT}" y1="{y:.1}" x2="{right}" y2="{y:.1}" stroke="#888888" stroke-width="1.5"/>
<text x="{:.1}" y="{:.1}" text-anchor="middle">{}</text>
<text x="{:.1}" y="{:.1}">times as long as without</text>"##,
            f64::midpoint(LEFT, right),
            HEIGHT - 12.0,
            escaped(across),
            8.0,
            TOP - 18.0
        );
    }
}

impl SlowdownChart {
    /// Draws the chart; `None` where there is nothing to draw.
    pub fn svg(&self) -> Option<String> {
        let settings: Vec<f64> = self.curves.iter().flat_map(Curve::settings).collect();
        let least = settings.iter().copied().reduce(f64::min)?;
        let most = settings.iter().copied().reduce(f64::max)?;
        let logarithmic = self.logarithmic && least > 0.0;
        let across = if logarithmic { log_ticks(least, most) } else { ticks_to(most) };
        let up = ticks_to(self.curves.iter().map(Curve::top).fold(1.2, f64::max));
        let frame = Frame { across, up, logarithmic };
        let mut out = String::new();
        // Writing to a string cannot fail.
        let _ = write!(
            out,
            r##"<svg width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" xmlns="http://www.w3.org/2000/svg" font-family="sans-serif" font-size="15" fill="#000000">
<text x="8" y="20" font-size="18">{}</text>
"##,
            escaped(&self.title)
        );
        frame.axes(&mut out, &self.across);
        for (curve, colour) in self.curves.iter().zip(COLOURS.iter().cycle()) {
            self.curve(&mut out, &frame, curve, colour);
        }
        self.names(&mut out, &frame);
        self.unfinished(&mut out, &frame);
        out += "</svg>\n";
        Some(out)
    }

    fn curve(&self, out: &mut String, frame: &Frame, curve: &Curve, colour: &str) {
        let path = |points: Vec<(f64, f64)>| {
            let place = |(x, y): &(f64, f64)| format!("{:.1},{:.1}", frame.x(*x), frame.y(*y));
            points.iter().map(place).collect::<Vec<_>>().join(" ")
        };
        let measured = curve.measured.iter().map(|point| (point.across, point.slowdown.value));
        let measured = path(measured.collect());
        let predicted = path(curve.predicted.clone());
        let _ = writeln!(
            out,
            r#"<polyline points="{measured}" fill="none" stroke="{colour}" stroke-width="2"/><polyline points="{predicted}" fill="none" stroke="{colour}" stroke-dasharray="6 5"/>"#
        );
        for point in &curve.measured {
            let Median { value, low, high, samples } = point.slowdown;
            let (x, y) = (frame.x(point.across), frame.y(value));
            // One run is no measurement: hollow. In virtual time it is all there is to know.
            let fill = if samples == 1 && !point.is_exact { "none" } else { colour };
            // A network that is slower on purpose makes no program faster.
            let faded = value < 1.0 && !point.is_exact;
            let faded = if faded { r#" opacity="0.35""# } else { "" };
            let _ = writeln!(
                out,
                r#"<line x1="{x:.1}" y1="{:.1}" x2="{x:.1}" y2="{:.1}" stroke="{colour}" stroke-width="2"{faded}/><circle cx="{x:.1}" cy="{y:.1}" r="4" stroke="{colour}" fill="{fill}"{faded}><title>{}</title></circle>"#,
                frame.y(low),
                frame.y(high),
                escaped(&self.value(curve, point))
            );
            if let Some(lost) = point.lost {
                let _ = writeln!(
                    out,
                    r#"<rect x="{:.1}" y="{:.1}" width="16" height="16" fill="none" stroke="{colour}"><title>{}</title></rect>"#,
                    x - 8.0,
                    y - 8.0,
                    escaped(&format!("{}: {}", curve.name, lost.text()))
                );
            }
        }
    }

    /// Returns what a point says.
    fn value(&self, curve: &Curve, point: &MeasuredPoint) -> String {
        let Median { value, low, high, samples } = point.slowdown;
        let predicted = curve.predicted.iter().find(|(across, _)| *across == point.across);
        let model = &curve.model;
        let model = predicted.map(|(_, slowdown)| format!("; {model} predicts {slowdown:.2}"));
        let (name, setting, what) = (&curve.name, plain(point.across), &self.across);
        let of = format!("{name}: {what} {setting}: {value:.2} times as long");
        let runs = match samples {
            _ if point.is_exact => String::new(),
            1 => " (one run)".to_owned(),
            runs if runs < FEWEST_SAMPLES => {
                format!(" (range of {runs} runs: {low:.2} to {high:.2})")
            }
            runs => format!(" (95 %: {low:.2} to {high:.2}, {runs} runs)"),
        };
        format!("{of}{runs}{}", model.unwrap_or_default())
    }

    /// Writes names beside the ends of lines.
    fn names(&self, out: &mut String, frame: &Frame) {
        let ends = self.curves.iter().zip(COLOURS.iter().cycle()).filter_map(|(curve, colour)| {
            // Settings of bandwidth fall.
            let measured = curve.measured.iter().map(|point| (point.across, point.slowdown.value));
            let last = measured.max_by(|a, b| a.0.total_cmp(&b.0));
            if let Some((across, slowdown)) = last.or(curve.predicted.last().copied()) {
                return Some((curve, colour, frame.x(across), frame.y(slowdown)));
            }
            // It has crosses alone.
            let marks =
                self.marks(frame).into_iter().filter(|mark| std::ptr::eq(mark.curve, curve));
            let last = marks.max_by(|a, b| a.setting.total_cmp(&b.setting))?;
            Some((curve, colour, last.x, last.y))
        });
        let ends: Vec<_> = ends.collect();
        let wanted: Vec<f64> = ends.iter().map(|end| end.3).collect();
        let places = spread(&wanted, LINE, (TOP, HEIGHT - BOTTOM));
        let beside = WIDTH - RIGHT + 26.0;
        for ((curve, colour, x, y), place) in ends.into_iter().zip(places) {
            let _ = writeln!(
                out,
                r#"<polyline points="{:.1},{y:.1} {:.1},{y:.1} {:.1},{place:.1}" fill="none" stroke="{colour}" stroke-width="0.7"/><text x="{beside}" y="{:.1}" fill="{colour}">{}</text>"#,
                x + 5.0,
                WIDTH - RIGHT + 6.0,
                beside - 4.0,
                place + 4.0,
                escaped(&curve.label())
            );
        }
    }

    /// Returns the crosses: those of one setting below each other.
    fn marks(&self, frame: &Frame) -> Vec<CrossMark<'_>> {
        let mut marks: Vec<CrossMark<'_>> = Vec::new();
        for (curve, colour) in self.curves.iter().zip(COLOURS.iter().cycle()) {
            for &setting in &curve.unfinished {
                let above = marks.iter().filter(|other| other.setting == setting).count();
                #[expect(clippy::cast_precision_loss, reason = "programs are few")]
                let (x, y) = (frame.x(setting), TOP + 12.0 + above as f64 * LINE);
                marks.push(CrossMark { setting, curve, colour, x, y });
            }
        }
        marks
    }

    /// Draws a cross for each run that did not finish.
    fn unfinished(&self, out: &mut String, frame: &Frame) {
        for CrossMark { setting, curve, colour, x, y } in self.marks(frame) {
            let _ = writeln!(
                out,
                r#"<path d="M{:.1} {:.1}l10 10m0 -10l-10 10" stroke="{colour}" stroke-width="2"><title>{}: {} {}: did not finish</title></path>"#,
                x - 5.0,
                y - 5.0,
                escaped(&curve.name),
                escaped(&self.across),
                plain(setting)
            );
        }
    }
}

/// Returns round ticks that reach beyond `most`.
fn ticks_to(most: f64) -> Vec<f64> {
    let mut ticks = round_ticks(most);
    if let [.., before, last] = ticks[..]
        && last < most
    {
        ticks.push(last + (last - before));
    }
    ticks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(across: f64, [value, low, high]: [f64; 3], samples: usize) -> MeasuredPoint {
        let slowdown = Median { value, low, high, samples };
        MeasuredPoint { across, slowdown, is_exact: false, lost: None }
    }

    fn chart() -> SlowdownChart {
        let curve = Curve {
            name: "radix <1>".into(),
            model: String::new(),
            measured: vec![measured(1.0, [1.5, 1.4, 1.6], 5), measured(5.0, [3.0, 3.0, 3.0], 1)],
            predicted: vec![(1.0, 1.4), (5.0, 2.6)],
            unfinished: vec![10.0],
        };
        let across = "us added to o".to_owned();
        SlowdownChart { title: "Overhead".into(), across, logarithmic: false, curves: vec![curve] }
    }

    #[test]
    fn the_chart_is_drawn_as_it_was() {
        let svg = chart().svg().unwrap();
        crate::golden::check("slowdown.svg", &svg);
        assert_eq!(svg.matches("<title>").count(), 3, "a value for each point, and a cross");
        let tip = "us added to o 1: 1.50 times as long (range of 5 runs: 1.40 to 1.60)";
        assert!(svg.contains(&format!("radix &lt;1&gt;: {tip}")), "{svg}");
        assert!(svg.contains("3.00 times as long (one run)") && svg.contains("did not finish"));
        let dots = svg.lines().filter(|line| line.contains("<circle"));
        let hollow: Vec<_> = dots.map(|line| line.contains("fill=\"none\"><title>")).collect();
        assert_eq!(hollow, [false, true], "one run is drawn hollow");
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
    }

    #[test]
    fn what_is_faster_than_without_a_knob_is_faded_and_six_runs_have_an_interval() {
        let mut chart = chart();
        chart.curves[0].measured[0] = measured(1.0, [0.93, 0.9, 1.1], 6);
        let svg = chart.svg().unwrap();
        assert!(svg.contains("0.93 times as long (95 %: 0.90 to 1.10, 6 runs)"), "{svg}");
        let faded = |svg: &str| svg.lines().filter(|line| line.contains("opacity")).count();
        assert_eq!(faded(&svg), 1, "the first of two points: {svg}");
        chart.curves[0].measured[0].is_exact = true;
        assert_eq!(faded(&chart.svg().unwrap()), 0, "virtual time has no noise");
    }

    #[test]
    fn curves_that_have_crosses_alone_are_named_beside_them() {
        let curve = |at: usize| Curve {
            name: format!("program {at}"),
            unfinished: vec![5.0],
            ..Curve::default()
        };
        let svg = SlowdownChart { curves: (0..6).map(curve).collect(), ..chart() }.svg().unwrap();
        let named = (0..6).filter(|at| svg.contains(&format!(">program {at}</text>"))).count();
        assert_eq!((svg.matches("<path").count(), named), (6, 6), "{svg}");
    }

    #[test]
    fn points_at_which_processors_were_lacking_have_a_frame() {
        let mut chart = chart();
        let lost = LostTime { waited_s: 0.4, preemptions: Some(31) };
        chart.curves[0].measured[0].lost = Some(lost);
        let svg = chart.svg().unwrap();
        assert_eq!(svg.matches("<rect").count(), 1, "{svg}");
        let said = "a rank waited 0.400 s more for a processor, which was taken from it 31 times";
        assert!(svg.contains(said), "{svg}");
    }

    #[test]
    fn one_run_in_virtual_time_is_drawn_as_what_is_known() {
        let mut chart = chart();
        for point in &mut chart.curves[0].measured {
            point.is_exact = true;
        }
        let svg = chart.svg().unwrap();
        assert!(!svg.contains("fill=\"none\"><title>"), "{svg}");
        assert!(svg.contains("3.00 times as long; "), "{svg}");
    }

    #[test]
    fn names_of_many_programs_lie_beside_their_lines_and_not_over_each_other() {
        let curve = |at: usize| {
            let measured = vec![measured(1.0, [1.0 + at as f64 / 100.0; 3], 5)];
            Curve { name: format!("program {at}"), measured, ..Curve::default() }
        };
        let svg = SlowdownChart { curves: (0..10).map(curve).collect(), ..chart() }.svg().unwrap();
        let names = svg.lines().filter(|line| line.contains("<text") && line.contains(">program "));
        let height = |line: &str| -> f64 {
            let (_, rest) = line.split_once("y=\"").unwrap();
            rest.split('"').next().unwrap().parse().unwrap()
        };
        let mut heights: Vec<f64> =
            names.map(|line| height(line.split("<text").nth(1).unwrap())).collect();
        heights.sort_by(f64::total_cmp);
        assert_eq!(heights.len(), 10);
        assert!(heights.windows(2).all(|pair| pair[1] - pair[0] >= LINE - 0.11), "{heights:?}");
        assert!(heights[0] > TOP - LINE && heights[9] < HEIGHT - BOTTOM + LINE, "{heights:?}");
    }

    #[test]
    fn without_points_there_is_no_chart() {
        let empty = SlowdownChart { curves: vec![Curve::default()], ..chart() };
        assert_eq!(empty.svg(), None);
        let curve = Curve { model: "M5".into(), ..chart().curves[0].clone() };
        let with_model = SlowdownChart { curves: vec![curve], ..chart() }.svg().unwrap();
        assert!(with_model.contains("; M5 predicts 1.40</title>"), "{with_model}");
        let log = SlowdownChart { logarithmic: true, ..chart() }.svg().unwrap();
        assert!(log.contains("<circle") && !log.contains("NaN"));
        assert!(log.contains(">1</text>") && log.contains(">10</text>"), "round ticks: {log}");
    }
}
