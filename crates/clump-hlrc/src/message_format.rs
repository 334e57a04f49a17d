//! Messages as bytes, for drivers that send them as such.

use crate::interval::Interval;
use crate::message::{DiffHeader, NodeMessage, PageDiff, RangeRule, WrittenPage};
use crate::page_version::PageVersion;
use crate::placement::HomeMove;
use crate::varint::{ByteReader, DecodeError, push_u32};
use crate::vector_time::VectorTime;

/// Limits of a job, which every message keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MessageLimits {
    /// Number of nodes.
    pub nodes: u16,
    /// Ranks of a node, at most.
    pub ranks: u16,
    /// Shared pages.
    pub pages: u32,
}

fn push_u64(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_le_bytes());
}

fn push_time(out: &mut Vec<u8>, time: &VectorTime) {
    time.encode(&VectorTime::zero(time.nodes()), out);
}

fn push_moves(out: &mut Vec<u8>, moves: &[HomeMove]) {
    debug_assert!(moves.is_sorted_by(|a, b| a.page < b.page), "pages ascend");
    push_u32(out, moves.len() as u32);
    for moved in moves {
        debug_assert_ne!(moved.from, moved.to, "a page moves to another node");
        push_u32(out, moved.page);
        push_u32(out, u32::from(moved.from));
        push_u32(out, u32::from(moved.to));
    }
}

fn push_diff(out: &mut Vec<u8>, diff: &PageDiff<Vec<u8>>) {
    debug_assert!(diff.part < diff.parts, "parts count from 0");
    for number in [diff.of.page, diff.of.after, diff.part, diff.parts, diff.payload.len() as u32] {
        push_u32(out, number);
    }
    out.extend_from_slice(&diff.payload);
}

impl RangeRule {
    fn number(self) -> u32 {
        match self {
            Self::Block => 0,
            Self::Cyclic => 1,
            Self::FirstWrite => 2,
            Self::On(node) => 3 + u32::from(node),
        }
    }

    fn of_number(number: u32, nodes: u16) -> Option<Self> {
        match number {
            0 => Some(Self::Block),
            1 => Some(Self::Cyclic),
            2 => Some(Self::FirstWrite),
            node => u16::try_from(node - 3).ok().filter(|&node| node < nodes).map(Self::On),
        }
    }
}

impl NodeMessage<Vec<u8>> {
    /// Appends the message: its kind, its numbers, and bytes of pages at the end.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let before = out.len();
        match self {
            Self::Notices(_) | Self::PullNotices { .. } => self.encode_notices(out),
            Self::Diffs(..) | Self::Fetch { .. } | Self::Page { .. } => self.encode_page(out),
            Self::AskHome { .. } | Self::HomeIs { .. } => self.encode_directory(out),
            Self::RequestLock { .. }
            | Self::GrantLock { .. }
            | Self::RecallLock { .. }
            | Self::ReturnLock { .. } => self.encode_lock(out),
            Self::Arrive { .. } | Self::Depart { .. } => self.encode_barrier(out),
            Self::SetFlag { .. } | Self::AwaitFlag { .. } | Self::FlagReached { .. } => {
                self.encode_flag(out);
            }
            Self::Place { first, pages, rule } => {
                out.push(16);
                push_u32(out, *first);
                push_u32(out, *pages);
                push_u32(out, rule.number());
            }
            Self::Placed { first } => {
                out.push(17);
                push_u32(out, *first);
            }
        }
        debug_assert!(out.len() > before, "every message has a kind");
        debug_assert!(out[before] < 18, "kinds are small");
    }

    fn encode_notices(&self, out: &mut Vec<u8>) {
        match self {
            Self::Notices(interval) => {
                out.push(0);
                interval.encode(out);
            }
            Self::PullNotices { after, until } => {
                debug_assert!(after < until, "a request is not empty");
                out.push(1);
                push_u32(out, *after);
                push_u32(out, *until);
            }
            _ => clump_bug::bug!("notices only"),
        }
    }

    fn encode_page(&self, out: &mut Vec<u8>) {
        match self {
            Self::Diffs(header, diffs) => {
                out.push(2);
                push_u32(out, u32::from(header.writer));
                push_u32(out, header.interval);
                push_u32(out, header.epoch);
                push_time(out, &header.time);
                push_u32(out, diffs.len() as u32);
                diffs.iter().for_each(|diff| push_diff(out, diff));
            }
            Self::Fetch { page, required, moving } => {
                out.extend_from_slice(&[3, u8::from(*moving)]);
                push_u32(out, *page);
                required.encode(out);
            }
            Self::Page { page, version, time, payload } => {
                out.push(4);
                push_u32(out, *page);
                version.encode(out);
                push_time(out, time);
                out.extend_from_slice(payload);
            }
            _ => clump_bug::bug!("pages only"),
        }
    }

    fn encode_directory(&self, out: &mut Vec<u8>) {
        match self {
            Self::AskHome { page, claim } => {
                out.extend_from_slice(&[5, u8::from(*claim)]);
                push_u32(out, *page);
            }
            Self::HomeIs { page, home } => {
                out.extend_from_slice(&[6, u8::from(home.is_some())]);
                push_u32(out, *page);
                push_u32(out, u32::from(home.unwrap_or(0)));
            }
            _ => clump_bug::bug!("the directory only"),
        }
    }

    fn encode_lock(&self, out: &mut Vec<u8>) {
        match self {
            Self::RequestLock { lock } => {
                out.push(7);
                push_u64(out, *lock);
            }
            Self::GrantLock { lock, grant, time } => {
                out.push(8);
                push_u64(out, *lock);
                push_u32(out, *grant);
                push_time(out, time);
            }
            Self::RecallLock { lock, grant } => {
                out.push(9);
                push_u64(out, *lock);
                push_u32(out, *grant);
            }
            Self::ReturnLock { lock, time, again } => {
                out.extend_from_slice(&[10, u8::from(*again)]);
                push_u64(out, *lock);
                push_time(out, time);
            }
            _ => clump_bug::bug!("locks only"),
        }
    }

    fn encode_barrier(&self, out: &mut Vec<u8>) {
        match self {
            Self::Arrive { barrier, count, members, time, moves } => {
                debug_assert!(count <= members, "members arrive");
                out.push(11);
                push_u64(out, *barrier);
                push_u32(out, *count);
                push_u32(out, *members);
                push_time(out, time);
                push_moves(out, moves);
            }
            Self::Depart { barrier, everybody, time, moves } => {
                out.extend_from_slice(&[12, u8::from(*everybody)]);
                push_u64(out, *barrier);
                push_time(out, time);
                push_moves(out, moves);
            }
            _ => clump_bug::bug!("barriers only"),
        }
    }

    fn encode_flag(&self, out: &mut Vec<u8>) {
        match self {
            Self::SetFlag { flag, value, time } => {
                out.push(13);
                push_u64(out, *flag);
                push_u64(out, *value);
                push_time(out, time);
            }
            Self::AwaitFlag { flag, at_least, rank } => {
                out.push(14);
                push_u64(out, *flag);
                push_u64(out, *at_least);
                push_u32(out, u32::from(*rank));
            }
            Self::FlagReached { flag, at_least, rank, time } => {
                out.push(15);
                push_u64(out, *flag);
                push_u64(out, *at_least);
                push_u32(out, u32::from(*rank));
                push_time(out, time);
            }
            _ => clump_bug::bug!("flags only"),
        }
    }

    /// Reads a message that [`NodeMessage::encode`] wrote, of a job with these limits. Bytes of
    /// pages are not checked.
    ///
    /// # Errors
    /// Fails if the bytes are no such message, or there are more of them.
    pub fn decode(limits: &MessageLimits, bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut fields = Fields { limits, from: ByteReader::new(bytes) };
        let message = match fields.byte()? {
            kind @ 0..=6 => fields.page_message(kind)?,
            kind @ 7..=10 => fields.lock_message(kind)?,
            kind @ 11..=15 => fields.group_message(kind)?,
            16 => fields.place_message()?,
            17 => NodeMessage::Placed { first: fields.page()? },
            _ => return Err(DecodeError::OutOfRange),
        };
        if fields.from.remaining() > 0 {
            return Err(DecodeError::OutOfRange);
        }
        debug_assert!(!bytes.is_empty(), "a message has a kind");
        debug_assert!(limits.nodes > 0, "there is a node");
        Ok(message)
    }
}

/// Fields of a message that is being read.
struct Fields<'a> {
    limits: &'a MessageLimits,
    from: ByteReader<'a>,
}

impl Fields<'_> {
    fn byte(&mut self) -> Result<u8, DecodeError> {
        Ok(self.from.take_bytes(1)?[0])
    }

    fn truth(&mut self) -> Result<bool, DecodeError> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(DecodeError::OutOfRange),
        }
    }

    fn number(&mut self) -> Result<u32, DecodeError> {
        self.from.take_u32()
    }

    fn long(&mut self) -> Result<u64, DecodeError> {
        let bytes = self.from.take_bytes(8)?;
        bytes.try_into().map(u64::from_le_bytes).map_err(|_| DecodeError::Truncated)
    }

    fn below(&mut self, bound: u32) -> Result<u32, DecodeError> {
        debug_assert!(bound > 0, "something is allowed");
        let value = self.from.take_u32()?;
        if value >= bound {
            return Err(DecodeError::OutOfRange);
        }
        debug_assert!(value < bound, "within its limit");
        Ok(value)
    }

    fn page(&mut self) -> Result<u32, DecodeError> {
        self.below(self.limits.pages)
    }

    fn node(&mut self) -> Result<u16, DecodeError> {
        self.from.take_node(usize::from(self.limits.nodes))
    }

    fn rank(&mut self) -> Result<u16, DecodeError> {
        Ok(self.below(u32::from(self.limits.ranks))? as u16)
    }

    fn time(&mut self) -> Result<VectorTime, DecodeError> {
        VectorTime::decode(&VectorTime::zero(usize::from(self.limits.nodes)), &mut self.from)
    }

    fn version(&mut self) -> Result<PageVersion, DecodeError> {
        PageVersion::decode(usize::from(self.limits.nodes), &mut self.from)
    }

    fn rest(&mut self) -> Result<Vec<u8>, DecodeError> {
        Ok(self.from.take_bytes(self.from.remaining())?.to_vec())
    }

    fn moves(&mut self) -> Result<Vec<HomeMove>, DecodeError> {
        let mut moves: Vec<HomeMove> = Vec::new();
        for _ in 0..self.number()? {
            let moved = HomeMove { page: self.page()?, from: self.node()?, to: self.node()? };
            if moved.from == moved.to || moves.last().is_some_and(|last| last.page >= moved.page) {
                return Err(DecodeError::Unordered);
            }
            moves.push(moved);
        }
        debug_assert!(moves.len() <= self.limits.pages as usize, "no page twice");
        debug_assert!(moves.iter().all(|moved| moved.to < self.limits.nodes));
        Ok(moves)
    }

    fn diffs(&mut self, interval: u32) -> Result<Vec<PageDiff<Vec<u8>>>, DecodeError> {
        let mut diffs = Vec::new();
        for _ in 0..self.number()? {
            let of = WrittenPage { page: self.page()?, after: self.number()? };
            let (part, parts) = (self.number()?, self.number()?);
            if of.after >= interval || part >= parts {
                return Err(DecodeError::Unordered);
            }
            let bytes = self.number()? as usize;
            diffs.push(PageDiff {
                of,
                part,
                parts,
                payload: self.from.take_bytes(bytes)?.to_vec(),
            });
        }
        debug_assert!(diffs.iter().all(|diff| diff.of.page < self.limits.pages));
        debug_assert!(diffs.iter().all(|diff| diff.of.after < interval), "the diff before");
        Ok(diffs)
    }

    fn page_message(&mut self, kind: u8) -> Result<NodeMessage<Vec<u8>>, DecodeError> {
        debug_assert!(kind <= 6, "notices, pages and the directory");
        debug_assert!(self.limits.pages > 0, "there are pages");
        let nodes = usize::from(self.limits.nodes);
        match kind {
            0 => {
                Interval::decode(nodes, self.limits.pages, &mut self.from).map(NodeMessage::Notices)
            }
            1 => {
                let (after, until) = (self.number()?, self.number()?);
                if after >= until {
                    return Err(DecodeError::Unordered);
                }
                Ok(NodeMessage::PullNotices { after, until })
            }
            2 => {
                let writer = self.node()?;
                let (interval, epoch, time) = (self.number()?, self.number()?, self.time()?);
                let diffs = self.diffs(interval)?;
                Ok(NodeMessage::Diffs(DiffHeader { writer, interval, epoch, time }, diffs))
            }
            3 => {
                let moving = self.truth()?;
                Ok(NodeMessage::Fetch { page: self.page()?, required: self.version()?, moving })
            }
            4 => {
                let (page, version, time) = (self.page()?, self.version()?, self.time()?);
                Ok(NodeMessage::Page { page, version, time, payload: self.rest()? })
            }
            5 => {
                let claim = self.truth()?;
                Ok(NodeMessage::AskHome { page: self.page()?, claim })
            }
            _ => {
                let known = self.truth()?;
                let (page, home) = (self.page()?, self.node()?);
                Ok(NodeMessage::HomeIs { page, home: known.then_some(home) })
            }
        }
    }

    fn lock_message(&mut self, kind: u8) -> Result<NodeMessage<Vec<u8>>, DecodeError> {
        debug_assert!((7..=10).contains(&kind), "locks");
        let again = if kind == 10 { self.truth()? } else { false };
        let lock = self.long()?;
        debug_assert!(!again || kind == 10, "only a return asks again");
        Ok(match kind {
            7 => NodeMessage::RequestLock { lock },
            8 => NodeMessage::GrantLock { lock, grant: self.number()?, time: self.time()? },
            9 => NodeMessage::RecallLock { lock, grant: self.number()? },
            _ => NodeMessage::ReturnLock { lock, time: self.time()?, again },
        })
    }

    fn place_message(&mut self) -> Result<NodeMessage<Vec<u8>>, DecodeError> {
        let (first, pages) = (self.page()?, self.number()?);
        let end = first.checked_add(pages).filter(|&end| end <= self.limits.pages);
        let rule = RangeRule::of_number(self.number()?, self.limits.nodes);
        debug_assert!(first < self.limits.pages, "the range begins at a page");
        match (end, rule) {
            (Some(_), Some(rule)) if pages > 0 => Ok(NodeMessage::Place { first, pages, rule }),
            _ => Err(DecodeError::OutOfRange),
        }
    }

    fn group_message(&mut self, kind: u8) -> Result<NodeMessage<Vec<u8>>, DecodeError> {
        debug_assert!((11..=15).contains(&kind), "barriers and flags");
        let everybody = if kind == 12 { self.truth()? } else { false };
        let id = self.long()?;
        debug_assert!(!everybody || kind == 12, "only an end has this flag");
        Ok(match kind {
            11 => {
                let (count, members) = (self.number()?, self.number()?);
                if count == 0 || count > members {
                    return Err(DecodeError::OutOfRange);
                }
                let (time, moves) = (self.time()?, self.moves()?);
                NodeMessage::Arrive { barrier: id, count, members, time, moves }
            }
            12 => {
                let (time, moves) = (self.time()?, self.moves()?);
                NodeMessage::Depart { barrier: id, everybody, time, moves }
            }
            13 => NodeMessage::SetFlag { flag: id, value: self.long()?, time: self.time()? },
            14 => NodeMessage::AwaitFlag { flag: id, at_least: self.long()?, rank: self.rank()? },
            _ => NodeMessage::FlagReached {
                flag: id,
                at_least: self.long()?,
                rank: self.rank()?,
                time: self.time()?,
            },
        })
    }
}
