//! A step of Slurm, as its variables describe it to a task: enough for a job without a store of
//! keys. Pure.

use crate::card::Card;
use crate::slurm_lists::{counts, names};

/// Variables of a task: its process, its allocation, its step, its machine there, and its number on
/// that machine.
const TASK: &str = "SLURM_TASK_PID";
const JOB: &str = "SLURM_JOB_ID";
const STEP: &str = "SLURM_STEP_ID";
const NODE: &str = "SLURM_NODEID";
const LOCAL: &str = "SLURM_LOCALID";
/// Variables of its step: the number of tasks, the machines, and the tasks of each.
const TASKS: &str = "SLURM_STEP_NUM_TASKS";
const NODES: &str = "SLURM_STEP_NODELIST";
const EACH: &str = "SLURM_STEP_TASKS_PER_NODE";

/// Most tasks of a step.
const MAX_TASKS: u32 = 1 << 20;

/// A step, and the place of one of its tasks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlurmStep {
    /// Number of the allocation, and of the step within it.
    number: (u32, u32),
    /// Name and tasks of each machine.
    nodes: Vec<(String, u32)>,
    /// The task's machine, and its number there.
    place: (usize, u32),
}

impl SlurmStep {
    /// Returns the step that these variables tell of, if it has several tasks and this process is
    /// one of them: `is_task` tells that of the process that Slurm has started. Programs that a
    /// task starts have its variables too.
    ///
    /// # Errors
    /// The reason why the variables are not understood.
    pub fn of(
        variable: impl Fn(&str) -> Option<String>,
        is_task: impl Fn(u32) -> bool,
    ) -> Option<Result<Self, String>> {
        let number = |name: &str| variable(name)?.trim().parse::<u32>().ok();
        let (task, tasks) = (number(TASK)?, number(TASKS)?);
        (tasks > 1 && is_task(task)).then(|| Self::read(tasks, variable))
    }

    fn read(tasks: u32, variable: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let text = |name: &str| variable(name).ok_or_else(|| format!("{name} is not set"));
        let number = |name: &str| -> Result<u32, String> {
            let value = text(name)?;
            value.trim().parse().map_err(|_| format!("{name} is `{value}`, no number"))
        };
        if tasks > MAX_TASKS {
            return Err(format!("{TASKS} is {tasks}, more than {MAX_TASKS}"));
        }
        let (list, each) = (text(NODES)?, text(EACH)?);
        let machines = names(&list).ok_or_else(|| format!("{NODES} is `{list}`, no list"))?;
        let sums = |all: &Vec<u32>| all.iter().map(|&one| u64::from(one)).sum::<u64>();
        let counts = counts(&each)
            .filter(|all| all.len() == machines.len() && sums(all) == u64::from(tasks))
            .ok_or_else(|| format!("{EACH} is `{each}`, not {tasks} tasks on `{list}`"))?;
        let nodes: Vec<(String, u32)> = machines.into_iter().zip(counts).collect();
        let (node, local) = (number(NODE)?, number(LOCAL)?);
        let at = usize::try_from(node).unwrap_or(usize::MAX);
        if nodes.get(at).is_none_or(|(_, count)| local >= *count) {
            return Err(format!("{NODE} is {node} and {LOCAL} is {local}: no task of `{each}`"));
        }
        Ok(Self { number: (number(JOB)?, number(STEP)?), nodes, place: (at, local) })
    }

    /// Returns the number of tasks.
    pub fn size(&self) -> u32 {
        self.nodes.iter().map(|(_, count)| count).sum()
    }

    /// Returns the rank of this process: tasks are counted machine by machine.
    pub fn rank(&self) -> u32 {
        let (node, local) = self.place;
        let before: u32 = self.nodes.iter().take(node).map(|(_, count)| count).sum();
        debug_assert!(before + local < self.size(), "one of them");
        before + local
    }

    /// Returns the cards of all tasks, in the order of their ranks. A listener's name is known to
    /// everybody; callers and listeners check each other's user.
    pub fn cards(&self) -> Vec<Card> {
        let (job, step) = self.number;
        let tasks = self.nodes.iter().flat_map(|(name, count)| (0..*count).map(move |_| name));
        let card = |(rank, name): (u32, &String)| Card {
            machine: name.clone(),
            host: name.clone(),
            listener: format!("clump-slurm-{job}.{step}-{rank}"),
        };
        let cards: Vec<Card> = (0..).zip(tasks).map(card).collect();
        debug_assert_eq!(cards.len(), self.size() as usize, "one each");
        cards
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::roster::Roster;
    use proptest::prelude::*;

    const STEP_OF_FIVE: [(&str, &str); 8] = [
        (TASK, "70"),
        (TASKS, "5"),
        (NODES, "n[1-2]"),
        (EACH, "3,2"),
        (JOB, "9"),
        (STEP, "0"),
        (NODE, "1"),
        (LOCAL, "1"),
    ];

    fn of(all: &[(&str, &str)], pid: u32) -> Option<Result<SlurmStep, String>> {
        let known = |name: &str| Some(all.iter().find(|(one, _)| *one == name)?.1.to_owned());
        SlurmStep::of(known, |task| task == pid)
    }

    #[test]
    fn a_task_knows_its_rank_and_all_cards() {
        let step = of(&STEP_OF_FIVE, 70).unwrap().unwrap();
        assert_eq!((step.rank(), step.size()), (4, 5));
        let cards = step.cards();
        assert_eq!(Roster::of(&cards).nodes(), [vec![0, 1, 2], vec![3, 4]]);
        assert_eq!(cards[3].host, "n2");
        let mut names: Vec<&str> = cards.iter().map(|card| card.listener.as_str()).collect();
        names.dedup();
        assert_eq!(names.len(), 5, "each rank may have to lead a node");
    }

    #[test]
    fn what_a_task_starts_is_no_task_of_it() {
        assert_eq!(of(&STEP_OF_FIVE, 71), None, "another process");
        let mut one = STEP_OF_FIVE;
        (one[1], one[2], one[3], one[6]) = ((TASKS, "1"), (NODES, "n1"), (EACH, "1"), (NODE, "0"));
        assert_eq!(of(&one, 70), None, "a task alone is a job of its own");
        assert_eq!(of(&[], 70), None);
    }

    #[test]
    fn what_is_not_understood_is_named() {
        for (at, value) in
            [(1, "2000000"), (2, "n["), (3, "3"), (3, "3,3"), (4, "x"), (6, "2"), (7, "2")]
        {
            let mut some = STEP_OF_FIVE;
            some[at].1 = value;
            let why = of(&some, 70).unwrap().unwrap_err();
            assert!(why.contains(some[at].0), "{why}");
        }
        for at in 2..STEP_OF_FIVE.len() {
            let mut some = STEP_OF_FIVE.to_vec();
            let (name, _) = some.remove(at);
            assert!(of(&some, 70).unwrap().unwrap_err().contains(name), "{name}");
        }
    }

    proptest! {
        #[test]
        fn other_texts_are_no_step(texts in prop::collection::vec("[a-z0-9(),\\[\\]x-]{0,12}", 6)) {
            let mut some = STEP_OF_FIVE;
            for (at, text) in (2..).zip(&texts) {
                some[at].1 = text;
            }
            if let Some(Ok(step)) = of(&some, 70) {
                prop_assert_eq!((step.size(), step.cards().len()), (5, 5));
            }
        }
    }
}
