//! Contributions to collectives that arrived before they were requested.

use crate::signature::Signature;
use crate::team_disagreements::{Disagreement, TeamDisagreements};
use clump_am::ErrorKind;
use std::collections::{HashMap, HashSet};

/// Key of a contribution: the team, number of the collective, sending rank of the job, step of the
/// collective.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct PartId {
    pub(crate) team: u64,
    pub(crate) seq: u64,
    pub(crate) from: u32,
    pub(crate) step: u64,
}

/// Offset of a fragment in its contribution, and length of the contribution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FragmentRange {
    pub(crate) offset: u64,
    pub(crate) total: u64,
}

/// Fragments of contributions as they arrive, in any order and each once. The place that a fragment
/// claims does not decide about memory: only bytes that have arrived are kept.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    parts: HashMap<PartId, PartFragments>,
    broken: HashMap<u64, Broken>,
    /// Collectives that this rank executes, by team: their numbers and signatures.
    calls: HashMap<u64, (u64, Signature)>,
    /// Collectives that ranks do not agree about, by team.
    disagreements: HashMap<u64, TeamDisagreements>,
    /// Memory for fragments to come.
    spare: Vec<Vec<u8>>,
    /// Teams that are gone and of which contributions may still come, because one of their
    /// collectives failed.
    gone: HashSet<u64>,
}

/// First collective of a team that cannot be executed any more, and the rank whose leaving is the
/// cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Broken {
    /// The first collective that failed.
    pub(crate) seq: u64,
    /// The rank that had left.
    pub(crate) by: u32,
}

#[derive(Debug, Default)]
struct PartFragments {
    signature: Signature,
    total: u64,
    bytes: u64,
    fragments: Vec<(u64, Vec<u8>)>,
}

/// Fragments that do not make up a contribution of the expected length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PartMismatch {
    /// The ranks do not agree about the length.
    #[error(
        "rank {from} gave {given} bytes to collective {seq} where others expect {expected}; all \
         must give equally many values of one type"
    )]
    Length { from: u32, seq: u64, given: u64, expected: u64 },
    /// The ranks execute different collectives.
    #[error(
        "rank {from} executes {theirs} as collective {seq} of a team, others {mine}; all call the \
         same ones in the same order"
    )]
    Signature { from: u32, seq: u64, theirs: Signature, mine: Signature },
    /// The fragments overlap, or disagree about their contribution.
    #[error("the pieces that rank {from} sent for collective {seq} do not fit together")]
    Pieces { from: u32, seq: u64 },
}

/// Returns the error of a call to which a rank gave what does not fit.
pub(crate) fn failed(misfit: PartMismatch) -> clump_am::Error {
    ErrorKind::Disagreement(misfit.to_string()).into()
}

impl Mailbox {
    /// Notes that a collective of a team failed, here or at another rank. The earliest counts;
    /// returns true if this one is the earliest so far.
    pub(crate) fn give_up(&mut self, team: u64, broken: Broken) -> bool {
        let news = self.broken.get(&team).is_none_or(|known| broken.seq < known.seq);
        if news && !self.gone.contains(&team) {
            self.broken.insert(team, broken);
        }
        news
    }

    /// Returns the rank whose leaving keeps collective `seq` of a team from ending, unless all its
    /// contributions are here.
    pub(crate) fn is_broken(&self, team: u64, seq: u64) -> Option<u32> {
        self.broken.get(&team).filter(|broken| broken.seq <= seq).map(|broken| broken.by)
    }

    /// Notes that this rank executes collective `seq` of a team.
    pub(crate) fn begin(&mut self, team: u64, seq: u64, mine: Signature) {
        let known = self.calls.get(&team);
        if known == Some(&(seq, mine)) {
            return;
        }
        debug_assert!(known.is_none_or(|&(before, _)| before < seq), "numbers grow");
        self.calls.insert(team, (seq, mine));
        let ours = self.parts.iter().filter(|(part, _)| part.team == team && part.seq == seq);
        let unlike = ours.map(|(part, known)| (part.from, known.signature));
        let unlike = unlike.filter(|(_, theirs)| !theirs.fits(mine)).min_by_key(|it| it.0);
        if let Some((from, theirs)) = unlike {
            let unlike = PartMismatch::Signature { from, seq, theirs, mine };
            self.disagree((team, seq), Disagreement { why: unlike.to_string(), was_told: false });
        }
    }

    /// Notes that ranks do not agree about a collective, given by team and number: it takes no
    /// contributions.
    pub(crate) fn disagree(&mut self, collective: (u64, u64), found: Disagreement) {
        let (team, seq) = collective;
        if !self.gone.contains(&team) {
            self.parts.retain(|part, _| (part.team, part.seq) != collective);
            self.disagreements.entry(team).or_default().add(seq, found);
        }
    }

    /// Returns true if ranks did not agree about a collective of a team, ever.
    pub(crate) fn has_disagreements(&self, team: u64) -> bool {
        !self.disagreements.is_empty() && self.disagreements.contains_key(&team)
    }

    /// Forgets why ranks did not agree about the collectives of a team before `seq`, but for those
    /// that are still `open`. Nothing asks any more; contributions to them that still come are
    /// dropped.
    pub(crate) fn forget_disagreements(&mut self, team: u64, seq: u64, open: Vec<u64>) {
        let Some(known) = self.disagreements.get_mut(&team) else {
            clump_bug::bug!("the team has disagreements");
            return;
        };
        known.advance(seq, open);
        self.parts.retain(|part, _| part.team != team || !known.is_over(part.seq));
        debug_assert!(!known.is_over(seq), "this rank has just come to it");
    }

    /// Returns why ranks do not agree about a collective, if they do not.
    pub(crate) fn disagreement(&self, team: u64, seq: u64) -> Option<&Disagreement> {
        self.disagreements.get(&team)?.find(seq)
    }

    /// Forgets a team. All contributions to collectives that succeeded have been taken.
    pub(crate) fn close(&mut self, team: u64) {
        let before = self.parts.len();
        self.parts.retain(|part, _| part.team != team);
        self.calls.remove(&team);
        let disagreed = self.disagreements.remove(&team).is_some();
        let failed = disagreed || self.broken.remove(&team).is_some() || self.parts.len() != before;
        if failed {
            self.gone.insert(team);
        }
        debug_assert!(self.parts.keys().all(|part| part.team != team), "team {team:x} is gone");
    }

    /// Takes in one fragment.
    pub(crate) fn put(
        &mut self,
        part: PartId,
        place: FragmentRange,
        (signature, fragment): (Signature, Vec<u8>),
    ) -> Result<(), PartMismatch> {
        let end = place.offset.checked_add(fragment.len() as u64);
        let collective = (part.team, part.seq);
        let drops = |known: &TeamDisagreements| known.drops_parts_of(part.seq);
        if self.gone.contains(&part.team) || self.disagreements.get(&part.team).is_some_and(drops) {
            return Ok(());
        }
        let agrees = self.parts.get(&part).is_none_or(|known| known.total == place.total);
        let is_piece = !fragment.is_empty() || place.total == 0;
        if !agrees || !is_piece || end.is_none_or(|end| end > place.total) {
            return Err(PartMismatch::Pieces { from: part.from, seq: part.seq });
        }
        if let Some(&(seq, mine)) = self.calls.get(&part.team)
            && seq == part.seq
            && !mine.fits(signature)
        {
            let (from, theirs) = (part.from, signature);
            let why = PartMismatch::Signature { from, seq, theirs, mine }.to_string();
            self.disagree(collective, Disagreement { why, was_told: false });
            return Ok(());
        }
        let known = self.parts.entry(part).or_default();
        known.signature = signature;
        known.total = place.total;
        known.bytes += fragment.len() as u64;
        known.fragments.push((place.offset, fragment));
        Ok(())
    }

    /// Removes and returns `part`, of `expected` bytes if that is known, once all of it is there.
    pub(crate) fn take(
        &mut self,
        part: PartId,
        expected: Option<usize>,
    ) -> Result<Option<Pieces>, PartMismatch> {
        let Some(known) = self.parts.get(&part) else { return Ok(None) };
        let PartId { from, seq, .. } = part;
        let total = known.total;
        if let Some(expected) = expected.map(|bytes| bytes as u64).filter(|&bytes| bytes != total) {
            return Err(PartMismatch::Length { from, seq, given: total, expected });
        }
        if known.bytes < total {
            return Ok(None);
        }
        let mut fragments = self.parts.remove(&part).map(|all| all.fragments).unwrap_or_default();
        fragments.sort_unstable_by_key(|(offset, _)| *offset);
        let mut end = 0;
        for (offset, fragment) in &fragments {
            if *offset != end {
                return Err(PartMismatch::Pieces { from, seq });
            }
            end += fragment.len() as u64;
        }
        Ok(Some(Pieces(fragments.into_iter().map(|(_, fragment)| fragment).collect())))
    }

    /// Returns memory for a fragment: of one that was used, if there is one.
    pub(crate) fn spare(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    /// Takes the memory of a contribution that was used.
    pub(crate) fn give_back(&mut self, used: Pieces) {
        let kept = used.0.into_iter().take(SPARE - self.spare.len().min(SPARE));
        self.spare.extend(kept.map(|mut piece| {
            piece.clear();
            piece
        }));
        debug_assert!(self.spare.len() <= SPARE, "no more is kept");
    }
}

/// Bytes of a contribution: its fragments, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pieces(Vec<Vec<u8>>);

/// Fragments whose memory is kept for others: a megabyte at most.
const SPARE: usize = 16;

impl Pieces {
    /// Copies all of it.
    pub(crate) fn copy_to(&self, to: &mut [u8]) {
        debug_assert_eq!(to.len(), self.0.iter().map(Vec::len).sum::<usize>(), "as many as asked");
        let mut rest = to;
        for piece in &self.0 {
            let (here, behind) = rest.split_at_mut(piece.len().min(rest.len()));
            here.copy_from_slice(&piece[..here.len()]);
            rest = behind;
        }
    }

    /// Returns the fragments, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().map(Vec::as_slice)
    }

    /// Returns true if each fragment is of whole values, of so many bytes.
    pub(crate) fn are_whole(&self, bytes: usize) -> bool {
        self.0.iter().all(|piece| piece.len().is_multiple_of(bytes))
    }

    /// Returns it as one.
    pub(crate) fn into_vec(mut self) -> Vec<u8> {
        if self.0.len() == 1 { self.0.pop().unwrap_or_default() } else { self.0.concat() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choice::Operation;
    use proptest::prelude::*;

    const PART: PartId = PartId { team: 0, seq: 3, from: 2, step: 1 };

    fn put(
        mailbox: &mut Mailbox,
        at: usize,
        whole: &[u8],
        total: usize,
    ) -> Result<(), PartMismatch> {
        let place = FragmentRange { offset: at as u64, total: total as u64 };
        mailbox.put(PART, place, (Signature::ANY, whole.to_vec()))
    }

    proptest! {
        #[test]
        fn pieces_of_many_parts_come_in_any_order(
            parts in prop::collection::vec((1usize..3000, 1usize..700), 1..6), seed in any::<u64>())
        {
            let whole = |i: usize, len: usize| -> Vec<u8> {
                (0..len).map(|at| (at * 7 + i * 31) as u8).collect()
            };
            let part = |i: usize| PartId { team: i as u64 % 3, step: i as u64 % 2, from: i as u32 / 2, seq: 9 };
            let mut sent = Vec::new();
            for (i, &(len, most)) in parts.iter().enumerate() {
                for (n, fragment) in whole(i, len).chunks(most).enumerate() {
                    let place = FragmentRange { offset: (n * most) as u64, total: len as u64 };
                    sent.push((i, place, fragment.to_vec()));
                }
            }
            // An order from the seed: any permutation can result.
            let shuffle = |n: usize| seed.wrapping_add(n as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let mut order: Vec<usize> = (0..sent.len()).collect();
            order.sort_by_key(|&n| shuffle(n).rotate_left(29).wrapping_mul(seed | 1));
            let mut mailbox = Mailbox::default();
            for (n, at) in order.into_iter().enumerate() {
                let (i, place, fragment) = sent[at].clone();
                mailbox.put(part(i), place, (Signature::ANY, fragment)).unwrap();
                // An early request disturbs nothing.
                if n % 3 == 0 && let Some(got) = mailbox.take(part(i), Some(parts[i].0)).unwrap() {
                    prop_assert_eq!(got.into_vec(), whole(i, parts[i].0));
                    sent.iter().filter(|s| s.0 == i).for_each(|(_, place, fragment)| {
                        mailbox.put(part(i), *place, (Signature::ANY, fragment.clone())).unwrap();
                    });
                }
            }
            for (i, &(len, _)) in parts.iter().enumerate() {
                let got = mailbox.take(part(i), (i % 2 == 0).then_some(len)).unwrap().unwrap();
                let mut copy = vec![0; len];
                got.copy_to(&mut copy);
                prop_assert_eq!(&copy, &whole(i, len));
                mailbox.give_back(got.clone());
                prop_assert_eq!(got.into_vec(), copy);
                prop_assert!(mailbox.spare().is_empty(), "nothing of it is left");
            }
            prop_assert!(mailbox.parts.is_empty());
        }
    }

    #[test]
    fn the_earliest_failure_counts() {
        let mut mailbox = Mailbox::default();
        assert!(mailbox.give_up(7, Broken { seq: 5, by: 1 }));
        assert!(!mailbox.give_up(7, Broken { seq: 6, by: 2 }));
        assert_eq!((mailbox.is_broken(7, 4), mailbox.is_broken(7, 5)), (None, Some(1)));
        assert!(mailbox.give_up(7, Broken { seq: 3, by: 2 }));
        assert_eq!((mailbox.is_broken(7, 6), mailbox.is_broken(8, 6)), (Some(2), None));
    }

    #[test]
    fn nothing_is_kept_for_a_team_that_failed_and_is_gone() {
        let mut mailbox = Mailbox::default();
        put(&mut mailbox, 0, &[1; 8], 16).unwrap();
        mailbox.give_up(PART.team, Broken { seq: 3, by: 1 });
        mailbox.close(PART.team);
        put(&mut mailbox, 8, &[1; 8], 16).unwrap();
        mailbox.give_up(PART.team, Broken { seq: 4, by: 2 });
        assert!(mailbox.parts.is_empty() && mailbox.broken.is_empty());
    }

    #[test]
    fn ranks_that_disagree_about_the_length_are_told() {
        let mut mailbox = Mailbox::default();
        put(&mut mailbox, 0, &[1; 8], 16).unwrap();
        let told = mailbox.take(PART, Some(24)).unwrap_err();
        assert_eq!(told, PartMismatch::Length { from: 2, seq: 3, given: 16, expected: 24 });
        assert_eq!(mailbox.take(PART, Some(16)), Ok(None), "half of it is missing");
    }

    #[test]
    fn ranks_that_execute_different_collectives_are_told() {
        let mine = Signature::of(Operation::AllToAll, Some(16));
        let theirs = Signature::of(Operation::AllToAll, Some(32));
        let piece = FragmentRange { offset: 0, total: 8 };
        let put = |mailbox: &mut Mailbox, signature| {
            mailbox.put(PART, piece, (signature, vec![1; 8])).unwrap();
        };
        let why = "rank 2 executes all-to-all of 32 bytes as collective 3 of a team, others all-to-all \
                   of 16 bytes; all call the same ones in the same order";
        let found = Disagreement { why: why.to_owned(), was_told: false };
        let of_part = |mailbox: &Mailbox| mailbox.disagreement(PART.team, PART.seq).cloned();
        for is_early in [false, true] {
            let mut mailbox = Mailbox::default();
            if is_early {
                put(&mut mailbox, theirs);
            }
            mailbox.begin(PART.team, PART.seq, mine);
            if !is_early {
                assert_eq!(of_part(&mailbox), None);
                put(&mut mailbox, theirs);
            }
            assert_eq!(of_part(&mailbox), Some(found.clone()));
            put(&mut mailbox, mine);
            assert!(mailbox.parts.is_empty(), "nobody takes it");
            mailbox.begin(PART.team, PART.seq + 1, theirs);
            assert_eq!(mailbox.disagreement(PART.team, PART.seq + 1), None);
            mailbox.close(PART.team);
            assert!(mailbox.parts.is_empty() && mailbox.calls.is_empty());
            put(&mut mailbox, mine);
            assert!(mailbox.parts.is_empty(), "the team is gone");
            mailbox.disagree((PART.team, 9), found.clone());
            assert!(mailbox.disagreements.is_empty(), "nobody asks any more");
        }
        let mut mailbox = Mailbox::default();
        mailbox.begin(PART.team, PART.seq, mine);
        put(&mut mailbox, mine);
        mailbox.put(PartId { step: 2, ..PART }, piece, (Signature::ANY, vec![1; 8])).unwrap();
        assert_eq!(of_part(&mailbox), None);
    }

    #[test]
    fn an_empty_contribution_is_one() {
        let mut mailbox = Mailbox::default();
        assert_eq!(mailbox.take(PART, Some(0)), Ok(None));
        put(&mut mailbox, 0, &[], 0).unwrap();
        assert_eq!(mailbox.take(PART, Some(0)), Ok(Some(Pieces(vec![Vec::new()]))));
    }

    #[test]
    fn what_no_correct_rank_sends_is_refused_without_memory_for_it() {
        let bad = PartMismatch::Pieces { from: 2, seq: 3 };
        let mut mailbox = Mailbox::default();
        let far = FragmentRange { offset: u64::MAX - 2, total: u64::MAX };
        assert_eq!(mailbox.put(PART, far, (Signature::ANY, vec![0; 8])), Err(bad));
        assert_eq!(put(&mut mailbox, 9, &[0; 8], 16), Err(bad), "longer than its part");
        assert_eq!(put(&mut mailbox, 0, &[], 16), Err(bad), "nothing");
        put(&mut mailbox, 0, &[1; 8], 16).unwrap();
        assert_eq!(put(&mut mailbox, 8, &[1; 8], 24), Err(bad), "of another length");
        put(&mut mailbox, 4, &[1; 8], 16).unwrap();
        assert_eq!(mailbox.take(PART, Some(16)), Err(bad), "they overlap");
    }
}
