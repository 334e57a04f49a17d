//! Cost zones: the bodies of a rank, found by going down the tree level by level.

use crate::barnes::global_octree::GlobalOctree;
use anyhow::Result;
use clump::pgas::CostZones;
use clump_app_frame::barnes::moments::CELL_COST;
use clump_app_frame::barnes::walk::OctantChild;
use std::ops::Range;

/// Part of the tree that has bodies of a zone.
#[derive(Debug, Clone, Copy)]
enum ZonePart {
    Body(usize),
    /// A cell of which all bodies are in the zone.
    Whole(usize),
    /// A cell, and the costs of all bodies before it.
    Divided(usize, u64),
}

/// Returns the bodies whose costs, added up in the order of the tree, begin in this rank's share of
/// the cost of all, in that order.
///
/// # Errors
/// Fails if a rank is lost.
pub fn own_zone(tree: &GlobalOctree, rank: usize, ranks: usize) -> Result<Vec<usize>> {
    let root = tree.moments_of(&[OctantChild::Cell(0)])?;
    let all = root.first().map_or(0, |root| root[CELL_COST] as u64);
    let zone = CostZones::new(all, ranks).zone(rank);
    let mut parts = Vec::new();
    admit((OctantChild::Cell(0), 0, all), &zone, &mut parts);
    loop {
        let cell = |part: &ZonePart| match *part {
            ZonePart::Body(_) => None,
            ZonePart::Whole(cell) | ZonePart::Divided(cell, _) => Some(cell),
        };
        let cells: Vec<usize> = parts.iter().filter_map(cell).collect();
        if cells.is_empty() {
            let bodies = parts.iter().filter_map(|part| match *part {
                ZonePart::Body(body) => Some(body),
                ZonePart::Whole(_) | ZonePart::Divided(..) => None,
            });
            return Ok(bodies.collect());
        }
        let mut octants = tree.octants_of(&cells)?.into_iter();
        let divided: Vec<OctantChild> = {
            let together = parts.iter().filter(|part| cell(part).is_some()).zip(octants.as_slice());
            let divided = together.filter(|(part, _)| matches!(part, ZonePart::Divided(..)));
            divided.flat_map(|(_, octants)| octants.map(OctantChild::of)).flatten().collect()
        };
        let mut sums = tree.moments_of(&divided)?.into_iter();
        let mut deeper = Vec::new();
        for mut part in parts {
            if let ZonePart::Body(_) = part {
                deeper.push(part);
                continue;
            }
            let children = octants.next().unwrap_or_default().map(OctantChild::of);
            for child in children.into_iter().flatten() {
                match (&mut part, child) {
                    (ZonePart::Divided(_, before), child) => {
                        let cost = sums.next().map_or(0, |sum| sum[CELL_COST] as u64);
                        admit((child, *before, cost), &zone, &mut deeper);
                        *before += cost;
                    }
                    (_, OctantChild::Body(body)) => deeper.push(ZonePart::Body(body)),
                    (_, OctantChild::Cell(cell)) => deeper.push(ZonePart::Whole(cell)),
                }
            }
        }
        parts = deeper;
    }
}

/// Adds part of a cell, if bodies of the zone are in it.
fn admit(
    (child, before, cost): (OctantChild, u64, u64),
    zone: &Range<u64>,
    parts: &mut Vec<ZonePart>,
) {
    let end = before + cost;
    match child {
        OctantChild::Body(body) if zone.contains(&before) => parts.push(ZonePart::Body(body)),
        OctantChild::Cell(cell) if zone.start <= before && end <= zone.end => {
            parts.push(ZonePart::Whole(cell));
        }
        OctantChild::Cell(cell) if before < zone.end && end > zone.start => {
            parts.push(ZonePart::Divided(cell, before));
        }
        _ => {}
    }
}
