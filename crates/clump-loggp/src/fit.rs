//! A straight line through points.

use crate::median::Median;

/// `y = intercept + slope * x`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Line {
    /// `y` at zero.
    pub intercept: f64,
    /// `dy/dx`.
    pub slope: f64,
}

impl Line {
    /// Returns the least-squares line through `(x, y, weight)`; `None` with fewer than two
    /// different `x`.
    pub fn through(points: impl IntoIterator<Item = (f64, f64, f64)> + Clone) -> Option<Self> {
        let (mut sum, mut sum_x, mut sum_y) = (0.0, 0.0, 0.0);
        for (x, y, w) in points.clone() {
            sum += w;
            sum_x += w * x;
            sum_y += w * y;
        }
        let (mean_x, mean_y) = (sum_x / sum, sum_y / sum);
        let (mut cross, mut square) = (0.0, 0.0);
        for (x, y, w) in points {
            cross += w * (x - mean_x) * (y - mean_y);
            square += w * (x - mean_x) * (x - mean_x);
        }
        let slope = cross / square;
        slope.is_finite().then_some(Self { intercept: mean_y - slope * mean_x, slope })
    }
}

/// Number of repetitions whose median becomes one point of a line, where there are enough of them.
const BLOCK: usize = 3;

/// Returns one line per block of repetitions: least squares through the medians of the block,
/// weighted by 1/y: noise grows with the length of a measurement, steps do not. Each column is an
/// `x` with one sample per repetition. A disturbed repetition spoils its column's sample, not the
/// block; and repetitions of one block are close in time, so a slow change of the machine tilts no
/// line.
pub fn block_lines(columns: &[(f64, &[f64])]) -> Vec<Line> {
    let repetitions = columns.iter().map(|(_, samples)| samples.len()).min().unwrap_or(0);
    // Six blocks are the fewest that give an interval of 95 %.
    let block = if repetitions >= 6 * BLOCK { BLOCK } else { 1 };
    (0..repetitions / block)
        .filter_map(|at| {
            let points: Vec<_> = columns
                .iter()
                .filter_map(|(x, samples)| {
                    let part = &samples[at * block..(at + 1) * block];
                    let y = Median::of(part.iter().copied())?.value;
                    Some((*x, y, 1.0 / y))
                })
                .collect();
            Line::through(points)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_points_give_the_line_whatever_their_weights() {
        let points = [(1.0, 5.0, 1.0), (2.0, 7.0, 9.0), (10.0, 23.0, 0.1)];
        let line = Line::through(points).unwrap();
        assert!((line.slope - 2.0).abs() < 1e-12 && (line.intercept - 3.0).abs() < 1e-12);
    }

    #[test]
    fn a_spoilt_repetition_spoils_no_line() {
        let mut columns = [vec![30.0; 18], vec![50.0; 18], vec![90.0; 18]];
        columns[0][0] = 900.0;
        columns[2][4] = 7000.0;
        let [a, b, c] = &columns;
        let lines = block_lines(&[(10.0, a), (20.0, b), (40.0, c)]);
        assert_eq!(lines.len(), 6);
        assert!(lines.iter().all(|l| (l.slope - 2.0).abs() < 1e-9), "{lines:?}");
        // Too few repetitions for blocks: each counts by itself.
        assert_eq!(block_lines(&[(10.0, &a[..5]), (20.0, &b[..5])]).len(), 5);
        assert!(block_lines(&[(10.0, &[])]).is_empty());
    }

    #[test]
    fn one_point_is_no_line() {
        assert!(Line::through([(1.0, 1.0, 1.0), (1.0, 2.0, 1.0)]).is_none());
        assert!(Line::through([]).is_none());
    }
}
