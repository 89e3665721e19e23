//! Bundles across restarts, and answers of servers.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpListener,
    os::unix::fs::PermissionsExt as _,
    thread::JoinHandle,
};

use mcpmon_bundle::{Bundle, BundleFile, BundleKey, FORMAT, MAX_BUNDLE_BYTES, Manifest, PublicKey, sign};
use test_case::test_case;

use super::*;

fn key() -> BundleKey {
    BundleKey::from_pem(BundleKey::generate().unwrap().as_bytes()).unwrap()
}

fn bytes(serial: u64, key: &BundleKey, policy: &str) -> Vec<u8> {
    let manifest = Manifest {
        format: FORMAT,
        serial,
        name: None,
        created: "2026-11-26T12:00:00Z".parse().unwrap(),
        expires: Some("2027-01-01T00:00:00Z".parse().unwrap()),
        files: Vec::new(),
    };
    let bundle = Bundle::new(manifest, vec![(BundleFile::Policy, policy.to_owned())]).unwrap();
    sign(&bundle.to_tar(), key).unwrap()
}

fn settings(url: &str, keys: &[PublicKey]) -> BundleSettings {
    BundleSettings {
        url: url.to_owned(),
        keys: keys.to_vec(),
        interval: Duration::from_secs(60),
        name: None,
        ca_file: None,
    }
}

fn now() -> jiff::Timestamp {
    "2026-12-01T00:00:00Z".parse().unwrap()
}

/// A host: its bundle directory, its key and its settings.
struct Scene {
    directory: tempfile::TempDir,
    key: BundleKey,
    settings: BundleSettings,
}

impl Scene {
    fn new() -> Self {
        let key = key();
        let settings = settings("https://policy.example.com/a?token=secret", &[key.public()]);
        Self {
            directory: tempfile::tempdir().unwrap(),
            key,
            settings,
        }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("bundle")
    }

    /// Opens the state as a daemon does at its start.
    fn start(&self) -> (HostBundle, KeptBundle) {
        HostBundle::open(self.path(), Some(&self.settings))
    }

    /// Judges a bundle with this serial, puts it in force and keeps it.
    fn take(&self, host: &mut HostBundle, serial: u64) -> Result<(), String> {
        let bytes = bytes(serial, &self.key, "version: 1\n");
        let bundle = host
            .judge(&bytes, &self.settings, None, now())?
            .expect("another one");
        host.took(&bundle);
        host.keep(&bytes, bundle.id());
        Ok(())
    }
}

#[test]
fn the_last_good_bundle_and_its_serial_outlive_the_daemon() {
    let scene = Scene::new();
    let (mut host, kept) = scene.start();
    assert_eq!(kept, Ok(None));
    scene.take(&mut host, 7).unwrap();
    assert_eq!(host.trouble(now()), None);
    let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(scene.path()), 0o700);
    for file in ["current.bundle", "serial.json"] {
        assert_eq!(mode(scene.path().join(file)), 0o600);
    }
    assert_eq!(
        fs::read_dir(scene.path()).unwrap().count(),
        2,
        "nothing is left behind"
    );

    let (mut host, kept) = scene.start();
    let kept = kept.unwrap().expect("kept");
    assert_eq!(kept.id().serial, 7);
    let older = scene.take(&mut host, 6).unwrap_err();
    assert!(older.contains("an older bundle is never taken again"), "{older}");
    let other = bytes(7, &scene.key, "version: 1\n# other\n");
    let refused = host
        .judge(&other, &scene.settings, Some(kept.id()), now())
        .unwrap_err();
    assert!(refused.contains("the serial 7 of another bundle"), "{refused}");
    let same = bytes(7, &scene.key, "version: 1\n");
    assert_eq!(
        host.judge(&same, &scene.settings, Some(kept.id()), now()),
        Ok(None)
    );
    scene.take(&mut host, 8).unwrap();

    // The serial number counts even if the bundle is gone.
    fs::remove_file(scene.path().join("current.bundle")).unwrap();
    let (mut host, kept) = scene.start();
    assert_eq!(kept, Ok(None));
    scene.take(&mut host, 7).unwrap_err();
    scene.take(&mut host, 8).unwrap();
}

#[test]
fn a_bundle_that_could_not_be_kept_is_kept_when_the_server_is_heard_again() {
    let scene = Scene::new();
    let (mut host, _) = scene.start();
    fs::write(scene.path(), "no directory").unwrap();
    scene.take(&mut host, 7).unwrap();
    let trouble = host.trouble(now()).expect("it is not kept");
    assert!(
        trouble.contains("after a restart the host is without it"),
        "{trouble}"
    );
    fs::remove_file(scene.path()).unwrap();
    host.heard();
    assert_eq!(host.trouble(now()), None);
    let (_, kept) = scene.start();
    assert_eq!(kept.unwrap().expect("kept").id().serial, 7);
}

#[test]
fn what_was_put_in_its_place_is_not_taken() {
    let scene = Scene::new();
    let (mut host, _) = scene.start();
    scene.take(&mut host, 7).unwrap();
    let file = scene.path().join("current.bundle");
    for (put, expected) in [
        (bytes(6, &scene.key, "version: 1\n"), "never taken again"),
        (bytes(8, &key(), "version: 1\n"), "signed with another key"),
        (
            bytes(8, &scene.key, "version: 1\n")[..2000].to_vec(),
            "no signature",
        ),
    ] {
        fs::write(&file, put).unwrap();
        let refused = scene.start().1.unwrap_err();
        assert!(refused.contains(expected), "{refused}");
    }
    fs::remove_file(&file).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", &file).unwrap();
    scene.start().1.expect_err("a link");
}

#[test]
fn without_a_serial_that_can_be_read_nothing_is_taken() {
    let scene = Scene::new();
    let (mut host, _) = scene.start();
    scene.take(&mut host, 7).unwrap();
    let file = scene.path().join("serial.json");
    fs::write(&file, "{").unwrap();
    let (mut host, kept) = scene.start();
    assert!(kept.unwrap_err().contains("remove it to take any"));
    let refused = scene.take(&mut host, 9).unwrap_err();
    assert!(refused.contains("serial.json is damaged"), "{refused}");
    fs::remove_file(&file).unwrap();
    scene.take(&mut host, 6).unwrap();
}

#[test]
fn an_expired_bundle_is_not_taken_and_stays_in_force() {
    let scene = Scene::new();
    let (mut host, _) = scene.start();
    let later = "2027-01-01T00:00:00Z".parse().unwrap();
    let bytes = bytes(7, &scene.key, "version: 1\n");
    let refused = host.judge(&bytes, &scene.settings, None, later).unwrap_err();
    assert!(
        refused.contains("it expired at 2027-01-01T00:00:00Z"),
        "{refused}"
    );
    scene.take(&mut host, 7).unwrap();
    let (host, kept) = scene.start();
    let bundle = kept.unwrap().expect("kept");
    let mut host = host;
    host.took(&bundle);
    assert_eq!(host.trouble(now()), None);
    let trouble = host.trouble(later).expect("it is told");
    assert!(
        trouble.contains("expired at 2027-01-01T00:00:00Z and stays in force"),
        "{trouble}"
    );
    assert_eq!(
        host.judge(&bytes, &scene.settings, Some(bundle.id()), later),
        Ok(None)
    );
}

#[test]
fn a_silent_server_is_told_after_a_while_and_without_secrets() {
    let mut scene = Scene::new();
    let (mut host, _) = scene.start();
    host.not_heard(&scene.settings, true, "refused");
    assert_eq!(host.trouble(now()), None, "once is no news");
    scene.settings.interval = Duration::ZERO;
    host.not_heard(&scene.settings, true, "refused");
    host.not_heard(&scene.settings, true, "timed out");
    let trouble = host.trouble(now()).expect("it is told");
    assert!(
        trouble.contains("was not heard since the start: refused"),
        "{trouble}"
    );
    assert!(!trouble.contains("secret"), "{trouble}");
    host.heard();
    assert_eq!(host.trouble(now()), None);

    let (mut host, _) = Scene::new().start();
    host.not_heard(&scene.settings, false, "refused");
    let trouble = host.trouble(now()).expect("at once");
    assert!(trouble.contains("no bundle is in force"), "{trouble}");
    assert!(host.refuse("why".to_owned()));
    assert!(!host.refuse("why".to_owned()), "told once");
    host.end();
    assert_eq!(host.trouble(now()), None);
}

#[test]
fn hosts_do_not_stay_together() {
    let minute = Duration::from_secs(60);
    assert_eq!(jittered(minute, 0).as_secs(), 54);
    assert_eq!(jittered(minute, u64::MAX).as_secs(), 66);
    assert_eq!(jittered(minute, u64::MAX / 2).as_secs(), 59);
}

/// Starts a server that gives these answers, one to each connection. The requests are returned at its end.
fn server(answers: Vec<Vec<u8>>) -> (String, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/a.bundle", listener.local_addr().unwrap());
    let served = thread::spawn(move || {
        let answer = |answer: Vec<u8>| {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                request.push(byte[0]);
            }
            // A client that has read enough closes the connection.
            drop(stream.write_all(&answer));
            String::from_utf8(request).unwrap()
        };
        answers.into_iter().map(answer).collect()
    });
    (url, served)
}

fn answer(status: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {}\r\n{headers}\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

#[test]
fn a_server_is_asked_for_news_only() {
    let (url, served) = server(vec![
        answer("200 OK", "etag: \"one\"\r\n", b"bundle"),
        answer("304 Not Modified", "", b""),
    ]);
    let settings = settings(&url, &[]);
    let expected = FetchOutcome::Fetched {
        bytes: b"bundle".to_vec(),
        tag: Some("\"one\"".to_owned()),
    };
    assert_eq!(fetch::fetch(&settings, None), expected);
    assert_eq!(fetch::fetch(&settings, Some("\"one\"")), FetchOutcome::Unchanged);
    let requests = served.join().unwrap();
    assert!(
        !requests[0].to_ascii_lowercase().contains("if-none-match"),
        "{requests:?}"
    );
    assert!(
        requests[1]
            .to_ascii_lowercase()
            .contains("if-none-match: \"one\""),
        "{requests:?}"
    );
}

#[tokio::test]
async fn what_was_refused_is_asked_for_as_if_it_were_new() {
    let (url, served) = server(vec![
        answer("200 OK", "etag: \"one\"\r\n", b"bundle"),
        answer("200 OK", "etag: \"one\"\r\n", b"bundle"),
        answer("304 Not Modified", "", b""),
    ]);
    let (want, wanted) = watch::channel(WantedBundle {
        settings: Some(settings(&url, &[])),
        ..WantedBundle::default()
    });
    let (tell, mut told) = mpsc::channel(1);
    let fetching = tokio::spawn(keep_fetched(wanted, tell));
    for afresh in [true, false] {
        let fetched = told.recv().await.expect("an answer");
        assert!(
            matches!(fetched.outcome, FetchOutcome::Fetched { .. }),
            "{fetched:?}"
        );
        want.send_modify(|wanted| wanted.afresh = afresh);
    }
    let fetched = told.recv().await.expect("an answer");
    assert_eq!(fetched.outcome, FetchOutcome::Unchanged);
    drop(want);
    fetching.await.unwrap();
    let requests = served.join().unwrap();
    let names_one = |request: &String| request.to_ascii_lowercase().contains("if-none-match");
    let named: Vec<bool> = requests.iter().map(names_one).collect();
    assert_eq!(named, [false, false, true], "{requests:?}");
}

#[test_case("302 Found", "location: http://169.254.169.254/x?y\r\n", "points to http://169.254.169.254/x, and redirects are not followed"; "elsewhere")]
#[test_case("304 Not Modified", "", "http status 304"; "unchanged from nothing")]
#[test_case("404 Not Found", "", "http status 404"; "nothing")]
#[test_case("503 Service Unavailable", "", "http status 503"; "not now")]
fn another_answer_is_none(status: &str, headers: &str, expected: &str) {
    let (url, served) = server(vec![answer(status, headers, b"")]);
    let outcome = fetch::fetch(&settings(&url, &[]), None);
    let FetchOutcome::Failed(cause) = outcome else {
        panic!("{outcome:?}");
    };
    assert!(cause.contains(expected), "{cause}");
    served.join().unwrap();
}

#[test]
fn a_bundle_without_end_is_not_read_to_it() {
    let (url, served) = server(vec![answer("200 OK", "", &vec![0; MAX_BUNDLE_BYTES + 4096])]);
    let outcome = fetch::fetch(&settings(&url, &[]), None);
    let FetchOutcome::Fetched { bytes, .. } = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!(bytes.len(), MAX_BUNDLE_BYTES + 1);
    served.join().unwrap();
}

#[test]
fn a_file_is_read_as_it_changes() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.bundle");
    let settings = settings(&format!("file://{}", path.display()), &[]);
    assert!(matches!(fetch::fetch(&settings, None), FetchOutcome::Failed(_)));
    fs::write(&path, "one").unwrap();
    let FetchOutcome::Fetched { bytes, tag } = fetch::fetch(&settings, None) else {
        panic!("it is there");
    };
    assert_eq!(bytes, b"one");
    assert_eq!(fetch::fetch(&settings, tag.as_deref()), FetchOutcome::Unchanged);
    fs::write(&path, "two").unwrap();
    assert!(matches!(
        fetch::fetch(&settings, tag.as_deref()),
        FetchOutcome::Fetched { .. }
    ));
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert!(matches!(fetch::fetch(&settings, None), FetchOutcome::Failed(_)));
}
