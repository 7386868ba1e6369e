// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! For tests that need a process of their own (other rights, signals, a parent to kill): runs one test again in a new
//! process, which sees its role in the environment and plays it instead. Compiled for tests only.
use std::ffi::{OsStr, OsString};
use std::future::Future;
use std::process::Command;
use std::time::Duration;

const ROLE: &str = "RERUN_ROLE";
/// Generous: nothing waits for it unless something is broken.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

/// What this process was started to play; None in the test run itself.
pub(crate) fn role() -> Option<OsString> {
    std::env::var_os(ROLE)
}

/// A command that runs the test `name` of `module` (its `module_path!()`) and nothing else, as `role`.
pub(crate) fn test(module: &str, name: &str, role: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(arguments(module, name)).env(ROLE, role);
    command
}

/// The arguments that make a test binary run just this test.
pub(crate) fn arguments(module: &str, name: &str) -> [OsString; 3] {
    let (_crate, module) = module.split_once("::").unwrap();
    [format!("{module}::{name}"), "--exact".to_owned(), "--nocapture".to_owned()].map(OsString::from)
}

/// Runs `command` to its end, which must be a passed test (and not, after a misspelt name, none at all).
pub(crate) fn passes(mut command: Command) {
    let output = command.output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(
        output.status.success() && out.contains(" 1 passed"),
        "{command:?}: {}\n{out}\n{err}",
        output.status
    );
}

/// Runs `future` on a runtime like the wrapper's, and fails after the deadline.
pub(crate) fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        tokio::time::timeout(DEADLINE, future).await.expect("the test came to no end in time")
    })
}

/// Asks again and again until there is an answer; inside [`run`], which ends it.
pub(crate) async fn until<T>(mut ask: impl FnMut() -> Option<T>) -> T {
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
