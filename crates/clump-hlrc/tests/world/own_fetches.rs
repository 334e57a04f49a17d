//! Pages that ranks fetch by themselves: under way, stored, and noted for the node.

use clump_hlrc::{PageAccess, PageVersion};

use crate::world::World;

/// Fetch of a rank that is under way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OwnFetch {
    rank: usize,
    page: u32,
    access: PageAccess,
    home: u16,
    required: PageVersion,
    /// The home's answer, on its way back.
    answer: Option<(PageVersion, Vec<u8>)>,
}

/// Fetch that has ended, of which the node does not know.
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
        if self.fetches.iter().any(|other| other.rank / self.per_node == node && other.page == page)
        {
            // The rank tries again.
            return true;
        }
        for local in node * self.per_node..(node + 1) * self.per_node {
            self.take_notes(local);
        }
        let Some((home, required)) = self.nodes[node].open_page(page) else { return false };
        self.ranks[rank].waits = true;
        self.fetches.push(OwnFetch { rank, page, access, home, required, answer: None });
        self.carry_out(node);
        true
    }

    /// Delivers the request of a fetch, or its answer.
    pub fn deliver_fetch(&mut self, at: usize) {
        let mut fetch = self.fetches.swap_remove(at);
        let OwnFetch { rank, page, access, home, .. } = fetch;
        let node = rank / self.per_node;
        let Some((version, bytes)) = fetch.answer else {
            let version = self.nodes[usize::from(home)].home_version(page);
            if let Some(version) = version.filter(|version| version.covers(&fetch.required)) {
                let bytes = self.memories[usize::from(home)].pages[page as usize].clone();
                fetch.answer = Some((version, bytes));
                self.fetches.push(fetch);
            } else {
                self.nodes[node].handle_fault((rank % self.per_node) as u16, page, access);
                self.carry_out(node);
            }
            return;
        };
        self.memories[node].pages[page as usize].clone_from(&bytes);
        let run = &mut self.ranks[rank];
        run.waits = false;
        let right = run.mapped.entry(page).or_insert(access);
        *right = access.max(*right);
        run.notes.push(FetchNote { page, access, version, bytes });
    }

    /// Tells a node of what a rank has fetched.
    pub fn take_notes(&mut self, rank: usize) {
        let (node, local) = (rank / self.per_node, (rank % self.per_node) as u16);
        for FetchNote { page, access, version, bytes } in std::mem::take(&mut self.ranks[rank].notes)
        {
            let twin = self.nodes[node].note_fetched((local, page), access, version);
            assert!(twin.is_some(), "page {page} was open");
            if twin == Some(true) {
                let before = self.memories[node].twins.insert(page, bytes);
                assert!(before.is_none(), "page {page} has a twin");
            }
        }
    }

    /// Asserts that a node tells of each page that becomes open, or is so no longer.
    pub fn check_open(&mut self, node: usize) {
        for page in self.nodes[node].take_changed().into_iter().flatten() {
            match self.nodes[node].open_page(page) {
                Some(now) => self.open[node].insert(page, now),
                None => self.open[node].remove(&page),
            };
        }
        for page in 0..self.limits.pages {
            let told = self.open[node].get(&page);
            assert_eq!(self.nodes[node].open_page(page).as_ref(), told, "page {page} is open or not");
        }
    }
}
