//! Places of labels beside what they name, none over another; ticks in round steps.

/// Returns a place for each label: as near to where it belongs as can be, at least `step` from the
/// next, and between `low` and `high` as far as there is room.
pub(crate) fn spread(wanted: &[f64], step: f64, (low, high): (f64, f64)) -> Vec<f64> {
    debug_assert!(step > 0.0 && low <= high, "labels have a height, and there is room");
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by(|&a, &b| wanted[a].total_cmp(&wanted[b]));
    let mut places = wanted.to_vec();
    let mut free = low;
    for &at in &order {
        places[at] = places[at].max(free);
        free = places[at] + step;
    }
    // What was pushed beyond the end goes back, and pushes the others.
    let mut end = high;
    for &at in order.iter().rev() {
        places[at] = places[at].min(end);
        end = places[at] - step;
    }
    places
}

/// Returns round numbers from 0 to `most`, four to ten of them: steps are 1, 2 or 5 times a power
/// of ten.
pub(crate) fn round_ticks(most: f64) -> Vec<f64> {
    if !(most.is_finite() && most > 0.0) {
        return vec![0.0];
    }
    let power = 10_f64.powf((most / 5.0).log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|times| times * power);
    let step = step.into_iter().find(|step| most / step <= 7.0).unwrap_or(10.0 * power);
    let mut ticks = Vec::new();
    let mut tick = 0.0;
    while tick <= most * 1.000_001 && ticks.len() < 20 {
        ticks.push(tick);
        tick += step;
    }
    ticks
}

/// Returns round numbers on a logarithmic axis, at least three: 1, 2 and 5 times powers of ten that
/// lie within, or around it.
pub(crate) fn log_ticks(least: f64, most: f64) -> Vec<f64> {
    if !(least.is_finite() && most.is_finite() && least > 0.0 && most >= least) {
        return Vec::new();
    }
    #[expect(clippy::cast_possible_truncation, reason = "powers of numbers are few")]
    let powers = (least.log10().floor() as i32 - 1)..=(most.log10().ceil() as i32 + 1);
    let all = powers.flat_map(|power| [1.0, 2.0, 5.0].map(|times| times * 10_f64.powi(power)));
    let all: Vec<f64> = all.collect();
    let first = all.iter().rposition(|&tick| tick <= least * 1.000_001).unwrap_or(0);
    let last = all.iter().position(|&tick| tick >= most * 0.999_999).unwrap_or(all.len() - 1);
    let last = last.max(first + 2).min(all.len() - 1);
    all[first..=last].to_vec()
}

/// Returns a number without digits that say nothing.
pub(crate) fn plain(number: f64) -> String {
    let text = format!("{number:.3}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text.is_empty() { "0".into() } else { text.into() }
}

/// Returns text as it may stand in a drawing.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_keep_apart_and_stay_inside() {
        assert_eq!(spread(&[50.0, 10.0], 15.0, (0.0, 100.0)), [50.0, 10.0], "room for both");
        let close = spread(&[50.0, 51.0, 52.0], 15.0, (0.0, 100.0));
        assert!(close.windows(2).all(|pair| pair[1] - pair[0] >= 15.0), "{close:?}");
        let low = spread(&[95.0, 96.0, 97.0], 15.0, (0.0, 100.0));
        assert_eq!(low, [70.0, 85.0, 100.0]);
        let mixed = spread(&[97.0, 3.0, 96.0], 15.0, (0.0, 100.0));
        assert_eq!(mixed, [100.0, 3.0, 85.0]);
    }

    #[test]
    fn ticks_are_round_and_enough() {
        assert_eq!(round_ticks(50.0), [0.0, 10.0, 20.0, 30.0, 40.0, 50.0]);
        assert_eq!(round_ticks(1.2), [0.0, 0.2, 0.4, 0.6000000000000001, 0.8, 1.0, 1.2]);
        for most in [0.013, 3.0, 7.7, 110.0, 9999.0] {
            assert!((4..=10).contains(&round_ticks(most).len()), "{most}");
        }
        assert_eq!(log_ticks(10.0, 500.0), [10.0, 20.0, 50.0, 100.0, 200.0, 500.0]);
        assert_eq!(log_ticks(730.0, 740.0).len(), 3);
        assert!(log_ticks(0.0, 1.0).is_empty() && round_ticks(f64::NAN) == [0.0]);
        assert_eq!([0.0, 0.2, 50.0, 1234.0].map(plain), ["0", "0.2", "50", "1234"]);
    }
}
