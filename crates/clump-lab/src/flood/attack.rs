//! The attacker: a thread that sends packets at a given rate to a changing target.

use super::FloodTarget;
use anyhow::{Context, Result};
use clump_os::sync::Ordering::Relaxed;
use clump_os::sync::{AtomicU64, AtomicUsize};
use clump_os::{clock, thread};
use clump_wire::hostile::{Attacker, Claim, Trick};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// Pause between two batches of packets.
const NAP: Duration = Duration::from_micros(200);
/// Packets made beforehand: making one costs more than sending it.
const STOCK: u16 = 1000;
const ENDED: usize = 3;
const AIMS: [FloodTarget; 3] = [FloodTarget::Nobody, FloodTarget::Bystander, FloodTarget::Job];

/// Orders to the thread, and its counts.
#[derive(Debug, Default)]
struct Board {
    aim: AtomicUsize,
    sent: AtomicU64,
    active_ns: AtomicU64,
    at_job: AtomicU64,
}

/// A running attacker.
#[derive(Debug)]
pub struct Attack {
    board: Arc<Board>,
    thread: Option<JoinHandle<()>>,
}

impl Attack {
    /// Starts an attacker that sends `rate` packets per second with the identity of `claim`, to
    /// `to` or to `bystander`.
    ///
    /// # Errors
    /// Fails if no socket can be opened.
    pub fn start(claim: Claim, to: SocketAddr, bystander: SocketAddr, rate: u32) -> Result<Self> {
        let socket = UdpSocket::bind((to.ip(), 0)).context("opening the enemy's socket")?;
        let mut attacker = Attacker::new(claim);
        let tricks = Trick::ALL.into_iter().cycle();
        let stock: Vec<_> = tricks.take(STOCK.into()).map(|trick| attacker.packet(trick)).collect();
        let board = Arc::new(Board::default());
        let told = board.clone();
        let thread = thread::spawn("clump-enemy", move || {
            let mut packets = stock.iter().cycle();
            loop {
                let aim = told.aim.load(Relaxed);
                match AIMS.get(aim) {
                    None => return,
                    Some(FloodTarget::Nobody) => clock::pass(NAP),
                    Some(&at) => {
                        let target = if at == FloodTarget::Job { to } else { bystander };
                        let sent = send(&told, aim, rate, || {
                            let packet = packets.next().map(Vec::as_slice);
                            let _ = socket.send_to(packet.unwrap_or_default(), target);
                        });
                        let at_job = if at == FloodTarget::Job { sent } else { 0 };
                        told.at_job.fetch_add(at_job, Relaxed);
                    }
                }
            }
        })?;
        Ok(Self { board, thread: Some(thread) })
    }

    /// Sets the target from now on.
    pub fn aim(&self, at: FloodTarget) {
        self.board.aim.store(AIMS.iter().position(|aim| *aim == at).unwrap_or(0), Relaxed);
    }

    /// Ends the attack. Returns the packets per second while it sent, and the number sent to the
    /// job.
    pub fn end(mut self) -> (f64, u64) {
        self.stop();
        let read = |cell: &AtomicU64| cell.load(Relaxed);
        #[expect(clippy::cast_precision_loss, reason = "counts and spans are far below 2^53")]
        let rate = read(&self.board.sent) as f64 * 1e9 / read(&self.board.active_ns).max(1) as f64;
        (rate, read(&self.board.at_job))
    }

    fn stop(&mut self) {
        self.board.aim.store(ENDED, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Attack {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Sends at `rate` as long as the target is the same. Returns the number of packets.
fn send(board: &Board, aim: usize, rate: u32, mut packet: impl FnMut()) -> u64 {
    let (start, mut sent) = (clock::now_ns(), 0_u64);
    while board.aim.load(Relaxed) == aim {
        let due = (clock::now_ns() - start).saturating_mul(u64::from(rate)) / 1_000_000_000;
        while sent < due {
            packet();
            sent += 1;
        }
        clock::pass(NAP);
    }
    board.sent.fetch_add(sent, Relaxed);
    board.active_ns.fetch_add(clock::now_ns() - start, Relaxed);
    sent
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_go_where_they_are_aimed() {
        let open = || {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            socket
        };
        let (job, bystander) = (open(), open());
        let claim = Claim { source: (0, 1), target: (1, 2), job: 3 };
        let address = |socket: &UdpSocket| socket.local_addr().unwrap();
        let attack = Attack::start(claim, address(&job), address(&bystander), 10_000).unwrap();
        let mut bytes = [0; 2048];
        attack.aim(FloodTarget::Bystander);
        bystander.recv(&mut bytes).unwrap();
        job.set_nonblocking(true).unwrap();
        assert!(job.recv(&mut bytes).is_err(), "nothing was aimed at the job yet");
        job.set_nonblocking(false).unwrap();
        attack.aim(FloodTarget::Job);
        job.recv(&mut bytes).unwrap();
        let (rate, at_job) = attack.end();
        assert!(rate > 0.0 && at_job > 0);
    }
}
