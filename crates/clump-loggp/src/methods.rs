//! Three methods beside each other: bursts (Culler et al.), exchanges (Kielmann et al.), trains
//! (Hoefler et al.).

use crate::estimate::Estimate;
use crate::median::Median;
use crate::prtt::PrttEstimate;
use serde::{Deserialize, Serialize};

/// One parameter by each method that measures it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MethodRow {
    /// Parameter.
    pub name: String,
    /// By bursts (papers 000 and 001).
    pub bursts: Option<Median>,
    /// By lone exchanges.
    pub exchanges: Option<Median>,
    /// By trains.
    pub trains: Option<Median>,
}

impl MethodRow {
    /// Returns the largest difference between two methods, as a share of the smallest value, in
    /// percent; `None` where fewer than two methods have a positive one.
    pub fn disagreement_percent(&self) -> Option<f64> {
        let all = [self.bursts, self.exchanges, self.trains];
        let values: Vec<f64> = all.iter().flatten().map(|median| median.value).collect();
        let least = values.iter().copied().reduce(f64::min).filter(|&least| least > 0.0)?;
        let most = values.iter().copied().reduce(f64::max)?;
        (values.len() > 1).then(|| 100.0 * (most - least) / least)
    }
}

impl Estimate {
    /// Puts the methods beside each other. *Burst* rows are of messages that may share packets; the
    /// others are of lone ones.
    pub fn methods(&self, trains: &PrttEstimate) -> Vec<MethodRow> {
        let row = |name: &str, bursts, exchanges, trains| MethodRow {
            name: name.into(),
            bursts,
            exchanges,
            trains,
        };
        vec![
            row("o_s, lone", Some(self.o_s), Some(self.exchanges.o_s), None),
            row("o_s, paced burst", None, None, Some(trains.o_s)),
            row("o_s + o_r, lone", None, Some(self.o_s.plus(self.o_r)), None),
            row("o_s + o_r, paced burst", Some(self.paced), None, None),
            row("round trip", Some(self.rtt), None, Some(trains.rtt)),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_widest_difference_counts() {
        let row = |values: [Option<f64>; 3]| {
            let [bursts, exchanges, trains] = values.map(|value| value.map(Median::exact));
            MethodRow { name: "o_s".into(), bursts, exchanges, trains }.disagreement_percent()
        };
        assert_eq!(row([Some(100.0), Some(110.0), Some(105.0)]), Some(10.0));
        assert_eq!(row([Some(100.0), None, None]), None);
        assert_eq!(row([Some(-1.0), Some(2.0), None]), None, "no share of what is negative");
    }
}
