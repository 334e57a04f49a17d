//! Stacked bars: what a whole consists of (paper 000, figure 4; paper 003, figure 3).

use crate::figure::labels::escaped;
use std::fmt::Write;

/// Okabe and Ito's colours, which colour-blind readers can distinguish too.
const COLOURS: [&str; 8] =
    ["#0072b2", "#e69f00", "#009e73", "#d55e00", "#56b4e9", "#cc79a7", "#f0e442", "#888888"];
const WIDTH: f64 = 760.0;
const LEFT: f64 = 170.0;
const RIGHT: f64 = 110.0;
const TOP: f64 = 48.0;
/// From one bar to the next, and the height of a bar.
const STEP: f64 = 34.0;
const HEIGHT: f64 = 20.0;
const LEGEND: f64 = 22.0;
/// Least total of a chart, and most of a part.
const MIN_VALUE: f64 = 1e-9;
const MAX_VALUE: f64 = 1e15;
/// Most characters of a bar's name.
const MAX_NAME: usize = 22;

/// One bar.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StackedBar {
    /// Its name, left of it.
    pub name: String,
    /// Its parts from the left, by name.
    pub parts: Vec<(String, f64)>,
    /// A part that lies within the others, drawn below them.
    pub within: Option<(String, f64)>,
}

/// A chart of stacked bars, one below the other.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BarChart {
    /// Heading.
    pub title: String,
    /// Unit of the values.
    pub unit: String,
    /// Digits of values after the point.
    pub digits: usize,
    /// The bars.
    pub bars: Vec<StackedBar>,
}

impl StackedBar {
    fn total(&self) -> f64 {
        self.parts.iter().map(|(_, value)| size(*value)).sum()
    }
}

/// Returns the extent of a value, which may come from a file: no positive number has none.
fn size(value: f64) -> f64 {
    if value.is_finite() { value.clamp(0.0, MAX_VALUE) } else { 0.0 }
}

impl BarChart {
    /// Draws the chart; `None` where there is nothing to draw.
    pub fn svg(&self) -> Option<String> {
        let most = self.bars.iter().map(StackedBar::total).fold(0.0, f64::max);
        if most < MIN_VALUE {
            return None;
        }
        let names = self.names();
        let foot = TOP + STEP * self.bars.len() as f64;
        let height = foot + 40.0 + LEGEND * names.len() as f64;
        let mut out = String::new();
        // Writing to a string cannot fail.
        let _ = write!(
            out,
            r##"<svg width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" xmlns="http://www.w3.org/2000/svg" font-family="sans-serif" font-size="14" fill="#000000">
<text x="8" y="24" font-size="19">{}</text>
"##,
            escaped(&self.title)
        );
        self.axis(&mut out, most, foot);
        for (at, bar) in self.bars.iter().enumerate() {
            self.bar(&mut out, bar, TOP + STEP * at as f64, (most, &names));
        }
        for (at, name) in names.iter().enumerate() {
            let (y, colour) = (foot + 34.0 + LEGEND * at as f64, COLOURS[at % COLOURS.len()]);
            let _ = writeln!(
                out,
                r#"<rect x="{LEFT}" y="{y}" width="14" height="14" fill="{colour}"/><text x="{}" y="{}">{}</text>"#,
                LEFT + 22.0,
                y + 12.0,
                escaped(name)
            );
        }
        out += "</svg>\n";
        Some(out)
    }

    /// Returns the names of all parts in the order of their first bar, those within others last.
    fn names(&self) -> Vec<&str> {
        let parts = self.bars.iter().flat_map(|bar| &bar.parts);
        let within = self.bars.iter().filter_map(|bar| bar.within.as_ref());
        let mut names: Vec<&str> = Vec::new();
        for (name, _) in parts.chain(within) {
            if !names.contains(&name.as_str()) {
                names.push(name);
            }
        }
        names
    }

    fn axis(&self, out: &mut String, most: f64, foot: f64) {
        let step = tick(most);
        let mut value = 0.0;
        while value <= most * 1.000_001 {
            let x = LEFT + extent(value, most);
            let _ = writeln!(
                out,
                r##"<line x1="{x:.1}" y1="{}" x2="{x:.1}" y2="{foot}" stroke="#888888" stroke-width="0.5"/><text x="{x:.1}" y="{}" text-anchor="middle" font-size="12">{}</text>"##,
                TOP - 6.0,
                foot + 16.0,
                number(value)
            );
            value += step;
        }
        let _ = writeln!(
            out,
            r#"<text x="{}" y="{}" font-size="12">{}</text>"#,
            WIDTH - RIGHT + 26.0,
            foot + 16.0,
            escaped(&self.unit)
        );
    }

    fn bar(&self, out: &mut String, bar: &StackedBar, top: f64, (most, names): (f64, &[&str])) {
        let Self { unit, digits, .. } = self;
        let total = bar.total();
        let name: String = bar.name.chars().take(MAX_NAME).collect();
        let _ = writeln!(
            out,
            r#"<text x="{}" y="{}" text-anchor="end">{}</text>"#,
            LEFT - 8.0,
            top + 15.0,
            escaped(&name)
        );
        let mut piece = |part: &str, value: f64, (left, top, height): (f64, f64, f64)| {
            let at = names.iter().position(|name| *name == part).unwrap_or(0);
            let share = 100.0 * value / total.max(f64::MIN_POSITIVE);
            let _ = writeln!(
                out,
                r#"<rect x="{left:.2}" y="{top}" width="{:.2}" height="{height}" fill="{}"><title>{}: {}: {value:.digits$} {unit}, {share:.1} %</title></rect>"#,
                extent(value, most),
                COLOURS[at % COLOURS.len()],
                escaped(&bar.name),
                escaped(part)
            );
        };
        let mut left = LEFT;
        for (part, value) in &bar.parts {
            piece(part, size(*value), (left, top, HEIGHT));
            left += extent(size(*value), most);
        }
        if let Some((part, value)) = &bar.within {
            piece(part, size(*value), (LEFT, top + HEIGHT, 5.0));
        }
        let _ = writeln!(
            out,
            r#"<text x="{:.1}" y="{}" font-size="13">{total:.digits$} {unit}</text>"#,
            left + 6.0,
            top + 15.0
        );
    }
}

fn extent(value: f64, most: f64) -> f64 {
    value / most * (WIDTH - LEFT - RIGHT)
}

/// Returns the distance of marks on the axis: 1, 2 or 5 times a power of ten, four to ten of them.
fn tick(most: f64) -> f64 {
    let power = 10_f64.powf((most / 4.0).log10().floor());
    let times = [5.0, 2.0, 1.0].into_iter().find(|times| times * power <= most / 4.0);
    power * times.unwrap_or(1.0)
}

/// Formats a mark of the axis.
fn number(value: f64) -> String {
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart() -> BarChart {
        let parts = |a, b| vec![("copy <in>".to_owned(), a), ("seal".to_owned(), b)];
        let within = Some(("rights".to_owned(), 5.0));
        let bars = vec![
            StackedBar { name: "short".into(), parts: parts(30.0, 10.0), within: None },
            StackedBar { name: "long & wide".into(), parts: parts(60.0, f64::NAN), within },
        ];
        BarChart { title: "A send".into(), unit: "ns".into(), digits: 1, bars }
    }

    #[test]
    fn the_bars_are_drawn_as_they_were() {
        let svg = chart().svg().unwrap();
        crate::golden::check("bars.svg", &svg);
        assert!(svg.contains("<title>short: copy &lt;in&gt;: 30.0 ns, 75.0 %</title>"), "{svg}");
        assert!(svg.contains("<title>long &amp; wide: rights: 5.0 ns, 8.3 %</title>"), "{svg}");
        assert_eq!(svg.matches("<title>").count(), 5, "a value for each part");
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
    }

    #[test]
    fn parts_lie_side_by_side_and_are_as_wide_as_their_share() {
        let svg = chart().svg().unwrap();
        let of = |line: &str, name: &str| -> f64 {
            let rest = line.split_once(&format!(" {name}=\"")).unwrap().1;
            rest.split('"').next().unwrap().parse().unwrap()
        };
        let parts: Vec<&str> = svg.lines().filter(|line| line.contains("<title>")).collect();
        let whole = WIDTH - LEFT - RIGHT;
        assert_eq!((of(parts[0], "x"), of(parts[0], "width")), (LEFT, whole / 2.0));
        assert!((of(parts[1], "x") - LEFT - whole / 2.0).abs() < 0.01);
        assert!((of(parts[1], "width") - whole / 6.0).abs() < 0.01);
    }

    #[test]
    fn without_values_there_is_no_chart() {
        let bars = vec![StackedBar { name: "none".into(), ..StackedBar::default() }];
        assert_eq!(BarChart { bars, ..chart() }.svg(), None);
        for odd in [5e-324, f64::INFINITY, -1.0] {
            let parts = vec![("odd".to_owned(), odd)];
            let bars = vec![StackedBar { parts, ..StackedBar::default() }];
            assert_eq!(BarChart { bars, ..chart() }.svg(), None, "{odd}");
        }
        assert_eq!([2.0, 100.0, 0.3, 7.9].map(tick), [0.5, 20.0, 0.05, 1.0]);
        assert_eq!([0.05, 20.0, 0.0].map(number), ["0.05", "20", "0"]);
    }
}
