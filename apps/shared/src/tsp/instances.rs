//! Built-in instances of TSPLIB (Reinelt, ORSA Journal on Computing 3, 1991): their numbers are
//! facts, carried over as they are there, with the lengths of their optimal tours.

use crate::tsp::distances::Distances;
use crate::tsp::tsplib;
use anyhow::Result;
use clap::ValueEnum;

/// A built-in instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Instance {
    /// 14 cities in Burma (Zaw Win), optimum 3323
    Burma14,
    /// 17 cities (Groetschel), optimum 2085
    Gr17,
    /// 21 cities (Groetschel), optimum 2707
    Gr21,
}

impl Instance {
    /// Returns the length of its shortest tour.
    pub fn optimum(self) -> u64 {
        match self {
            Self::Burma14 => 3323,
            Self::Gr17 => 2085,
            Self::Gr21 => 2707,
        }
    }

    /// Returns the name that TSPLIB has for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Burma14 => "burma14",
            Self::Gr17 => "gr17",
            Self::Gr21 => "gr21",
        }
    }

    /// Returns the distances of its cities.
    ///
    /// # Errors
    /// Fails if its text is wrong.
    pub fn distances(self) -> Result<Distances> {
        tsplib::read(match self {
            Self::Burma14 => BURMA14,
            Self::Gr17 => GR17,
            Self::Gr21 => GR21,
        })
    }
}

const BURMA14: &str = "\
NAME: burma14
TYPE: TSP
DIMENSION: 14
EDGE_WEIGHT_TYPE: GEO
NODE_COORD_SECTION
1 16.47 96.10
2 16.47 94.44
3 20.09 92.54
4 22.39 93.37
5 25.23 97.24
6 22.00 96.05
7 20.47 97.02
8 17.20 96.29
9 16.30 97.38
10 14.05 98.12
11 16.53 97.38
12 21.52 95.59
13 19.41 97.13
14 20.09 94.55
EOF
";

const GR17: &str = "\
NAME: gr17
TYPE: TSP
DIMENSION: 17
EDGE_WEIGHT_TYPE: EXPLICIT
EDGE_WEIGHT_FORMAT: LOWER_DIAG_ROW
EDGE_WEIGHT_SECTION
0 633 0 257 390 0 91 661 228 0 412 227
169 383 0 150 488 112 120 267 0 80 572 196
77 351 63 0 134 530 154 105 309 34 29 0
259 555 372 175 338 264 232 249 0 505 289 262
476 196 360 444 402 495 0 353 282 110 324 61
208 292 250 352 154 0 324 638 437 240 421 329
297 314 95 578 435 0 70 567 191 27 346 83
47 68 189 439 287 254 0 211 466 74 182 243
105 150 108 326 336 184 391 145 0 268 420 53
239 199 123 207 165 383 240 140 448 202 57 0
246 745 472 237 528 364 332 349 202 685 542 157
289 426 483 0 121 518 142 84 297 35 29 36
236 390 238 301 55 96 153 336 0
EOF
";

const GR21: &str = "\
NAME: gr21
TYPE: TSP
DIMENSION: 21
EDGE_WEIGHT_TYPE: EXPLICIT
EDGE_WEIGHT_FORMAT: LOWER_DIAG_ROW
EDGE_WEIGHT_SECTION
0 510 0 635 355 0 91 415 605 0 385 585 390 350 0 155 475 495 120 240 0
110 480 570 78 320 96 0 130 500 540 97 285 36 29 0
490 605 295 460 120 350 425 390 0 370 320 700 280 590 365 350 370 625 0
155 380 640 63 430 200 160 175 535 240 0 68 440 575 27 320 91 48 67 430 300 90 0
610 360 705 520 835 605 590 610 865 250 480 545 0
655 235 585 555 750 615 625 645 775 285 515 585 190 0
480 81 435 380 575 440 455 465 600 245 345 415 295 170 0
265 480 420 235 125 125 200 165 230 475 310 205 715 650 475 0
255 440 755 235 650 370 320 350 680 150 175 265 400 435 385 485 0
450 270 625 345 660 430 420 440 690 77 310 380 180 215 190 545 225 0
170 445 750 160 495 265 220 240 600 235 125 170 485 525 405 375 87 315 0
240 290 590 140 480 255 205 220 515 150 100 170 390 425 255 395 205 220 155 0
380 140 495 280 480 340 350 370 505 185 240 310 345 280 105 380 280 165 305 150 0
EOF
";
