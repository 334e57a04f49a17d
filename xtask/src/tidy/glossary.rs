//! The field's words: names that have a term in MPI, UCX, RDMA, QUIC or operating systems use it,
//! and prose does without the riddles that stood for it.

use super::counted::Counted;
use super::finding::Finding;
use super::ratchet::Section;
use super::tree::Tree;
use crate::source::words;
use anyhow::Result;

/// Identifiers that are never used, and what the field says instead.
const IDENTIFIERS: &[(&[&str], &str)] = &[
    (&["answer_bells"], "process_doorbells"),
    (&["come_back", "send_back"], "return_to_sender"),
    (&["urge"], "force_network_poll"),
    (&["vouches_for"], "authenticates"),
    (&["on_genuine"], "on_authenticated"),
    (&["send_kept"], "send_zero_copy"),
    (&["take_leave"], "begin_close"),
    (&["volley", "salvo"], "send_burst"),
    (&["Berth", "berth"], "EndpointCell"),
    (&["Desk"], "HandlerContext, or what it is the environment of"),
    (
        &["Heart", "Jury", "Pulse", "jury"],
        "HeartbeatSocket, MembershipArbiter, FailureDetector, PollSchedule",
    ),
    (&["Conduit"], "PeerConnection"),
    (&["Portal"], "ProxyClient"),
    (&["Carrier"], "Transport"),
    (&["Inlet", "Outlets"], "SubmissionQueue, DeliveryQueue"),
    (&["Doors", "Gate"], "EndpointTable, its entry"),
    (&["Mail"], "QueuedMessage"),
    (&["Covers", "Shelf", "Gathering"], "SealedBuffers, BufferPool, UndeliveredMessages"),
    (
        &["Portion", "Stretch", "Shot", "Farewell", "Farewells"],
        "fragment, PacketRef, CloseHandshake",
    ),
    (&["Courtesy", "Heir", "Heirs", "Worded"], "YieldPolicy, Successor, EncodedRequest"),
    (
        &["Several", "Passage", "Knock", "Meeting"],
        "multirail, zero-copy pipe, ConnectAttempt, Handshake",
    ),
    (
        &["Weather", "Ghost", "Booth", "Contestant", "Purse"],
        "LinkChange, StaleStack, ProxyClientRank, Implementation, MemoryBudget",
    ),
    (&["Tied", "Parcel", "TemperatureLine"], "BoundChild, ScmMessage, PollFlag"),
];

/// Beginnings of constants that are never used, and their replacement.
const PREFIXES: &[(&str, &str)] = &[("MOST_", "MAX_"), ("LEAST_", "MIN_")];

/// Words of prose that need learning although the field has its own, and what to write.
const PROSE: &[(&[&str], &str)] = &[
    (&["berth", "berths"], "endpoint cell"),
    (
        &["jury", "juries", "accuse", "accuses", "accused", "accusation", "accusations"],
        "suspect, arbiter",
    ),
    (&["ghost", "ghosts", "haunt", "haunts"], "stale stack"),
    (&["volley", "volleys", "salvo"], "burst"),
    (&["heir", "heirs"], "successor"),
    (&["whoever", "whomever", "whom"], "the thing itself: ranks, agents and threads are `it`"),
    (&["farewell", "farewells"], "close handshake"),
    (&["portal", "portals"], "proxy client"),
    (&["conduit", "conduits"], "peer connection"),
    (&["courtesy"], "yield policy"),
    (&["purse"], "memory budget"),
    (&["knock", "knocks", "knocking"], "connect attempt, hello"),
    (&["contestant", "contestants"], "implementation"),
];

/// The folder of these tables, of those of other rules and of their tests.
const OWN: &str = "xtask/src/tidy/";

/// Returns what this rule counts: words of comments, strings and documents, by crate.
pub fn sections(tree: &Tree) -> Vec<Section> {
    vec![prose(tree).section()]
}

/// Banned identifiers, and banned words of prose beyond the ratchet.
///
/// # Errors
/// Fails if the ratchet cannot be read.
pub fn check(tree: &Tree) -> Result<Vec<Finding>> {
    let mut findings = prose(tree).findings(tree)?;
    for (file, source) in tree.rust().filter(|(f, _)| !f.path.starts_with(OWN)) {
        for (number, line) in source.lines.iter().enumerate() {
            for (_, word) in words(&line.code) {
                if let Some(remedy) = identifier(word) {
                    let what = format!("`{word}`: the field says {remedy}");
                    findings.push(Finding::at(&file.path, number, what));
                }
            }
        }
    }
    Ok(findings)
}

fn identifier(word: &str) -> Option<String> {
    let banned = IDENTIFIERS.iter().find(|(names, _)| names.contains(&word));
    let prefix = || {
        let (old, new) = PREFIXES.iter().find(|(old, _)| word.starts_with(old))?;
        Some(word.replacen(old, new, 1))
    };
    banned.map(|(_, remedy)| (*remedy).to_owned()).or_else(prefix)
}

fn prose(tree: &Tree) -> Counted {
    let mut counted = Counted::new("prose");
    for file in tree.files.iter().filter(|f| !f.path.starts_with(OWN)) {
        let markdown = file.path.ends_with(".md");
        let comments = file.source.as_ref();
        for (number, text) in file.text.lines().enumerate() {
            let texts = match comments {
                Some(source) => [&*source.lines[number].comment, &*source.lines[number].text],
                None if markdown => [text, ""],
                None => continue,
            };
            for (_, word) in texts.into_iter().flat_map(words) {
                let word = word.to_lowercase();
                if let Some((_, remedy)) =
                    PROSE.iter().find(|(banned, _)| banned.contains(&word.as_str()))
                {
                    counted.add(&file.path, number, format!("`{word}`: write {remedy}"));
                }
            }
        }
    }
    counted
}
