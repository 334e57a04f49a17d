//! Cost of one-sided operations, beside the bare machine's: `clump run -n 2 --nodes 2
//! target/release/examples/onesided_cost`.
//!
//! Rank 0 accesses memory of rank 1, which computes meanwhile, or sleeps if the argument is
//! `idle`. The bare counterpart between nodes is a thread of rank 1 that blocks in `recv` and
//! echoes: a round trip of UDP and one wake-up.
//!
//! On three nodes and more (`-n 3 --nodes 3`) all ranks but the last contend for a lock of the
//! last one's node, beside a message that two of them send to and fro.

mod many;
mod near;
mod relay;

use clump::rma::{Barrier, Comparison, Lock, Rma, Target};
use clump_os::clock;
use std::net::UdpSocket;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Word of rank 1's memory that tells it to stop computing.
const STOP: u64 = BYTES - 8;
const BYTES: u64 = 4 << 20;

fn main() -> Result<()> {
    let cl = clump::init()?;
    let rma = Rma::open(&cl)?;
    let (mine, all) = cl.allocate(&rma, BYTES)?;
    let locks = rma.export_locks(1)?;
    let lock = rma.lock(cl.all_gather(locks.name())?[1], 0)?;
    let echo = UdpSocket::bind("0.0.0.0:0")?;
    let ports = cl.all_gather(u64::from(echo.local_addr()?.port()))?;
    let idle = std::env::args_os().nth(1).is_some_and(|word| word == "idle");
    cl.barrier()?;
    match cl.rank() {
        0 => {
            let port = u16::try_from(ports[1])?;
            let far = cl.node().peer(cl.node().interface_id(1));
            let host = far.and_then(|peer| peer.place()).map(|place| place.address.ip());
            if let Some(host) = host {
                echo.connect((host, port))?;
                measure_far(&rma, &all[1], &echo)?;
                many::measure(&rma, &all[1])?;
            } else {
                near::measure(&all[1])?;
            }
            all[1].store(STOP, 1_u64)?;
            rma.quiet()?;
        }
        1 => {
            std::thread::spawn(move || {
                let mut packet = [0; 1 << 16];
                loop {
                    if let Ok((bytes, from)) = echo.recv_from(&mut packet) {
                        let _ = echo.send_to(&packet[..bytes], from);
                    }
                }
            });
            if idle {
                mine.wait_until(STOP, Comparison::Equal, 1_u64)?;
            }
            while mine.load::<u64>(STOP)? == 0 {
                std::hint::spin_loop();
            }
        }
        _ => {}
    }
    cl.barrier()?;
    if cl.nranks() == 2 {
        transfer(&cl, &rma, &lock)?;
        cl.barrier()?;
    }
    if cl.nranks() > 2 && cl.node().nnodes() > 2 {
        relay::measure(&cl, &rma)?;
    }
    meetings(&cl, &rma)?;
    cl.barrier()?;
    Ok(())
}

/// Returns the median of `rounds` times, in us.
fn median(rounds: usize, mut once: impl FnMut() -> Result<()>) -> Result<f64> {
    let mut times = Vec::with_capacity(rounds);
    for _ in 0..rounds {
        let start = clock::instant();
        once()?;
        times.push(start.elapsed().as_secs_f64() * 1e6);
    }
    times.sort_unstable_by(f64::total_cmp);
    Ok(times[rounds / 2])
}

fn measure_far(rma: &Rma, target: &Target, socket: &UdpSocket) -> Result<()> {
    socket.set_nonblocking(true)?;
    let packet = [0; 1 << 16];
    let ping = |bytes: usize, back: &mut [u8]| -> Result<()> {
        socket.send(&packet[..bytes])?;
        while socket.recv(back).is_err() {}
        Ok(())
    };
    let mut back = vec![0; 1 << 16];
    let rounds = 5000;
    // In turns, so that other load on the machine affects both.
    let (mut bare, mut get, mut add, mut bare_page, mut page) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut to = vec![0; 4096];
    for _ in 0..10 {
        bare.push(median(rounds / 10, || ping(120, &mut back))?);
        get.push(median(rounds / 10, || Ok(target.get::<u64>(64).map(drop)?))?);
        add.push(median(rounds / 10, || Ok(target.fetch_add(72, 1_u64).map(drop)?))?);
        bare_page.push(median(rounds / 10, || ping(4096, &mut back))?);
        page.push(median(rounds / 10, || Ok(target.get_bytes(4096, &mut to)?))?);
    }

    let middle = |mut all: Vec<f64>| {
        all.sort_unstable_by(f64::total_cmp);
        all[all.len() / 2]
    };
    let (bare, get, add) = (middle(bare), middle(get), middle(add));
    let (bare_page, page) = (middle(bare_page), middle(page));
    println!("bare UDP round trip, 120 B              {bare:8.2} us");
    println!("get of 8 bytes                          {get:8.2} us  {:.2} x", get / bare);
    println!("fetch_add                               {add:8.2} us  {:.2} x", add / bare);
    println!("bare UDP round trip, 4 KiB both ways    {bare_page:8.2} us");
    println!("get of 4 KiB                            {page:8.2} us  {:.2} x", page / bare_page);
    let adds = 2_000_000_u64;
    let before = target.get::<u64>(80)?;
    let start = clock::instant();
    for _ in 0..adds {
        target.add(80, 1_u64)?;
    }
    rma.quiet()?;
    let rate = adds as f64 / start.elapsed().as_secs_f64() / 1e6;
    assert_eq!(target.get::<u64>(80)?, before + adds);
    println!("add without result                      {rate:8.2} M/s");
    let mut large = vec![1_u8; 1 << 20];
    let get = median(100, || Ok(target.get_bytes(1 << 20, &mut large)?))?;
    println!("get of 1 MiB                            {:8.2} GB/s", large.len() as f64 / get / 1e3);
    let put = median(100, || {
        target.put_bytes(1 << 20, &large)?;
        Ok(rma.quiet()?)
    })?;
    println!("put of 1 MiB, until it is there         {:8.2} GB/s", large.len() as f64 / put / 1e3);
    Ok(())
}

/// Runs barriers of all ranks, by flags and by messages.
fn meetings(cl: &clump::Clump, rma: &Rma) -> Result<()> {
    let flags = rma.export_flags(Barrier::flags(rma))?;
    let mut barrier = Barrier::over(rma, &cl.all_gather(flags.name())?)?;
    let by_flags = median(2000, || Ok(barrier.meet()?))?;
    cl.barrier()?;
    let by_messages = median(2000, || Ok(cl.barrier()?))?;
    if cl.rank() == 0 {
        println!("barrier of {:2} ranks by flags            {by_flags:8.2} us", cl.nranks());
        println!("the same by messages (Clump::barrier)   {by_messages:8.2} us");
    }
    Ok(())
}

/// Takes a lock of rank 1 on both ranks in turn.
fn transfer(cl: &clump::Clump, rma: &Rma, lock: &Lock) -> Result<()> {
    let rounds = 5000;
    let mut alone = 0.0;
    if cl.rank() == 0 {
        alone = median(1000, || {
            drop(lock.acquire()?);
            Ok(())
        })?;
    }
    cl.barrier()?;
    rma.quiet()?;
    drop(lock.acquire()?);
    let start = clock::instant();
    for _ in 0..rounds {
        drop(lock.acquire()?);
    }
    rma.quiet()?;
    if cl.rank() == 0 {
        // Fair: each turn of one rank lets the other have one.
        let each = start.elapsed().as_secs_f64() * 1e6 / f64::from(2 * rounds);
        println!("lock: taken and given back alone        {alone:8.2} us");
        println!("lock: handed over, both ranks at it     {each:8.2} us");
    }
    Ok(())
}
