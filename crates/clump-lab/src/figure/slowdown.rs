//! Slowdown curves (paper 001, figures 5 to 8): setting against slowdown, a curve for each program,
//! dashed what a model predicts.

use crate::figure::element_titles::with_titles;
use anyhow::{Result, anyhow};
use clump_loggp::Median;
use plotters::coord::ranged1d::{Ranged, ValueFormatter};
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;

/// Okabe and Ito's colours, which colour-blind readers can distinguish too.
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(120, 120, 120),
];
const SIZE: (u32, u32) = (720, 420);
/// Share of the height that a label takes.
const LABEL_SHARE: f64 = 0.06;
const GREY: RGBColor = RGBColor(160, 160, 160);

/// A setting at which a program was measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MeasuredPoint {
    /// The setting.
    pub across: f64,
    /// The slowdown.
    pub slowdown: Median,
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

    /// Returns its line of the legend.
    fn label(&self) -> String {
        match self.model.as_str() {
            "" => self.name.clone(),
            model => format!("{}, dashed {model}", self.name),
        }
    }

    fn top(&self) -> f64 {
        let measured = self.measured.iter().map(|point| point.slowdown.high);
        let all = measured.chain(self.predicted.iter().map(|point| point.1));
        all.filter(|top| top.is_finite()).fold(1.2, f64::max)
    }
}

impl SlowdownChart {
    fn top(&self) -> f64 {
        1.08 * self.curves.iter().map(Curve::top).fold(1.2, f64::max)
    }

    /// Draws the chart; `None` where there is nothing to draw.
    ///
    /// # Errors
    /// Fails if the library cannot draw it.
    pub fn svg(&self) -> Result<Option<String>> {
        let settings: Vec<f64> = self.curves.iter().flat_map(Curve::settings).collect();
        let least = settings.iter().copied().reduce(f64::min);
        let (Some(least), Some(most)) = (least, settings.iter().copied().reduce(f64::max)) else {
            return Ok(None);
        };
        let mut svg = String::new();
        {
            let root = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
            let mut builder = ChartBuilder::on(&root);
            builder.margin(12).x_label_area_size(52).y_label_area_size(64);
            builder.caption(&self.title, ("sans-serif", 22));
            let up = 0.0..self.top();
            if self.logarithmic && least > 0.0 {
                let across = (least * 0.9..most * 2.0).log_scale();
                self.draw(&mut builder.build_cartesian_2d(across, up).map_err(drawing)?)?;
            } else {
                let across = 0.0..most.max(1e-9) * 1.3;
                self.draw(&mut builder.build_cartesian_2d(across, up).map_err(drawing)?)?;
            }
            root.present().map_err(drawing)?;
        }
        Ok(Some(with_titles(&svg, "<circle ", &self.titles())))
    }

    /// Returns what the points say.
    fn titles(&self) -> Vec<String> {
        let title = |name: &str, point: &MeasuredPoint| {
            let Median { value, low, high, samples } = point.slowdown;
            let of = format!("{name}: {:.4} {}: slowdown {value:.3}", point.across, self.across);
            match samples {
                1 => format!("{of} (one run)"),
                runs => format!("{of} ({low:.3} to {high:.3}, {runs} runs)"),
            }
        };
        let of = |curve: &Curve| {
            curve.measured.iter().map(|point| title(&curve.name, point)).collect::<Vec<_>>()
        };
        self.curves.iter().flat_map(of).collect()
    }

    /// Returns the end of each line, lowest first, with the height of its label: labels lie beside
    /// their lines and not over each other.
    fn labels(&self) -> Vec<(f64, f64, String, RGBColor)> {
        let ends = self.curves.iter().zip(COLOURS.iter().cycle());
        let ends = ends.filter_map(|(curve, &colour)| {
            let last = curve.measured.last().map(|point| (point.across, point.slowdown.value));
            let (across, up) = last.or(curve.predicted.last().copied())?;
            Some((across, up, curve.label(), colour))
        });
        let mut labels: Vec<_> = ends.collect();
        labels.sort_by(|a, b| a.1.total_cmp(&b.1));
        let (mut free, step) = (0.0, self.top() * LABEL_SHARE);
        for label in &mut labels {
            label.1 = label.1.max(free);
            free = label.1 + step;
        }
        labels
    }

    fn draw<'a, DB, X>(
        &self,
        chart: &mut ChartContext<'a, DB, Cartesian2d<X, RangedCoordf64>>,
    ) -> Result<()>
    where
        DB: DrawingBackend + 'a,
        X: Ranged<ValueType = f64> + ValueFormatter<f64>,
    {
        let label = ("sans-serif", 17);
        let mut mesh = chart.configure_mesh();
        mesh.light_line_style(TRANSPARENT).x_desc(&self.across).y_desc("slowdown");
        mesh.label_style(label).axis_desc_style(label).draw().map_err(drawing)?;
        // As fast as without a knob.
        let settings: Vec<f64> = self.curves.iter().flat_map(Curve::settings).collect();
        let least = settings.iter().copied().reduce(f64::min);
        let most = settings.iter().copied().reduce(f64::max);
        let one = [least, most].into_iter().flatten().map(|setting| (setting, 1.0));
        chart.draw_series(LineSeries::new(one, GREY.stroke_width(1))).map_err(drawing)?;
        for (curve, &colour) in self.curves.iter().zip(COLOURS.iter().cycle()) {
            let line = curve.measured.iter().map(|point| (point.across, point.slowdown.value));
            let bars = curve.measured.iter().map(|&MeasuredPoint { across, slowdown }| {
                let ends = vec![(across, slowdown.low), (across, slowdown.high)];
                PathElement::new(ends, colour.stroke_width(2))
            });
            chart.draw_series(bars).map_err(drawing)?;
            chart.draw_series(LineSeries::new(line, colour.stroke_width(2))).map_err(drawing)?;
            let predicted = curve.predicted.iter().copied();
            let dashes = DashedLineSeries::new(predicted, 6, 5, colour.stroke_width(1));
            chart.draw_series(dashes).map_err(drawing)?;
            // One run is no measurement: hollow.
            let dots = curve.measured.iter().map(|&MeasuredPoint { across, slowdown }| {
                let style = ShapeStyle { filled: slowdown.samples != 1, ..colour.stroke_width(1) };
                Circle::new((across, slowdown.value), 4, style)
            });
            chart.draw_series(dots).map_err(drawing)?;
            let top = self.top() * 0.96;
            let mark = |&setting: &f64| Cross::new((setting, top), 6, colour.stroke_width(2));
            chart.draw_series(curve.unfinished.iter().map(mark)).map_err(drawing)?;
            let text = |&setting: &f64| {
                let style = ("sans-serif", 13).into_font().color(&colour);
                Text::new("did not finish", (setting, top * 0.97), style)
            };
            chart.draw_series(curve.unfinished.iter().map(text)).map_err(drawing)?;
        }
        let labels = self.labels().into_iter().map(|(across, up, text, colour)| {
            EmptyElement::at((across, up))
                + Text::new(text, (8, -8), label.into_font().color(&colour))
        });
        chart.draw_series(labels).map_err(drawing)?;
        Ok(())
    }
}

/// Turns an error of the library, which borrows what is drawn, into text.
fn drawing(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("drawing a figure: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(across: f64, [value, low, high]: [f64; 3], samples: usize) -> MeasuredPoint {
        MeasuredPoint { across, slowdown: Median { value, low, high, samples } }
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
        let svg = chart().svg().unwrap().unwrap();
        crate::golden::check("slowdown.svg", &svg);
        assert_eq!(svg.matches("<title>").count(), 2, "a value for each point");
        assert!(svg.contains("radix &lt;1&gt;: 1.0000 us added to o: slowdown 1.500 (1.400 to "));
        assert!(
            svg.contains("slowdown 3.000 (one run)") && svg.contains("did not finish"),
            "{svg}"
        );
        let dots = svg.lines().filter(|line| line.starts_with("<circle"));
        let hollow: Vec<_> = dots.map(|line| line.contains("fill=\"none\"")).collect();
        assert_eq!(hollow, [false, true], "one run is drawn hollow");
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
    }

    #[test]
    fn without_points_there_is_no_chart() {
        let empty = SlowdownChart { curves: vec![Curve::default()], ..chart() };
        assert_eq!(empty.svg().unwrap(), None);
        let curve = Curve { model: "M5".into(), ..chart().curves[0].clone() };
        let with_model = SlowdownChart { curves: vec![curve], ..chart() }.svg().unwrap().unwrap();
        assert!(with_model.contains("radix &lt;1&gt;, dashed M5"), "{with_model}");
        let log = SlowdownChart { logarithmic: true, ..chart() }.svg().unwrap().unwrap();
        assert!(log.contains("<circle") && !log.contains("NaN"));
    }
}
