//! The machine of each process of an engine, and its rank in the job. Pure.

use crate::card::Card;

/// All processes of an engine's job, by machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Roster {
    /// The engine's numbers of the processes of each machine, ascending.
    nodes: Vec<Vec<u32>>,
}

impl Roster {
    /// Makes it of the cards of all processes, in the engine's order. Machines come in the order of
    /// their lowest process; so process 0 is rank 0, and where the engine has filled one machine
    /// after the other, each process is the rank that it has at the engine.
    pub fn of(cards: &[Card]) -> Self {
        let mut nodes: Vec<(&str, Vec<u32>)> = Vec::new();
        for (number, card) in (0..).zip(cards) {
            match nodes.iter_mut().find(|(machine, _)| *machine == card.machine) {
                Some((_, members)) => members.push(number),
                None => nodes.push((&card.machine, vec![number])),
            }
        }
        let nodes: Vec<Vec<u32>> = nodes.into_iter().map(|(_, members)| members).collect();
        debug_assert_eq!(nodes.iter().map(Vec::len).sum::<usize>(), cards.len(), "all are there");
        Self { nodes }
    }

    /// Divides the processes of one machine into `count` virtual nodes, as evenly as possible, the
    /// first ones one larger; several machines stay as they are.
    pub fn divided(self, count: usize) -> Self {
        let [all] = &self.nodes[..] else { return self };
        let count = count.clamp(1, all.len().max(1));
        let (each, more) = (all.len() / count, all.len() % count);
        let mut rest = &all[..];
        let take = |node: usize| {
            let (these, others) = rest.split_at((each + usize::from(node < more)).min(rest.len()));
            rest = others;
            these.to_vec()
        };
        let nodes = (0..count).map(take).collect();
        debug_assert!(rest.is_empty(), "each is on a node");
        Self { nodes }
    }

    /// Returns the machines, each as the engine's numbers of its processes.
    pub fn nodes(&self) -> &[Vec<u32>] {
        &self.nodes
    }

    /// Returns the node of process `number`, and its rank in the job.
    pub fn place_of(&self, number: u32) -> Option<(usize, u32)> {
        let node = self.nodes.iter().position(|members| members.contains(&number))?;
        let before: usize = self.nodes.iter().take(node).map(Vec::len).sum();
        let within = self.nodes.get(node)?.iter().position(|&one| one == number)?;
        debug_assert!(within < self.nodes[node].len(), "it is one of them");
        Some((node, u32::try_from(before + within).ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cards(machines: &str) -> Vec<Card> {
        let card = |machine: char| Card {
            machine: machine.to_string(),
            host: "same".into(),
            listener: String::new(),
        };
        machines.chars().map(card).collect()
    }

    #[test]
    fn blocks_keep_the_engines_numbers() {
        let roster = Roster::of(&cards("aabbb"));
        assert_eq!(roster.nodes(), [vec![0, 1], vec![2, 3, 4]]);
        let places: Vec<_> = (0..5).filter_map(|number| roster.place_of(number)).collect();
        assert_eq!(places, [(0, 0), (0, 1), (1, 2), (1, 3), (1, 4)]);
        assert_eq!(roster.place_of(5), None);
    }

    #[test]
    fn one_machine_is_divided_and_several_are_not() {
        let divided = |machines: &str, count| Roster::of(&cards(machines)).divided(count);
        assert_eq!(divided("aaaaa", 2).nodes(), [vec![0, 1, 2], vec![3, 4]]);
        assert_eq!(divided("aa", 5).nodes(), [vec![0], vec![1]]);
        assert_eq!(divided("aab", 3).nodes(), [vec![0, 1], vec![2]]);
    }

    #[test]
    fn round_robin_is_numbered_by_machine() {
        let roster = Roster::of(&cards("abab"));
        let places: Vec<_> = (0..4).filter_map(|number| roster.place_of(number)).collect();
        assert_eq!(places, [(0, 0), (1, 2), (0, 1), (1, 3)]);
    }
}
