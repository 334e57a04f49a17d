use super::*;

/// A folder that disappears with the test.
struct Tree(PathBuf);

impl Tree {
    fn new(name: &str) -> Self {
        let dir =
            std::env::temp_dir().join(format!("clump-topology-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }

    fn file(&self, path: &str, content: &str) -> &Self {
        let path = self.0.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
        self
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Two sockets, one core each, two threads per core: CPUs 0 and 2 share a core, so do 1 and 3.
fn two_sockets(name: &str) -> Tree {
    let tree = Tree::new(name);
    tree.file("cpu/online", "0-3\n").file("node/online", "0-1\n");
    tree.file("node/node0/cpulist", "0,2\n").file("node/node1/cpulist", "1,3\n");
    for id in 0..4 {
        let siblings = if id % 2 == 0 { "0,2\n" } else { "1,3\n" };
        let cpu = format!("cpu/cpu{id}");
        tree.file(&format!("{cpu}/topology/core_cpus_list"), siblings);
        tree.file(&format!("{cpu}/topology/physical_package_id"), &format!("{}\n", id % 2));
        for (index, level, kind, size) in [(0, 1, "Data", "32K"), (1, 3, "Unified", "32M")] {
            let cache = format!("{cpu}/cache/index{index}");
            tree.file(&format!("{cache}/level"), &format!("{level}\n"));
            tree.file(&format!("{cache}/type"), &format!("{kind}\n"));
            tree.file(&format!("{cache}/size"), &format!("{size}\n"));
            tree.file(&format!("{cache}/coherency_line_size"), "64\n");
            tree.file(&format!("{cache}/shared_cpu_list"), siblings);
        }
    }
    tree
}

#[test]
fn a_cpu_list_is_read_as_the_kernel_writes_it() {
    assert_eq!(cpu_list("0-3,8,10-11\n"), [0, 1, 2, 3, 8, 10, 11]);
    assert_eq!(cpu_list("5"), [5]);
    assert_eq!(cpu_list("\n"), Vec::<usize>::new());
    assert_eq!(cpu_list("x,3-,2"), [2]);
    assert_eq!(cpu_list("3,1-3"), [1, 2, 3]);
    assert!(cpu_list("0-99999999999").len() <= (1 << 16) + 1);
}

#[test]
fn sockets_cores_threads_and_caches_are_told_apart() {
    let tree = two_sockets("sockets");
    let machine = Topology::read_below(&tree.0);
    assert_eq!(machine.cpus.len(), 4);
    assert_eq!((machine.cores(), machine.packages(), machine.nodes()), (2, 2, 2));
    assert!(machine.siblings(0, 2) && !machine.siblings(0, 1));
    assert_eq!(machine.caches.len(), 4, "two levels, one of each per socket");
    assert_eq!((machine.caches[0].level, machine.caches[0].bytes), (1, 32 << 10));
    assert_eq!((machine.caches[3].level, machine.caches[3].bytes), (3, 32 << 20));
}

#[test]
fn ranks_share_a_core_only_when_cores_run_out() {
    let tree = two_sockets("spread");
    assert_eq!(Topology::read_below(&tree.0).spread(), [0, 1, 2, 3]);
    let half = Topology::read_below(&tree.0).restricted_to(&[0, 2, 3]);
    assert_eq!(half.spread(), [0, 3, 2], "3 is the only thread left of its core, 2 a second one");
    assert_eq!(half.cores(), 2);
}

#[test]
fn a_machine_that_tells_nothing_is_one_core_per_cpu() {
    let tree = Tree::new("bare");
    tree.file("cpu/online", "0-1\n");
    let machine = Topology::read_below(&tree.0);
    assert_eq!((machine.cores(), machine.nodes(), machine.caches.len()), (2, 1, 0));
}

#[test]
fn the_tightest_quota_on_the_way_up_counts() {
    let tree = Tree::new("v2");
    tree.file("a/cpu.max", "150000 100000\n").file("a/b/cpu.max", "max 100000\n");
    assert_eq!(quota_below(&tree.0, "0::/a/b\n"), Some(1.5));
    assert_eq!(quota_below(&tree.0, "0::/elsewhere\n"), None);
    // A container often sees its own group as the root.
    tree.file("cpu.max", "50000 100000\n");
    assert_eq!(quota_below(&tree.0, "0::/hidden/name\n"), Some(0.5));
}

#[test]
fn version_one_groups_are_read_too() {
    let tree = Tree::new("v1");
    tree.file("cpu,cpuacct/job/cpu.cfs_quota_us", "200000\n");
    tree.file("cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
    tree.file("cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
    tree.file("cpu,cpuacct/cpu.cfs_period_us", "100000\n");
    let groups = "5:memory:/job\n4:cpu,cpuacct:/job\n";
    assert_eq!(quota_below(&tree.0, groups), Some(2.0));
    assert_eq!(quota_below(&tree.0, "garbled"), None);
}

#[test]
fn quota_and_affinity_together_say_how_many_ranks_can_run() {
    assert_eq!(usable(8, None), 8);
    assert_eq!(usable(8, Some(2.5)), 2);
    assert_eq!(usable(2, Some(16.0)), 2);
    assert_eq!(usable(4, Some(0.5)), 1);
}

#[test]
fn sizes_have_units() {
    assert_eq!(size("512K\n"), Some(512 << 10));
    assert_eq!(size("1G"), Some(1 << 30));
    assert_eq!(size("77"), Some(77));
    assert_eq!(size("K"), None);
    assert_eq!(size(""), None);
}

#[test]
fn a_thread_can_be_confined_and_set_free_again() {
    let before = affinity().unwrap();
    assert!(!before.is_empty());
    std::thread::spawn(move || {
        set_affinity(&before[..1]).unwrap();
        assert_eq!(affinity().unwrap(), before[..1]);
        set_affinity(&before).unwrap();
        assert_eq!(affinity().unwrap(), before);
        let error = set_affinity(&[usize::MAX]).unwrap_err();
        assert!(error.to_string().contains("binding to CPUs"), "{error}");
    })
    .join()
    .unwrap();
}

#[test]
fn this_machine_can_be_read() {
    let machine = Topology::read();
    assert!(machine.cores() >= 1 && machine.cores() <= machine.cpus.len());
    assert!(usable_cores() >= 1);
}

#[test]
fn pressure_is_read_or_unknown() {
    let table = "some avg10=71.47 avg60=60.23 avg300=65.21 total=2119\nfull avg10=0.00 total=0\n";
    assert_eq!(pressure(table), Some(71.47));
    assert_eq!([pressure(""), pressure("full avg10=1.00"), pressure("some avg10=x")], [None; 3]);
}
