//! Metrics of a node for collectors: a small HTTP server within the agent's event loop, off unless
//! a user asks for it. It answers `GET /metrics`, one request a connection.

use crate::refusal::Refusal;
use crate::scene;
use crate::spec::{JobSpec, NodePlan};
use clump_os::epoll::{Interest, Poller};
use clump_shm::node::NodeMemory;
use clump_trace::openmetrics::{self, Labelled, MEDIA_TYPE};
use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

/// Most connections at once; the oldest makes room for another.
const MAX_CALLERS: usize = 16;
/// Longest request.
const MAX_REQUEST: usize = 8 << 10;
/// Most headers of a request.
const MAX_HEADERS: usize = 64;
/// Token of the listener among the server's own.
const LISTENER: u32 = u32::MAX;

/// A connection: first the request comes, then the answer goes.
#[derive(Debug)]
struct Caller {
    stream: TcpStream,
    request: Vec<u8>,
    answer: Vec<u8>,
    written: usize,
}

/// The server.
#[derive(Debug)]
pub(crate) struct MetricsServer {
    listener: TcpListener,
    callers: BTreeMap<u32, Caller>,
    next: u32,
    /// Meaning of the poller's tokens that are the server's.
    token: u64,
}

impl MetricsServer {
    /// Opens the server of a node, if the job's user wants one.
    pub(crate) fn of_node(
        (poller, token): (&Poller, u64),
        spec: &JobSpec,
        plan: &NodePlan,
    ) -> Result<Option<Self>, Refusal> {
        let Some(asked) = spec.metrics else { return Ok(None) };
        let node = plan.node;
        // Nodes of one machine have one address.
        let number = if spec.machines.is_empty() { node } else { 0 };
        let port = u32::from(asked.port()) + number;
        let refuse = |why: String| {
            let text = format!("node {node} cannot offer metrics at {}:{port}: {why}", asked.ip());
            Refusal::new(text, 2)
        };
        let port = u16::try_from(port).map_err(|_| refuse("there is no such port".into()))?;
        let server = Self::open((poller, token), SocketAddr::new(asked.ip(), port));
        server.map(Some).map_err(|e| refuse(e.to_string()))
    }

    /// Listens at `address`.
    fn open((poller, token): (&Poller, u64), address: SocketAddr) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        poller.add(&listener, token | u64::from(LISTENER), Interest::Read)?;
        Ok(Self { listener, callers: BTreeMap::new(), next: 0, token })
    }

    /// Handles a connection, or what came by one.
    pub(crate) fn handle(
        &mut self,
        poller: &Poller,
        low: u32,
        memory: &NodeMemory,
    ) -> anyhow::Result<()> {
        if low == LISTENER {
            return self.accept(poller);
        }
        let Some(caller) = self.callers.get_mut(&low) else { return Ok(()) };
        if caller.answer.is_empty() {
            caller.read();
            let Some(page) = asked(&caller.request) else {
                // More is to come, unless nothing can.
                return Ok(());
            };
            caller.answer = answer(page, || text(memory));
            poller.change(&caller.stream, self.token | u64::from(low), Interest::Write)?;
        }
        debug_assert!(caller.written <= caller.answer.len(), "no more than there is");
        if caller.write() { self.drop_caller(poller, low) } else { Ok(()) }
    }

    fn accept(&mut self, poller: &Poller) -> anyhow::Result<()> {
        let stream = match self.listener.accept() {
            Ok((stream, _)) => stream,
            // A caller that is gone again.
            Err(e) if is_passing(&e) || e.kind() == ErrorKind::ConnectionAborted => return Ok(()),
            // A lack of descriptors, say, is no reason to end a job: there are no more metrics.
            Err(_) => return Ok(poller.remove(&self.listener)?),
        };
        stream.set_nonblocking(true)?;
        while self.callers.len() >= MAX_CALLERS {
            let Some(&oldest) = self.callers.keys().next() else { break };
            self.drop_caller(poller, oldest)?;
        }
        let low = self.next;
        self.next = self.next.wrapping_add(1) % LISTENER;
        poller.add(&stream, self.token | u64::from(low), Interest::Read)?;
        let caller = Caller { stream, request: Vec::new(), answer: Vec::new(), written: 0 };
        self.callers.insert(low, caller);
        debug_assert!(self.callers.len() <= MAX_CALLERS, "memory is bounded");
        Ok(())
    }

    fn drop_caller(&mut self, poller: &Poller, low: u32) -> anyhow::Result<()> {
        if let Some(caller) = self.callers.remove(&low) {
            poller.remove(&caller.stream)?;
        }
        Ok(())
    }
}

impl Caller {
    /// Reads what has come of the request. An end before the request is whole ends it.
    fn read(&mut self) {
        let mut piece = [0; 2048];
        match self.stream.read(&mut piece) {
            Ok(0) => self.request.resize(MAX_REQUEST, 0),
            Ok(bytes) => self.request.extend_from_slice(&piece[..bytes]),
            Err(e) if is_passing(&e) => {}
            Err(_) => self.request.resize(MAX_REQUEST, 0),
        }
    }

    /// Writes more of the answer; returns true if that was all, or nobody reads it.
    fn write(&mut self) -> bool {
        let rest = self.answer.get(self.written..).unwrap_or_default();
        match self.stream.write(rest) {
            Ok(bytes) => self.written += bytes,
            Err(e) if is_passing(&e) => {}
            Err(_) => return true,
        }
        self.written >= self.answer.len()
    }
}

/// Returns true if the same call may succeed later.
fn is_passing(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// Returns the counters of the node's ranks and network interfaces.
fn text(memory: &NodeMemory) -> String {
    let node = memory.node().to_string();
    let label = |name, value: String| vec![(name, value), ("node", node.clone())];
    let ranks = memory.local_ranks().zip(scene::counters(memory));
    let ranks = ranks
        .map(|(rank, counters)| Labelled { labels: label("rank", rank.to_string()), counters });
    let interfaces = (0..).zip(scene::monitors(memory)).map(|(number, monitor): (u32, _)| {
        let labels = label("interface", number.to_string());
        Labelled { labels, counters: monitor.network }
    });
    openmetrics::text(&ranks.chain(interfaces).collect::<Vec<_>>())
}

/// The answer that a request gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Page {
    Metrics,
    NotFound,
    NotAllowed,
    BadRequest,
}

/// Returns the page that a request asks for, once it has come as a whole.
fn asked(request: &[u8]) -> Option<Page> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut parsed = httparse::Request::new(&mut headers);
    match parsed.parse(request) {
        Ok(status) if status.is_complete() => Some(match (parsed.method, parsed.path) {
            (Some("GET"), Some("/metrics")) => Page::Metrics,
            (Some("GET"), _) => Page::NotFound,
            _ => Page::NotAllowed,
        }),
        Ok(_) if request.len() < MAX_REQUEST => None,
        Ok(_) | Err(_) => Some(Page::BadRequest),
    }
}

fn answer(page: Page, text: impl FnOnce() -> String) -> Vec<u8> {
    let plain = "text/plain; charset=utf-8";
    let (status, media, body) = match page {
        Page::Metrics => ("200 OK", MEDIA_TYPE, text()),
        Page::NotFound => ("404 Not Found", plain, "the metrics are at /metrics\n".into()),
        Page::NotAllowed => ("405 Method Not Allowed", plain, "only GET\n".into()),
        Page::BadRequest => ("400 Bad Request", plain, "no request of HTTP\n".into()),
    };
    let bytes = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {media}\r\nContent-Length: {bytes}\r\n\
         Connection: close\r\n\r\n"
    );
    (head + &body).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clump_os::clock;
    use clump_shm::node::NodeConfig;
    use std::time::Duration;

    const TOKEN: u64 = 9 << 32;

    fn memory() -> NodeMemory {
        let config =
            NodeConfig { node_of: &[0], job_id: 7, spin_ns: 0, yield_ns: 0, ..NodeConfig::new(1) };
        NodeMemory::create(&config).unwrap()
    }

    /// Serves until the caller, which sends `words` and then reads, has all of its answer.
    fn ask(words: &[u8]) -> String {
        let (poller, memory) = (Poller::new().unwrap(), memory());
        let mut server =
            MetricsServer::open((&poller, TOKEN), "127.0.0.1:0".parse().unwrap()).unwrap();
        let mut caller = TcpStream::connect(server.listener.local_addr().unwrap()).unwrap();
        let start = clock::instant();
        // Byte by byte, so that no part is taken for the whole.
        let (mut said, mut heard) = (0, Vec::new());
        caller.set_nonblocking(true).unwrap();
        loop {
            assert!(start.elapsed() < Duration::from_secs(100), "no answer");
            if said < words.len() {
                said += caller.write(&words[said..=said]).unwrap_or(0);
            }
            for ready in poller.wait(Some(Duration::from_millis(1))).unwrap() {
                let low = (ready.token & 0xffff_ffff) as u32;
                server.handle(&poller, low, &memory).unwrap();
            }
            let mut piece = [0; 100];
            match caller.read(&mut piece) {
                Ok(0) => break,
                Ok(bytes) => heard.extend_from_slice(&piece[..bytes]),
                Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                // Closed before all of a bad request was read.
                Err(_) => break,
            }
        }
        String::from_utf8(heard).unwrap()
    }

    #[test]
    fn metrics_are_answered_and_others_refused() {
        let got = ask(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(
            got.starts_with("HTTP/1.1 200 OK\r\n") && got.ends_with("\r\n\r\n# EOF\n"),
            "{got}"
        );
        assert!(got.contains("Content-Length: 6\r\n") && got.contains("openmetrics-text"), "{got}");
        assert!(ask(b"GET / HTTP/1.0\r\n\r\n").starts_with("HTTP/1.1 404"));
        assert!(ask(b"POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405"));
        assert!(ask(b"\0\0\0\0").starts_with("HTTP/1.1 400"));
    }

    #[test]
    fn a_request_is_bounded() {
        let mut long = b"GET /metrics HTTP/1.1\r\nA: ".to_vec();
        long.resize(MAX_REQUEST - 1, b'x');
        assert_eq!(asked(&long), None, "it may still end");
        long.push(b'x');
        assert_eq!(asked(&long), Some(Page::BadRequest));
    }

    #[test]
    fn callers_that_say_nothing_make_room() {
        let (poller, memory) = (Poller::new().unwrap(), memory());
        let mut server =
            MetricsServer::open((&poller, TOKEN), "127.0.0.1:0".parse().unwrap()).unwrap();
        let at = server.listener.local_addr().unwrap();
        let silent: Vec<TcpStream> =
            (0..3 * MAX_CALLERS).map(|_| TcpStream::connect(at).unwrap()).collect();
        for _ in &silent {
            server.handle(&poller, LISTENER, &memory).unwrap();
        }
        assert_eq!(server.callers.len(), MAX_CALLERS);
        assert!(server.callers.contains_key(&(3 * MAX_CALLERS as u32 - 1)), "the newest is there");
    }
}
