//! The event loop of ranks and interfaces that share the memory of nodes: who acts when, and who was rung for.

use crate::switch::{Event, SharedSwitch, Time};
use clump_shm::node::NodeMemory;
use std::time::Duration;

/// When each actor acts next: ranks, and behind them interfaces.
#[derive(Debug)]
pub(crate) struct Turns {
    pub(crate) switch: SharedSwitch,
    /// `None`: it is gone.
    at: Vec<Option<Time>>,
}

impl Turns {
    pub(crate) fn new(switch: SharedSwitch, actors: u32) -> Self {
        Self { switch, at: vec![Some(Time::MAX); actors as usize] }
    }

    /// Lets an actor act at a time; it does so earlier if that was planned.
    pub(crate) fn wake(&mut self, actor: u32, at: Time) {
        let Some(Some(planned)) = self.at.get_mut(actor as usize) else { return };
        if at < *planned {
            *planned = at;
            self.switch.lock().schedule(at, Event::Turn(actor));
        }
    }

    /// An actor never acts again.
    pub(crate) fn retire(&mut self, actor: u32) {
        self.at[actor as usize] = None;
    }

    /// Whether an actor acts now; false when it was woken earlier, or is gone.
    fn take(&mut self, now: Time, actor: u32) -> bool {
        let due = |planned: &&mut Option<Time>| **planned == Some(now);
        let planned = self.at.get_mut(actor as usize).filter(due);
        planned.map(|planned| *planned = Some(Time::MAX)).is_some()
    }
}

/// What happens when it is time.
pub(crate) trait Scene {
    /// What it comes to.
    type End;
    /// Why it comes to nothing.
    type Error;

    fn turns(&mut self) -> &mut Turns;

    /// A datagram has reached an actor's socket.
    fn on_datagram(&mut self, now: Time, actor: u32);

    /// An actor's turn.
    fn on_turn(&mut self, now: Time, actor: u32) -> Result<(), Self::Error>;

    /// A step of a plan is due.
    fn on_step(&mut self, _now: Time, _index: u32) {}

    /// Looks after each event whether all is well, and whether that was all.
    fn look(&mut self, now: Time) -> Result<Option<Self::End>, Self::Error>;

    /// Nothing is left to happen.
    fn dries_up(&self) -> Self::Error;
}

/// Lets it all happen.
pub(crate) fn play<S: Scene>(mut scene: S) -> Result<S::End, S::Error> {
    loop {
        let (event, now) = {
            let mut switch = scene.turns().switch.lock();
            (switch.next(), switch.now)
        };
        match event {
            None => return Err(scene.dries_up()),
            Some(Event::AtSocket(actor, _)) => scene.on_datagram(now, actor),
            Some(Event::Turn(actor)) => {
                if scene.turns().take(now, actor) {
                    scene.on_turn(now, actor)?;
                }
            }
            Some(Event::Step(index)) => scene.on_step(now, index),
            Some(Event::AtPort(..)) => {}
        }
        if let Some(end) = scene.look(now)? {
            return Ok(end);
        }
    }
}

/// Which of a node's ranks and interfaces that sleep somebody has rung for.
pub(crate) fn rung(memory: &NodeMemory, sleeps: impl Fn(u32) -> bool) -> Vec<u32> {
    let actors = memory.own_interfaces().chain(memory.local_ranks());
    let is_rung = |actor: &u32| {
        let alarm = memory.alarm(*actor);
        sleeps(*actor) && alarm.is_some_and(|alarm| alarm.wait(None, Some(Duration::ZERO)).rung)
    };
    actors.filter(is_rung).collect()
}
