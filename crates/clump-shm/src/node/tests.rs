use super::*;
use crate::job::{Death, DeathCause};
use crate::rank::{ProcessAddress, RankState};
use crate::region::Pages;

fn node(ranks: usize) -> NodeMemory {
    on_nodes(ranks, 0, &[]).unwrap()
}

fn on_nodes(ranks: usize, node: u32, node_of: &[u32]) -> Result<NodeMemory> {
    let (survive, spin_ns, yield_ns) = (false, 1, 1);
    let config =
        NodeConfig { ranks, node, node_of, proxies: 0, job_id: 7, survive, spin_ns, yield_ns };
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
fn mirrors_say_what_the_agent_wrote() {
    let node = on_nodes(4, 0, &[0, 0, 1, 1]).unwrap();
    let seen = NodeMemory::attach(node.fd().try_clone_to_owned().unwrap()).unwrap();
    let (mirror, view) = (node.rank(2).unwrap(), seen.rank(2).unwrap());
    assert_eq!(view.place(), None);
    for address in ["127.0.0.1:65535", "255.255.255.255:1", "[fe80::1%7]:9", "[ff::2]:80"] {
        let address = address.parse().unwrap();
        let others = [Some("[fe80::7]:9".parse().unwrap()), None, Some(address)];
        let place = ProcessAddress { address, others, epoch: 77 };
        assert_eq!(place.addresses().count(), 3);
        mirror.set_place(place);
        assert_eq!(view.place(), Some(place));
    }
    mirror.mirror_state(RankState::Joined);
    assert_eq!(view.state(), RankState::Joined);
    node.declare_dead(Death { rank: 2, how: DeathCause::NodeLost });
    mirror.mirror_state(RankState::Finalized);
    assert_eq!(view.state(), RankState::Dead);
    assert_eq!(seen.death_of(2), Some(Death { rank: 2, how: DeathCause::NodeLost }));
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
    seen.rank(2).unwrap().join(42).unwrap();
    assert_eq!(made.rank(2).unwrap().state(), RankState::Joined);
    assert_eq!(made.rank(2).unwrap().join(43), Err(42));
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
    let number = |name: crate::export::SegmentName| name.index();
    let first = node.open_region(0, huge, Pages::Base).unwrap();
    let second = node.open_region(1, huge, Pages::Huge).unwrap();
    assert_eq!((number(first), number(second)), (0, 1));
    node.grow_region(0, huge).unwrap();
    node.grow_region(1, 4096).unwrap();
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
        [node.open_region(0, huge / 2, Pages::Base), node.open_region(0, huge, Pages::Huge)]
    {
        assert!(wrong.unwrap_err().to_string().contains("it is there"));
    }
    for (number, reserved) in [(16, 1), (2, 0), (2, huge + 1)] {
        assert!(node.open_region(number, reserved, Pages::Base).is_err());
    }
    assert!(node.grow_region(0, huge + 1).is_err() && node.grow_region(2, 1).is_err());
    assert!(node.commit(second, 0, 2 * huge).is_err() && node.commit(second, 4096, 4096).is_ok());
}
