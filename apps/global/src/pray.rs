//! Pictures of scenes in global memory, traced ray by ray (the application P-Ray of paper 001).
//!
//! A program (`clump app pray`) mounts [`command`]. Rank 0 reads or makes a scene; its objects and
//! the nodes of its octree are spread over all ranks, one by one ([`spread_scene`]), and read by
//! way of a cache that holds less than the scene, with those that were read last in front
//! ([`held_elements`]). Ranks trace tiles of the picture, dealt out or stolen ([`tiles`]);
//! many pixels at a time, so that what their rays miss is fetched together.
//! [`reads`] has which objects other ranks read most, and draws it. The tracer, and what it does to
//! objects, is `clump_app_frame::rays`, with its invariants.
//!
//! Main types: [`command::PrayArgs`], [`spread_scene::SpreadScene`], [`tiles::PictureTiles`].
//!
//! # Invariants
//! 1. A scene does not change once it is spread, so the cache is never emptied.
//! 2. Rank 0 alone reads files: what is wrong with one ends the run at all ranks.

pub mod command;
pub mod held_elements;
pub mod reads;
pub mod spread_scene;
pub mod tiles;

use clap::ValueEnum;

/// Manner in which tiles are divided among ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TileBalance {
    /// A block of tiles for each rank
    Blocks,
    /// A block of tiles for each rank, and a rank that has traced its own steals from others
    Steal,
}

impl TileBalance {
    /// Returns the name that the command line has for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Blocks => "blocks",
            Self::Steal => "steal",
        }
    }
}
