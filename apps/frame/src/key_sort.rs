//! The serial radix sort of 32-bit keys: base of speed-ups, and what ranks do with their own keys.

/// Bits of a digit.
const DIGIT: u32 = 11;

/// Sorts keys by digits of 11 bits, from the lowest.
pub fn sort_keys(keys: &mut Vec<u32>) {
    let mut other = vec![0; keys.len()];
    for shift in [0, DIGIT, 2 * DIGIT] {
        let digit = |key: u32| (key >> shift) as usize & ((1 << DIGIT) - 1);
        let mut next = vec![0_usize; 1 << DIGIT];
        keys.iter().for_each(|&key| next[digit(key)] += 1);
        let mut before = 0;
        for place in &mut next {
            before += std::mem::replace(place, before);
        }
        for &key in keys.iter() {
            let place = &mut next[digit(key)];
            other[*place] = key;
            *place += 1;
        }
        std::mem::swap(keys, &mut other);
    }
}

#[cfg(test)]
mod tests {
    use super::sort_keys;
    use crate::random::Random;

    #[test]
    fn keys_are_sorted() {
        for count in [0, 1, 2, 5000] {
            let mut random = Random::from(count, 0);
            let mut keys: Vec<_> = (0..count).map(|_| random.number() as u32).collect();
            let mut expected = keys.clone();
            expected.sort_unstable();
            sort_keys(&mut keys);
            assert_eq!(keys, expected);
        }
    }
}
