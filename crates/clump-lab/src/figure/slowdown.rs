//! Slowdown curves (paper 001, figures 5 to 8): setting against slowdown, a curve for each program,
//! dashed what a model predicts.

use crate::figure::element_titles::with_titles;
use anyhow::{Result, anyhow};
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

/// The curve of one program.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Curve {
    /// The program.
    pub name: String,
    /// The model that predicts; empty: none does.
    pub model: String,
    /// Setting, slowdown, and the ends of its interval.
    pub measured: Vec<(f64, f64, f64, f64)>,
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
        let measured = self.measured.iter().map(|point| point.0);
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
        let measured = self.measured.iter().map(|point| point.3);
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
                let across = (least * 0.9..most * 1.1).log_scale();
                self.draw(&mut builder.build_cartesian_2d(across, up).map_err(drawing)?)?;
            } else {
                let across = 0.0..most.max(1e-9) * 1.05;
                self.draw(&mut builder.build_cartesian_2d(across, up).map_err(drawing)?)?;
            }
            root.present().map_err(drawing)?;
        }
        Ok(Some(with_titles(&svg, "<circle ", &self.titles())))
    }

    fn titles(&self) -> Vec<String> {
        let title = |name: &str, &(setting, slowdown, low, high): &(f64, f64, f64, f64)| {
            let across = &self.across;
            format!("{name}: {setting:.4} {across}: slowdown {slowdown:.3} ({low:.3} to {high:.3})")
        };
        let of = |curve: &Curve| {
            curve.measured.iter().map(|point| title(&curve.name, point)).collect::<Vec<_>>()
        };
        self.curves.iter().flat_map(of).collect()
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
        for (curve, &colour) in self.curves.iter().zip(COLOURS.iter().cycle()) {
            let line = curve.measured.iter().map(|point| (point.0, point.1));
            let bars = curve.measured.iter().map(|&(setting, _, low, high)| {
                PathElement::new(vec![(setting, low), (setting, high)], colour.stroke_width(2))
            });
            chart.draw_series(bars).map_err(drawing)?;
            let drawn = chart.draw_series(LineSeries::new(line.clone(), colour.stroke_width(2)));
            let named = drawn.map_err(drawing)?.label(curve.label());
            named.legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 18, y)], colour));
            let predicted = curve.predicted.iter().copied();
            let dashes = DashedLineSeries::new(predicted, 6, 5, colour.stroke_width(1));
            chart.draw_series(dashes).map_err(drawing)?;
            let dots = line.map(|point| Circle::new(point, 4, colour.filled()));
            chart.draw_series(dots).map_err(drawing)?;
            let top = self.top() * 0.96;
            let mark = |&setting: &f64| Cross::new((setting, top), 6, colour.stroke_width(2));
            chart.draw_series(curve.unfinished.iter().map(mark)).map_err(drawing)?;
        }
        let mut legend = chart.configure_series_labels();
        legend.position(SeriesLabelPosition::UpperLeft).label_font(label);
        legend.draw().map_err(drawing)
    }
}

/// Turns an error of the library, which borrows what is drawn, into text.
fn drawing(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("drawing a figure: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart() -> SlowdownChart {
        let curve = Curve {
            name: "radix <1>".into(),
            model: String::new(),
            measured: vec![(1.0, 1.5, 1.4, 1.6), (5.0, 3.0, 2.9, 3.1)],
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
        assert!(svg.contains("radix &lt;1&gt;: 1.0000 us added to o: slowdown 1.500"), "{svg}");
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
