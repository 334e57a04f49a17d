use super::*;
use crate::job::{Death, DeathCause};
use crate::rank::{ProcessAddress, RankState};
use crate::region::Pages;
use crate::supply::MachineSupply;

fn node(ranks: usize) -> NodeMemory {
    on_nodes(ranks, 0, &[]).unwrap()
}

fn on_nodes(ranks: usize, node: u32, node_of: &[u32]) -> Result<NodeMemory> {
    let (survive, spin_ns, yield_ns) = (false, 1, 1);
    let config = NodeConfig {
        node,
        node_of,
        job_id: 7,
        survive,
        spin_ns,
        yield_ns,
        ..NodeConfig::new(ranks)
    };
    NodeMemory::create(&config)
}

#[test]
fn every_process_of_a_node_knows_which_nodes_read_its_clock() {
    let node_of: Vec<u32> = (0..130).collect();
    let made = on_nodes(130, 1, &node_of).unwrap();
    let seen = NodeMemory::attach(made.fd().try_clone_to_owned().unwrap()).unwrap();
    assert!((0..130).all(|node| seen.has_clock_of(node)), "until something else is known");
    assert!(!seen.has_clock_of(u32::MAX), "no node");
    made.note_other_clocks([0, 64, 129]);
    let others: Vec<u32> = (0..130).filter(|&node| !seen.has_clock_of(node)).collect();
    assert_eq!(others, [0, 64, 129]);
}

#[test]
fn every_process_of_a_node_knows_who_is_where() {
    let made = on_nodes(5, 1, &[0, 0, 1, 1, 2]).unwrap();
    let seen = NodeMemory::attach(made.fd().try_clone_to_owned().unwrap()).unwrap();
    for node in [&made, &seen] {
        assert_eq!((node.node(), node.nnodes(), node.local_ranks()), (1, 3, 2..4));
        assert_eq!([0, 2, 4, 5].map(|r| node.node_of(r)), [0, 1, 2, u32::MAX]);
        assert_eq!([1, 2, 3, 4].map(|r| node.is_local(r)), [false, true, true, false]);
    }
    let alone = on_nodes(3, 0, &[]).unwrap();
    assert_eq!((alone.node(), alone.nnodes(), alone.local_ranks()), (0, 1, 0..3));
    assert_eq!([0, 2, 3].map(|r| alone.node_of(r)), [0, 0, u32::MAX]);
    assert!(alone.is_local(2) && !alone.is_local(3) && alone.alarm(0).is_none());
}

#[test]
fn ranks_of_a_node_follow_each_other() {
    for (node, map) in [
        (0, &[0, 1, 0][..]),
        (0, &[1, 1, 1]),
        (0, &[0, 0, 2]),
        (2, &[0, 1, 1]),
        (0, &[0, 1]),
        (1, &[]),
    ] {
        assert!(matches!(on_nodes(3, node, map), Err(Error::NodeMap)), "{map:?}");
    }
}

#[test]
fn peer_records_say_what_the_agent_wrote() {
    let node = on_nodes(4, 0, &[0, 0, 1, 1]).unwrap();
    let seen = NodeMemory::attach(node.fd().try_clone_to_owned().unwrap()).unwrap();
    let (record, view) = (node.peer(2).unwrap(), seen.peer(2).unwrap());
    assert_eq!(view.place(), None);
    for address in ["127.0.0.1:65535", "255.255.255.255:1", "[fe80::1%7]:9", "[ff::2]:80"] {
        let address = address.parse().unwrap();
        let others = [Some("[fe80::7]:9".parse().unwrap()), None, Some(address)];
        let place = ProcessAddress { address, others, epoch: 77 };
        assert_eq!(place.addresses().count(), 3);
        record.set_place(place);
        assert_eq!(view.place(), Some(place));
    }
    record.mirror_state(RankState::Joined);
    assert_eq!((view.state(), view.death()), (RankState::Joined, None));
    node.declare_dead(Death { rank: 2, how: DeathCause::NodeLost });
    record.mirror_state(RankState::Finalized);
    assert_eq!(view.state(), RankState::Dead);
    assert_eq!(seen.death_of(2), Some(Death { rank: 2, how: DeathCause::NodeLost }));
    assert!(seen.is_node_lost(1) && !seen.is_node_lost(0) && !seen.is_node_lost(2));
    let last = node.own_interfaces().end;
    assert!(node.peer(last).is_some(), "the interface of node 1");
    assert!(node.peer(last + 1).is_none() && node.peer(u32::MAX).is_none());
}

#[test]
fn a_node_of_a_million_ranks_has_blocks_for_its_own_and_records_for_all() {
    let node_of: Vec<u32> = (0..1 << 20).map(|rank| rank / 256).collect();
    let node = on_nodes(1 << 20, 7, &node_of).unwrap();
    let seen = NodeMemory::attach(node.fd().try_clone_to_owned().unwrap()).unwrap();
    assert_eq!((seen.ranks(), seen.nnodes(), seen.local_ranks()), (1 << 20, 4096, 1792..2048));
    let file = std::fs::File::from(node.fd().try_clone_to_owned().unwrap());
    let touched = || std::os::unix::fs::MetadataExt::blocks(&file.metadata().unwrap()) * 512;
    assert!(touched() <= 32 << 10, "the first ranks, and little else: {}", touched());
    let own = seen.own_interfaces();
    assert_eq!(own, (1 << 20) + 7..(1 << 20) + 8);
    let last = own.start + 4088;
    for elsewhere in [0, 1791, 2048, (1 << 20) - 1, own.start - 1, own.end, last] {
        assert!(seen.rank(elsewhere).is_none() && seen.endpoint_block(elsewhere, 0).is_err());
        assert!(seen.alarm(elsewhere).is_none() && !seen.wake_sleeper(elsewhere));
        assert!(seen.peer(elsewhere).is_some() && seen.join(elsewhere, 1) == Err(0));
    }
    assert!(seen.peer(last + 1).is_none());
    assert_eq!(node.join(2047, 5), Ok(()));
    assert_eq!(seen.join(2047, 6), Err(5));
    assert_eq!(seen.rank(2047).unwrap().pid(), 5);
    seen.finalize(2047);
    assert_eq!(node.peer(2047).unwrap().state(), RankState::Finalized);
    let inbox: crate::inbox::Inbox<()> = crate::inbox::Inbox::open(&node, own.start, 1).unwrap();
    let once = Traffic { short: 1, short_bytes: 8, ..Traffic::default() };
    let to = [0, 63, 64, 8191, 8192, 900_000, (1 << 20) - 1, last];
    to.iter().for_each(|to| inbox.traffic().unwrap().add(*to, once));
    let found = seen.traffic_of(own.start).unwrap();
    assert!(found.keys().eq(to.iter()), "{found:?}");
    assert!(found.values().all(|of| *of == once));
    assert!(touched() < 1 << 20, "pages never written are not there: {}", touched());
}

#[test]
fn what_no_node_can_hold_is_refused_in_words() {
    let why = |ranks, node_of: &[u32]| on_nodes(ranks, 0, node_of).unwrap_err().to_string();
    assert!(why(0, &[]).contains("1 to 1048576 ranks, not 0"));
    assert!(why(1025, &[]).contains("1 to 1024 ranks, not 1025"), "{}", why(1025, &[]));
    let node_of: Vec<u32> = (0..1026).map(|rank| u32::from(rank >= 1024)).collect();
    assert!(why(1026, &node_of).contains("1 to 1023 ranks, not 1024"), "{}", why(1026, &node_of));
    let (ranks, node_of, survive) = (2, &[0, 1][..], false);
    let (node, job_id, spin_ns, yield_ns) = (0, 1, 1, 1);
    let proxies = 17;
    let config = NodeConfig {
        virtual_nodes: 0,
        ranks,
        node,
        node_of,
        proxies,
        job_id,
        survive,
        spin_ns,
        yield_ns,
    };
    let why = NodeMemory::create(&config).unwrap_err().to_string();
    assert!(why.contains("up to 16 network interfaces, not 17"), "{why}");
}

#[test]
fn a_table_of_ranks_that_no_agent_wrote_is_refused() {
    let node = on_nodes(4, 1, &[0, 0, 1, 1]).unwrap();
    let open = || NodeMemory::attach(node.fd().try_clone_to_owned().unwrap());
    let first: SharedSlice<AtomicU32> =
        place_slice(&node.front, Geometry::first_ranks(), 3).unwrap();
    for wrong in [[0, 0, 4], [1, 2, 4], [0, 4, 4], [0, 1, 5], [0, 2, u32::MAX], [0, 1, 4]] {
        for (word, rank) in first.iter().zip(wrong) {
            word.store(rank, Ordering::Relaxed);
        }
        assert!(open().is_err(), "{wrong:?}");
    }
    [0, 2, 4]
        .iter()
        .zip(first.iter())
        .for_each(|(rank, word)| word.store(*rank, Ordering::Relaxed));
    assert!(open().is_ok());
    for nodes in [0, 1, 3, 4097, u32::MAX] {
        node.job().nnodes.store(nodes, Ordering::Relaxed);
        assert!(open().is_err(), "{nodes} nodes");
    }
}

#[test]
fn a_death_rings_the_alarms_of_local_ranks() {
    let mut node = on_nodes(3, 0, &[0, 0, 1]).unwrap();
    let alarms = (0..3).map(|rank| (rank, Alarm::new().unwrap())).collect();
    node.set_alarms(alarms);
    assert!(node.alarm(2).is_none(), "a rank of another node is never woken by shared memory");
    node.declare_dead(Death { rank: 2, how: DeathCause::Signal(9) });
    assert!(node.alarm(0).unwrap().clear() && node.alarm(1).unwrap().clear());
}

#[test]
fn a_sleeper_hears_its_alarm() {
    let mut node = on_nodes(2, 0, &[0, 1]).unwrap();
    node.set_alarms(vec![(0, Alarm::new().unwrap())]);
    let other = node.clone();
    let sleeper = std::thread::spawn(move || {
        let (block, alarm) = (other.rank(0).unwrap(), other.alarm(0).unwrap());
        loop {
            let announced = block.park().announce(other.fence());
            if other.job().deaths() != 0 {
                block.park().withdraw(announced);
                return;
            }
            block.park().sleep_on(announced, alarm, None, None);
        }
    });
    node.declare_dead(Death { rank: 1, how: DeathCause::Signal(9) });
    sleeper.join().unwrap();
    assert!(!node.rank(0).unwrap().park().anyone_asleep());
}

#[test]
fn an_attached_node_sees_what_its_creator_wrote() {
    let made = node(3);
    let seen = NodeMemory::attach(made.fd().try_clone_to_owned().unwrap()).unwrap();
    assert_eq!(seen.ranks(), 3);
    assert_eq!(seen.job().id(), 7);
    seen.join(2, 42).unwrap();
    assert_eq!(made.peer(2).unwrap().state(), RankState::Joined);
    assert_eq!(made.join(2, 43), Err(42));
    assert!(seen.rank(3).is_none());
}

#[test]
fn the_first_death_is_kept() {
    let node = node(4);
    node.declare_dead(Death { rank: 2, how: DeathCause::Signal(9) });
    node.declare_dead(Death { rank: 1, how: DeathCause::Exit(3) });
    node.declare_dead(Death { rank: 1, how: DeathCause::Exit(4) });
    assert_eq!(node.job().first_death(), Some(Death { rank: 2, how: DeathCause::Signal(9) }));
    assert_eq!(node.death_of(1), Some(Death { rank: 1, how: DeathCause::Exit(3) }));
    assert_eq!(node.job().deaths(), 2);
    assert_eq!(node.death_of(0), None);
}

#[test]
fn foreign_files_are_refused() {
    let short = map::sealed_memory("x", 100).unwrap();
    assert!(NodeMemory::attach(short).is_err());
    let blank = map::sealed_memory("x", 1 << 20).unwrap();
    assert!(NodeMemory::attach(blank).is_err());
}

#[test]
fn regions_are_mapped_where_asked_show_the_same_bytes_and_keep_apart() {
    let node = node(2);
    let huge = crate::geometry::REGION_SPACE;
    let name = |number| SegmentName::of_node(0, number);
    let (first, second) = (name(0), name(1));
    node.open_region(first, huge, Pages::Base).unwrap();
    node.open_region(second, huge, Pages::Huge).unwrap();
    node.grow_region(first, huge).unwrap();
    node.grow_region(second, 4096).unwrap();
    let (one, extent) = node.exported(first).unwrap().unwrap();
    assert_eq!((extent.bytes, extent.reserved), (huge, huge));
    let (other, _) = node.exported(first).unwrap().unwrap();
    let (apart, _) = node.exported(second).unwrap().unwrap();
    for offset in [0, huge - 8] {
        one.word(offset).unwrap().store(offset + 5, Ordering::Release);
        assert_eq!(other.word(offset).unwrap().load(Ordering::Acquire), offset + 5);
        assert_eq!(apart.word(offset).unwrap().load(Ordering::Acquire), 0);
    }
    let address = one.base().addr().get();
    let taken = node.map_registered_at(first, address + PAGE).unwrap_err();
    assert!(taken.to_string().contains("something else lies"), "{taken}");
    assert_eq!(one.word(0).unwrap().load(Ordering::Acquire), 5, "nothing was replaced");
    // Far below where the kernel maps things by itself.
    let free = |address: &usize| node.map_registered_at(first, *address).is_ok();
    let chosen = (8..64).map(|n| n << 41).find(free).unwrap();
    let again = node.map_registered_at(first, chosen).unwrap().unwrap();
    assert_eq!(again.base().addr().get(), chosen);
    assert!(node.map_registered_at(first, chosen + 8).is_err(), "no multiple of a page");
    for wrong in
        [node.open_region(first, huge / 2, Pages::Base), node.open_region(first, huge, Pages::Huge)]
    {
        assert!(wrong.unwrap_err().to_string().contains("it is there"));
    }
    for (number, reserved) in [(16, 1), (2, 0), (2, huge + 1)] {
        assert!(node.open_region(name(number), reserved, Pages::Base).is_err());
    }
    let of_another = SegmentName::of_node(1, 0);
    assert!(node.open_region(of_another, 1, Pages::Base).is_err());
    assert!(node.grow_region(first, huge + 1).is_err() && node.grow_region(name(2), 1).is_err());
    let commit = |range| node.commit(second, range, &mut MachineSupply::new(1));
    assert!(commit((0, 2 * huge)).is_err() && commit((4096, 4096)).is_ok());
}

#[test]
fn each_virtual_node_has_regions_of_its_own() {
    let virtual_nodes = 40;
    let config = NodeConfig { virtual_nodes, ..NodeConfig::new(virtual_nodes as usize) };
    let node = NodeMemory::create(&config).unwrap();
    let again = NodeMemory::attach(node.fd().try_clone_to_owned().unwrap()).unwrap();
    let name = |of: u32| SegmentName::of_node(of, 15);
    for of in 0..virtual_nodes {
        node.open_region(name(of), crate::geometry::REGION_SPACE, Pages::Base).unwrap();
        node.grow_region(name(of), 4096).unwrap();
    }
    for of in 0..virtual_nodes {
        let (cells, extent) = node.exported(name(of)).unwrap().unwrap();
        assert_eq!((again.home_of(name(of)), extent.bytes), (of, 4096));
        assert_eq!(cells.word(8).unwrap().swap(u64::from(of) + 1, Ordering::AcqRel), 0);
    }
    for of in 0..virtual_nodes {
        let (cells, _) = again.exported(name(of)).unwrap().unwrap();
        assert_eq!(cells.word(8).unwrap().load(Ordering::Acquire), u64::from(of) + 1);
    }
    assert!(node.open_region(name(virtual_nodes), 1, Pages::Base).is_err(), "there is none");
    assert!(again.exported(name(virtual_nodes)).unwrap().is_none());
    let several = NodeConfig { node_of: &[0, 1], virtual_nodes: 2, ..NodeConfig::new(2) };
    assert!(NodeMemory::create(&several).is_err(), "one machine has all virtual nodes");
}
