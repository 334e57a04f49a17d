//! One-way sends of any number of items to any rank, with bounded memory at the receiver.

use crate::pgas::{clump_pgas, space};
use crate::pgas_calls::{clump_work, failed};
use crate::rma::close;
use crate::send::bytes;
use crate::team_bytes::prepared;
use clump::pgas::{BulkChannel, GlobalResult};
use clump_ffi::border::{guard, guard_pointer, to_int};
use clump_ffi::fault::{Result, null, range};
use clump_ffi::slot::{Object, Slot};
use std::ffi::{c_int, c_void};

/// Channels from each rank to each. Belongs to the thread that made it.
#[derive(Debug)]
pub struct clump_channel(());

/// Takes `count` items of a sender: returns 0, or a failure below 0. They are there until it
/// returns.
pub type clump_receive = Option<
    unsafe extern "C" fn(
        data: *mut c_void,
        from: c_int,
        items: *const c_void,
        count: usize,
    ) -> c_int,
>;

/// The object behind a ::clump_channel.
#[derive(Debug)]
pub(crate) struct ChannelHandle {
    channel: BulkChannel<u8>,
    /// Bytes of an item. Rings have room for whole items, and all sends are of whole items.
    item: usize,
}

impl Object for ChannelHandle {
    const KIND: u32 = 20;
    const NAME: &'static str = "channels (clump_channel)";
}

fn with<R>(
    channel: *const clump_channel,
    run: impl FnOnce(&ChannelHandle) -> Result<R>,
) -> Result<R> {
    Slot::enter::<ChannelHandle, R>(channel.cast(), |held, _| run(held))
}

impl ChannelHandle {
    /// Returns what takes bytes, and gives them to `receive` as items.
    fn taker(
        &self,
        receive: clump_receive,
        data: *mut c_void,
    ) -> Result<impl FnMut(usize, &[u8]) -> GlobalResult<()>> {
        let (receive, item) = (receive.ok_or_else(|| null("a function to receive"))?, self.item);
        Ok(move |from: usize, bytes: &[u8]| {
            let items = bytes.as_ptr().cast();
            // SAFETY: the caller's of the function that was given `receive`.
            match unsafe { receive(data, to_int(from), items, bytes.len() / item) } {
                status if status < 0 => Err(failed(status)),
                _ => Ok(()),
            }
        })
    }
}

/// Opens channels for items of `bytes` bytes, with room for `capacity` items of each sender at each
/// receiver. Collective: all ranks give the same.
///
/// Returns null on failure: ::CLUMP_ERR_ARGUMENT (items without bytes, more than memory holds), and
/// as ::clump_spread_alloc. Closed by ::clump_channel_close, at the end of the thread, or by
/// ::clump_finalize: call ::clump_channel_finish before.
#[unsafe(no_mangle)]
pub extern "C" fn clump_channel_open(
    gas: *mut clump_pgas,
    bytes: usize,
    capacity: usize,
) -> *mut clump_channel {
    guard_pointer(|| {
        space(gas, |space| {
            let ring = bytes.checked_mul(capacity.max(1)).filter(|ring| *ring > 0);
            let ring = ring.ok_or_else(|| range("bytes of an item", bytes, "what memory holds"));
            let ring = prepared(space.pgas.team(), ring)?;
            let channel = BulkChannel::open(&space.pgas, ring)?;
            Ok(Slot::fill(ChannelHandle { channel, item: bytes })?.pointer())
        })
    })
}

/// Closes channels. Null does nothing.
#[unsafe(no_mangle)]
pub extern "C" fn clump_channel_close(channel: *mut clump_channel) -> c_int {
    close::<ChannelHandle>(channel.cast_const().cast())
}

/// Sends items to a rank. While that has no room, runs `receive` on what has arrived here, so that
/// ranks which send to each other never wait for each other.
///
/// Errors: ::CLUMP_ERR_ARGUMENT (no such rank; null; `receive` failed), ::CLUMP_ERR_NODE_LOST,
/// ::CLUMP_ERR_RANK_DIED.
///
/// # Safety
/// There are so many `items`; `receive` can be called with `data`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_channel_send(
    channel: *mut clump_channel,
    to: c_int,
    items: *const c_void,
    count: usize,
    receive: clump_receive,
    data: *mut c_void,
) -> c_int {
    guard(|| {
        with(channel, |held| {
            let taker = held.taker(receive, data)?;
            let rank = usize::try_from(to).map_err(|_| range("a rank", to, "0 or more"))?;
            let all = count.checked_mul(held.item);
            let all = all.ok_or_else(|| range("a number of items", count, "what memory holds"))?;
            // SAFETY: the caller's.
            held.channel.send(rank, unsafe { bytes(items, all) }?, taker)?;
            Ok(0)
        })
    })
}

/// Runs `receive` on the items that have arrived, sender by sender, and returns their number.
///
/// Errors: ::CLUMP_ERR_ARGUMENT (null; `receive` failed, whose items are received then).
///
/// # Safety
/// `receive` can be called with `data`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_channel_receive(
    channel: *mut clump_channel,
    receive: clump_receive,
    data: *mut c_void,
) -> c_int {
    guard(|| {
        with(channel, |held| {
            let taker = held.taker(receive, data)?;
            Ok(to_int(held.channel.receive(taker)? / held.item))
        })
    })
}

/// Sends no more, and runs `receive` on all that is still to come, from all ranks. The channels can
/// be used again afterwards. Collective.
///
/// Errors: as ::clump_channel_receive, when everything has been received, and as ::clump_barrier.
///
/// # Safety
/// `receive` can be called with `data`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_channel_finish(
    channel: *mut clump_channel,
    receive: clump_receive,
    data: *mut c_void,
) -> c_int {
    guard(|| {
        with(channel, |held| {
            held.channel.finish(held.taker(receive, data)?)?;
            Ok(0)
        })
    })
}

/// Runs `work`, which may send, and `receive` on what arrives, until `work` has returned 0 at all
/// ranks and nothing is under way. `work` is called again while it returns more than 0, and after
/// each receive. Collective.
///
/// Errors: ::CLUMP_ERR_ARGUMENT (null; `work` or `receive` failed, which is said when all is over),
/// and as ::clump_barrier.
///
/// # Safety
/// `work` and `receive` can be called with `data`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_channel_run(
    channel: *mut clump_channel,
    work: clump_work,
    receive: clump_receive,
    data: *mut c_void,
) -> c_int {
    guard(|| {
        with(channel, |held| {
            let work = work.ok_or_else(|| null("a function to work"))?;
            let working = || {
                // SAFETY: the caller's.
                match unsafe { work(data) } {
                    status if status < 0 => Err(failed(status)),
                    status => Ok(status > 0),
                }
            };
            held.channel.run(working, held.taker(receive, data)?)?;
            Ok(0)
        })
    })
}
