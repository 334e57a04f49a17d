//! `clump lab flood`: the loss of throughput of a job between two nodes under a flood of an
//! attacker's packets.
//!
//! Slices of one job take turns: without an attacker; with an attacker that sends as many packets
//! to a socket outside the job, which shows the cost of its own work to the machine; with an
//! attacker that sends to the receiving rank. [`live`] has the ranks' side, [`attack`] the
//! attacker. Besides, [`price`] measures the cost of a packet of each kind
//! to a stack, for any sender.

pub mod attack;
pub mod live;
pub mod price;

use crate::contrast::Contrast;
use crate::schema::{FigureRole, InstrumentReport, ReportColumn, ReportTable, plain};
use anyhow::{Context, Result, ensure};
use price::Price;
use serde::{Deserialize, Serialize};

/// Share of throughput that has to remain.
const GOAL: f64 = 0.9;
/// Share of a processor that the rank under attack may spend on discarding packets.
const DEAREST: f64 = 0.1;
/// Share of the requested packets that the attacker must have sent.
const STRONG_ENOUGH: f64 = 0.9;

/// Target of the attacker's packets in a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FloodTarget {
    /// No target: it sleeps.
    Nobody,
    /// A socket that is no part of the job.
    Bystander,
    /// The rank that receives.
    Job,
}

/// One slice of each, per second: no attack, a bystander attacked, the job attacked.
pub type Turn = [f64; 3];

/// Output of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FloodedJob {
    /// Bytes per second of 64 KiB messages.
    pub bytes: Vec<Turn>,
    /// Messages of one word.
    pub messages: Vec<Turn>,
    /// Packets per second that the attacker sent while it was active.
    pub rate: f64,
    /// Packets that it sent to the job.
    pub sent: u64,
    /// Packets that the ranks discarded.
    pub thrown: u64,
}

/// One measure of throughput.
#[derive(Debug, Serialize)]
pub struct Throughput {
    /// Job attacked, against no attack.
    pub attacked: Contrast,
    /// Bystander attacked, against no attack: the cost of the attacker's own work to the machine.
    pub machine: Contrast,
    /// Job attacked, against a bystander attacked: the cost of packets to the job that has to check
    /// them.
    pub packets: Contrast,
}

impl Throughput {
    fn of(turns: &[Turn]) -> Result<Self> {
        let of = |pair: fn(&Turn) -> (f64, f64)| {
            let pairs: Vec<_> = turns.iter().map(pair).collect();
            Contrast::of(&pairs).context("no turns were played")
        };
        Ok(Self {
            attacked: of(|&[alone, _, attacked]| (attacked, alone))?,
            machine: of(|&[alone, beside, _]| (beside, alone))?,
            packets: of(|&[_, beside, attacked]| (attacked, beside))?,
        })
    }
}

/// The whole report.
#[derive(Debug, Serialize)]
pub struct FloodReport {
    /// Protection of packets.
    pub security: &'static str,
    /// Packets per second of the attacker.
    pub rate: f64,
    /// Packets sent to the job.
    pub sent: u64,
    /// Packets that its ranks discarded.
    pub thrown: u64,
    /// 64 KiB messages, bytes per second.
    pub bytes: Throughput,
    /// Messages of one word, per second.
    pub messages: Throughput,
    /// Cost of a packet to the rank that discards it, by kind.
    pub prices: Vec<Price>,
    /// Share of a processor that all of them cost it, if each arrives alone and all kinds are
    /// equally frequent.
    pub processor: f64,
}

impl FloodReport {
    /// Builds the report from the job's output, with an attacker that was to send `wanted` packets
    /// per second.
    ///
    /// # Errors
    /// Fails if the attacker was too slow, if no packet was discarded, or without turns.
    pub fn of(
        security: &'static str,
        wanted: u32,
        said: &FloodedJob,
        prices: Vec<Price>,
    ) -> Result<Self> {
        let FloodedJob { rate, sent, thrown, .. } = *said;
        ensure!(
            rate >= STRONG_ENOUGH * f64::from(wanted),
            "the attacker sent {rate:.0} packets per second, not {wanted}: this machine is too busy"
        );
        ensure!(thrown > 0, "of {sent} packets none was discarded: the attack did not arrive");
        let (bytes, messages) = (Throughput::of(&said.bytes)?, Throughput::of(&said.messages)?);
        let kinds = u32::try_from(prices.len()).unwrap_or(u32::MAX).max(1);
        let mean = prices.iter().map(|price| price.alone_ns).sum::<f64>() / f64::from(kinds);
        let processor = mean * f64::from(wanted) / 1e9;
        Ok(Self { security, rate, sent, thrown, bytes, messages, prices, processor })
    }
}

impl FloodReport {
    /// Returns the report in the form that all instruments have.
    ///
    /// # Errors
    /// Fails if it has no JSON form.
    pub fn report(&self) -> Result<InstrumentReport> {
        let mut columns = ["left alone", "beside it", "attacked"].map(ReportColumn::ours).to_vec();
        columns[0].role = FigureRole::Baseline;
        columns.extend(["of alone", "of beside"].map(ReportColumn::ratio));
        let mut table = ReportTable::new("throughput", columns);
        let rows = [("64 KiB", "MB/s", &self.bytes), ("one word", "M/s", &self.messages)];
        for (name, unit, Throughput { attacked, machine, packets }) in rows {
            let medians = [attacked.baseline, machine.ours, attacked.ours];
            let ratios = [attacked.ratio, packets.ratio];
            let figures = medians.map(|median| median.scaled(1e-6, 0.0)).into_iter().chain(ratios);
            let row = table.row(name, (unit, 2), figures.map(|m| Some(m.into())).collect());
            for ratio in ratios {
                row.goal(format!(">= {GOAL}"), ratio.value >= GOAL);
            }
        }
        table.notes = vec![
            format!("{} packets sent to the job, {} discarded by it", self.sent, self.thrown),
            "of them: noise, truncated, of another job, of another incarnation, forged".into(),
            "beside it: as many packets to a socket outside the job, which is the attacker's own work"
                .into(),
        ];
        let columns = ["alone", "in a crowd", "the kernel's, alone"].map(ReportColumn::ours);
        let mut prices = ReportTable::new("a packet discarded", columns.into());
        for Price { name, alone_ns, crowd_ns, kernel_ns } in &self.prices {
            prices.row(*name, ("ns", 0), plain([*alone_ns, *crowd_ns, *kernel_ns]));
        }
        let share = ReportColumn::ours("each packet alone");
        let mut processor = ReportTable::new("share of a processor", vec![share]);
        processor
            .row("all kinds", ("%", 1), plain([self.processor * 100.0]))
            .goal(format!("<= {:.0} %", DEAREST * 100.0), self.processor <= DEAREST);
        let title = "a job on two nodes under an attacker's flood".into();
        let mut report = InstrumentReport::new("flood", title, self)?
            .with("security", self.security)
            .with("packets/s", format!("{:.0}", self.rate));
        report.tables = vec![table, prices, processor];
        Ok(report)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(rate: f64, thrown: u64) -> FloodedJob {
        let turns = vec![[2e9, 1.8e9, 1.7e9]; 7];
        FloodedJob { bytes: turns, messages: vec![[5e6, 5e6, 4e6]; 7], rate, sent: 1000, thrown }
    }

    #[test]
    fn an_attack_that_did_not_take_place_is_not_believed() {
        assert!(FloodReport::of("aead", 50_000, &said(40_000.0, 1000), vec![]).is_err());
        assert!(FloodReport::of("aead", 50_000, &said(50_000.0, 0), vec![]).is_err());
        let nothing = FloodedJob { bytes: Vec::new(), ..said(50_000.0, 1000) };
        assert!(FloodReport::of("aead", 50_000, &nothing, vec![]).is_err());
    }

    #[test]
    fn the_report_fits_and_says_what_was_met() {
        let price =
            |alone_ns| Price { name: "forged", alone_ns, crowd_ns: 300.0, kernel_ns: 900.0 };
        let prices = vec![price(1000.0), price(2000.0)];
        let report = FloodReport::of("aead", 50_000, &said(50_000.0, 990), prices).unwrap();
        assert!((report.processor - 0.075).abs() < 1e-9);
        assert!((report.bytes.attacked.ratio.value - 0.85).abs() < 1e-9);
        assert!((report.bytes.machine.ratio.value - 0.9).abs() < 1e-9);
        let text = crate::render::text(&report.report().unwrap());
        assert!(text.lines().all(|l| l.chars().count() <= 100), "{text}");
        assert_eq!(
            (text.matches(" missed").count(), text.matches(" met").count()),
            (3, 2),
            "{text}"
        );
    }
}
