//! Received datagrams, and the reusable buffers in which they lie.

use std::net::SocketAddr;

/// Congestion mark of a datagram (RFC 3168, section 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ecn {
    /// The sender does not take part, or the mark is not known.
    #[default]
    NotEct,
    /// ECN-capable transport (0): the mark that drivers here send.
    Ect0,
    /// ECN-capable transport (1).
    Ect1,
    /// A router was congested.
    Ce,
}

impl Ecn {
    /// Decodes the low two bits of the IP traffic class.
    #[inline]
    pub fn from_traffic_class(class: u8) -> Self {
        [Self::NotEct, Self::Ect1, Self::Ect0, Self::Ce][usize::from(class & 3)]
    }

    /// Returns the low two bits of the IP traffic class.
    pub fn traffic_class(self) -> u8 {
        match self {
            Self::NotEct => 0,
            Self::Ect1 => 1,
            Self::Ect0 => 2,
            Self::Ce => 3,
        }
    }
}

/// One received datagram, in place.
#[derive(Debug, PartialEq, Eq)]
pub struct Datagram<'a> {
    /// Its contents; the caller may change them (open a seal in place).
    pub bytes: &'a mut [u8],
    /// Its sender, as the network reports it; not authenticated.
    pub from: SocketAddr,
    /// The mark that it arrived with.
    pub ecn: Ecn,
    /// Time at which the kernel received it: nanoseconds of the real-time clock (UTC), where
    /// requested.
    pub arrived_ns: Option<u64>,
    /// Time for which it had waited to be received by then, where that is known.
    pub waited_ns: Option<u64>,
    /// The path of its driver by which it arrived, for
    /// [`Driver::on_authenticated`](crate::Driver::on_authenticated).
    pub path: u8,
}

/// A mechanism's description of a buffer that it has filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FilledBuffer {
    /// Bytes written to the buffer.
    pub bytes: usize,
    /// Bytes of each datagram in it but the last, which may be shorter. `None`: one datagram.
    pub segment: Option<usize>,
    /// Their sender.
    pub from: SocketAddr,
    /// The mark of all of them.
    pub ecn: Ecn,
    /// Time at which the kernel received the first of them.
    pub arrived_ns: Option<u64>,
    /// Time for which that had waited.
    pub waited_ns: Option<u64>,
}

/// Position of a datagram, and its reception: small, since there are many.
#[derive(Debug, Clone, Copy)]
struct DatagramPlace {
    start: u32,
    bytes: u32,
    reception: u32,
}

impl DatagramPlace {
    fn range(self) -> std::ops::Range<usize> {
        self.start as usize..self.start as usize + self.bytes as usize
    }
}

/// Properties that the datagrams of one buffer share.
#[derive(Debug, Clone, Copy)]
struct Reception {
    from: SocketAddr,
    ecn: Ecn,
    arrived_ns: Option<u64>,
    waited_ns: Option<u64>,
    path: u8,
}

/// Buffers for receiving, and the datagrams found in them. Made once, used for every receive.
#[derive(Debug)]
pub struct Inbound {
    /// All buffers in one allocation, [`Inbound::STRIDE`] apart. Zeroed memory straight from the
    /// kernel: pages that no datagram reaches are never touched.
    memory: Vec<u8>,
    buffers: usize,
    /// One for each buffer in use.
    receptions: Vec<Reception>,
    datagrams: Vec<DatagramPlace>,
    /// The path by which the next datagrams arrive.
    path: u8,
}

impl Inbound {
    /// Bytes of each buffer: the largest that UDP carries, with or without GRO.
    pub const BUFFER_BYTES: usize = 65_536;

    /// Distance between buffers. Were it a power of two, the beginnings of all buffers would
    /// compete for the same few cache lines.
    const STRIDE: usize = Self::BUFFER_BYTES + 320;

    /// Maximum number of buffers: positions fit in 32 bits.
    const MAX_BUFFERS: usize = 4096;

    /// Creates room for this many receptions (each a datagram, or a run of them by GRO), 1 to 4096.
    pub fn new(buffers: usize) -> Self {
        let buffers = buffers.clamp(1, Self::MAX_BUFFERS);
        Self {
            memory: vec![0; buffers * Self::STRIDE],
            buffers,
            receptions: Vec::with_capacity(buffers),
            datagrams: Vec::with_capacity(buffers.max(64)),
            path: 0,
        }
    }

    /// Forgets all datagrams; all buffers are free again.
    #[inline]
    pub fn clear(&mut self) {
        self.receptions.clear();
        self.datagrams.clear();
    }

    /// Forgets all datagrams, and gives the memory that they have filled back to the system.
    #[cold]
    pub fn release(&mut self) {
        self.clear();
        // Where that is not possible the memory is kept.
        let _ = clump_os::udp::give_back(&mut self.memory);
    }

    /// Returns the number of datagrams.
    #[inline]
    pub fn len(&self) -> usize {
        self.datagrams.len()
    }

    /// Returns true if there is no datagram.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.datagrams.is_empty()
    }

    /// Returns the number of free buffers.
    #[inline]
    pub fn room(&self) -> usize {
        self.buffers - self.receptions.len()
    }

    /// Returns datagram `i` in order of arrival. Panics where there is no such datagram, as
    /// indexing does.
    #[inline]
    pub fn datagram(&mut self, i: usize) -> Datagram<'_> {
        let place = self.datagrams[i];
        let Reception { from, ecn, arrived_ns, waited_ns, path } =
            self.receptions[place.reception as usize];
        Datagram { bytes: &mut self.memory[place.range()], from, ecn, arrived_ns, waited_ns, path }
    }

    /// Returns the contents of datagram `i`, to read. Panics where there is no such datagram.
    #[inline]
    pub fn bytes(&self, i: usize) -> &[u8] {
        &self.memory[self.datagrams[i].range()]
    }

    /// Sets the path of the datagrams committed from now on, for drivers with several paths.
    #[inline]
    pub fn set_path(&mut self, path: u8) {
        self.path = path;
    }

    /// Returns the next free buffer, for drivers.
    #[inline]
    pub fn buffer(&mut self) -> Option<&mut [u8]> {
        let start = self.receptions.len() * Self::STRIDE;
        (self.room() > 0).then(|| &mut self.memory[start..start + Self::BUFFER_BYTES])
    }

    /// Returns all free buffers, in the order in which [`Inbound::commit`] takes them, for drivers.
    pub fn free_buffers(&mut self) -> impl Iterator<Item = &mut [u8]> {
        let free = &mut self.memory[self.receptions.len() * Self::STRIDE..];
        free.chunks_exact_mut(Self::STRIDE).map(|chunk| &mut chunk[..Self::BUFFER_BYTES])
    }

    /// Commits the next free buffer, which a driver has filled as described. Returns the number of
    /// datagrams in it.
    #[inline]
    pub fn commit(&mut self, arrival: &FilledBuffer) -> usize {
        debug_assert!(arrival.bytes <= Self::BUFFER_BYTES && self.room() > 0);
        let start = self.receptions.len() * Self::STRIDE;
        let reception = self.receptions.len() as u32;
        let FilledBuffer { from, ecn, arrived_ns, waited_ns, .. } = *arrival;
        self.receptions.push(Reception { from, ecn, arrived_ns, waited_ns, path: self.path });
        let place = |start: usize, bytes: usize| DatagramPlace {
            start: start as u32,
            bytes: bytes as u32,
            reception,
        };
        let segment = arrival.segment.unwrap_or(arrival.bytes).max(1);
        if arrival.bytes <= segment {
            self.datagrams.push(place(start, arrival.bytes));
            return 1;
        }
        let segments = arrival.bytes.div_ceil(segment);
        self.datagrams.extend((0..segments).map(|i| {
            let done = i * segment;
            place(start + done, segment.min(arrival.bytes - done))
        }));
        segments
    }

    /// Copies one datagram in, for drivers. Returns `false` when there is no room (or it is larger
    /// than any).
    pub fn push(&mut self, bytes: &[u8], from: SocketAddr, ecn: Ecn) -> bool {
        match self.buffer().and_then(|buffer| buffer.get_mut(..bytes.len())) {
            Some(place) => place.copy_from_slice(bytes),
            None => return false,
        }
        let arrival = FilledBuffer {
            bytes: bytes.len(),
            segment: None,
            from,
            ecn,
            arrived_ns: None,
            waited_ns: None,
        };
        self.commit(&arrival);
        true
    }

    /// Keeps only those datagrams from `first` on for which `keep` returns true, for wrappers.
    /// `keep` may change their contents, and their mark, which datagrams that arrived joined share.
    /// Buffers stay used.
    pub fn filter(&mut self, first: usize, mut keep: impl FnMut(&mut Datagram<'_>) -> bool) {
        let (memory, receptions, mut i) = (&mut self.memory, &mut self.receptions, 0);
        self.datagrams.retain(|place| {
            i += 1;
            if i <= first {
                return true;
            }
            let reception = &mut receptions[place.reception as usize];
            let Reception { from, ecn, arrived_ns, waited_ns, path } = *reception;
            let bytes = &mut memory[place.range()];
            let mut datagram = Datagram { bytes, from, ecn, arrived_ns, waited_ns, path };
            let keeps = keep(&mut datagram);
            reception.ecn = datagram.ecn;
            keeps
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrival(bytes: usize, segment: Option<usize>) -> FilledBuffer {
        let from = "127.0.0.1:9".parse().unwrap();
        FilledBuffer { bytes, segment, from, ecn: Ecn::Ect0, arrived_ns: None, waited_ns: None }
    }

    #[test]
    fn a_run_is_split_and_its_last_may_be_shorter() {
        let mut inbound = Inbound::new(2);
        inbound.buffer().unwrap()[..10].copy_from_slice(b"aaaabbbbcc");
        assert_eq!(inbound.commit(&arrival(10, Some(4))), 3);
        let parts: Vec<_> = (0..3).map(|i| inbound.datagram(i).bytes.to_vec()).collect();
        assert_eq!(parts, [&b"aaaa"[..], b"bbbb", b"cc"]);
        assert_eq!(inbound.commit(&arrival(0, None)), 1);
        assert_eq!(inbound.datagram(3).bytes, b"");
        assert_eq!(inbound.room(), 0);
        assert!(inbound.buffer().is_none());
        assert!(!inbound.push(b"x", "127.0.0.1:9".parse().unwrap(), Ecn::NotEct));
        inbound.clear();
        assert_eq!((inbound.len(), inbound.room()), (0, 2));
    }

    #[test]
    fn memory_that_is_given_back_holds_zeroes() {
        let mut inbound = Inbound::new(2);
        inbound.buffer().unwrap().fill(7);
        inbound.commit(&arrival(Inbound::BUFFER_BYTES, None));
        inbound.release();
        assert_eq!((inbound.len(), inbound.room()), (0, 2));
        let first = inbound.buffer().unwrap();
        let zeroes = first.iter().filter(|byte| **byte == 0).count();
        // All but parts of two pages, of whatever size.
        assert!(zeroes >= first.len() - 2 * 4096, "{zeroes} bytes were given back");
        assert!(inbound.push(b"x", "127.0.0.1:9".parse().unwrap(), Ecn::NotEct));
        assert_eq!(inbound.datagram(0).bytes, b"x");
    }

    #[test]
    fn a_segment_size_of_zero_does_not_loop() {
        let mut inbound = Inbound::new(1);
        assert_eq!(inbound.commit(&arrival(3, Some(0))), 3);
    }

    #[test]
    fn a_filter_leaves_earlier_datagrams_alone() {
        let mut inbound = Inbound::new(3);
        let from = "127.0.0.1:9".parse().unwrap();
        for text in [&b"one"[..], b"two", b"three"] {
            assert!(inbound.push(text, from, Ecn::Ect0));
        }
        inbound.filter(1, |d| {
            d.ecn = Ecn::Ce;
            d.bytes != b"two"
        });
        assert_eq!(inbound.len(), 2);
        assert_eq!(
            (inbound.datagram(0).bytes.to_vec(), inbound.datagram(0).ecn),
            (b"one".to_vec(), Ecn::Ect0)
        );
        assert_eq!(
            (inbound.datagram(1).bytes.to_vec(), inbound.datagram(1).ecn),
            (b"three".to_vec(), Ecn::Ce)
        );
    }

    #[test]
    fn marks_survive_the_traffic_class() {
        for mark in [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce] {
            assert_eq!(Ecn::from_traffic_class(0xb8 | mark.traffic_class()), mark);
        }
    }
}
