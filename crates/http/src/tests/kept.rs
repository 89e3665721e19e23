//! Stored bodies: they are those that were sent, and are stored sealed only.

use std::{fs, os::unix::fs::PermissionsExt as _, path::PathBuf, time::Duration};

use mcpmon_session::clock;
use mcpmon_store::{BodyKey, BodySettings, BodySide, Keeper, Recorder, RecorderSettings, StoreReader};
use tempfile::TempDir;

use super::scene::{CHAT, END, EVENTS, JSON, PLAIN, Rules, SAID, STREAMED, Scene, answer, event};

/// A store, and the keeper of bodies in it.
struct Kept {
    directory: TempDir,
    key: PathBuf,
    recorder: Recorder,
    keeper: Keeper,
}

impl Kept {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let key = directory.path().join("key");
        fs::write(&key, [9; 32]).unwrap();
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
        let recorder = Recorder::start(RecorderSettings::new(directory.path().join("mcpmon.db"))).unwrap();
        let settings = BodySettings {
            key_file: Some(key.clone()),
            max_body: 1 << 20,
            retention: Duration::from_hours(1),
        };
        let keeper = Keeper::start(&settings, recorder.clone()).unwrap();
        Self {
            directory,
            key,
            recorder,
            keeper,
        }
    }

    fn rules(&self) -> Rules {
        Rules {
            keeper: Some(self.keeper.clone()),
            ..Rules::default()
        }
    }

    /// Returns the bodies by side, once `scene` is over; checks that none of `secrets` is in a file of the store.
    fn bodies(self, mut scene: Scene, secrets: &[&str]) -> Vec<(BodySide, String)> {
        scene.proxy.take().expect("it runs").stop();
        drop(scene);
        self.keeper.finish();
        self.recorder.close();
        let mut read = 0;
        for file in fs::read_dir(self.directory.path()).unwrap() {
            let bytes = fs::read(file.unwrap().path()).unwrap();
            read += bytes.len();
            for secret in secrets {
                let is_there = bytes
                    .windows(secret.len())
                    .any(|window| window == secret.as_bytes());
                assert!(!is_there, "{secret} in clear");
            }
        }
        assert!(read > 4096, "the store was read");
        let reader = StoreReader::open(&self.directory.path().join("mcpmon.db")).unwrap();
        let key = BodyKey::at(&self.key).unwrap();
        let bodies = reader.bodies_of(clock::now(), "req-1").unwrap();
        let opened = bodies.iter().map(|body| {
            let text = String::from_utf8(body.open(&key).unwrap()).unwrap();
            (body.label.side, text)
        });
        opened.collect()
    }
}

#[test]
fn an_answer_that_comes_whole() {
    let kept = Kept::new();
    let scene = Scene::with(
        kept.rules(),
        |_| {},
        |_, wire| wire.send(answer("200 OK", JSON, SAID)),
    );
    let heard = scene.ask(CHAT, "", PLAIN).text();
    let sent = scene.provider_heard().text();
    let bodies = kept.bodies(scene, &["hello", "messages"]);
    assert_eq!(bodies, [(BodySide::Request, sent), (BodySide::Response, heard)]);
}

#[test]
fn a_stream_as_the_agent_got_it() {
    let kept = Kept::new();
    let scene = Scene::with(
        kept.rules(),
        |_| {},
        |_, wire| {
            wire.send(EVENTS);
            wire.chunk(event("one"));
            wire.chunk("data: {\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"t1\",\"type\":\"function\",\"function\":{\"name\":\"evil\",\"arguments\":\"{}\"}}]},\"finish_reason\":null}]}\n\n");
            wire.chunk(END.replacen("\"stop\"", "\"tool_calls\"", 1));
            wire.chunk("");
        },
    );
    let heard = scene.ask(CHAT, "", STREAMED).text();
    assert!(heard.contains("blocked by policy"), "{heard}");
    let bodies = kept.bodies(scene, &["blocked by policy", "chat.completion", "messages"]);
    assert_eq!(
        bodies,
        [
            (BodySide::Request, STREAMED.to_owned()),
            (BodySide::Response, heard)
        ]
    );
}

#[test]
fn an_error_of_the_provider() {
    let kept = Kept::new();
    let scene = Scene::with(
        kept.rules(),
        |_| {},
        |_, wire| wire.send(answer("429 Too Many Requests", JSON, "{\"error\":\"slow down\"}")),
    );
    let heard = scene.ask(CHAT, "", PLAIN);
    assert_eq!(heard.status(), "429");
    let bodies = kept.bodies(scene, &["slow down"]);
    assert_eq!(bodies.last(), Some(&(BodySide::Response, heard.text())));
}
