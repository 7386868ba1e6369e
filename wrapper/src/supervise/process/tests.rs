// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Real small children. Whatever depends on the whole process (environment, signals, reaping) runs in one of its own.
use std::fs::{File, read, read_dir, read_link, read_to_string, write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::kill_process_group;

use super::reaper::Reaper;
use super::rerun::{self, run, until};
use super::*;

fn start(program: &str, args: &[&str], lock: &File) -> Result<Child, SpawnError> {
    let args: Vec<OsString> = args.iter().map(OsString::from).collect();
    let launch = Launch {
        program: Path::new(program),
        args: &args,
        notify_socket: OsStr::new("@ours"),
        lock: lock.as_fd(),
    };
    spawn(&launch)
}

fn sh(script: &str) -> Child {
    start("/bin/sh", &["-c", script], &tempfile::tempfile().unwrap()).unwrap()
}

#[test]
fn e10_every_kind_of_end_is_noticed_and_told_apart() {
    run(async {
        assert_eq!(sh("exit 7").wait().await, ExitStatus::Exited(7));
        assert_eq!(sh("exit 0").wait().await, ExitStatus::Exited(0));
        let mut child = sh("kill -ABRT $$");
        assert_eq!(child.wait().await, ExitStatus::Signaled(libc::SIGABRT));
        // Asked again, it still knows; and a signal goes nowhere.
        assert_eq!(child.wait().await, ExitStatus::Signaled(libc::SIGABRT));
        assert_eq!(child.signal(Signal::KILL).unwrap_err().raw_os_error(), Some(libc::ESRCH));
    });
}

#[test]
fn f7_a_kill_by_somebody_else_is_noticed() {
    run(async {
        let mut child = sh("exec sleep 600");
        // A wait that was given up does not lose the end.
        assert!(tokio::time::timeout(std::time::Duration::from_millis(1), child.wait()).await.is_err());
        rustix::process::kill_process(child.pid, Signal::KILL).unwrap();
        assert_eq!(child.wait().await, ExitStatus::Signaled(libc::SIGKILL));
    });
}

#[test]
fn f9_f10_e15_etcd_starts_in_a_clean_place_whatever_ours_is_like() {
    const NAME: &str = "f9_f10_e15_etcd_starts_in_a_clean_place_whatever_ours_is_like";
    if rerun::role().is_none() {
        let test = rerun::test(module_path!(), NAME, "parent");
        let mut shell = Command::new("/bin/sh");
        let dirty = "ulimit -S -n 512; umask 022; exec 9</dev/null; \
                     exec env --ignore-signal=HUP --ignore-signal=CHLD --block-signal=TERM \"$0\" \"$@\"";
        shell.args(["-c", dirty]).arg(test.get_program()).args(test.get_args());
        shell.envs(test.get_envs().filter_map(|(name, value)| Some((name, value?))));
        shell
            .env("ETCD_NAME", "wrong")
            .env(OsStr::from_bytes(b"ETCD_\xff"), "1")
            .env("NOTIFY_SOCKET", "/parents");
        shell.env("KEPT", "1");
        rerun::passes(shell);
        return;
    }
    run(async {
        let lock = tempfile::tempfile().unwrap();
        let mut child = start("/bin/sleep", &["600"], &lock).unwrap();
        let proc = PathBuf::from(format!("/proc/{}", child.pid()));

        let environment = read(proc.join("environ")).unwrap();
        let variables: Vec<&[u8]> = environment.split(|byte| *byte == 0).collect();
        assert!(!variables.iter().any(|variable| variable.starts_with(b"ETCD_")), "{variables:?}");
        assert!(
            variables.contains(&b"NOTIFY_SOCKET=@ours".as_slice())
                && variables.contains(&b"KEPT=1".as_slice())
        );

        let limits = read_to_string(proc.join("limits")).unwrap();
        let files: Vec<&str> =
            limits.lines().find(|l| l.starts_with("Max open files")).unwrap().split_whitespace().collect();
        assert_eq!(files[3], files[4]);
        assert_ne!(files[3], "512");

        let status = read_to_string(proc.join("status")).unwrap();
        let field =
            |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_owned();
        assert_eq!(field("Umask:"), "0077");
        assert_eq!((field("SigBlk:"), field("SigIgn:")), ("0".repeat(16), "0".repeat(16)));
        assert_eq!(rustix::process::getpgid(Some(child.pid)).unwrap(), child.pid);

        // The dynamic loader of the child opens its libraries a moment after the exec.
        doubles::wait::until(Duration::from_secs(10), "no other descriptors", || {
            let names = read_dir(proc.join("fd")).unwrap();
            let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
            let mut descriptors: Vec<i32> = names.map(|name| name.parse().unwrap()).collect();
            descriptors.sort_unstable();
            doubles::wait::Poll::when(descriptors == [0, 1, 2, lock.as_raw_fd()], || {
                format!("{descriptors:?}")
            })
        });
        assert_eq!(read_link(proc.join("fd/0")).unwrap(), Path::new("/dev/null"));
        for same in ["fd/1", "fd/2", "cwd"] {
            assert_eq!(
                read_link(proc.join(same)).unwrap(),
                read_link(Path::new("/proc/self").join(same)).unwrap()
            );
        }

        // Ignored SIGCHLD would have lost this status.
        child.signal(Signal::TERM).unwrap();
        assert_eq!(child.wait().await, ExitStatus::Signaled(libc::SIGTERM));
    });
}

#[test]
fn f5_a_killed_wrapper_takes_etcd_along() {
    const NAME: &str = "f5_a_killed_wrapper_takes_etcd_along";
    if let Some(place) = rerun::role() {
        run(async {
            let child = sh("exec sleep 600");
            write(Path::new(&place).join("draft"), child.pid().to_string()).unwrap();
            std::fs::rename(Path::new(&place).join("draft"), Path::new(&place).join("pid")).unwrap();
            std::future::pending::<()>().await;
        });
    }
    let place = tempfile::tempdir().unwrap();
    let mut parent = rerun::test(module_path!(), NAME, place.path()).stdout(Stdio::null()).spawn().unwrap();
    run(async {
        let pid = until(|| read_to_string(place.path().join("pid")).ok()).await;
        let state = || read_to_string(format!("/proc/{pid}/stat")).ok()?.rsplit(") ").next()?.chars().next();
        assert!(state().is_some_and(|state| "RSD".contains(state)));
        parent.kill().unwrap();
        parent.wait().unwrap();
        // A zombie is gone as well: it waits for whoever reaps orphans here.
        until(|| state().is_none_or(|state| "ZX".contains(state)).then_some(())).await;
    });
}

#[test]
fn the_child_keeps_the_lock_that_we_let_go() {
    run(async {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("etcd.lock");
        let lock = File::create(&path).unwrap();
        flock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap();
        let mut child = start("/bin/sleep", &["600"], &lock).unwrap();
        drop(lock);
        let other = File::open(&path).unwrap();
        assert_eq!(flock(&other, FlockOperation::NonBlockingLockExclusive), Err(Errno::WOULDBLOCK));
        child.signal(Signal::KILL).unwrap();
        child.wait().await;
        flock(&other, FlockOperation::NonBlockingLockExclusive).unwrap();
    });
}

#[test]
fn f8_a_start_that_fails_is_an_error_that_names_program_mode_and_uid() {
    run(async {
        let place = tempfile::tempdir().unwrap();
        let program = place.path().join("etcd");
        let lock = tempfile::tempfile().unwrap();
        let missing = start(program.to_str().unwrap(), &[], &lock).unwrap_err().to_string();
        assert!(missing.starts_with(&format!("start {} (our uid ", program.display())), "{missing}");
        assert!(missing.contains("No such file"), "{missing}");
        write(&program, "").unwrap();
        std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o640)).unwrap();
        let closed = start(program.to_str().unwrap(), &[], &lock).unwrap_err().to_string();
        assert!(closed.contains("(mode 0640, owner ") && closed.contains("Permission denied"), "{closed}");
    });
}

#[test]
fn f8_no_room_for_a_process_is_an_error_and_we_go_on() {
    const NAME: &str = "f8_no_room_for_a_process_is_an_error_and_we_go_on";
    if rerun::role().is_none() {
        return rerun::passes(rerun::test(module_path!(), NAME, "parent"));
    }
    run(async {
        let lock = tempfile::tempfile().unwrap();
        let old = rustix::process::getrlimit(Resource::Nofile);
        let none = rustix::process::Rlimit { current: Some(0), maximum: old.maximum };
        rustix::process::setrlimit(Resource::Nofile, none).unwrap();
        let error = start("/bin/sleep", &["600"], &lock).unwrap_err().to_string();
        assert!(error.contains("Too many open files"), "{error}");
        // Enough to fork, not enough to watch the child: it must not live on unwatched.
        let mut tight = none;
        let failed = (1..64).filter_map(|room| {
            tight.current = Some(room);
            rustix::process::setrlimit(Resource::Nofile, tight).unwrap();
            start("/bin/sleep", &["600"], &lock).err()
        });
        assert!(failed.count() > 0);
        rustix::process::setrlimit(Resource::Nofile, old).unwrap();
        // Dropped children (those that did start) live on; whoever failed has been reaped.
        assert_eq!(sh("exit 3").wait().await, ExitStatus::Exited(3));
        let zombie = rustix::process::waitid(WaitId::All, WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
        assert!(matches!(zombie, Ok(None) | Err(Errno::CHILD)), "{zombie:?}");
    });
}

#[test]
#[expect(clippy::zombie_processes, reason = "the reaper under test does the waiting")]
fn f1_500_orphans_are_reaped_and_the_childs_status_is_kept_for_its_owner() {
    const NAME: &str = "f1_500_orphans_are_reaped_and_the_childs_status_is_kept_for_its_owner";
    let Some(place) = rerun::role() else {
        let place = tempfile::tempdir().unwrap();
        return rerun::passes(rerun::test(module_path!(), NAME, place.path()));
    };
    rustix::process::set_child_subreaper(Some(Pid::INIT)).unwrap();
    run(async {
        let reaper = tokio::spawn(Reaper::if_needed().unwrap().expect("a subreaper needs one").run());
        // The first two end while nobody waits for them, and stand before all the orphans.
        let mut first = sh("exit 7");
        let mut killed = sh("kill -KILL $$");
        let mut living = sh("exec sleep 600");
        // 500 processes that hang in the opening of a pipe until their group is ended.
        let script =
            "mkfifo pipe; i=0; while [ $i -lt 500 ]; do read -r line <pipe & i=$((i+1)); done; : >started";
        let parent = Command::new("/bin/sh")
            .args(["-c", script])
            .current_dir(&place)
            .process_group(0)
            .spawn()
            .unwrap();
        let group = Pid::from_child(&parent);
        until(|| Path::new(&place).join("started").exists().then_some(())).await;
        kill_process_group(group, Signal::TERM).unwrap();
        // The kernel knows the group as long as one of it lives, or is a zombie.
        until(|| (rustix::process::test_kill_process_group(group) == Err(Errno::SRCH)).then_some(())).await;
        assert_eq!(first.wait().await, ExitStatus::Exited(7));
        assert_eq!(killed.wait().await, ExitStatus::Signaled(libc::SIGKILL));
        living.signal(Signal::TERM).unwrap();
        assert_eq!(living.wait().await, ExitStatus::Signaled(libc::SIGTERM));
        until(|| {
            let left = rustix::process::waitid(
                WaitId::All,
                WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT,
            );
            (left.err() == Some(Errno::CHILD)).then_some(())
        })
        .await;
        reaper.abort();
    });
}

#[test]
fn f13_without_being_pid_1_or_a_subreaper_nothing_is_reaped() {
    run(async { assert!(Reaper::if_needed().unwrap().is_none()) });
}
