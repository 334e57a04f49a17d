//! The launcher's side of a relay: the client that reaches its machine, and the processes that it
//! runs there, each with streams that lead to it as if it were a child of the launcher.
//!
//! One thread takes what the relay says, another sends it what the launcher has for its processes,
//! a third takes what the client says. All end with the client.

use super::agent_starter::{AgentProcess, ProcessEnds};
use super::relayed_process::RelayedProcess;
use crate::hello::{Heard, HelloReader};
use crate::relay_frame::{MAX_HELD, MAX_PIECE, RelayFrame};
use clump_os::alarm::Alarm;
use clump_os::epoll::{Interest, Poller};
use clump_os::process::Exit;
use clump_os::sync::{AtomicU32, AtomicU64, Ordering};
use clump_os::{clock, socket, thread};
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufReader, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Longest time until the end of a client is known once its stream has ended.
const END: Duration = Duration::from_secs(5);
/// Longest time until all that it has said is known: what it started may keep its error stream.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// Exit code of a process whose relay is gone.
const UNREACHED: u8 = 255;

/// A process that a relay is to run.
#[derive(Debug)]
pub(super) struct RelayedStart {
    /// Its words; none: the agent of the relay's machine.
    pub(super) words: Vec<OsString>,
}

/// A process, as its relay's threads know it.
#[derive(Debug)]
struct Relayed {
    process: Arc<RelayedProcess>,
    words: Vec<OsString>,
    /// Bytes of input that may be sent to it.
    room: AtomicU32,
}

/// A relay.
#[derive(Debug)]
pub(super) struct RelayLink {
    /// The client that reaches it: a child, or a process of the relay before it.
    client: AgentProcess,
    /// The launcher's end of the stream to it.
    stream: UnixStream,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// The name of its machine.
    machine: String,
    processes: Vec<Relayed>,
    /// Rung when a process has room for input, or is to be killed.
    wanted: Arc<Alarm>,
    uploaded_ns: Arc<AtomicU64>,
    client_end: Mutex<ClientEnd>,
    /// Notified of changes of `client_end`.
    client_ended: Condvar,
}

/// Knowledge about the end of the client.
#[derive(Debug)]
struct ClientEnd {
    exit: Option<Exit>,
    /// True until its error stream has ended.
    speaks: bool,
}

impl RelayLink {
    /// Takes over the client that starts a relay on `machine`, to which it is connected by
    /// `stream`, and has the relay run `starts` once it has taken `uploads`. The first of them is
    /// the machine's own agent. Returns their ends.
    ///
    /// # Errors
    /// Fails if no more descriptors or threads are allowed.
    pub(super) fn begin(
        ProcessEnds { process: mut client, stream }: ProcessEnds,
        machine: &str,
        starts: Vec<RelayedStart>,
        uploads: Vec<File>,
    ) -> anyhow::Result<(Self, Vec<ProcessEnds>)> {
        let (wanted, uploaded_ns) = (Arc::new(Alarm::new()?), Arc::new(AtomicU64::new(0)));
        let (mut processes, mut ends) = (Vec::new(), Vec::new());
        for RelayedStart { words } in starts {
            let (ours, theirs) = socket::stream_pair()?;
            let (process, errors) =
                RelayedProcess::new(theirs, wanted.clone(), uploaded_ns.clone())?;
            let process = Arc::new(process);
            let of = AgentProcess::Relayed(process.clone(), Some(errors));
            ends.push(ProcessEnds { process: of, stream: ours });
            processes.push(Relayed { process, words, room: AtomicU32::new(MAX_HELD) });
        }
        debug_assert!(!processes.is_empty(), "a relay runs its machine's agent at least");
        let errors = client.take_errors().map(File::from);
        let shared = Arc::new(Shared {
            machine: machine.to_owned(),
            processes,
            wanted,
            uploaded_ns,
            client_end: Mutex::new(ClientEnd { exit: None, speaks: errors.is_some() }),
            client_ended: Condvar::new(),
        });
        let stream = UnixStream::from(stream);
        let (sender, listener) = (shared.clone(), shared.clone());
        let (output, own) = (stream.try_clone()?, stream.try_clone()?);
        thread::spawn("to relay", move || sender.send(output, uploads))?;
        thread::spawn("from relay", move || listener.listen(stream))?;
        if let Some(errors) = errors {
            let said = shared.clone();
            thread::spawn("relay errors", move || said.pass_client_errors(errors))?;
        }
        Ok((Self { client, stream: own, shared }, ends))
    }

    /// Returns the number of the client, under which its end is reported, if it is a child.
    pub(super) fn pid(&self) -> Option<u32> {
        self.client.pid()
    }

    /// Returns how the client has ended, if the relay before it has said so.
    pub(super) fn relayed_exit(&self) -> Option<Exit> {
        self.client.relayed_exit().filter(|_| self.shared.end_of_client().exit.is_none())
    }

    /// Returns a descriptor that becomes readable at the end of the client.
    pub(super) fn end(&self) -> BorrowedFd<'_> {
        self.client.end()
    }

    /// Records the end of the client. What it started may still have the stream, and ends when that
    /// does.
    pub(super) fn on_client_ended(&self, exit: Exit) {
        let _ = self.stream.shutdown(Shutdown::Write);
        let mut end = self.shared.end_of_client();
        debug_assert!(end.exit.is_none(), "a process ends once");
        end.exit = Some(exit);
        self.shared.client_ended.notify_all();
    }
}

impl Shared {
    fn end_of_client(&self) -> MutexGuard<'_, ClientEnd> {
        self.client_end.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends files first, then commands, then what the launcher has for processes.
    fn send(&self, mut stream: UnixStream, uploads: Vec<File>) {
        // When the stream cannot be written any more, the end is noticed where it is read.
        let _ = self.try_send(&mut stream, uploads);
        let _ = stream.shutdown(Shutdown::Write);
    }

    fn try_send(&self, stream: &mut UnixStream, uploads: Vec<File>) -> anyhow::Result<()> {
        let mut piece = vec![0; MAX_PIECE];
        for mut file in uploads {
            // A file that has got shorter is noticed at the other end, which waits in vain.
            while let Ok(bytes @ 1..) = file.read(&mut piece) {
                stream.write_all(&piece[..bytes])?;
                self.uploaded_ns.store(clock::now_ns(), Ordering::Relaxed);
            }
        }
        let poller = Poller::new()?;
        let wake = self.processes.len() as u64;
        poller.add(&*self.wanted, wake, Interest::Read)?;
        for ((number, at), relayed) in (0..).zip(0_u64..).zip(&self.processes) {
            stream.write_all(&RelayFrame::Start(relayed.words.clone()).encode(number))?;
            poller.add(&relayed.process.stream, at, Interest::Read)?;
        }
        // True for those that the poller watches, and those that were killed.
        let mut watched = vec![true; self.processes.len()];
        let (mut killed, mut ended) = (vec![false; watched.len()], vec![false; watched.len()]);
        while !self.processes.iter().all(|relayed| relayed.process.exit().is_some()) {
            for ready in poller.wait(None)? {
                if ready.token == wake {
                    self.wanted.clear();
                    continue;
                }
                let at = usize::try_from(ready.token).unwrap_or(usize::MAX);
                let Some(relayed) = self.processes.get(at) else { continue };
                let number = u32::try_from(at).unwrap_or(u32::MAX);
                let most = (relayed.room.load(Ordering::Acquire) as usize).min(MAX_PIECE);
                if most == 0 {
                    poller.remove(&relayed.process.stream)?;
                    watched[at] = false;
                    continue;
                }
                match (&relayed.process.stream).read(&mut piece[..most]) {
                    Err(e) if e.kind() == ErrorKind::Interrupted => {}
                    Ok(0) | Err(_) => {
                        poller.remove(&relayed.process.stream)?;
                        (watched[at], ended[at]) = (false, true);
                        stream.write_all(&RelayFrame::EndOfInput.encode(number))?;
                    }
                    Ok(bytes) => {
                        let taken = u32::try_from(bytes).unwrap_or(MAX_HELD);
                        relayed.room.fetch_sub(taken, Ordering::AcqRel);
                        // The key of the job may be among them.
                        let mut frame = RelayFrame::Input(piece[..bytes].to_vec()).encode(number);
                        let sent = stream.write_all(&frame);
                        piece[..bytes].fill(0);
                        frame.fill(0);
                        sent?;
                    }
                }
            }
            for ((number, at), relayed) in (0..).zip(0_usize..).zip(&self.processes) {
                if relayed.process.is_killed() && !std::mem::replace(&mut killed[at], true) {
                    stream.write_all(&RelayFrame::Kill.encode(number))?;
                }
                if !watched[at] && !ended[at] && relayed.room.load(Ordering::Acquire) > 0 {
                    poller.add(&relayed.process.stream, at as u64, Interest::Read)?;
                    watched[at] = true;
                }
            }
        }
        Ok(())
    }

    /// Takes what the relay says until its stream ends.
    fn listen(&self, mut stream: UnixStream) {
        let mut greeting = HelloReader::default();
        let mut piece = [0; 4096];
        let rest = loop {
            let bytes = match stream.read(&mut piece) {
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                Ok(bytes @ 1..) => bytes,
                Ok(0) | Err(_) => break None,
            };
            match greeting.handle_bytes(&piece[..bytes]) {
                Heard::Nothing => {}
                Heard::Other => break None,
                Heard::Hello(_, rest) => break Some(rest),
            }
        };
        match rest {
            Some(rest) => {
                let mut frames = BufReader::new((&rest[..]).chain(stream));
                while let Ok(Some((number, frame))) = RelayFrame::read(&mut frames) {
                    self.handle(number, frame);
                }
            }
            // What was said instead is shown as if the machine's agent had said it.
            None => {
                let said = greeting.said();
                self.processes.first().map(|own| own.process.pass_output(said.as_bytes()));
            }
        }
        self.lose();
    }

    fn handle(&self, number: u32, frame: RelayFrame) {
        let Some(relayed) = self.processes.get(number as usize) else { return };
        match frame {
            RelayFrame::Taken(bytes) => {
                relayed.room.fetch_add(bytes, Ordering::AcqRel);
                self.wanted.ring();
            }
            RelayFrame::Output(bytes) => {
                // The launcher has given it up if nobody reads.
                let _ = relayed.process.pass_output(&bytes);
            }
            RelayFrame::EndOfOutput => relayed.process.end_output(),
            RelayFrame::Errors(bytes) => relayed.process.pass_errors(&bytes),
            RelayFrame::Ended(exit) => {
                relayed.process.note_end(exit);
                self.wanted.ring();
            }
            _ => {}
        }
    }

    /// Records the end of all processes, with that of the client: nothing reaches them any more.
    fn lose(&self) {
        let wait = |known: MutexGuard<'_, _>, limit, lacks: fn(&mut ClientEnd) -> bool| {
            let waited = self.client_ended.wait_timeout_while(known, limit, lacks);
            waited.unwrap_or_else(PoisonError::into_inner).0.exit
        };
        let exit = wait(self.end_of_client(), END, |end| end.exit.is_none());
        // Forward output before the exit status.
        wait(self.end_of_client(), LAST_WORDS, |end| end.speaks);
        for (at, Relayed { process, .. }) in self.processes.iter().enumerate() {
            if at == 0 {
                process.note_end(exit.unwrap_or(Exit::Code(UNREACHED)));
                continue;
            }
            let machine = &self.machine;
            process.pass_errors(format!("the way there by machine {machine} is lost\n").as_bytes());
            process.note_end(Exit::Code(UNREACHED));
        }
        self.wanted.ring();
    }

    /// Hands on what the client says, as if the machine's agent had said it, until that has ended.
    fn pass_client_errors(&self, errors: File) {
        self.try_pass_client_errors(errors);
        self.end_of_client().speaks = false;
        self.client_ended.notify_all();
    }

    fn try_pass_client_errors(&self, mut errors: File) {
        let Some(own) = self.processes.first() else { return };
        let Ok(poller) = Poller::new() else { return };
        let mut piece = [0; 4096];
        // A read of it never blocks.
        while poller.add(&errors, 0, Interest::Read).is_ok() && poller.wait(None).is_ok() {
            match errors.read(&mut piece) {
                Ok(bytes @ 1..) => own.process.pass_errors(&piece[..bytes]),
                Err(e) if matches!(e.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => {}
                Ok(0) | Err(_) => return,
            }
            let _ = poller.remove(&errors);
        }
    }
}
