//! Applications of paper 001 that clump has, as a study runs them.

/// Variable that turns the collection of small operations off.
const UNCOLLECTED: &str = "CLUMP_PGAS_AGGREGATE=0";

/// An application of a study.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StudyApplication {
    /// Its name in the study.
    pub name: &'static str,
    /// Its command and options behind `clump app`.
    words: &'static [&'static str],
    /// True if each small operation leaves as a message, as in the paper; else they are collected,
    /// where there are any.
    uncollected: bool,
    /// The option for the amount of its work, which follows as a word of its own unless the option
    /// ends with `=`.
    option: &'static str,
    /// The power of the amount with which its time grows.
    power: i32,
    /// The amount that is tried first.
    pub first: u64,
    /// The largest amount: what is in memory stays below some 2 GiB.
    pub most: u64,
}

const KEYS: (&str, i32, u64, u64) = ("--keys", 1, 1 << 19, 1 << 25);
const STEPS: (&str, i32, u64, u64) = ("--steps", 1, 4, 20_000);
const PIXELS: (&str, i32, u64, u64) = ("--resolution", 2, 160, 4096);
/// States double with each bit: near 18 bits time grows with this power of their number.
const BITS: (&str, i32, u64, u64) = ("--set=Bits=", 12, 15, 23);
const SIDE: (&str, i32, u64, u64) = ("--side", 3, 80, 240);

const fn application(
    (name, uncollected): (&'static str, bool),
    words: &'static [&'static str],
    (option, power, first, most): (&'static str, i32, u64, u64),
) -> StudyApplication {
    StudyApplication { name, words, uncollected, option, power, first, most }
}

/// All of them; one with `-collected` behind its name follows that without.
pub const APPLICATIONS: [StudyApplication; 13] = [
    application(("radix", true), &["radix"], KEYS),
    application(("radix-collected", false), &["radix"], KEYS),
    application(("radb", false), &["radb"], KEYS),
    application(("sample", true), &["sample"], KEYS),
    application(("sample-collected", false), &["sample"], KEYS),
    application(("em3d-write", true), &["em3d", "--manner", "write"], STEPS),
    application(("em3d-write-collected", false), &["em3d", "--manner", "write"], STEPS),
    application(("em3d-read", false), &["em3d", "--manner", "read"], STEPS),
    application(("connect", true), &["connect"], SIDE),
    application(("connect-collected", false), &["connect"], SIDE),
    application(("barnes", false), &["barnes"], STEPS),
    application(("pray", false), &["pray", "--balance", "blocks"], PIXELS),
    application(("murphi", false), &["murphi", "counter", "--size", "measure"], BITS),
];

impl StudyApplication {
    /// Returns the command of a run with `amount` of work, on ranks that are nodes of their own;
    /// `program` is clump.
    pub fn command(&self, program: &str, ranks: u32, amount: u64) -> Vec<String> {
        let ranks = ranks.to_string();
        let (joined, amount) = (format!("{}{amount}", self.option), amount.to_string());
        let run = ["-n", &ranks, "--nodes", &ranks, "--"];
        let set: &[&str] = if self.uncollected { &["env", UNCOLLECTED] } else { &[] };
        let separate = [self.option, &amount, "--json"];
        let together = [&joined[..], "--json"];
        let options = if self.option.ends_with('=') { &together[..] } else { &separate };
        let app = [program, "app"];
        let words = run.iter().chain(set).chain(&app).chain(self.words);
        words.chain(options).map(|word| (*word).to_owned()).collect()
    }

    /// Returns the amount at which a run takes about `factor` times as long as at `amount`.
    pub fn scaled(&self, amount: u64, factor: f64) -> u64 {
        debug_assert!(factor > 0.0, "a run takes some time");
        #[expect(clippy::cast_precision_loss, reason = "amounts are far below 2^53")]
        let (scaled, most) = (amount as f64 * factor.powf(1.0 / f64::from(self.power)), self.most);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is rounded"
        )]
        let scaled = scaled.round() as u64;
        scaled.clamp(1, most)
    }

    /// Returns the work of `amount` relative to 1: times of different amounts are compared by it.
    pub fn work(&self, amount: u64) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "amounts are far below 2^53")]
        (amount as f64).powi(self.power)
    }

    /// Returns the application that does the same work and collects small operations.
    pub fn collected(&self) -> Option<&'static Self> {
        APPLICATIONS.iter().find(|other| other.name.strip_suffix("-collected") == Some(self.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_of_them_run_with_and_without_collecting() {
        let pairs = APPLICATIONS.iter().filter_map(|one| Some((one, one.collected()?)));
        let pairs: Vec<_> = pairs.collect();
        let names: Vec<_> = pairs.iter().map(|(one, _)| one.name).collect();
        assert_eq!(names, ["radix", "sample", "em3d-write", "connect"]);
        for (one, other) in pairs {
            let [own, collected] = [one, other].map(|it| it.command("clump", 2, 9).join(" "));
            assert_eq!(own.replace("env CLUMP_PGAS_AGGREGATE=0 ", ""), collected);
            assert_ne!(own, collected, "only the one leaves each operation alone");
        }
        let radb = APPLICATIONS.iter().find(|one| one.name == "radb").unwrap();
        assert!(!radb.uncollected && radb.collected().is_none());
        let words = radb.command("clump", 4, 100).join(" ");
        assert_eq!(words, "-n 4 --nodes 4 -- clump app radb --keys 100 --json");
    }

    #[test]
    fn an_amount_follows_its_option_or_is_a_part_of_it() {
        let command = |name: &str| {
            let one = APPLICATIONS.iter().find(|one| one.name == name).unwrap();
            one.command("clump", 2, 16).join(" ")
        };
        assert!(command("pray").ends_with("--balance blocks --resolution 16 --json"));
        assert!(command("murphi").ends_with("--size measure --set=Bits=16 --json"));
    }

    #[test]
    fn amounts_grow_with_the_power_of_the_work() {
        let named = |name| APPLICATIONS.iter().find(|one| one.name == name).unwrap();
        assert_eq!(named("radix").scaled(1000, 2.5), 2500);
        assert_eq!(named("connect").scaled(80, 8.0), 160);
        assert_eq!(named("em3d-read").scaled(5, 0.01), 1, "one step at least");
        assert_eq!(named("connect").scaled(80, 1e6), 240, "what fits into memory");
        assert!((named("connect").work(160) / named("connect").work(80) - 8.0).abs() < 1e-9);
    }
}
