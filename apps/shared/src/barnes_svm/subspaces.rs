//! Building of the tree without locks: space is divided until no part has many bodies, each part is
//! assigned to one rank, and the subtrees that ranks make are merged (paper 003, Barnes-spatial).

use crate::barnes_svm::shared_octree::SharedOctree;
use anyhow::{Result, ensure};
use clump::svm::{Home, SharedArray, SharedMatrix, Svm};
use clump_app_frame::barnes::key::{CubeKey, MAX_LEVELS, key_of, octant};
use clump_app_frame::barnes::walk::{OctantChild, OctantWord, Octree};

/// Parts of space that each rank gets at least, if bodies are spread evenly.
const PARTS: usize = 16;

/// Memory in which ranks divide space.
#[derive(Debug)]
pub struct SpaceDivision {
    svm: Svm,
    /// Most bodies of a part.
    crowd: usize,
    /// Number of bodies of each rank in each octant of the cells that are divided.
    counts: SharedMatrix<u64>,
    /// All bodies, part by part.
    order: SharedArray<u64>,
}

/// A part of space whose subtree one rank makes.
#[derive(Debug)]
struct Subspace {
    /// The octant that it is, of a cell at the level before its own.
    parent: (usize, usize),
    level: usize,
    /// Bodies of each rank.
    counts: Vec<u64>,
}

impl Subspace {
    fn bodies(&self) -> usize {
        self.counts.iter().sum::<u64>() as usize
    }
}

/// Body of a rank, its key, and the cell or subspace that it has been followed to.
type Followed = (usize, CubeKey, usize);

impl SpaceDivision {
    /// Allocates memory for the division of so many bodies. A collective.
    ///
    /// # Errors
    /// Fails if the heap is full, or if a rank died or left.
    pub fn allocate(svm: &Svm, bodies: usize) -> clump::Result<Self> {
        let crowd = (bodies / (PARTS * svm.nranks())).max(1);
        // At each level, fewer cells than this hold more than a crowd.
        let columns = 8 * (bodies / crowd + 1);
        Ok(Self {
            svm: svm.clone(),
            crowd,
            counts: svm.matrix(svm.nranks(), columns, Home::Block)?,
            order: svm.array(bodies, Home::Block)?,
        })
    }

    /// Builds the tree of all bodies, of which this rank brings some. A collective, with barriers.
    ///
    /// # Errors
    /// Fails if two bodies are too close, if there are too many cells, or if a rank died.
    pub fn build(&self, tree: &mut SharedOctree, bodies: &[usize], side: f64) -> Result<()> {
        let bodies: Vec<_> =
            bodies.iter().map(|&body| (body, key_of(&tree.placed(body), side))).collect();
        let (parts, followed) = self.divide(tree, &bodies)?;
        let mut begin = 0;
        let mut begins = Vec::with_capacity(parts.len());
        for part in &parts {
            begins.push(begin);
            begin += part.bodies();
        }
        debug_assert_eq!(begin, self.order.len(), "every body is in a part");
        let rank = self.svm.rank();
        let before = |part: &Subspace| part.counts[..rank].iter().sum::<u64>() as usize;
        let mut next: Vec<_> =
            parts.iter().zip(&begins).map(|(part, begin)| begin + before(part)).collect();
        for (body, _, part) in followed {
            self.order.set(next[part], body as u64);
            next[part] += 1;
        }
        self.svm.barrier()?;
        let owner = |begin: usize| begin * self.svm.nranks() / self.order.len();
        for (part, &begin) in parts.iter().zip(&begins).filter(|(_, begin)| owner(**begin) == rank)
        {
            let mut bodies = vec![0; part.bodies()];
            self.order.read(begin, &mut bodies);
            let keyed = |body: &u64| (*body as usize, key_of(&tree.placed(*body as usize), side));
            let bodies: Vec<_> = bodies.iter().map(keyed).collect();
            let child = grow(tree, bodies, part.level)?;
            tree.set_octant(part.parent.0, part.parent.1, child);
        }
        Ok(self.svm.barrier()?)
    }

    /// Divides space; rank 0 makes the cells that are divided. All ranks return the same parts,
    /// and each its bodies with their parts.
    fn divide(
        &self,
        tree: &mut SharedOctree,
        bodies: &[(usize, CubeKey)],
    ) -> Result<(Vec<Subspace>, Vec<Followed>)> {
        let (rank, ranks) = (self.svm.rank(), self.svm.nranks());
        if rank == 0 {
            tree.make(0, &[0; 8])?;
        }
        let mut cells = vec![0];
        let mut made = 1;
        let (mut parts, mut arrived) = (Vec::new(), Vec::with_capacity(bodies.len()));
        let mut followed: Vec<Followed> =
            bodies.iter().map(|&(body, key)| (body, key, 0)).collect();
        let mut level = 0;
        while !cells.is_empty() {
            ensure!(level < MAX_LEVELS, "more than {} bodies are too close", self.crowd);
            let mut own = vec![0; 8 * cells.len()];
            let slot = |(_, key, at): &Followed| 8 * at + octant(key, level);
            followed.iter().for_each(|one| own[slot(one)] += 1);
            self.counts.elements().write(rank * self.counts.columns(), &own);
            self.svm.barrier()?;
            let mut all = vec![vec![0; own.len()]; ranks];
            for (of, row) in all.iter_mut().enumerate() {
                self.counts.elements().read(of * self.counts.columns(), row);
            }
            self.svm.barrier()?;
            // Where bodies of each octant go: to a cell of the next level, or to a part.
            let (mut next_cells, mut to) = (Vec::new(), vec![None; own.len()]);
            for at in 0..own.len() {
                let counts: Vec<u64> = all.iter().map(|row| row[at]).collect();
                let (sum, parent) = (counts.iter().sum::<u64>() as usize, (cells[at / 8], at % 8));
                if sum > self.crowd {
                    to[at] = Some((true, next_cells.len()));
                    next_cells.push(made);
                    if rank == 0 {
                        let cell = tree.make(level + 1, &[0; 8])?;
                        debug_assert_eq!(cell, made, "rank 0 makes cells in order");
                        tree.set_octant(parent.0, parent.1, OctantChild::Cell(cell));
                    }
                    made += 1;
                } else if sum > 0 {
                    to[at] = Some((false, parts.len()));
                    parts.push(Subspace { parent, level: level + 1, counts });
                }
            }
            let mut deeper = Vec::new();
            for one in &followed {
                match to[slot(one)] {
                    Some((true, cell)) => deeper.push((one.0, one.1, cell)),
                    Some((false, part)) => arrived.push((one.0, one.1, part)),
                    None => debug_assert!(false, "an octant with bodies goes somewhere"),
                }
            }
            (followed, cells, level) = (deeper, next_cells, level + 1);
        }
        Ok((parts, arrived))
    }
}

/// Makes the cells of some bodies, of which the largest is at `level`.
fn grow(
    tree: &mut SharedOctree,
    bodies: Vec<(usize, CubeKey)>,
    level: usize,
) -> Result<OctantChild> {
    if let [(body, _)] = bodies[..] {
        return Ok(OctantChild::Body(body));
    }
    ensure!(level < MAX_LEVELS, "{} bodies are too close", bodies.len());
    let mut parts: [Vec<(usize, CubeKey)>; 8] = Default::default();
    bodies.into_iter().for_each(|body| parts[octant(&body.1, level)].push(body));
    let mut octants: [OctantWord; 8] = [0; 8];
    for (word, part) in octants.iter_mut().zip(parts).filter(|(_, part)| !part.is_empty()) {
        *word = grow(tree, part, level + 1)?.word();
    }
    Ok(OctantChild::Cell(tree.make(level, &octants)?))
}
