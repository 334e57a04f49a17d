//! Values by stores: an inspector finds the nodes of other ranks that this one needs, and notifies
//! their owners, which store each new value into the copies of all ranks that need it.

use crate::em3d::blocks::BlockMap;
use crate::em3d::graph::{FIELDS, Field, Graph};
use crate::traffic::Traffic;
use anyhow::Result;
use clump::Clump;
use clump::pgas::{Layout, Pgas, Spread};
use std::collections::BTreeMap;

/// A value to be sent to a rank: the number of the node here, and the place of its copy.
#[derive(Debug, Clone, Copy)]
struct PushedValue {
    node: u32,
    rank: u32,
    copy: u32,
}

/// One rank's view of one field.
#[derive(Debug)]
struct FieldPart {
    /// Values of this rank's nodes, and behind them copies of other ranks' nodes.
    values: Vec<f64>,
    /// Copies at all ranks.
    copies: Spread<f64>,
    /// Values that others need.
    pushed: Vec<PushedValue>,
    /// Edges of this rank's nodes: places in the values of the other field, and weights.
    edges: Vec<(u32, f64)>,
}

/// The part of a rank.
#[derive(Debug)]
pub struct StoreWaves {
    parts: [FieldPart; 2],
    degree: usize,
    own: usize,
}

/// Nodes of one field that this rank needs of others: for each owner, in order of numbers, with
/// the place of the copy.
type Needed = BTreeMap<(usize, usize), u32>;

impl StoreWaves {
    /// Makes this rank's part of the graph: the inspector. A collective.
    ///
    /// # Errors
    /// Fails if memory has run out, or if a rank is lost.
    pub fn new(cl: &Clump, gas: &Pgas, graph: &Graph, map: &BlockMap) -> Result<Self> {
        let block = map.block(cl.rank());
        let mut parts = Vec::new();
        for field in FIELDS {
            // Copies of this field's nodes are for edges of the other field's.
            let other = if field == Field::Electric { Field::Magnetic } else { Field::Electric };
            let needed = needed(graph, map, other, block);
            let (copies, pushed) = agree(cl, gas, &needed)?;
            let own = graph.part(block).map(|node| graph.first_value(field, node));
            let mut values: Vec<f64> = own.collect();
            let begin = values.len();
            values.resize(begin + needed.len(), 0.0);
            let first = graph.part(block).start;
            let pushed = pushed.into_iter();
            let pushed =
                pushed.map(|it| PushedValue { node: it.node - first as u32, ..it }).collect();
            parts.push((FieldPart { values, copies, pushed, edges: Vec::new() }, needed));
        }
        let own = graph.part(block).len();
        let place = |needed: &Needed, of: usize, node: usize| {
            if of == block {
                return (node - graph.part(block).start) as u32;
            }
            let copy = needed.get(&(map.rank(of), node)).copied();
            debug_assert!(copy.is_some(), "the inspector has seen every edge");
            own as u32 + copy.unwrap_or(0)
        };
        let edges = FIELDS.map(|field| {
            let needed = &parts[1 - field as usize].1;
            let of_node =
                |node| (0..graph.degree()).map(move |n| graph.edge(field, block, node, n));
            let edges = graph.part(block).flat_map(of_node);
            edges.map(|edge| (place(needed, edge.block, edge.node), edge.weight)).collect()
        });
        let mut parts = parts.into_iter().map(|(part, _)| part).zip(edges);
        let mut next = || parts.next().map(|(part, edges)| FieldPart { edges, ..part });
        let both = next().zip(next()).map(<[FieldPart; 2]>::from);
        let parts = both.ok_or_else(|| anyhow::anyhow!("there are two fields"))?;
        Ok(Self { parts, degree: graph.degree(), own })
    }

    /// Makes steps. A collective.
    ///
    /// # Errors
    /// Fails if a rank is lost.
    pub fn advance(&mut self, steps: u64, traffic: &mut Traffic) -> Result<()> {
        for step in 0..steps * 2 {
            let side = step as usize % 2;
            self.exchange(1 - side, traffic)?;
            let [electric, magnetic] = &mut self.parts;
            let (to, from) =
                if side == 0 { (electric, &*magnetic) } else { (magnetic, &*electric) };
            let edges = to.edges.chunks(self.degree);
            for (value, edges) in to.values[..self.own].iter_mut().zip(edges) {
                for &(place, weight) in edges {
                    *value -= weight * from.values[place as usize];
                }
            }
        }
        Ok(())
    }

    /// Stores the values of a field where others need them, and takes those of others.
    fn exchange(&mut self, side: usize, traffic: &mut Traffic) -> Result<()> {
        let FieldPart { values, copies, pushed, .. } = &mut self.parts[side];
        let longest = copies.len() / copies.pgas().nranks();
        for &PushedValue { node, rank, copy } in &*pushed {
            copies.at(rank as usize * longest + copy as usize).store(values[node as usize])?;
            traffic.writes(rank as usize, 1, 8);
        }
        copies.pgas().all_store_sync()?;
        let local = copies.local();
        for (place, value) in values[self.own..].iter_mut().enumerate() {
            *value = local.get(place)?;
        }
        Ok(())
    }

    /// Returns the values of this rank's nodes, by field.
    pub fn values(&self) -> [&[f64]; 2] {
        [&self.parts[0].values[..self.own], &self.parts[1].values[..self.own]]
    }
}

/// Finds the nodes of other ranks that have edges from nodes of `field` here.
fn needed(graph: &Graph, map: &BlockMap, field: Field, block: usize) -> Needed {
    let mut needed = Needed::new();
    for node in graph.part(block) {
        for n in 0..graph.degree() {
            let edge = graph.edge(field, block, node, n);
            if edge.block != block {
                needed.insert((map.rank(edge.block), edge.node), 0);
            }
        }
    }
    (0..).zip(needed.values_mut()).for_each(|(place, copy)| *copy = place);
    needed
}

/// Sends owners the list of nodes that this rank needs, and spreads the copies. Returns also the
/// nodes that others need, with numbers among all.
fn agree(cl: &Clump, gas: &Pgas, needed: &Needed) -> Result<(Spread<f64>, Vec<PushedValue>)> {
    let mut asked = vec![Vec::new(); cl.nranks()];
    for (&(owner, node), &copy) in needed {
        asked[owner].extend_from_slice(&(node as u32).to_le_bytes());
        asked[owner].extend_from_slice(&copy.to_le_bytes());
    }
    let given = cl.all_to_all_bytes(&asked)?;
    let number = |bytes: &[u8]| bytes.try_into().map_or(0, u32::from_le_bytes);
    let mut pushed = Vec::new();
    for (rank, bytes) in (0..).zip(&given) {
        pushed.extend(bytes.chunks_exact(8).map(|pair| {
            let (node, copy) = pair.split_at(4);
            PushedValue { node: number(node), rank, copy: number(copy) }
        }));
    }
    let longest = cl.all_reduce(needed.len() as u64, clump::Max)? as usize;
    Ok((gas.spread(longest * cl.nranks(), Layout::Block)?, pushed))
}
