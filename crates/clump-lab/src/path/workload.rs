//! The ranks that use a path: streams and round trips, by clump and by the kernel's TCP.
//!
//! Rank 1 sends, and rank 0 counts from the moment at which it lets rank 1 begin, so that the
//! beginning of a flow is part of its goodput.

use crate::pair::meeting::address;
use anyhow::{Context, Result, ensure};
use clump::Clump;
use clump::am::{Endpoint, Handler, Tag};
use clump::rma::Rma;
use clump_am::AsContext;
use clump_os::clock;
use clump_trace::Counter;
use clump_trace::block::Counters;
use serde::{Deserialize, Serialize};
use std::cell::{Cell, RefCell};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::rc::Rc;

/// Payload of small messages.
pub const SMALL: usize = 8 << 10;
/// Payload of large ones.
pub const LARGE: usize = 1 << 20;
/// Bytes of a get: many round trips of most paths.
pub const GET: usize = 16 << 20;
/// Bytes of a call to TCP.
const CALL: usize = 64 << 10;
/// Time for which round trips are measured, at most [`MAX_TRIPS`] and at least [`MIN_TRIPS`].
const TRIPS_NS: u64 = 1_000_000_000;
const MAX_TRIPS: u32 = 2000;
const MIN_TRIPS: u32 = 10;

const TAG: Tag = Tag(0x9a7_49a7_49a7_49a7);
const BEGIN: Handler = Handler(1);
const DATA: Handler = Handler(2);
const STOP: Handler = Handler(3);
const ECHO: Handler = Handler(4);
const ANSWER: Handler = Handler(5);

/// Workload of the ranks of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum PathWorkload {
    /// A stream of messages of [`SMALL`] bytes.
    Small,
    /// A stream of messages of [`LARGE`] bytes.
    Large,
    /// Gets of [`GET`] bytes, one after the other.
    Gets,
    /// A stream of TCP.
    Tcp,
    /// Round trips of short messages.
    Trips,
    /// Round trips by TCP.
    TcpTrips,
}

/// Goodput of a stream, bytes per second, and what was sent for it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct PathGoodput {
    /// From the permission to begin to the end.
    pub whole: f64,
    /// In the second half of that time.
    pub second_half: f64,
    /// Packets' worth of messages sent, and sent again.
    pub sent: [u64; 2],
}

/// Runs a rank for a stream of so many ns. Returns the output of rank 0, as JSON: a
/// [`PathGoodput`], or the mean round trip in ns.
///
/// # Errors
/// Fails if the job is not of two ranks on two nodes, or if a send fails.
pub fn play(workload: PathWorkload, span_ns: u64) -> Result<Option<String>> {
    let cl = clump::init()?;
    ensure!(
        cl.nranks() == 2 && cl.node().nnodes() == 2,
        "a path is between two ranks on two nodes"
    );
    let text = match workload {
        PathWorkload::Small => serde_json::to_string(&messages(&cl, SMALL, span_ns)?)?,
        PathWorkload::Large => serde_json::to_string(&messages(&cl, LARGE, span_ns)?)?,
        PathWorkload::Gets => serde_json::to_string(&gets(&cl, span_ns)?)?,
        PathWorkload::Tcp => serde_json::to_string(&by_tcp(&cl, |tcp| stream(&cl, tcp, span_ns))?)?,
        PathWorkload::Trips => serde_json::to_string(&trips(&cl)?)?,
        PathWorkload::TcpTrips => serde_json::to_string(&by_tcp(&cl, |tcp| tcp_trips(&cl, tcp))?)?,
    };
    cl.barrier()?;
    Ok((cl.rank() == 0).then_some(text))
}

/// Bytes that have arrived, by time.
#[derive(Debug, Clone, Copy)]
struct Meter {
    begun_ns: u64,
    span_ns: u64,
    bytes: u64,
    last_ns: u64,
    /// First arrival in the second half, and the bytes with it.
    middle: Option<(u64, u64)>,
}

impl Meter {
    fn new(begun_ns: u64, span_ns: u64) -> Self {
        Self { begun_ns, span_ns, bytes: 0, last_ns: begun_ns, middle: None }
    }

    /// Counts an arrival, unless the time is over.
    fn add(&mut self, now_ns: u64, bytes: usize) {
        let since = now_ns.saturating_sub(self.begun_ns);
        if since <= self.span_ns {
            self.bytes += bytes as u64;
            self.last_ns = now_ns;
            if since >= self.span_ns / 2 && self.middle.is_none() {
                self.middle = Some((now_ns, self.bytes));
            }
        }
    }

    fn is_over(&self, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.begun_ns) > self.span_ns
    }

    fn goodput(&self) -> PathGoodput {
        let rate = |bytes: u64, ns: u64| {
            #[expect(clippy::cast_precision_loss, reason = "sums and spans are far below 2^53")]
            let (bytes, ns) = (bytes as f64, ns as f64);
            if ns > 0.0 { bytes * 1e9 / ns } else { 0.0 }
        };
        let (from_ns, before) = self.middle.unwrap_or((self.last_ns, self.bytes));
        PathGoodput {
            whole: rate(self.bytes, self.last_ns - self.begun_ns),
            second_half: rate(self.bytes - before, self.last_ns - from_ns),
            sent: [0; 2],
        }
    }
}

/// A stream of messages.
fn messages(cl: &Clump, size: usize, span_ns: u64) -> Result<PathGoodput> {
    let endpoint = Endpoint::open(cl, TAG)?;
    let meter = Rc::new(RefCell::new(Meter::new(0, 0)));
    let (begun, stopped) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(false)));
    let mut inbox = vec![0; SMALL];
    let count = meter.clone();
    endpoint.set_handler(DATA, move |_, _, payload| {
        payload.copy_to(&mut inbox);
        count.borrow_mut().add(clock::now_ns(), size);
    })?;
    for (handler, flag) in [(BEGIN, begun.clone()), (STOP, stopped.clone())] {
        endpoint.set_handler(handler, move |_, _, _| flag.set(true))?;
    }
    endpoint.export_segment(LARGE as u64)?;
    let names = cl.all_gather(endpoint.name())?;
    let target = endpoint.map(names.get(1 - cl.rank()).context("a name of each")?, TAG)?;
    let before = packets(cl);
    if cl.rank() == 0 {
        *meter.borrow_mut() = Meter::new(clock::now_ns(), span_ns);
        endpoint.request(target, BEGIN, &[])?;
        endpoint.poll_until(|| meter.borrow().is_over(clock::now_ns()))?;
        endpoint.request(target, STOP, &[])?;
    } else {
        endpoint.poll_until(|| begun.get())?;
        let payload = vec![7; size];
        while !stopped.get() {
            if size > SMALL {
                endpoint.request_long(target, DATA, 0, &payload, &[])?;
            } else {
                endpoint.request_bulk(target, DATA, &payload, &[])?;
            }
        }
    }
    endpoint.drain()?;
    cl.barrier()?;
    let after = packets(cl);
    let sent = cl.all_gather([after[0] - before[0], after[1] - before[1]])?;
    let sent = *sent.get(1).context("counts of the sender")?;
    Ok(PathGoodput { sent, ..meter.borrow().goodput() })
}

/// Gets by rank 0 from memory of rank 1, whose interface answers.
fn gets(cl: &Clump, span_ns: u64) -> Result<PathGoodput> {
    let rma = Rma::open(cl)?;
    let (_mine, all) = cl.allocate(&rma, GET as u64)?;
    let source = all.get(1).context("memory of rank 1")?;
    let mut meter = Meter::new(clock::now_ns(), span_ns);
    let mut to = vec![0; GET];
    cl.barrier()?;
    if cl.rank() == 0 {
        meter = Meter::new(clock::now_ns(), span_ns);
        while !meter.is_over(clock::now_ns()) {
            source.get_bytes(0, &mut to)?;
            meter.add(clock::now_ns(), GET);
        }
    }
    cl.barrier()?;
    Ok(meter.goodput())
}

/// Returns the packets' worth of messages that this rank has sent, and sent again.
fn packets(cl: &Clump) -> [u64; 2] {
    let counters = Counters::over(cl.context().block().counters());
    [counters.get(Counter::NetUnitsSent), counters.get(Counter::NetUnitsResent)]
}

/// Mean round trip of short messages, ns.
fn trips(cl: &Clump) -> Result<f64> {
    let endpoint = Endpoint::open(cl, TAG)?;
    let (answers, stopped) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(false)));
    endpoint.set_handler(ECHO, |token, words, _| token.reply(ANSWER, words))?;
    let count = answers.clone();
    endpoint.set_handler(ANSWER, move |_, _, _| count.set(count.get() + 1))?;
    let stop = stopped.clone();
    endpoint.set_handler(STOP, move |_, _, _| stop.set(true))?;
    let names = cl.all_gather(endpoint.name())?;
    let target = endpoint.map(names.get(1 - cl.rank()).context("a name of each")?, TAG)?;
    let mut mean = 0.0;
    if cl.rank() == 0 {
        mean = mean_trip(|| {
            let before = answers.get();
            endpoint.request(target, ECHO, &[before])?;
            Ok(endpoint.poll_until(|| answers.get() > before)?)
        })?;
        endpoint.request(target, STOP, &[])?;
    } else {
        endpoint.poll_until(|| stopped.get())?;
    }
    endpoint.drain()?;
    Ok(mean)
}

/// Returns the mean time of a call, ns, without that of the first.
fn mean_trip(mut trip: impl FnMut() -> Result<()>) -> Result<f64> {
    trip()?;
    let start = clock::now_ns();
    let mut count = 0;
    while count < MIN_TRIPS || count < MAX_TRIPS && clock::now_ns() - start < TRIPS_NS {
        trip()?;
        count += 1;
    }
    #[expect(clippy::cast_precision_loss, reason = "spans are far below 2^53")]
    let took = (clock::now_ns() - start) as f64;
    Ok(took / f64::from(count))
}

/// Connects rank 1 to rank 0 by TCP, and acts on the connection.
fn by_tcp<T>(cl: &Clump, act: impl FnOnce(TcpStream) -> Result<T>) -> Result<T> {
    let listener = TcpListener::bind((address(cl)?, 0)).context("listening by TCP")?;
    let own = listener.local_addr()?.to_string();
    let all = cl.all_gather_bytes(own.as_bytes())?;
    let tcp = if cl.rank() == 0 {
        listener.accept().context("accepting by TCP")?.0
    } else {
        let there = std::str::from_utf8(all.first().context("an address of rank 0")?)?;
        let there: SocketAddr = there.parse().context("the address of rank 0")?;
        TcpStream::connect(there).with_context(|| format!("connecting to {there} by TCP"))?
    };
    tcp.set_nodelay(true)?;
    act(tcp)
}

/// A stream of TCP.
fn stream(cl: &Clump, mut tcp: TcpStream, span_ns: u64) -> Result<PathGoodput> {
    let mut buffer = vec![7; CALL];
    if cl.rank() == 0 {
        let mut meter = Meter::new(clock::now_ns(), span_ns);
        tcp.write_all(&[1])?;
        while !meter.is_over(clock::now_ns()) {
            let bytes = tcp.read(&mut buffer)?;
            meter.add(clock::now_ns(), bytes);
        }
        // Resets the connection, which ends the sender.
        drop(tcp);
        return Ok(meter.goodput());
    }
    tcp.read_exact(&mut [0])?;
    loop {
        match tcp.write(&buffer) {
            Ok(_) => {}
            Err(e) if matches!(e.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe) => {
                return Ok(PathGoodput::default());
            }
            Err(e) => return Err(e).context("sending by TCP"),
        }
    }
}

/// Mean round trip of 8 bytes by TCP, ns.
fn tcp_trips(cl: &Clump, mut tcp: TcpStream) -> Result<f64> {
    let mut word = [7; 8];
    if cl.rank() == 0 {
        return mean_trip(|| {
            tcp.write_all(&word)?;
            Ok(tcp.read_exact(&mut word)?)
        });
    }
    loop {
        match tcp.read_exact(&mut word) {
            Ok(()) => tcp.write_all(&word)?,
            Err(e) if e.kind() == ErrorKind::UnexpectedEof => return Ok(0.0),
            Err(e) => return Err(e).context("receiving by TCP"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_meter_counts_from_the_permission_to_the_last_arrival() {
        let mut meter = Meter::new(1000, 100);
        // Nothing for 40 ns, then 10 bytes each 10 ns.
        (0..7).for_each(|n| meter.add(1040 + 10 * n, 10));
        meter.add(1101, 1000);
        assert!(meter.is_over(1101) && !meter.is_over(1100));
        let PathGoodput { whole, second_half, .. } = meter.goodput();
        assert!((whole - 0.7e9).abs() < 1.0 && (second_half - 1e9).abs() < 1.0);
        assert_eq!(Meter::new(5, 10).goodput(), PathGoodput::default());
    }

    #[test]
    fn trips_are_counted_without_the_first() {
        let mut calls = 0;
        let mean = mean_trip(|| {
            calls += 1;
            Ok(())
        });
        assert!(mean.unwrap() >= 0.0 && calls > MIN_TRIPS && calls <= MAX_TRIPS + 1);
    }
}
