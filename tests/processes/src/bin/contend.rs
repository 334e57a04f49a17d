//! Ranks that contend for locks of all homes until they learn which ranks have died: `contend
//! FOLDER SEED`.
//!
//! Each checks that no other rank is inside, and that calls fail only for real deaths. The file
//! `FOLDER/end` ends it; it lists the ranks that have died. With an odd seed all want the locks of
//! one home, and wait for them.

use clump::rma::{Lock, Refusal, Rma, Segment, Target};
use clump_os::clock;
use clump_process_tests::storm::Sampler;
use std::path::{Path, PathBuf};
use std::time::Duration;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Locks of each home.
const EACH: u64 = 2;
/// Turns of each survivor once it knows the dead.
const AFTER: u32 = 40;

/// Longest time that a death may stay unknown, and a lock held.
const TIME_LIMIT: Duration = Duration::from_secs(10);

/// A lock, and a word of its home that names the rank inside.
struct Place {
    home: usize,
    at: u64,
    lock: Lock,
    /// Reason why it cannot be acquired any more.
    lost: Option<Refusal>,
}

fn main() -> Result<()> {
    let words = std::env::args_os().skip(1);
    let words: Vec<String> = words.map(|word| word.to_string_lossy().into_owned()).collect();
    let [folder, seed] = &words[..] else { return Err("contend FOLDER SEED".into()) };
    let (folder, cl) = (PathBuf::from(folder), clump::init()?);
    let rma = Rma::open(&cl)?;
    let (_inside, insides) = cl.allocate(&rma, 64 * EACH)?;
    let locks: Segment = rma.export_locks(EACH)?;
    let homes = cl.all_gather(locks.name())?;
    cl.barrier()?;
    std::fs::write(folder.join(format!("ready-{}", cl.rank())), "")?;
    let sampler = Sampler::new(seed.parse::<u64>()? ^ (cl.rank() as u64) << 32);
    let mut places = Vec::new();
    for (home, name) in homes.into_iter().enumerate() {
        for index in 0..EACH {
            let lock = rma.lock(name, index)?;
            places.push(Place { home, at: 64 * index, lock, lost: None });
        }
    }
    let one = seed.parse::<usize>()?;
    let crowded = one % 2 == 1;
    if crowded {
        places.retain(|place| place.home == one / 2 % cl.nranks());
    }
    let mut rank = Contender { rank: cl.rank(), rma, insides, places, sampler, crowded, held: 0 };
    let result = rank.contend(&folder);
    // Others may still access the exports of this rank.
    std::fs::write(folder.join(format!("done-{}", cl.rank())), "")?;
    let dead = dead(&folder)?;
    for other in (0..cl.nranks()).filter(|rank| !dead.contains(rank)) {
        while !folder.join(format!("done-{other}")).exists() {
            clock::yield_now();
        }
    }
    result
}

/// One rank.
struct Contender {
    rank: usize,
    rma: Rma,
    insides: Vec<Target>,
    places: Vec<Place>,
    sampler: Sampler,
    crowded: bool,
    held: u64,
}

impl Contender {
    fn contend(&mut self, folder: &Path) -> Result<()> {
        while !folder.join("end").exists() {
            for _ in 0..8 {
                self.turn()?;
            }
        }
        for _ in 0..AFTER {
            self.turn()?;
        }
        check_end(&self.places, &self.insides, &dead(folder)?)?;
        complete(&self.rma);
        let lost = self.places.iter().filter(|place| place.lost.is_some()).count();
        println!("rank {} had locks {} times and lost {lost} of them", self.rank, self.held);
        Ok(())
    }
    /// Takes one lock that is not lost, in one of three ways, and checks that no other rank is
    /// inside.
    fn turn(&mut self) -> Result<()> {
        let Self { rank, rma, insides, places, sampler, crowded, held } = self;
        let way = if *crowded && sampler.of(0..=9) > 0 { 0 } else { sampler.of(0..=2) };
        let Some(last) = places.len().checked_sub(1) else { return Ok(()) };
        let Place { home, at, lock, lost } = &mut places[sampler.of(0..=last as u32) as usize];
        if lost.is_some() {
            return Ok(());
        }
        let got = match way {
            0 => lock.acquire().map(Some),
            1 => lock.try_acquire(),
            _ => lock.acquire_within(Duration::from_micros(u64::from(sampler.of(0..=2_000)))),
        };
        let guard = match got {
            Ok(Some(guard)) => guard,
            Ok(None) => return Ok(()),
            Err(error) => {
                *lost = Some(error.why().ok_or(error)?);
                return Ok(());
            }
        };
        let (inside, me) = (&insides[*home], *rank as u64 + 1);
        let seen = inside.get::<u64>(*at).and_then(|before| {
            inside.put(*at, me)?;
            complete(rma);
            for _ in 0..sampler.of(0..=3) {
                clock::yield_now();
            }
            let after = inside.get::<u64>(*at)?;
            inside.put(*at, 0_u64)?;
            complete(rma);
            Ok((before, after))
        });
        match seen {
            Ok(seen) if seen != (0, me) => {
                return Err(
                    format!("two inside a lock of rank {home}: {seen:?}, not (0, {me})").into()
                );
            }
            Ok(_) => {}
            // The home is gone, and the lock with it.
            Err(error) => *lost = Some(error.why().ok_or(error)?),
        }
        if let Err(error) = guard.release() {
            *lost = Some(error.why().ok_or(error)?);
        }
        *held += 1;
        Ok(())
    }
}

/// Checks the end: every refusal was for a real death; every lock is free, or refused for good.
/// But the locks of a rank that has died remain usable between ranks of its own node, as long as
/// no other rank holds one.
fn check_end(places: &[Place], insides: &[Target], dead: &[usize]) -> Result<()> {
    for Place { home, lock, lost, .. } in places {
        let home_died = dead.contains(home);
        let goes_on = home_died && insides.get(*home).is_some_and(Target::is_near);
        let why = refusal(lock, home_died && !goes_on)
            .map_err(|why| format!("a lock of rank {home} {why}"))?;
        if let (None, Some(lost), false) = (why, lost, goes_on) {
            return Err(format!("a lock of rank {home} came back: {lost:?}").into());
        }
        let fits = match why {
            None => !home_died || goes_on,
            Some(Refusal::OwnerDead | Refusal::NodeLost | Refusal::NoSuchSegment) => home_died,
            Some(Refusal::HolderDied) => !dead.is_empty(),
            Some(_) => false,
        };
        if !fits {
            return Err(format!("a lock of rank {home}: {why:?}, dead: {dead:?}").into());
        }
    }
    Ok(())
}

/// Returns why a lock cannot be acquired; `None` if it can. `ends`: it will be refused, once its
/// home's death is known.
fn refusal(lock: &Lock, ends: bool) -> Result<Option<Refusal>> {
    let begun = clock::instant();
    loop {
        match lock.acquire_within(TIME_LIMIT) {
            Ok(None) => return Err("stays held".into()),
            Ok(Some(guard)) => drop(guard),
            Err(error) => return Ok(Some(error.why().ok_or(error)?)),
        }
        if !ends {
            return Ok(None);
        }
        if begun.elapsed() > TIME_LIMIT {
            return Err("can be had though its home has died".into());
        }
        clock::yield_now();
    }
}

/// Returns the ranks that have died.
fn dead(folder: &Path) -> Result<Vec<usize>> {
    let text = std::fs::read_to_string(folder.join("end"))?;
    Ok(text.split_whitespace().map(str::parse).collect::<std::result::Result<_, _>>()?)
}

/// Waits until all operations that can complete have. The call fails as long as a node is lost to
/// which an operation was sent.
fn complete(rma: &Rma) {
    drop(rma.quiet());
}
