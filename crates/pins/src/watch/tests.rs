//! Changes that a watch notices, and those that it does not.

use std::{
    fs::{self, File},
    sync::Arc,
};

use test_case::test_case;

use mcpmon_model::ManifestNotes;

use super::*;
use crate::{
    Root,
    file::FileHasher,
    package::{Collector, DirectoryRole, PackageLimits},
};

type Outcome = Result<(), Box<dyn std::error::Error>>;

struct Tree {
    directory: tempfile::TempDir,
    watch: Arc<Watch>,
}

impl Tree {
    /// `/a/link` leads to `/a/b`; `/a/b/main.py` is watched by the path through the link, and has another name
    /// elsewhere.
    fn make(below: &str) -> Result<Self, Box<dyn std::error::Error>> {
        let directory = tempfile::tempdir_in(below)?;
        let path = |name: &str| directory.path().join(name);
        fs::create_dir_all(path("a/b/__pycache__"))?;
        fs::create_dir(path("other"))?;
        for name in ["main.py", "one.py", "data.json", "server.lock"] {
            fs::write(path("a/b").join(name), "1")?;
        }
        fs::hard_link(path("a/b/main.py"), path("other/name"))?;
        std::os::unix::fs::symlink("b", path("a/link"))?;
        let watch = Arc::new(Watch::new(0)?);
        let root = Root::at(directory.path())?.watched(Some(Arc::clone(&watch)));
        let found = root.canonical(Path::new("/a/link/main.py"))?;
        assert_eq!(found, Path::new("/a/b/main.py"));
        let mut files = FileHasher::default();
        let limits = PackageLimits::default();
        let mut package = Collector::new(&root, &mut files, limits, &|| false, PathBuf::from("/a"));
        package.add_directory(Path::new("/a/b"), DirectoryRole::Python)?;
        assert_eq!(package.finish(ManifestNotes::default()).len(), 4);
        Ok(Self { directory, watch })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn open(&self, name: &str) -> io::Result<File> {
        File::options().read(true).write(true).open(self.path(name))
    }
}

type Change = fn(&Tree) -> io::Result<()>;

const DISK: &str = "/var/tmp";
const MEMORY: &str = "/dev/shm";

fn code(path: &str) -> Option<Touched> {
    Some(Touched::Code(path.into()))
}

#[test_case(|tree| fs::write(tree.path("a/b/one.py"), "2") => code("/a/b/one.py"); "written")]
#[test_case(|tree| fs::write(tree.path("other/name"), "2") => code("/a/b/main.py"); "written by another name")]
#[test_case(|tree| {
    fs::rename(tree.path("a/b/one.py"), tree.path("old"))?;
    fs::rename(tree.path("old"), tree.path("a/b/one.py"))
} => code("/a/b/one.py"); "replaced and put back")]
#[test_case(|tree| {
    fs::rename(tree.path("a/b"), tree.path("a/c"))?;
    fs::rename(tree.path("a/c"), tree.path("a/b"))
} => code("/a/b"); "a directory replaced and put back")]
#[test_case(|tree| fs::remove_file(tree.path("a/link")) => code("/a/link"); "a link on the way")]
#[test_case(|tree| fs::write(tree.path("a/b/json.py"), "2") => code("/a/b/json.py"); "new code beside it")]
#[test_case(|tree| tree.open("a/b/main.py").map(drop) => code("/a/b/main.py"); "opened for writing where times say little")]
#[test_case(|tree| tree.open("a/b/one.py").map(drop) => Some(Touched::Perhaps); "opened for writing")]
#[test_case(|tree| {
    let now = SystemTime::now();
    tree.open("a/b/one.py")?.set_times(fs::FileTimes::new().set_accessed(now).set_modified(now))
} => Some(Touched::Perhaps); "touched")]
#[test_case(|tree| fs::write(tree.path("a/b/state.json"), "2") => None; "data beside it")]
#[test_case(|tree| fs::write(tree.path("a/b/data.json"), "2") => None; "data written")]
#[test_case(|tree| fs::rename(tree.path("a/b/data.json"), tree.path("a/b/new")) => None; "data moved")]
#[test_case(|tree| fs::remove_file(tree.path("a/b/server.lock")) => None; "a lock file")]
#[test_case(|tree| fs::write(tree.path("a/b/server.log"), "2") => None; "a log")]
#[test_case(|tree| fs::write(tree.path("a/b/__pycache__/one.pyc"), "2") => None; "a cache")]
#[test_case(|tree| fs::create_dir(tree.path("a/b/.cache")) => None; "a new cache")]
#[test_case(|tree| fs::write(tree.path("a/x.py"), "2") => None; "above it")]
#[test_case(|tree| fs::read(tree.path("a/b/one.py")).map(drop) => None; "read")]
#[test_case(|tree| fs::hard_link(tree.path("a/b/one.py"), tree.path("other/third")) => None; "one more name elsewhere")]
fn changes_of(change: Change) -> Option<Touched> {
    let tree = Tree::make(DISK).expect("a tree");
    assert_eq!(tree.watch.touched(), None);
    change(&tree).expect("changed");
    let touched = tree.watch.touched();
    let known = touched.clone().filter(|touched| *touched != Touched::Perhaps);
    assert_eq!(
        tree.watch.touched(),
        known,
        "it stays known, and a doubt is told once"
    );
    touched
}

/// On this file system, a store through a mapping changes no time.
#[test]
fn in_memory_code_that_was_open_for_writing_is_changed() {
    let tree = Tree::make(MEMORY).expect("a tree");
    drop(tree.open("a/b/one.py").expect("it is there"));
    assert_eq!(tree.watch.touched(), code("/a/b/one.py"));
}

/// The name through which a file is written may have been created for that, and may be gone at the end.
#[test_case(DISK)]
#[test_case(MEMORY)]
fn a_file_that_is_watched_by_itself_is_written_by_no_name_unnoticed(place: &str) {
    let directory = tempfile::tempdir_in(place).expect("a directory");
    let path = |name: &str| directory.path().join(name);
    fs::create_dir(path("code")).expect("made");
    fs::create_dir(path("other")).expect("made");
    fs::write(path("code/main.py"), "1").expect("written");
    let look = |watch: Watch| {
        let watch = Arc::new(watch);
        let root = Root::at(directory.path()).expect("a root");
        let root = root.watched(Some(Arc::clone(&watch)));
        let main = root.canonical(Path::new("/code/main.py")).expect("there");
        root.watch_file(&main, &root.find(&main).expect("there"));
        watch
    };
    let new = || Watch::new(0).expect("room for one");
    let write_by_other_name = || {
        fs::hard_link(path("code/main.py"), path("other/name")).expect("a link");
        fs::write(path("other/name"), "2").expect("written");
        fs::remove_file(path("other/name")).expect("removed");
    };
    let (marking, plain) = (look(new().marking()), look(new()));
    write_by_other_name();
    assert_eq!(plain.touched(), None);
    assert_eq!(marking.touched(), code("/code/main.py"));

    // A watch without room reports that.
    let quota = Arc::new(crate::WatchQuota::default());
    let crowded = look(new().marking().within(quota.share(5, 1)));
    assert!(crowded.is_crowded());
    assert_eq!(crowded.gap(), None, "its directories are watched");
    let room = look(new().marking().within(quota.share(1024, 2)));
    assert!(!room.is_crowded());
}

/// No event tells of what was written between the first look at a file and its watch, and its times can be set back.
#[test_case(DISK)]
#[test_case(MEMORY)]
fn a_file_that_was_written_before_its_watch_stood_is_changed(place: &str) {
    let directory = tempfile::tempdir_in(place).expect("a directory");
    let path = |name: &str| directory.path().join(name);
    fs::write(path("main.py"), "1").expect("written");
    fs::hard_link(path("main.py"), path("other")).expect("a link");
    let touched = |change: fn(&Path)| {
        let watch = Arc::new(Watch::new(0).expect("room for one").marking());
        let root = Root::at(directory.path()).expect("a root");
        let root = root.watched(Some(Arc::clone(&watch)));
        let main = root.canonical(Path::new("/main.py")).expect("there");
        let found = root.find(&main).expect("there");
        change(&path("other"));
        root.watch_file(&main, &found);
        watch.touched()
    };
    assert_eq!(touched(|_| ()), None);
    let write = |other: &Path| {
        let written = fs::metadata(other)
            .and_then(|stat| stat.modified())
            .expect("a time");
        fs::write(other, "22").expect("written");
        let times = fs::FileTimes::new().set_modified(written);
        let other = File::options().write(true).open(other).expect("there");
        other.set_times(times).expect("set");
    };
    assert_eq!(touched(write), code("/main.py"));
}

/// A name can lead to another file by the time it is watched.
#[test]
fn an_entry_that_was_replaced_before_its_name_was_watched_is_looked_at_again() -> Outcome {
    let directory = tempfile::tempdir()?;
    let path = |name: &str| directory.path().join(name);
    for name in ["main.py", "new.py", "data", "new"] {
        fs::write(path(name), "1")?;
    }
    let watch = Arc::new(Watch::new(0)?);
    let root = Root::at(directory.path())?.watched(Some(Arc::clone(&watch)));
    let replaced = |name: &str, by: &str| -> io::Result<(bool, bool)> {
        let at = Path::new("/").join(name);
        root.watch_way(&at);
        let found = root.find_link(&at)?;
        fs::rename(path(by), path(name))?;
        let node = root.watch_entry(&at, found, || root.find_link(&at))?;
        let is_new = node.identity() == root.find_link(&at)?.identity();
        fs::remove_file(path(name))?;
        Ok((is_new, watch.touched().is_some()))
    };
    assert_eq!(replaced("data", "new")?, (false, false), "data is not watched");
    assert_eq!(
        replaced("main.py", "new.py")?,
        (true, true),
        "its end is told, too"
    );
    Ok(())
}

/// A new name that is kept is noticed by the number of names, even if the times are set back.
#[test]
fn a_name_that_was_made_since_shows_where_the_file_is_not_watched() -> Outcome {
    let directory = tempfile::tempdir_in(DISK)?;
    let path = directory.path().join("main.py");
    fs::write(&path, "1")?;
    let written = fs::metadata(&path)?.modified()?;
    let stat = || nix::sys::stat::stat(&path);
    let before = stat()?;
    let started = changed(&before) + 1;
    let first = Watch::new(started)?.marking();
    first.saw(&path, &before);
    let plain = Watch::new(started)?;
    // Until a tick of the kernel's clock has passed.
    let kept = directory.path().join("kept");
    while changed(&stat()?) < started {
        drop(fs::remove_file(&kept));
        fs::hard_link(&path, &kept)?;
    }
    let times = fs::FileTimes::new().set_modified(written);
    File::options().write(true).open(&kept)?.set_times(times)?;
    let after = Watch::new(started)?.after(Arc::clone(first.names()));
    for watch in [&plain, &after] {
        watch.saw(&path, &stat()?);
    }
    assert_eq!(plain.late(), None);
    assert_eq!(after.late(), Some(path.clone()));
    // A package manager creates names too: a watch on the file itself shows whether it was written.
    first.names().watch(&before);
    let watched = Watch::new(started)?.after(Arc::clone(first.names()));
    watched.saw(&path, &stat()?);
    assert_eq!(watched.late(), None);
    Ok(())
}

#[test]
fn more_changes_than_can_be_told_are_a_doubt() -> Outcome {
    let tree = Tree::make(MEMORY)?;
    let limit: usize = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events")?
        .trim()
        .parse()?;
    let (one, two) = (tree.path("a/b/x"), tree.path("a/b/y"));
    fs::write(&one, "")?;
    for _ in 0..=limit / 2 {
        fs::rename(&one, &two)?;
        fs::rename(&two, &one)?;
    }
    let answers: Vec<_> = std::iter::repeat_with(|| tree.watch.touched())
        .take(limit)
        .collect();
    let doubts = answers.into_iter().flatten().collect::<Vec<_>>();
    assert_eq!(doubts, [Touched::Perhaps]);
    Ok(())
}

/// A file that was restored after the server read another one is noticed by its time.
#[test]
fn what_changed_after_the_start_is_known() -> Outcome {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("code/main.py");
    fs::create_dir(directory.path().join("code"))?;
    fs::write(&path, "1")?;
    let late = |started: i64| -> Result<Option<PathBuf>, Box<dyn std::error::Error>> {
        let watch = Arc::new(Watch::new(started)?);
        let root = Root::at(directory.path())?.watched(Some(Arc::clone(&watch)));
        let main = root.canonical(Path::new("/code/main.py"))?;
        root.watch_file(&main, &root.find(&main)?);
        Ok(watch.late())
    };
    let before = changed(&nix::sys::stat::stat(&path)?);
    assert_eq!(late(before)?, Some("/code/main.py".into()));
    assert_eq!(late(before + 1)?, None);
    // A package manager gives a file another name for each environment.
    let mut linked = before;
    while linked == before {
        let other = directory.path().join("other");
        fs::hard_link(&path, &other)?;
        linked = changed(&nix::sys::stat::stat(&path)?);
        if linked == before {
            fs::remove_file(other)?;
        }
    }
    assert_eq!(late(before + 1)?, None);
    let code = directory.path().join("code");
    let moved = directory.path().join("moved");
    // Until a tick of the kernel's clock has passed.
    while changed(&nix::sys::stat::stat(&code)?) <= before {
        fs::rename(&code, &moved)?;
        fs::rename(&moved, &code)?;
    }
    assert_eq!(late(before + 1)?, Some("/code".into()));
    Ok(())
}

#[test]
fn a_time_that_has_not_come_yet_tells_nothing() -> Outcome {
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos();
    let now = i64::try_from(now)?;
    let watch = Watch::new(now)?;
    assert!(watch.is_late(now));
    assert!(!watch.is_late(now - 1), "before the start");
    assert!(!watch.is_late(now + 3_600_000_000_000), "in an hour");
    Ok(())
}

#[test]
fn a_directory_that_may_not_be_opened_is_a_gap_and_one_that_is_gone_is_none() -> Outcome {
    for (errno, gap) in [(Errno::ENOENT, None), (Errno::EMFILE, Some(Errno::EMFILE))] {
        let watch = Watch::new(0)?;
        watch.code(Path::new("/srv"), || Err(errno.into()));
        assert_eq!(watch.gap(), gap);
    }
    Ok(())
}

#[test]
fn what_cannot_be_watched_is_known() -> Outcome {
    let watch = Watch::new(0)?;
    let root = Root::at(Path::new("/"))?;
    assert_eq!(watch.gap(), None);
    watch.code(Path::new("/bin/sh"), || root.find(Path::new("/bin/sh")));
    assert_eq!(watch.gap(), Some(Errno::ENOTDIR));
    Ok(())
}
