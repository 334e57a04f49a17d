//! Energies of a step, added up by all ranks under a lock.

use clump::svm::{SharedMutex, Svm};

/// Energies of a step: of places, and of motion.
#[derive(Debug)]
pub struct EnergySum {
    svm: Svm,
    energies: SharedMutex<[f64; 2]>,
}

impl EnergySum {
    /// Allocates it. A collective.
    ///
    /// # Errors
    /// Fails if the heap is full, or if a rank died or left.
    pub fn of(svm: &Svm) -> clump::Result<Self> {
        Ok(Self { svm: svm.clone(), energies: svm.mutex()? })
    }

    /// Begins a step; the caller passes a barrier before any rank adds to it.
    ///
    /// # Errors
    /// Fails if a rank died.
    pub fn clear(&self) -> clump::Result<()> {
        if self.svm.rank() == 0 {
            let energies = self.energies.lock()?;
            energies.set([0.0; 2]);
            energies.release()?;
        }
        Ok(())
    }

    /// Adds this rank's energies, and returns those of all; barriers are in it. A collective.
    ///
    /// # Errors
    /// Fails if a rank died.
    pub fn sum(&self, own: [f64; 2]) -> clump::Result<[f64; 2]> {
        let energies = self.energies.lock()?;
        let before = energies.get();
        energies.set([before[0] + own[0], before[1] + own[1]]);
        energies.release()?;
        self.svm.barrier()?;
        let energies = self.energies.lock()?;
        let found = energies.get();
        energies.release()?;
        self.svm.barrier()?;
        Ok(found)
    }
}
