// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The one thread that touches files: marker, hold, locks, modes, configuration. A slow or dying disk stalls it and not
//! the probes. Does one job at a time, in order, and decides nothing.
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc as std_mpsc};

use tokio::sync::mpsc;

use super::command::{Code, Refusal};
use super::lock::{self, DbLock, LockError, StateLock};
use super::modes;
use super::state::{Done, Job, Plan};
use super::view::ConfigSource;
use crate::bootstrap::hold::{Hold, HoldFile};
use crate::bootstrap::marker::Marker;
use crate::config::EtcdConfig;
use crate::file_error::FileError;
use crate::{config, durable, tls};

/// The paths that a process works on all its life.
#[derive(Clone, Debug)]
pub struct Paths {
    /// `--state-dir`.
    pub state_dir: PathBuf,
    /// Where `etcd.conf.yaml` goes.
    pub home: PathBuf,
    /// `--etcd-config-file`.
    pub config_file: Option<PathBuf>,
}

impl Paths {
    /// The file given to etcd.
    pub fn written_config(&self) -> PathBuf {
        self.home.join("etcd.conf.yaml")
    }
}

/// A job, with the configuration that its plan stands for.
#[derive(Debug)]
pub struct Order {
    /// What to do.
    pub job: Job,
    /// What the job's plan stands for.
    pub config: Option<Arc<EtcdConfig>>,
}

/// What came of it.
#[derive(Debug)]
pub struct Completion {
    /// For the machine.
    pub done: Done,
    /// Read from `--etcd-config-file`.
    pub config: Option<Arc<EtcdConfig>>,
    /// `etcd.lock`, once it is ours.
    pub lock: Option<Arc<StateLock>>,
    /// Which lock somebody else holds, and who that is, after a job that looked.
    pub held: Option<String>,
    /// Said once, for people.
    pub notes: Vec<String>,
}

/// Where orders go; dropping it ends the thread.
#[derive(Clone, Debug)]
pub struct Disk(std_mpsc::Sender<Order>);

impl Disk {
    /// Queues a job; false when the thread is gone, which only a panic in it can bring about.
    pub fn order(&self, order: Order) -> bool {
        self.0.send(order).is_ok()
    }
}

/// The outcome of a job that nobody does any more.
pub fn failed(job: &Job) -> Done {
    let why = || "the disk does not answer".to_owned();
    let problem = || Refusal { code: Code::Failed, detail: why() };
    match job {
        Job::ConsumeMarker => Done::MarkerConsumed(Err(why())),
        // The exit goes on without it.
        Job::WriteMarker(_) => Done::MarkerWritten,
        Job::WriteHold(_) => Done::HoldWritten(Err(why())),
        Job::RemoveHold => Done::HoldRemoved(Err(why())),
        Job::ReadFile => Done::FileRead(Err(problem())),
        Job::Inspect(_) => Done::Inspected(Err(problem())),
        Job::Prepare(_) => Done::Prepared(Err(problem())),
        Job::Lock(_) => Done::Locked(Err(why())),
        Job::ProbeLocks => Done::Probed(false),
    }
}

/// Starts the thread; its first work is `first`.
///
/// # Errors
/// No thread can be started.
pub fn start(
    paths: Paths,
    first: impl FnOnce() + Send + 'static,
) -> std::io::Result<(Disk, mpsc::UnboundedReceiver<Completion>)> {
    let (orders, inbox) = std_mpsc::channel::<Order>();
    let (outbox, completions) = mpsc::unbounded_channel();
    std::thread::Builder::new().name("disk".into()).spawn(move || {
        first();
        let mut desk =
            Desk { paths, lock: None, data_dir: None, held: None, notes: Vec::new(), config: None };
        while let Ok(order) = inbox.recv() {
            let done = desk.work(order);
            let completion = Completion {
                done,
                config: desk.config.take(),
                lock: desk.lock.clone(),
                held: desk.held.take(),
                notes: std::mem::take(&mut desk.notes),
            };
            if outbox.send(completion).is_err() {
                return;
            }
        }
    })?;
    Ok((Disk(orders), completions))
}

struct Desk {
    paths: Paths,
    lock: Option<Arc<StateLock>>,
    /// The last directory that a start was prepared for.
    data_dir: Option<PathBuf>,
    held: Option<String>,
    notes: Vec<String>,
    config: Option<Arc<EtcdConfig>>,
}

fn refusal(code: Code, detail: impl ToString) -> Refusal {
    Refusal { code, detail: detail.to_string() }
}

impl Desk {
    fn work(&mut self, order: Order) -> Done {
        let marker = Marker::new(&self.paths.state_dir);
        let hold = Hold::new(&self.paths.state_dir);
        match order.job {
            Job::ConsumeMarker => Done::MarkerConsumed(marker.consume().map_err(|error| error.to_string())),
            Job::WriteMarker(shutdown) => {
                // The exit goes on without it: the next start validates fully.
                if let Err(error) = marker.write(shutdown.into()) {
                    self.notes.push(error.to_string());
                }
                Done::MarkerWritten
            }
            Job::WriteHold(request) => {
                let owner = Some(request.owner).filter(|owner| !owner.is_empty());
                let written = hold.write(&HoldFile { owner, reason: request.reason });
                Done::HoldWritten(written.map_err(|error| error.to_string()))
            }
            Job::RemoveHold => {
                let removed = hold.remove().map_err(|error| error.to_string());
                self.notes.extend(removed.clone().err());
                Done::HoldRemoved(removed)
            }
            Job::ReadFile => Done::FileRead(self.read_file()),
            Job::Inspect(_) => Done::Inspected(order.config.map_or(Ok(()), |config| self.inspect(&config))),
            Job::Prepare(_) => Done::Prepared(order.config.map_or(Ok(()), |config| self.prepare(&config))),
            Job::Lock(plan) => Done::Locked(self.take_locks(plan.as_ref())),
            Job::ProbeLocks => Done::Probed(self.somebody_holds_a_lock()),
        }
    }

    fn read_file(&mut self) -> Result<Plan, Refusal> {
        let path = self.paths.config_file.as_ref().expect("ReadFile is ordered only with --etcd-config-file");
        let bytes = std::fs::read(path)
            .map_err(|error| refusal(Code::FileUnreadable, FileError::new("read", path, error)))?;
        let config = EtcdConfig::parse(bytes.into())
            .map_err(|error| refusal(Code::ConfigInvalid, format!("{}: {error}", path.display())))?;
        let config = Arc::new(config);
        self.config = Some(config.clone());
        Ok(Plan::of(&config, ConfigSource::File))
    }

    /// Looks, and touches nothing.
    fn inspect(&self, config: &EtcdConfig) -> Result<(), Refusal> {
        config::guard_data_dir(&config.data_dir, &self.paths.home, &self.paths.state_dir)
            .map_err(|detail| refusal(Code::DataDirRefused, detail))?;
        // Known before the running etcd is stopped. What is ours is mended before the start.
        if !modes::is_ours(&config.data_dir) {
            modes::check_writable("data directory", &config.data_dir)
                .map_err(|detail| refusal(Code::DataDirRefused, detail))?;
        }
        tls::check::config(config).map_err(|error| refusal(Code::FileUnreadable, error))
    }

    fn prepare(&mut self, config: &EtcdConfig) -> Result<(), Refusal> {
        self.inspect(config)?;
        // The state directory itself must take the lock file and the marker.
        let failed = |detail: String| refusal(Code::Failed, detail);
        modes::check_writable("state directory", &self.paths.state_dir).map_err(failed)?;
        let report = modes::repair(&config.data_dir, &modes::Limits::default());
        self.notes.extend(report.details);
        self.notes.extend(report.cut);
        // Also an absent one: whether etcd can make it is known here, and said better than by etcd.
        modes::check_writable("data directory", &config.data_dir).map_err(failed)?;
        durable::write(&self.paths.written_config(), &config.bytes, 0o600)
            .map_err(|error| refusal(Code::Failed, error))
    }

    fn take_locks(&mut self, plan: Option<&Plan>) -> Result<bool, String> {
        if self.lock.is_none() {
            match StateLock::try_take(&self.paths.state_dir) {
                Ok(lock) => self.lock = Some(Arc::new(lock)),
                Err(error @ LockError::Held { .. }) => {
                    self.held = Some(error.to_string());
                    return Ok(false);
                }
                Err(LockError::File(error)) => return Err(error.to_string()),
            }
        }
        let Some(plan) = plan else { return Ok(true) };
        self.data_dir = Some(plan.data_dir.to_path_buf());
        self.held = database_holder(&plan.data_dir).map_err(|error| error.to_string())?;
        Ok(self.held.is_none())
    }

    /// For `held` and `stopped`: whoever works on the directory there should be seen (safety.md 7), and nothing is to
    /// be kept. Of a lock that cannot be looked at nothing is said.
    fn somebody_holds_a_lock(&mut self) -> bool {
        // Where it is ours already, the child that would share it is gone in these phases.
        if self.lock.is_none()
            && let Err(error @ LockError::Held { .. }) = StateLock::try_take(&self.paths.state_dir)
        {
            self.held = Some(error.to_string());
        } else if let Some(data_dir) = &self.data_dir {
            self.held = database_holder(data_dir).unwrap_or_default();
        }
        self.held.is_some()
    }
}

/// Somebody else's etcd, or a tool that works on the database.
fn database_holder(data_dir: &Path) -> Result<Option<String>, FileError> {
    Ok(match lock::probe_db(data_dir)? {
        DbLock::Free | DbLock::Absent => None,
        DbLock::Held(holder) => {
            let db = data_dir.join("member/snap/db");
            Some(format!("{} is held by {}", db.display(), lock::describe(holder.as_ref())))
        }
    })
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use rustix::fs::FlockOperation;

    use super::*;

    fn locked(path: &Path) -> File {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let file = File::create(path).unwrap();
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).unwrap();
        file
    }

    async fn run(disk: &Disk, completions: &mut mpsc::UnboundedReceiver<Completion>, job: Job) -> Completion {
        disk.order(Order { job, config: None });
        completions.recv().await.unwrap()
    }

    #[tokio::test]
    async fn f6_at_rest_the_database_is_looked_at_as_soon_as_it_is_known() {
        let dir = tempfile::tempdir().unwrap();
        let (state_dir, data_dir) = (dir.path().to_owned(), dir.path().join("new.etcd"));
        let paths = Paths { state_dir: state_dir.clone(), home: state_dir, config_file: None };
        let (disk, mut completions) = start(paths, || ()).unwrap();
        let stranger = locked(&data_dir.join("member/snap/db"));

        let unknown = run(&disk, &mut completions, Job::ProbeLocks).await;
        assert_eq!((unknown.done, unknown.held), (Done::Probed(false), None));

        let plan = Plan {
            digest: Arc::from("sha256:1"),
            data_dir: Arc::from(data_dir.as_path()),
            fsync: true,
            force_new_cluster: false,
            source: ConfigSource::Sidecar,
        };
        let start = run(&disk, &mut completions, Job::Lock(Some(plan.clone()))).await;
        assert_eq!(start.done, Done::Locked(Ok(false)));
        assert!(start.held.unwrap().contains("member/snap/db is held by"));

        let rest = run(&disk, &mut completions, Job::ProbeLocks).await;
        assert_eq!(rest.done, Done::Probed(true));
        assert!(rest.held.unwrap().contains(&format!("pid {}", std::process::id())));

        drop(stranger);
        let free = run(&disk, &mut completions, Job::ProbeLocks).await;
        assert_eq!((free.done, free.held), (Done::Probed(false), None));
        assert_eq!(run(&disk, &mut completions, Job::Lock(Some(plan))).await.done, Done::Locked(Ok(true)));
    }

    #[test]
    fn a_data_directory_that_cannot_be_used_is_refused_before_anything_is_stopped() {
        let dir = tempfile::tempdir().unwrap();
        let in_the_way = dir.path().join("file");
        std::fs::write(&in_the_way, "").unwrap();
        let state_dir = dir.path().join("state");
        let paths = Paths { home: state_dir.clone(), state_dir, config_file: None };
        let desk = Desk { paths, lock: None, data_dir: None, held: None, notes: Vec::new(), config: None };
        let inspect = |data_dir: &Path| {
            let text = format!(
                "name: a\ndata-dir: {}\nlisten-client-urls: http://0.0.0.0:2379\ninitial-cluster: a=http://h:2380\n",
                data_dir.display()
            );
            desk.inspect(&EtcdConfig::parse(text.into()).unwrap())
        };
        for refused in [&in_the_way, &in_the_way.join("deeper"), Path::new("/")] {
            assert_eq!(inspect(refused).unwrap_err().code, Code::DataDirRefused, "{}", refused.display());
        }
        assert_eq!(inspect(&dir.path().join("new.etcd")), Ok(()));
    }

    #[tokio::test]
    async fn f6_at_rest_the_holder_of_the_state_directory_is_named_and_nothing_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let state_dir = dir.path().to_owned();
        let paths = Paths { state_dir: state_dir.clone(), home: state_dir.clone(), config_file: None };
        let (disk, mut completions) = start(paths, || ()).unwrap();
        let free = run(&disk, &mut completions, Job::ProbeLocks).await;
        assert!(free.lock.is_none());
        let _stranger = locked(&state_dir.join("etcd.lock"));
        let held = run(&disk, &mut completions, Job::ProbeLocks).await;
        assert_eq!(held.done, Done::Probed(true));
        assert!(held.held.unwrap().contains("etcd.lock is held by"));
    }
}
