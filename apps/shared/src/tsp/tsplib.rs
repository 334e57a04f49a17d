//! Files of symmetric instances in the format of TSPLIB.

use crate::tsp::distances::{Distances, MAX_CITIES, rounded};
use anyhow::{Context, Result, bail, ensure};
use std::collections::HashMap;

/// Radius of the earth in km, and pi, as TSPLIB has them.
const EARTH: f64 = 6378.388;
#[expect(clippy::approx_constant, reason = "optima are of distances with this value")]
const PI: f64 = 3.141592;

/// Returns the distances of the cities that a file has.
///
/// # Errors
/// Fails if it is no file of that format, has another type of distances, or too many cities.
pub fn read(text: &str) -> Result<Distances> {
    let file = TsplibFile::split(text);
    let cities: usize = file.word("DIMENSION")?.parse().context("DIMENSION is no number")?;
    ensure!(
        (3..=MAX_CITIES).contains(&cities),
        "it has {cities} cities: give a file of 3 to {MAX_CITIES}"
    );
    if let Ok(kind) = file.word("TYPE") {
        ensure!(kind == "TSP", "its TYPE is {kind}: give a file of type TSP");
    }
    match file.word("EDGE_WEIGHT_TYPE")? {
        "EXPLICIT" => file.explicit(cities),
        "EUC_2D" => file.by_places(cities, rounded),
        "CEIL_2D" => file.by_places(cities, |[a, b], [c, d]| (a - c).hypot(b - d).ceil() as u32),
        "ATT" => file.by_places(cities, pseudo_euclidean),
        "GEO" => file.by_places(cities, on_the_globe),
        other => bail!(
            "its EDGE_WEIGHT_TYPE is {other}: EXPLICIT, EUC_2D, CEIL_2D, ATT and GEO can be read"
        ),
    }
}

/// Words behind keys, and numbers of sections.
struct TsplibFile<'a> {
    words: HashMap<&'a str, &'a str>,
    sections: HashMap<&'a str, Vec<&'a str>>,
}

impl<'a> TsplibFile<'a> {
    fn split(text: &'a str) -> Self {
        let mut file = Self { words: HashMap::new(), sections: HashMap::new() };
        let mut section = None;
        for line in text.lines().map(str::trim).take_while(|line| *line != "EOF") {
            let (key, value) = line.split_once(':').unwrap_or((line, ""));
            let key = key.trim();
            if key.ends_with("_SECTION") {
                section = Some(key);
            } else if line.contains(':') {
                file.words.insert(key, value.trim());
            } else if let Some(section) = section {
                file.sections.entry(section).or_default().extend(line.split_whitespace());
            }
        }
        file
    }

    fn word(&self, key: &str) -> Result<&'a str> {
        self.words.get(key).copied().with_context(|| format!("it has no {key}"))
    }

    fn numbers<T: std::str::FromStr>(&self, section: &str, due: usize) -> Result<Vec<T>> {
        let words = self.sections.get(section).with_context(|| format!("it has no {section}"))?;
        ensure!(words.len() == due, "{section} has {} numbers instead of {due}", words.len());
        let number = |word: &&str| {
            word.parse().ok().with_context(|| format!("`{word}` in {section} is no such number"))
        };
        words.iter().map(number).collect()
    }

    fn by_places(
        &self,
        cities: usize,
        distance: impl Fn([f64; 2], [f64; 2]) -> u32,
    ) -> Result<Distances> {
        let numbers: Vec<f64> = self.numbers("NODE_COORD_SECTION", 3 * cities)?;
        ensure!(
            numbers.iter().all(|number| number.abs() <= 1e8),
            "coordinates are numbers from -1e8 to 1e8"
        );
        let place = |city: usize| [numbers[3 * city + 1], numbers[3 * city + 2]];
        Ok(Distances::of(cities, |a, b| if a == b { 0 } else { distance(place(a), place(b)) }))
    }

    fn explicit(&self, cities: usize) -> Result<Distances> {
        type First = fn(usize) -> usize;
        // Columns of a row: from the first on, up to the second.
        let (from, to): (First, fn(usize, usize) -> usize) =
            match self.word("EDGE_WEIGHT_FORMAT")? {
                "FULL_MATRIX" => (|_| 0, |_, cities| cities),
                "LOWER_DIAG_ROW" => (|_| 0, |row, _| row + 1),
                "LOWER_ROW" => (|_| 0, |row, _| row),
                "UPPER_DIAG_ROW" => (|row| row, |_, cities| cities),
                "UPPER_ROW" => (|row| row + 1, |_, cities| cities),
                other => bail!("its EDGE_WEIGHT_FORMAT is {other}: matrices by rows can be read"),
            };
        let row = |row: usize| (from(row)..to(row, cities)).map(move |column| (row, column));
        let places: Vec<_> = (0..cities).flat_map(row).collect();
        let numbers: Vec<u32> = self.numbers("EDGE_WEIGHT_SECTION", places.len())?;
        let full = places.len() == cities * cities;
        let mut table = vec![0; cities * cities];
        for (&(row, column), &number) in places.iter().zip(&numbers) {
            table[row * cities + column] = number;
            if !full {
                table[column * cities + row] = number;
            }
        }
        for (row, column) in places {
            ensure!(
                table[row * cities + column] == table[column * cities + row],
                "it is not symmetric: cities {} and {} have two distances",
                row + 1,
                column + 1
            );
        }
        Ok(Distances::of(cities, |a, b| table[a * cities + b]))
    }
}

/// Returns a distance in tenths of the root of 10, rounded up (`ATT`).
fn pseudo_euclidean([a, b]: [f64; 2], [c, d]: [f64; 2]) -> u32 {
    (((a - c).powi(2) + (b - d).powi(2)) / 10.0).sqrt().ceil() as u32
}

/// Returns a distance on the globe, of places in degrees and minutes, as DDD.MM (`GEO`).
fn on_the_globe(a: [f64; 2], b: [f64; 2]) -> u32 {
    let radians = |place: f64| {
        let degrees = place.trunc();
        PI * (degrees + 5.0 * (place - degrees) / 3.0) / 180.0
    };
    let ([a, b], [c, d]) = (a.map(radians), b.map(radians));
    let (east, north, sum) = ((b - d).cos(), (a - c).cos(), (a + c).cos());
    (EARTH * (0.5 * ((1.0 + east) * north - (1.0 - east) * sum)).acos() + 1.0) as u32
}

#[cfg(test)]
mod tests {
    use super::read;

    fn explicit(format: &str, numbers: &str) -> String {
        format!(
            "NAME : some\nTYPE : TSP\nDIMENSION : 3\nEDGE_WEIGHT_TYPE : EXPLICIT\n\
             EDGE_WEIGHT_FORMAT : {format}\nEDGE_WEIGHT_SECTION\n{numbers}\nEOF\n"
        )
    }

    #[test]
    fn all_formats_of_a_matrix_are_equal() {
        let full = read(&explicit("FULL_MATRIX", "0 1 2\n1 0 3\n2 3 0")).unwrap();
        assert_eq!([full.between(0, 1), full.between(2, 0), full.between(1, 2)], [1, 2, 3]);
        for (format, numbers) in [
            ("LOWER_DIAG_ROW", "0 1 0 2 3 0"),
            ("LOWER_ROW", "1 2\n3"),
            ("UPPER_DIAG_ROW", "0 1 2 0\n3 0"),
            ("UPPER_ROW", "1 2 3"),
        ] {
            assert_eq!(read(&explicit(format, numbers)).unwrap(), full, "{format}");
        }
    }

    #[test]
    fn places_are_distances_of_their_type() {
        let file = |kind: &str| {
            format!(
                "TYPE: TSP\nDIMENSION: 3\nEDGE_WEIGHT_TYPE: {kind}\nNODE_COORD_SECTION\n\
                 1 0 0\n2 3.0 4.3\n3 0 10\nEOF\n"
            )
        };
        let distance = |kind: &str| read(&file(kind)).unwrap().between(0, 1);
        assert_eq!(["EUC_2D", "CEIL_2D", "ATT"].map(distance), [5, 6, 2]);
    }

    #[test]
    fn what_is_wrong_with_a_file_is_said() {
        for (text, why) in [
            ("no file".into(), "it has no DIMENSION"),
            ("DIMENSION: 2000\n".into(), "give a file of 3 to 32"),
            (explicit("LOWER_ROW", "1 2"), "has 2 numbers instead of 3"),
            (explicit("LOWER_ROW", "1 2 x"), "`x` in EDGE_WEIGHT_SECTION"),
            (explicit("FULL_MATRIX", "0 1 2 9 0 3 2 3 0"), "cities 1 and 2 have two distances"),
            (explicit("UPPER_COL", "1 2 3"), "matrices by rows can be read"),
            (explicit("LOWER_ROW", "1 2 3").replace("TYPE : TSP", "TYPE : SOP"), "type TSP"),
        ] {
            let error = read(&text).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
