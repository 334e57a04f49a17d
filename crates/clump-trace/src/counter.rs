//! The table of counters: the only place where one gets its name, unit and meaning.

/// The unit of a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CounterUnit {
    /// A number of events.
    Count,
    /// Payload bytes, headers not included.
    Bytes,
    /// A span of time in nanoseconds, summed up.
    Nanoseconds,
    /// A time of the machine's monotonic clock in nanoseconds; zero until the event.
    Moment,
}

impl CounterUnit {
    /// Returns the unit's symbol in tables; empty for a plain count.
    pub const fn symbol(self) -> &'static str {
        match self {
            CounterUnit::Count => "",
            CounterUnit::Bytes => "B",
            CounterUnit::Nanoseconds | CounterUnit::Moment => "ns",
        }
    }
}

macro_rules! counters {
    ($($variant:ident $name:literal $unit:ident $help:literal;)+) => {
        /// A counter of the message paths; the discriminant is its cell in a block.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(usize)]
        pub enum Counter {
            $(#[doc = $help] $variant),+
        }

        impl Counter {
            /// Every counter, in the order of the cells.
            pub const ALL: &'static [Counter] = &[$(Counter::$variant),+];

            /// Returns its name in reports, JSON and `clump stats`.
            pub const fn name(self) -> &'static str {
                match self { $(Counter::$variant => $name),+ }
            }

            /// Returns its unit.
            pub const fn unit(self) -> CounterUnit {
                match self { $(Counter::$variant => CounterUnit::$unit),+ }
            }

            /// Returns its one-line description.
            pub const fn help(self) -> &'static str {
                match self { $(Counter::$variant => $help),+ }
            }
        }
    };
}

counters! {
    RequestShortSent       "shm.request.short.sent"        Count "Short requests accepted for delivery.";
    RequestShortSentBytes  "shm.request.short.sent_bytes"  Bytes "Payload bytes of short requests accepted for delivery.";
    RequestMediumSent      "shm.request.medium.sent"       Count "Medium requests accepted for delivery.";
    RequestMediumSentBytes "shm.request.medium.sent_bytes" Bytes "Payload bytes of medium requests accepted for delivery.";
    RequestLongSent        "shm.request.long.sent"         Count "Long requests accepted for delivery.";
    RequestLongSentBytes   "shm.request.long.sent_bytes"   Bytes "Payload bytes of long requests accepted for delivery.";
    ReplyShortSent         "shm.reply.short.sent"          Count "Short replies accepted for delivery.";
    ReplyShortSentBytes    "shm.reply.short.sent_bytes"    Bytes "Payload bytes of short replies accepted for delivery.";
    ReplyMediumSent        "shm.reply.medium.sent"         Count "Medium replies accepted for delivery.";
    ReplyMediumSentBytes   "shm.reply.medium.sent_bytes"   Bytes "Payload bytes of medium replies accepted for delivery.";
    ReplyLongSent          "shm.reply.long.sent"           Count "Long replies accepted for delivery.";
    ReplyLongSentBytes     "shm.reply.long.sent_bytes"     Bytes "Payload bytes of long replies accepted for delivery.";
    RequestShortReceived       "shm.request.short.received"        Count "Short requests given to a handler.";
    RequestShortReceivedBytes  "shm.request.short.received_bytes"  Bytes "Payload bytes of short requests given to a handler.";
    RequestMediumReceived      "shm.request.medium.received"       Count "Medium requests given to a handler.";
    RequestMediumReceivedBytes "shm.request.medium.received_bytes" Bytes "Payload bytes of medium requests given to a handler.";
    RequestLongReceived        "shm.request.long.received"         Count "Long requests given to a handler.";
    RequestLongReceivedBytes   "shm.request.long.received_bytes"   Bytes "Payload bytes of long requests given to a handler.";
    ReplyShortReceived         "shm.reply.short.received"          Count "Short replies given to a handler.";
    ReplyShortReceivedBytes    "shm.reply.short.received_bytes"    Bytes "Payload bytes of short replies given to a handler.";
    ReplyMediumReceived        "shm.reply.medium.received"         Count "Medium replies given to a handler.";
    ReplyMediumReceivedBytes   "shm.reply.medium.received_bytes"   Bytes "Payload bytes of medium replies given to a handler.";
    ReplyLongReceived          "shm.reply.long.received"           Count "Long replies given to a handler.";
    ReplyLongReceivedBytes     "shm.reply.long.received_bytes"     Bytes "Payload bytes of long replies given to a handler.";

    NetRequestShortSent       "net.request.short.sent"        Count "Short requests accepted for delivery to other nodes.";
    NetRequestShortSentBytes  "net.request.short.sent_bytes"  Bytes "Payload bytes of short requests accepted for delivery to other nodes.";
    NetRequestMediumSent      "net.request.medium.sent"       Count "Medium requests accepted for delivery to other nodes.";
    NetRequestMediumSentBytes "net.request.medium.sent_bytes" Bytes "Payload bytes of medium requests accepted for delivery to other nodes.";
    NetRequestLongSent        "net.request.long.sent"         Count "Long requests accepted for delivery to other nodes.";
    NetRequestLongSentBytes   "net.request.long.sent_bytes"   Bytes "Payload bytes of long requests accepted for delivery to other nodes.";
    NetReplyShortSent         "net.reply.short.sent"          Count "Short replies accepted for delivery to other nodes.";
    NetReplyShortSentBytes    "net.reply.short.sent_bytes"    Bytes "Payload bytes of short replies accepted for delivery to other nodes.";
    NetReplyMediumSent        "net.reply.medium.sent"         Count "Medium replies accepted for delivery to other nodes.";
    NetReplyMediumSentBytes   "net.reply.medium.sent_bytes"   Bytes "Payload bytes of medium replies accepted for delivery to other nodes.";
    NetReplyLongSent          "net.reply.long.sent"           Count "Long replies accepted for delivery to other nodes.";
    NetReplyLongSentBytes     "net.reply.long.sent_bytes"     Bytes "Payload bytes of long replies accepted for delivery to other nodes.";
    NetRequestShortReceived       "net.request.short.received"        Count "Short requests from other nodes given to a handler.";
    NetRequestShortReceivedBytes  "net.request.short.received_bytes"  Bytes "Payload bytes of short requests from other nodes given to a handler.";
    NetRequestMediumReceived      "net.request.medium.received"       Count "Medium requests from other nodes given to a handler.";
    NetRequestMediumReceivedBytes "net.request.medium.received_bytes" Bytes "Payload bytes of medium requests from other nodes given to a handler.";
    NetRequestLongReceived        "net.request.long.received"         Count "Long requests from other nodes given to a handler.";
    NetRequestLongReceivedBytes   "net.request.long.received_bytes"   Bytes "Payload bytes of long requests from other nodes given to a handler.";
    NetReplyShortReceived         "net.reply.short.received"          Count "Short replies from other nodes given to a handler.";
    NetReplyShortReceivedBytes    "net.reply.short.received_bytes"    Bytes "Payload bytes of short replies from other nodes given to a handler.";
    NetReplyMediumReceived        "net.reply.medium.received"         Count "Medium replies from other nodes given to a handler.";
    NetReplyMediumReceivedBytes   "net.reply.medium.received_bytes"   Bytes "Payload bytes of medium replies from other nodes given to a handler.";
    NetReplyLongReceived          "net.reply.long.received"           Count "Long replies from other nodes given to a handler.";
    NetReplyLongReceivedBytes     "net.reply.long.received_bytes"     Bytes "Payload bytes of long replies from other nodes given to a handler.";

    NetFull          "net.full"             Count "Times a sender found no room for a message to another node and had to wait.";
    NetHeld          "net.held"             Count "Messages from other nodes that waited at a proxy because their endpoint's queue was full.";
    NetPolls         "net.polls"            Count "Network polls.";
    NetPollsEmpty    "net.polls.empty"      Count "Network polls that found nothing.";
    NetPacketsSent   "net.packets.sent"     Count "Packets sent to other nodes, acknowledgements included.";
    NetBytesSent     "net.bytes.sent"       Bytes "Bytes of packets sent to other nodes, headers included.";
    NetAcksSent      "net.acks.sent"        Count "Packets sent that only acknowledge.";
    NetUnitsSent     "net.units.sent"       Count "Packets' worth of messages sent for the first time.";
    NetUnitsResent   "net.units.resent"     Count "Packets' worth of messages sent again.";
    NetUnitsSpurious "net.units.spurious"   Count "Those of them that had arrived the first time.";
    NetUnitsAhead    "net.units.ahead"      Count "Packets' worth of control messages that were sent ahead of waiting data.";
    NetUnitsFragmented   "net.units.fragmented"     Count "Packets' worth of messages that their path carried in parts only.";
    NetPacketsReceived "net.packets.received" Count "Authentic packets received.";
    NetBytesReceived "net.bytes.received"   Bytes "Bytes of those, headers included.";
    NetDuplicates    "net.units.duplicate"  Count "Packets' worth of messages that had arrived before.";
    NetForeign       "net.packets.foreign"  Count "Packets thrown away: of another job, for another rank, of another incarnation.";
    NetForged        "net.packets.forged"   Count "Packets thrown away: forged or damaged.";
    NetReplayed      "net.packets.replayed" Count "Packets thrown away: received before.";
    NetMalformed     "net.packets.malformed" Count "Packets thrown away: not of our format.";
    NetFramesMalformed "net.frames.malformed" Count "Frames thrown away: authentic, but not what a correct peer sends.";
    NetSendsRefused  "net.sends.refused"    Count "Packets that the operating system did not take at once; they are offered again.";
    NetOverflowed    "net.packets.overflowed" Count "Packets that the operating system dropped because a socket's receive buffer was full; they are sent again.";
    NetReceivesFailed "net.receives.failed" Count "Receptions that the operating system refused; if that lasts for a second, it ends the job.";
    NetReturnedHere  "net.returned"         Count "Messages sent back to other nodes: no endpoint here takes them.";
    NetCreditsSent   "net.credits.sent"     Count "Reports of consumed requests sent to other nodes.";
    NetMarks         "net.marks"            Count "Packets that arrived marked for congestion.";
    NetPath0         "net.path.0.sent"      Count "Packets sent by the first of several addresses; none where there is one.";
    NetPath1         "net.path.1.sent"      Count "Packets sent by the second address.";
    NetPath2         "net.path.2.sent"      Count "Packets sent by the third address.";
    NetPath3         "net.path.3.sent"      Count "Packets sent by the fourth address.";
    NetPathsOut      "net.paths.out"        Count "Times that a path to a peer was taken out of use because nothing arrived by it.";
    NetPathsBack     "net.paths.back"       Count "Times that a path to a peer was put back into use.";
    NetPathsNarrowed "net.paths.narrowed"   Count "Times that a path to a peer was found to carry only shorter packets than before.";
    NetStreamsOpened "net.streams.opened"   Count "Streams for bulk begun to peers on other nodes.";
    NetStreamsGivenUp "net.streams.given_up" Count "Streams given up by their sender: the peer's port was not reached in 2 s (a firewall between them lets no TCP through), or the stream was cut or stuck.";
    NetStreamsBroken "net.streams.broken"   Count "Streams from peers that ended or brought what was not the peer's; what was missing came by datagrams.";
    NetRecordsSent   "net.records.sent"     Count "Parts of bulk messages sent by streams.";
    NetRecordsReceived "net.records.received" Count "Authentic parts of bulk messages received by streams.";

    RmaExecuted          "rma.executed"           Count "Requests of one-sided operations that this network interface executed.";
    RmaRefused           "rma.refused"            Count "Those of them that were refused.";
    RmaServices          "rma.services"           Count "Those of them that used a service: batches, gathers, words that are waited for, shared pages.";
    RmaServicesLater     "rma.services.later"     Count "Requests to services that were not answered at once.";
    RmaServicesAsked     "rma.services.asked"     Count "Requests of services to other network interfaces.";
    RmaServicesJoined    "rma.services.joined"    Count "Requests forwarded together with those of other ranks.";
    RmaServicesDelayed   "rma.services.delayed"   Count "Requests that waited until less was being forwarded.";
    RmaLocks             "rma.locks"              Count "Locks that this rank acquired.";
    RmaLocksFailed       "rma.locks.failed"       Count "Attempts at locks that were not free, or not in time.";

    PgasCollected        "pgas.collected"         Count "Small operations on other nodes that were sent in batches.";
    PgasForwarded        "pgas.forwarded"         Count "Those of them that were sent by way of another network interface.";
    PgasBatchesFull      "pgas.batches.full"      Count "Batches sent because they were full.";
    PgasBatchesOld       "pgas.batches.old"       Count "Batches sent because they were old.";
    PgasBatchesDisplaced "pgas.batches.displaced" Count "Batches sent to make room for others.";
    PgasBatchesFlushed   "pgas.batches.flushed"   Count "Batches sent because the rank was about to wait.";

    ConnEstablished          "conn.established"             Count "Connections with other jobs that were established.";
    ConnForeign    "conn.foreign"       Count "Packets to handshake sockets that were not made with a valid token.";
    ConnRefused      "conn.refused"         Count "Connections of other jobs that were refused, or for which no resources were left.";
    ConnPutOff       "conn.put_off"         Count "Connections of other jobs that were answered with a retry while other handshakes were pending.";
    ConnGivenUp      "conn.given_up"        Count "Connections of other jobs whose handshake timed out after the answer.";

    ReturnedBadArguments  "am.returned.bad_arguments"    Count "Messages returned: malformed arguments.";
    ReturnedNoEndpoint    "am.returned.no_such_endpoint" Count "Messages returned: the name leads to no endpoint.";
    ReturnedBadTag        "am.returned.bad_tag"          Count "Messages returned: the tag gave no right of access.";
    ReturnedBadHandler    "am.returned.bad_handler"      Count "Messages returned: no handler under that number.";
    ReturnedBadOffset     "am.returned.bad_offset"       Count "Messages returned: deposit outside the target's segment.";
    ReturnedBadLength     "am.returned.bad_length"       Count "Messages returned: payload longer than the target takes.";
    ReturnedEndpointGone  "am.returned.endpoint_gone"    Count "Messages returned: the endpoint has been closed.";
    ReturnedPeerLost      "am.returned.peer_lost"        Count "Messages returned: the target's process is dead.";
    ReturnedCongestion    "am.returned.congestion"       Count "Messages returned: the target took nothing for too long.";
    ReturnedReplyRejected "am.returned.reply_rejected"   Count "Replies returned: the requester rejected them.";

    HandlerRuns      "am.handler.runs"      Count "Handlers run, those for returned messages included.";
    Polls            "am.polls"             Count "Endpoint polls.";
    PollsEmpty       "am.polls.empty"       Count "Endpoint polls that found no message.";
    Deferred         "am.requests.deferred" Count "Requests made in a handler and sent after it.";
    RepliesDeferred  "am.replies.deferred" Count "Replies deferred because their lane or queue was full.";
    Malformed        "am.malformed"         Count "Slots dropped because no correct sender writes such a header.";

    LaneFull         "shm.lane.full"        Count "Times a sender found its lane full and had to wait.";
    BulkFull         "shm.bulk.full"        Count "Times a sender found no room for a medium payload.";
    QueueFull        "shm.queue.full"       Count "Times a sender found the shared queue full.";
    LaneClaims       "shm.lane.claims"      Count "Lanes claimed for a receiver.";
    LanesPolled      "shm.lane.polled"      Count "Lanes that became busy and are read on every poll.";
    LanesArmed      "shm.lane.armed"      Count "Lanes that fell idle and whose notification was armed: read on a doorbell only.";
    QueueFallbacks   "shm.queue.fallbacks"  Count "Messages that took the shared queue because no lane was free.";
    QueueAbandoned   "shm.queue.abandoned"  Count "Slots recovered from a sender that died between claim and publication.";
    DoorbellRings    "shm.doorbell.rings"   Count "Doorbells rung for a lane or queue with armed notification.";

    Waits            "wait.waits"           Count "Waits that found nothing at the first poll.";
    Yields           "wait.yields"          Count "Times that a waiting thread yielded the processor.";
    PollYields       "wait.yields.polls"    Count "Yields in polling loops of the program.";
    Parks            "wait.parks"           Count "Sleeps in the kernel.";
    PollSleeps       "wait.parks.polls"     Count "Short sleeps in polling loops of the program, beside others that compute.";
    WakesSent        "wait.wakes.sent"      Count "System calls made to wake a sleeping peer.";
    CreditWakes      "wait.wakes.credit"    Count "System calls made to wake a peer that waited for room, or until all it sent was read.";
    WakesReceived    "wait.wakes.received"  Count "Sleeps ended by a peer.";

    Barriers         "coll.barriers"        Count "Barriers passed.";
    BarrierWait      "coll.barrier.wait_ns" Nanoseconds "Time spent in barriers.";
    Broadcasts       "coll.broadcasts"      Count "Broadcasts taken part in.";
    AllGathers        "coll.all_gathers"       Count "All-gathers taken part in.";
    AllReduces       "coll.all_reduces"     Count "All-reduces taken part in.";
    Gathers          "coll.gathers"         Count "Gathers taken part in.";
    Scatters         "coll.scatters"        Count "Scatters taken part in.";
    AllToAlls        "coll.all_to_alls"     Count "All-to-alls taken part in.";
    Reduces          "coll.reduces"         Count "Reduces taken part in.";
    Scans            "coll.scans"           Count "Scans taken part in.";

    SvmOpen          "svm.open_ns"          Nanoseconds "Time since this rank opened the shared heap, at its last synchronisation; of further threads, from their first use of it to their last.";
    SvmFaults        "svm.faults"           Count "Page faults of the shared heap.";
    SvmStoreFaults   "svm.faults.stores"    Count "Page faults that were stores.";
    SvmFaultWait     "svm.faults_ns"        Nanoseconds "Time in page faults.";
    SvmLocks         "svm.locks"            Count "Acquires of locks, and waits for flags, of the shared heap.";
    SvmLockWait      "svm.locks_ns"         Nanoseconds "Time in these.";
    SvmFlags         "svm.locks.flags"      Count "Waits for flags among these.";
    SvmFlagWait      "svm.locks.flags_ns"   Nanoseconds "Time in waits for flags.";
    SvmReleases      "svm.releases"         Count "Releases of locks, flags set, and fences, of the shared heap.";
    SvmReleaseTime   "svm.releases_ns"      Nanoseconds "Time in these.";
    SvmPutOff        "svm.releases.put_off" Count "Releases of locks among these that have published nothing: it is published when another rank waits for it.";
    SvmBarriers      "svm.barriers"         Count "Barriers of the shared heap.";
    SvmBarrierWait   "svm.barriers_ns"      Nanoseconds "Time in these.";
    SvmBarrierOthers "svm.barriers.others_ns" Nanoseconds "Time in these until all ranks had arrived and the interface answered; the rest is this rank's part of the protocol.";
    SvmProtocol      "svm.protocol"         Count "Step of the protocol ladder of the shared heap, from 1; 0: none, on one node.";
    SvmWoken         "svm.woken"            Count "Requests of other nodes that a thread of this rank's node was woken for.";
    SvmSent          "svm.sent"             Count "Protocol messages that this rank's node has sent for the shared heap; at its first rank.";
    SvmSentDiffs     "svm.sent.diffs"       Count "Those with diffs.";
    SvmAhead         "svm.ahead"            Count "Pages that this rank has fetched before their use, for what it used before.";
    SvmAheadUnused   "svm.ahead.unused"     Count "Those found not to be used: one use in eight is looked at.";
    SvmProtections   "svm.protections"      Count "Changes of rights on pages by the kernel.";
    SvmProtectionTime "svm.protections_ns"  Nanoseconds "Time in these.";

    ProcessorWait    "processor.waited_ns"  Nanoseconds "Time for which this rank could have run but waited for a processor; known when it leaves.";
    Preemptions      "processor.preemptions" Count "Times that the kernel took the processor from this rank; known when it leaves.";

    Joined           "rank.joined_ns"       Moment "Time at which this rank joined the job.";
    Finalized        "rank.finalized_ns"    Moment "Time at which this rank finalized.";
}

/// The role of a message: request or reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// A request.
    Request,
    /// A reply.
    Reply,
}

/// The three kinds of active message (paper 000, section 2.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// Words only.
    Short,
    /// A payload copied into a buffer of the target.
    Medium,
    /// A payload deposited in the target's segment.
    Long,
}

/// The end of a message that counts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// The sender, once the message is accepted for delivery.
    Sent,
    /// The receiver, once the message is given to its handler.
    Received,
}

impl Counter {
    /// The number of counters.
    pub const COUNT: usize = Self::ALL.len();

    /// Returns the counter of messages of this role and size at this end.
    #[inline(always)]
    pub const fn messages(role: Role, size: Size, flow: Flow) -> Counter {
        use Counter as C;
        match (flow, role, size) {
            (Flow::Sent, Role::Request, Size::Short) => C::RequestShortSent,
            (Flow::Sent, Role::Request, Size::Medium) => C::RequestMediumSent,
            (Flow::Sent, Role::Request, Size::Long) => C::RequestLongSent,
            (Flow::Sent, Role::Reply, Size::Short) => C::ReplyShortSent,
            (Flow::Sent, Role::Reply, Size::Medium) => C::ReplyMediumSent,
            (Flow::Sent, Role::Reply, Size::Long) => C::ReplyLongSent,
            (Flow::Received, Role::Request, Size::Short) => C::RequestShortReceived,
            (Flow::Received, Role::Request, Size::Medium) => C::RequestMediumReceived,
            (Flow::Received, Role::Request, Size::Long) => C::RequestLongReceived,
            (Flow::Received, Role::Reply, Size::Short) => C::ReplyShortReceived,
            (Flow::Received, Role::Reply, Size::Medium) => C::ReplyMediumReceived,
            (Flow::Received, Role::Reply, Size::Long) => C::ReplyLongReceived,
        }
    }

    /// Returns the counter of payload bytes that belongs to [`Counter::messages`].
    #[inline(always)]
    pub const fn bytes(role: Role, size: Size, flow: Flow) -> Counter {
        // Each follows its messages, as a test of the table checks.
        Self::ALL[Self::messages(role, size, flow) as usize + 1]
    }

    /// Maps a counter of messages or their bytes in shared memory to its counterpart for messages
    /// between nodes.
    #[inline(always)]
    pub const fn over_network(self) -> Counter {
        let distance = Counter::NetRequestShortSent as usize - Counter::RequestShortSent as usize;
        Self::ALL[self as usize + distance]
    }

    /// Returns the counter of that name.
    pub fn named(name: &str) -> Option<Counter> {
        Self::ALL.iter().copied().find(|c| c.name() == name)
    }
}

/// Returns every kind of message at each end.
pub(crate) fn kinds() -> impl Iterator<Item = (Role, Size, Flow)> {
    let sizes = [Size::Short, Size::Medium, Size::Long];
    let of = move |role| sizes.map(|size| [(role, size, Flow::Sent), (role, size, Flow::Received)]);
    [Role::Request, Role::Reply].into_iter().flat_map(of).flatten()
}

/// Hash of the whole table: names and units in order (64-bit FNV-1a).
pub const LAYOUT: u64 = {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    let mut at = 0;
    while at < Counter::COUNT {
        let name = Counter::ALL[at].name().as_bytes();
        let mut byte = 0;
        while byte < name.len() {
            hash = (hash ^ name[byte] as u64).wrapping_mul(0x100_0000_01b3);
            byte += 1;
        }
        hash = (hash ^ Counter::ALL[at].unit() as u64).wrapping_mul(0x100_0000_01b3);
        at += 1;
    }
    hash
};

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_are_unique_and_lead_back() {
        let names: HashSet<_> = Counter::ALL.iter().map(|c| c.name()).collect();
        assert_eq!(names.len(), Counter::COUNT);
        for (cell, &counter) in Counter::ALL.iter().enumerate() {
            assert_eq!(counter as usize, cell);
            assert_eq!(Counter::named(counter.name()), Some(counter));
            assert!(counter.help().ends_with('.'), "{counter:?}: help is a sentence");
        }
        assert_eq!(Counter::named("shm.no.such"), None);
    }

    #[test]
    fn message_counters_match_their_names() {
        for (role, r) in [(Role::Request, "request"), (Role::Reply, "reply")] {
            for (size, s) in
                [(Size::Short, "short"), (Size::Medium, "medium"), (Size::Long, "long")]
            {
                for (flow, f) in [(Flow::Sent, "sent"), (Flow::Received, "received")] {
                    let name = format!("shm.{r}.{s}.{f}");
                    assert_eq!(Counter::messages(role, size, flow).name(), name);
                    assert_eq!(Counter::bytes(role, size, flow).name(), format!("{name}_bytes"));
                    assert_eq!(Counter::bytes(role, size, flow).unit(), CounterUnit::Bytes);
                    let net = Counter::messages(role, size, flow).over_network().name();
                    assert_eq!(net, format!("net.{r}.{s}.{f}"));
                    let net = Counter::bytes(role, size, flow).over_network().name();
                    assert_eq!(net, format!("net.{r}.{s}.{f}_bytes"));
                }
            }
        }
    }
}
