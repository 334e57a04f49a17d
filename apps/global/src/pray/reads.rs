//! Reads of objects by ranks that do not have them, the hottest first; and a drawing of them,
//! beside how long each rank traced.

use anyhow::{Context, Result};
use clump::Sum;
use clump::pgas::Pgas;
use std::fmt::Write as _;
use std::path::Path;

/// Width and height of each of both panels, and the room around it.
const PANEL: (f64, f64, f64) = (360.0, 240.0, 50.0);
/// Objects that are summed up at a time.
const SUMMED: usize = 4096;

/// Reads of all ranks, object by object, the hottest first.
#[derive(Debug)]
pub struct ObjectReads(Vec<u64>);

impl ObjectReads {
    /// Adds the reads of all ranks up. A collective.
    ///
    /// # Errors
    /// Fails if a rank is lost.
    pub fn of_all(gas: &Pgas, own: &[u64]) -> Result<Self> {
        let mut all = own.to_vec();
        for part in all.chunks_mut(SUMMED) {
            gas.team().all_reduce_slice(part, Sum)?;
        }
        Ok(Self::new(all))
    }

    fn new(mut reads: Vec<u64>) -> Self {
        reads.sort_unstable_by(|a, b| b.cmp(a));
        Self(reads)
    }

    /// Returns the percent of all reads that the hottest hundredth of objects has.
    pub fn hottest_percent(&self) -> f64 {
        let hot: u64 = self.0.iter().take(self.0.len().div_ceil(100)).sum();
        100.0 * hot as f64 / self.0.iter().sum::<u64>().max(1) as f64
    }

    /// Returns the reads of the hottest object.
    pub fn hottest(&self) -> u64 {
        self.0.first().copied().unwrap_or(0)
    }

    /// Draws the reads, and the seconds of each rank, to a file (SVG).
    ///
    /// # Errors
    /// Fails if it cannot be written.
    pub fn draw(&self, path: &Path, seconds: &[f64]) -> Result<()> {
        let text = self.svg(seconds)?;
        std::fs::write(path, text).with_context(|| format!("writing {}", path.display()))
    }

    fn svg(&self, seconds: &[f64]) -> Result<String> {
        let (width, height, room) = PANEL;
        let (all_width, all_height) = (2.0 * width + 4.0 * room, height + 2.0 * room);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {all_width} {all_height}\" \
             font-family=\"sans-serif\" font-size=\"12\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
        );
        let most_reads = self.hottest().max(1) as f64;
        let most_seconds = seconds.iter().fold(0.0_f64, |most, it| most.max(*it)).max(1e-9);
        let titles = [
            (0.0, "reads of objects by other ranks, the hottest first", format!("{most_reads}")),
            (1.0, "seconds that each rank traced", format!("{most_seconds:.3}")),
        ];
        for (panel, title, most) in titles {
            let left = room + panel * (width + 2.0 * room);
            let (top, bottom) = (room, room + height);
            writeln!(svg, "<text x=\"{left}\" y=\"{}\">{title}</text>", top - 20.0)?;
            writeln!(svg, "<text x=\"{left}\" y=\"{}\">{most}</text>", top - 4.0)?;
            writeln!(
                svg,
                "<path d=\"M{left} {top}V{bottom}H{}\" fill=\"none\" stroke=\"black\"/>",
                left + width
            )?;
        }
        // Both axes are logarithmic, since few objects have most reads.
        let count = self.0.len().max(2) as f64;
        let mut points = String::new();
        for (rank, reads) in (1..).zip(&self.0) {
            let across = room + width * f64::from(rank).ln() / count.ln();
            let high = height * (*reads as f64).ln_1p() / most_reads.ln_1p();
            write!(points, "{across:.1},{:.1} ", room + height - high)?;
        }
        writeln!(svg, "<polyline points=\"{points}\" fill=\"none\" stroke=\"#c03020\"/>")?;
        let bar = width / seconds.len().max(1) as f64;
        for (rank, own) in seconds.iter().enumerate() {
            let (left, high) =
                (3.0 * room + width + rank as f64 * bar, height * own / most_seconds);
            writeln!(
                svg,
                "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{high:.1}\" \
                 fill=\"#3060a0\"/>",
                left + bar * 0.1,
                room + height - high,
                bar * 0.8
            )?;
        }
        let below = room + height + 16.0;
        writeln!(svg, "<text x=\"{room}\" y=\"{below}\">1st to {count}th object</text>")?;
        let ranks = seconds.len();
        writeln!(svg, "<text x=\"{}\" y=\"{below}\">{ranks} ranks</text>", 3.0 * room + width)?;
        svg.push_str("</svg>\n");
        Ok(svg)
    }
}

#[cfg(test)]
mod tests {
    use super::ObjectReads;

    #[test]
    fn the_hottest_hundredth_has_its_share() {
        let mut reads = vec![1; 200];
        (reads[7], reads[150]) = (100, 102);
        let reads = ObjectReads::new(reads);
        assert_eq!((reads.hottest(), reads.hottest_percent()), (102, 50.5));
        let svg = reads.svg(&[0.5, 1.0, 0.25]).unwrap();
        assert_eq!(svg.matches("<rect").count(), 4);
        let points = svg.split("points=\"").nth(1).and_then(|rest| rest.split('"').next());
        assert_eq!(points.unwrap().split_whitespace().count(), 200, "one for each object");
        assert_eq!(ObjectReads::new(Vec::new()).hottest_percent(), 0.0);
    }
}
