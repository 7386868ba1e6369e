// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Real files. Tests about other users' files make them as root, then walk as uid 65532.
use std::fs::{Permissions, create_dir, read_dir, set_permissions, write};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;

use crate::supervise::process::rerun;

use super::*;

fn mode(path: &Path) -> u32 {
    std::fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

fn file(path: &Path, mode: u32) {
    write(path, "x").unwrap();
    set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn folder(path: &Path, mode: u32) {
    create_dir(path).unwrap();
    set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[test]
fn h1_an_absent_directory_is_fine() {
    let place = tempfile::tempdir().unwrap();
    assert_eq!(repair(&place.path().join("new.etcd"), &Limits::default()), Report::default());
}

#[test]
fn h2_h3_every_mode_below_is_set_at_every_walk() {
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("new.etcd");
    folder(&data, 0o2770);
    folder(&data.join("member"), 0o755);
    folder(&data.join("member/snap"), 0o770);
    file(&data.join("member/snap/db"), 0o660);
    file(&data.join("member/tool"), 0o755);
    for changed in [5, 0, 1] {
        let report = repair(&data, &Limits::default());
        assert_eq!(report, Report { seen: 5, changed, ..Report::default() });
        assert_eq!(mode(&data), 0o700);
        assert_eq!(mode(&data.join("member")), 0o700);
        assert_eq!(mode(&data.join("member/snap")), 0o700);
        assert_eq!(mode(&data.join("member/snap/db")), 0o600);
        assert_eq!(mode(&data.join("member/tool")), 0o600);
        if changed == 0 {
            set_permissions(data.join("member/snap/db"), Permissions::from_mode(0o660)).unwrap();
        }
    }
}

#[test]
fn symbolic_links_below_are_not_followed_but_the_directory_may_be_one() {
    let place = tempfile::tempdir().unwrap();
    let (data, outside) = (place.path().join("data"), place.path().join("outside"));
    folder(&data, 0o700);
    folder(&outside, 0o755);
    file(&outside.join("file"), 0o644);
    file(&data.join("own"), 0o644);
    symlink(&outside, data.join("folder")).unwrap();
    symlink(outside.join("file"), data.join("file")).unwrap();
    symlink(&data, place.path().join("link")).unwrap();
    let report = repair(&place.path().join("link"), &Limits::default());
    assert_eq!(report, Report { seen: 4, changed: 1, ..Report::default() });
    assert_eq!((mode(&outside), mode(&outside.join("file"))), (0o755, 0o644));
    assert_eq!(mode(&data.join("own")), 0o600);
}

#[test]
fn the_root_of_the_file_system_is_refused() {
    let report = repair(Path::new("/"), &Limits { entries: 0, ..Limits::default() });
    assert_eq!((report.changed, report.seen), (0, 0));
    assert!(report.details[0].contains("root of the file system"), "{report:?}");
}

#[test]
fn a_walk_is_cut_at_each_bound_and_says_so() {
    let place = tempfile::tempdir().unwrap();
    folder(&place.path().join("a"), 0o700);
    folder(&place.path().join("a/b"), 0o700);
    file(&place.path().join("a/b/deep"), 0o644);
    for number in 0..100 {
        file(&place.path().join(number.to_string()), 0o600);
    }
    let cut = |limits| repair(place.path(), &limits).cut.unwrap();
    assert!(cut(Limits { depth: 1, ..Limits::default() }).contains("a/b lies deeper"));
    assert!(cut(Limits { entries: 10, ..Limits::default() }).contains("more than 10 entries"));
    assert!(cut(Limits { time: Duration::ZERO, ..Limits::default() }).contains("used"));
    assert_eq!(mode(&place.path().join("a/b/deep")), 0o644);
}

#[test]
fn only_the_first_skipped_entries_are_described() {
    needs_root();
    let place = tempfile::tempdir().unwrap();
    for number in 0..100 {
        file(&place.path().join(number.to_string()), 0o660);
        chown(place.path().join(number.to_string()), Some(12345), None).unwrap();
    }
    let report = repair(place.path(), &Limits::default());
    assert_eq!((report.skipped, report.details.len()), (100, DETAILS));
    assert!(report.details[0].contains("belongs to another user (mode 0660, owner 12345:"), "{report:?}");
}

#[test]
fn h4_a_foreign_file_is_skipped_and_the_rest_is_set_without_root() {
    let Some(role) = rerun::role() else {
        needs_root();
        let place = tempfile::tempdir().unwrap();
        set_permissions(place.path(), Permissions::from_mode(0o755)).unwrap();
        let data = place.path().join("data");
        folder(&data, 0o750);
        folder(&data.join("closed"), 0o000);
        file(&data.join("closed/inside"), 0o640);
        file(&data.join("unreadable"), 0o000);
        file(&data.join("theirs"), 0o644);
        for ours in ["", "closed", "closed/inside", "unreadable"] {
            chown(data.join(ours), Some(65532), Some(65532)).unwrap();
        }
        let mut walker = rerun::test(
            module_path!(),
            "h4_a_foreign_file_is_skipped_and_the_rest_is_set_without_root",
            data,
        );
        walker.uid(65532).gid(65532);
        rerun::passes(walker);
        return;
    };
    let data = PathBuf::from(role);
    let report = repair(&data, &Limits::default());
    assert_eq!((report.changed, report.skipped), (4, 1), "{report:?}");
    let expected = "theirs: it belongs to another user (mode 0644, owner 0:0, our uid 65532)";
    assert!(report.details[0].ends_with(expected), "{report:?}");
    assert_eq!(read_dir(data.join("closed")).unwrap().count(), 1);
    assert_eq!(mode(&data.join("closed/inside")), 0o600);
    assert_eq!(mode(&data.join("unreadable")), 0o600);
}

#[test]
fn h4_a_directory_that_cannot_be_written_is_named_with_mode_owner_and_uid() {
    let Some(role) = rerun::role() else {
        needs_root();
        let place = tempfile::tempdir().unwrap();
        set_permissions(place.path(), Permissions::from_mode(0o755)).unwrap();
        file(&place.path().join("file"), 0o644);
        let name = "h4_a_directory_that_cannot_be_written_is_named_with_mode_owner_and_uid";
        let mut asker = rerun::test(module_path!(), name, place.path());
        asker.uid(65532).gid(65532);
        rerun::passes(asker);
        // The owner may write, so the same place is fine for root.
        assert_eq!(check_writable("data directory", &place.path().join("absent/deep")), Ok(()));
        return;
    };
    let place = PathBuf::from(role);
    let there = check_writable("data directory", &place).unwrap_err();
    let rights = format!("{} (mode 0755, owner 0:0, our uid 65532): Permission denied", place.display());
    assert!(there.contains(&rights), "{there}");
    let absent = check_writable("data directory", &place.join("absent/deep")).unwrap_err();
    assert!(absent.contains("absent/deep cannot be made in ") && absent.contains(&rights), "{absent}");
    let file = check_writable("data directory", &place.join("file")).unwrap_err();
    assert!(file.contains("Not a directory"), "{file}");
}

fn needs_root() {
    assert!(rustix::process::geteuid().is_root(), "makes files of other users: run the tests as root");
}
