//! The serial oracle: values of the transform by its definition, and its energy.

/// Returns value `k` of the transform of `given`, with compensated sums.
pub fn by_definition(given: &[[f64; 2]], k: usize) -> [f64; 2] {
    let n = given.len();
    let (mut sum, mut lost) = ([0.0; 2], [0.0_f64; 2]);
    for (at, value) in given.iter().enumerate() {
        let turn = (at as u128 * k as u128 % n as u128) as f64 / n as f64;
        let (sine, cosine) = (-std::f64::consts::TAU * turn).sin_cos();
        let term = [value[0] * cosine - value[1] * sine, value[0] * sine + value[1] * cosine];
        for part in 0..2 {
            let more = term[part] - lost[part];
            let next = sum[part] + more;
            lost[part] = (next - sum[part]) - more;
            sum[part] = next;
        }
    }
    sum
}

/// Returns the sum of all squares.
pub fn energy(values: &[[f64; 2]]) -> f64 {
    values.iter().map(|value| value[0] * value[0] + value[1] * value[1]).sum()
}

#[cfg(test)]
mod tests {
    use super::{by_definition, energy};

    #[test]
    fn a_wave_has_one_value() {
        let wave: Vec<[f64; 2]> = (0..16)
            .map(|at| {
                let (sine, cosine) = (std::f64::consts::TAU * 3.0 * f64::from(at) / 16.0).sin_cos();
                [cosine, sine]
            })
            .collect();
        for k in 0..16 {
            let due = if k == 3 { 16.0 } else { 0.0 };
            let found = by_definition(&wave, k);
            assert!((found[0] - due).abs() + found[1].abs() < 1e-12, "{k}: {found:?}");
        }
        assert!((energy(&wave) - 16.0).abs() < 1e-12);
    }
}
