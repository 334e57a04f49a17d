//! Files of a study: which is what, and which of them are of one program.

use crate::study::instrument::InstrumentResults;
use crate::study::replays::{self, SweepReplay, replay_beside};
use crate::study::study_plan::{self, StudyPlan};
use crate::sweep::{SweepJournal, SweepPlan};
use anyhow::{Context, Result, bail, ensure};
use clump_boot::machine::{FORMAT, MachineFile};
use clump_os::text_file;
use clump_trace::Profile;
use std::path::Path;

/// Most bytes of a file that belongs to a study, or is the result of an instrument.
pub const MAX_BYTES: u64 = 1 << 30;

/// One program: its profile and its sweeps.
#[derive(Debug, Clone, Default)]
pub struct StudiedProgram {
    /// Its name: that of its files up to the first point.
    pub name: String,
    /// Its communication.
    pub profile: Option<Profile>,
    /// Sweeps of it.
    pub sweeps: Vec<SweepJournal>,
    /// Predictions of traced runs for the settings of these sweeps.
    pub replays: Vec<SweepReplay>,
}

/// Everything that was read.
#[derive(Debug, Clone, Default)]
pub struct Study {
    /// The parameters of the machine's paths.
    pub machine: Option<MachineFile>,
    /// The programs, in the order of their files.
    pub programs: Vec<StudiedProgram>,
    /// Results of other instruments.
    pub results: InstrumentResults,
    /// The plan of the sweeps, where one command made all of them.
    pub plan: Option<StudyPlan>,
}

impl Study {
    /// Reads files. A profile and a replay beside a journal of a sweep, which `clump lab sweep`
    /// leaves there, are read with it.
    ///
    /// # Errors
    /// A file cannot be read, or is none that belongs to a study.
    pub fn read<P: AsRef<Path>>(files: &[P]) -> Result<Self> {
        let mut study = Self::default();
        for file in files.iter().map(AsRef::as_ref) {
            study.read_file(file).with_context(|| format!("the file {}", file.display()))?;
            for beside in [profile_beside(file), replay_beside(file)] {
                if beside.is_file() && !files.iter().any(|other| other.as_ref() == beside) {
                    study.read_file(&beside).with_context(|| format!("{}", beside.display()))?;
                }
            }
        }
        Ok(study)
    }

    fn read_file(&mut self, file: &Path) -> Result<()> {
        let text = text_file::read(file, MAX_BYTES)?;
        let name = file.file_name().map(|name| name.to_string_lossy().into_owned());
        let name = name.unwrap_or_default();
        self.add(name.split('.').next().unwrap_or_default(), &text)
    }

    /// Adds the text of a file of the program `name`.
    ///
    /// # Errors
    /// It is none that belongs to a study.
    pub fn add(&mut self, name: &str, text: &str) -> Result<()> {
        let first = text.lines().next().unwrap_or_default();
        if serde_json::from_str::<SweepPlan>(first).is_ok() {
            let journal = SweepJournal::load(text)?;
            self.program(name).sweeps.push(journal);
            return Ok(());
        }
        let value: serde_json::Value = serde_json::from_str(text)
            .context("it is no profile, no journal of a sweep and no machine file")?;
        if value.get("clump_profile").is_some() {
            let profile: Profile = serde_json::from_value(value).context("a damaged profile")?;
            let profile = profile.checked().map_err(anyhow::Error::msg)?;
            self.program(name).profile = Some(profile);
        } else if value.get("clump_replay").is_some() {
            let replay: SweepReplay = serde_json::from_value(value).context("a damaged replay")?;
            ensure!(replay.clump_replay == replays::FORMAT, "a replay of another version");
            self.program(name).replays.push(replay);
        } else if value.get("clump_study").is_some() {
            let plan: StudyPlan = serde_json::from_value(value).context("a damaged plan")?;
            ensure!(plan.clump_study == study_plan::FORMAT, "a plan of another version");
            self.plan = Some(plan);
        } else if value.get("processor").is_some() && value.get("shm").is_some() {
            let machine: MachineFile =
                serde_json::from_value(value).context("a damaged machine file")?;
            ensure!(machine.format == FORMAT, "a machine file of another version");
            self.machine = Some(machine);
        } else if !self.results.add(name, &value)? {
            bail!(
                "it is no profile (clump run --profile), no journal (clump lab sweep --out), no \
                 machine file (clump lab calibrate --save) and no report (clump lab logp --json, \
                 clump lab steps --json)"
            );
        }
        Ok(())
    }

    fn program(&mut self, name: &str) -> &mut StudiedProgram {
        let known = self.programs.iter().position(|program| program.name == name);
        let at = known.unwrap_or(self.programs.len());
        if known.is_none() {
            self.programs.push(StudiedProgram { name: name.into(), ..Default::default() });
        }
        &mut self.programs[at]
    }
}

/// Returns the file in which a sweep leaves the profile of its last run at no setting.
pub fn profile_beside(journal: &Path) -> std::path::PathBuf {
    let mut name = journal.as_os_str().to_owned();
    name.push(".profile.json");
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_belong_to_no_study_are_refused_in_words() {
        let mut study = Study::default();
        let refusal =
            |study: &mut Study, text: &str| format!("{:#}", study.add("f", text).unwrap_err());
        assert!(refusal(&mut study, "no json").contains("no profile"));
        assert!(refusal(&mut study, "{\"a\": 1}").contains("clump run --profile"));
        assert!(refusal(&mut study, "{\"clump_profile\": 1}").contains("damaged profile"));
        assert!(refusal(&mut study, "{\"clump_replay\": 1}").contains("damaged replay"));
        assert!(study.programs.is_empty());
        let machine = MachineFile { format: FORMAT, ..MachineFile::default() };
        study.add("machine", &serde_json::to_string(&machine).unwrap()).unwrap();
        assert_eq!(study.machine, Some(machine));
    }
}
