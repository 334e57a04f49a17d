//! Adoption: ranks that an engine has started come to the agent, and get what a rank gets. From
//! then on the agent watches them by descriptors of their processes.

use super::{Agent, Result, token};
use crate::adoption::Caller;
use crate::frame::Frame;
use crate::rank::RankEnvironment;
use crate::rank_state;
use crate::refusal::Refusal;
use clump_control::{Event, ProcessEnd};
use clump_engines::BOOT_MESSAGE;
use clump_os::epoll::Interest;
use clump_os::process::{self, Exit};
use clump_os::procfs::Process;
use clump_os::socket::{self, Received};
use clump_os::{clock, foreign_process, signal};
use std::os::fd::AsFd;

impl Agent {
    /// Handles a connection to the listening socket, or what a caller says.
    pub(super) fn handle_caller(&mut self, low: u32) -> Result<()> {
        let ranks = self.node.memory.local_ranks();
        let Some(adoption) = &mut self.adoption else { return Ok(()) };
        if low == u32::MAX {
            return adoption.accept(&self.poller);
        }
        let Some(caller) = adoption.callers.get_mut(&low) else { return Ok(()) };
        let mut said = [0; 4];
        let heard = socket::receive(&caller.stream, &mut said)?;
        let rank = match heard {
            Received::Nothing => return Ok(()),
            Received::Message(4, Some(lifeline)) if caller.rank.is_none() => {
                Some((u32::from_le_bytes(said), lifeline))
            }
            _ => None,
        };
        let taken = |rank| adoption.callers.values().any(|other| other.rank == Some(rank));
        match rank.filter(|(rank, _)| ranks.contains(rank) && !taken(*rank)) {
            Some((rank, lifeline)) => {
                if let Some(caller) = adoption.callers.get_mut(&low) {
                    caller.rank = Some(rank);
                    adoption.lifelines.push(lifeline);
                }
                self.adopt_ranks()
            }
            None => {
                // It has ended, or is no rank of this node.
                if let Some(caller) = adoption.callers.remove(&low) {
                    self.poller.remove(&caller.stream)?;
                    if let Some(rank) = caller.rank {
                        let why = format!("rank {rank} ended before all ranks had come");
                        self.refuse_adoption(why)?;
                    }
                }
                Ok(())
            }
        }
    }

    /// Returns the time when all ranks must have come, while some are missing.
    pub(super) fn adoption_deadline_ns(&self) -> Option<u64> {
        let adoption = self.adoption.as_ref().filter(|_| self.ranks.is_empty())?;
        Some(adoption.until_ns).filter(|_| self.refusal.is_none())
    }

    /// Ends a job whose ranks do not come.
    pub(super) fn check_adoption(&mut self) -> Result<()> {
        let late = self.adoption_deadline_ns().is_some_and(|until| clock::now_ns() >= until);
        if !late {
            return Ok(());
        }
        let come: Vec<u32> = self
            .adoption
            .iter()
            .flat_map(|adoption| adoption.callers.values().filter_map(|caller| caller.rank))
            .collect();
        let missing: Vec<usize> = self
            .node
            .memory
            .local_ranks()
            .filter(|rank| !come.contains(rank))
            .map(|rank| rank as usize)
            .collect();
        let who = crate::report::rank_list(&missing);
        self.refuse_adoption(format!(
            "ranks {who} did not come to the agent of their machine in time \
             (CLUMP_START_TIMEOUT_MS bounds it): they have ended, or hang"
        ))
    }

    fn refuse_adoption(&mut self, why: String) -> Result<()> {
        if self.watch.is_none() {
            self.outputs.say(&self.poller, &Frame::Refused(why.clone(), 125))?;
        }
        self.refusal.get_or_insert(Refusal::new(why, 125));
        Ok(())
    }

    /// Gives all ranks of the node what they need, once all have come and the job can begin.
    pub(super) fn adopt_ranks(&mut self) -> Result<()> {
        let ranks = self.node.memory.local_ranks();
        let Some(adoption) = self.adoption.as_mut().filter(|_| self.ranks.is_empty()) else {
            return Ok(());
        };
        let here = adoption.callers.values().filter(|caller| caller.rank.is_some()).count();
        if !adoption.is_due || here < ranks.len() {
            return Ok(());
        }
        let mut callers: Vec<Caller> =
            std::mem::take(&mut adoption.callers).into_values().collect();
        callers.retain(|caller| caller.rank.is_some());
        callers.sort_by_key(|caller| caller.rank);
        debug_assert_eq!(callers.len(), ranks.len(), "each rank came once");
        let node = &self.node;
        let (net, limit) = (node.net.as_ref(), node.descriptors);
        let environment =
            RankEnvironment::new(&self.spec, &node.plan, &node.memory, net, limit, &node.placement);
        for (number, caller) in ranks.zip(callers) {
            let adopted = environment.adopt(number, caller.pid);
            let (rank, theirs) = match adopted {
                Ok(adopted) => adopted,
                Err(refusal) => {
                    self.refusal = Some(refusal);
                    break;
                }
            };
            let low = u64::from(number);
            self.poller.remove(&caller.stream)?;
            self.poller.add(&rank.child.pidfd, token::END | low, Interest::Read)?;
            self.poller.add(&rank.boot_socket, token::BOOT_SOCKET | low, Interest::Read)?;
            // A rank that has ended meanwhile is noticed by its descriptor.
            let _ = socket::send(&caller.stream, BOOT_MESSAGE, Some(theirs.as_fd()));
            let parent = Process::read(caller.pid).map_or(0, |process| process.parent);
            let known = adoption.starters.iter().any(|(pid, _)| *pid == parent);
            if parent > 1
                && !known
                && let Ok(pidfd) = process::pidfd(parent)
            {
                self.poller.add(&pidfd, token::STARTER | u64::from(parent), Interest::Read)?;
                adoption.starters.push((parent, pidfd));
            }
            self.oom.watch(caller.pid);
            self.ranks.push(rank);
        }
        self.release_network()
    }

    /// Records the end of a rank that this process has not started.
    pub(super) fn handle_adopted_end(&mut self, rank: u32) -> Result<()> {
        let Some(at) = self.local(rank) else { return Ok(()) };
        let child = &self.ranks[at].child;
        if self.ranks[at].end.is_some() || !foreign_process::has_ended(&child.pidfd) {
            return Ok(());
        }
        self.poller.remove(&child.pidfd)?;
        let standing = rank_state::status_of(&self.node.memory, rank);
        // Without a kernel event, infer the end from the rank's last state.
        let exit = foreign_process::end_of(child.pid, &child.pidfd).unwrap_or(Exit::Code(0));
        let end = self.end_of(at, exit);
        let first =
            self.ranks.iter().all(|rank| matches!(rank.end, None | Some((ProcessEnd::Exit(0), _))));
        self.ranks[at].end = Some((end, rank_state::state_of(standing)));
        // An engine that is interrupted passes the signal on to its ranks.
        if let ProcessEnd::Signal(number) = end
            && first
            && signal::ENDS.contains(&number)
        {
            self.tell(Event::Interrupted(number))?;
        }
        self.tell(Event::Ended { rank, end, standing })?;
        self.act()
    }

    /// Ends the ranks of an engine that is gone.
    pub(super) fn handle_starter_end(&mut self, pid: u32) -> Result<()> {
        let Some(adoption) = &mut self.adoption else { return Ok(()) };
        let Some(at) = adoption.starters.iter().position(|(known, _)| *known == pid) else {
            return Ok(());
        };
        let (_, pidfd) = adoption.starters.swap_remove(at);
        self.poller.remove(&pidfd)?;
        // Ends of ranks that came before are handled before.
        for rank in self.node.memory.local_ranks() {
            self.handle_adopted_end(rank)?;
        }
        if self.ranks.iter().all(|rank| rank.end.is_some()) {
            return Ok(());
        }
        let engine = self.spec.engine.as_ref().map_or("", |engine| &engine.name);
        let text =
            format!("process {pid}, which started ranks for {engine}, is gone; they are ended");
        self.outputs.say(&self.poller, &Frame::Notice(text))?;
        self.tell(Event::Interrupted(signal::TERMINATE))?;
        self.act()
    }

    /// Gives up what ranks have got, once they have.
    pub(super) fn release_network(&mut self) -> Result<()> {
        if self.adoption.is_none() || !self.ranks.is_empty() {
            self.node.access = self.node.net.take().map(|net| net.access);
        }
        Ok(())
    }
}
