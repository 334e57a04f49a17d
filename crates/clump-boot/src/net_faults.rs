//! Faults that the network injects, for tests: the setting `CLUMP_NET_FAULTS`.

use crate::key_list::key_list;

/// Variable of the setting.
pub(crate) const VARIABLE: &str = "CLUMP_NET_FAULTS";

key_list! {
    /// Faults of the packets of each rank.
    pub struct NetFaults of VARIABLE;
    /// The keys of `CLUMP_NET_FAULTS`.
    pub static NET_FAULT_KEYS;

    loss_ppm: u64 = 0 in 0..=1_000_000, "ppm", "loss",
        "Packets that each rank throws away as they arrive.";
    duplicate_ppm: u64 = 0 in 0..=1_000_000, "ppm", "duplicate",
        "Packets that each rank sends twice.";
    reorder_ppm: u64 = 0 in 0..=1_000_000, "ppm", "reorder",
        "Packets that each rank holds back until others have gone past.";
    corrupt_ppm: u64 = 0 in 0..=1_000_000, "ppm", "corrupt",
        "Packets that each rank damages before sending them.";
    delay_ns: u64 = 0 in 0..=10_000_000_000, "ns", "delay",
        "Time by which each rank delays every packet.";
    seed: u64 = 1 in 0..=18_446_744_073_709_551_615, "", "seed",
        "Seed of these faults.";
}

#[cfg(test)]
mod tests {
    use super::NetFaults;

    #[test]
    fn a_list_is_read_with_units_and_written_back() {
        let text = "loss=2%, duplicate=500ppm,delay=5 ms,seed=18446744073709551615,reorder=0";
        let faults = NetFaults::default().read("here", text).unwrap();
        assert_eq!((faults.loss_ppm, faults.duplicate_ppm), (20_000, 500));
        assert_eq!((faults.delay_ns, faults.seed), (5_000_000, u64::MAX));
        let written = faults.written();
        let same = "loss=20000ppm,duplicate=500ppm,delay=5000000ns,seed=18446744073709551615";
        assert_eq!(written, same);
        assert_eq!(NetFaults::default().read("here", &written).unwrap(), faults);
        assert_eq!(NetFaults::default().written(), "");
    }

    #[test]
    fn a_bad_list_names_the_culprit_and_what_is_valid() {
        for (text, parts) in [
            ("loss", &["a word of CLUMP_X is `loss`", "KEY=VALUE"][..]),
            ("los=1%", &["a key of CLUMP_X is `los`", "loss, duplicate", "did you mean loss?"]),
            ("loss=2", &["loss of CLUMP_X is `2`", "with its unit (ppm, %)", "1000000 ppm"]),
            ("loss=101%", &["loss of CLUMP_X is `101%`", "from 0 to 1000000 ppm"]),
            ("delay=99999999999999999999s", &["delay of CLUMP_X", "(ns, us, ms, s)"]),
            ("delay=-1ns", &["delay of CLUMP_X is `-1ns`"]),
            ("seed=7,seed=8", &["the second seed of CLUMP_X is `8`", "left out"]),
            ("seed=1s", &["seed of CLUMP_X is `1s`"]),
        ] {
            let why = NetFaults::default().read("CLUMP_X", text).unwrap_err().to_string();
            assert!(parts.iter().all(|part| why.contains(part)), "{text}: {why}");
        }
    }
}
