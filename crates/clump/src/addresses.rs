//! Memory and endpoints of all ranks, which they name to each other.

use crate::runtime::Clump;
use crate::{Error, Result};
use clump_am::{Dest, Endpoint, Name, Ownership, Tag};
use clump_rma::{Rma, Segment, SegmentName, Target};

impl Clump {
    /// Exports `bytes` bytes of zeroed memory on each rank; returns this rank's segment, and all
    /// ranks' targets, by rank.
    ///
    /// # Errors
    /// Fails if memory has run out, at all ranks if one has not enough; or if a rank died or left.
    pub fn allocate(&self, rma: &Rma, bytes: u64) -> Result<(Segment, Vec<Target>)> {
        let mine = rma.export(bytes);
        // A rank without memory says so: the others do not wait for it.
        let names = self.all_gather(mine.as_ref().map_or(0, |mine| mine.name().to_bits()))?;
        let mine = mine?;
        if let Some(rank) = names.iter().position(|&name| name == 0) {
            return Err(Error::NoMemoryAt { rank });
        }
        let open = |name| rma.target(SegmentName::from_bits(name));
        let all: clump_rma::Result<_> = names.into_iter().map(open).collect();
        Ok((mine, all?))
    }

    /// Maps the endpoints of all ranks into the translation table of `endpoint`; returns the
    /// destinations by rank. A collective: each rank passes one endpoint, and gives the right to
    /// send to it to all ranks of the job.
    ///
    /// # Errors
    /// Fails if a rank died or left, if memory cannot be mapped, and inside one of the endpoint's
    /// handlers.
    pub fn map_ranks<H: Ownership>(&self, endpoint: &Endpoint<H>) -> Result<Vec<Dest>> {
        let tag = endpoint.tag();
        let mine = tag.as_ref().map_or([0; 2], |tag| [endpoint.name().to_bits(), tag.0]);
        let all = self.all_gather(mine)?;
        tag?;
        if let Some(rank) = all.iter().position(|&[name, _]| name == 0) {
            return Err(Error::RankFailed { rank });
        }
        let dests: clump_am::Result<_> = all
            .into_iter()
            .map(|[name, tag]| endpoint.map(&Name::from_bits(name), Tag(tag)))
            .collect();
        Ok(dests?)
    }
}
