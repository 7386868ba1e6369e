// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The guard of the data directory: before every start the wrapper walks it and takes rights away, so it must never be
//! `/` or hold HOME or the state dir. Changes nothing itself.
use std::io;
use std::path::{Component, Path, PathBuf};

/// Refuses a data directory whose walk would run over anything but etcd's data. Symlinks and `..` are resolved; the
/// directory, or the end of its path, need not exist yet.
///
/// # Errors
/// Why it is refused, naming the paths.
pub fn guard_data_dir(data_dir: &Path, home: &Path, state_dir: &Path) -> Result<(), String> {
    let shown = data_dir.display();
    if !data_dir.is_absolute() {
        return Err(format!("data-dir {shown:?} is refused: it must be an absolute path"));
    }
    let resolved = resolve(data_dir)
        .map_err(|error| format!("data-dir {shown} is refused: cannot resolve it: {error}"))?;
    if resolved == Path::new("/") {
        return Err(format!("data-dir {shown} is refused: it is the root directory"));
    }
    for (what, path) in [("the home directory", home), ("the state directory", state_dir)] {
        // What cannot be resolved is compared as it is written: better too strict than a walk over it.
        let inner = resolve(path).unwrap_or_else(|_| path.to_owned());
        if inner.starts_with(&resolved) {
            return Err(format!(
                "data-dir {shown} is refused: it holds {what} {}; etcd's data needs a directory of its own, such as {}",
                path.display(),
                data_dir.join("new.etcd").display()
            ));
        }
    }
    Ok(())
}

/// The real path, with as much of the end as does not exist kept as it is written.
fn resolve(path: &Path) -> io::Result<PathBuf> {
    let mut real = PathBuf::new();
    let mut missing = false;
    for component in path.components() {
        match component {
            Component::ParentDir => {
                real.pop();
                missing = false;
            }
            Component::CurDir => {}
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => real.push(component),
        }
        if missing {
            continue;
        }
        match real.canonicalize() {
            Ok(canonical) => real = canonical,
            // A dangling symlink: etcd would create what it points to, wherever that is.
            Err(error) if real.is_symlink() => return Err(error),
            Err(error) if error.kind() == io::ErrorKind::NotFound => missing = true,
            Err(error) => return Err(error),
        }
    }
    Ok(real)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Scene {
        folder: tempfile::TempDir,
        home: PathBuf,
        state: PathBuf,
    }

    fn scene() -> Scene {
        let folder = tempfile::tempdir().unwrap();
        let (home, state) = (folder.path().join("home"), folder.path().join("data"));
        std::fs::create_dir_all(&home).unwrap();
        std::fs::create_dir_all(&state).unwrap();
        Scene { home, state, folder }
    }

    impl Scene {
        fn guard(&self, data_dir: impl AsRef<Path>) -> Result<(), String> {
            guard_data_dir(&self.folder.path().join(data_dir), &self.home, &self.state)
        }
    }

    #[test]
    fn a_directory_below_the_state_dir_is_fine_whether_it_exists_or_not() {
        let scene = scene();
        assert_eq!(scene.guard("data/new.etcd"), Ok(()));
        std::fs::create_dir(scene.state.join("new.etcd")).unwrap();
        assert_eq!(scene.guard("data/new.etcd"), Ok(()));
        assert_eq!(scene.guard("elsewhere/deep/down"), Ok(()));
        assert_eq!(scene.guard("data-of-etcd"), Ok(()));
    }

    #[test]
    fn root_home_state_dir_and_what_holds_them_are_refused() {
        let scene = scene();
        for data_dir in ["/", "//", "/..", "data", "home", "data/", ".", "data/new.etcd/..", "data/a/b/../.."]
        {
            let refused = scene.guard(data_dir).expect_err(data_dir);
            assert!(refused.contains("data-dir"), "{refused}");
        }
    }

    #[test]
    fn symlinks_are_looked_through() {
        let scene = scene();
        let link = |name: &str, target: &Path| {
            std::os::unix::fs::symlink(target, scene.folder.path().join(name)).unwrap();
        };
        link("to-root", Path::new("/"));
        link("to-state", &scene.state);
        link("to-nothing", Path::new("/nowhere/at/all"));
        assert!(scene.guard("to-root").is_err());
        assert!(scene.guard("to-state").is_err());
        assert!(scene.guard("to-nothing").is_err());
        assert!(scene.guard("to-state/..").is_err(), "the parent of what the link points to");
        assert_eq!(scene.guard("to-state/new.etcd"), Ok(()));
    }

    #[test]
    fn a_relative_path_is_refused() {
        let scene = scene();
        assert!(guard_data_dir(Path::new("default.etcd"), &scene.home, &scene.state).is_err());
        assert!(guard_data_dir(Path::new(""), &scene.home, &scene.state).is_err());
    }

    #[test]
    fn a_home_that_does_not_exist_yet_is_guarded_all_the_same() {
        let scene = scene();
        let home = scene.folder.path().join("data/later/home");
        let guard = |data_dir: &str| guard_data_dir(&scene.folder.path().join(data_dir), &home, &scene.state);
        assert!(guard("data/later").is_err());
        assert_eq!(guard("data/new.etcd"), Ok(()));
    }
}
