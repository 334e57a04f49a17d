//! The event loop of ranks and interfaces that share the memory of nodes: next turns, and alarms.

use crate::switch::{SharedSwitch, SwitchEvent, Time};
use clump_shm::node::NodeMemory;
use std::time::Duration;

/// Time of each actor's next turn: ranks, and after them interfaces.
#[derive(Debug)]
pub(crate) struct ActorSchedule {
    pub(crate) switch: SharedSwitch,
    /// Next turn of each actor; `None`: it is gone.
    at: Vec<Option<Time>>,
}

impl ActorSchedule {
    pub(crate) fn new(switch: SharedSwitch, actors: u32) -> Self {
        Self { switch, at: vec![Some(Time::MAX); actors as usize] }
    }

    /// Schedules an actor's turn at a time, unless an earlier one is planned.
    pub(crate) fn wake(&mut self, actor: u32, at: Time) {
        let Some(Some(planned)) = self.at.get_mut(actor as usize) else { return };
        if at < *planned {
            *planned = at;
            self.switch.lock().schedule(at, SwitchEvent::Turn(actor));
        }
    }

    /// Ends an actor: it never acts again.
    pub(crate) fn retire(&mut self, actor: u32) {
        self.at[actor as usize] = None;
    }

    /// Returns true if an actor acts now; false if it was woken earlier, or is gone.
    fn take(&mut self, now: Time, actor: u32) -> bool {
        let due = |planned: &&mut Option<Time>| **planned == Some(now);
        let planned = self.at.get_mut(actor as usize).filter(due);
        planned.map(|planned| *planned = Some(Time::MAX)).is_some()
    }
}

/// Reactions of a simulation to its events.
pub(crate) trait Simulation {
    /// Result of a run that ends.
    type End;
    /// Reason for a run's failure.
    type Error;

    fn turns(&mut self) -> &mut ActorSchedule;

    /// Reacts to a datagram that has reached an actor's socket.
    fn on_datagram(&mut self, now: Time, actor: u32);

    /// Runs an actor's turn.
    fn on_turn(&mut self, now: Time, actor: u32) -> Result<(), Self::Error>;

    /// Runs a step of the plan that is due.
    fn on_step(&mut self, _now: Time, _index: u32) {}

    /// Checks after each event. Returns the result if the run is over.
    fn check_progress(&mut self, now: Time) -> Result<Option<Self::End>, Self::Error>;

    /// Returns the error for a run in which no event is left.
    fn dries_up(&self) -> Self::Error;
}

/// Runs a simulation to its end.
pub(crate) fn play<S: Simulation>(mut scene: S) -> Result<S::End, S::Error> {
    loop {
        let (event, now) = {
            let mut switch = scene.turns().switch.lock();
            (switch.next(), switch.now)
        };
        match event {
            None => return Err(scene.dries_up()),
            Some(SwitchEvent::AtSocket(actor, _)) => scene.on_datagram(now, actor),
            Some(SwitchEvent::Turn(actor)) => {
                if scene.turns().take(now, actor) {
                    scene.on_turn(now, actor)?;
                }
            }
            Some(SwitchEvent::Step(index)) => scene.on_step(now, index),
            Some(SwitchEvent::AtPort(..)) => {}
        }
        if let Some(end) = scene.check_progress(now)? {
            return Ok(end);
        }
    }
}

/// Returns the sleeping ranks and interfaces of a node whose alarms were rung.
pub(crate) fn rung(memory: &NodeMemory, sleeps: impl Fn(u32) -> bool) -> Vec<u32> {
    let actors = memory.own_interfaces().chain(memory.local_ranks());
    let is_rung = |actor: &u32| {
        let alarm = memory.alarm(*actor);
        sleeps(*actor) && alarm.is_some_and(|alarm| alarm.wait(None, Some(Duration::ZERO)).rung)
    };
    actors.filter(is_rung).collect()
}
