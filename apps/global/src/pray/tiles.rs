//! Tiles of a picture: which rank traces each, and where its pixels are.

use crate::pray::TileBalance;
use crate::pray::spread_scene::SpreadScene;
use anyhow::{Context, Result};
use clump::pgas::{GlobalError, GlobalResult, Layout, Pgas, Spread, WorkCounts, WorkQueues};
use clump_app_frame::Lap;
use clump_app_frame::rays::scene_world::SceneWorld;
use clump_app_frame::rays::tracer::PixelWalk;
use clump_app_frame::rays::vector::pixel_word;
use clump_app_frame::rays::view::PictureFrame;

/// A picture in global memory, tile by tile: a block of tiles at each rank.
#[derive(Debug)]
pub struct PictureTiles {
    gas: Pgas,
    frame: PictureFrame,
    /// Pixels of a side of a tile.
    side: usize,
    /// Tiles of a rank, at most.
    per_rank: usize,
    pixels: Spread<u32>,
}

/// Tiles that a rank has traced.
#[derive(Debug, Clone, Copy, Default)]
pub struct TracedTiles {
    /// Seconds in which it traced.
    pub seconds: f64,
    /// Tiles, and those of them that were stolen.
    pub counts: WorkCounts,
}

/// The walk of a pixel of a scene in global memory.
type SpreadWalk<'a> = PixelWalk<SceneWorld<'a, SpreadScene>>;

impl PictureTiles {
    /// Allocates a picture in tiles of `side` times `side` pixels. A collective.
    ///
    /// # Errors
    /// Fails if memory has run out, or if a rank is lost.
    pub fn allocate(gas: &Pgas, frame: PictureFrame, side: usize) -> Result<Self> {
        let side = side.max(1);
        let (columns, rows) = frame.size();
        let per_rank = (columns.div_ceil(side) * rows.div_ceil(side)).div_ceil(gas.nranks());
        let pixels = gas.spread(per_rank * gas.nranks() * side * side, Layout::Block)?;
        Ok(Self { gas: gas.clone(), frame, side, per_rank, pixels })
    }

    fn across(&self) -> usize {
        self.frame.size().0.div_ceil(self.side)
    }

    fn count(&self) -> usize {
        self.across() * self.frame.size().1.div_ceil(self.side)
    }

    /// Returns the pixels of a tile, row by row, each with its place in the tile.
    fn places(&self, tile: usize) -> impl Iterator<Item = (usize, usize)> {
        let ((columns, rows), side) = (self.frame.size(), self.side);
        let (top, left) = (tile / self.across() * side, tile % self.across() * side);
        let inside = (0..side * side).map(move |at| (at, top + at / side, left + at % side));
        let inside = inside.filter(move |&(_, row, column)| row < rows && column < columns);
        inside.map(move |(at, row, column)| (at, row * columns + column))
    }

    /// Traces all tiles. A collective.
    ///
    /// # Errors
    /// Fails if a rank is lost.
    pub fn trace(
        &self,
        scene: &SpreadScene,
        depth: usize,
        balance: TileBalance,
    ) -> Result<TracedTiles> {
        let world = SceneWorld::new(scene.header(), scene);
        let (mut idle, mut seconds) = (Vec::new(), 0.0);
        let mut one = |tile: usize| -> GlobalResult<()> {
            let lap = Lap::begin();
            let pixels = self.trace_tile(tile, (&world, scene), &mut idle, depth)?;
            let place = self.pixels.ptr(tile * self.side * self.side);
            place.map_or(Ok(()), |place| self.gas.bulk_put(place, &pixels))?;
            seconds += lap.seconds();
            Ok(())
        };
        let first = self.gas.rank() * self.per_rank;
        let own = first.min(self.count())..(first + self.per_rank).min(self.count());
        let mut counts = WorkCounts { done: own.len() as u64, ..WorkCounts::default() };
        match balance {
            TileBalance::Blocks => own.into_iter().try_for_each(&mut one)?,
            TileBalance::Steal => {
                let queues = WorkQueues::create(&self.gas, self.per_rank)?;
                // The last that was added is taken first.
                let tiles: Vec<u64> = own.rev().map(|tile| tile as u64).collect();
                queues.push_all(&tiles)?;
                queues.run(|_, tile| one(tile as usize))?;
                counts = queues.counts();
            }
        }
        self.gas.sync()?;
        self.gas.barrier()?;
        Ok(TracedTiles { seconds, counts })
    }

    /// Returns the pixels of a tile. All of them are traced at a time: what their rays miss is
    /// fetched together.
    fn trace_tile<'a>(
        &self,
        tile: usize,
        (world, scene): (&SceneWorld<'a, SpreadScene>, &SpreadScene),
        idle: &mut Vec<SpreadWalk<'a>>,
        depth: usize,
    ) -> Result<Vec<u32>, GlobalError> {
        let mut pixels = vec![0; self.side * self.side];
        let mut open = Vec::new();
        for (at, pixel) in self.places(tile) {
            let mut walk = idle.pop().unwrap_or_else(|| PixelWalk::new(depth));
            walk.begin(self.frame.ray(pixel));
            match walk.advance(world)? {
                Some(light) => {
                    pixels[at] = pixel_word(light);
                    idle.push(walk);
                }
                None => open.push((at, walk)),
            }
        }
        while !open.is_empty() {
            scene.fetch()?;
            let mut left = Vec::new();
            for (at, mut walk) in open {
                match walk.advance(world)? {
                    Some(light) => {
                        pixels[at] = pixel_word(light);
                        idle.push(walk);
                    }
                    None => left.push((at, walk)),
                }
            }
            open = left;
        }
        Ok(pixels)
    }

    /// Returns all pixels, row by row, at rank 0, and none at others. All tiles have been traced.
    ///
    /// # Errors
    /// Fails if a rank is lost.
    pub fn collect(&self) -> Result<Option<Vec<u32>>> {
        if self.gas.rank() > 0 {
            return Ok(None);
        }
        let (columns, rows) = self.frame.size();
        let (mut picture, each) = (vec![0; columns * rows], self.side * self.side);
        for rank in 0..self.gas.nranks() {
            let mut part = vec![0; self.per_rank * each];
            self.gas.bulk_get(self.pixels.on(rank).context("a part of each rank")?, &mut part)?;
            for (slot, tile) in part.chunks_exact(each).enumerate() {
                let tile_number = rank * self.per_rank + slot;
                if tile_number < self.count() {
                    self.places(tile_number).for_each(|(at, pixel)| picture[pixel] = tile[at]);
                }
            }
        }
        Ok(Some(picture))
    }
}
