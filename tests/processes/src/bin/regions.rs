//! A program of regions that nodes own, for tests: `regions WHAT`.

use clump::pgas::Layout;
use clump::rma::{Comparison, NodeRegion, Refusal, RegionOptions, Rma, Target};
use clump_os::sync::Ordering;
use clump_os::{clock, process, signal};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Bytes of address space of a region.
const WHOLE: u64 = 1 << 40;
/// The last word of it.
const LAST: u64 = WHOLE - 8;
/// Number of the region that outlives its creator.
const NUMBER: u8 = 5;
const MIB: u64 = 1 << 20;

fn main() -> Result<()> {
    let what = std::env::args_os().nth(1).unwrap_or_default();
    let cl = clump::init()?;
    match &*what.to_string_lossy() {
        "survivors" => survivors(&cl),
        "full" => full(&cl),
        "fill" => fill(&cl),
        "arrays" => arrays(&cl),
        other => Err(format!("`{other}` is nothing to do").into()),
    }
}

fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(|i| (i * 7 % 251) as u8).collect()
}

/// Creates a region on rank 2 of four, which is killed. The others, on its node and on another,
/// read and write the region.
fn survivors(cl: &clump::Clump) -> Result<()> {
    let rma = Rma::open(cl)?;
    let (mine, all) = cl.allocate(&rma, 4096)?;
    if cl.rank() == 2 {
        let region = rma.node_region(NUMBER, WHOLE, RegionOptions::default())?;
        region.put(0, 11_u64)?;
        region.put(LAST, 12_u64)?;
        cl.barrier()?;
        // The others might still be in the barrier, which a death would end with an error.
        mine.wait_until(8, Comparison::Equal, 3_u64)?;
        return process::signal(process::own_pid(), signal::KILL).map_err(Into::into);
    }
    cl.barrier()?;
    all[2].signal(8, 1, true)?;
    // The last of these ends rank 2, perhaps before its answer is back.
    let _ = rma.quiet();
    match cl.rank() {
        0 => {
            await_death(&all[2])?;
            let region = rma.target_on(1, NUMBER)?;
            assert_eq!((region.get::<u64>(0)?, region.get::<u64>(LAST)?), (11, 12));
            assert_eq!(region.get::<u64>(WHOLE / 2)?, 0);
            region.put_bytes(WHOLE / 2, &bytes(MIB as usize))?;
            region.put_bytes(LAST - 7, &[9; 7])?;
            assert_eq!(region.fetch_add(64, 5_u64)?, 0);
            assert_eq!(
                region.put_bytes(LAST + 1, &[0; 8]).and_then(|()| rma.quiet()).map_err(|e| e.why()),
                Err(Some(Refusal::OutOfBounds))
            );
            let other = rma.target_on(1, NUMBER + 1)?.get::<u64>(0).map_err(|e| e.why());
            assert_eq!(other, Err(Some(Refusal::NoSuchSegment)));
            rma.quiet()?;
            all[3].signal(0, 1, false)?;
            rma.quiet()?;
        }
        1 => {
            await_death(&all[2])?;
            rma.target_on(1, NUMBER)?.signal(72, 7, true)?;
            rma.quiet()?;
        }
        _ => {
            mine.wait_until(0, Comparison::Equal, 1_u64)?;
            let region = rma.node_region(NUMBER, WHOLE, RegionOptions::default())?;
            assert_eq!((region.get::<u64>(0)?, region.get::<u64>(LAST)?), (11, 12));
            assert_eq!(region.get::<u64>(64)?, 5);
            region.wait_until(72, Comparison::Equal, 7_u64)?;
            let mut got = vec![0; MIB as usize];
            region.get_bytes(WHOLE / 2, &mut got)?;
            assert!(got == bytes(MIB as usize), "what was put from another node is there");
            views(&rma, &region)?;
        }
    }
    println!("rank {} goes on", cl.rank());
    Ok(())
}

/// Maps a region at an address that is free, at one that is taken, and twice.
fn views(rma: &Rma, region: &NodeRegion) -> Result<()> {
    let first = region.map()?;
    let address = first.base().addr().get();
    let taken = region.map_at(address + 4096).map(drop).map_err(|e| e.to_string());
    assert!(taken.clone().is_err_and(|e| e.contains("something else lies")), "{taken:?}");
    let odd = region.map_at(address + 8).map(drop);
    assert!(odd.is_err(), "an address that is no multiple of a page");
    // Far below where the kernel maps things by itself.
    let chosen = (8..64).map(|n| n << 41).find_map(|address| region.map_at(address).ok());
    let (chosen, other) = (chosen.ok_or("no free address")?, region.map()?);
    assert_ne!(other.base(), chosen.base());
    for offset in [128, LAST] {
        let (one, two) = (chosen.word(offset), other.word(offset));
        let (Some(one), Some(two)) = (one, two) else { return Err("a word of it".into()) };
        one.store(offset + 1, Ordering::Release);
        assert_eq!(two.load(Ordering::Acquire), offset + 1);
        assert_eq!(region.get::<u64>(offset)?, offset + 1);
    }
    let small = RegionOptions { reserved: 4096, ..RegionOptions::default() };
    assert!(rma.node_region(NUMBER, 8, small).is_err(), "it has other properties");
    assert!(rma.node_region(16, 8, small).is_err(), "there is no such number");
    let grows = rma.node_region(0, 8, small)?;
    assert!(grows.check(8, 8).is_err() && grows.grow(4097).is_err());
    grows.grow(4096)?;
    grows.put(4088, 1_u64)?;
    grows.commit(4000, 96)?;
    assert!(grows.commit(4000, 97).is_err());
    Ok(())
}

fn await_death(target: &Target) -> Result<()> {
    while target.get::<u64>(8).map_err(|e| e.why()) != Err(Some(Refusal::OwnerDead)) {
        clock::yield_now();
    }
    Ok(())
}

/// Puts into the region of another node until that has no memory left, as far as 1 GiB. All that
/// was not refused is there.
fn full(cl: &clump::Clump) -> Result<()> {
    let rma = Rma::open(cl)?;
    let region = rma.node_region(0, WHOLE, RegionOptions::default())?;
    cl.barrier()?;
    if cl.rank() == 0 {
        let region_there = rma.target_on(1, 0)?;
        let sent = bytes(MIB as usize);
        let mut stored = 0;
        let refused = loop {
            region_there.put_bytes(stored * MIB, &sent)?;
            match rma.quiet() {
                Ok(()) => stored += 1,
                Err(error) => break error.why(),
            }
            if stored == 1024 {
                return Err("1 GiB was stored under a limit".into());
            }
        };
        assert_eq!(refused, Some(Refusal::NoMemory));
        // Some pages may have become free meanwhile.
        let mut pages = (WHOLE / 2..).step_by(4096).take(4096);
        let added = pages.find_map(|at| region_there.fetch_add(at, 1_u64).err());
        assert_eq!(added.map(|e| e.why()), Some(refused));
        let got = pages.find_map(|at| region_there.get::<u64>(at).err());
        assert_eq!(got.map(|e| e.why()), Some(refused));
        let mut got = vec![0; sent.len()];
        for at in 0..stored {
            region_there.get_bytes(at * MIB, &mut got)?;
            assert!(got == sent, "MiB {at} of {stored}");
        }
        println!("full after {stored} MiB, and nobody died");
    }
    drop(region);
    cl.barrier()?;
    Ok(())
}

/// Asks for more memory than the limit of the job, in every way that a rank can: each time all
/// ranks get an error, and go on.
fn arrays(cl: &clump::Clump) -> Result<()> {
    const LIMIT: u64 = 300 * MIB;
    let rma = Rma::open(cl)?;
    let pgas = cl.pgas()?;
    let too_much = [LIMIT * 11 / 10, 4 * LIMIT, 48 << 30];
    for whole in too_much {
        let each = whole / cl.nranks() as u64;
        let refused = cl.allocate(&rma, each).map(drop).map_err(|e| e.to_string());
        let Err(why) = refused else { return Err("it has no such memory".into()) };
        assert!(why.contains("memory"), "{why}");
        let spread = pgas.spread::<u64>((whole / 8) as usize, Layout::Block);
        let Err(why) = spread.map(drop).map_err(|e| e.to_string()) else {
            return Err("no memory holds such an array".into());
        };
        assert!(why.contains("memory"), "{why}");
        cl.barrier()?;
    }
    if cl.rank() == 0 {
        let grows = rma.export_growing(MIB, 2 * LIMIT)?;
        let mut refused = None;
        for step in 2..2 * LIMIT / MIB {
            refused = grows.grow(step * MIB).err().map(|e| e.to_string());
            if refused.is_some() {
                break;
            }
        }
        let why = refused.ok_or("it grew beyond the limit")?;
        assert!(why.contains("cgroup"), "{why}");
        // What it has can be used to the end.
        let last = grows.near_end() - 8;
        grows.put(last, 7_u64)?;
        assert_eq!(grows.get::<u64>(last)?, 7);
        println!("{why}");
    }
    cl.barrier()?;
    let (mine, all) = cl.allocate(&rma, 8 * MIB)?;
    all[(cl.rank() + 1) % cl.nranks()].put_bytes(0, &bytes(8 * MIB as usize))?;
    rma.quiet()?;
    cl.barrier()?;
    let mut got = vec![0; 8 * MIB as usize];
    mine.get_bytes(0, &mut got)?;
    assert!(got == bytes(got.len()));
    cl.barrier()?;
    Ok(())
}

/// Touches 8 MiB of a region of its node, and of the next node's.
fn fill(cl: &clump::Clump) -> Result<()> {
    let rma = Rma::open(cl)?;
    let region = rma.node_region(0, WHOLE, RegionOptions::default())?;
    cl.barrier()?;
    let (node, nodes) = (cl.node().node(), cl.node().nnodes());
    let next = (node + 1) % nodes;
    let there = rma.target_on(next, 0)?;
    there.put_bytes(WHOLE / 2, &bytes(8 * MIB as usize))?;
    region.put_bytes(0, &bytes(8 * MIB as usize))?;
    rma.quiet()?;
    cl.barrier()?;
    Ok(())
}
