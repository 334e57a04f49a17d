//! Molecules of three atoms on springs: their forces, and those between two of them. Lengths are in
//! nm, times in ps, masses in u, energies in kJ/mol.

use clump_app_frame::random::Random;

/// Three numbers for each of the atoms O, H and H.
pub type Atoms = [f64; 9];

/// Masses of the atoms.
pub const MASSES: [f64; 3] = [15.9994, 1.008, 1.008];
/// Charges of the atoms.
const CHARGES: [f64; 3] = [-0.82, 0.41, 0.41];
/// Coulomb's constant.
const COULOMB: f64 = 138.935;
/// Depth and diameter of the potential between O and O.
const DEPTH: f64 = 0.65;
const DIAMETER: f64 = 0.3166;
/// Springs: their atoms, lengths and stiffness.
const SPRINGS: [(usize, usize, f64, f64); 3] =
    [(0, 1, 0.1, 463_700.0), (0, 2, 0.1, 463_700.0), (1, 2, 0.1633, 100_000.0)];
/// Distance of neighbours at the beginning.
pub const SPACING: f64 = 0.36;

/// A periodic box, and the distances between O and O from which molecules see each other less, and
/// not at all.
#[derive(Debug, Clone, Copy)]
pub struct Cell {
    /// Length of a side.
    pub side: f64,
    /// Distances from which interactions fade, and at which they end.
    pub fade: (f64, f64),
}

impl Cell {
    /// Returns the box of so many molecules.
    pub fn of(molecules: usize) -> Self {
        let side = lattice(molecules) as f64 * SPACING;
        let end = (0.48 * side).min(1.0);
        Self { side, fade: (0.8 * end, end) }
    }

    /// Returns the way from one O to the nearest image of the other.
    fn between(&self, a: &Atoms, b: &Atoms) -> [f64; 3] {
        std::array::from_fn(|part| {
            let way = b[part] - a[part];
            way - self.side * (way / self.side).round()
        })
    }

    /// Returns the share of an interaction at a squared distance, and its derivative by that.
    fn share(&self, square: f64) -> (f64, f64) {
        let (begin, end) = (self.fade.0 * self.fade.0, self.fade.1 * self.fade.1);
        let at = (square - begin) / (end - begin);
        if at <= 0.0 {
            return (1.0, 0.0);
        }
        let at = at.min(1.0);
        let slope = -30.0 * at * at * (at - 1.0) * (at - 1.0) / (end - begin);
        (1.0 - at * at * at * (at * (at * 6.0 - 15.0) + 10.0), slope)
    }
}

/// Returns the molecules of a side of the lattice at the beginning.
pub fn lattice(molecules: usize) -> usize {
    (1..).find(|side: &usize| side * side * side >= molecules).unwrap_or(1)
}

/// Adds forces to others.
pub fn add(sum: &mut Atoms, more: &Atoms) {
    sum.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
}

/// Adds a force along `way` to an atom.
fn push(forces: &mut Atoms, atom: usize, way: [f64; 3], size: f64) {
    for part in 0..3 {
        forces[atom * 3 + part] += size * way[part];
    }
}

/// Adds the forces of a molecule's springs, and returns their energy.
pub fn springs(atoms: &Atoms, forces: &mut Atoms) -> f64 {
    let mut energy = 0.0;
    for (one, other, length, stiffness) in SPRINGS {
        let way: [f64; 3] =
            std::array::from_fn(|part| atoms[other * 3 + part] - atoms[one * 3 + part]);
        let distance = way.iter().map(|part| part * part).sum::<f64>().sqrt();
        let more = distance - length;
        energy += stiffness * more * more / 2.0;
        push(forces, one, way, stiffness * more / distance);
        push(forces, other, way, -stiffness * more / distance);
    }
    energy
}

/// Returns the energy of two molecules, and the forces on both; none if they are too far apart.
pub fn pair(cell: &Cell, a: &Atoms, b: &Atoms) -> Option<(f64, Atoms, Atoms)> {
    let middle = cell.between(a, b);
    let square: f64 = middle.iter().map(|part| part * part).sum();
    if square >= cell.fade.1 * cell.fade.1 {
        return None;
    }
    // The image of the other molecule.
    let image: Atoms = std::array::from_fn(|at| b[at] + middle[at % 3] - (b[at % 3] - a[at % 3]));
    let (mut on_a, mut on_b, mut energy) = ([0.0; 9], [0.0; 9], 0.0);
    let (share, slope) = cell.share(square);
    for one in 0..3 {
        for other in 0..3 {
            let way: [f64; 3] =
                std::array::from_fn(|part| image[other * 3 + part] - a[one * 3 + part]);
            let squared: f64 = way.iter().map(|part| part * part).sum();
            let charges = COULOMB * CHARGES[one] * CHARGES[other] / squared.sqrt();
            let (mut here, mut force) = (charges, charges / squared);
            if one == 0 && other == 0 {
                let sixth = (DIAMETER * DIAMETER / squared).powi(3);
                here += 4.0 * DEPTH * (sixth * sixth - sixth);
                force += 24.0 * DEPTH * (2.0 * sixth * sixth - sixth) / squared;
            }
            energy += here;
            push(&mut on_a, one, way, -force * share);
            push(&mut on_b, other, way, force * share);
        }
    }
    push(&mut on_a, 0, middle, 2.0 * slope * energy);
    push(&mut on_b, 0, middle, -2.0 * slope * energy);
    Some((energy * share, on_a, on_b))
}

/// Returns places and velocities of a molecule at the beginning.
pub fn at_first(seed: u64, molecules: usize, number: usize) -> (Atoms, Atoms) {
    let side = lattice(molecules);
    let corner = [number % side, number / side % side, number / side / side];
    let mut random = Random::from(seed, number as u64 * 16);
    let mut share = || (random.number() >> 11) as f64 / (1_u64 << 52) as f64 - 1.0;
    // Two directions at right angles, in which the H lie.
    let unit = |way: [f64; 3]| {
        let length = way.iter().map(|part| part * part).sum::<f64>().sqrt().max(1e-9);
        way.map(|part| part / length)
    };
    let first = unit([share() + 1e-3, share(), share()]);
    let other = [share(), share(), share() + 2e-3];
    let along: f64 = first.iter().zip(other).map(|(a, b)| a * b).sum();
    let second = unit(std::array::from_fn(|part| other[part] - along * first[part]));
    let (sine, cosine) = (0.1633_f64 / 2.0 / 0.1).asin().sin_cos();
    let places = std::array::from_fn(|at| {
        let (atom, part) = (at / 3, at % 3);
        let from_oxygen = match atom {
            0 => 0.0,
            1 => 0.1 * (cosine * first[part] + sine * second[part]),
            _ => 0.1 * (cosine * first[part] - sine * second[part]),
        };
        (corner[part] as f64 + 0.5) * SPACING + from_oxygen
    });
    let drift: [f64; 3] = std::array::from_fn(|_| 0.3 * share());
    (places, std::array::from_fn(|at| drift[at % 3]))
}
