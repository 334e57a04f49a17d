//! Polygons, cut into triangles by their ears.

use crate::rays::vector::{Vector, cross, dot, minus};

/// Comparisons of corners that cutting may take, all polygons of a scene together.
#[derive(Debug)]
pub struct CuttingBudget(pub u64);

/// A polygon that is not cut: its comparisons are too many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooIntricate;

/// Returns the normal of a polygon, as long as twice its area (Newell's sum).
fn area_normal(corners: &[Vector]) -> Vector {
    let mut sum = [0.0; 3];
    let first = corners.first().copied().unwrap_or_default();
    for pair in corners.windows(2) {
        let more = cross(minus(pair[0], first), minus(pair[1], first));
        sum = std::array::from_fn(|at| sum[at] + more[at]);
    }
    sum
}

/// Returns the triangles of a polygon, as numbers of its corners, in their direction. A polygon
/// without an area has none.
///
/// # Errors
/// Fails if the budget is used up.
pub fn triangles(
    corners: &[Vector],
    budget: &mut CuttingBudget,
) -> Result<Vec<[usize; 3]>, TooIntricate> {
    let normal = area_normal(corners);
    if dot(normal, normal) == 0.0 || !dot(normal, normal).is_finite() {
        return Ok(Vec::new());
    }
    let turn = |[a, b, c]: [usize; 3]| {
        dot(normal, cross(minus(corners[b], corners[a]), minus(corners[c], corners[a])))
    };
    let mut rest: Vec<usize> = (0..corners.len()).collect();
    let mut cut = Vec::new();
    let (mut at, mut tried) = (0, 0);
    while rest.len() > 3 {
        let count = rest.len();
        budget.0 = budget.0.checked_sub(count as u64).ok_or(TooIntricate)?;
        let ear = [rest[(at + count - 1) % count], rest[at % count], rest[(at + 1) % count]];
        let [a, b, c] = ear;
        let is_inside = |&&other: &&usize| {
            !ear.contains(&other)
                && !ear.iter().any(|&corner| corners[corner] == corners[other])
                && [[a, b, other], [b, c, other], [c, a, other]].iter().all(|&it| turn(it) >= 0.0)
        };
        let is_ear = turn(ear) > 0.0 && !rest.iter().any(|other| is_inside(&other));
        // Where corners are on one line, or edges cross, none may be an ear: any goes then.
        if is_ear || tried >= count {
            if turn(ear) > 0.0 {
                cut.push(ear);
            }
            rest.remove(at % count);
            tried = 0;
            at %= rest.len();
        } else {
            (at, tried) = ((at + 1) % count, tried + 1);
        }
    }
    if let [a, b, c] = rest[..]
        && turn([a, b, c]) > 0.0
    {
        cut.push([a, b, c]);
    }
    Ok(cut)
}

#[cfg(test)]
mod tests {
    use super::{CuttingBudget, TooIntricate, area_normal, triangles};
    use crate::rays::vector::{Vector, dot};

    fn area(corners: &[Vector]) -> f64 {
        let normal = area_normal(corners);
        dot(normal, normal).sqrt() / 2.0
    }

    #[test]
    fn triangles_cover_polygons_that_are_not_convex() {
        let arrow = [[0.0, 0.0], [4.0, 0.0], [4.0, 4.0], [2.0, 1.0], [0.0, 4.0]];
        let comb = [
            [0.0, 0.0],
            [7.0, 0.0],
            [7.0, 5.0],
            [6.0, 1.0],
            [5.0, 5.0],
            [4.0, 1.0],
            [3.0, 5.0],
            [2.0, 1.0],
            [1.0, 5.0],
        ];
        for flat in [&arrow[..], &comb[..]] {
            for begin in 0..flat.len() {
                let corners: Vec<Vector> = (0..flat.len())
                    .map(|at| flat[(at + begin) % flat.len()])
                    .map(|[x, y]| [x, y, 2.0 * x])
                    .collect();
                let cut = triangles(&corners, &mut CuttingBudget(10_000)).unwrap();
                assert_eq!(cut.len(), flat.len() - 2);
                let covered: f64 = cut.iter().map(|it| area(&it.map(|at| corners[at]))).sum();
                assert!((covered - area(&corners)).abs() < 1e-9, "{cut:?}");
            }
        }
    }

    #[test]
    fn polygons_without_area_have_no_triangles_and_the_budget_ends() {
        let line: Vec<Vector> = (0..9).map(|at| [f64::from(at), 0.0, 0.0]).collect();
        assert_eq!(triangles(&line, &mut CuttingBudget(1000)), Ok(Vec::new()));
        let round: Vec<Vector> = (0..90_u32)
            .map(|at| (f64::from(at) / 90.0 * std::f64::consts::TAU).sin_cos())
            .map(|(y, x)| [x, y, 0.0])
            .collect();
        assert_eq!(triangles(&round, &mut CuttingBudget(100)), Err(TooIntricate));
        assert_eq!(triangles(&round, &mut CuttingBudget(10_000)).map(|cut| cut.len()), Ok(88));
    }
}
