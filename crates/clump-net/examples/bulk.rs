//! Measures bulk between two stacks over loopback: by streams and by datagrams, medium and long
//! messages, beside a bare TCP stream. Medians of interleaved slices.
//!
//! `cargo run --release -p clump-net --example bulk`; about twenty seconds, a thread for each end.
//! GB/s by the clock, and GB in a second of each end's processor time: both ends sleep when there
//! is nothing to do. On packets of 1500 bytes, as root: `unshare -n sh -c 'ip link set lo mtu 1500
//! up; target/release/examples/bulk'`.

use clump_driver::{Driver, TcpStreams, Udp, UdpOptions};
use clump_net::seal::JobKey;
use clump_net::{Batch, EndpointTable, PeerAddress, Progress, Stack, StackConfig, StreamUse};
use clump_os::clock::now_ns;
use clump_os::socket::wait_readable;
use clump_wire::Security;
use clump_wire::frame::{FrameKind, Route};
use clump_wire::{Message, Reason, SendResult};
use std::error::Error;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const SLICE_NS: u64 = 150_000_000;
const SEGMENT: usize = 4 << 20;
/// Longest sleep of an end that has nothing to do.
const PAUSE: Duration = Duration::from_millis(1);

type Failure = Box<dyn Error + Send + Sync>;

/// One endpoint with a segment.
struct Open(Mutex<Vec<u8>>);

impl EndpointTable for Open {
    fn admit(&self, _: u64, _: Option<u64>) -> Result<u8, Reason> {
        Ok(0)
    }

    fn fits(&self, _: u64, offset: u64, bytes: u64) -> Result<(), Reason> {
        if offset + bytes > SEGMENT as u64 { Err(Reason::BadLength) } else { Ok(()) }
    }

    fn deposit(&self, _: u64, offset: u64, data: &[u8]) -> Result<(), Reason> {
        let mut memory = self.0.lock().map_err(|_| Reason::BadOffset)?;
        let place = memory.get_mut(offset as usize..offset as usize + data.len());
        place.ok_or(Reason::BadLength)?.copy_from_slice(data);
        Ok(())
    }

    fn with_segment_bytes(
        &self,
        (_, offset, bytes): (u64, u64, u64),
        work: &mut dyn FnMut(&mut [u8]),
    ) -> bool {
        let Ok(mut memory) = self.0.lock() else { return false };
        let place = memory.get_mut(offset as usize..(offset + bytes) as usize);
        place.map(work).is_some()
    }
}

fn stack(
    me: u32,
    sockets: &[UdpSocket; 2],
    security: Security,
    streams: bool,
) -> Result<Stack, Failure> {
    let [mine, other] = [me, 1 - me].map(|at| &sockets[at as usize]);
    let options = UdpOptions { connections: 2, ..UdpOptions::default() };
    let driver = Udp::new(vec![mine.try_clone()?.into()], options)?;
    let key = JobKey::new(&mut [1; 32])?;
    let peers = Arc::new(vec![PeerAddress { id: 1 - me, address: other.local_addr()?, epoch: 1 }]);
    let channel = clump_proto::Config::default();
    let config = StackConfig { me, epoch: 1, security, channel, credit_bytes: 1 << 20, peers };
    let readiness = driver.readiness().and_then(|fd| fd.try_clone_to_owned().ok());
    let endpoints = Box::new(Open(Mutex::new(vec![1; SEGMENT])));
    let mut stack = Stack::new(config, &key, Box::new(driver), endpoints)?;
    if let Some(fd) = readiness.filter(|_| streams) {
        let network = TcpStreams::new(Ipv4Addr::LOCALHOST.into(), std::os::fd::AsFd::as_fd(&fd));
        stack.set_streams(Box::new(network.ok_or("no streams")?), &key, StreamUse::ALWAYS)?;
    }
    Ok(stack)
}

/// Processor time of the calling thread so far, in ns.
fn used_ns() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let first = stat.split_whitespace().next();
    first.and_then(|text| text.parse().ok()).unwrap_or(f64::NAN)
}

/// GB in a second: of the clock, of the sender's and of the receiver's processor time.
type Rates = [f64; 3];

fn rates(bytes: usize, sender_ns: f64, receiver_ns: f64) -> Rates {
    let bytes = bytes as f64;
    [bytes / SLICE_NS as f64, bytes / sender_ns, bytes / receiver_ns]
}

/// Sends messages for a slice of time; returns the rates at which they were handled.
fn messages(
    kind: FrameKind,
    bytes: usize,
    security: Security,
    streams: bool,
) -> Result<Rates, Failure> {
    let sockets = [(); 2].map(|()| UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)));
    let [one, two] = sockets;
    let sockets = [one?, two?];
    let (mut sender, mut receiver) =
        (stack(0, &sockets, security, streams)?, stack(1, &sockets, security, streams)?);
    let until = now_ns() + SLICE_NS * 4 / 3;
    let from = now_ns() + SLICE_NS / 3;
    std::thread::scope(|scope| {
        let taken = scope.spawn(move || {
            let (mut batch, mut handled, mut consumed) = (Batch::default(), 0, 0);
            let mut used = 0.0;
            while now_ns() < until {
                if used == 0.0 && now_ns() >= from {
                    used = used_ns();
                }
                let got = receiver.receive(now_ns, Some(0), &mut batch);
                for _ in 0..batch.len() {
                    consumed += 64 + if kind == FrameKind::Medium { bytes as u64 } else { 0 };
                    handled += usize::from(now_ns() >= from);
                }
                if !batch.is_empty() {
                    receiver.report(now_ns, 0, (1 << 40, 0), [consumed, 0]);
                }
                receiver.service(now_ns(), got == 0);
                if got == 0 {
                    receiver.acknowledge_all(now_ns());
                    wait_readable(receiver.readiness(), PAUSE);
                }
            }
            (handled, used_ns() - used)
        });
        let payload = vec![7; SEGMENT];
        let flow = sender.open_flow(0, 1 << 40, 1, false);
        let (mut batch, mut at) = (Batch::default(), 0);
        let (mut progress, mut used) = (Progress::default(), 0.0);
        while now_ns() < until {
            if used == 0.0 && now_ns() >= from {
                used = used_ns();
            }
            let part = &payload[at..at + bytes];
            let words = [at as u64, bytes as u64];
            let route = Route { from: 0, to: 1 << 40, tag: 0 };
            let request = Message::request((kind, 1), route, (&words, part));
            let pushed = match kind {
                FrameKind::Long => sender.request_long(now_ns, flow, &request, &mut progress),
                _ => sender.request(now_ns, flow, &request),
            };
            if pushed == SendResult::Sent {
                (at, progress) = ((at + bytes) % SEGMENT, Progress::default());
                continue;
            }
            let got = sender.receive(now_ns, None, &mut batch);
            sender.service(now_ns(), got == 0);
            if got == 0 {
                wait_readable(sender.readiness(), PAUSE);
            }
        }
        let used = used_ns() - used;
        let (handled, receiver_ns) = taken.join().map_err(|_| "the receiver failed")?;
        Ok(rates(handled * bytes, used, receiver_ns))
    })
}

/// Sends from one buffer to another by a stream that nothing checks.
fn bare(bytes: usize) -> Result<Rates, Failure> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let to: SocketAddr = listener.local_addr()?;
    let until = now_ns() + SLICE_NS;
    std::thread::scope(|scope| {
        let taken = scope.spawn(move || -> Result<(usize, f64), std::io::Error> {
            let (mut stream, _) = listener.accept()?;
            stream.set_read_timeout(Some(Duration::from_secs(1)))?;
            let (mut memory, mut at, mut all) = (vec![1; SEGMENT], 0, 0);
            let used = used_ns();
            while now_ns() < until {
                let got = stream.read(&mut memory[at..at + bytes])?;
                at = (at + bytes) % SEGMENT;
                all += got;
            }
            Ok((all, used_ns() - used))
        });
        let mut stream = TcpStream::connect(to)?;
        stream.set_nodelay(true)?;
        let (payload, mut at) = (vec![7; SEGMENT], 0);
        let used = used_ns();
        while now_ns() < until && stream.write_all(&payload[at..at + bytes]).is_ok() {
            at = (at + bytes) % SEGMENT;
        }
        let used = used_ns() - used;
        drop(stream);
        let (all, receiver_ns) = taken.join().map_err(|_| "the receiver failed")??;
        Ok(rates(all, used, receiver_ns))
    })
}

fn main() -> Result<(), Failure> {
    let rounds =
        std::env::args_os().nth(1).and_then(|text| text.to_str()?.parse().ok()).unwrap_or(5);
    println!(
        "GB/s over loopback, medians of {rounds}: by the clock; sender's, receiver's processor"
    );
    for bytes in [64 << 10, 1 << 20] {
        let mut figures: Vec<Vec<Rates>> = vec![Vec::new(); 9];
        for _ in 0..rounds {
            figures[0].push(bare(bytes)?);
            let mut at = 1;
            for kind in [FrameKind::Long, FrameKind::Medium] {
                for security in [Security::Crc, Security::Aead] {
                    for streams in [true, false] {
                        figures[at].push(messages(kind, bytes, security, streams)?);
                        at += 1;
                    }
                }
            }
        }
        let median = |figures: &Vec<Rates>, which: usize| {
            let mut all: Vec<f64> = figures.iter().map(|rates| rates[which]).collect();
            all.sort_by(f64::total_cmp);
            all[all.len() / 2]
        };
        let show = |figures: &Vec<Rates>| {
            let [clock, sender, receiver] = [0, 1, 2].map(|which| median(figures, which));
            format!("{clock:.2}; {sender:.2}, {receiver:.2}")
        };
        println!("{} KiB: bare TCP {}", bytes >> 10, show(&figures[0]));
        let names = ["long, CRC", "long, AEAD", "medium, CRC", "medium, AEAD"];
        for (name, pair) in names.iter().zip(figures[1..].chunks(2)) {
            println!("  {name:12}  streams {}   datagrams {}", show(&pair[0]), show(&pair[1]));
        }
    }
    Ok(())
}
