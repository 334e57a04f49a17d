//! Scenes in the neutral file format (NFF, Haines, version 3.1): viewpoint, background, lights,
//! surfaces, balls, cones and cylinders, polygons, and patches.

use crate::diagnostic::{Checked, Diagnostic, SourcePosition};
use crate::rays::object::{self, ObjectFinish, ObjectShape, Surface};
use crate::rays::octree::SceneCube;
use crate::rays::polygon::{self, CuttingBudget};
use crate::rays::scene_world::{SceneHeader, SceneLight, WholeScene};
use crate::rays::vector::{Vector, dot, minus};
use crate::rays::view::View;

/// Most bytes of a scene file.
pub const MAX_TEXT: u64 = 64 << 20;
/// Most objects of a scene, polygons cut into triangles.
const MAX_OBJECTS: usize = 1 << 20;
/// Most corners of a polygon.
const MAX_CORNERS: usize = 4096;
/// Comparisons of corners that all polygons of a scene may take.
const CUTTING: u64 = 1 << 28;
/// Most lights.
const MAX_LIGHTS: usize = 64;
/// Pixels of a side of a picture at most, and of all of it.
const MAX_SIDE: usize = 1 << 15;
const MAX_PIXELS: usize = 1 << 26;
/// Most of a number: squares of it can be added.
const MAX_NUMBER: f64 = 1e30;

/// A scene that was read.
#[derive(Debug)]
pub struct NffScene {
    /// The scene.
    pub scene: WholeScene,
    /// Objects that have no extent, which were left out.
    pub empty: u64,
}

/// Word of a text, and where it is.
type NffWord<'a> = (SourcePosition, &'a str);

/// The text that is still to be read, and all that was read before.
struct NffReader<'a> {
    words: std::iter::Peekable<Box<dyn Iterator<Item = NffWord<'a>> + 'a>>,
    /// Place of the word before.
    at: SourcePosition,
    view: Option<View>,
    background: Vector,
    /// Lights, with their colours where they have some.
    lights: Vec<(Vector, Option<Vector>)>,
    surface: Option<Surface>,
    objects: Vec<(ObjectShape, ObjectFinish)>,
    budget: CuttingBudget,
    empty: u64,
}

/// Splits a text into words, without comments.
fn words(text: &str) -> impl Iterator<Item = NffWord<'_>> {
    (1..).zip(text.lines()).flat_map(|(line, content)| {
        let content = content.split('#').next().unwrap_or("");
        let mut column = 1;
        content.split_inclusive(char::is_whitespace).filter_map(move |word| {
            let at = SourcePosition { line, column };
            column += word.chars().count() as u32;
            let word = word.trim_end();
            (!word.is_empty()).then_some((at, word))
        })
    })
}

/// Reads a scene.
///
/// # Errors
/// Fails at the first word that makes no sense, and if there is no view or no object.
pub fn read(text: &str) -> Checked<NffScene> {
    let boxed: Box<dyn Iterator<Item = NffWord<'_>>> = Box::new(words(text));
    let mut reader = NffReader {
        words: boxed.peekable(),
        at: SourcePosition { line: 1, column: 1 },
        view: None,
        background: [0.0; 3],
        lights: Vec::new(),
        surface: None,
        objects: Vec::new(),
        budget: CuttingBudget(CUTTING),
        empty: 0,
    };
    while let Some((at, word)) = reader.words.next() {
        reader.at = at;
        reader.entity(word)?;
    }
    reader.end()
}

impl<'a> NffReader<'a> {
    fn wrong<T>(&self, what: impl Into<String>) -> Checked<T> {
        Err(Diagnostic::new(self.at, what))
    }

    fn entity(&mut self, word: &str) -> Checked<()> {
        match word {
            "v" => self.view(),
            "b" => {
                self.background = self.numbers("the background's red, green and blue")?;
                Ok(())
            }
            "l" => self.light(),
            "f" => self.fill(),
            "s" => self.ball(),
            "c" => self.cone(),
            "p" => self.polygon(false),
            "pp" => self.polygon(true),
            _ => {
                let word: String = word.chars().take(20).collect();
                self.wrong(format!("'{word}' is no entity: v, b, l, f, c, s, p and pp are"))
            }
        }
    }

    /// Returns the next word.
    fn word(&mut self, what: &str) -> Checked<&'a str> {
        let Some((at, word)) = self.words.next() else {
            return self.wrong(format!("the file ends, and {what} is missing"));
        };
        self.at = at;
        Ok(word)
    }

    fn number(&mut self, what: &str) -> Checked<f64> {
        let number = self.word(what)?.parse::<f64>().ok();
        match number.filter(|number| number.abs() <= MAX_NUMBER) {
            Some(number) => Ok(number),
            None => self.wrong(format!("here should be a number: {what}")),
        }
    }

    fn numbers<const N: usize>(&mut self, what: &str) -> Checked<[f64; N]> {
        let mut numbers = [0.0; N];
        for number in &mut numbers {
            *number = self.number(what)?;
        }
        Ok(numbers)
    }

    fn count(&mut self, what: &str, range: std::ops::RangeInclusive<usize>) -> Checked<usize> {
        let count = self.word(what)?.parse::<usize>().ok();
        match count.filter(|count| range.contains(count)) {
            Some(count) => Ok(count),
            None => {
                let (least, most) = range.into_inner();
                self.wrong(format!("here should be {what}, from {least} to {most}"))
            }
        }
    }

    fn view(&mut self) -> Checked<()> {
        let begin = self.at;
        let keyword = |reader: &mut Self, due: &str| {
            let word = reader.word(due)?;
            if word == due { Ok(()) } else { reader.wrong(format!("here should be '{due}'")) }
        };
        keyword(self, "from")?;
        let from = self.numbers("the eye")?;
        keyword(self, "at")?;
        let at = self.numbers("the place in the middle")?;
        keyword(self, "up")?;
        let up = self.numbers("the direction up")?;
        keyword(self, "angle")?;
        let angle = self.number("degrees")?;
        if !(1e-3..=179.0).contains(&angle) {
            return self.wrong("an angle is from 0.001 to 179 degrees");
        }
        keyword(self, "hither")?;
        let hither = self.number("the distance of the hither plane")?.max(0.0);
        keyword(self, "resolution")?;
        let columns = self.count("the columns of the picture", 1..=MAX_SIDE)?;
        let rows = self.count("the rows of the picture", 1..=MAX_SIDE)?;
        if columns * rows > MAX_PIXELS {
            return self.wrong(format!("a picture has up to {MAX_PIXELS} pixels"));
        }
        let view = View { from, at, up, angle, hither, size: (columns, rows) };
        if view.frame().is_none() {
            self.at = begin;
            return self.wrong("this view has no direction, or up is in it");
        }
        self.view = Some(view);
        Ok(())
    }

    fn light(&mut self) -> Checked<()> {
        if self.lights.len() == MAX_LIGHTS {
            return self.wrong(format!("a scene has up to {MAX_LIGHTS} lights"));
        }
        let at = self.numbers("the place of a light")?;
        let is_number = |(_, word): &NffWord<'_>| word.parse::<f64>().is_ok();
        let colour = match self.words.peek().is_some_and(is_number) {
            true => Some(self.numbers("the light's red, green and blue")?),
            false => None,
        };
        self.lights.push((at, colour));
        Ok(())
    }

    fn fill(&mut self) -> Checked<()> {
        let colour = self.numbers("the fill's red, green and blue")?;
        let [diffuse, specular, shine, transmitted, refraction] =
            self.numbers("Kd, Ks, Shine, T and the index of refraction")?;
        if [diffuse, specular, shine, transmitted, refraction].iter().any(|it| *it < 0.0) {
            return self.wrong("numbers of a fill are not below 0");
        }
        if transmitted > 0.0 && refraction == 0.0 {
            return self.wrong("what light passes through has an index of refraction above 0");
        }
        self.surface = Some(Surface { colour, diffuse, specular, shine, transmitted, refraction });
        Ok(())
    }

    fn add(&mut self, shape: ObjectShape, normals: &[Vector; 3]) -> Checked<()> {
        let Some(surface) = &self.surface else {
            return self.wrong("a fill ('f') comes before the first object");
        };
        let shape = if surface.transmitted > 0.0 { object::two_sided(shape) } else { shape };
        let finish = object::finish(surface, normals);
        if self.objects.len() == MAX_OBJECTS {
            return self.wrong(format!("a scene has up to {MAX_OBJECTS} objects and triangles"));
        }
        self.objects.push((shape, finish));
        Ok(())
    }

    fn ball(&mut self) -> Checked<()> {
        let middle = self.numbers("the middle of a ball")?;
        let radius = self.number("the radius of a ball")?;
        if radius == 0.0 {
            self.empty += 1;
            return Ok(());
        }
        self.add(object::ball(middle, radius), &[[0.0; 3]; 3])
    }

    fn cone(&mut self) -> Checked<()> {
        let base = self.numbers("the base of a cone")?;
        let base_radius = self.number("the radius of the base")?;
        let apex = self.numbers("the apex of a cone")?;
        let apex_radius = self.number("the radius of the apex")?;
        if base_radius * apex_radius < 0.0 {
            return self.wrong("both radii of a cone are below 0, or none is");
        }
        let axis = minus(apex, base);
        let has_extent = dot(axis, axis) > 0.0 && base_radius + apex_radius != 0.0;
        if !has_extent {
            self.empty += 1;
            return Ok(());
        }
        self.add(object::cone(base, base_radius, apex, apex_radius), &[[0.0; 3]; 3])
    }

    fn polygon(&mut self, is_patch: bool) -> Checked<()> {
        let begin = self.at;
        let count = self.count("the number of corners", 3..=MAX_CORNERS)?;
        let (mut corners, mut normals) = (Vec::new(), Vec::new());
        for _ in 0..count {
            corners.push(self.numbers("a corner")?);
            normals.push(if is_patch { self.numbers("the normal of a corner")? } else { [0.0; 3] });
        }
        let Ok(cut) = polygon::triangles(&corners, &mut self.budget) else {
            self.at = begin;
            return self.wrong("there are too many corners in polygons that are not convex");
        };
        if cut.is_empty() {
            self.empty += 1;
        }
        let shape = if is_patch { object::patch } else { object::triangle };
        for part in cut {
            self.add(shape(&part.map(|at| corners[at])), &part.map(|at| normals[at]))?;
        }
        Ok(())
    }

    fn end(self) -> Checked<NffScene> {
        let Some(view) = self.view else { return self.wrong("there is no view ('v')") };
        if self.objects.is_empty() {
            return self.wrong("there is no object");
        }
        // Lights without a colour share their power: 1 over the root of their number.
        let plain = [1.0 / (self.lights.len() as f64).sqrt(); 3];
        let light = |(at, colour): (Vector, Option<Vector>)| SceneLight {
            at,
            colour: colour.unwrap_or(plain),
        };
        let lights = self.lights.into_iter().map(light).collect();
        let (background, cube) = (self.background, SceneCube::default());
        let header = SceneHeader { view, background, lights, cube };
        Ok(NffScene { scene: WholeScene::new(header, self.objects), empty: self.empty })
    }
}

#[cfg(test)]
mod tests {
    use super::read;
    use proptest::prelude::{Strategy, any, proptest};
    use proptest::sample::select;

    const VIEW: &str = "v\nfrom 0 0 9\nat 0 0 0\nup 0 1 0\nangle 30\nhither 1\nresolution 8 8\n";
    const FILL: &str = "f 1 0 0 0.7 0.2 9 0 0\n";

    #[test]
    fn entities_are_read() {
        let text = format!(
            "# a comment\n{VIEW}b 0 0 1 # another\nl 1 2 3\nl 4 5 6 1 1 1\n{FILL}s 0 0 0 1\n\
             c 0 0 0 1\n0 1 0 0.5\np 4\n0 0 0\n1 0 0\n1 1 0\n0 1 0\n\
             pp 3\n0 0 0 0 0 1\n1 0 0 0 0 1\n0 1 0 0 0 1\np 3\n0 0 0\n1 1 1\n2 2 2\n"
        );
        let read = read(&text).unwrap();
        assert_eq!((read.scene.shapes.len(), read.empty), (5, 1));
        let lights: Vec<_> = read.scene.header.lights.iter().map(|light| light.colour).collect();
        assert_eq!(lights, [[1.0 / 2.0_f64.sqrt(); 3], [1.0; 3]]);
        assert_eq!(read.scene.header.background, [0.0, 0.0, 1.0]);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        for (text, at, what) in [
            (String::new(), "1:1", "no view"),
            (VIEW.to_owned(), "7:14", "no object"),
            (format!("{VIEW}s 0 0 0 1"), "8:9", "comes before the first object"),
            (format!("{VIEW}{FILL}s 0 x 0 1"), "9:5", "a number: the middle"),
            (format!("{VIEW}{FILL}s 0 0 0"), "9:7", "the file ends"),
            (format!("{VIEW}{FILL}s 0 0 0 nan"), "9:9", "a number"),
            (format!("{VIEW}{FILL}s 0 0 0 1e99"), "9:9", "a number"),
            (format!("{VIEW}{FILL}c 0 0 0 1 1 0 0 -1"), "9:17", "both radii"),
            (format!("{VIEW}{FILL}p 2 0 0 0"), "9:3", "from 3 to 4096"),
            (format!("{VIEW}{FILL}p 999999999999999999999"), "9:3", "from 3 to 4096"),
            (format!("{VIEW}f 1 1 1 1 1 1 1 0"), "8:17", "refraction above 0"),
            (format!("{VIEW}f 1 1 1 -1 1 1 1 0"), "8:18", "not below 0"),
            (format!("{VIEW}nurbs 7"), "8:1", "no entity"),
            (VIEW.replace("angle 30", "angle 180"), "5:7", "degrees"),
            (VIEW.replace("up 0 1 0", "up 0 0 1"), "1:1", "no direction"),
            (VIEW.replace("8 8", "32768 32768"), "7:18", "pixels"),
            (VIEW.replace("8 8", "0 8"), "7:12", "from 1 to"),
            (VIEW.replace("hither", "yon"), "6:1", "'hither'"),
            ("l 0 0 0\n".repeat(65), "65:1", "64 lights"),
        ] {
            let error = read(&text).unwrap_err();
            assert_eq!(error.at.to_string(), at, "{text}: {error:?}");
            assert!(error.what.contains(what), "{text}: {error:?}");
        }
    }

    fn some_words() -> impl Strategy<Value = String> {
        let words = select(vec![
            "v",
            "b",
            "l",
            "f",
            "s",
            "c",
            "p",
            "pp",
            "from",
            "at",
            "up",
            "angle",
            "hither",
            "resolution",
            "0",
            "1",
            "-1",
            "3",
            "4",
            "2.5",
            "1e30",
            "-1e-30",
            "nan",
            "#",
            "\n",
            "é",
            VIEW,
            FILL,
            "s 0 0 0 1\n",
            "p 3 0 0 0 1 0 0 0 1 0\n",
        ]);
        proptest::collection::vec(words, 0..80).prop_map(|words| words.join(" "))
    }

    proptest! {
        #[test]
        fn any_words_are_a_scene_or_an_error(text in some_words()) {
            if let Err(error) = read(&text) {
                assert!(error.show("scene", &text).contains(&error.what));
            }
        }

        #[test]
        fn any_text_is_a_scene_or_an_error(text in any::<String>()) {
            let _ = read(&format!("{VIEW}{FILL}{text}"));
            let _ = read(&text);
        }
    }
}
