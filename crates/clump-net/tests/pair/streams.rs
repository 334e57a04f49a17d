//! Streams inside one process, with faults.
#![allow(dead_code, reason = "not every test uses all of it")]

use clump_driver::{ByteStream, StreamListener, StreamNetwork, StreamTransfer};
use std::collections::{HashMap, VecDeque};
use std::io::{IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex};

/// The bytes of one stream on their way, and what happens to them.
#[derive(Debug)]
pub struct StreamWire {
    bytes: VecDeque<u8>,
    /// All bytes that were written.
    pub copy: Vec<u8>,
    read: u64,
    ended: bool,
}

/// Faults of streams that are made from now on.
#[derive(Debug, Clone)]
pub struct StreamFaults {
    /// Nobody may listen.
    pub deaf: bool,
    /// No stream comes through, and no side gets an error: a firewall.
    pub firewall: bool,
    /// Bytes that one call moves.
    pub chunk: usize,
    /// Bytes that may be on their way.
    pub room: usize,
    /// Bytes that come out before the stream ends.
    pub cut_after: Option<u64>,
    /// Bytes that come out before nothing more does, without an end.
    pub stall_after: Option<u64>,
    /// The byte of this number is changed.
    pub flip: Option<u64>,
}

impl Default for StreamFaults {
    fn default() -> Self {
        let (chunk, room) = (usize::MAX, 1 << 20);
        Self {
            deaf: false,
            firewall: false,
            chunk,
            room,
            cut_after: None,
            stall_after: None,
            flip: None,
        }
    }
}

#[derive(Debug, Default)]
struct Inside {
    faults: StreamFaults,
    listeners: HashMap<u16, VecDeque<MemoryStream>>,
    wires: Vec<Arc<Mutex<StreamWire>>>,
    number: u64,
}

/// All hosts, and the streams between them.
#[derive(Debug, Clone, Default)]
pub struct StreamHub(Arc<Mutex<Inside>>);

impl StreamHub {
    pub fn set(&self, faults: StreamFaults) {
        self.0.lock().unwrap().faults = faults;
    }

    /// Returns the number of streams that were made.
    pub fn made(&self) -> usize {
        self.0.lock().unwrap().wires.len()
    }

    /// Returns the bytes that were written to a stream.
    pub fn written(&self, number: usize) -> Vec<u8> {
        self.0.lock().unwrap().wires[number].lock().unwrap().copy.clone()
    }

    /// Returns the ports that are listened at.
    pub fn ports(&self) -> Vec<u16> {
        self.0.lock().unwrap().listeners.keys().copied().collect()
    }

    /// Connects as a stranger that writes these bytes.
    pub fn intrude(&self, port: u16, bytes: &[u8]) {
        let mut stream = self.dial(port).unwrap();
        let _ = stream.write(&[IoSlice::new(bytes)]);
        // A stranger stays.
        std::mem::forget(stream);
    }

    fn dial(&self, port: u16) -> Option<MemoryStream> {
        let mut inside = self.0.lock().unwrap();
        let wire = StreamWire { bytes: VecDeque::new(), copy: Vec::new(), read: 0, ended: false };
        let (wire, faults) = (Arc::new(Mutex::new(wire)), inside.faults.clone());
        inside.wires.push(wire.clone());
        if !faults.firewall {
            let far = MemoryStream { wire: wire.clone(), faults: faults.clone() };
            inside.listeners.get_mut(&port)?.push_back(far);
        }
        Some(MemoryStream { wire, faults })
    }
}

#[derive(Debug)]
struct MemoryStream {
    wire: Arc<Mutex<StreamWire>>,
    faults: StreamFaults,
}

impl ByteStream for MemoryStream {
    fn write(&mut self, parts: &[IoSlice<'_>]) -> StreamTransfer {
        let mut wire = self.wire.lock().unwrap();
        if wire.ended {
            return StreamTransfer::Ended;
        }
        let room = self.faults.room.saturating_sub(wire.bytes.len()).min(self.faults.chunk);
        if room == 0 || self.faults.firewall {
            return StreamTransfer::Blocked;
        }
        let all: Vec<u8> = parts.iter().flat_map(|part| part.iter().copied()).collect();
        let taken = &all[..all.len().min(room)];
        wire.bytes.extend(taken);
        wire.copy.extend(taken);
        StreamTransfer::Bytes(taken.len())
    }

    fn read(&mut self, parts: &mut [IoSliceMut<'_>]) -> StreamTransfer {
        let mut wire = self.wire.lock().unwrap();
        let mut moved = 0;
        for part in parts {
            for place in part.iter_mut() {
                let over = self.faults.cut_after.is_some_and(|after| wire.read >= after);
                if over {
                    wire.ended = true;
                }
                let stalled = self.faults.stall_after.is_some_and(|after| wire.read >= after);
                if moved == self.faults.chunk || over || stalled {
                    break;
                }
                let Some(byte) = wire.bytes.pop_front() else { break };
                let flipped = self.faults.flip == Some(wire.read);
                *place = byte ^ u8::from(flipped);
                wire.read += 1;
                moved += 1;
            }
        }
        match (moved, wire.ended) {
            (0, true) => StreamTransfer::Ended,
            (0, false) => StreamTransfer::Blocked,
            _ => StreamTransfer::Bytes(moved),
        }
    }
}

/// An end that is dropped ends the stream.
impl Drop for MemoryStream {
    fn drop(&mut self) {
        self.wire.lock().unwrap().ended = true;
    }
}

#[derive(Debug)]
struct MemoryListener {
    port: u16,
    hub: StreamHub,
}

impl StreamListener for MemoryListener {
    fn port(&self) -> u16 {
        self.port
    }

    fn accept(&mut self) -> Option<Box<dyn ByteStream>> {
        let mut inside = self.hub.0.lock().unwrap();
        let stream = inside.listeners.get_mut(&self.port)?.pop_front()?;
        Some(Box::new(stream))
    }
}

impl Drop for MemoryListener {
    fn drop(&mut self) {
        self.hub.0.lock().unwrap().listeners.remove(&self.port);
    }
}

impl StreamNetwork for StreamHub {
    fn listen(&mut self) -> Option<Box<dyn StreamListener>> {
        let mut inside = self.0.lock().unwrap();
        if inside.faults.deaf {
            return None;
        }
        inside.number += 1;
        let port = 2000 + inside.number as u16;
        inside.listeners.insert(port, VecDeque::new());
        Some(Box::new(MemoryListener { port, hub: self.clone() }))
    }

    fn connect(&mut self, to: SocketAddr) -> Option<Box<dyn ByteStream>> {
        Some(Box::new(self.dial(to.port())?))
    }

    fn random(&mut self) -> Option<u64> {
        let mut inside = self.0.lock().unwrap();
        inside.number += 1;
        Some(inside.number)
    }

    fn readiness(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}
