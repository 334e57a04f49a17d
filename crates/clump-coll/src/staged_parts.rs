//! Bytes on a stage: gathered, spread, scattered, exchanged. Contributions longer than a chunk go
//! chunk by chunk, while readers read the chunks before.

use crate::arguments::check_bytes;
use crate::parts_memory::{PartsMemory, zeroed};
use crate::stage::area::CHUNK;
use crate::stage::call::{Chunk, Sink, StagedCall};
use crate::stage::numbering::SLOTS;
use clump_am::{ErrorKind, Result};

const WORD: usize = size_of::<u64>();
const _: () = assert!(SLOTS > 1, "a writer goes on while readers read");

impl StagedCall<'_> {
    /// Writes the byte strings of all members into `parts`, at `root`, or at all where there is
    /// none.
    ///
    /// # Errors
    /// A rank died or left, or gave another number of bytes than `parts` has room for; no memory.
    pub(crate) fn collect(
        &mut self,
        root: Option<usize>,
        mine: &[u8],
        parts: &mut impl PartsMemory,
    ) -> Result<()> {
        let me = self.me();
        let (reads, writes) = (root.is_none_or(|root| root == me), root != Some(me));
        if !reads {
            self.read_nothing();
        }
        let mut most = if writes { mine.len() } else { 0 };
        let mut at = 0;
        for chunk in 0.. {
            if writes && (chunk == 0 || at < mine.len()) {
                let end = mine.len().min(at + CHUNK);
                self.publish_bytes(&mine[at..end], mine.len())?;
            }
            if reads {
                most = if chunk == 0 { self.begin_parts(mine, parts)?.max(most) } else { most };
                let longer = self.others().filter(|&member| parts.part(member).len() > at);
                let longer = longer.fold(0, |all, member| all | 1 << member);
                self.await_all(chunk, longer)?;
                for member in self.others().filter(|member| longer >> member & 1 == 1) {
                    let part = parts.part(member);
                    let end = part.len().min(at + CHUNK);
                    self.await_chunk(member, chunk)?.read(0, &mut part[at..end])?;
                }
                self.took(chunk);
            }
            at += CHUNK;
            if at >= most {
                break;
            }
        }
        Ok(())
    }

    /// Awaits the first chunks of all others, and makes room for their byte strings. Returns the
    /// bytes of the longest.
    fn begin_parts(&self, mine: &[u8], parts: &mut impl PartsMemory) -> Result<usize> {
        self.await_all(0, self.all_others())?;
        let mut totals = vec![mine.len() as u64; self.len()];
        for member in self.others() {
            totals[member] = self.await_chunk(member, 0)?.total();
            if let Some(each) = parts.each() {
                self.check_total(member, totals[member], each)?;
            }
        }
        check_bytes(totals.iter().fold(0, |all: u64, &total| all.saturating_add(total)))?;
        for (member, &total) in totals.iter().enumerate() {
            parts.make_room(member, total)?;
        }
        parts.part(self.me()).copy_from_slice(mine);
        Ok(totals.into_iter().max().unwrap_or(0) as usize)
    }

    /// Makes the bytes of `root` those of all members, which pass equally many.
    ///
    /// # Errors
    /// A rank died or left; the root gave another number of bytes.
    pub(crate) fn spread(&mut self, root: usize, bytes: &mut [u8]) -> Result<()> {
        let total = bytes.len();
        if self.me() == root {
            self.read_nothing();
        }
        // Of no bytes there is a contribution, too, so that ranks which expect some are told.
        for chunk in 0..total.div_ceil(CHUNK).max(1) {
            let end = total.min((chunk + 1) * CHUNK);
            let (piece, chunk) = (&mut bytes[chunk * CHUNK..end], chunk as u64);
            if self.me() == root {
                self.publish_bytes(piece, total)?;
                continue;
            }
            let there = self.await_chunk(root, chunk)?;
            self.check_total(root, there.total(), total)?;
            there.read(0, piece)?;
            self.took(chunk);
        }
        Ok(())
    }

    /// Returns the bytes of `root`, of any number, at all members.
    ///
    /// # Errors
    /// A rank died or left; no memory.
    pub(crate) fn spread_any(&mut self, root: usize, bytes: Option<Vec<u8>>) -> Result<Vec<u8>> {
        let mut bytes = match bytes {
            Some(bytes) => bytes,
            None => zeroed(self.await_chunk(root, 0)?.total())?,
        };
        debug_assert!(!bytes.is_empty(), "a parcel is never empty");
        self.spread(root, &mut bytes)?;
        Ok(bytes)
    }

    /// Writes this member's part of those that `root` gives into `mine`: a stream of their lengths
    /// and of all of them, of which each member reads the chunks that it needs.
    ///
    /// # Errors
    /// A rank died or left, or gave another number of bytes than `mine` has room for; no memory.
    pub(crate) fn scatter(
        &mut self,
        root: usize,
        parts: Option<&[&[u8]]>,
        mine: &mut impl PartsMemory,
    ) -> Result<()> {
        let me = self.me();
        if let Some(parts) = parts {
            debug_assert!(me == root && parts.len() == self.len(), "one for each member");
            self.give_parts(parts)?;
            mine.make_room(me, parts[me].len() as u64)?;
            mine.part(me).copy_from_slice(parts[me]);
            return Ok(());
        }
        let table = self.len() * WORD;
        let first = self.await_chunk(root, 0)?;
        let lengths = read_words(&first, 0, self.len())?;
        let before = lengths[..me].iter().fold(table as u64, |a, &b| a.saturating_add(b));
        if let Some(each) = mine.each() {
            self.check_total(root, lengths[me], each)?;
        }
        mine.make_room(me, lengths[me])?;
        let mine = mine.part(me);
        let start = usize::try_from(before).map_err(|_| ErrorKind::NoMemory(mine.len()))?;
        let mut done = 0;
        while done < mine.len() {
            let at = start + done;
            let (chunk, offset) = ((at / CHUNK) as u64, at % CHUNK);
            let end = mine.len().min(done + CHUNK - offset);
            if chunk > 0 {
                self.took(chunk - 1);
            }
            self.await_chunk(root, chunk)?.read(offset, &mut mine[done..end])?;
            done = end;
        }
        self.read_nothing();
        Ok(())
    }

    fn give_parts(&mut self, parts: &[&[u8]]) -> Result<()> {
        self.read_nothing();
        // The root's own part stays where it is.
        let me = self.me();
        let of = |member: usize| if member == me { &[][..] } else { parts[member] };
        let words = (0..parts.len()).flat_map(|member| (of(member).len() as u64).to_ne_bytes());
        let table: Vec<u8> = words.collect();
        let pieces: Vec<&[u8]> =
            std::iter::once(&table[..]).chain((0..parts.len()).map(of)).collect();
        let total: usize = pieces.iter().map(|piece| piece.len()).sum();
        let (mut piece, mut within) = (0, 0);
        for from in (0..total).step_by(CHUNK) {
            let len = CHUNK.min(total - from);
            self.publish((len, total), |sink| {
                let mut at = 0;
                while at < len {
                    let rest = &pieces[piece][within..];
                    let step = rest.len().min(len - at);
                    sink.put(at, &rest[..step])?;
                    (at, within) = (at + step, within + step);
                    if within == pieces[piece].len() {
                        (piece, within) = (piece + 1, 0);
                    }
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Gives `parts[i]` to member `i`; writes what the members give to this one into `got`.
    ///
    /// # Errors
    /// A rank died or left, or gave another number of bytes than `got` has room for; no memory.
    pub(crate) fn exchange(&mut self, parts: &[&[u8]], got: &mut impl PartsMemory) -> Result<()> {
        let (me, n) = (self.me(), self.len());
        debug_assert_eq!(parts.len(), n, "one for each member");
        got.make_room(me, parts[me].len() as u64)?;
        got.part(me).copy_from_slice(parts[me]);
        if n == 1 {
            return Ok(());
        }
        let lengths: Vec<u64> = self.others().map(|member| parts[member].len() as u64).collect();
        let row = Row::of(&lengths);
        let mut rows: Vec<Row> = Vec::new();
        let mut rounds = row.rounds();
        for chunk in 0.. {
            if chunk < row.rounds() {
                let others: Vec<&[u8]> = self.others().map(|member| parts[member]).collect();
                let total = lengths.iter().sum::<u64>() as usize;
                let fill = |sink: &mut Sink<'_>| row.write(sink, chunk, (&others, &lengths));
                self.publish((row.bytes(chunk), total), fill)?;
            }
            if chunk == 0 {
                self.await_all(0, self.all_others())?;
            } else {
                let longer = self.others().zip(&rows).filter(|(_, row)| row.rounds() > chunk);
                self.await_all(chunk, longer.fold(0, |all, (member, _)| all | 1 << member))?;
            }
            for member in self.others() {
                // Of the member's others, the next one is the first.
                let place = (me + n - member) % n - 1;
                if chunk == 0 {
                    let there = self.await_chunk(member, 0)?;
                    let (theirs, len) = Row::read(&there, n - 1, place)?;
                    if let Some(each) = got.each() {
                        self.check_total(member, len, each)?;
                    }
                    got.make_room(member, len)?;
                    rounds = rounds.max(theirs.rounds());
                    rows.push(theirs);
                }
                let theirs = rows[(member + n - me) % n - 1];
                let (at, part) = theirs.part(chunk, place, got.part(member));
                if !part.is_empty() {
                    self.await_chunk(member, chunk)?.read(at, part)?;
                }
            }
            self.took(chunk);
            if chunk + 1 >= rounds {
                break;
            }
        }
        Ok(())
    }
}

/// Layout of the parts that a member gives to others: as wide slices of all as fit into a chunk,
/// the first behind their lengths, which are one word where they are equal.
#[derive(Debug, Clone, Copy)]
struct Row {
    count: usize,
    most: usize,
    equal: bool,
}

impl Row {
    fn of(lengths: &[u64]) -> Self {
        debug_assert!(!lengths.is_empty(), "there are others");
        let most = lengths.iter().max().copied().unwrap_or(0) as usize;
        let equal = lengths.iter().all(|&len| len == most as u64);
        Self { count: lengths.len(), most, equal }
    }

    /// Bytes of the lengths.
    fn table(self) -> usize {
        if self.equal { WORD } else { (1 + self.count) * WORD }
    }

    /// Width of a full slice.
    fn stride(self) -> usize {
        (CHUNK - self.table()) / self.count / WORD * WORD
    }

    fn rounds(self) -> u64 {
        self.most.div_ceil(self.stride()).max(1) as u64
    }

    /// Returns where slices begin in a part, how wide they are, and where the first lies in the
    /// chunk.
    fn slices(self, chunk: u64) -> (usize, usize, usize) {
        let from = self.most.min(chunk as usize * self.stride());
        let base = if chunk == 0 { self.table() } else { 0 };
        (from, self.stride().min(self.most - from), base)
    }

    fn bytes(self, chunk: u64) -> usize {
        let (_, width, base) = self.slices(chunk);
        base + self.count * width
    }

    fn write(self, sink: &mut Sink<'_>, chunk: u64, of: (&[&[u8]], &[u64])) -> Result<()> {
        let (parts, lengths) = of;
        if chunk == 0 {
            let head = (self.most as u64) << 1 | u64::from(self.equal);
            sink.put(0, &head.to_ne_bytes())?;
            for (at, len) in (1..).zip(lengths).filter(|_| !self.equal) {
                sink.put(at * WORD, &len.to_ne_bytes())?;
            }
        }
        let (from, width, base) = self.slices(chunk);
        for (place, part) in parts.iter().enumerate() {
            let end = part.len().min(from + width);
            if from < end {
                sink.put(base + place * width, &part[from..end])?;
            }
        }
        Ok(())
    }

    /// Reads the layout of a member that has `count` others, and the length of its part for the one
    /// at `place`.
    fn read(first: &Chunk<'_>, count: usize, place: usize) -> Result<(Self, u64)> {
        let head = read_words(first, 0, 1)?[0];
        let (most, equal) = (head >> 1, head & 1 == 1);
        check_bytes(most)?;
        let len = if equal { most } else { read_words(first, (1 + place) * WORD, 1)?[0] };
        Ok((Self { count, most: most as usize, equal }, len.min(most)))
    }

    /// Returns the bytes of `whole` that a chunk has, and where they lie in it.
    fn part(self, chunk: u64, place: usize, whole: &mut [u8]) -> (usize, &mut [u8]) {
        let (from, width, base) = self.slices(chunk);
        let end = whole.len().min(from + width);
        (base + place * width, whole.get_mut(from..end).unwrap_or_default())
    }
}

fn read_words(chunk: &Chunk<'_>, offset: usize, count: usize) -> Result<Vec<u64>> {
    let mut bytes = vec![0; count * WORD];
    chunk.read(offset, &mut bytes)?;
    Ok(bytes.as_chunks::<WORD>().0.iter().map(|word| u64::from_ne_bytes(*word)).collect())
}
