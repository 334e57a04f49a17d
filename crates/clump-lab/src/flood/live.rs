//! The ranks of an attacked job.

use super::attack::Attack;
use super::{FloodTarget, FloodedJob, Turn};
use crate::pair::meeting::{PairRole, meet, partner};
use crate::pair::{BulkPath, Pair, Scope};
use anyhow::{Context, Result};
use clump::Clump;
use clump_am::AsContext;
use clump_trace::Counter;
use clump_trace::block::Counters;
use clump_wire::Security;
use clump_wire::hostile::Claim;
use std::net::UdpSocket;

/// Payload of a message, and messages of a slice: some tens of milliseconds.
const MESSAGE: usize = 64 << 10;
const MESSAGES: usize = 512;
/// Messages of one word in a slice.
const WORDS: usize = 200_000;
/// Turns of a figure, half of them in the other order.
const TURNS: usize = 31;

/// Runs a rank. Returns the output of rank 0, as JSON.
///
/// # Errors
/// Fails if the job has no network that ranks drive themselves, or if a message fails.
pub fn play(security: Security, rate: u32) -> Result<Option<String>> {
    let cl = clump::init()?;
    let mut part = meet(&cl, Scope::Net, security)?;
    let mut said = None;
    match &mut part {
        PairRole::Issuer(issuer) => {
            // No process reads from this one.
            let bystander = UdpSocket::bind("127.0.0.1:0")?;
            let (claim, to) = knowledge(&cl)?;
            let attack = Attack::start(claim, to, bystander.local_addr()?, rate)?;
            let bytes = turns(&attack, || stream(&mut **issuer))?;
            let messages = turns(&attack, || words(&mut **issuer))?;
            let (rate, sent) = attack.end();
            said = Some(FloodedJob { bytes, messages, rate, sent, thrown: 0 });
            issuer.finish()?;
        }
        PairRole::Server(server) => server.serve()?,
        PairRole::Onlooker => {}
    }
    let thrown = cl.all_reduce(thrown_away(&cl), clump::Sum)?;
    let said = said.map(|said| FloodedJob { thrown, ..said });
    Ok(said.map(|said| serde_json::to_string(&said)).transpose()?)
}

/// Returns the knowledge of an attacker that sees packets of the job: sender, receiver, and the
/// receiver's address.
fn knowledge(cl: &Clump) -> Result<(Claim, std::net::SocketAddr)> {
    let target = u32::try_from(partner(Scope::Net, cl.nranks()))?;
    let place = |rank: u32| cl.node().peer(rank).and_then(|peer| peer.place());
    let [mine, theirs] = [place(0), place(target)];
    let (mine, theirs) = (mine.context("no address")?, theirs.context("no address")?);
    let network = cl.context().network().context("no network: start it with --nodes 2")?;
    let job = network
        .snapshot()
        .job_tag
        .context("proxies have the network: start it with --ni direct")?;
    let claim = Claim { source: (0, mine.epoch), target: (target, theirs.epoch), job };
    Ok((claim, theirs.address))
}

/// Measures slices under each target in turn.
fn turns(attack: &Attack, mut slice: impl FnMut() -> Result<f64>) -> Result<Vec<Turn>> {
    let mut turns = Vec::with_capacity(TURNS);
    let mut aims = [(0, FloodTarget::Nobody), (1, FloodTarget::Bystander), (2, FloodTarget::Job)];
    slice()?;
    for _ in 0..TURNS {
        let mut turn: Turn = [0.0; 3];
        for (place, aim) in aims {
            attack.aim(aim);
            if let Some(figure) = turn.get_mut(place) {
                *figure = slice()?;
            }
        }
        attack.aim(FloodTarget::Nobody);
        turns.push(turn);
        aims.reverse();
    }
    Ok(turns)
}

/// Returns the bytes per second of 64 KiB messages.
fn stream<P: Pair>(pair: &mut P) -> Result<f64> {
    let chunk = MESSAGE.min(pair.largest(BulkPath::Medium));
    per_second(pair, MESSAGES * chunk, |pair| {
        (0..MESSAGES).try_for_each(|_| pair.bulk(BulkPath::Medium, chunk))
    })
}

/// Returns the messages per second.
fn words<P: Pair>(pair: &mut P) -> Result<f64> {
    per_second(pair, WORDS, |pair| (0..WORDS).try_for_each(|_| pair.post()))
}

fn per_second<P: Pair>(
    pair: &mut P,
    count: usize,
    send: impl FnOnce(&mut P) -> Result<()>,
) -> Result<f64> {
    let start = pair.now();
    send(pair)?;
    pair.await_handled()?;
    let end = pair.now();
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
    let count = count as f64;
    Ok(count * 1e9 / pair.ns(end.wrapping_sub(start)))
}

fn thrown_away(cl: &Clump) -> u64 {
    let block = cl.context().block();
    let counters = Counters::over(block.counters());
    let kinds =
        [Counter::NetForged, Counter::NetForeign, Counter::NetMalformed, Counter::NetReplayed];
    kinds.into_iter().map(|counter| counters.get(counter)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pair::fake::FakePair;

    #[test]
    fn a_known_machine_has_the_throughput_that_it_has() {
        let mut pair = FakePair::default();
        let each = pair.bulk_start + pair.big_g * MESSAGE as f64;
        let got = stream(&mut pair).unwrap();
        assert!((got * each / (MESSAGE as f64 * 1e9) - 1.0).abs() < 0.01, "{got}");
        assert!(words(&mut pair).unwrap() > 0.0);
    }
}
