//! Limits of the walk: functions of more than three lines, and their files, by step.

use super::count::StepCount;

/// The most functions and files of each step. They may only go down.
const LIMITS: [(&str, [usize; 2]); 5] = [
    ("walk_out_one_node", [10, 8]),
    ("walk_in_one_node", [8, 6]),
    ("walk_out_between_nodes", [61, 33]),
    ("walk_in_between_nodes", [101, 54]),
    ("walk_acknowledge_between_nodes", [24, 22]),
];

/// Returns a text for each count above its limit, and for each step without one.
pub fn excesses(counted: &[StepCount]) -> Vec<String> {
    let limit = |count: &StepCount| LIMITS.iter().find(|(step, _)| *step == count.step);
    let excess = |count: &StepCount| match limit(count) {
        None => Some(format!("no limit for {count}: add one to xtask/src/walk/limits.rs")),
        Some((_, [functions, files]))
            if count.longer[0] > *functions || count.longer[1] > *files =>
        {
            Some(format!("{count}; the limit is {functions} in {files}"))
        }
        _ => None,
    };
    counted.iter().filter_map(excess).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_above_their_limit_are_named() {
        let count = |step: &str, longer| StepCount { step: step.into(), longer, all: [0, 0] };
        let (step, [functions, files]) = LIMITS[2];
        assert!(excesses(&[count(step, [functions, files])]).is_empty());
        for longer in [[functions + 1, files], [functions, files + 1]] {
            let said = excesses(&[count(step, longer)]);
            assert!(said[0].ends_with(&format!("the limit is {functions} in {files}")), "{said:?}");
        }
        assert!(excesses(&[count("walk_away", [1, 1])])[0].starts_with("no limit for walk_away"));
    }
}
