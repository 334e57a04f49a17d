//! Pages that ranks fetch by themselves: under way, stored, and noted for the node.

use clump_hlrc::{OpenPage, PageAccess, PageVersion, VectorTime, merge};

use crate::world::World;

/// Fetch of a rank that is under way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OwnFetch {
    rank: usize,
    page: u32,
    access: PageAccess,
    terms: OpenPage,
    /// True once the node has taken the lease away: it has closed the page since.
    lost: bool,
    /// The home's answer, on its way back.
    answer: Option<(PageVersion, VectorTime, Vec<u8>)>,
}

/// Fetch that has ended and is not reported to the node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FetchNote {
    page: u32,
    access: PageAccess,
    version: PageVersion,
    bytes: Vec<u8>,
}

impl World {
    /// Has a rank fetch a page that it faults on. Returns false if the node is to do so.
    pub fn fetch_own(&mut self, rank: usize, page: u32, access: PageAccess) -> bool {
        let node = rank / self.per_node;
        let leased = |other: &OwnFetch| {
            other.rank / self.per_node == node && other.page == page && !other.lost
        };
        if self.fetches.iter().any(leased) {
            return false;
        }
        // The node's last publication, whatever has been noted since.
        let Some(terms) = self.open[node].get(&page).cloned() else { return false };
        let noted = |run: &crate::world::RankRun| run.notes.iter().any(|note| note.page == page);
        if self.ranks[node * self.per_node..(node + 1) * self.per_node].iter().any(noted) {
            return false;
        }
        self.ranks[rank].waits = true;
        self.fetches.push(OwnFetch { rank, page, access, terms, lost: false, answer: None });
        true
    }

    /// Delivers the request of a fetch, or its answer.
    pub fn deliver_fetch(&mut self, at: usize) {
        let mut fetch = self.fetches.swap_remove(at);
        let OwnFetch { rank, page, access, ref terms, lost, .. } = fetch;
        let node = rank / self.per_node;
        let answer = match fetch.answer.take() {
            Some(answer) => Some(answer).filter(|_| !lost).filter(|(_, time, _)| {
                let own = self.nodes[node].own_fetch_time((rank % self.per_node) as u16);
                own.covers(time) && own.covers(&self.nodes[node].own_fetch_needs())
            }),
            None => {
                let home = usize::from(terms.home);
                let version = self.nodes[home].home_version(page);
                let version = version.filter(|(version, _)| version.covers(&terms.required));
                if let Some((version, time)) = version {
                    let bytes = self.memories[home].pages[page as usize].clone();
                    fetch.answer = Some((version, time, bytes));
                    self.fetches.push(fetch);
                    return;
                }
                None
            }
        };
        let Some((version, _, bytes)) = answer else {
            self.take_all_notes(node);
            self.nodes[node].handle_fault((rank % self.per_node) as u16, page, access);
            self.carry_out(node);
            return;
        };
        let memory = &mut self.memories[node];
        let twin = memory.twins.get_mut(&page);
        assert_eq!(twin.is_some(), terms.twin, "page {page} has a twin or not");
        match twin {
            Some(twin) => {
                merge(&mut memory.pages[page as usize], twin, &bytes);
                twin.clone_from(&bytes);
            }
            None => memory.pages[page as usize].clone_from(&bytes),
        }
        self.own_fetched += 1;
        let run = &mut self.ranks[rank];
        run.waits = false;
        let right = run.mapped.entry(page).or_insert(access);
        *right = access.max(*right);
        run.notes.push(FetchNote { page, access, version, bytes });
    }

    /// Reports the fetches of its ranks to a node, before the next event.
    pub fn take_all_notes(&mut self, node: usize) {
        for local in 0..self.per_node {
            let rank = node * self.per_node + local;
            for note in std::mem::take(&mut self.ranks[rank].notes) {
                let FetchNote { page, access, version, bytes } = note;
                let of = (local as u16, page);
                let twin = self.nodes[node].note_fetched(of, access, version);
                assert!(twin.is_some(), "page {page} was open");
                if twin == Some(true) {
                    let before = self.memories[node].twins.insert(page, bytes);
                    assert!(before.is_none(), "page {page} has a twin");
                }
            }
        }
    }

    /// Asserts that a node publishes each page that becomes open, is open on other terms, or no
    /// longer, and revokes their leases.
    pub fn check_open(&mut self, node: usize) {
        for page in self.nodes[node].take_changed().into_iter().flatten() {
            match self.nodes[node].open_page(page) {
                Some(now) => self.open[node].insert(page, now),
                None => self.open[node].remove(&page),
            };
            let of_page =
                |fetch: &&mut OwnFetch| fetch.rank / self.per_node == node && fetch.page == page;
            self.fetches.iter_mut().filter(of_page).for_each(|fetch| fetch.lost = true);
        }
        for page in 0..self.limits.pages {
            let told = self.open[node].get(&page);
            assert_eq!(
                self.nodes[node].open_page(page).as_ref(),
                told,
                "page {page} is open or not"
            );
        }
    }
}
