//! Work of jobs while they are attacked: short programs and commands, each with a known end.

use super::job::{Job, Promise};
use super::place::AttackPlace;
use anyhow::{Result, bail};
use clump_test_tier::Sampler;
use std::ffi::OsString;

/// Records of a sort in this size.
const RECORDS: &str = "2000";

/// The amount that an errand writes to standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    Nothing,
    /// Less than the capacity of every kind of stream.
    Little,
    /// More than the capacity of some kinds of streams.
    Much,
}

/// A piece of work.
#[derive(Debug, Clone)]
pub struct Errand {
    /// Words behind `clump`; a program of this build is `%NAME`, the job's working folder `%%`.
    words: Vec<String>,
    /// Its exit code when nothing disturbs it.
    pub code: i32,
    /// The amount that it writes.
    pub amount: Amount,
    /// True if rank 0 reads standard input to its end.
    pub reads: bool,
    /// A word in the message of a failed end.
    pub says: Option<String>,
    /// True if it needs records.
    sorts: bool,
    /// Variables of its job.
    variables: &'static [(&'static str, &'static str)],
}

impl Errand {
    /// Creates `clump` with these words, which ends with 0 and writes nothing.
    pub fn of(words: &str) -> Self {
        Self {
            words: words.split_whitespace().map(str::to_owned).collect(),
            code: 0,
            amount: Amount::Nothing,
            reads: false,
            says: None,
            sorts: false,
            variables: &[],
        }
    }

    fn writes(self, amount: Amount) -> Self {
        Self { amount, ..self }
    }

    /// Declares that it prints a line.
    pub fn prints(self) -> Self {
        self.writes(Amount::Little)
    }

    fn ends(self, code: i32, says: &str) -> Self {
        Self { code, says: Some(says.to_owned()), ..self }
    }

    /// Creates its job, which promises the errand's own end.
    ///
    /// # Errors
    /// Fails if the folder or the records cannot be made.
    pub fn job(&self, place: &AttackPlace) -> Result<Job> {
        let folder = place.folder()?;
        let work = folder.work().display().to_string();
        let word = |word: &String| match word.strip_prefix('%') {
            Some("%") => work.clone().into(),
            Some(name) if !name.contains('%') => place.program(name).into(),
            _ => OsString::from(word.replace("%%", &work)),
        };
        let mut command = vec![place.clump().into()];
        command.extend(self.words.iter().map(word));
        if self.sorts {
            let records = folder.work().join("records").display().to_string();
            if place.ask(&["app", "gensort", RECORDS, &records], &folder)?.is_none() {
                bail!("`clump app gensort` fails");
            }
        }
        let mut job = Job::new(folder, command);
        job.promise = Promise::exactly(&[self.code]);
        job.promise.words.extend(self.says.clone());
        let variables = self.variables.iter().map(|(name, value)| (name.into(), value.into()));
        job.variables.extend(variables);
        if self.sorts {
            job.promise.absent.push(job.folder.work().join("sorted/manifest.json"));
            let words = ["app", "valsort", "sorted", "--input", "records"];
            job.promise.check = Some(words.iter().map(OsString::from).collect());
        }
        Ok(job)
    }
}

/// Ranks and nodes of a job, and what carries messages between these.
#[derive(Debug, Clone)]
pub struct Layout {
    options: String,
    variables: &'static [(&'static str, &'static str)],
}

impl Layout {
    /// Creates `clump run` with these words behind its options.
    pub fn run(&self, rest: &str) -> Errand {
        let errand = Errand::of(&format!("run {} {rest}", self.options));
        Errand { variables: self.variables, ..errand }
    }

    /// Creates a small sort.
    fn sort(&self) -> Errand {
        let words = format!("app sort {} -i %%/records -o %%/sorted", self.options);
        let errand = Errand::of(&words).writes(Amount::Little);
        Errand { sorts: true, variables: self.variables, ..errand }
    }
}

/// Draws the layout of a job; at least `least` ranks.
pub fn layout(sampler: &mut Sampler, least: u64) -> Layout {
    let ranks = least + sampler.below(4 - least.min(3));
    let nodes = if ranks > 1 && sampler.once_in(2) { 2 } else { 1 };
    let more = match nodes {
        2 => sampler.one_of(&["", "", "--ni proxy:1", "--driver udp", "--security crc"]),
        _ => "",
    };
    let streams = nodes > 1 && sampler.once_in(2);
    Layout {
        options: format!("-n {ranks} --nodes {nodes} {more}"),
        variables: if streams { &[("CLUMP_NET_BULK", "stream")] } else { &[] },
    }
}

/// Draws an errand that uses ranks, and standard streams only for reports.
pub fn quiet(sampler: &mut Sampler) -> Errand {
    let layout = layout(sampler, 2);
    match sampler.below(6) {
        0 => layout.run("%prog barrier 5"),
        1 | 2 => layout.run("%prog talk 6"),
        3 => layout.run("%prog exit 7 1").ends(7, "rank 1"),
        4 => layout.run("%prog die 9 0").ends(137, "rank 0"),
        _ => layout.sort(),
    }
}

/// Draws any errand.
pub fn any(sampler: &mut Sampler) -> Errand {
    let layout = layout(sampler, 2);
    let run = |rest: &str| layout.run(rest);
    match sampler.below(14) {
        0 | 1 => run("%prog flood 6").writes(Amount::Little),
        2 | 3 => run("%prog flood 10000").writes(Amount::Much),
        4 => Errand { reads: true, ..run("cat") }.writes(Amount::Little),
        5 => run("--json %prog barrier 2").writes(Amount::Much),
        6 => run("--stats %prog talk 3"),
        7 => Errand::of("run no-such-program").ends(127, "no-such-program"),
        8 => Errand::of(sampler.one_of(&["app", "--version"])).writes(Amount::Little),
        9 => Errand::of(sampler.one_of(&["--help", "run --help", "doctor --config"]))
            .writes(Amount::Much),
        10 => Errand::of("run --frobnicate true").ends(2, "frobnicate"),
        _ => quiet(sampler),
    }
}

/// Returns a small sort of given ranks.
pub fn small_sort() -> Errand {
    Layout { options: "-n 2".to_owned(), variables: &[] }.sort()
}

/// Returns a job whose rank 0 computes for ever while the others wait for it; it makes `ready-0`
/// in its working folder.
pub fn endless(sampler: &mut Sampler) -> Errand {
    layout(sampler, 2).run("%prog forever 0 --together --ready %%")
}
