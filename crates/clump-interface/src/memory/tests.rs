//! Registered memory as an interface sees it: regions of the node against a model, and machines
//! that have no memory left.

use super::*;
use clump_os::sync::{AtomicU64 as Left, Ordering};
use clump_shm::geometry::{NODE_REGIONS, REGION_SPACE};
use clump_shm::node::NodeConfig;
use clump_shm::region::Pages;
use clump_shm::supply::Shortage;
use committed::CHUNK;
use proptest::prelude::*;

fn node() -> NodeMemory {
    let config = NodeConfig { node_of: &[0, 1], survive: true, ..NodeConfig::new(2) };
    NodeMemory::create(&config).unwrap()
}

/// A machine with so many bytes left.
#[derive(Debug, Clone, Default)]
struct Small(Arc<Left>);

impl Small {
    fn set(&self, bytes: u64) {
        self.0.store(bytes, Ordering::Relaxed);
    }
}

impl MemorySupply for Small {
    fn grant(&mut self, bytes: u64) -> Result<u64, Shortage> {
        let available = self.0.load(Ordering::Relaxed);
        let left = available.checked_sub(bytes).ok_or(Shortage { available })?;
        self.set(left);
        Ok(bytes)
    }
}

#[derive(Debug, Clone)]
enum Step {
    Open(u8, u64, Pages),
    Grow(u8, u64),
    Put(u8, u64, u8),
    Deposit(u8, u64, u8),
    Supply(u64),
}

fn any_step() -> impl Strategy<Value = Step> {
    let number = || 0_u8..3;
    let place = || 0_u64..6 * CHUNK;
    let pages = prop_oneof![Just(Pages::Base), Just(Pages::Huge)];
    prop_oneof![
        1 => (number(), prop_oneof![Just(3 * CHUNK), Just(6 * CHUNK), Just(0)], pages)
            .prop_map(|(number, reserved, pages)| Step::Open(number, reserved, pages)),
        2 => (number(), place()).prop_map(|(number, bytes)| Step::Grow(number, bytes)),
        4 => (number(), place(), any::<u8>()).prop_map(|(number, at, v)| Step::Put(number, at, v)),
        4 => (number(), place(), any::<u8>())
            .prop_map(|(number, at, v)| Step::Deposit(number, at, v)),
        2 => (0_u64..4).prop_map(|chunks| Step::Supply(chunks * CHUNK)),
    ]
}

/// A region as it should be.
#[derive(Debug, Clone)]
struct Model {
    shape: (u64, Pages),
    bytes: u64,
    content: HashMap<u64, u8>,
}

impl Model {
    /// Returns what an access to a byte should say, and commits its chunk.
    fn access(&mut self, at: u64, left: &mut u64, held: &mut HashSet<u64>) -> Result<(), Refusal> {
        if at >= self.bytes {
            return Err(Refusal::OutOfBounds);
        }
        let chunk = at / CHUNK;
        if !held.contains(&chunk) {
            *left = left.checked_sub(CHUNK).ok_or(Refusal::NoMemory)?;
            held.insert(chunk);
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn regions_are_what_a_model_says(steps in prop::collection::vec(any_step(), 1..120)) {
        let (node, small) = (node(), Small::default());
        let mut memory = NodeSegments::with_supply(node.clone(), Box::new(small.clone()));
        let mut models: HashMap<u8, Model> = HashMap::new();
        let mut held: HashMap<u8, HashSet<u64>> = HashMap::new();
        let mut left = 0;
        for step in steps {
            match step {
                Step::Open(number, reserved, pages) => {
                    let opened = node.open_region(SegmentName::of_node(0, number), reserved, pages);
                    if reserved == 0 {
                        prop_assert!(opened.is_err());
                        continue;
                    }
                    let model = models.entry(number).or_insert_with(|| Model {
                        shape: (reserved, pages),
                        bytes: 0,
                        content: HashMap::new(),
                    });
                    prop_assert_eq!(opened.is_ok(), model.shape == (reserved, pages));
                }
                Step::Grow(number, bytes) => {
                    let fits = models.get_mut(&number).filter(|model| bytes <= model.shape.0);
                    prop_assert_eq!(node.grow_region(SegmentName::of_node(0, number), bytes).is_ok(), fits.is_some());
                    if let Some(model) = fits {
                        model.bytes = model.bytes.max(bytes);
                    }
                }
                Step::Put(number, at, value) | Step::Deposit(number, at, value) => {
                    let name = SegmentName::of_node(0, number);
                    let deposits = matches!(step, Step::Deposit(..));
                    let expected = match models.get_mut(&number) {
                        Some(model) => {
                            model.access(at, &mut left, held.entry(number).or_default())
                        }
                        None => Err(Refusal::NoSuchSegment),
                    };
                    let done = if deposits {
                        let owner = SegmentOwner::Node(0);
                        let place =
                            DepositPlace { owner, index: number, generation: 0, offset: at };
                        memory.deposit(place, &[value]);
                        memory.deposited(name, at, 1)
                    } else {
                        memory.segment(name, at, 1).map(|cells| assert!(cells.write(at, &[value])))
                    };
                    prop_assert_eq!(done, expected);
                    if let Some(model) = models.get_mut(&number).filter(|_| expected.is_ok()) {
                        model.content.insert(at, value);
                    }
                }
                Step::Supply(bytes) => {
                    left = bytes;
                    small.set(bytes);
                }
            }
            memory.check_invariants();
        }
        for (&number, model) in &models {
            let Some((cells, extent)) = node.exported(SegmentName::of_node(0, number)).unwrap()
            else { continue };
            prop_assert_eq!((extent.bytes, extent.reserved), (model.bytes, model.shape.0));
            for (&at, value) in &model.content {
                let mut byte = [0];
                prop_assert!(cells.read(at, &mut byte) && byte == [*value]);
            }
        }
    }
}

#[test]
fn bytes_deposited_without_memory_are_an_error_of_the_request_behind_them() {
    let (node, small) = (node(), Small::default());
    let name = SegmentName::of_node(0, 0);
    node.open_region(name, REGION_SPACE, Pages::Base).unwrap();
    node.grow_region(name, REGION_SPACE).unwrap();
    let mut engine = NodeSegments::with_supply(node.clone(), Box::new(Small::default()));
    let mut stack = engine.for_deposits();
    stack.committed = Committed::new(Box::new(small.clone()));
    let place =
        |offset| DepositPlace { owner: SegmentOwner::Node(0), index: 0, generation: 0, offset };
    let far = REGION_SPACE - CHUNK;
    small.set(CHUNK);
    stack.deposit(place(0), &[1; 100]);
    stack.deposit(place(far), &[1; 100]);
    // The engine could have the memory by now: the bytes are lost all the same.
    engine.committed = Committed::new(Box::new(Small(Arc::new(Left::new(u64::MAX)))));
    assert_eq!(engine.deposited(name, 0, 100), Ok(()));
    assert_eq!(engine.deposited(name, far, 100), Err(Refusal::NoMemory));
    assert_eq!(engine.deposited(name, far, 100), Ok(()), "each loss is reported once");
    let mut first = [0; 1];
    assert!(engine.segment(name, 0, 1).unwrap().read(0, &mut first) && first == [1]);
}

#[test]
fn a_region_without_memory_refuses_every_kind_of_access_and_serves_once_there_is_some() {
    let (node, small) = (node(), Small::default());
    let mut memory = NodeSegments::with_supply(node.clone(), Box::new(small.clone()));
    let name = SegmentName::of_node(0, 15);
    node.open_region(name, REGION_SPACE, Pages::Huge).unwrap();
    node.grow_region(name, REGION_SPACE).unwrap();
    for at in [0, 1 << 30, REGION_SPACE - 8] {
        assert_eq!(memory.segment(name, at, 8).map(drop), Err(Refusal::NoMemory));
    }
    small.set(3 * CHUNK);
    for at in [0, 1 << 30, REGION_SPACE - 8] {
        let cells = memory.segment(name, at, 8).unwrap();
        assert!(cells.word(at).is_some_and(|word| word.swap(7, Ordering::Relaxed) == 0));
    }
    assert_eq!(memory.segment(name, 2 * CHUNK - 4, 8).map(drop), Err(Refusal::NoMemory));
    assert_eq!(memory.segment(name, REGION_SPACE - 4, 8).map(drop), Err(Refusal::OutOfBounds));
}

#[test]
fn names_of_other_nodes_and_of_no_region_are_refused() {
    let node = node();
    let mut memory = NodeSegments::new(node.clone());
    let name = SegmentName::of_node(0, 1);
    node.open_region(name, 1, Pages::Base).unwrap();
    node.grow_region(name, 1).unwrap();
    let bits = SegmentName::of_node(0, 1).to_bits();
    let names = [
        SegmentName::of_node(1, 1),
        SegmentName::of_node(0, 2),
        SegmentName::of_node(0, NODE_REGIONS as u8),
        SegmentName::of_node(0, 255),
        SegmentName::from_bits(bits + 1),
        SegmentName::from_bits(u64::MAX),
    ];
    for name in names {
        assert_eq!(memory.segment(name, 0, 1).map(drop), Err(Refusal::NoSuchSegment), "{name}");
    }
    assert!(memory.segment(SegmentName::from_bits(bits), 0, 1).is_ok());
}
