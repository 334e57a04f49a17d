//! Messages that programs send, their results, and the rule that both must obey: a request is
//! handled exactly once or returned exactly once, unchanged, for the right reason.
#![allow(dead_code, reason = "each test file uses a part of it")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::expect_used,
    reason = "helpers of a test may give up"
)]

use clump_am::{Dest, Endpoint, Handler, Name, Reason, Returned};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

/// Takes a message and does nothing.
pub const SINK: Handler = Handler(1);
/// Replies with the words and payload it got, in the same form.
pub const ECHO: Handler = Handler(2);
/// Defers a request to its own endpoint's [`SINK`].
pub const RELAY: Handler = Handler(3);
/// Takes replies.
pub const REPLY: Handler = Handler(4);
/// A handler that no endpoint sets.
pub const MISSING: Handler = Handler(200);

/// Marks requests that [`RELAY`] passed on.
pub const RELAYED: u64 = 1 << 40;
/// Bytes of a segment; requests are deposited in the first half, replies in the second.
pub const SEGMENT: u64 = 1 << 16;
/// Bytes set aside for one deposit, so that none overwrites another.
pub const DEPOSIT: u64 = 256;

/// A program that takes longer has a call that never returns.
const LIMIT: std::time::Duration = std::time::Duration::from_secs(20);

/// Contents of a message besides words.
#[derive(Clone, PartialEq, Eq)]
pub enum Carried {
    Nothing,
    Medium(Vec<u8>),
    Long(u64, Vec<u8>),
}

impl Carried {
    pub fn bytes(&self) -> &[u8] {
        match self {
            Carried::Nothing => &[],
            Carried::Medium(bytes) | Carried::Long(_, bytes) => bytes,
        }
    }
}

impl std::fmt::Debug for Carried {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Carried::Nothing => f.write_str("nothing"),
            Carried::Medium(bytes) => write!(f, "{} bytes", bytes.len()),
            Carried::Long(offset, bytes) => write!(f, "{} bytes at {offset}", bytes.len()),
        }
    }
}

/// Returns bytes that distinguish message `id` from others.
pub fn pattern(id: u64, len: usize) -> Vec<u8> {
    (0..len as u64).map(|i| (id * 31 + i * 7 + 1) as u8).collect()
}

/// A request as its sender remembers it. Endpoints are numbered through the whole program.
#[derive(Debug, Clone)]
pub struct Sent {
    pub from: usize,
    pub to: Option<usize>,
    pub name: Name,
    pub handler: Handler,
    pub words: Vec<u64>,
    pub carried: Carried,
    /// Reasons for which it must be returned; empty if it was correct when sent.
    pub refused: Vec<Reason>,
}

/// A message as a handler got it.
#[derive(Clone)]
pub struct Arrival {
    pub at: usize,
    pub words: Vec<u64>,
    pub payload: Vec<u8>,
}

impl std::fmt::Debug for Arrival {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "at {}: {:?} and {} bytes", self.at, self.words, self.payload.len())
    }
}

/// Everything that handlers saw, by the message's number.
#[derive(Debug, Default)]
pub struct Log {
    pub handled: HashMap<u64, Vec<Arrival>>,
    pub replies: HashMap<u64, Vec<Arrival>>,
    pub returned: HashMap<u64, Vec<(usize, Returned)>>,
}

impl Log {
    /// Adds the log of another thread.
    pub fn merge(&mut self, other: Log) {
        let append = |mine: &mut HashMap<u64, Vec<Arrival>>, theirs: HashMap<u64, Vec<Arrival>>| {
            theirs.into_iter().for_each(|(id, all)| mine.entry(id).or_default().extend(all));
        };
        append(&mut self.handled, other.handled);
        append(&mut self.replies, other.replies);
        for (id, all) in other.returned {
            self.returned.entry(id).or_default().extend(all);
        }
    }

    fn came_back(&self, id: u64, reply: bool) -> Vec<&(usize, Returned)> {
        self.returned.get(&id).into_iter().flatten().filter(|(_, m)| m.reply == reply).collect()
    }

    fn arrivals(of: &HashMap<u64, Vec<Arrival>>, id: u64) -> &[Arrival] {
        of.get(&id).map_or(&[], Vec::as_slice)
    }

    /// Fails if `sent` and this log break the rule. `open` returns true for endpoints that were
    /// open at the end.
    pub fn check(&self, sent: &HashMap<u64, Sent>, open: impl Fn(usize) -> bool) {
        for (&id, message) in sent {
            self.check_request(id, message, &open);
            let answered = message.handler == ECHO && self.handled.contains_key(&id);
            self.check_reply(id, message, answered, &open);
            self.check_relayed(id, message, &open);
        }
        for id in self.handled.keys().chain(self.replies.keys()).chain(self.returned.keys()) {
            assert!(sent.contains_key(&(id & !RELAYED)), "message {id} was never sent");
        }
    }

    fn check_request(&self, id: u64, message: &Sent, open: impl Fn(usize) -> bool) {
        let handled = Self::arrivals(&self.handled, id);
        let back = self.came_back(id, false);
        let times = handled.len() + back.len();
        assert!(times <= 1, "seen twice: {id} {message:?}: {handled:?} {back:?}");
        let target_open = message.to.is_some_and(&open);
        let must_arrive = message.refused.is_empty() && message.handler != MISSING && target_open;
        // A target without such a handler returns the request, and may close while that waits for
        // room.
        let may_vanish = message.refused.is_empty() && message.handler == MISSING && !target_open;
        if must_arrive || (open(message.from) && !may_vanish) {
            assert_eq!(times, 1, "lost: {id} {message:?}");
        }
        for arrival in handled {
            assert!(message.refused.is_empty() && message.handler != MISSING, "{id} {message:?}");
            assert_eq!(Some(arrival.at), message.to);
            assert_eq!(arrival.words, message.words, "{id} {message:?}");
            assert!(arrival.payload == message.carried.bytes(), "altered: {id} {message:?}");
        }
        for (at, back) in back {
            let allowed = match (message.refused.as_slice(), message.handler) {
                ([], MISSING) if target_open => &[Reason::BadHandler][..],
                ([], MISSING) => &[Reason::BadHandler, Reason::EndpointGone][..],
                ([], _) if target_open => &[],
                ([], _) => &[Reason::EndpointGone],
                (refused, _) => refused,
            };
            assert!(allowed.contains(&back.reason), "{id} {message:?} {back:?}");
            assert_eq!(
                (*at, back.dest, back.handler),
                (message.from, message.name, message.handler)
            );
            assert_eq!(back.words, message.words);
            let (payload, deposit) = match &message.carried {
                Carried::Nothing => (&[][..], None),
                Carried::Medium(bytes) => (bytes.as_slice(), None),
                Carried::Long(offset, bytes) => (&[][..], Some((*offset, bytes.len() as u64))),
            };
            assert!(
                back.payload == payload && back.deposit == deposit,
                "{id} {message:?} {back:?}"
            );
        }
    }

    fn check_reply(&self, id: u64, message: &Sent, answered: bool, open: impl Fn(usize) -> bool) {
        let (replies, back) = (Self::arrivals(&self.replies, id), self.came_back(id, true));
        let times = replies.len() + back.len();
        assert!(times <= usize::from(answered), "{id} {message:?}: {replies:?} {back:?}");
        if answered && message.to.is_some_and(&open) {
            assert_eq!(times, 1, "no reply: {id} {message:?}");
            assert!(back.is_empty() || !open(message.from), "{id} {message:?} {back:?}");
        }
        for reply in replies {
            assert_eq!(reply.at, message.from);
            assert_eq!(reply.words, message.words);
            assert!(reply.payload == message.carried.bytes(), "altered: {id} {message:?}");
        }
        for (at, back) in back {
            assert_eq!((Some(*at), back.reason), (message.to, Reason::ReplyRejected));
            assert_eq!((&back.words, back.handler), (&message.words, REPLY));
        }
    }

    fn check_relayed(&self, id: u64, message: &Sent, open: impl Fn(usize) -> bool) {
        let relayed = Self::arrivals(&self.handled, id | RELAYED);
        // Its endpoint may have changed its tag since it mapped itself.
        let back = self.came_back(id | RELAYED, false);
        assert!(back.iter().all(|(_, m)| m.reason == Reason::BadTag), "{id} {message:?} {back:?}");
        let times = relayed.len() + back.len();
        let started = message.handler == RELAY && self.handled.contains_key(&id);
        assert!(times <= usize::from(started), "{id} {message:?}: {relayed:?} {back:?}");
        if started && message.to.is_some_and(&open) {
            assert_eq!(times, 1, "not passed on: {id} {message:?}");
        }
    }
}

/// A log that handlers of one thread share.
pub type SharedLog = Rc<RefCell<Log>>;

/// Sets all handlers of endpoint number `at`.
pub fn equip(endpoint: &Endpoint, at: usize, log: &SharedLog, myself: Dest) {
    let note = |log: &SharedLog| {
        let log = log.clone();
        move |words: &[u64], payload: &clump_am::Payload<'_>| {
            let arrival = Arrival { at, words: words.to_vec(), payload: payload.to_vec() };
            log.borrow_mut().handled.entry(words[0]).or_default().push(arrival);
        }
    };
    let noted = note(log);
    endpoint.set_handler(SINK, move |_, words, payload| noted(words, &payload)).unwrap();
    let noted = note(log);
    endpoint
        .set_handler(ECHO, move |token, words, payload| {
            noted(words, &payload);
            let bytes = payload.to_vec();
            match payload.offset() {
                Some(_) => token.reply_long(REPLY, words[1], &bytes, words),
                None if bytes.is_empty() => token.reply(REPLY, words),
                None => token.reply_bulk(REPLY, &bytes, words),
            }
        })
        .unwrap();
    let noted = note(log);
    endpoint
        .set_handler(RELAY, move |mut token, words, payload| {
            noted(words, &payload);
            token.defer(myself, SINK, &[words[0] | RELAYED])
        })
        .unwrap();
    let sink = log.clone();
    endpoint
        .set_handler(REPLY, move |_, words, payload| {
            let arrival = Arrival { at, words: words.to_vec(), payload: payload.to_vec() };
            sink.borrow_mut().replies.entry(words[0]).or_default().push(arrival);
        })
        .unwrap();
    let sink = log.clone();
    endpoint
        .on_returned(move |m| {
            sink.borrow_mut().returned.entry(m.words[0]).or_default().push((at, m.clone()));
        })
        .unwrap();
}

/// Sends `message` on `endpoint`, blocking while there is no room.
pub fn send(endpoint: &Endpoint, dest: Dest, message: &Sent) -> clump_am::Result<()> {
    let (handler, words) = (message.handler, &message.words);
    match &message.carried {
        Carried::Nothing => endpoint.request(dest, handler, words),
        Carried::Medium(bytes) => endpoint.request_bulk(dest, handler, bytes, words),
        Carried::Long(offset, bytes) => endpoint.request_long(dest, handler, *offset, bytes, words),
    }
}

/// Runs `program` in a thread of its own and fails if it does not end: a call that blocks for ever
/// would hide which program it was. The limit is generous; programs take milliseconds.
pub fn in_time(program: impl FnOnce() + Send + 'static) {
    let (ended, end) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(program));
        let _ = ended.send(());
        result
    });
    assert!(end.recv_timeout(LIMIT).is_ok(), "a call of this program blocks for ever");
    if let Err(panic) = thread.join().unwrap() {
        std::panic::resume_unwind(panic);
    }
}
