//! All cells of the experiment, paper 002's table 2 measured anew, and both as text.

use super::{Destinations, Dispatch, ProxyCell, Setting, measure, name_of};
use std::fmt::Write as _;

/// Options of the whole experiment.
#[derive(Debug, Clone)]
pub struct TableOptions {
    /// Parameters that all cells share.
    pub base: Setting,
    /// Ranks of the whole job, for the table of paper 002.
    pub all_ranks: u32,
}

/// A column of paper 002's table 2: a number of ranks per node, with its square root as the number
/// of proxies.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Scaling {
    /// Ranks of a node.
    pub ranks: u32,
    /// Proxies of a node; fractions are interpolated between the two measured numbers around them,
    /// as in the paper.
    pub proxies: f64,
    /// Message time, as in [`ProxyCell::message_us`].
    pub message_us: f64,
    /// Queue length, as in [`ProxyCell::queue`].
    pub queue: f64,
    /// Utilisation, as in [`ProxyCell::utilisation`].
    pub utilisation: f64,
    /// Slowdown, as in [`ProxyCell::slowdown`].
    pub slowdown: f64,
}

/// A job of fixed size on fewer and larger nodes.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Scaled {
    /// Targets of requests.
    pub destinations: Destinations,
    /// All measured cells, by ranks and proxies of a node.
    pub cells: Vec<ProxyCell>,
    /// Results with proxies as the square root of ranks.
    pub square_root: Vec<Scaling>,
    /// Results with one proxy, whatever the size.
    pub one_proxy: Vec<Scaling>,
    /// Variation of message time, queue and utilisation over the sizes where proxies are the square
    /// root, as maximum over minimum.
    pub spread: [f64; 3],
    /// True for each of those that stays about the same, as in the paper.
    pub stays: [bool; 3],
    /// True if the slowdown of programs does not grow.
    pub no_slower: bool,
}

/// All results.
#[derive(Debug, Clone, serde::Serialize)]
pub struct ProxyReport {
    /// Two nodes, by ranks, proxies and dispatch.
    pub cells: Vec<ProxyCell>,
    /// Paper 002's table 2, for each kind of program.
    pub scaled: Vec<Scaled>,
}

const SIZES: [u32; 3] = [1, 2, 4];
/// Variation of message time, queue and utilisation up to which they count as "about the same"; in
/// the paper's table 2 it is 1.15, 1.27 and 1.10.
const ABOUT_THE_SAME: f64 = 1.5;

/// Measures everything.
///
/// # Errors
/// Fails as [`measure`] does.
pub fn report(options: &TableOptions) -> anyhow::Result<ProxyReport> {
    let mut cells = Vec::new();
    for ranks in SIZES {
        for proxies in SIZES {
            let dispatches: &[_] = match proxies {
                1 => &[Dispatch::RoundRobin],
                _ => &[Dispatch::Fixed, Dispatch::RoundRobin, Dispatch::LeastLoaded],
            };
            for &dispatch in dispatches {
                let base = options.base.clone();
                cells.push(measure(&Setting { nodes: 2, ranks, proxies, dispatch, ..base })?);
            }
        }
    }
    let scaled = [Destinations::Uniform, Destinations::Neighbours];
    let scaled = scaled.map(|destinations| scaled_to(options, destinations));
    Ok(ProxyReport { cells, scaled: scaled.into_iter().collect::<anyhow::Result<_>>()? })
}

fn scaled_to(options: &TableOptions, destinations: Destinations) -> anyhow::Result<Scaled> {
    let (mut cells, mut square_root, mut one_proxy) = (Vec::new(), Vec::new(), Vec::new());
    for ranks in [1, 2, 4, 8].into_iter().filter(|ranks| options.all_ranks / ranks >= 2) {
        let nodes = options.all_ranks / ranks;
        let base = Setting { nodes, ranks, destinations, ..options.base.clone() };
        let of = |proxies| measure(&Setting { proxies, ..base.clone() });
        let measured = [of(1)?, of(2)?, of(4)?];
        square_root.push(between(ranks, f64::from(ranks).sqrt(), &measured));
        one_proxy.push(between(ranks, 1.0, &measured));
        cells.extend(measured);
    }
    let spread = [|s: &Scaling| s.message_us, |s: &Scaling| s.queue, |s: &Scaling| s.utilisation];
    let spread = spread.map(|what| {
        let values = || square_root.iter().map(what);
        values().fold(0.0, f64::max) / values().fold(f64::MAX, f64::min)
    });
    let stays = spread.map(|ratio| ratio <= ABOUT_THE_SAME);
    let ends = square_root.first().zip(square_root.last());
    let no_slower = ends.is_some_and(|(first, last)| last.slowdown <= first.slowdown * 1.05);
    Ok(Scaled { destinations, cells, square_root, one_proxy, spread, stays, no_slower })
}

/// Returns the results for a number of proxies, interpolated between the measured numbers around
/// it.
fn between(ranks: u32, proxies: f64, measured: &[ProxyCell; 3]) -> Scaling {
    let [one, two, four] = measured;
    let (a, b, part) =
        if proxies <= 2.0 { (one, two, proxies - 1.0) } else { (two, four, (proxies - 2.0) / 2.0) };
    let mix = |what: fn(&ProxyCell) -> f64| what(a) + (what(b) - what(a)) * part;
    Scaling {
        ranks,
        proxies,
        message_us: mix(|cell| cell.message_us),
        queue: mix(|cell| cell.queue),
        utilisation: mix(|cell| cell.utilisation),
        slowdown: mix(|cell| cell.slowdown),
    }
}

impl ProxyReport {
    /// Returns true if Little's law holds in each cell.
    pub fn obeys_little(&self) -> bool {
        let scaled = self.scaled.iter().flat_map(|scaled| &scaled.cells);
        self.cells.iter().chain(scaled).all(ProxyCell::obeys_little)
    }

    /// Formats the report as text.
    pub fn text(&self) -> String {
        let mut text = String::new();
        if let Some(first) = self.cells.first() {
            let _ = write!(text, "{}", parameters(&first.setting));
        }
        let _ = writeln!(
            text,
            "\nTwo nodes; times in us.\n{:>5} {:>7} {:<12} {:>8} {:>7} {:>8} {:>6} {:>8} {:>6} {:>5} {:>5} {:>5} {:>6}",
            "ranks",
            "proxies",
            "dispatch",
            "message",
            "source",
            "to wire",
            "wire",
            "delivery",
            "queue",
            "busy",
            "uneven",
            "slow",
            "Little"
        );
        for cell in &self.cells {
            let Setting { ranks, proxies, dispatch, .. } = cell.setting;
            let dispatch = if proxies == 1 { "-" } else { name_of(dispatch) };
            let [source, to_wire, wire, delivery] =
                ["source", "to wire", "wire", "delivery"].map(|stage| cell.stage_us(stage));
            let [least, most] = cell.little;
            let _ = writeln!(
                text,
                "{ranks:>5} {proxies:>7} {dispatch:<12} {:>8.1} {source:>7.2} {to_wire:>8.2} {wire:>6.1} {delivery:>8.2} {:>6.3} {:>5.2} {:>5.2} {:>5.2} {:>6}",
                cell.message_us,
                cell.queue,
                cell.utilisation,
                cell.imbalance,
                cell.slowdown,
                if least > most {
                    "-".to_owned()
                } else {
                    format!(
                        "{:.2}",
                        if (least - 1.0).abs() > (most - 1.0).abs() { least } else { most }
                    )
                },
            );
        }
        for scaled in &self.scaled {
            scaled.write(&mut text);
        }
        let little = if self.obeys_little() { "obeyed in every cell" } else { "BROKEN" };
        let _ = writeln!(text, "\nLittle's law: {little}.");
        text
    }
}

impl Scaled {
    fn write(&self, text: &mut String) {
        let job = self.cells.first().map_or(0, |c| c.setting.nodes * c.setting.ranks);
        let destinations = match self.destinations {
            Destinations::Uniform => "that ask all others alike",
            Destinations::Neighbours => "that ask neighbours in a grid",
        };
        for (title, columns) in
            [("proxies as the square root", &self.square_root), ("one proxy", &self.one_proxy)]
        {
            let _ = writeln!(
                text,
                "\nA job of {job} ranks {destinations}; {title} (paper 002, table 2)."
            );
            let mut row = |name: &str, digits: usize, what: fn(&Scaling) -> f64| {
                let _ = write!(text, "{name:<18}");
                for column in columns {
                    let _ = write!(text, " {:>8.digits$}", what(column));
                }
                let _ = writeln!(text);
            };
            row("ranks a node", 0, |s| f64::from(s.ranks));
            row("proxies a node", 2, |s| s.proxies);
            row("message time, us", 1, |s| s.message_us);
            row("queue", 3, |s| s.queue);
            row("busy", 3, |s| s.utilisation);
            row("slowdown", 3, |s| s.slowdown);
        }
        let _ = write!(text, "Square-root scaling:");
        let names = ["message time", "queue", "busy"];
        for ((name, ratio), stays) in names.iter().zip(self.spread).zip(self.stays) {
            let stays = if stays { "stays" } else { "does not stay" };
            let _ = write!(text, " {name} {stays} ({ratio:.2});");
        }
        let slower = if self.no_slower { "programs get no slower" } else { "programs get slower" };
        let _ = writeln!(
            text,
            "\n{slower}. The most over the least, up to {ABOUT_THE_SAME}, counts as the same."
        );
    }
}

/// Formats the assumptions.
fn parameters(setting: &Setting) -> String {
    let Setting {
        think, payload, other_payload, operations, handle, spin, delay, rate, seed, ..
    } = setting;
    let mut costs = setting.costs;
    let costs: Vec<String> =
        costs.named().iter().map(|(name, ns)| format!("{name} {ns}")).collect();
    format!(
        "Costs, ns: {}.\nPrograms: {operations} operations a rank, {think} ns of computing between them, payload \
         {payload} and {other_payload} B, {handle} ns to handle; proxies look \
         for {spin} ns before they sleep.\nNetwork: {delay} ns, {} MB/s; seed {seed}.\n",
        costs.join(", "),
        rate / 1_000_000
    )
}
