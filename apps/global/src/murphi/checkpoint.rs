//! Checkpoints: the states of all ranks in files, one a rank, at the end of a level. A manifest
//! names those that belong together, so a job that ends while it writes leaves the one before.

use crate::murphi::exchange::StateExchange;
use crate::murphi::search_result::SearchResult;
use crate::murphi::store::keys::{fingerprint, owner};
use anyhow::{Context, Result, bail};
use clump::{Clump, Max};
use clump_os::{clock, file};
use std::fs::{self, File};
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

/// First word of all files.
const MAGIC: u64 = u64::from_le_bytes(*b"murphi\x01\x0a");
/// Words of a manifest.
const MANIFEST: usize = 11;
/// Name of the manifest.
const MANIFEST_NAME: &str = "manifest";

/// Checkpoints of a search.
#[derive(Debug)]
pub struct Checkpoints {
    folder: PathBuf,
    every_ns: u64,
    last: u64,
    generation: u64,
    /// Number of the model and of the options that states depend on.
    model: u64,
    resumes: bool,
}

/// A search at the end of a level.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SearchPoint {
    /// Counts so far.
    pub result: SearchResult,
    /// Level that is to be expanded.
    pub level: u64,
    /// States of it.
    pub found: u64,
}

impl SearchPoint {
    fn to_words(&self) -> [u64; 6] {
        let SearchResult { states, fired, depth, widest, .. } = self.result;
        [self.level, self.found, states, fired, depth, widest]
    }

    fn from_words([level, found, states, fired, depth, widest]: [u64; 6]) -> Self {
        let result = SearchResult { states, fired, depth, widest, ..SearchResult::default() };
        Self { result, level, found }
    }
}

/// Writes words, and a number that depends on all of them at the end.
struct WordWriter {
    file: BufWriter<File>,
    sum: u64,
}

impl WordWriter {
    fn create(path: &Path) -> std::io::Result<Self> {
        Ok(Self { file: BufWriter::with_capacity(1 << 18, File::create(path)?), sum: 0 })
    }

    fn put(&mut self, words: &[u64]) -> std::io::Result<()> {
        for word in words {
            self.sum = fingerprint(&[self.sum, *word]);
            self.file.write_all(&word.to_le_bytes())?;
        }
        Ok(())
    }

    fn end(mut self) -> std::io::Result<()> {
        let sum = self.sum;
        self.put(&[sum])?;
        self.file.flush()?;
        self.file.get_ref().sync_all()
    }
}

/// Reads words, and checks the number at the end.
struct WordReader {
    file: BufReader<File>,
    path: PathBuf,
    sum: u64,
}

impl WordReader {
    fn open(path: PathBuf) -> Result<Self> {
        let file = File::open(&path).with_context(|| format!("opening {}", path.display()))?;
        Ok(Self { file: BufReader::with_capacity(1 << 18, file), path, sum: 0 })
    }

    fn word(&mut self) -> Result<u64> {
        let mut bytes = [0; 8];
        let read = self.file.read_exact(&mut bytes);
        read.with_context(|| format!("reading the checkpoint {}", self.path.display()))?;
        let word = u64::from_le_bytes(bytes);
        self.sum = fingerprint(&[self.sum, word]);
        Ok(word)
    }

    fn words(&mut self, to: &mut [u64]) -> Result<()> {
        to.iter_mut().try_for_each(|word| {
            *word = self.word()?;
            Ok(())
        })
    }

    fn end(&mut self) -> Result<()> {
        let sum = self.sum;
        if self.word()? != sum || self.file.read(&mut [0])? > 0 {
            bail!("the checkpoint {} is damaged", self.path.display());
        }
        Ok(())
    }
}

impl Checkpoints {
    /// Creates checkpoints in a folder, at most one in so many seconds. `model` is a number of the
    /// model and its options.
    ///
    /// # Errors
    /// Fails if the folder cannot be made.
    pub fn new(folder: &Path, every_s: u64, model: u64, resumes: bool) -> Result<Self> {
        fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
        let every_ns = every_s.saturating_mul(1_000_000_000);
        let (folder, last) = (folder.to_owned(), clock::now_ns());
        Ok(Self { folder, every_ns, last, generation: 0, model, resumes })
    }

    fn file(&self, generation: u64, rank: u64) -> PathBuf {
        self.folder.join(format!("states-{generation}-{rank}"))
    }

    /// Writes a checkpoint if it is time. Collective.
    ///
    /// # Errors
    /// Fails if the disk is full, or if a rank is lost.
    pub fn save_if_due(
        &mut self,
        cl: &Clump,
        exchange: &StateExchange,
        point: &SearchPoint,
    ) -> Result<()> {
        let is_due = clock::now_ns() - self.last >= self.every_ns;
        if cl.all_reduce(u64::from(is_due && cl.rank() == 0), Max)? == 0 {
            return Ok(());
        }
        let (me, ranks) = (cl.rank() as u64, cl.nranks() as u64);
        let path = self.file(self.generation + 1, me);
        let written = WordWriter::create(&path).and_then(|mut writer| {
            writer.put(&[MAGIC, self.model, me, ranks])?;
            exchange.with(|store| store.save(&mut |words| writer.put(words)))?;
            writer.end()
        });
        written.with_context(|| format!("writing the checkpoint {}", path.display()))?;
        cl.barrier()?;
        self.generation += 1;
        if me == 0 {
            self.write_manifest(ranks, point)
                .with_context(|| format!("writing a manifest in {}", self.folder.display()))?;
        }
        cl.barrier()?;
        let before = self.file(self.generation - 1, me);
        if before.exists() {
            fs::remove_file(&before).with_context(|| format!("removing {}", before.display()))?;
        }
        self.last = clock::now_ns();
        Ok(())
    }

    fn write_manifest(&self, ranks: u64, point: &SearchPoint) -> std::io::Result<()> {
        let partial = self.folder.join("manifest.partial");
        let mut writer = WordWriter::create(&partial)?;
        writer.put(&[MAGIC, self.model, self.generation, ranks])?;
        writer.put(&point.to_words())?;
        writer.end()?;
        fs::rename(partial, self.folder.join(MANIFEST_NAME))?;
        file::sync_dir(&self.folder).map_err(|error| std::io::Error::other(error.to_string()))
    }

    /// Reads the manifest: generation, ranks, and the point.
    fn read_manifest(&self) -> Result<(u64, u64, SearchPoint)> {
        let mut reader = WordReader::open(self.folder.join(MANIFEST_NAME))?;
        let mut words = [0; MANIFEST - 1];
        reader.words(&mut words)?;
        let [magic, model, generation, ranks, ref rest @ ..] = words;
        if magic != MAGIC {
            bail!("{} is no checkpoint of this version", self.folder.display());
        }
        reader.end()?;
        if model != self.model {
            bail!(
                "the checkpoint in {} is of another model, or of other constants or options",
                self.folder.display()
            );
        }
        Ok((generation, ranks, SearchPoint::from_words(*rest)))
    }

    /// Restores the states of all ranks, if that is to be done. Collective.
    ///
    /// # Errors
    /// Fails if the checkpoint is damaged, or of another model; or if a rank is lost.
    pub fn resume(&mut self, cl: &Clump, exchange: &StateExchange) -> Result<Option<SearchPoint>> {
        if !self.resumes {
            return Ok(None);
        }
        let mine = if cl.rank() == 0 { Some(self.read_manifest()?) } else { None };
        let words = mine.map(|(generation, ranks, point)| (generation, ranks, point.to_words()));
        let words = words.map_or([0; 8], |(generation, ranks, [a, b, c, d, e, f])| {
            [generation, ranks, a, b, c, d, e, f]
        });
        let all = cl.all_gather(words)?;
        let Some(&[generation, ranks, ref point @ ..]) = all.first() else {
            bail!("a job without ranks");
        };
        self.generation = generation;
        let same = ranks == cl.nranks() as u64;
        let files = if same { cl.rank() as u64..cl.rank() as u64 + 1 } else { 0..ranks };
        self.load(files, (cl.rank(), cl.nranks()), exchange)?;
        if !same {
            // Files of other ranks are read by all.
            cl.barrier()?;
        }
        Ok(Some(SearchPoint::from_words(*point)))
    }

    /// Loads what belongs to a rank from files.
    fn load(
        &self,
        files: std::ops::Range<u64>,
        (me, ranks): (usize, usize),
        exchange: &StateExchange,
    ) -> Result<()> {
        let known_words = exchange.with(|store| store.known_words());
        let mut readers = Vec::new();
        let mut state = vec![0; exchange.words()];
        let mut known = vec![0; known_words];
        for number in files {
            let mut reader = WordReader::open(self.file(self.generation, number))?;
            let mut head = [0; 7];
            reader.words(&mut head)?;
            let [magic, model, rank, _, count, frontier, levels] = head;
            if (magic, model, rank) != (MAGIC, self.model, number) {
                bail!("the checkpoint {} is damaged", reader.path.display());
            }
            for _ in 0..count {
                reader.words(&mut known)?;
                exchange.with(|store| {
                    let key = if known_words == 1 && store.stores_keys() {
                        known.first().copied().unwrap_or(0)
                    } else {
                        store.key(&known)
                    };
                    if owner(key, ranks) == me { store.restore_known(&known) } else { Ok(()) }
                })?;
            }
            readers.push((reader, frontier, levels, Vec::new()));
        }
        exchange.with(|store| store.restored_known())?;
        for (reader, frontier, levels, ends) in &mut readers {
            for _ in 0..*frontier {
                reader.words(&mut state)?;
                exchange.with(|store| {
                    let is_mine = owner(store.key(&state), ranks) == me;
                    if is_mine { store.restore_frontier(&state) } else { Ok(()) }
                })?;
            }
            for _ in 0..*levels {
                ends.push(reader.word()?);
            }
        }
        let levels = readers.iter().map(|it| it.3.len()).max().unwrap_or(0);
        for level in 0..levels {
            for (reader, _, _, ends) in &mut readers {
                let begin = level.checked_sub(1).and_then(|it| ends.get(it).copied()).unwrap_or(0);
                let end = ends.get(level).copied().unwrap_or(begin);
                let mut pair = [0; 2];
                for _ in (begin..end).step_by(2) {
                    reader.words(&mut pair)?;
                    if owner(pair[0], ranks) == me {
                        exchange.with(|store| store.restore_log(Some(pair)))?;
                    }
                }
            }
            exchange.with(|store| store.restore_log(None))?;
        }
        readers.iter_mut().try_for_each(|(reader, ..)| reader.end())
    }
}
