//! The services of an interface, by request number, and the agreement about them.

use super::Service;
use super::apply::Apply;
use super::batch::Batch;
use super::gather::Gather;
use super::spread::Spread;
use super::when::When;
use clump_onesided::protocol::{FIRST_CODE, FREE_CODE, LAST_CODE};

/// Number of request numbers.
const CODES: usize = (LAST_CODE - FIRST_CODE) as usize + 1;

/// The services of a network interface.
pub struct Services {
    pub(crate) list: Vec<Box<dyn Service>>,
    by_code: [Option<u8>; CODES],
}

impl std::fmt::Debug for Services {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text())
    }
}

impl Default for Services {
    /// Returns those of this crate.
    fn default() -> Self {
        let mut services = Self { list: Vec::new(), by_code: [None; CODES] };
        let own: [Box<dyn Service>; 5] = [
            Box::new(Batch),
            Box::new(Gather),
            Box::new(Apply),
            Box::<When>::default(),
            Box::<Spread>::default(),
        ];
        for service in own {
            let added = services.insert(service);
            debug_assert!(added, "their numbers are distinct");
        }
        services
    }
}

impl Services {
    /// Adds a service of an upper layer.
    ///
    /// # Errors
    /// Fails if its numbers are not free, or not those of upper layers.
    pub fn add(&mut self, service: Box<dyn Service>) -> Result<(), String> {
        let id = service.id();
        if id.first >= FREE_CODE && self.insert(service) {
            return Ok(());
        }
        let last = id.first.saturating_add(id.count);
        Err(format!("service {}: request numbers {:#x}..{last:#x} are not free", id.name, id.first))
    }

    fn insert(&mut self, service: Box<dyn Service>) -> bool {
        let id = service.id();
        let end = id.first.saturating_add(id.count);
        let fits = id.first >= FIRST_CODE && end <= LAST_CODE + 1 && id.count > 0;
        let taken = |code: u8| self.which(code).is_some();
        if !fits || (id.first..end).any(taken) || self.list.len() >= CODES {
            return false;
        }
        let which = self.list.len() as u8;
        for code in id.first..end {
            self.by_code[usize::from(code - FIRST_CODE)] = Some(which);
        }
        let letters = |letter: u8| letter.is_ascii_alphanumeric() || letter == b'-';
        debug_assert!(id.name.bytes().all(letters), "names and versions are separable");
        self.list.push(service);
        debug_assert_eq!(self.which(end - 1), Some(usize::from(which)), "its requests lead to it");
        true
    }

    /// Returns the index of the service that executes a request number.
    #[inline]
    pub(crate) fn which(&self, code: u8) -> Option<usize> {
        let place = usize::from(code.checked_sub(FIRST_CODE)?);
        self.by_code.get(place).copied().flatten().map(usize::from)
    }

    /// Returns true if a service keeps as much as it may, and is given no more requests.
    pub(crate) fn is_full(&self, which: usize) -> bool {
        let service = self.list.get(which);
        service.is_none_or(|service| service.memory_bytes() >= service.memory_bound())
    }

    /// Returns names and versions, in order of request numbers: `batch:1 gather:1`.
    pub fn text(&self) -> String {
        let mut all: Vec<_> = self.list.iter().map(|service| service.id()).collect();
        all.sort_unstable_by_key(|id| id.first);
        let apart = all.windows(2).all(|two| two[0].first + two[0].count <= two[1].first);
        debug_assert!(apart, "a request number belongs to one service");
        let all: Vec<_> = all.iter().map(|id| format!("{}:{}", id.name, id.version)).collect();
        all.join(" ")
    }

    /// Returns a number that depends on names and versions.
    pub fn fingerprint(&self) -> u64 {
        let mix = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        self.text().bytes().fold(0xcbf2_9ce4_8422_2325, mix)
    }

    /// Checks that interfaces have these services, in the same versions, by the fingerprint of
    /// theirs.
    ///
    /// # Errors
    /// Fails with one line that names these services.
    pub fn check(&self, theirs: u64) -> Result<(), String> {
        if self.fingerprint() == theirs {
            return Ok(());
        }
        Err(format!("its network interfaces have other services than {self:?}"))
    }

    /// Returns the bytes that all keep.
    #[cfg(test)]
    pub(crate) fn memory_bytes(&self) -> usize {
        self.list.iter().map(|service| service.memory_bytes()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::{
        ServiceContext, ServiceId, ServiceOutcome, ServiceRequest, Ticket, Wakeup,
    };

    struct Empty(u32, u8, u8);

    impl Service for Empty {
        fn id(&self) -> ServiceId {
            ServiceId { name: "empty", version: self.0, first: self.1, count: self.2 }
        }

        fn handle(&mut self, _: &ServiceRequest<'_>, _: &mut ServiceContext<'_>) -> ServiceOutcome {
            ServiceOutcome::Done
        }

        fn resume(
            &mut self,
            _: Ticket,
            _: Wakeup<'_>,
            _: &mut ServiceContext<'_>,
        ) -> ServiceOutcome {
            ServiceOutcome::Done
        }

        fn forget(&mut self, _: Ticket) {}

        fn memory_bytes(&self) -> usize {
            0
        }

        fn memory_bound(&self) -> usize {
            1
        }
    }

    fn with(version: u32) -> Services {
        let mut services = Services::default();
        services.add(Box::new(Empty(version, FREE_CODE, 2))).unwrap();
        services
    }

    #[test]
    fn other_services_or_versions_are_refused_in_one_line() {
        assert_eq!(Services::default().check(Services::default().fingerprint()), Ok(()));
        assert_ne!(with(1).fingerprint(), with(2).fingerprint());
        let line = Services::default().check(with(1).fingerprint()).unwrap_err();
        let known = "batch:2 gather:2 apply:3 when:1 spread:2";
        assert_eq!(line, format!("its network interfaces have other services than {known}"));
    }

    #[test]
    fn request_numbers_belong_to_one_service() {
        let mut services = with(1);
        assert_eq!(services.which(FREE_CODE + 1), Some(5));
        assert_eq!((services.which(FREE_CODE + 2), services.which(0)), (None, None));
        assert!(services.add(Box::new(Empty(1, FREE_CODE + 1, 1))).is_err());
        assert!(services.add(Box::new(Empty(1, FIRST_CODE, 1))).is_err());
        assert!(services.add(Box::new(Empty(1, LAST_CODE, 2))).is_err());
        assert!(services.add(Box::new(Empty(1, LAST_CODE, 1))).is_ok());
    }
}
