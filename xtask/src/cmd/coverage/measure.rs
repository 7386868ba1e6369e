// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Builds with counters and runs tests, by cargo-llvm-cov and nextest. It owns the folder of that build, which is no
//! other build's, and the files with counts in it.
//!
//! The counts of a program are a few files that its processes map and count in. So one that is killed loses nothing, and
//! thousands of processes leave four files each program. What is lost: a process that runs as another user before the
//! file is there, so each program is run once by us; and now and then one count of two processes that count the same line
//! in the same instant, which moves no line to zero.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::Flag;
use crate::cmd::test::Etcds;
use crate::sh::Step;
use crate::tools::Tool;

/// What is measured, and what of ours it starts.
const PACKAGES: [&str; 4] = ["--package", "etcd-wrapper", "--package", "doubles"];
/// Lets the counters lie in the mapped file instead of the process's own memory.
const MAPPED: &str = "-C llvm-args=-runtime-counter-relocation";
/// Files for each program: processes that run side by side on two cores and count the same lines in one file would wait
/// for each other's writes.
const POOL: usize = 4;
/// What llvm-cov leaves out of the pages.
const NOT_OURS: &str = r"/(e2e|xtask)/|/wrapper/src/fuzz|/wrapper/build\.rs|/tests\.rs$";

/// A build with counters, ready to run tests.
#[derive(Debug)]
pub(super) struct Bench {
    root: PathBuf,
    /// cargo's target folder for it; cargo-llvm-cov looks for counts in it too.
    target: PathBuf,
    /// Counts of flags that have run.
    kept: PathBuf,
    /// Variables that cargo-llvm-cov wants.
    env: Vec<(String, String)>,
    llvm_cov: PathBuf,
    nextest: PathBuf,
    etcds: Etcds,
}

impl Bench {
    pub(super) fn build(root: &Path, folder: &Path) -> Result<Self> {
        let llvm_cov = Tool::CargoLlvmCov.ensure()?;
        let nextest = Tool::CargoNextest.ensure()?;
        llvm_tools()?;
        let etcds = Etcds::ensure()?;
        let target = folder.join("build");
        let kept = folder.join("counts");
        for folder in [&target, &kept] {
            std::fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
            // Counts of an earlier run are not this run's.
            for file in counts(folder)? {
                std::fs::remove_file(&file).with_context(|| format!("remove {}", file.display()))?;
            }
        }
        let said = Step::new(&llvm_cov)
            .args(["llvm-cov", "show-env", "--sh"])
            .env("CARGO_TARGET_DIR", &target)
            .dir(root)
            .read()?;
        let env = variables(&said)?;
        let bench = Self { root: root.to_path_buf(), target, kept, env, llvm_cov, nextest, etcds };
        let what = "building the wrapper and its tests with counters (once some 4 minutes on two cores)";
        bench
            .step("cargo", Flag::Unit)
            .args(["build", "--locked", "--lib", "--bins", "--tests"])
            .args(PACKAGES)
            .watch(what)?;
        Ok(bench)
    }

    /// Runs the tests of a flag; whether all passed. Their counts are kept.
    pub(super) fn run(&self, flag: Flag) -> Result<bool> {
        self.begin_files(flag)?;
        let mut step = self
            .step(&self.nextest, flag)
            .args(["nextest", "run", "--locked", "--no-fail-fast"])
            .args(PACKAGES);
        step = step.args(["-E", self.selection(flag)]);
        let left_out = self.etcds.left_out();
        if flag == Flag::Integration && !left_out.is_empty() {
            eprintln!("not measured, see `cargo xtask test integration`: {}", left_out.join(", "));
            step = step.arg("--");
            for name in left_out {
                step = step.args(["--skip", name]);
            }
        }
        for (name, path) in self.etcds.binaries() {
            step = step.env(name, path);
        }
        let passed = step.status()?.success();
        for file in counts(&self.target)? {
            let to = self.kept.join(file.file_name().context("a file has a name")?);
            std::fs::rename(&file, &to).with_context(|| format!("move {}", file.display()))?;
        }
        // Tests that clear the environment leave files of the default name where they run.
        for (number, file) in counts(&self.root.join("wrapper"))?.into_iter().enumerate() {
            let to = self.kept.join(format!("{}-bare-{number}.profraw", flag.name()));
            std::fs::rename(&file, &to).with_context(|| format!("move {}", file.display()))?;
        }
        Ok(passed)
    }

    fn selection(&self, flag: Flag) -> &'static str {
        match flag {
            Flag::Unit => "package(etcd-wrapper) and not binary(it)",
            Flag::Integration => "package(etcd-wrapper) and binary(it)",
        }
    }

    /// Runs every program once, and opens its file of counts to all users: tests drop to the pod's user before they
    /// start a wrapper.
    fn begin_files(&self, flag: Flag) -> Result<()> {
        self.step(&self.nextest, flag)
            .args(["nextest", "list", "--locked"])
            .args(PACKAGES)
            .watch("running every program once")?;
        let wrapper = self.target.join("debug/etcd-wrapper");
        self.step(&wrapper, flag).arg("--help").read()?;
        for file in counts(&self.target)? {
            for sibling in pool(&file)? {
                if !sibling.exists() {
                    std::fs::copy(&file, &sibling).with_context(|| format!("write {}", sibling.display()))?;
                }
                let all = std::fs::Permissions::from_mode(0o666);
                std::fs::set_permissions(&sibling, all)
                    .with_context(|| format!("open {} to all", sibling.display()))?;
            }
        }
        Ok(())
    }

    /// The counts of these flags together, in lcov's format.
    pub(super) fn lcov(&self, flags: &[Flag]) -> Result<String> {
        for file in counts(&self.target)? {
            std::fs::remove_file(&file).with_context(|| format!("remove {}", file.display()))?;
        }
        let mut found = false;
        for file in counts(&self.kept)? {
            let name = file.file_name().context("a file has a name")?.to_string_lossy().into_owned();
            if flags.iter().any(|flag| name.starts_with(&format!("{}-", flag.name()))) {
                let to = self.target.join(&name);
                std::fs::copy(&file, &to).with_context(|| format!("copy {}", file.display()))?;
                found = true;
            }
        }
        if !found {
            bail!("the tests left no counts in {}", self.kept.display());
        }
        let out = self.target.join("raw.info");
        self.report().args(["--lcov", "--output-path"]).arg(&out).watch("reading the counts")?;
        std::fs::read_to_string(&out).with_context(|| format!("read {}", out.display()))
    }

    /// Pages about what was exported last.
    pub(super) fn html(&self, folder: &Path) -> Result<()> {
        self.report().args(["--html", "--output-dir"]).arg(folder).watch("writing pages")
    }

    fn report(&self) -> Step {
        let step = self.step(&self.llvm_cov, Flag::Unit).args(["llvm-cov", "report"]);
        step.args(["--ignore-filename-regex", NOT_OURS])
    }

    /// A program with the variables of the build; its counts go to files of `flag`.
    fn step(&self, program: impl AsRef<std::ffi::OsStr>, flag: Flag) -> Step {
        // `%m`: by program, `%c`: mapped.
        let files = self.target.join(format!("{}-%{POOL}m%c.profraw", flag.name()));
        let step =
            Step::new(program).dir(&self.root).env("CARGO_TARGET_DIR", &self.target).env("RUSTFLAGS", MAPPED);
        let step = self.env.iter().fold(step, |step, (name, value)| step.env(name, value));
        step.env("LLVM_PROFILE_FILE", files)
    }
}

/// Brings the programs that read counts, where the pinned Rust has none.
fn llvm_tools() -> Result<()> {
    let folder = Step::new("rustc").args(["--print", "target-libdir"]).read()?;
    let tool = Path::new(folder.trim()).with_file_name("bin").join("llvm-profdata");
    if tool.is_file() {
        return Ok(());
    }
    Step::new("rustup")
        .args(["component", "add", "llvm-tools"])
        .mend("rustup, see https://rustup.rs; or llvm-cov and llvm-profdata of the same LLVM in LLVM_COV and LLVM_PROFDATA")
        .watch("fetching llvm-tools, which read coverage")
}

/// All files of the program that one of them belongs to: `…_0.profraw` to `…_3.profraw`.
fn pool(file: &Path) -> Result<Vec<PathBuf>> {
    let name = file.file_name().context("a file has a name")?.to_string_lossy();
    let (program, _) =
        name.rsplit_once('_').with_context(|| format!("{} is no file of a pool", file.display()))?;
    Ok((0..POOL).map(|number| file.with_file_name(format!("{program}_{number}.profraw"))).collect())
}

/// Files with counts in a folder.
fn counts(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("read {}", folder.display()))?;
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.with_context(|| format!("read {}", folder.display()))?.path();
        if path.extension().is_some_and(|extension| extension == "profraw") {
            files.push(path);
        }
    }
    Ok(files)
}

/// Reads lines `export NAME=VALUE`, the value as a POSIX shell quotes it.
fn variables(said: &str) -> Result<Vec<(String, String)>> {
    let lines = said.lines().filter_map(|line| line.strip_prefix("export "));
    lines
        .map(|line| {
            let (name, value) =
                line.split_once('=').with_context(|| format!("cargo-llvm-cov said {line:?}"))?;
            let value = match value.strip_prefix('\'').and_then(|value| value.strip_suffix('\'')) {
                Some(quoted) => quoted.replace(r"'\''", "'"),
                None => value.to_owned(),
            };
            Ok((name.to_owned(), value))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_read_as_a_shell_would() {
        let said = "export A=1\nexport B='two words'\nexport C='it'\\''s'\nwarning: x\n";
        let want = [("A", "1"), ("B", "two words"), ("C", "it's")];
        assert_eq!(variables(said).unwrap(), want.map(|(name, value)| (name.to_owned(), value.to_owned())));
        assert!(variables("export A\n").is_err());
    }

    #[test]
    fn a_pool_is_named_by_its_program() {
        let names = pool(Path::new("/t/unit-123_2.profraw")).unwrap();
        assert_eq!(names.len(), POOL);
        assert_eq!(names[0], Path::new("/t/unit-123_0.profraw"));
        assert!(pool(Path::new("/t/odd.profraw")).is_err());
    }

    #[test]
    fn only_files_with_counts_are_taken() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["unit-1_0.profraw", "raw.info"] {
            std::fs::write(folder.path().join(name), "x").unwrap();
        }
        assert_eq!(counts(folder.path()).unwrap(), [folder.path().join("unit-1_0.profraw")]);
    }
}
