//! Peers that consist of two programs, a server and a client: their arguments and their output.

use super::peer_source::PeerSource;
use super::score::{Score, Workload};
use crate::pair::Scope;
use anyhow::{Context, Result, bail, ensure};
use std::path::Path;
use std::process::Command;

/// A peer with a server and a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Peer {
    /// `ucx_perftest`, over shared memory or TCP.
    Ucx,
    /// `fi_pingpong` with libfabric's `tcp` provider: latency only, because it has no streams.
    Libfabric,
    /// `iperf3`, one TCP stream: bandwidth only.
    Iperf,
    /// OpenSSL, one stream of TLS 1.3 over TCP with clump's cipher: bandwidth only.
    Tls,
}

/// The program of [`Peer::Tls`].
const TLS_SOURCE: &str = include_str!("../../peers/tls_bench.c");

/// The program for [`Workload::RingBandwidth`] on UCX.
pub const RING: PeerSource = PeerSource {
    file: "ucx_ring.c",
    text: include_str!("../../peers/ucx_ring.c"),
    libraries: &["-lucp", "-lucs"],
};

impl Peer {
    /// Returns the peers that support this path.
    pub const fn of(scope: Scope) -> &'static [Peer] {
        match scope {
            Scope::Shm => &[Peer::Ucx],
            Scope::Net => &[Peer::Ucx, Peer::Libfabric, Peer::Iperf, Peer::Tls],
        }
    }

    /// Returns the name in tables.
    pub const fn name(self, scope: Scope) -> &'static str {
        match (self, scope) {
            (Peer::Ucx, Scope::Shm) => "UCX",
            (Peer::Ucx, Scope::Net) => "UCX tcp",
            (Peer::Libfabric, _) => "ofi tcp",
            (Peer::Iperf, _) => "iperf3",
            (Peer::Tls, _) => "TLS 1.3",
        }
    }

    /// Returns the program that must be installed, or the compiler of its source, and Debian's
    /// packages for it.
    pub const fn program(self) -> (&'static str, &'static str) {
        match self {
            Peer::Ucx => ("ucx_perftest", "ucx-utils"),
            Peer::Libfabric => ("fi_pingpong", "libfabric-bin"),
            Peer::Iperf => ("iperf3", "iperf3"),
            Peer::Tls => ("cc", "gcc libssl-dev"),
        }
    }

    /// Returns the source of a peer that is compiled first: its file's name, its text, and the
    /// libraries that it needs.
    pub const fn source(self) -> Option<PeerSource> {
        match self {
            Peer::Tls => Some(PeerSource {
                file: "tls_bench.c",
                text: TLS_SOURCE,
                libraries: &["-lssl", "-lcrypto"],
            }),
            Peer::Ucx | Peer::Libfabric | Peer::Iperf => None,
        }
    }

    /// Returns the runs for all its figures.
    pub fn questions(self, scope: Scope) -> Vec<PeerFigure> {
        let streams = super::sizes(scope).iter().map(|&bytes| Workload::Bandwidth(bytes));
        let workloads: Vec<Workload> = match self {
            Peer::Ucx => {
                let rings = super::sizes(Scope::Shm).iter().map(|&n| Workload::RingBandwidth(n));
                let rings = rings.filter(|_| scope == Scope::Shm);
                [Workload::RoundTrip, Workload::Rate]
                    .into_iter()
                    .chain(streams)
                    .chain(rings)
                    .collect()
            }
            Peer::Libfabric => vec![Workload::RoundTrip],
            Peer::Iperf | Peer::Tls => streams.collect(),
        };
        workloads.into_iter().map(|workload| PeerFigure { peer: self, scope, workload }).collect()
    }
}

/// One figure of one peer: a run of its server and its client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerFigure {
    peer: Peer,
    scope: Scope,
    workload: Workload,
}

impl PeerFigure {
    /// Returns true if it is of a program of ours that uses the peer's library ([`RING`]).
    pub fn is_ring(&self) -> bool {
        matches!(self.workload, Workload::RingBandwidth(_))
    }

    fn ring(&self, program: &Path, side: &str, address: &str, port: u16) -> Option<Command> {
        let Workload::RingBandwidth(bytes) = self.workload else { return None };
        let mut command = Command::new(program);
        command.args([side, address, &port.to_string(), &bytes.to_string()]);
        command.env("UCX_TLS", "shm,self");
        Some(command)
    }

    /// Returns the command of the server; `address` is that of its node.
    pub fn server(&self, program: &Path, address: &str, port: u16) -> Command {
        if let Some(command) = self.ring(program, "server", address, port) {
            return command;
        }
        let mut command = self.common(program, port);
        match self.peer {
            Peer::Ucx => {}
            Peer::Libfabric => drop(command.args(["-B", &port.to_string()])),
            Peer::Iperf => drop(command.args(["-s", "-1", "--bind", address])),
            Peer::Tls => drop(command.args(["server", address, &port.to_string()])),
        }
        command
    }

    /// Returns the command of the client, for a server at `address`.
    pub fn client(&self, program: &Path, address: &str, port: u16) -> Command {
        if let Some(command) = self.ring(program, "client", address, port) {
            return command;
        }
        let mut command = self.common(program, port);
        match (self.peer, self.workload) {
            (Peer::Libfabric, _) => drop(command.args(["-P", &port.to_string(), address])),
            (Peer::Iperf, Workload::Bandwidth(bytes)) => {
                command.args(["-c", address, "-t", "1", "-J", "-l", &bytes.to_string()]);
            }
            (Peer::Tls, Workload::Bandwidth(bytes)) => {
                command.args(["client", address, &port.to_string(), &bytes.to_string()]);
            }
            _ => drop(command.arg(address)),
        }
        command
    }

    fn common(&self, program: &Path, port: u16) -> Command {
        let mut command = Command::new(program);
        let port = port.to_string();
        match self.peer {
            Peer::Ucx => {
                let (test, bytes, count) = self.ucx_test();
                command.args(["-t", test, "-s", &bytes.to_string(), "-n", &count.to_string()]);
                let transports = match self.scope {
                    Scope::Shm => "shm,self",
                    // Otherwise it would notice that both are on one machine, and use its memory.
                    Scope::Net => "tcp",
                };
                command.args(["-p", &port, "-f", "-v"]).env("UCX_TLS", transports);
            }
            Peer::Libfabric => {
                command.args(["-p", "tcp", "-e", "rdm", "-S", "8", "-I", "10000"]);
            }
            Peer::Iperf => {
                command.args(["-p", &port]);
            }
            Peer::Tls => {}
        }
        command
    }

    /// Returns test, bytes and repetitions: a fraction of a second each.
    fn ucx_test(&self) -> (&'static str, usize, usize) {
        let slower = match self.scope {
            Scope::Shm => 1,
            Scope::Net => 5,
        };
        match self.workload {
            Workload::Rate => ("ucp_am_bw", 8, 300_000 / slower),
            Workload::Bandwidth(bytes) | Workload::LongBandwidth(bytes) => {
                ("ucp_am_bw", bytes, ((256 << 20) / bytes).clamp(100, 20_000) / slower)
            }
            Workload::RoundTrip | Workload::RingBandwidth(_) | Workload::Barrier(_) => {
                ("ucp_am_lat", 8, 50_000 / slower)
            }
        }
    }

    /// Reads the score from the client's output.
    ///
    /// # Errors
    /// Fails if the output has no figures of the expected form.
    pub fn score(&self, text: &str) -> Result<Score> {
        let mut score = Score::default();
        match (self.peer, self.workload) {
            (Peer::Ucx, Workload::RingBandwidth(bytes)) => {
                score = Score::parse(text, 2)?;
                ensure!(score.ring_bandwidth.contains_key(&bytes), "ucx_ring printed no bandwidth");
            }
            (Peer::Ucx, workload) => {
                let figures = ucx_row(text)?;
                match workload {
                    Workload::Rate => score.rate_per_s = Some(figures.messages_per_s),
                    Workload::Bandwidth(bytes) => {
                        #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
                        let size = bytes as f64;
                        score.bandwidth.insert(bytes, size * figures.messages_per_s);
                    }
                    // The test reports half a round trip.
                    _ => score.round_trip_ns = Some(2e3 * figures.median_us),
                }
            }
            (Peer::Libfabric, _) => score.round_trip_ns = Some(2e3 * ofi_one_way_us(text)?),
            (Peer::Iperf, Workload::Bandwidth(bytes)) => {
                score.bandwidth.insert(bytes, iperf_bytes_per_s(text)?);
            }
            (Peer::Tls, Workload::Bandwidth(bytes)) => {
                score = Score::parse(text, 2)?;
                ensure!(score.bandwidth.contains_key(&bytes), "tls_bench printed no bandwidth");
            }
            (Peer::Iperf | Peer::Tls, workload) => bail!("a stream does not play {workload}"),
        }
        Ok(score)
    }
}

/// Figures that `ucx_perftest` reports.
#[derive(Debug, PartialEq)]
struct UcxFigures {
    /// Median of an operation as its sender sees it: useful for latency only, because a stream's
    /// sender is mostly done at once.
    median_us: f64,
    /// The better of its two averages (whole run, last second).
    messages_per_s: f64,
}

/// Reads the only line that starts with a number: iterations, median, average and overall latency,
/// average and overall bandwidth, average and overall rate.
fn ucx_row(text: &str) -> Result<UcxFigures> {
    let is_row = |line: &&str| line.trim_start().starts_with(|c: char| c.is_ascii_digit());
    let row = text.lines().find(is_row).context("ucx_perftest printed no figures")?;
    let cells: Vec<f64> = row.split(',').filter_map(|cell| cell.trim().parse().ok()).collect();
    match cells[..] {
        [_, median_us, _, _, _, _, average, overall] => {
            Ok(UcxFigures { median_us, messages_per_s: average.max(overall) })
        }
        _ => bail!("ucx_perftest printed `{row}`, which is not its eight columns"),
    }
}

/// Reads the output of `fi_pingpong`: bytes, sent, acknowledged, total, time, MB/s, microseconds a
/// transfer (half a round trip), millions of transfers a second.
fn ofi_one_way_us(text: &str) -> Result<f64> {
    let row = text.lines().rfind(|line| line.starts_with(|c: char| c.is_ascii_digit()));
    let row = row.context("fi_pingpong printed no figures")?;
    let cell = row.split_whitespace().nth(6).with_context(|| format!("too few cells: `{row}`"))?;
    cell.parse().with_context(|| format!("`{cell}` is no time"))
}

fn iperf_bytes_per_s(text: &str) -> Result<f64> {
    let report: serde_json::Value = serde_json::from_str(text).context("iperf3 printed no JSON")?;
    let bits = report.pointer("/end/sum_received/bits_per_second").and_then(|v| v.as_f64());
    Ok(bits.context("iperf3 reported no bandwidth")? / 8.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(peer: Peer, workload: Workload, text: &str) -> Result<Score> {
        PeerFigure { peer, scope: Scope::Net, workload }.score(text)
    }

    #[test]
    fn figures_of_ucx_are_found_in_its_columns() {
        let head = "iterations,50.0_percentile_lat,avg_lat,overall_lat,avg_bw,overall_bw,avg_mr,\
                    overall_mr\n";
        let row = " 100,0.551,2.538,2.538,29.03,3.52,3804970,460838\n";
        let expected = UcxFigures { median_us: 0.551, messages_per_s: 3_804_970.0 };
        assert_eq!(ucx_row(&format!("{head}{row}")).unwrap(), expected);
        assert!(ucx_row(head).is_err() && ucx_row("100,1.5\n").is_err());
        let score = ask(Peer::Ucx, Workload::RoundTrip, row).unwrap();
        assert_eq!(score.round_trip_ns, Some(1102.0));
        let score = ask(Peer::Ucx, Workload::Bandwidth(1000), row).unwrap();
        assert_eq!(score.bandwidth[&1000], 3_804_970_000.0);
    }

    #[test]
    fn figures_of_libfabric_and_iperf_are_found() {
        let text = "bytes   #sent   #ack     total       time     MB/sec    usec/xfer   Mxfers/sec\n\
                    8       10k     =10k     156k        0.12s      1.30        6.15       0.16\n";
        let score = ask(Peer::Libfabric, Workload::RoundTrip, text).unwrap();
        assert_eq!(score.round_trip_ns, Some(12_300.0));
        assert!(ask(Peer::Libfabric, Workload::RoundTrip, "bytes\n").is_err());
        let json = r#"{"end": {"sum_received": {"bits_per_second": 16e9}}}"#;
        let score = ask(Peer::Iperf, Workload::Bandwidth(4096), json).unwrap();
        assert_eq!(score.bandwidth[&4096], 2e9);
        assert!(ask(Peer::Iperf, Workload::Bandwidth(4096), "{}").is_err());
    }

    #[test]
    fn a_stream_of_tls_is_asked_for_each_size() {
        let questions = Peer::Tls.questions(Scope::Net);
        assert_eq!(questions.len(), crate::compare::sizes(Scope::Net).len());
        let command = questions[1].client(Path::new("tls_bench"), "10.0.0.1", 99);
        let words: Vec<_> = command.get_args().collect();
        assert_eq!(words, ["client", "10.0.0.1", "99", "65536"]);
        let score = questions[1].score("bandwidth 65536 1.5e9\n").unwrap();
        assert_eq!(score.bandwidth[&65536], 1.5e9);
        assert!(questions[1].score("no figures\n").is_err());
        assert!(ask(Peer::Tls, Workload::Rate, "").is_err());
    }

    #[test]
    fn long_messages_within_a_node_are_read_by_ucx_too() {
        let questions = Peer::Ucx.questions(Scope::Shm);
        let rings: Vec<_> = questions.iter().filter(|question| question.is_ring()).collect();
        assert_eq!(rings.len(), crate::compare::sizes(Scope::Shm).len());
        let command = rings[1].server(Path::new("ucx_ring"), "127.0.0.1", 99);
        let words: Vec<_> = command.get_args().collect();
        assert_eq!(words, ["server", "127.0.0.1", "99", "16384"]);
        let score = rings[1].score("ring 16384 7.5e9\n").unwrap();
        assert_eq!(score.ring_bandwidth[&16384], 7.5e9);
        assert!(rings[1].score("bandwidth 16384 1\n").is_err());
        assert!(!Peer::Ucx.questions(Scope::Net).iter().any(PeerFigure::is_ring));
    }

    #[test]
    fn a_peer_between_nodes_is_kept_off_shared_memory_and_told_the_address() {
        for question in Peer::Ucx.questions(Scope::Net) {
            let command = question.client(Path::new("ucx_perftest"), "10.0.0.1", 99);
            let variables: Vec<_> = command.get_envs().collect();
            assert_eq!(variables, [("UCX_TLS".as_ref(), Some("tcp".as_ref()))]);
            assert!(command.get_args().any(|a| a == "10.0.0.1"));
        }
        assert_eq!(Peer::Libfabric.questions(Scope::Net).len(), 1);
        assert!(Peer::Iperf.questions(Scope::Net).iter().all(|q| q.workload != Workload::Rate));
    }
}
