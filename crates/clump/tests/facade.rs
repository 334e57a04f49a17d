//! A program needs no crate of clump but this one: every type of a public signature has a name
//! here, and no two types have the same.

use clump::am::*;
use clump::conn::*;
use clump::op::*;
use clump::rma::*;
use clump::*;
use std::any::TypeId;
use std::collections::HashSet;

/// Names every type that a signature or a public field mentions. A name that two modules give to
/// different types would be ambiguous, which the compiler refuses.
#[test]
fn every_type_has_a_name_of_its_own() {
    let types = [
        TypeId::of::<Clump>(),
        TypeId::of::<clump::Error>(),
        TypeId::of::<BootError>(),
        TypeId::of::<MemoryError>(),
        TypeId::of::<OsError>(),
        TypeId::of::<TooLow>(),
        TypeId::of::<Death>(),
        TypeId::of::<DeathCause>(),
        TypeId::of::<MessageError>(),
        TypeId::of::<MessageErrorKind>(),
        TypeId::of::<Dest>(),
        TypeId::of::<Endpoint<SingleThread>>(),
        TypeId::of::<Endpoint<MultiThread>>(),
        TypeId::of::<Events>(),
        TypeId::of::<Handler>(),
        TypeId::of::<HandlerFailure>(),
        TypeId::of::<Name>(),
        TypeId::of::<Payload<'static>>(),
        TypeId::of::<Reason>(),
        TypeId::of::<Returned>(),
        TypeId::of::<DepositSegment>(),
        TypeId::of::<SendAttempt>(),
        TypeId::of::<Tag>(),
        TypeId::of::<am::Token<'static>>(),
        TypeId::of::<ConnectionError>(),
        TypeId::of::<ConnectionRefusal>(),
        TypeId::of::<ServiceToken>(),
        TypeId::of::<Between>(),
        TypeId::of::<ConnectTarget>(),
        TypeId::of::<Connection>(),
        TypeId::of::<End>(),
        TypeId::of::<Listener>(),
        TypeId::of::<Order>(),
        TypeId::of::<Peer>(),
        TypeId::of::<Port>(),
        TypeId::of::<Received>(),
        TypeId::of::<Security>(),
        TypeId::of::<OneSidedError>(),
        TypeId::of::<OneSidedErrorKind>(),
        TypeId::of::<Refusal>(),
        TypeId::of::<AtomicOp>(),
        TypeId::of::<rma::Barrier>(),
        TypeId::of::<Comparison>(),
        TypeId::of::<Flag>(),
        TypeId::of::<Guard<'static>>(),
        TypeId::of::<Lock>(),
        TypeId::of::<Pending<u64>>(),
        TypeId::of::<Rma>(),
        TypeId::of::<Segment>(),
        TypeId::of::<SegmentName>(),
        TypeId::of::<Signal>(),
        TypeId::of::<Strides>(),
        TypeId::of::<Target>(),
        TypeId::of::<Sum>(),
    ];
    assert_eq!(types.iter().collect::<HashSet<_>>().len(), types.len());
}

/// Functions of a program that are generic over what it uses.
mod generic {
    use super::*;

    pub(super) fn send<H: Ownership, W: Words>(ep: &Endpoint<H>, to: Dest, words: W) -> Result<()> {
        Ok(ep.request(to, Handler(1), words)?)
    }

    pub(super) fn serve<W: FromWords, R: HandlerResult>(
        rank: &impl AsContext,
        run: impl FnMut(am::Token<'_>, W) -> R + 'static,
    ) -> Result<Endpoint> {
        let ep = Endpoint::open(rank, Tag(1))?;
        ep.handler(Handler(1), run)?;
        Ok(ep)
    }

    pub(super) fn one<W: MessageWord>(word: W) -> u64 {
        word.to_word()
    }

    pub(super) fn total<T: Number, O: Op<T>>(cl: &Clump, value: T, op: O) -> Result<T> {
        cl.all_reduce(value, op)
    }
}

#[test]
fn a_program_maps_all_ranks_and_sends_typed_words() -> Result<()> {
    let cl = init()?;
    let ep = generic::serve(&cl, |_, (one, two): (u32, i64)| {
        assert_eq!((one, two), (1, -2));
    })?;
    let ranks = cl.map_ranks(&ep)?;
    assert_eq!((ranks.len(), cl.nnodes(), cl.node_of(0), cl.node_of(1)), (1, 1, Some(0), None));
    generic::send(&ep, ranks[0], (1_u32, -2_i64))?;
    ep.drain()?;
    assert_eq!(generic::one(7_u8) + generic::total(&cl, 1_u64, Sum)?, 8);
    Ok(())
}
