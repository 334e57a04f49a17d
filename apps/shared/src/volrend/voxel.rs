//! Voxels as rays see them: their opacity, and the direction in which density changes.

/// Opacity, and the three parts of the slope of density, each plus 128.
pub type ShadedVoxel = [u8; 4];

/// Opacity of the sample of a voxel, by its density, in a volume of 64 slices, in 1/255.
const OPACITIES: [(u8, u8, f64); 3] = [(20, 54, 6.0), (55, 150, 90.0), (151, 255, 40.0)];

/// Opacities by density, for volumes of one size.
#[derive(Debug, Clone)]
pub struct OpacityTable([u8; 256]);

impl OpacityTable {
    /// Makes the table of volumes of `side` slices: finer samples are less opaque.
    pub fn of(side: usize) -> Self {
        let mut table = [0; 256];
        for (low, high, opacity) in OPACITIES {
            let fine = 1.0 - (1.0 - opacity / 255.0_f64).powf(64.0 / side as f64);
            table[usize::from(low)..=usize::from(high)].fill((fine * 255.0).round().max(1.0) as u8);
        }
        Self(table)
    }
}

/// Returns voxel `at` (x, y, z) of a volume of `side` slices whose densities `density` returns.
pub fn shaded(
    table: &OpacityTable,
    side: usize,
    at: [usize; 3],
    density: impl Fn([usize; 3]) -> u8,
) -> ShadedVoxel {
    debug_assert!(at.iter().all(|&part| part < side), "inside the volume");
    let slope = |part: usize| {
        let (mut low, mut high) = (at, at);
        low[part] = at[part].saturating_sub(1);
        high[part] = (at[part] + 1).min(side - 1);
        ((i32::from(density(high)) - i32::from(density(low))) / 2 + 128) as u8
    };
    [table.0[usize::from(density(at))], slope(0), slope(1), slope(2)]
}

#[cfg(test)]
mod tests {
    use super::{OpacityTable, shaded};

    #[test]
    fn slopes_point_to_where_it_is_denser() {
        let table = OpacityTable::of(64);
        let density = |at: [usize; 3]| (10 * at[0] + 100 - 20 * at[2]) as u8;
        assert_eq!(shaded(&table, 4, [1, 2, 2], density), [90, 138, 128, 108]);
        assert_eq!(shaded(&table, 4, [0, 0, 0], |_| 0), [0, 128, 128, 128]);
        assert_eq!(shaded(&table, 4, [0, 3, 0], density)[1..], [133, 128, 118]);
    }
}
