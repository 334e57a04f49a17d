//! The relay: a process on a machine of a job that reaches further machines for the launcher, so
//! that no process has to start hundreds of others (docs/adr/0037-agents-elsewhere.md).
//!
//! It starts clients by the words that the launcher sends, hands their streams on by
//! [`RelayFrame`]s, and knows nothing else of the job. When the launcher's stream ends, it ends the
//! input of its clients, which end their agents. It keeps no memory for a dump: the key of the job
//! passes through it.
//!
//! A thread takes frames from the launcher, one for each client gives it its input, and this one
//! collects what clients say and how they end.

use crate::hello::Hello;
use crate::keeper::{self, AGENT_COMMAND};
use crate::launch::ssh_starter::with_session;
use crate::relay_frame::{MAX_PIECE, RelayFrame};
use crate::sweep;
use anyhow::Context;
use clump_os::alarm::Alarm;
use clump_os::epoll::{Interest, Poller};
use clump_os::printable::printable;
use clump_os::process::{self, Child, ChildEvent, ChildEvents, Exit, Program};
use clump_os::signal::{self, Signals};
use clump_os::{clock, socket, standard_streams, thread};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufReader, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Longest time that clients get to end once the launcher is gone.
const END_NS: u64 = 3_000_000_000;
/// Longest time of killing what is left.
const SWEEP_NS: u64 = 2_000_000_000;

/// Meanings of tokens in the poller; the upper part is the client.
mod token {
    pub(super) const OUTPUT: u64 = 0;
    pub(super) const ERRORS: u64 = 1;
    pub(super) const END: u64 = 2;
    pub(super) const KINDS: u64 = 4;
    pub(super) const GONE: u64 = u64::MAX;
}

/// A client.
#[derive(Debug)]
struct Client {
    child: Child,
    /// Its standard output, until its end.
    output: Option<UnixStream>,
    errors: Option<File>,
    /// The way to the thread that gives it its input, until the end of that.
    input: Option<Sender<Vec<u8>>>,
    exit: Option<Exit>,
}

impl Client {
    fn is_over(&self) -> bool {
        self.exit.is_some() && self.output.is_none() && self.errors.is_none()
    }
}

/// State that the threads share.
#[derive(Debug)]
struct Relay {
    poller: Poller,
    clients: Mutex<BTreeMap<u32, Client>>,
    /// The stream to the launcher, until it cannot be written.
    launcher: Mutex<Option<File>>,
    /// Rung when the launcher is gone.
    gone: Alarm,
}

/// Relays until the launcher is gone or all clients have ended. Returns the code to exit with.
pub(crate) fn relay(staged: bool) -> anyhow::Result<u8> {
    signal::set_own()?;
    // Batch systems send them to all processes of a job.
    let _blocked = Signals::block(&signal::OF_PROGRAMS)?;
    process::adopt_orphans()?;
    process::forbid_dumps()?;
    let (input, output) = standard_streams::take()?;
    let mut output = File::from(output);
    output.write_all(&Hello::own().encode()).context("the launcher is gone")?;
    // While no other thread collects children. The words of most relays begin so.
    let _ = with_session(vec!["ssh".into()]);
    let relay = Arc::new(Relay {
        poller: Poller::new()?,
        clients: Mutex::default(),
        launcher: Mutex::new(Some(output)),
        gone: Alarm::new()?,
    });
    relay.poller.add(&relay.gone, token::GONE, Interest::Read)?;
    let listener = relay.clone();
    thread::spawn("launcher", move || listener.listen(input.into()))?;
    let done = relay.collect();
    sweep::sweep(&[], SWEEP_NS);
    if staged {
        keeper::remove_folder(&keeper::own_path());
    }
    done.map(|()| 0)
}

impl Relay {
    /// Takes frames from the launcher until its stream ends.
    fn listen(self: &Arc<Self>, stream: File) {
        let mut stream = BufReader::new(stream);
        while let Ok(Some((number, frame))) = RelayFrame::read(&mut stream) {
            match frame {
                RelayFrame::Start(words) => {
                    if let Err(why) = self.start(number, words) {
                        self.say(number, &RelayFrame::EndOfOutput);
                        self.say(number, &RelayFrame::Errors(format!("{why:#}\n").into_bytes()));
                        self.say(number, &RelayFrame::Ended(Exit::Code(127)));
                    }
                }
                RelayFrame::Input(bytes) => {
                    if let Some(Client { input: Some(input), .. }) = self.clients().get(&number) {
                        // A client that takes no more has ended, or will.
                        let _ = input.send(bytes);
                    }
                }
                RelayFrame::EndOfInput => {
                    if let Some(client) = self.clients().get_mut(&number) {
                        client.input = None;
                    }
                }
                RelayFrame::Kill => {
                    if let Some(client) = self.clients().get(&number) {
                        let _ = process::signal_by_fd(&client.child.pidfd, signal::KILL);
                    }
                }
                _ => break,
            }
        }
        self.gone.ring();
    }

    /// Starts a client.
    fn start(self: &Arc<Self>, number: u32, words: Vec<OsString>) -> anyhow::Result<()> {
        let mut words = with_session(words).into_iter();
        let mut program = match words.next() {
            Some(file) => Program::new(file, words),
            None => Program::new(keeper::own_path(), [AGENT_COMMAND.into()]),
        };
        let (ours, theirs) = socket::stream_pair()?;
        program.stream = Some(theirs);
        let output = UnixStream::from(ours);
        let stdin = output.try_clone()?;
        // Its end is not looked for before it is known here.
        let mut clients = self.clients();
        let mut child = process::start(&program)
            .with_context(|| format!("`{}` cannot be run here", printable(&program.file)))?;
        let errors = child.errors.take().map(|errors: OwnedFd| File::from(errors));
        let of = |kind| u64::from(number) * token::KINDS + kind;
        self.poller.add(&output, of(token::OUTPUT), Interest::Read)?;
        self.poller.add(&child.pidfd, of(token::END), Interest::Read)?;
        if let Some(errors) = &errors {
            self.poller.add(errors, of(token::ERRORS), Interest::Read)?;
        }
        let (input, pieces) = channel();
        let relay = self.clone();
        thread::spawn_with_stack("feeder", 64 << 10, move || {
            relay.feed(number, stdin, &pieces);
        })?;
        let (output, input) = (Some(output), Some(input));
        let known = clients.insert(number, Client { child, output, errors, input, exit: None });
        debug_assert!(known.is_none(), "each client is started once");
        Ok(())
    }

    /// Gives a client its input until that ends.
    fn feed(&self, number: u32, mut stdin: UnixStream, pieces: &Receiver<Vec<u8>>) {
        for mut piece in pieces {
            // A client that is gone takes all, so that the launcher does not wait.
            let _ = stdin.write_all(&piece);
            let taken = u32::try_from(piece.len()).unwrap_or(u32::MAX);
            piece.fill(0);
            self.say(number, &RelayFrame::Taken(taken));
        }
        let _ = stdin.shutdown(Shutdown::Write);
    }

    /// Collects what clients say, and how they end, until all have and no further one comes.
    fn collect(&self) -> anyhow::Result<()> {
        let mut give_up_ns = None;
        loop {
            let left = give_up_ns.map(|at: u64| at.saturating_sub(clock::now_ns()));
            let ready = self.poller.wait(left.map(Duration::from_nanos))?;
            for ready in ready {
                let number = u32::try_from(ready.token / token::KINDS).unwrap_or(u32::MAX);
                match ready.token % token::KINDS {
                    _ if ready.token == token::GONE => {
                        self.poller.remove(&self.gone)?;
                        give_up_ns = Some(clock::now_ns() + END_NS);
                        self.clients().values_mut().for_each(|client| client.input = None);
                    }
                    token::OUTPUT => self.pass_output(number)?,
                    token::ERRORS => self.pass_errors(number)?,
                    _ => self.reap()?,
                }
                self.note_end(number);
            }
            if give_up_ns.is_some_and(|at| self.clients().is_empty() || at <= clock::now_ns()) {
                return Ok(());
            }
        }
    }

    fn pass_output(&self, number: u32) -> anyhow::Result<()> {
        let said = self.take(number, |client| &mut client.output)?;
        let Some(bytes) = said else { return Ok(()) };
        let is_end = bytes.is_empty();
        self.say(number, &if is_end { RelayFrame::EndOfOutput } else { RelayFrame::Output(bytes) });
        Ok(())
    }

    fn pass_errors(&self, number: u32) -> anyhow::Result<()> {
        let said = self.take(number, |client| &mut client.errors)?;
        if let Some(bytes) = said.filter(|bytes| !bytes.is_empty()) {
            self.say(number, &RelayFrame::Errors(bytes));
        }
        Ok(())
    }

    /// Takes what one stream of a client says, of which the poller has said that it is readable.
    /// Returns nothing at its end, which is not looked at again; none if there was nothing.
    fn take<S: Read + AsFd>(
        &self,
        number: u32,
        stream: impl Fn(&mut Client) -> &mut Option<S>,
    ) -> anyhow::Result<Option<Vec<u8>>> {
        let mut clients = self.clients();
        let Some(open) = clients.get_mut(&number).map(stream) else { return Ok(None) };
        let Some(source) = open else { return Ok(None) };
        let mut piece = vec![0; MAX_PIECE];
        match source.read(&mut piece) {
            Err(e) if matches!(e.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => {
                return Ok(None);
            }
            Ok(bytes @ 1..) => piece.truncate(bytes),
            Ok(0) | Err(_) => {
                self.poller.remove(&*source)?;
                *open = None;
                piece.clear();
            }
        }
        Ok(Some(piece))
    }

    /// Reaps what has ended.
    fn reap(&self) -> anyhow::Result<()> {
        let mut clients = self.clients();
        while let ChildEvents::Of(pid, event) = process::changed()? {
            let ChildEvent::Ended(exit) = event else { continue };
            if let Some(client) = clients.values_mut().find(|client| client.child.pid == pid) {
                self.poller.remove(&client.child.pidfd)?;
                client.exit = Some(exit);
                // What it started may still have its streams, and ends when they do.
                client.input = None;
                let _ = client.output.as_ref().map(|stream| stream.shutdown(Shutdown::Write));
            }
        }
        let over: Vec<u32> =
            clients.iter().filter(|(_, client)| client.is_over()).map(|(n, _)| *n).collect();
        drop(clients);
        over.into_iter().for_each(|number| self.note_end(number));
        Ok(())
    }

    /// Tells the launcher of a client that is over.
    fn note_end(&self, number: u32) {
        let mut clients = self.clients();
        if clients.get(&number).is_some_and(Client::is_over) {
            let exit = clients.remove(&number).and_then(|client| client.exit);
            drop(clients);
            debug_assert!(exit.is_some(), "a client that is over has ended");
            exit.into_iter().for_each(|exit| self.say(number, &RelayFrame::Ended(exit)));
        }
    }

    /// Sends a frame; what cannot be sent any more finds nobody.
    fn say(&self, number: u32, frame: &RelayFrame) {
        let mut launcher = self.launcher.lock().unwrap_or_else(PoisonError::into_inner);
        let mut bytes = frame.encode(number);
        if launcher.as_mut().is_some_and(|stream| stream.write_all(&bytes).is_err()) {
            *launcher = None;
            self.gone.ring();
        }
        bytes.fill(0);
    }

    fn clients(&self) -> MutexGuard<'_, BTreeMap<u32, Client>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
