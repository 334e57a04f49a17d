//! Attacks by paths between nodes that suddenly take only shorter packets, and longer ones again,
//! under load.

use super::errand::Errand;
use super::event::{Event, What, When};
use super::job::Job;
use super::place::AttackPlace;
use anyhow::Result;
use clump_test_tier::Sampler;

/// Bytes of an IP packet: the minimum that clump promises to get by with, which is that of IPv6;
/// usual tunnels and overlays; Ethernet.
const BYTES: &[u32] = &[1280, 1400, 1460, 1480, 1492, 1499, 1500];

/// Returns the reason why paths cannot be changed here.
pub fn missing(place: &AttackPlace) -> Option<String> {
    let tried = place.folder().and_then(|folder| {
        place.ask(&["run", "-n", "2", "--nodes", "2", "--netns", "true"], &folder)
    });
    match tried {
        Ok(Some(_)) => None,
        _ => Some(
            "nodes cannot have network namespaces here; root, or a kernel that gives every user \
             namespaces, would change that (`clump run -n 2 --nodes 2 --netns true` says more)"
                .to_owned(),
        ),
    }
}

/// Draws a job.
///
/// # Errors
/// Fails if the folder cannot be made.
pub fn draw(sampler: &mut Sampler, place: &AttackPlace) -> Result<Job> {
    let ranks = 2 + sampler.below(3);
    let more = sampler.one_of(&["", "", "--driver udp", "--driver packet", "--ni proxy:1"]);
    let errand = Errand::of(&format!(
        "run -n {ranks} --nodes 2 --netns {more} %prog talk 0 --ready %% --until %%/end"
    ));
    let mut job = errand.job(place)?;
    let work = job.folder.work();
    let step = |sampler: &mut Sampler| {
        (usize::try_from(sampler.below(2)).unwrap_or(0), sampler.one_of(BYTES))
    };
    let steps = (0..=sampler.below(3)).map(|_| step(sampler)).collect();
    let ready = (0..ranks).map(|rank| work.join(format!("ready-{rank}"))).collect();
    job.event = Some(Event {
        when: When::Ready(ready),
        what: What::Narrow { steps, then: work.join("end") },
    });
    Ok(job)
}
